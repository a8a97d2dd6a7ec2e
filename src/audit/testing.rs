//! What tests of the audit send through taps.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use bytes::{Bytes, BytesMut};
use cqlens_proto::{
    envelope::{Envelope, Header, Opcode, StreamId, Version},
    message::{Consistency, Dialect, Extras, Query, QueryParameters, Request},
};

/// The bytes of a QUERY, as stream 1 of version 4.
pub(super) fn query(cql: &str, consistency: Consistency) -> Bytes {
    let query = Request::Query(Query {
        query: cql,
        parameters: QueryParameters::new(consistency),
    });
    let dialect = Dialect::new(Version::V4);
    bytes(
        &query
            .to_envelope(dialect, StreamId(1), &Extras::default())
            .unwrap(),
    )
}

/// The bytes of its answer: a RESULT of kind void.
pub(super) fn void() -> Bytes {
    bytes(&Envelope {
        header: Header::response(Version::V4, StreamId(1), Opcode::RESULT),
        body: Bytes::from_static(&[0, 0, 0, 1]),
    })
}

fn bytes(envelope: &Envelope) -> Bytes {
    let mut bytes = BytesMut::new();
    envelope.encode(&mut bytes).unwrap();
    bytes.freeze()
}
