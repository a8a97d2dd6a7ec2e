//! Generators of messages, types and values, and a walk through everything that a body can be asked for.
//!
//! Messages borrow; what they borrow from is leaked here, since a test process is short-lived.
#![allow(dead_code, clippy::unwrap_used, missing_docs)]

pub(crate) mod exercise;
pub(crate) mod messages;
pub(crate) mod values;

use cqlens_proto::envelope::Version;
use proptest::prelude::*;

pub(crate) const VERSIONS: [Version; 6] = [
    Version::V3,
    Version::V4,
    Version::V5,
    Version::V6Beta,
    Version::DseV1,
    Version::DseV2,
];

/// So many cases; a failure prints its smallest input instead of writing a file.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub(crate) fn version() -> impl Strategy<Value = Version> {
    proptest::sample::select(&VERSIONS[..])
}

pub(crate) fn text() -> impl Strategy<Value = &'static str> {
    "\\PC{0,12}".prop_map(|text| &*text.leak())
}

pub(crate) fn bytes() -> impl Strategy<Value = &'static [u8]> {
    proptest::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| &*bytes.leak())
}

pub(crate) fn texts() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(text(), 0..4)
}

/// Something that some versions do not have.
pub(crate) fn only_if<S: Strategy + 'static>(present: bool, some: S) -> BoxedStrategy<Option<S::Value>>
where
    S::Value: Clone + 'static,
{
    if present {
        proptest::option::of(some).boxed()
    } else {
        Just(None).boxed()
    }
}
