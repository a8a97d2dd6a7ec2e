//! A sample of the different rows that were written, with the partitions that they are in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::meter;

/// The rows with the smallest hashes, at most [`RowSample::MOST`]: each row that was written is as likely to be among
/// them as any other one, however often it was written (bottom-k sampling, Cohen and Kaplan 2007).
///
/// Merging is exact: the sample of two streams is that of both together, in any order and grouping.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RowSample(#[serde(deserialize_with = "rows")] BTreeMap<u64, WrittenRow>);

/// A row of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenRow {
    /// The keyed hash of its partition.
    pub partition: u64,
    /// Bytes of its values behind the partition key, the most that were written at a time.
    pub bytes: u32,
    /// When it was written first, in milliseconds since 1970.
    pub at: i64,
}

impl RowSample {
    /// Rows that are kept. A partition that has a quarter of all rows has 128 of them then, give or take 10.
    pub const MOST: usize = 512;

    /// Notes that the row with this hash was written.
    #[inline]
    pub fn insert(&mut self, hash: u64, row: WrittenRow) {
        if self.0.len() < Self::MOST || self.last() >= Some(hash) {
            self.put(hash, row);
        }
    }

    fn put(&mut self, hash: u64, row: WrittenRow) {
        if let Some(known) = self.0.get_mut(&hash) {
            known.bytes = known.bytes.max(row.bytes);
            known.at = known.at.min(row.at);
            return;
        }
        if self.0.insert(hash, row).is_none() {
            meter::grow(Self::EACH);
        }
        if self.0.len() > Self::MOST {
            self.0.pop_last();
        }
    }

    /// Adds the rows of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(hash, row)| self.insert(*hash, *row));
    }

    /// Keeps a sample of fewer rows.
    pub(crate) fn keep(&mut self, most: usize) {
        while self.0.len() > most {
            self.0.pop_last();
        }
    }

    /// Keeps the rows of no larger hash than this.
    pub(crate) fn keep_up_to(&mut self, last: u64) {
        if let Some(next) = last.checked_add(1) {
            drop(self.0.split_off(&next));
        }
    }

    /// The largest hash.
    pub(crate) fn last(&self) -> Option<u64> {
        self.0.last_key_value().map(|(hash, _)| *hash)
    }

    /// What an entry takes up, about.
    const EACH: usize = size_of::<(u64, WrittenRow)>() * 3 / 2;

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * Self::EACH
    }

    /// How many rows are in the sample.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rows, in the order of their hashes.
    pub fn rows(&self) -> impl Iterator<Item = &WrittenRow> {
        self.0.values()
    }
}

/// What is stored, if it is no more than a sample has.
fn rows<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u64, WrittenRow>, D::Error> {
    let rows: BTreeMap<u64, WrittenRow> = meter::map(deserializer)?;
    if rows.len() > RowSample::MOST {
        return Err(serde::de::Error::custom("more rows than are sampled"));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn of(rows: &[(u64, u64)]) -> RowSample {
        let mut sample = RowSample::default();
        for &(hash, partition) in rows {
            let row = WrittenRow {
                partition,
                bytes: 10,
                at: hash.cast_signed() % 1_000,
            };
            sample.insert(hash.wrapping_mul(0x9E37_79B9_7F4A_7C15), row);
        }
        sample
    }

    #[test]
    fn a_partition_has_its_share_of_the_sample_however_often_rows_come_again() {
        let rows: Vec<(u64, u64)> = (0..40_000).map(|row| (row % 20_000, row % 4 / 3)).collect();
        let sample = of(&rows);
        assert_eq!(sample.len(), RowSample::MOST);
        let rare = sample.rows().filter(|row| row.partition == 1).count();
        assert!((98..=158).contains(&rare), "{rare} of 512, a quarter is 128");
    }

    proptest! {
        #[test]
        fn merging_gives_the_sample_of_both(rows in vec((0..5_000_u64, 0..9_u64), 0..3_000), at in 0..3_000_usize) {
            let (left, right) = rows.split_at(at.min(rows.len()));
            let whole = of(&rows);
            let (mut one, mut other) = (of(left), of(right));
            one.merge(&of(right));
            other.merge(&of(left));
            // Of a row that comes with two partitions, which no real one does, the first stays.
            let hashes = |sample: &RowSample| sample.0.iter().map(|(hash, row)| (*hash, row.at)).collect::<Vec<_>>();
            prop_assert_eq!(hashes(&one), hashes(&whole));
            prop_assert_eq!(hashes(&other), hashes(&whole));
        }
    }
}
