//! Exchanges by client, for a bounded number of clients.

use std::collections::BTreeMap;

/// The name under which the clients are counted for which there is no room.
const OTHERS: &str = "(others)";

/// Adds the counts of `from` in the same way: up to `limit` the order does not matter.
pub(super) fn merge(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>, limit: usize) {
    for (client, &count) in from {
        add(to, client, count, limit);
    }
}

/// Adds to the count of `client`, or of the others where `counts` has `limit` clients already.
pub(super) fn add(counts: &mut BTreeMap<String, u64>, client: &str, more: u64, limit: usize) {
    if let Some(count) = counts.get_mut(client) {
        *count += more;
        return;
    }
    let name = if counts.len() < limit { client } else { OTHERS };
    *counts.entry(name.to_owned()).or_default() += more;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_beyond_the_limit_are_counted_together() {
        let mut counts = BTreeMap::new();
        for client in ["a", "b", "a", "c", "d", "b"] {
            add(&mut counts, client, 1, 2);
        }
        let expected = [("a", 2), ("b", 2), (OTHERS, 2)];
        assert_eq!(
            counts,
            expected
                .into_iter()
                .map(|(name, count)| (name.to_owned(), count))
                .collect()
        );
        let more = BTreeMap::from([("a".to_owned(), 5), ("e".to_owned(), 7)]);
        merge(&mut counts, &more, 2);
        assert_eq!((counts["a"], counts[OTHERS], counts.len()), (7, 9, 3));
    }
}
