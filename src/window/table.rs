//! The traffic of one table or view in a window.

use serde::{Deserialize, Serialize};

use super::{Distinct, Distribution, Heavy, InsertedRows, pattern::Tombstones};

/// Keyspace and table (or view), as the schema spells them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TableName {
    /// The keyspace.
    pub keyspace: String,
    /// The table or materialized view.
    pub table: String,
}

impl std::fmt::Display for TableName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.keyspace, self.table)
    }
}

impl From<TableName> for String {
    fn from(name: TableName) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for TableName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        // Names hold no dots: Cassandra allows letters, digits and underscores in keyspace and table names.
        let (keyspace, table) = text.split_once('.').ok_or("a table name is keyspace.table")?;
        Ok(Self {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
        })
    }
}

/// Counters and sketches of one table; a batch counts once for each table that it writes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TableTraffic {
    /// Reads (pages count each).
    pub reads: u64,
    /// Writes: statements, those inside batches included.
    pub writes: u64,
    /// Partitions of each read whose number is known.
    pub partitions_per_read: Distribution,
    /// What the server said of tombstones.
    pub tombstones: Tombstones,
    /// The partitions that are used most, by keyed hash.
    pub top_partitions: Heavy,
    /// Different partitions that were named, by keyed hash.
    pub distinct_partitions: Distinct,
    /// The rows that INSERTs write.
    #[serde(default)]
    pub inserted: InsertedRows,
}

impl TableTraffic {
    /// Adds the traffic of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.partitions_per_read.merge(&other.partitions_per_read);
        self.tombstones.merge(&other.tombstones);
        self.top_partitions.merge(&other.top_partitions);
        self.distinct_partitions.merge(&other.distinct_partitions);
        self.inserted.merge(&other.inserted);
    }
}
