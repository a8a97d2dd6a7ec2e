//! `cassandra-protocol`: everything it reads is copied into its own vectors and strings.

use std::io::Cursor;

use bytes::Bytes;
use cassandra_protocol::compression::Compression;
use cassandra_protocol::frame::message_execute::BodyReqExecuteOwned;
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::frame::message_result::{BodyResResultRows, ResResultBody};
use cassandra_protocol::frame::{Envelope, FromCursor};
use cassandra_protocol::query::QueryValues;
use cassandra_protocol::types::IntoRustByIndex;
use cassandra_protocol::types::rows::Row;
use cassandra_protocol::types::value::Value;

use crate::{COLUMN, Execution, Page};

/// Finds where the envelopes of a chunk end; looks at version and length only.
pub fn measure(chunk: &Bytes) -> usize {
    let mut rest = &chunk[..];
    let mut count = 0;
    while let Some(after) = Envelope::check_envelope_size(rest)
        .ok()
        .and_then(|len| rest.get(len..))
    {
        rest = after;
        count += 1;
    }
    count
}

/// Takes the envelopes out of a chunk; bodies are copied.
pub fn split(chunk: &Bytes) -> usize {
    let mut rest = &chunk[..];
    let mut count = 0;
    while let Ok(parsed) = Envelope::from_buffer(rest, Compression::None) {
        rest = &rest[parsed.envelope_len..];
        std::hint::black_box(parsed.envelope);
        count += 1;
    }
    count
}

/// The first envelope of a chunk.
pub fn envelope(chunk: &Bytes) -> Option<Envelope> {
    let parsed = Envelope::from_buffer(chunk, Compression::None).ok()?;
    Some(parsed.envelope)
}

/// From an EXECUTE to what the audit needs.
pub fn execute(envelope: &Envelope) -> Option<Execution> {
    let mut cursor = Cursor::new(envelope.body.as_slice());
    let body = BodyReqExecuteOwned::from_cursor(&mut cursor, envelope.version).ok()?;
    let parameters = body.query_parameters;
    let len = |value: &Value| match value {
        Value::Some(bytes) => bytes.len(),
        Value::Null | Value::NotSet => 0,
    };
    let (values, value_bytes) = match &parameters.values {
        Some(QueryValues::SimpleValues(values)) => (values.len(), values.iter().map(len).sum()),
        Some(QueryValues::NamedValues(values)) => (values.len(), values.values().map(len).sum()),
        None => (0, 0),
    };
    Some(Execution {
        id_len: body.id.into_bytes()?.len(),
        consistency: u16::try_from(i16::from(parameters.consistency)).ok()?,
        page_size: parameters.page_size,
        timestamp: parameters.timestamp,
        values,
        value_bytes,
    })
}

/// From ROWS to what the audit needs.
pub fn page(envelope: &Envelope) -> Option<Page> {
    let body = rows(envelope)?;
    let column = |row: &Vec<_>| row.get(COLUMN).and_then(cell_len).unwrap_or(0);
    Some(Page {
        rows: body.rows_content.len(),
        columns: body.metadata.col_specs.len(),
        paging_state_len: body.metadata.paging_state.as_ref().and_then(cell_len),
        column_bytes: body.rows_content.iter().map(column).sum(),
    })
}

fn cell_len(cell: &cassandra_protocol::types::CBytes) -> Option<usize> {
    cell.as_slice().map(<[u8]>::len)
}

/// From ROWS to a typed, owned value for each cell, of the types that the caller says.
pub fn every_value(envelope: &Envelope) -> Option<usize> {
    let mut count = 0;
    for row in Row::from_body(rows(envelope)?) {
        let customer_id: i64 = row.get_r_by_index(0).ok()?;
        let customer: String = row.get_r_by_index(1).ok()?;
        let note: String = row.get_r_by_index(2).ok()?;
        let amount: i32 = row.get_r_by_index(3).ok()?;
        let price: f64 = row.get_r_by_index(4).ok()?;
        std::hint::black_box((customer_id, customer, note, amount, price));
        count += 5;
    }
    Some(count)
}

fn rows(envelope: &Envelope) -> Option<BodyResResultRows> {
    match envelope.response_body().ok()? {
        ResponseBody::Result(ResResultBody::Rows(rows)) => Some(rows),
        _ => None,
    }
}
