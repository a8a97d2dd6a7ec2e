//! What of written and read values is counted: the rows that INSERTs write, and the columns that have an
//! index.
//!
//! Values are hashes here, keyed by the operator; sketches keep none of them.

use serde::{Deserialize, Serialize};

use super::{Distinct, RowSample, counts::raise};

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
    /// How many rows of the sample were kept, where some went. Files of the first versions say no more than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sample_most: Option<u16>,
    /// The hash of the last row of the sample before those that went: rows with larger ones are not in it, and not in what
    /// is merged with it, or some rows would be likelier to be there than others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sample_up_to: Option<u64>,
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
        raise(&mut self.inserts, other.inserts);
        self.rows.merge(&other.rows);
        self.contents.merge(&other.contents);
        let ends = [self.end_of_sample(), other.end_of_sample()];
        self.sample.merge(&other.sample);
        self.sample_most = None;
        self.sample_up_to = ends.into_iter().flatten().min();
        if let Some(last) = self.sample_up_to {
            self.sample.keep_up_to(last);
        }
    }

    /// Whether the sample has all rows.
    pub fn is_sample_whole(&self) -> bool {
        self.end_of_sample().is_none() && self.sample.len() < RowSample::MOST
    }

    /// The last hash that may be in the sample; none where any may, as far as there is room.
    fn end_of_sample(&self) -> Option<u64> {
        let of_old_file = || {
            let most = usize::from(self.sample_most?);
            self.sample.last().filter(|_| self.sample.len() >= most)
        };
        self.sample_up_to.or_else(of_old_file)
    }

    /// Keeps a sample of no more than `most` rows.
    pub(super) fn keep_sample(&mut self, most: u16) {
        if self.sample.len() <= usize::from(most) {
            return;
        }
        self.sample.keep(usize::from(most));
        self.sample_most = Some(most);
        self.sample_up_to = self.sample.last();
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
        raise(&mut self.inserts, other.inserts);
        raise(&mut self.updates, other.updates);
        raise(&mut self.known, other.known);
        self.rows.merge(&other.rows);
        self.values.merge(&other.values);
        raise(&mut self.reads, other.reads);
        raise(&mut self.reads_in_partition, other.reads_in_partition);
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
    use crate::WrittenRow;
    use proptest::{collection::vec, prelude::*};

    /// Rows of these hashes, which say nothing of their partitions.
    fn sampled(hashes: &[u64], most: u16) -> InsertedRows {
        let mut inserted = InsertedRows::default();
        for hash in hashes {
            let row = WrittenRow {
                partition: *hash,
                bytes: 10,
                at: 0,
            };
            inserted.sample.insert(*hash, row);
        }
        inserted.keep_sample(most);
        inserted
    }

    proptest! {
        /// However small the samples are that are merged: those of the merged one are the rows with the smallest hashes.
        #[test]
        fn merged_samples_have_the_smallest_hashes_and_as_many_as_the_smallest_of_them(
            a in vec(any::<u64>(), 0..700), b in vec(any::<u64>(), 0..700), c in vec(0_u64..1 << 50, 0..90), most in 1_u16..99
        ) {
            let parts = [sampled(&a, most), sampled(&b, 32), sampled(&c, 64)];
            let merged = |order: [usize; 3]| {
                let mut all = InsertedRows::default();
                order.iter().for_each(|part| all.merge(&parts[*part]));
                all
            };
            let whole = merged([0, 1, 2]);
            prop_assert_eq!(&whole, &merged([2, 1, 0]));
            prop_assert_eq!(&whole, &merged([1, 2, 0]));
            let mut hashes = [a, b, c].concat();
            hashes.sort_unstable();
            hashes.dedup();
            let kept = whole.sample.rows().map(|row| row.partition);
            let first = hashes.iter().copied().take(whole.sample.len());
            prop_assert_eq!(kept.collect::<Vec<_>>(), first.collect::<Vec<_>>());
            let least = parts.iter().filter(|part| !part.is_sample_whole()).map(|part| part.sample.len()).min();
            prop_assert!(whole.sample.len() >= least.unwrap_or(hashes.len()));
            prop_assert_eq!(whole.is_sample_whole(), least.is_none());
        }
    }

    /// Those with `sample_most` alone.
    #[test]
    fn samples_of_old_files_end_with_their_last_row() {
        let old = |hashes: &[u64], most| InsertedRows {
            sample_up_to: None,
            sample_most: Some(most),
            ..sampled(hashes, most)
        };
        let mut merged = sampled(&[1, 5, 9], 9);
        merged.merge(&old(&[2, 4, 6], 2));
        assert_eq!(merged.sample.len(), 3, "1, 2 and 4");
        let mut merged = sampled(&[1, 5, 9], 9);
        merged.merge(&old(&[2, 4, 6], 48));
        assert!(merged.sample.len() == 6 && merged.is_sample_whole());
    }

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
