//! Counts by name, for a bounded number of names: those that come most often stay.

use std::{cmp::Reverse, collections::BTreeMap, net::IpAddr};

use super::sketch::meter::{self, PER_ENTRY};

/// The largest count of a snapshot that is read, and where merging stops: 72 petabytes, or two thousand years in
/// microseconds, which no traffic adds up to. So a made-up snapshot cannot make the counts of others wrap around, nor can any
/// number of them, and what a reader adds up of a few counts fits.
pub(super) const MOST: u64 = 1 << 56;

/// Adds to a count what another window has, up to [`MOST`].
#[inline]
pub(super) fn raise(count: &mut u64, more: u64) {
    *count = count.saturating_add(more).min(MOST).max(*count);
}

/// Whether a word of a client's name is its address, `10.1.2.3`, or network, `10.1.2.0/24`.
pub fn is_client_address(word: &str) -> bool {
    let (address, _) = word.split_once('/').unwrap_or((word, ""));
    address.parse::<IpAddr>().is_ok()
}

/// The name under which everything is counted for which there is no room.
pub const OTHERS: &str = "(others)";

/// Adds the counts of `from` in the same way: up to `limit` the order does not matter.
pub(super) fn merge(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>, limit: usize) {
    for (name, &count) in from {
        add(to, name, count, limit);
    }
}

/// Adds to the count of `name`. Where there are more than `limit` names, the rarest quarter goes to the
/// others: a name that comes more often than those that stay, between two such times, is never among them.
pub(super) fn add(counts: &mut BTreeMap<String, u64>, name: &str, more: u64, limit: usize) {
    if let Some(count) = counts.get_mut(name) {
        return raise(count, more);
    }
    meter::grow(name.len() + PER_ENTRY);
    counts.insert(name.to_owned(), more);
    // The others have a place of their own.
    if counts.len() > limit + usize::from(counts.contains_key(OTHERS)) {
        let is_other = |name: &String| name == OTHERS;
        let gone: u64 = keep_heaviest(counts, kept(limit), is_other).values().sum();
        raise(counts.entry(OTHERS.to_owned()).or_default(), gone);
    }
}

/// Adds to the count of `key`; beyond `limit` keys the rarest ones are forgotten.
pub(super) fn add_or_forget<K: Ord + Clone>(counts: &mut BTreeMap<K, u64>, key: K, more: u64, limit: usize) {
    raise(counts.entry(key).or_default(), more);
    if counts.len() > limit {
        keep_heaviest(counts, kept(limit), |_| false);
    }
}

/// How many stay where there were more than `limit`, so that it is not done for each.
pub(super) fn kept(limit: usize) -> usize {
    limit - limit / 4
}

/// Takes all but the heaviest `kept` out of `counts`, and what `is_fixed` beside them.
pub(super) fn keep_heaviest<K: Ord + Clone>(
    counts: &mut BTreeMap<K, u64>,
    kept: usize,
    is_fixed: impl Fn(&K) -> bool,
) -> BTreeMap<K, u64> {
    let mut ranked: Vec<_> = counts.iter().filter(|(key, _)| !is_fixed(key)).collect();
    ranked.sort_by_key(|&(key, &count)| (Reverse(count), key));
    let gone: Vec<K> = ranked
        .into_iter()
        .skip(kept)
        .map(|(key, _)| key.clone())
        .collect();
    gone.into_iter()
        .filter_map(|key| counts.remove_entry(&key))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: impl IntoIterator<Item = String>, limit: usize) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        names
            .into_iter()
            .for_each(|name| add(&mut counts, &name, 1, limit));
        counts
    }

    #[test]
    fn names_beyond_the_limit_are_counted_together_and_the_frequent_ones_stay() {
        // One steady name among a thousand that come once each, and were there first.
        let junk = (0..1_000).map(|number| format!("junk {number}"));
        let names = junk.flat_map(|junk| [junk, "steady".to_owned()]);
        let first = (0..100).map(|number| format!("first {number}"));
        let counts = of(first.chain(names), 8);
        // Its first one or two weighed no more than the others.
        assert!(counts["steady"] >= 997, "{counts:?}");
        assert!(counts.len() <= 9, "{counts:?}");
        assert_eq!(counts.values().sum::<u64>(), 2_100);
        assert!(counts[OTHERS] >= 1_090);
    }

    #[test]
    fn up_to_the_limit_maps_merge_in_any_order() {
        let (a, b) = (
            of(["a", "b", "a"].map(str::to_owned), 4),
            of(["c", "b"].map(str::to_owned), 4),
        );
        let (mut ab, mut ba) = (a.clone(), b.clone());
        merge(&mut ab, &b, 4);
        merge(&mut ba, &a, 4);
        assert_eq!(ab, ba);
        assert!(!ab.contains_key(OTHERS));
    }

    #[test]
    fn the_rarest_keys_are_forgotten() {
        let mut counts = BTreeMap::from([(1, 5), (2, 1), (3, 2), (4, 9)]);
        add_or_forget(&mut counts, 5, 4, 4);
        assert_eq!(counts, BTreeMap::from([(1, 5), (4, 9), (5, 4)]));
    }
}
