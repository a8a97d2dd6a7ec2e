//! `scylla-cql`: a client's codec. It has no reader for the header of a request, and reads responses from a
//! stream only.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use scylla_cql::deserialize::row::ColumnIterator;
use scylla_cql::frame::protocol_features::ProtocolFeatures;
use scylla_cql::frame::read_response_frame;
use scylla_cql::frame::request::{DeserializableRequest, execute::ExecuteV2, query::PagingStateResponse};
use scylla_cql::frame::response::result::{DeserializedMetadataAndRawRows, Result as QueryResult};
use scylla_cql::frame::response::{Response, ResponseOpcode};
use scylla_cql::value::Row;

use crate::{COLUMN, Execution, Page};

/// The length of a header.
const HEADER_LEN: usize = 9;

/// Takes the envelopes out of a chunk; bodies are copied.
pub fn split(chunk: &Bytes) -> usize {
    let mut rest = &chunk[..];
    let mut count = 0;
    while response(&mut rest).is_some() {
        count += 1;
    }
    count
}

/// The body of the first envelope of a chunk of requests; its header is skipped.
pub fn request_body(chunk: &Bytes) -> Option<Bytes> {
    (chunk.len() >= HEADER_LEN).then(|| chunk.slice(HEADER_LEN..))
}

/// From an EXECUTE to what the audit needs.
pub fn execute(body: &Bytes) -> Option<Execution> {
    let mut body = &body[..];
    let execute = ExecuteV2::deserialize_with_features(&mut body, &ProtocolFeatures::default()).ok()?;
    let parameters = execute.parameters;
    let value_bytes = parameters
        .values
        .iter()
        .map(|value| value.as_value().map_or(0, <[u8]>::len));
    Some(Execution {
        id_len: execute.id.as_ref().len(),
        consistency: parameters.consistency as u16,
        page_size: parameters.page_size,
        timestamp: parameters.timestamp,
        values: usize::from(parameters.values.element_count()),
        value_bytes: value_bytes.sum(),
    })
}

/// Opcode and body of the first envelope of a chunk of responses.
pub fn first_response(chunk: &Bytes) -> Option<(ResponseOpcode, Bytes)> {
    response(&mut &chunk[..])
}

/// From ROWS to what the audit needs.
pub fn page(response: &(ResponseOpcode, Bytes)) -> Option<Page> {
    let (rows, paging_state) = rows(response)?;
    let mut column_bytes = 0;
    for row in rows.rows_iter::<ColumnIterator<'_, '_>>().ok()? {
        let cell = row.ok()?.nth(COLUMN)?.ok()?;
        column_bytes += cell.slice.map_or(0, |slice| slice.as_slice().len());
    }
    let paging_state_len = match &paging_state {
        PagingStateResponse::HasMorePages { state } => state.as_bytes_slice().map(|bytes| bytes.len()),
        PagingStateResponse::NoMorePages => None,
    };
    Some(Page {
        rows: rows.rows_count(),
        columns: rows.metadata().col_specs().len(),
        paging_state_len,
        column_bytes,
    })
}

/// From ROWS to a typed, owned value for each cell, of the types that the metadata says.
pub fn every_value(response: &(ResponseOpcode, Bytes)) -> Option<usize> {
    let (rows, _) = rows(response)?;
    let mut count = 0;
    for row in rows.rows_iter::<Row>().ok()? {
        count += std::hint::black_box(row.ok()?).columns.len();
    }
    Some(count)
}

fn rows(response: &(ResponseOpcode, Bytes)) -> Option<(DeserializedMetadataAndRawRows, PagingStateResponse)> {
    let (opcode, body) = response;
    match Response::deserialize(&ProtocolFeatures::default(), *opcode, body.clone(), None).ok()? {
        Response::Result(QueryResult::Rows((rows, paging_state))) => {
            Some((rows.deserialize_metadata().ok()?, paging_state))
        }
        _ => None,
    }
}

/// Header and body, as its only reader of headers has it. From memory its future is ready at once.
fn response(bytes: &mut &[u8]) -> Option<(ResponseOpcode, Bytes)> {
    let future = pin!(read_response_frame(bytes));
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok((_, opcode, body))) => Some((opcode, body)),
        _ => None,
    }
}
