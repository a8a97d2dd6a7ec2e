//! The keys that come most often, found in one pass.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::meter;
use crate::counts::raise;

/// The heaviest keys of a stream (Misra and Gries 1982, with the batched purge of Anderson et al. 2017).
///
/// What is counted are occurrences, or what they weigh: see [`Weights`](super::Weights). After `n` of them every key that
/// came more often than `n / 256` times is here, and its count is known up to that error. Up to 512 keys are followed;
/// when there are more, the lighter half goes at once, so that a key costs a hash lookup. Merging (after Agarwal et al., "Mergeable summaries", 2012) adds, so that any
/// order and grouping gives the same result as long as the windows together have no more than 4,096 keys.
/// Beyond that the lighter half goes here, too: what a report over weeks keeps has a bound, and the error is
/// the same.
///
/// Not the frequent items of `datasketches` 0.6, whose distinct counts are used beside this: those have one count for a
/// key, and reads and writes are told apart here under one error; their error is one offset for all keys, while keys
/// that were never let go of are exact here; and they purge by a sample of the counts, so that what merging gives
/// depends on the order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Heavy {
    /// The keys are hashes already.
    #[serde(deserialize_with = "entries")]
    entries: FxHashMap<u64, HeavyEntry>,
    /// All occurrences, of keys that are here and of those that are not.
    total: u64,
    /// A key that is not here came at most this often.
    absent_at_most: u64,
}

/// What is known of one key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeavyEntry {
    /// Reads counted since the key took its place: it was read at least this often.
    pub reads: u64,
    /// Writes counted since the key took its place: it was written at least this often.
    pub writes: u64,
    /// Occurrences before the key took its place: at most this many, reads and writes together.
    pub error: u64,
}

impl HeavyEntry {
    /// The key came at least this often.
    pub fn at_least(&self) -> u64 {
        self.reads + self.writes
    }

    /// The key came at most this often.
    pub fn at_most(&self) -> u64 {
        self.at_least() + self.error
    }
}

/// How many keys stay when the lighter ones go: 256, as many as `nodetool toppartitions` follows by default.
const KEPT: usize = 256;

/// How many keys are followed until then.
const CAPACITY: usize = 2 * KEPT;

/// The same for what was merged: eight times as much, since a running report has each table once.
const MERGED_KEPT: usize = 8 * KEPT;
const MERGED_CAPACITY: usize = 2 * MERGED_KEPT;

impl Heavy {
    /// Counts one read of `key`.
    #[inline]
    pub fn read(&mut self, key: u64) {
        self.entry(key, 1).reads += 1;
    }

    /// Counts one write of `key`.
    #[inline]
    pub fn write(&mut self, key: u64) {
        self.entry(key, 1).writes += 1;
    }

    /// Counts as much that was read of `key`: rows, bytes.
    pub fn read_many(&mut self, key: u64, weight: u64) {
        self.entry(key, weight).reads += weight;
    }

    /// Counts as much that was written to `key`: rows, bytes.
    pub fn write_many(&mut self, key: u64, weight: u64) {
        self.entry(key, weight).writes += weight;
    }

    /// What is known of `key`; nothing where nothing was counted of it.
    pub fn of(&self, key: u64) -> Option<HeavyEntry> {
        self.entries.get(&key).copied()
    }

    // Without a call where each request comes by.
    #[inline(always)]
    fn entry(&mut self, key: u64, weight: u64) -> &mut HeavyEntry {
        self.total += weight;
        if self.entries.len() >= CAPACITY && !self.entries.contains_key(&key) {
            self.purge(KEPT);
        }
        if self.entries.len() == self.entries.capacity() {
            self.reserve(1);
        }
        let error = self.absent_at_most;
        self.entries.entry(key).or_insert(HeavyEntry {
            error,
            ..HeavyEntry::default()
        })
    }

    #[cold]
    fn reserve(&mut self, more: usize) {
        let before = self.bytes();
        self.entries.reserve(more);
        meter::grow(self.bytes() - before);
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        // The table has an eighth more places than it fills, and a byte beside each.
        self.entries.capacity() / 7 * 8 * (size_of::<(u64, HeavyEntry)>() + 1)
    }

    /// Keeps only the heavier keys, as many as after a purge, and gives the memory of the others back.
    pub(crate) fn shrink(&mut self) {
        if self.entries.len() > KEPT {
            self.purge(KEPT);
        }
        self.entries.shrink_to_fit();
    }

    /// Keeps only the heaviest keys: fewer than `most`, and none that came no more often than the error of any key may
    /// be. What went may have come as often as the heaviest that did.
    pub(crate) fn keep_heaviest(&mut self, most: usize) {
        if self.entries.len() > most {
            self.purge(most);
        }
        self.let_go(self.total / KEPT as u64);
        self.entries.shrink_to_fit();
    }

    /// Lets the keys go that came so often at most.
    fn let_go(&mut self, lightest: u64) {
        let gone = self.entries.values().map(HeavyEntry::at_most);
        let heaviest = gone.filter(|&times| times <= lightest).max();
        self.absent_at_most = self.absent_at_most.max(heaviest.unwrap_or(0));
        self.entries.retain(|_, entry| entry.at_most() > lightest);
    }

    /// Keeps the `kept` heavier keys, which are at least [`KEPT`] while traffic is counted.
    ///
    /// Why the error stays below `n / 256`: each of the 256 keys that stay has come at least as often as the
    /// bound for absent keys says from now on, so a rise of the bound by one takes 256 occurrences.
    fn purge(&mut self, kept: usize) {
        let mut counts: Vec<u64> = self.entries.values().map(HeavyEntry::at_most).collect();
        let (_, &mut lightest_kept, _) = counts.select_nth_unstable_by(kept - 1, |a, b| b.cmp(a));
        self.absent_at_most = self.absent_at_most.max(lightest_kept);
        self.entries.retain(|_, entry| entry.at_most() > lightest_kept);
    }

    /// Adds everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        // A key that only one of the two has may have come to the other one as well, before or after its
        // place was taken.
        if other.absent_at_most > 0 {
            for (key, mine) in &mut self.entries {
                if !other.entries.contains_key(key) {
                    raise(&mut mine.error, other.absent_at_most);
                }
            }
        }
        let absent = HeavyEntry {
            error: self.absent_at_most,
            ..HeavyEntry::default()
        };
        self.reserve(other.entries.len().saturating_sub(self.entries.len()));
        for (&key, theirs) in &other.entries {
            if self.entries.len() == self.entries.capacity() {
                self.reserve(1);
            }
            let mine = self.entries.entry(key).or_insert(absent);
            raise(&mut mine.reads, theirs.reads);
            raise(&mut mine.writes, theirs.writes);
            raise(&mut mine.error, theirs.error);
        }
        raise(&mut self.total, other.total);
        raise(&mut self.absent_at_most, other.absent_at_most);
        if self.entries.len() > MERGED_CAPACITY {
            self.purge(MERGED_KEPT);
        }
    }

    /// All occurrences counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The heaviest `n` keys, heaviest first, as far as they are known: of keys that came no more often than
    /// one that is not here may have, it depends on the order of the stream which are here.
    pub fn top(&self, n: usize) -> Vec<(u64, HeavyEntry)> {
        let entries = self.entries.iter().map(|(&key, &entry)| (key, entry));
        let mut entries: Vec<_> = entries
            .filter(|(_, entry)| entry.at_least() > self.absent_at_most)
            .collect();
        entries.sort_unstable_by_key(|&(key, entry)| (std::cmp::Reverse(entry.at_least()), key));
        entries.truncate(n);
        entries
    }
}

/// What is stored, if it is no more than merging keeps.
fn entries<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<FxHashMap<u64, HeavyEntry>, D::Error> {
    let entries: FxHashMap<u64, HeavyEntry> = meter::map(deserializer)?;
    if entries.len() > MERGED_CAPACITY {
        return Err(serde::de::Error::custom("more partitions than are kept"));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn of(keys: &[u64]) -> Heavy {
        let mut heavy = Heavy::default();
        keys.iter().for_each(|&key| heavy.read(key));
        heavy
    }

    #[test]
    fn a_key_with_a_third_of_the_stream_is_found_among_many() {
        let mut heavy = Heavy::default();
        for i in 0..30_000u64 {
            heavy.read(1_000 + i);
            heavy.write(7);
            heavy.read(2_000_000 + i);
        }
        let (key, entry) = heavy.top(1)[0];
        assert_eq!((key, entry.reads), (7, 0));
        assert!(
            entry.at_least() <= 30_000 && entry.at_most() >= 30_000,
            "{entry:?}"
        );
    }

    #[test]
    fn what_is_kept_of_many_keys_is_known_up_to_its_error() {
        // The k-th key comes 2,000 / k times.
        let exact: HashMap<u64, u64> = (1..=400).map(|key| (key, 2_000 / key)).collect();
        let mut heavy = Heavy::default();
        for (&key, &times) in &exact {
            heavy.read_many(key, times);
        }
        let total = heavy.total();
        let whole = heavy.clone();
        heavy.keep_heaviest(12);
        assert_eq!((heavy.entries.len(), heavy.total()), (11, total));
        assert_eq!(heavy.top(11), whole.top(11));
        assert_eq!(heavy.absent_at_most, exact[&12]);
        // Once more, beside what it was.
        heavy.merge(&whole);
        for (key, entry) in &heavy.entries {
            let truth = 2 * exact[key];
            assert!(
                (entry.at_least()..=entry.at_most()).contains(&truth),
                "{key}: {entry:?}"
            );
        }
        assert_eq!(heavy.top(10), {
            let mut twice = whole.clone();
            twice.merge(&whole);
            twice.top(10)
        });
    }

    /// Of keys that are all alike none is heavy, however few are kept.
    #[test]
    fn nothing_is_kept_of_keys_that_come_equally_often() {
        let mut heavy = of(&(0..500).cycle().take(5_000).collect::<Vec<_>>());
        heavy.keep_heaviest(12);
        assert_eq!((heavy.top(1), heavy.absent_at_most), (Vec::new(), 10));
    }

    /// Keys that come as often as their rank gives them under Zipf's law, in no order.
    #[test]
    fn skewed_keys_are_known_up_to_their_error() {
        for exponent in [0.8, 1.0, 1.2, 1.5] {
            let weights: Vec<f64> = (1..=5_000).map(|rank| f64::from(rank).powf(-exponent)).collect();
            let all: f64 = weights.iter().sum();
            let times = |weight: &f64| crate::number::rounded(weight / all * 100_000.0);
            let exact: HashMap<u64, u64> = (0..).zip(weights.iter().map(times)).collect();
            let sorted: Vec<u64> = (0..5_000)
                .flat_map(|key| (0..exact[&key]).map(move |_| key))
                .collect();
            // A prime number of places apart, so that all come.
            let mixed: Vec<u64> = (0..sorted.len())
                .map(|at| sorted[at * 7_919 % sorted.len()])
                .collect();
            let heavy = of(&mixed);
            let top = heavy.top(20);
            assert_eq!(top[0].0, 0, "{exponent}");
            for (key, entry) in top {
                let is_known = (entry.at_least()..=entry.at_most()).contains(&exact[&key]);
                assert!(
                    is_known && entry.error <= heavy.total() / 256,
                    "{exponent}: {key} came {} times, {entry:?}",
                    exact[&key]
                );
            }
        }
    }

    #[test]
    fn of_many_keys_that_come_equally_often_none_is_the_heaviest() {
        let mut heavy = Heavy::default();
        (0..3_000).for_each(|key| heavy.read(key));
        assert!(heavy.top(10).len() < 10, "{:?}", heavy.top(10));
        (0..600).for_each(|_| heavy.read(7));
        let (key, entry) = heavy.top(10)[0];
        assert!(key == 7 && entry.at_least() >= 600, "{entry:?}");
    }

    #[test]
    fn thousands_of_windows_have_a_bound_and_the_heavy_key_is_found() {
        let mut all = Heavy::default();
        let mut most = 0;
        for window in 0..2_000 {
            let mut heavy = of(&[7; 40]);
            // Keys that never come again.
            (0..600).for_each(|key| heavy.read(10 + window * 600 + key));
            all.merge(&heavy);
            most = most.max(all.entries.len());
        }
        assert!(most <= MERGED_CAPACITY, "{most} keys");
        let (key, entry) = all.top(1)[0];
        assert_eq!((key, entry.at_least()), (7, 80_000));
    }

    /// Few requests for large partitions among many for small ones.
    #[test]
    fn weights_are_known_up_to_their_error() {
        let mut heavy = Heavy::default();
        let mut exact: HashMap<u64, u64> = HashMap::new();
        for at in 0..60_000_u64 {
            let (key, weight) = match at % 600 {
                0 => (7, 50_000),
                300 => (8, 20_000),
                _ => (1_000 + at * 7_919 % 30_000, 1 + at % 90),
            };
            *exact.entry(key).or_default() += weight;
            match at % 2 {
                0 => heavy.read_many(key, weight),
                _ => heavy.write_many(key, weight),
            }
        }
        let top = heavy.top(2);
        assert_eq!(top.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [7, 8]);
        for (key, entry) in heavy.top(usize::MAX) {
            assert!(
                (entry.at_least()..=entry.at_most()).contains(&exact[&key]),
                "{key}: {entry:?}"
            );
            assert!(entry.error <= heavy.total() / 256, "{key}: {entry:?}");
        }
        assert_eq!(heavy.total(), exact.values().sum::<u64>());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn counts_enclose_the_truth(keys in vec(0u64..600, 0..5_000)) {
            let heavy = of(&keys);
            let mut truth: HashMap<u64, u64> = HashMap::new();
            keys.iter().for_each(|&key| *truth.entry(key).or_default() += 1);
            for (key, entry) in heavy.top(usize::MAX) {
                prop_assert!(entry.at_least() <= truth[&key] && truth[&key] <= entry.at_most());
            }
            prop_assert_eq!(heavy.total(), keys.len() as u64);
            prop_assert!(heavy.absent_at_most <= heavy.total() / KEPT as u64);
        }

        #[test]
        fn counts_enclose_the_truth_of_all_windows(windows in vec(vec(0u64..20_000, 0..1_500), 0..16)) {
            let mut all = Heavy::default();
            windows.iter().for_each(|keys| all.merge(&of(keys)));
            let mut truth: HashMap<u64, u64> = HashMap::new();
            windows.iter().flatten().for_each(|&key| *truth.entry(key).or_default() += 1);
            for (key, entry) in all.top(usize::MAX) {
                prop_assert!(entry.at_least() <= truth[&key] && truth[&key] <= entry.at_most());
            }
            for (key, count) in truth {
                prop_assert!(all.entries.contains_key(&key) || count <= all.absent_at_most);
            }
            prop_assert!(all.absent_at_most <= all.total() / KEPT as u64);
        }

        #[test]
        fn merging_does_not_depend_on_order_or_grouping(a in vec(0u64..900, 0..2_000), b in vec(0u64..900, 0..2_000), c in vec(0u64..40, 0..90)) {
            let (a, b, c) = (of(&a), of(&b), of(&c));
            let mut left = a.clone();
            left.merge(&b);
            left.merge(&c);
            let mut right = c;
            right.merge(&b);
            right.merge(&a);
            prop_assert_eq!(left, right);
        }
    }
}
