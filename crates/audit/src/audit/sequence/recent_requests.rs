//! The latest request of each key: what comes before a read, with which what comes after it is compared.

use super::follow_ups::KeyedRequest;
use cqlens_window::PatternId;

/// The latest requests of a key, by pattern, for 16,384 keys in a MiB; a key that falls on the place of another one takes it.
#[derive(Debug)]
pub(super) struct RecentRequests(Vec<[RecentRequest; PATTERNS]>);

/// Patterns of a key: a page of a user asks for the user, then by the same key for what the user has.
const PATTERNS: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
struct RecentRequest {
    tag: u32,
    pattern: u32,
    at: i64,
}

/// The logarithm of the number of places.
const BITS: u32 = 14;

impl RecentRequests {
    /// Nothing yet; the memory is taken with the first key.
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// Notes that a key with this hash is asked for.
    #[inline]
    pub(super) fn note(&mut self, hash: u64, request: KeyedRequest) {
        if self.0.is_empty() {
            self.0 = vec![<[RecentRequest; PATTERNS]>::default(); 1 << BITS];
        }
        let Some(latest) = self.0.get_mut(place(hash)) else {
            return;
        };
        let new = RecentRequest {
            tag: low(hash),
            pattern: low(request.pattern.0),
            at: request.at,
        };
        // The latest come first; that of the same pattern, or the oldest, goes.
        let is_same = |known: &RecentRequest| (known.tag, known.pattern) == (new.tag, new.pattern);
        let gone = latest.iter().position(is_same).unwrap_or(PATTERNS - 1);
        if let Some(moved) = latest.get_mut(..=gone) {
            moved.rotate_right(1);
        }
        latest[0] = new;
    }

    /// The latest requests of the key with this hash up to `at`, one of each pattern: how long before `at` they came.
    pub(super) fn before(&self, hash: u64, at: i64) -> impl Iterator<Item = (Asker, i64)> {
        let latest = self.0.get(place(hash)).into_iter().flatten();
        let known = latest.filter(move |asked| asked.tag == low(hash) && asked.at != 0 && asked.at <= at);
        known.map(move |asked| (Asker(asked.pattern), at.saturating_sub(asked.at)))
    }
}

/// The pattern of a request, as far as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asker(u32);

impl Asker {
    pub(super) fn is(self, pattern: PatternId) -> bool {
        self.0 == low(pattern.0)
    }
}

/// Lossless: what is left has so few bits.
fn place(hash: u64) -> usize {
    usize::try_from(hash >> (u64::BITS - BITS)).unwrap_or(0)
}

#[expect(clippy::cast_possible_truncation, reason = "half of it is asked for")]
const fn low(number: u64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pattern: u64, at: i64) -> KeyedRequest {
        KeyedRequest {
            pattern: PatternId(pattern),
            at,
            answered_at: at + 1,
        }
    }

    fn before(asked: &RecentRequests, hash: u64, at: i64) -> Vec<(Asker, i64)> {
        asked.before(hash, at).collect()
    }

    #[test]
    fn a_key_has_the_time_of_its_latest_request() {
        let mut asked = RecentRequests::new();
        assert_eq!(before(&asked, 5, 100), []);
        asked.note(5, request(7, 40));
        asked.note(5, request(7, 70));
        assert_eq!(before(&asked, 5, 100), [(Asker(7), 30)]);
        assert_eq!(before(&asked, 6, 100), []);
        assert_eq!(before(&asked, 5, 60), [], "it comes after that");
    }

    #[test]
    fn a_key_has_its_latest_request_in_each_of_a_few_patterns() {
        let mut asked = RecentRequests::new();
        for (at, pattern) in [(10, 1), (20, 2), (30, 3), (40, 1), (50, 4), (60, 5)] {
            asked.note(5, request(pattern, at));
        }
        let latest = [(5, 40), (4, 50), (1, 60), (3, 70)].map(|(pattern, ago)| (Asker(pattern), ago));
        assert_eq!(before(&asked, 5, 100), latest);
    }
}
