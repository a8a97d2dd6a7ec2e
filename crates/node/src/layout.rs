//! A table as statements need it: its columns with the types of their values, resolved once per change of the
//! schema.

use bytes::Bytes;
use cqlens_proto::types::CqlType;

use super::answer::ResultColumn;
use super::failure::Failure;
use super::store::{ClusteringKey, Partition, Row, Seconds, order};
use cqlens_cql::schema::{self, ColumnKind, IndexTargetKind, Keyspace};

/// The columns of a table or view.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    /// Its keyspace.
    pub(super) keyspace: String,
    /// Its name.
    pub(super) name: String,
    /// Partition key, clustering columns, then all others by name.
    pub(super) columns: Vec<Column>,
    /// How many columns the partition key has.
    pub(super) partition_key_len: usize,
    /// How many clustering columns there are.
    pub(super) clustering_len: usize,
    /// What its secondary indexes are on.
    pub(super) indexes: Vec<(String, IndexTargetKind)>,
    /// The table of the same keyspace that it is a view of.
    pub(super) base: Option<String>,
    /// Whether its values are counters.
    pub(super) is_counter: bool,
    /// Seconds after which rows expire by default; 0: never.
    pub(super) default_ttl: i32,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    /// Its name.
    pub(super) name: String,
    /// Its part in the key.
    pub(super) kind: ColumnKind,
    /// The type of its values.
    pub(super) cql_type: CqlType,
    /// Whether a part of the value can be written: a collection or user-defined type that is not frozen.
    pub(super) is_multi_cell: bool,
    /// Its place in [`Layout::columns`].
    pub(super) index: usize,
}

impl Layout {
    /// The layout of a table of a schema.
    pub(super) fn of(keyspace: &Keyspace, table: &schema::Table) -> Layout {
        let columns = table.columns.iter().enumerate().map(|(index, column)| Column {
            name: column.name.clone(),
            kind: column.kind,
            cql_type: keyspace.resolve(&column.data_type),
            is_multi_cell: column.data_type.is_multi_cell(),
            index,
        });
        let targets = table.indexes.values().flat_map(|index| &index.targets);
        Layout {
            keyspace: table.keyspace.clone(),
            name: table.name.clone(),
            columns: columns.collect(),
            partition_key_len: table.partition_key().len(),
            clustering_len: table.clustering().len(),
            indexes: targets
                .map(|target| (target.column.clone(), target.kind))
                .collect(),
            base: table.base().map(str::to_owned),
            is_counter: table.is_counter(),
            default_ttl: i32::try_from(table.default_time_to_live()).unwrap_or(0),
        }
    }

    /// The columns of the partition key.
    pub(super) fn partition_key(&self) -> &[Column] {
        &self.columns[..self.partition_key_len]
    }

    /// The clustering columns.
    pub(super) fn clustering(&self) -> &[Column] {
        &self.columns[self.partition_key_len..][..self.clustering_len]
    }

    /// The columns that are not part of the primary key.
    pub(super) fn values(&self) -> &[Column] {
        &self.columns[self.partition_key_len + self.clustering_len..]
    }

    /// Whether there is a static column.
    pub(super) fn has_static(&self) -> bool {
        self.values()
            .iter()
            .any(|column| column.kind == ColumnKind::Static)
    }

    /// The column of that name.
    ///
    /// # Errors
    /// Cassandra's text if there is none.
    pub(super) fn column(&self, name: &str) -> Result<&Column, Failure> {
        self.columns
            .iter()
            .find(|column| column.name == name)
            .ok_or_else(|| {
                Failure::invalid(format!(
                    "Undefined column name {name} in table {}.{}",
                    self.keyspace, self.name
                ))
            })
    }

    /// A column as results name it.
    pub(super) fn result_column(&self, name: &str, cql_type: &CqlType) -> ResultColumn {
        ResultColumn {
            keyspace: self.keyspace.clone(),
            table: self.name.clone(),
            name: name.to_owned(),
            column_type: cql_type.clone(),
        }
    }

    /// The place of a row.
    pub(super) fn clustering_key(&self, clustering: Vec<Bytes>) -> ClusteringKey {
        let mut position = Vec::new();
        for (column, value) in self.clustering().iter().zip(&clustering) {
            column.push_position(&mut position, value);
        }
        ClusteringKey { position, clustering }
    }
}

impl Column {
    /// Appends the order-preserving form of a clustering value, in the direction in which the column is
    /// stored.
    pub(super) fn push_position(&self, position: &mut Vec<u8>, value: &[u8]) {
        if self.is_descending() {
            order::push_descending(position, &self.cql_type, value);
        } else {
            order::push(position, &self.cql_type, value);
        }
    }

    /// Whether it is a clustering column stored in descending order.
    pub(super) fn is_descending(&self) -> bool {
        self.kind == ColumnKind::Clustering(schema::Order::Descending)
    }

    /// Whether it is a part of the partition key.
    pub(super) fn is_partition_key(&self) -> bool {
        self.kind == ColumnKind::PartitionKey
    }

    /// Whether it is a clustering column.
    pub(super) fn is_clustering(&self) -> bool {
        matches!(self.kind, ColumnKind::Clustering(_))
    }

    /// Whether it is part of the primary key.
    pub(super) fn is_primary_key(&self) -> bool {
        self.is_partition_key() || self.is_clustering()
    }
}

/// A row as a read sees it: with the partition it is in. Without a row it is what static columns say alone.
#[derive(Clone, Copy)]
pub(super) struct RowView<'a> {
    /// The columns.
    pub(super) layout: &'a Layout,
    /// The partition.
    pub(super) partition: &'a Partition,
    /// The row; none where the partition has only static columns.
    pub(super) row: Option<&'a Row>,
    /// Decides what has expired.
    pub(super) now: Seconds,
}

impl<'a> RowView<'a> {
    /// The value of a column; `None` is null.
    pub(super) fn value(&self, column: &Column) -> Option<&'a Bytes> {
        match column.kind {
            ColumnKind::PartitionKey => self.partition.key.get(column.index),
            ColumnKind::Clustering(_) => self
                .row?
                .clustering
                .get(column.index - self.layout.partition_key_len),
            ColumnKind::Static | ColumnKind::Regular => {
                let cell = self.cells(column)?.cells.get(&column.name)?;
                cell.live_value(self.now)
            }
        }
    }

    /// The row that holds the cell of a column outside the primary key.
    pub(super) fn cells(&self, column: &Column) -> Option<&'a Row> {
        match column.kind {
            ColumnKind::Static => Some(&self.partition.static_row),
            _ => self.row,
        }
    }
}
