//! What of written and read values is counted: the rows that INSERTs write, and the columns that have an
//! index.
//!
//! Values are hashes here, keyed by the operator; sketches keep none of them.

use serde::{Deserialize, Serialize};

use super::{Distinct, RowSample};

/// INSERTs into one table whose whole primary key is known, conditional ones left out: they overwrite
/// nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InsertedRows {
    /// INSERTs, those of batches each.
    pub inserts: u64,
    /// Different rows, by keyed hash of the primary key.
    pub rows: Distinct,
    /// Different rows with what was written into them: more than `rows` where a row came again with other
    /// values.
    pub contents: Distinct,
    /// Some of the rows, where a partition has several.
    #[serde(default, skip_serializing_if = "RowSample::is_empty")]
    pub sample: RowSample,
    /// How many rows the sample has at most, where that is fewer than usual: what is merged with it has no more, or
    /// some rows would be likelier to be in it than others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sample_most: Option<u16>,
}

impl InsertedRows {
    /// INSERTs that certainly met a row that another one of the same window had written.
    pub fn overwrites(&self) -> u64 {
        self.inserts.saturating_sub(self.rows.at_most())
    }

    /// Of those, the ones that certainly brought other values than the row had been given before.
    pub fn changes(&self) -> u64 {
        let changes = self.contents.at_least().saturating_sub(self.rows.at_most());
        changes.min(self.overwrites())
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.inserts += other.inserts;
        self.rows.merge(&other.rows);
        self.contents.merge(&other.contents);
        self.sample.merge(&other.sample);
        let both = self.sample_most.into_iter().chain(other.sample_most);
        if let Some(most) = both.min() {
            self.keep_sample(most);
        }
    }

    /// Keeps a sample of no more than `most` rows from now on.
    pub(super) fn keep_sample(&mut self, most: u16) {
        self.sample.keep(usize::from(most));
        self.sample_most = Some(most);
    }
}

/// Writes to and reads of a column that has an index.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IndexedColumn {
    /// INSERTs that give it a value.
    pub inserts: u64,
    /// UPDATEs that set it and DELETEs of the column: the index has an entry for the old value, too.
    pub updates: u64,
    /// Writes whose row and value are known: those that the two sketches speak of.
    pub known: u64,
    /// Different rows among them.
    pub rows: Distinct,
    /// Different values among them.
    pub values: Distinct,
    /// Reads that ask the index without the partition key (pages of one read counted once).
    pub reads: u64,
    /// Reads that ask it within a partition.
    pub reads_in_partition: u64,
    /// Different values that reads asked for with `=`.
    pub asked: Distinct,
}

impl IndexedColumn {
    /// How often it was written or read.
    pub fn uses(&self) -> u64 {
        self.inserts + self.updates + self.reads + self.reads_in_partition
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.inserts += other.inserts;
        self.updates += other.updates;
        self.known += other.known;
        self.rows.merge(&other.rows);
        self.values.merge(&other.values);
        self.reads += other.reads;
        self.reads_in_partition += other.reads_in_partition;
        self.asked.merge(&other.asked);
    }
}

/// How many columns with an index a window tells apart; what further ones hold is not counted. At most 6 KiB
/// each.
pub const MAX_INDEXED_COLUMNS: usize = 1_024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn inserted(rows: impl Iterator<Item = (u64, u64)>) -> InsertedRows {
        let mut inserted = InsertedRows::default();
        for (row, content) in rows {
            inserted.inserts += 1;
            inserted.rows.insert(row);
            inserted.contents.insert(row << 32 | content);
        }
        inserted
    }

    #[test]
    fn rows_that_come_again_are_overwrites_and_other_values_changes() {
        let once = inserted((0..10_000).map(|row| (row, 0)));
        assert_eq!((once.overwrites(), once.changes()), (0, 0));
        let same = inserted((0..100).chain(0..100).map(|row| (row, 0)));
        assert_eq!((same.overwrites(), same.changes()), (100, 0));
        let other = inserted((0..100).map(|row| (row, 0)).chain((0..100).map(|row| (row, 1))));
        assert_eq!(other.overwrites(), 100);
        // Certain ones only: the sketch of the contents has an error.
        assert!((85..=100).contains(&other.changes()), "{}", other.changes());
    }
}
