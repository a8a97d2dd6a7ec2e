//! Mutations: what a statement changes in one partition, and how the store takes it.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::types::CqlType;

use super::assignment::long_of;
use crate::bind::{self, Bound};
use crate::failure::Failure;
use crate::function::long;
use crate::layout::{Column, Layout};
use crate::store::{
    Cell, ClusteringKey, Expiry, Liveness, PartitionId, Row, Seconds, StoredTable, Stretch, Timestamp,
};
use cqlens_cql::schema::ColumnKind;

/// A change of one partition.
#[derive(Debug, Clone)]
pub(crate) struct Mutation {
    /// Of the table.
    pub(crate) layout: Arc<Layout>,
    /// The partition key.
    pub(crate) key: Vec<Bytes>,
    /// What happens to it.
    pub(crate) change: PartitionChange,
    /// When.
    pub(crate) timestamp: Timestamp,
}

/// What happens to a partition.
#[derive(Debug, Clone)]
pub(crate) enum PartitionChange {
    /// Cells of one row are written.
    Row {
        /// The row; `None` where only static columns are written.
        place: Option<ClusteringKey>,
        /// An INSERT makes the row exist.
        liveness: Option<Liveness>,
        /// Columns and what happens to them.
        cells: Vec<(usize, CellChange)>,
        /// When the cells go away by themselves.
        expiry: Option<Expiry>,
    },
    /// A row tombstone.
    DeleteRow(ClusteringKey),
    /// A range tombstone.
    DeleteStretch(Stretch),
    /// A partition tombstone.
    DeletePartition,
}

/// What happens to a cell. Collections are kept whole: changes of a part read what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CellChange {
    Put(Bytes),
    Delete,
    /// Of a counter, or of a whole number in a transaction.
    Increment(i64),
    /// Elements of a list behind the others, of a set or map among them.
    Append(Bytes),
    /// Elements of a list before the others.
    Prepend(Bytes),
    /// Elements of a list or set, keys of a map.
    Remove(Bytes),
    /// The value of a map's key or at a list's index, or none.
    PutElement(Bytes, Option<Bytes>),
    /// A field of a user-defined type, or null.
    PutField(String, Option<Bytes>),
}

impl Mutation {
    /// The partition that it changes.
    ///
    /// # Errors
    /// A key that is too long.
    pub(crate) fn partition(&self) -> Result<PartitionId, Failure> {
        PartitionId::of(&self.key).ok_or_else(|| Failure::invalid("Partition key is too long"))
    }

    /// The row that it changes, if it is one: without clustering columns, the partition is a row.
    pub(crate) fn place(&self) -> Option<ClusteringKey> {
        match &self.change {
            PartitionChange::Row { place, .. } => place.clone(),
            PartitionChange::DeleteRow(place) => Some(place.clone()),
            PartitionChange::DeletePartition if self.layout.clustering_len == 0 => {
                Some(self.layout.clustering_key(Vec::new()))
            }
            PartitionChange::DeleteStretch(_) | PartitionChange::DeletePartition => None,
        }
    }

    /// Bytes of key and values, roughly what Cassandra measures of a batch.
    pub(crate) fn size(&self) -> usize {
        let key: usize = self.key.iter().map(Bytes::len).sum();
        let cells = match &self.change {
            PartitionChange::Row { cells, .. } => cells
                .iter()
                .map(|(_, change)| change.size() + CELL_OVERHEAD)
                .sum(),
            _ => 0,
        };
        key + cells + self.place().map_or(0, |place| place.position.len())
    }

    /// Writes it.
    ///
    /// # Errors
    /// Parts of values that are not there.
    pub(crate) fn apply(self, table: &mut StoredTable, now: Seconds) -> Result<(), Failure> {
        let id = self.partition()?;
        let partition = table.partition_mut(id, &self.key);
        match self.change {
            PartitionChange::DeletePartition => partition.delete(self.timestamp),
            PartitionChange::DeleteStretch(stretch) => partition.delete_stretch(stretch, self.timestamp),
            PartitionChange::DeleteRow(place) => {
                partition.change_row(&place, |row| row.delete(self.timestamp))
            }
            PartitionChange::Row {
                place,
                liveness,
                cells,
                expiry,
            } => {
                let write = Write {
                    timestamp: self.timestamp,
                    expiry,
                    now,
                };
                let (of_partition, of_row): (Vec<_>, Vec<_>) = cells
                    .into_iter()
                    .map(|(index, change)| (&self.layout.columns[index], change))
                    .partition(|(column, _)| column.kind == ColumnKind::Static);
                if !of_partition.is_empty() {
                    partition.change_static_row(|row| write.cells(row, of_partition))?;
                }
                if let Some(place) = place {
                    partition.change_row(&place, |row| {
                        if let Some(liveness) = liveness {
                            row.insert(liveness);
                        }
                        write.cells(row, of_row)
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// What a cell costs beside its value, roughly.
const CELL_OVERHEAD: usize = 8;

impl CellChange {
    fn size(&self) -> usize {
        match self {
            CellChange::Put(value)
            | CellChange::Append(value)
            | CellChange::Prepend(value)
            | CellChange::Remove(value) => value.len(),
            CellChange::PutElement(key, value) => key.len() + value.as_ref().map_or(0, Bytes::len),
            CellChange::PutField(_, value) => value.as_ref().map_or(0, Bytes::len),
            CellChange::Delete | CellChange::Increment(_) => 8,
        }
    }
}

/// The circumstances of a write.
struct Write {
    timestamp: Timestamp,
    expiry: Option<Expiry>,
    now: Seconds,
}

impl Write {
    fn cells(&self, row: &mut Row, cells: Vec<(&Column, CellChange)>) -> Result<(), Failure> {
        for (column, change) in cells {
            let value = self.value(row.value(&column.name, self.now), column, change)?;
            let expiry = self.expiry.filter(|_| value.is_some());
            row.write(
                &column.name,
                Cell {
                    timestamp: self.timestamp,
                    value,
                    expiry,
                },
            );
        }
        Ok(())
    }

    /// The value of a cell after a change; `None` for a tombstone.
    fn value(
        &self,
        present: Option<&Bytes>,
        column: &Column,
        change: CellChange,
    ) -> Result<Option<Bytes>, Failure> {
        let cql_type = &column.cql_type;
        Ok(match change {
            CellChange::Put(value) => Some(value),
            CellChange::Delete => None,
            // Of a counter nothing is zero; of a number it stays nothing.
            CellChange::Increment(by) => match (present, cql_type) {
                (None, CqlType::Counter) => Some(long(by)),
                (present, _) => present.map(|present| incremented(present, by)),
            },
            CellChange::Append(added) => some_collection(joined(present, &added, cql_type)?),
            CellChange::Prepend(added) => {
                let present = present.cloned().unwrap_or_else(|| Bytes::from_static(&[0; 4]));
                some_collection(joined(Some(&added), &present, cql_type)?)
            }
            CellChange::Remove(removed) => match present {
                Some(present) => some_collection(without(present, &removed, cql_type)?),
                None => None,
            },
            CellChange::PutElement(key, value) => {
                some_collection(with_element(present, key, value, cql_type)?)
            }
            CellChange::PutField(field, value) => Some(with_field(present, &field, value, cql_type)?),
        })
    }
}

/// A serialized whole number of at most eight bytes after an increment.
fn incremented(number: &[u8], by: i64) -> Bytes {
    let sum = long_of(number).wrapping_add(by).to_be_bytes();
    Bytes::copy_from_slice(&sum[sum.len() - number.len().min(sum.len())..])
}

/// An empty collection is no value.
fn some_collection(collection: Bytes) -> Option<Bytes> {
    Some(collection).filter(|collection| collection[..] != [0; 4])
}

fn values(collection: &[u8]) -> Result<Vec<Bytes>, Failure> {
    Ok(bind::elements(collection)?
        .into_iter()
        .filter_map(Bound::value)
        .collect())
}

fn joined(present: Option<&Bytes>, added: &[u8], cql_type: &CqlType) -> Result<Bytes, Failure> {
    if let CqlType::Map(types) = cql_type {
        let mut entries = present
            .map(|present| bind::map_entries(present))
            .unwrap_or_default();
        entries.extend(bind::map_entries(added));
        return bind::map_of(entries, &types.0);
    }
    let mut all = present
        .map(|present| values(present))
        .transpose()?
        .unwrap_or_default();
    all.extend(values(added)?);
    match cql_type {
        CqlType::Set(element) => bind::set_of(all, element),
        _ => bind::collection(all.len(), &all),
    }
}

fn without(present: &[u8], removed: &[u8], cql_type: &CqlType) -> Result<Bytes, Failure> {
    let removed = values(removed)?;
    if let CqlType::Map(types) = cql_type {
        let mut entries = bind::map_entries(present);
        entries.retain(|(key, _)| !removed.contains(key));
        return bind::map_of(entries, &types.0);
    }
    let mut all = values(present)?;
    all.retain(|value| !removed.contains(value));
    bind::collection(all.len(), &all)
}

fn with_element(
    present: Option<&Bytes>,
    key: Bytes,
    value: Option<Bytes>,
    cql_type: &CqlType,
) -> Result<Bytes, Failure> {
    if let CqlType::Map(types) = cql_type {
        let mut entries = present
            .map(|present| bind::map_entries(present))
            .unwrap_or_default();
        entries.retain(|(its_key, _)| *its_key != key);
        entries.extend(value.map(|value| (key, value)));
        return bind::map_of(entries, &types.0);
    }
    let mut all = present
        .map(|present| values(present))
        .transpose()?
        .unwrap_or_default();
    let wanted = key[..].try_into().map_or(-1, i32::from_be_bytes);
    let Some(index) = usize::try_from(wanted).ok().filter(|index| *index < all.len()) else {
        let size = all.len();
        return Err(Failure::invalid(format!(
            "List index {wanted} out of bound, list has size {size}"
        )));
    };
    match value {
        Some(value) => all[index] = value,
        None => drop(all.remove(index)),
    }
    bind::collection(all.len(), &all)
}

fn with_field(
    present: Option<&Bytes>,
    field: &str,
    value: Option<Bytes>,
    cql_type: &CqlType,
) -> Result<Bytes, Failure> {
    let CqlType::Udt(udt) = cql_type else {
        return Err(Failure::invalid("Only user-defined types have fields"));
    };
    let mut fields = bind::components(present.map_or(&[][..], |present| present), udt.fields.len())?;
    let Some(index) = udt.fields.iter().position(|(name, _)| name == field) else {
        return Err(Failure::invalid(format!(
            "UDT {} does not have a field named {field}",
            udt.name
        )));
    };
    fields[index] = value.map_or(Bound::Null, Bound::Value);
    bind::components_of(fields.into_iter().map(Ok))
}
