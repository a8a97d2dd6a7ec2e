//! The keys that most rows or bytes are of, found in one pass.

use serde::{Deserialize, Serialize};

use super::heavy::{Heavy, HeavyEntry};
use crate::counts::raise;

/// The heaviest keys of a stream whose items weigh something: rows, bytes.
///
/// Few items are all counted. Of many, those are that weigh `TIMES_MEAN` times the mean or more; of the lighter ones a
/// sample, in which each is as likely as it is heavy and counts as much as that (threshold sampling: Duffield, Lund and
/// Thorup, "Learn more, sample less", 2005). So most items cost no lookup of their key.
///
/// What is said of a key holds in 997 of a thousand cases: the sample's error is taken as three standard deviations, each
/// of which is `sqrt(threshold × weight of the key)` at most; it adds to that of [`Heavy`]. Merging adds, in any order and
/// grouping, as far as that of [`Heavy`] does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    heavy: Heavy,
    /// What all items weigh, those among them that were not counted.
    total: u64,
    /// What a lighter item counts as, if it is in the sample; 0 while all are counted.
    threshold: u64,
}

impl Weights {
    /// Lighter items than so many times the mean are sampled: one lookup for as many of them, about.
    const TIMES_MEAN: u64 = 48;

    /// So many items are all counted. Then [`Self::TIMES_MEAN`] times the mean are a 256th of what all weigh: no more than
    /// the error of [`Heavy`].
    const ALL_COUNTED: u64 = 256 * Self::TIMES_MEAN;

    /// Standard deviations within which the sample's error is.
    const DEVIATIONS: f64 = 3.0;

    /// Whether an item is looked up, by a `draw` that may be any number of 32 bits.
    #[inline]
    fn is_due(&self, weight: u64, draw: u32) -> bool {
        (u64::from(draw) * self.threshold) >> u32::BITS < weight
    }

    /// Counts an item that is due: the one of this number.
    fn count(&mut self, key: u64, weight: u64, number: u64, add: Add) {
        add(&mut self.heavy, key, weight.max(self.threshold));
        if number >= Self::ALL_COUNTED {
            let times_mean = (self.total / number).saturating_mul(Self::TIMES_MEAN);
            // What is more does not fit beside a draw.
            self.threshold = self.threshold.max(times_mean.min(u64::from(u32::MAX)));
        }
    }

    /// What all items weigh.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What is known of `key`; none where nothing was counted of it.
    pub fn of(&self, key: u64) -> Option<HeavyEntry> {
        self.heavy.of(key).map(|entry| self.bounded(entry))
    }

    /// The heaviest `n` keys, heaviest first, as far as they are known.
    pub fn top(&self, n: usize) -> Vec<(u64, HeavyEntry)> {
        let top = self.heavy.top(n).into_iter();
        top.map(|(key, entry)| (key, self.bounded(entry)))
            .filter(|(_, entry)| entry.at_least() > 0)
            .collect()
    }

    /// An entry with the error of the sample.
    fn bounded(&self, entry: HeavyEntry) -> HeavyEntry {
        let counted = entry.at_least();
        if self.threshold == 0 || counted == 0 {
            return entry;
        }
        let deviation = (self.threshold as f64 * counted as f64).sqrt();
        let off = crate::number::rounded((Self::DEVIATIONS * deviation).ceil());
        let part = counted.saturating_sub(off) as f64 / counted as f64;
        let at_least = |counted: u64| crate::number::rounded((counted as f64 * part).floor());
        let (reads, writes) = (at_least(entry.reads), at_least(entry.writes));
        HeavyEntry {
            reads,
            writes,
            error: entry.at_most().saturating_add(off) - reads - writes,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.heavy.merge(&other.heavy);
        raise(&mut self.total, other.total);
        self.threshold = self.threshold.max(other.threshold);
    }
}

/// Adds something to what was read of a key, or written.
type Add = fn(&mut Heavy, u64, u64);

/// What requests for single partitions read and wrote of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PartitionWeights {
    /// Those requests.
    requests: u64,
    /// Rows that reads returned and writes named.
    pub rows: Weights,
    /// Bytes of responses to reads, and of the requests of writes.
    pub bytes: Weights,
}

impl PartitionWeights {
    /// Counts what was read of a partition.
    #[inline]
    pub fn read(&mut self, partition: u64, rows: u64, bytes: u64) {
        self.count(partition, (rows, bytes), Heavy::read_many);
    }

    /// Counts what was written to a partition.
    #[inline]
    pub fn write(&mut self, partition: u64, rows: u64, bytes: u64) {
        self.count(partition, (rows, bytes), Heavy::write_many);
    }

    #[inline]
    fn count(&mut self, partition: u64, (rows, bytes): (u64, u64), add: Add) {
        self.requests += 1;
        self.rows.total += rows;
        self.bytes.total += bytes;
        let draw = draw(partition, self.requests);
        if self.rows.is_due(rows, draw) || self.bytes.is_due(bytes, draw) {
            self.look_up(partition, (rows, bytes), draw, add);
        }
    }

    /// Apart from what most requests cost.
    #[cold]
    fn look_up(&mut self, partition: u64, (rows, bytes): (u64, u64), draw: u32, add: Add) {
        if self.rows.is_due(rows, draw) {
            self.rows.count(partition, rows, self.requests, add);
        }
        if self.bytes.is_due(bytes, draw) {
            self.bytes.count(partition, bytes, self.requests, add);
        }
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// Bytes on the heap.
    pub(crate) fn bytes_on_heap(&self) -> usize {
        self.rows.heavy.bytes() + self.bytes.heavy.bytes()
    }

    /// Keeps only the heaviest partitions.
    pub(crate) fn shrink(&mut self) {
        self.rows.heavy.shrink();
        self.bytes.heavy.shrink();
    }

    /// Keeps fewer than `most` of the heaviest partitions.
    pub(crate) fn keep_heaviest(&mut self, most: usize) {
        self.rows.heavy.keep_heaviest(most);
        self.bytes.heavy.keep_heaviest(most);
    }

    /// Adds what `other` has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        raise(&mut self.requests, other.requests);
        self.rows.merge(&other.rows);
        self.bytes.merge(&other.bytes);
    }
}

/// A number as random as the hash of a key and the number of its request make it: the same traffic always gives the same.
#[inline]
fn draw(key: u64, number: u64) -> u32 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = (key ^ number.wrapping_mul(ODD)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    // The upper bits are those that all others have gone into.
    u32::try_from(mixed >> u32::BITS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::{collection::vec, prelude::*};

    /// As many items of each key as its rank gives it under Zipf's law, in no order, each of the key's own weight or a
    /// thousand times as much where `is_large` says so.
    fn zipf(exponent: f64, items: u64, is_large: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
        let weights: Vec<f64> = (1..=5_000).map(|rank| f64::from(rank).powf(-exponent)).collect();
        let all: f64 = weights.iter().sum();
        let times = |weight: &f64| crate::number::rounded(weight / all * items as f64);
        let sorted: Vec<u64> = (0..5_000_u64)
            .zip(&weights)
            .flat_map(|(key, weight)| (0..times(weight)).map(move |_| key))
            .collect();
        (0..sorted.len())
            .map(|at| sorted[at * 7_919 % sorted.len()])
            .zip(0..)
            .map(|(key, at): (u64, u64)| {
                let weight = 20 + (key * 31 + at) % 60;
                let hash = (key + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                (hash, if is_large(key) { weight * 1_000 } else { weight })
            })
            .collect()
    }

    fn of(items: &[(u64, u64)]) -> PartitionWeights {
        let mut weights = PartitionWeights::default();
        for (at, &(key, weight)) in items.iter().enumerate() {
            match at % 2 {
                0 => weights.read(key, weight, weight * 100),
                _ => weights.write(key, weight, weight * 100),
            }
        }
        weights
    }

    fn exact(items: &[(u64, u64)]) -> BTreeMap<u64, u64> {
        let mut exact = BTreeMap::new();
        for &(key, weight) in items {
            *exact.entry(key).or_default() += weight;
        }
        exact
    }

    #[test]
    fn weights_of_skewed_keys_are_known_up_to_their_error() {
        for exponent in [0.8, 1.0, 1.2, 1.5] {
            for is_large in [|_| false, |key| key % 1_000 == 900] {
                let items = zipf(exponent, 100_000, is_large);
                let (weights, exact) = (of(&items), exact(&items));
                let total: u64 = exact.values().sum();
                assert_eq!(
                    (weights.rows.total(), weights.bytes.total()),
                    (total, total * 100)
                );
                for (weights, unit) in [(&weights.rows, 1), (&weights.bytes, 100)] {
                    let (heaviest, truth) = exact
                        .iter()
                        .max_by_key(|(_, weight)| **weight)
                        .unwrap_or((&0, &0));
                    let (key, entry) = weights.top(1)[0];
                    assert_eq!(key, *heaviest, "{exponent}");
                    let at_least = entry.at_least() as f64 / (truth * unit) as f64;
                    assert!(at_least > 0.55, "{exponent}: {at_least}");
                    for (key, entry) in weights.top(20) {
                        let truth = exact[&key] * unit;
                        assert!(
                            (entry.at_least()..=entry.at_most()).contains(&truth),
                            "{exponent}: {truth}, {entry:?}"
                        );
                        // Three standard deviations to both sides, and the error of `Heavy`. The threshold is a 2,000th, or a
                        // little more, since the mean was larger for a while.
                        let share = truth as f64 / (total * unit) as f64;
                        let most = 6.0 * (share / 1_300.0).sqrt() + 1.0 / 256.0;
                        let error = entry.error as f64 / (total * unit) as f64;
                        assert!(error <= most, "{exponent}: {share}, {error} of {most}");
                    }
                }
            }
        }
    }

    #[test]
    fn few_items_are_counted_as_they_are() {
        let items = zipf(1.5, 4_000, |_| false);
        let (weights, exact) = (of(&items), exact(&items));
        for (key, entry) in weights.rows.top(10) {
            assert_eq!((entry.at_least(), entry.error), (exact[&key], 0));
        }
    }

    #[test]
    fn one_of_many_light_items_is_looked_up() {
        let mut weights = PartitionWeights::default();
        let mut looked_up = 0;
        for at in 0..100_000_u64 {
            let key = (at % 700 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            looked_up += u64::from(weights.rows.is_due(10, draw(key, weights.requests + 1)));
            weights.read(key, 10, 1_000);
        }
        let least = Weights::ALL_COUNTED + (100_000 - Weights::ALL_COUNTED) / Weights::TIMES_MEAN;
        assert!(
            (least * 9 / 10..least * 11 / 10).contains(&looked_up),
            "{looked_up} of {least}"
        );
    }

    /// In nearly all of many streams, as often as is promised.
    #[test]
    fn the_bounds_hold_as_often_as_they_say() {
        let (mut held, mut all) = (0, 0);
        for stream in 0..30_u64 {
            let salt =
                |(key, weight): &(u64, u64)| (key ^ stream.wrapping_mul(0x1234_5678_9ABC_DEF1), *weight);
            let items: Vec<_> = zipf(1.0, 30_000, |_| false).iter().map(salt).collect();
            let (weights, exact) = (of(&items), exact(&items));
            for (key, entry) in weights.rows.top(10) {
                all += 1;
                held += u64::from((entry.at_least()..=entry.at_most()).contains(&exact[&key]));
            }
        }
        assert!(all >= 200 && held * 1_000 >= all * 990, "{held} of {all}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn merging_does_not_depend_on_order_or_grouping(
            a in vec((0_u64..900, 0_u64..99), 0..2_000), b in vec((0_u64..900, 0_u64..9_999), 0..2_000), c in vec((0_u64..40, 0_u64..9), 0..90)
        ) {
            // Sampled, too.
            let many = |items: &[(u64, u64)]| of(&items.repeat(10));
            let (a, b, c) = (many(&a), many(&b), many(&c));
            let mut left = a.clone();
            left.merge(&b);
            left.merge(&c);
            let mut grouped = b.clone();
            grouped.merge(&c);
            let mut right = a.clone();
            right.merge(&grouped);
            prop_assert_eq!(&left, &right);
            let mut reversed = c;
            reversed.merge(&b);
            reversed.merge(&a);
            prop_assert_eq!(&left, &reversed);
            let mut with_nothing = left.clone();
            with_nothing.merge(&PartitionWeights::default());
            prop_assert_eq!(left, with_nothing);
        }
    }
}
