//! `cqlens-proto`.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_cql::syntax::{self, Template};
use cqlens_proto::cutter::{Cutter, Negotiated};
use cqlens_proto::envelope::{Direction, Envelope, HEADER_LEN, Header};
use cqlens_proto::message::{Extensions, QueryResult, Request, Response, Value};
use cqlens_proto::stream::EnvelopeStream;
use cqlens_proto::types::CqlValue;

use crate::{COLUMN, Execution, Page};

/// Finds the envelopes of a chunk and counts them by opcode: all that the data path does.
pub fn cut(chunk: &Bytes) -> usize {
    let mut cutter = Cutter::new(Direction::Response, Arc::new(Negotiated::new()));
    cutter.cut(chunk).envelopes.total() as usize
}

/// Takes the envelopes out of a chunk; bodies are shared with it.
pub fn split(chunk: &Bytes) -> usize {
    let mut stream = EnvelopeStream::new(Direction::Response, Arc::new(Negotiated::new()));
    stream.feed(chunk.clone());
    std::iter::from_fn(|| stream.next_item()).count()
}

/// The first envelope of a chunk.
pub fn envelope(chunk: &Bytes) -> Option<Envelope> {
    let header = Header::decode_from(chunk)?;
    let end = HEADER_LEN.checked_add(header.body_len as usize)?;
    (end <= chunk.len()).then(|| Envelope {
        header,
        body: chunk.slice(HEADER_LEN..end),
    })
}

/// From an EXECUTE to what the audit needs.
pub fn execute(envelope: &Envelope) -> Option<Execution> {
    let Request::Execute(execute) = Request::decode(envelope, Extensions::NONE).ok()?.message else {
        return None;
    };
    let parameters = &execute.parameters;
    let value_bytes = parameters.values.iter().map(|(_, value)| match value {
        Value::Bytes(bytes) => bytes.len(),
        Value::Null | Value::NotSet => 0,
    });
    Some(Execution {
        id_len: execute.id.0.len(),
        consistency: parameters.consistency.number(),
        page_size: parameters.page_size,
        timestamp: parameters.timestamp,
        values: parameters.values.len(),
        value_bytes: value_bytes.sum(),
    })
}

/// From ROWS to what the audit needs.
pub fn page(envelope: &Envelope) -> Option<Page> {
    let Response::Result(QueryResult::Rows(rows)) =
        Response::decode(envelope, Extensions::NONE).ok()?.message
    else {
        return None;
    };
    let mut column_bytes = 0;
    for cell in rows.column(COLUMN) {
        column_bytes += cell.ok()?.map_or(0, <[u8]>::len);
    }
    Some(Page {
        rows: rows.len(),
        columns: rows.metadata.columns?.iter().count(),
        paging_state_len: rows.metadata.paging_state.map(|state| state.0.len()),
        column_bytes,
    })
}

/// From ROWS to a typed, owned value for each cell, of the types that the metadata says.
pub fn every_value(envelope: &Envelope) -> Option<usize> {
    let Response::Result(QueryResult::Rows(rows)) =
        Response::decode(envelope, Extensions::NONE).ok()?.message
    else {
        return None;
    };
    let types: Vec<_> = rows
        .metadata
        .columns?
        .iter()
        .map(|column| column.column_type)
        .collect();
    let mut count = 0;
    for row in rows {
        let values: Vec<_> = row
            .ok()?
            .iter()
            .zip(&types)
            .map(|(cell, cql_type)| CqlValue::decode_nullable(cql_type, cell))
            .collect::<Result<_, _>>()
            .ok()?;
        count += std::hint::black_box(values).len();
    }
    Some(count)
}

/// From a statement with literals to its fingerprint: what an unprepared statement costs each time.
pub fn fingerprint(text: &str) -> Option<u64> {
    let statement = syntax::parse(text).ok()?;
    Some(Template::of(&statement, None).fingerprint.0)
}
