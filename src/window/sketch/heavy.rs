//! The keys that come most often, found in one pass.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The heaviest keys of a stream (Misra and Gries 1982, with the batched purge of Anderson et al. 2017).
///
/// After `n` occurrences every key that came more often than `n / 256` times is here, and its count is known up to that
/// error. Up to 512 keys are followed; when there are more, the lighter half goes at once, so that a key costs a hash
/// lookup. Merging (after Agarwal et al., "Mergeable summaries", 2012) only adds, it never drops: the merge of many
/// windows holds the union of their entries, so that any order and grouping gives the same result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Heavy {
    /// The keys are hashes already.
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

impl Heavy {
    /// Counts one read of `key`.
    pub fn read(&mut self, key: u64) {
        self.entry(key).reads += 1;
    }

    /// Counts one write of `key`.
    pub fn write(&mut self, key: u64) {
        self.entry(key).writes += 1;
    }

    fn entry(&mut self, key: u64) -> &mut HeavyEntry {
        self.total += 1;
        if self.entries.len() >= CAPACITY && !self.entries.contains_key(&key) {
            self.purge();
        }
        let error = self.absent_at_most;
        self.entries.entry(key).or_insert(HeavyEntry {
            error,
            ..HeavyEntry::default()
        })
    }

    /// Keeps the heavier keys.
    ///
    /// Why the error stays below `n / 256`: each of the 256 keys that stay has come at least as often as the bound for
    /// absent keys says from now on, so a rise of the bound by one takes 256 occurrences.
    fn purge(&mut self) {
        let mut counts: Vec<u64> = self.entries.values().map(HeavyEntry::at_most).collect();
        let (_, &mut lightest_kept, _) = counts.select_nth_unstable_by(KEPT - 1, |a, b| b.cmp(a));
        self.absent_at_most = self.absent_at_most.max(lightest_kept);
        self.entries.retain(|_, entry| entry.at_most() > lightest_kept);
    }

    /// Adds everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        for (&key, theirs) in &other.entries {
            let mine = self.entries.entry(key).or_default();
            mine.reads += theirs.reads;
            mine.writes += theirs.writes;
            mine.error += theirs.error;
        }
        self.total += other.total;
        self.absent_at_most += other.absent_at_most;
    }

    /// All occurrences counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The heaviest `n` keys, heaviest first.
    pub fn top(&self, n: usize) -> Vec<(u64, HeavyEntry)> {
        let mut entries: Vec<_> = self.entries.iter().map(|(&key, &entry)| (key, entry)).collect();
        entries.sort_unstable_by_key(|&(key, entry)| (std::cmp::Reverse(entry.at_least()), key));
        entries.truncate(n);
        entries
    }
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
