//! Exchanges by client, for a bounded number of clients.

use std::collections::BTreeMap;

/// The name under which the clients are counted for which there is no room.
const OTHERS: &str = "(others)";

/// Adds one to the count of `client`, or of the others where `counts` has `limit` clients already.
pub(super) fn count(counts: &mut BTreeMap<String, u64>, client: &str, limit: usize) {
    if let Some(count) = counts.get_mut(client) {
        *count += 1;
        return;
    }
    let name = if counts.len() < limit { client } else { OTHERS };
    *counts.entry(name.to_owned()).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_beyond_the_limit_are_counted_together() {
        let mut counts = BTreeMap::new();
        for client in ["a", "b", "a", "c", "d", "b"] {
            count(&mut counts, client, 2);
        }
        let expected = [("a", 2), ("b", 2), (OTHERS, 2)];
        assert_eq!(
            counts,
            expected
                .into_iter()
                .map(|(name, count)| (name.to_owned(), count))
                .collect()
        );
    }
}
