//! The partitions of which most was seen at a time.

use std::{cmp::Reverse, collections::BTreeMap};

use serde::{Deserialize, Deserializer, Serialize, de::Error};

use super::meter;

/// A few partitions, by keyed hash, with the largest number that was seen of each: those with the largest ones.
///
/// Merging is exact, in any order and grouping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Largest(#[serde(deserialize_with = "stored")] BTreeMap<u64, u64>);

impl Largest {
    /// Partitions that are kept.
    pub const MOST: usize = 8;

    /// Notes that this much was seen of a partition.
    pub fn see(&mut self, partition: u64, size: u64) {
        let known = self.0.entry(partition).or_default();
        *known = size.max(*known);
        if self.0.len() > Self::MOST
            && let Some((smallest, _)) = self.ranked().last()
        {
            self.0.remove(smallest);
        }
    }

    /// Adds what `other` has seen.
    pub(crate) fn merge(&mut self, other: &Self) {
        other
            .0
            .iter()
            .for_each(|(partition, size)| self.see(*partition, *size));
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, the largest first.
    pub fn ranked(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = self
            .0
            .iter()
            .map(|(partition, size)| (*partition, *size))
            .collect();
        all.sort_unstable_by_key(|&(partition, size)| (Reverse(size), partition));
        all
    }
}

/// What is stored, if it is no more than is kept.
fn stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u64, u64>, D::Error> {
    let stored: BTreeMap<u64, u64> = meter::map(deserializer)?;
    match stored.len() <= Largest::MOST {
        true => Ok(stored),
        false => Err(D::Error::custom("more partitions than are kept")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn of(seen: &[(u64, u64)]) -> Largest {
        let mut largest = Largest::default();
        seen.iter()
            .for_each(|&(partition, size)| largest.see(partition, size));
        largest
    }

    #[test]
    fn the_largest_stay_with_the_most_that_was_seen_of_them() {
        let largest = of(&(0..100).map(|at| (at % 20, at)).collect::<Vec<_>>());
        let ranked = largest.ranked();
        assert_eq!((ranked[0], ranked[7]), ((19, 99), (12, 92)));
    }

    proptest! {
        #[test]
        fn merging_gives_the_largest_of_both(seen in vec((0..30_u64, 0..50_u64), 0..200), at in 0..200_usize) {
            let (left, right) = seen.split_at(at.min(seen.len()));
            let mut merged = of(right);
            merged.merge(&of(left));
            prop_assert_eq!(merged, of(&seen));
        }
    }
}
