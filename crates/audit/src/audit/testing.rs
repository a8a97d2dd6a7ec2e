//! What tests of the audit send through taps.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use bytes::{Bytes, BytesMut};
use cqlens_proto::{
    envelope::{Envelope, Header, Opcode, StreamId, Version},
    message::{Consistency, Dialect, Extras, Query, QueryParameters, Request},
};

/// The bytes of a QUERY, as stream 1 of version 4.
pub(crate) fn query(cql: &str, consistency: Consistency) -> Bytes {
    query_on(1, cql, consistency)
}

/// The same as another stream.
pub(crate) fn query_on(stream: i16, cql: &str, consistency: Consistency) -> Bytes {
    let query = Request::Query(Query {
        query: cql,
        parameters: QueryParameters::new(consistency),
    });
    let dialect = Dialect::new(Version::V4);
    bytes(
        &query
            .to_envelope(dialect, StreamId(stream), &Extras::default())
            .unwrap(),
    )
}

/// The bytes of its answer: a RESULT of kind void.
pub(crate) fn void() -> Bytes {
    result(1, &[0, 0, 0, 1])
}

/// The bytes of the answer to a USE.
pub(crate) fn set_keyspace(stream: i16, keyspace: &str) -> Bytes {
    let len = u16::try_from(keyspace.len()).unwrap();
    result(
        stream,
        &[&[0, 0, 0, 3], &len.to_be_bytes()[..], keyspace.as_bytes()].concat(),
    )
}

/// The bytes of a RESULT.
pub(crate) fn result(stream: i16, body: &[u8]) -> Bytes {
    bytes(&Envelope {
        header: Header::response(Version::V4, StreamId(stream), Opcode::RESULT),
        body: Bytes::copy_from_slice(body),
    })
}

/// An envelope as it passes.
pub(crate) fn bytes(envelope: &Envelope) -> Bytes {
    let mut bytes = BytesMut::new();
    envelope.encode(&mut bytes).unwrap();
    bytes.freeze()
}
