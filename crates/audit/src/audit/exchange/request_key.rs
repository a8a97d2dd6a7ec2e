//! What a request is for, as a keyed hash: statement, values and page, but not consistency, timestamp or
//! flags.

use cqlens_proto::message::{BatchQuery, PagingState, QueryParameters, Request};

use crate::audit::HashKey;
use cqlens_window::PatternId;

/// What a request is for.
///
/// Two requests have the same key if statement, values and paging state are the same. Consistency,
/// timestamps, flags and page size may differ: drivers change them when they try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestKey {
    /// Statement and values: the same for all pages of a read.
    statement: u64,
    /// With the paging state.
    page: u64,
}

impl RequestKey {
    /// The key of a request that executes the statement (or batch) of `pattern`; none for other requests.
    pub fn of(key: HashKey, pattern: PatternId, request: &Request<'_>) -> Option<Self> {
        // The pattern stands for the keyspace of unqualified names.
        let mut hasher = Mixer::new(key, pattern.0);
        match request {
            Request::Query(query) => {
                hasher.write(query.query.as_bytes());
                Some(Self::with_parameters(key, hasher, &query.parameters))
            }
            Request::Execute(execute) => {
                hasher.write(execute.id.0);
                Some(Self::with_parameters(key, hasher, &execute.parameters))
            }
            Request::Batch(batch) => {
                for statement in &batch.statements {
                    match statement.query {
                        BatchQuery::Text(text) => hasher.write(text.as_bytes()),
                        BatchQuery::Prepared(id) => hasher.write(id.0),
                    }
                    hasher.write(statement.values.as_bytes());
                }
                let statement = hasher.finish();
                Some(Self {
                    statement,
                    page: statement,
                })
            }
            _ => None,
        }
    }

    fn with_parameters(key: HashKey, mut hasher: Mixer, parameters: &QueryParameters<'_>) -> Self {
        hasher.write(parameters.values.as_bytes());
        let statement = hasher.finish();
        Self {
            statement,
            page: parameters
                .paging_state
                .map_or(statement, |state| page(key, statement, state)),
        }
    }

    /// The page that the request is for.
    pub(crate) fn page(self) -> u64 {
        self.page
    }

    /// The page that an answer with `state` offers: what a request for it has as its [`Self::page`].
    pub(crate) fn following(self, key: HashKey, state: PagingState<'_>) -> u64 {
        page(key, self.statement, state)
    }

    /// The same, sent by `host`.
    pub(crate) fn of_host(self, host: u64) -> u64 {
        // Both are hashes: one multiplication spreads what one of them lacks.
        (self.page ^ host.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

fn page(key: HashKey, statement: u64, state: PagingState<'_>) -> u64 {
    let mut hasher = Mixer::new(key, statement);
    hasher.write(state.0);
    hasher.finish()
}

/// A hash that takes 16 bytes at a time, by one multiplication whose halves are folded into each other (the
/// step of wyhash).
///
/// Not the hash of reports: what it gives never leaves the process, so that it may be quick. The key keeps
/// clients from making requests that look the same on purpose.
#[derive(Debug, Clone, Copy)]
pub(in crate::audit) struct Mixer {
    state: u64,
    secret: u64,
}

impl Mixer {
    pub(in crate::audit) fn new(key: HashKey, first: u64) -> Self {
        let (state, secret) = key.seeds();
        Self {
            state: fold(state ^ first, secret),
            secret,
        }
    }

    /// A part with its length, so that parts cannot run into each other.
    #[inline]
    pub(in crate::audit) fn write(&mut self, bytes: &[u8]) {
        let mut state = self.state ^ bytes.len() as u64;
        let (pairs, rest) = bytes.as_chunks::<16>();
        for pair in pairs {
            state = self.step(state, u128::from_le_bytes(*pair));
        }
        self.state = self.step(state, little_endian(rest));
    }

    #[inline]
    fn step(&self, state: u64, both: u128) -> u64 {
        fold(low(both) ^ state, low(both >> 64) ^ self.secret)
    }

    #[inline]
    pub(in crate::audit) fn finish(&self) -> u64 {
        fold(self.state, self.secret)
    }
}

/// Fewer than 16 bytes as a number: from their first and their last ones, which may overlap.
#[inline]
fn little_endian(bytes: &[u8]) -> u128 {
    let ends = |first: u64, last: u64, half: usize| {
        u128::from(first) | u128::from(last) << (8 * (bytes.len() - half))
    };
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return ends(u64::from_le_bytes(*first), u64::from_le_bytes(*last), 8);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        return ends(half(first), half(last), 4);
    }
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u128::from(*byte))
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    low(product) ^ low(product >> 64)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "half of it is asked for")]
const fn low(both: u128) -> u64 {
    both as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_proto::message::{Consistency, Execute, PreparedId, Query, Value, ValuesBuf};

    fn request_key(key: HashKey, value: &[u8], change: impl FnOnce(&mut QueryParameters<'_>)) -> RequestKey {
        let values = ValuesBuf::positional([Value::Bytes(value)]).unwrap();
        let mut parameters = QueryParameters {
            values: values.values(),
            ..QueryParameters::new(Consistency::One)
        };
        change(&mut parameters);
        let request = Request::Execute(Execute {
            id: PreparedId(&[7; 16]),
            result_metadata_id: None,
            parameters,
        });
        RequestKey::of(key, PatternId(3), &request).unwrap()
    }

    #[test]
    fn how_something_is_asked_does_not_matter_but_what_is_asked_does() {
        let key = HashKey::random();
        let plain = request_key(key, b"a", |_| {});
        let otherwise = request_key(key, b"a", |parameters| {
            parameters.consistency = Consistency::All;
            parameters.timestamp = Some(7);
            parameters.page_size = Some(100);
        });
        assert_eq!(plain, otherwise);
        assert_ne!(plain, request_key(key, b"b", |_| {}));
        assert_ne!(plain, request_key(HashKey::random(), b"a", |_| {}));
        assert_ne!(plain.of_host(1), plain.of_host(2));
    }

    #[test]
    fn a_page_is_what_the_answer_before_it_offered() {
        let key = HashKey::random();
        let first = request_key(key, b"a", |_| {});
        let second = request_key(key, b"a", |parameters| {
            parameters.paging_state = Some(PagingState(b"x"))
        });
        assert_eq!(first.following(key, PagingState(b"x")), second.page());
        assert_eq!(second.following(key, PagingState(b"x")), second.page());
        assert_ne!(first.following(key, PagingState(b"y")), second.page());
        assert_ne!(first.page(), second.page());
    }

    #[test]
    fn a_number_has_the_bytes_that_it_is_made_of() {
        let bytes: Vec<u8> = (1..16).collect();
        for length in 0..=bytes.len() {
            let number = little_endian(&bytes[..length]).to_le_bytes();
            assert_eq!(number[..length], bytes[..length]);
            assert!(number[length..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn texts_and_patterns_tell_statements_apart() {
        let key = HashKey::random();
        let of = |pattern, cql| {
            let parameters = QueryParameters::new(Consistency::One);
            let query = Query {
                query: cql,
                parameters,
            };
            RequestKey::of(key, PatternId(pattern), &Request::Query(query))
        };
        assert_eq!(of(1, "SELECT"), of(1, "SELECT"));
        assert_ne!(of(1, "SELECT"), of(2, "SELECT"));
        assert_ne!(of(1, "SELECT 1"), of(1, "SELECT 2"));
    }
}
