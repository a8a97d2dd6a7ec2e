//! What a schema consists of.

use std::collections::{BTreeMap, BTreeSet};

use crate::syntax::ast::IndexTargetKind;

use super::constraint::Constraint;
use super::data_type::DataType;

/// Keyspaces and what is in them.
///
/// Cassandra's own keyspaces are known without being read: [`Schema::table`] finds their tables even where
/// [`Schema::keyspaces`] does not hold them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// By name.
    pub keyspaces: BTreeMap<String, Keyspace>,
}

/// A keyspace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keyspace {
    /// Its name, unquoted.
    pub name: String,
    /// The `replication` map: `class` and what that class needs.
    pub replication: BTreeMap<String, String>,
    /// Whether writes go through the commit log.
    pub durable_writes: bool,
    /// Whether tables are placed by Scylla's tablets instead of the ring.
    pub tablets: bool,
    /// Tables and materialized views by name.
    pub tables: BTreeMap<String, Table>,
    /// User-defined types by name.
    pub types: BTreeMap<String, UserType>,
    /// Names of user-defined functions.
    pub functions: BTreeSet<String>,
    /// Names of user-defined aggregates.
    pub aggregates: BTreeSet<String>,
}

/// A table or a materialized view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Its keyspace, unquoted.
    pub keyspace: String,
    /// Its name, unquoted.
    pub name: String,
    /// Partition key, clustering columns, then static and regular ones, each by name: the order of `SELECT
    /// *`.
    pub columns: Vec<Column>,
    /// Columns that were dropped: one of that name may come back only as what it was.
    pub dropped: Vec<Column>,
    /// Secondary indexes by name.
    pub indexes: BTreeMap<String, Index>,
    /// What makes it a materialized view.
    pub view: Option<View>,
    /// Defined with `COMPACT STORAGE`.
    pub compact_storage: bool,
    /// All other properties that were given: `comment`, `gc_grace_seconds`, `compaction`, ...
    pub options: BTreeMap<String, OptionValue>,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name, unquoted.
    pub name: String,
    /// Its part in the primary key.
    pub kind: ColumnKind,
    /// Its type as defined; [`Keyspace::resolve`] gives the type of its values.
    pub data_type: DataType,
    /// What each of its values has to be, where a definition says it.
    pub constraints: Vec<Constraint>,
}

/// The part that a column has in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// One of the columns that say which partition.
    PartitionKey,
    /// One of the columns that say which row of a partition, and how rows are ordered.
    Clustering(Order),
    /// One value per partition.
    Static,
    /// One value per row.
    Regular,
}

/// The direction in which a clustering column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// `ASC`
    #[default]
    Ascending,
    /// `DESC`
    Descending,
}

/// What makes a table a materialized view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The table of the same keyspace that it is made of.
    pub base: String,
    /// Made with `SELECT *`: columns that are added to the base are added to the view.
    pub include_all_columns: bool,
    /// Its `WHERE` clause as CQL, without the word.
    pub where_clause: String,
}

/// A secondary index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Its name, unique in the keyspace.
    pub name: String,
    /// What it indexes; one column except for custom indexes.
    pub targets: Vec<IndexTarget>,
    /// Which implementation.
    pub class: IndexClass,
    /// Its `OPTIONS`.
    pub options: BTreeMap<String, String>,
}

/// One indexed column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexTarget {
    /// The column, unquoted.
    pub column: String,
    /// Which part of it: its value, or a collection's values, keys, entries, or all of it.
    pub kind: IndexTargetKind,
}

/// The implementations of secondary indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexClass {
    /// The original one (2i): a hidden local table.
    Legacy,
    /// Storage-attached.
    Sai,
    /// SSTable-attached.
    Sasi,
    /// Any other, by its class name.
    Custom(String),
}

/// A user-defined type.
#[derive(Debug, Clone, PartialEq)]
pub struct UserType {
    /// Its name, unquoted.
    pub name: String,
    /// Names and types of its fields, in order.
    pub fields: Vec<(String, DataType)>,
}

/// The value of a table's property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    /// A string.
    Text(String),
    /// A number, boolean, UUID or word, as CQL writes it.
    Plain(String),
    /// A map of strings.
    Map(BTreeMap<String, String>),
}

impl Table {
    /// What tables have that say nothing else, ten days: `TableParams.DEFAULT_GC_GRACE_SECONDS`.
    pub const GC_GRACE_SECONDS: u64 = 864_000;

    /// The columns of the partition key, in key order.
    pub fn partition_key(&self) -> &[Column] {
        let length = self.count(|kind| kind == ColumnKind::PartitionKey);
        &self.columns[..length]
    }

    /// The clustering columns, in order.
    pub fn clustering(&self) -> &[Column] {
        let start = self.partition_key().len();
        let length = self.count(|kind| matches!(kind, ColumnKind::Clustering(_)));
        &self.columns[start..start + length]
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The table that a materialized view is made of.
    pub fn base(&self) -> Option<&str> {
        self.view.as_ref().map(|view| view.base.as_str())
    }

    /// Whether its columns are counters.
    pub fn is_counter(&self) -> bool {
        self.columns.iter().any(|column| column.data_type.is_counter())
    }

    /// Whether it is an old table of one row a partition: Cassandra keeps its columns as static ones.
    pub(crate) fn is_static_compact(&self) -> bool {
        self.compact_storage && self.clustering().is_empty()
    }

    /// Its comment, empty if there is none.
    pub fn comment(&self) -> &str {
        match self.options.get("comment") {
            Some(OptionValue::Text(text)) => text,
            _ => "",
        }
    }

    /// Whether transactions may read and write it (`transactional_mode` of Cassandra 6.0, `TransactionalMode`).
    pub fn is_transactional(&self) -> bool {
        self.transactional_mode().is_some()
    }

    /// How writes that are no transactions go together with those that are: `full`, `mixed_reads`, … None where no
    /// transaction may touch it.
    pub fn transactional_mode(&self) -> Option<String> {
        match self.options.get("transactional_mode")? {
            OptionValue::Text(mode) | OptionValue::Plain(mode) => {
                let mode = mode.to_ascii_lowercase();
                (mode != "off").then_some(mode)
            }
            OptionValue::Map(_) => None,
        }
    }

    /// Seconds after which rows expire that are written without a TTL; 0: never.
    pub fn default_time_to_live(&self) -> u64 {
        self.number("default_time_to_live").unwrap_or(0)
    }

    /// Seconds for which tombstones are kept.
    pub fn gc_grace_seconds(&self) -> u64 {
        self.number("gc_grace_seconds").unwrap_or(Self::GC_GRACE_SECONDS)
    }

    fn number(&self, option: &str) -> Option<u64> {
        match self.options.get(option)? {
            OptionValue::Text(text) | OptionValue::Plain(text) => text.parse().ok(),
            OptionValue::Map(_) => None,
        }
    }

    fn count(&self, is: impl Fn(ColumnKind) -> bool) -> usize {
        self.columns.iter().filter(|column| is(column.kind)).count()
    }

    /// Puts static columns and then regular ones behind the primary key, each in the order of their names
    /// (`TableMetadata.allColumnsInSelectOrder`).
    pub(super) fn sort_columns(&mut self) {
        self.columns
            .sort_by(|left, right| left.in_select_order().cmp(&right.in_select_order()));
    }

    /// Adds a column to sorted ones; false if there is one of that name. Thousands come one by one in scripts.
    pub(super) fn add_column(&mut self, column: &Column) -> bool {
        let is_of_kind = |rank| {
            let place = (rank, Some(column.name.as_str()));
            let found = self
                .columns
                .binary_search_by(|other| other.in_select_order().cmp(&place));
            found.is_ok()
        };
        let mut key = self.columns.iter().take_while(|other| other.is_primary_key());
        if key.any(|other| other.name == column.name) || is_of_kind(STATIC) || is_of_kind(REGULAR) {
            return false;
        }
        let at = self
            .columns
            .partition_point(|other| other.in_select_order() < column.in_select_order());
        self.columns.insert(at, column.clone());
        true
    }
}

/// The ranks of columns beside the primary key in [`Column::in_select_order`].
const STATIC: u8 = 2;
const REGULAR: u8 = 3;

impl Column {
    /// What columns are sorted by.
    fn in_select_order(&self) -> (u8, Option<&str>) {
        match self.kind {
            ColumnKind::PartitionKey => (0, None),
            ColumnKind::Clustering(_) => (1, None),
            ColumnKind::Static => (STATIC, Some(&self.name)),
            ColumnKind::Regular => (REGULAR, Some(&self.name)),
        }
    }

    /// Whether it is part of the primary key.
    pub fn is_primary_key(&self) -> bool {
        matches!(self.kind, ColumnKind::PartitionKey | ColumnKind::Clustering(_))
    }

    /// Whether it is a clustering column that is stored in descending order.
    pub fn is_descending(&self) -> bool {
        self.kind == ColumnKind::Clustering(Order::Descending)
    }
}

impl IndexClass {
    /// The class behind the name that `USING` or `class_name` gives: an alias, a simple or a full Java name.
    pub fn of(name: &str) -> Self {
        let simple = name.rsplit('.').next().unwrap_or(name);
        match simple.to_ascii_lowercase().as_str() {
            "sai" | "storageattachedindex" => Self::Sai,
            "sasi" | "sasiindex" => Self::Sasi,
            "legacy_local_table" | "cassandraindex" | "compositesindex" | "keysindex" => Self::Legacy,
            _ => Self::Custom(name.to_owned()),
        }
    }
}
