//! Asks bytes from the network for everything that they can be asked for. Nothing in here may panic, whatever
//! the bytes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cqlens_proto::compress::{Compression, decompress_body};
use cqlens_proto::cutter::{Cut, Cutter, Negotiated, OpcodeCounts};
use cqlens_proto::envelope::{Direction, Envelope};
use cqlens_proto::message::{
    ColumnSpecs, Dialect, Event, Extensions, QueryParameters, QueryResult, Request, Response, Rows,
};
use cqlens_proto::stream::{EnvelopeStream, StreamItem};
use cqlens_proto::types::{CqlType, CqlValue, Elements};

/// A direction of a connection: cut and joined, each envelope decoded.
pub(crate) fn wire(
    direction: Direction,
    starts_with_segments: bool,
    compression: Compression,
    chunks: &[&[u8]],
) {
    let negotiated = || negotiated(starts_with_segments, compression);
    let mut cutter = Cutter::new(direction, negotiated());
    let mut stream = EnvelopeStream::new(direction, negotiated())
        .with_max_body(MAX_BODY)
        .with_heads(HEAD);
    for chunk in chunks {
        let cut = cutter.cut(chunk);
        assert!(cut.first_boundary.is_none_or(|boundary| boundary < chunk.len()));
        stream.feed(Bytes::copy_from_slice(chunk));
        while let Some(item) = stream.next_item() {
            match item {
                StreamItem::Envelope(found) => envelope(&found),
                StreamItem::Head(head) => begun(&head.envelope, head.body_len),
                _ => {}
            }
        }
    }
}

/// Short, so that bodies of which only the head is kept are exercised too.
const MAX_BODY: usize = 1 << 16;
const HEAD: usize = 1 << 10;

fn negotiated(starts_with_segments: bool, compression: Compression) -> Arc<Negotiated> {
    let negotiated = Negotiated::new();
    negotiated.set_compression(compression);
    if starts_with_segments {
        negotiated.start_segments();
    }
    Arc::new(negotiated)
}

/// The same bytes, good or bad, in chunks of these lengths: cutter and stream find what they find when each
/// byte comes alone.
pub(crate) fn split(
    direction: Direction,
    starts_with_segments: bool,
    compression: Compression,
    bytes: &[u8],
    lengths: &[usize],
) {
    let negotiated = || negotiated(starts_with_segments, compression);
    let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
    let chunks = chunks(bytes, lengths);
    assert_eq!(
        items(direction, negotiated(), &chunks),
        items(direction, negotiated(), &bytewise)
    );

    let known = cuts(direction, negotiated(), &bytewise);
    let found = cuts(direction, negotiated(), &chunks);
    let mut start = 0;
    for (chunk, cut) in chunks.iter().zip(found) {
        let known = &known[start..start + chunk.len()];
        let mut envelopes = OpcodeCounts::default();
        known.iter().for_each(|cut| envelopes.merge(&cut.envelopes));
        let boundary = known.iter().position(|cut| cut.first_boundary.is_some());
        let before = known[..boundary.unwrap_or(chunk.len())].iter();
        let expected = Cut {
            first_boundary: boundary,
            framing: boundary.and_then(|boundary| known[boundary].framing),
            envelopes_before_boundary: before.fold(OpcodeCounts::default(), |mut all, cut| {
                all.merge(&cut.envelopes);
                all
            }),
            segments: known.iter().map(|cut| cut.segments).sum(),
            envelopes,
            // Of a single byte it is more often not known.
            prepares: cut.prepares && known.iter().any(|cut| cut.prepares),
            opaque: known.iter().find_map(|cut| cut.opaque),
            // Where the header begins; of single bytes it is known at the end of it.
            opaque_at: cut.opaque_at,
        };
        let known_at = known.iter().position(|cut| cut.opaque.is_some());
        assert!(cut.opaque_at <= known_at.unwrap_or(0));
        assert_eq!(cut, expected, "the chunk at {start}");
        start += chunk.len();
    }
}

fn chunks<'a>(bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    let mut rest = bytes;
    for length in lengths.iter().chain(std::iter::repeat(&bytes.len())) {
        let (chunk, left) = rest.split_at((*length).clamp(1, rest.len().max(1)).min(rest.len()));
        if chunk.is_empty() {
            break;
        }
        chunks.push(chunk);
        rest = left;
    }
    chunks
}

fn items(direction: Direction, negotiated: Arc<Negotiated>, chunks: &[&[u8]]) -> Vec<StreamItem> {
    let mut stream = EnvelopeStream::new(direction, negotiated)
        .with_max_body(MAX_BODY)
        .with_heads(HEAD);
    let mut items = Vec::new();
    for chunk in chunks {
        stream.feed(Bytes::copy_from_slice(chunk));
        items.extend(std::iter::from_fn(|| stream.next_item()));
    }
    items
}

fn cuts(direction: Direction, negotiated: Arc<Negotiated>, chunks: &[&[u8]]) -> Vec<Cut> {
    let mut cutter = Cutter::new(direction, negotiated);
    chunks.iter().map(|chunk| cutter.cut(chunk)).collect()
}

/// The beginning of an envelope.
fn begun(envelope: &Envelope, body_len: usize) {
    for extensions in [Extensions::NONE, EXTENSIONS] {
        if let Ok(decoded) = Request::decode_head(envelope, extensions) {
            request(&decoded.message);
        }
        if let Ok(decoded) = Response::decode_head(envelope, body_len, extensions) {
            let _ = format!("{decoded:?}");
        }
    }
}

const EXTENSIONS: Extensions = Extensions {
    result_metadata_id: true,
    rate_limit_error: Some(0xf000),
    lwt_mask: 0x8000_0000,
};

/// A whole envelope, decoded as what its header says.
pub(crate) fn envelope(envelope: &Envelope) {
    begun(envelope, 2 * envelope.body.len());
    for extensions in [Extensions::NONE, EXTENSIONS] {
        let dialect = Dialect::with(envelope.header.version, extensions);
        if let Ok(decoded) = Request::decode(envelope, extensions) {
            request(&decoded.message);
            let _ = format!("{decoded:?}");
            let _ = decoded.message.encode(dialect, &mut BytesMut::new());
        }
        if let Ok(decoded) = Response::decode(envelope, extensions) {
            response(&decoded.message);
            let _ = format!("{decoded:?}");
            let _ = decoded.message.encode(dialect, &mut BytesMut::new());
        }
    }
    for compression in [Compression::Lz4, Compression::Snappy] {
        let _ = decompress_body(compression, &envelope.body, 1 << 16);
    }
}

fn request(request: &Request<'_>) {
    match request {
        Request::Query(query) => parameters(&query.parameters),
        Request::Execute(execute) => parameters(&execute.parameters),
        Request::Batch(batch) => {
            for statement in &batch.statements {
                assert_eq!(statement.values.iter().count(), statement.values.len());
            }
        }
        _ => {}
    }
}

fn parameters(parameters: &QueryParameters<'_>) {
    assert_eq!(parameters.values.iter().count(), parameters.values.len());
    for (_, value) in parameters.values {
        value.bytes().into_iter().for_each(every_type);
    }
}

fn response(response: &Response<'_>) {
    match response {
        Response::Result(QueryResult::Rows(its_rows)) => rows(its_rows),
        Response::Result(QueryResult::Prepared(prepared)) => {
            columns(&prepared.bind.markers);
            prepared.result.columns.iter().for_each(columns);
        }
        Response::Event(event) => assert!(!matches!(
            event,
            Event::Unknown {
                event_type: "STATUS_CHANGE",
                ..
            }
        )),
        _ => {}
    }
}

fn columns(columns: &ColumnSpecs<'_>) {
    assert_eq!(columns.iter().count(), columns.len());
}

fn rows(rows: &Rows<'_>) {
    rows.metadata.columns.iter().for_each(columns);
    let types: Vec<CqlType> = rows
        .metadata
        .columns
        .into_iter()
        .flatten()
        .map(|column| column.column_type)
        .collect();
    for row in rows.iter().filter_map(Result::ok) {
        assert_eq!(row.iter().count(), rows.metadata.column_count);
        for (cql_type, cell) in types.iter().zip(row) {
            value(cql_type, cell.unwrap_or_default());
        }
    }
}

/// Bytes as a value of a type.
pub(crate) fn value(cql_type: &CqlType, bytes: &[u8]) {
    if let Ok(value) = CqlValue::decode(cql_type, bytes) {
        let _ = (value.to_string(), format!("{value:#}"), value.to_bytes(cql_type));
    }
    if let Ok(elements) = Elements::of_map(bytes) {
        assert!(elements.count() <= bytes.len());
    }
}

/// Bytes as a value of some types.
pub(crate) fn every_type(bytes: &[u8]) {
    for name in [
        "decimal",
        "varint",
        "duration",
        "inet",
        "time",
        "timestamp",
        "date",
        "timeuuid",
        "ascii",
    ] {
        let native = CqlType::native_from_name(name).expect("the name of a native type");
        value(&native, bytes);
        value(&CqlType::Vector(Box::new(native.clone()), 2), bytes);
        value(&CqlType::map(native.clone(), CqlType::list(native)), bytes);
    }
}
