//! The latest request of each key: what comes before a read, with which what comes after it is compared.

use super::follow_ups::KeyedRequest;
use cqlens_window::PatternId;

/// The latest request of a key, for 32,768 keys in half a MiB; a key that falls on the place of another one takes it.
#[derive(Debug)]
pub(super) struct RecentRequests(Vec<RecentRequest>);

#[derive(Debug, Clone, Copy, Default)]
struct RecentRequest {
    tag: u32,
    pattern: u32,
    at: i64,
}

/// The logarithm of the number of places.
const BITS: u32 = 15;

impl RecentRequests {
    /// Nothing yet; the memory is taken with the first key.
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// Notes that a key with this hash is asked for.
    #[inline]
    pub(super) fn note(&mut self, hash: u64, request: KeyedRequest) {
        if self.0.is_empty() {
            self.0 = vec![RecentRequest::default(); 1 << BITS];
        }
        if let Some(place) = self.0.get_mut(place(hash)) {
            *place = RecentRequest {
                tag: low(hash),
                pattern: low(request.pattern.0),
                at: request.at,
            };
        }
    }

    /// How long before `at` the key with this hash was asked for, and in which pattern; none where it was not, recently.
    pub(super) fn before(&self, hash: u64, at: i64) -> Option<(Asker, i64)> {
        let asked = self.0.get(place(hash))?;
        let is_known = asked.tag == low(hash) && asked.at != 0 && asked.at <= at;
        is_known.then(|| (Asker(asked.pattern), at.saturating_sub(asked.at)))
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

    #[test]
    fn a_key_has_the_time_of_its_latest_request() {
        let mut asked = RecentRequests::new();
        let request = |at| KeyedRequest {
            pattern: PatternId(7),
            at,
            answered_at: at + 1,
        };
        assert_eq!(asked.before(5, 100), None);
        asked.note(5, request(40));
        asked.note(5, request(70));
        assert_eq!(asked.before(5, 100), Some((Asker(7), 30)));
        assert_eq!(asked.before(6, 100), None);
        assert_eq!(asked.before(5, 60), None, "it comes after that");
    }
}
