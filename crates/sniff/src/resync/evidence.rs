//! What a header and a body must hold to count as an envelope.

use bytes::Bytes;
use cqlens_proto::{
    compress::{Compression, decompress_body},
    envelope::{Direction, Envelope, Flags, Header, Opcode, Version},
    message::{BatchQuery, Extensions, QueryResult, Request, Response, fits},
};

/// The longest body that is believed: Cassandra's own limit is 16 MiB by default.
const MAX_BODY: u32 = 64 << 20;

pub(super) fn begins_header(bytes: &[u8], direction: Direction, version: Option<Version>) -> bool {
    let Some(first) = bytes.first() else { return true };
    let stated = Version::from_number(*first);
    stated.is_known()
        && Direction::of_version_byte(*first) == direction
        && version.is_none_or(|version| version == stated)
}

/// Whether a header is valid for `direction`.
pub(super) fn is_plausible(header: &Header, direction: Direction, version: Option<Version>) -> bool {
    header.is_specified()
        && version.is_none_or(|version| version == header.version)
        && header.direction == direction
        && header.body_len <= MAX_BODY
        && (!header.version.uses_segments() || BEFORE_SEGMENTS.contains(&header.opcode))
}

/// Opcodes of version 5 before segments begin.
const BEFORE_SEGMENTS: [Opcode; 6] = [
    Opcode::STARTUP,
    Opcode::OPTIONS,
    Opcode::READY,
    Opcode::AUTHENTICATE,
    Opcode::SUPPORTED,
    Opcode::ERROR,
];

/// Whether the body decodes as the header says (`None` if not), whether it is conclusive, and its
/// compression.
pub(super) fn evidence_of(header: &Header, body: &[u8]) -> Option<(bool, Compression)> {
    let (body, compression) = if header.flags.contains(Flags::COMPRESSED) && !header.version.uses_segments() {
        [Compression::Lz4, Compression::Snappy]
            .into_iter()
            .find_map(|compression| {
                let body = decompress_body(compression, body, MAX_BODY as usize).ok()?;
                Some((body, compression))
            })?
    } else {
        (Bytes::copy_from_slice(body), Compression::None)
    };
    let envelope = Envelope {
        header: *header,
        body,
    };
    let is_conclusive = match header.direction {
        Direction::Request => request_evidence(&envelope)?,
        Direction::Response => response_evidence(&envelope)?,
    };
    Some((is_conclusive, compression))
}

/// Whether an EXECUTE or a PREPARED result has a result metadata id, which its version does not specify (ScyllaDB's
/// extension).
fn has_metadata_id(envelope: &Envelope) -> bool {
    let extensions = Extensions::RESULT_METADATA_ID;
    let ids = match envelope.header.direction {
        Direction::Request => match Request::decode(envelope, extensions).map(|decoded| decoded.message) {
            Ok(Request::Execute(execute)) => Some((execute.id, execute.result_metadata_id)),
            _ => None,
        },
        Direction::Response => match Response::decode(envelope, extensions).map(|decoded| decoded.message) {
            Ok(Response::Result(QueryResult::Prepared(prepared))) => {
                Some((prepared.id, prepared.result_metadata_id))
            }
            _ => None,
        },
    };
    let are_ids =
        ids.is_some_and(|(id, of_metadata)| is_id(id.0) && of_metadata.is_some_and(|id| is_id(id.0)));
    are_ids && fits(envelope, envelope.body.len(), extensions)
}

/// `None` if it is no request; false for bodies that are empty or nearly unstructured.
fn request_evidence(envelope: &Envelope) -> Option<bool> {
    if has_metadata_id(envelope) {
        return Some(true);
    }
    let decoded = Request::decode(envelope, Extensions::NONE).ok()?;
    match decoded.message {
        Request::Options => envelope.body.is_empty().then_some(false),
        Request::AuthResponse(_) => Some(false),
        Request::Startup(startup) => startup.get("CQL_VERSION").map(|_| true),
        Request::Register(register) => {
            let names = ["SCHEMA_CHANGE", "TOPOLOGY_CHANGE", "STATUS_CHANGE"];
            let known = register.event_types.iter().any(|name| names.contains(name));
            known.then_some(true)
        }
        Request::Query(query) => is_cql(query.query).then_some(true),
        Request::Prepare(prepare) => is_cql(prepare.query).then_some(true),
        Request::Execute(execute) => is_id(execute.id.0).then_some(true),
        Request::Batch(batch) => {
            let fits = batch.statements.iter().all(|statement| match statement.query {
                BatchQuery::Text(text) => is_cql(text),
                BatchQuery::Prepared(id) => is_id(id.0),
            });
            fits.then_some(!batch.statements.is_empty())
        }
        _ => None,
    }
}

/// `None` if it is no response.
fn response_evidence(envelope: &Envelope) -> Option<bool> {
    if has_metadata_id(envelope) {
        return Some(true);
    }
    let decoded = Response::decode(envelope, Extensions::NONE).ok()?;
    match decoded.message {
        Response::Ready => envelope.body.is_empty().then_some(false),
        Response::Error(error) => {
            let is_text = !error.message.is_empty() && !error.message.contains(char::is_control);
            Some(is_text)
        }
        Response::Result(_) | Response::Event(_) => Some(true),
        Response::Supported(_) => {
            let text = b"CQL_VERSION";
            let found = envelope.body.windows(text.len()).any(|window| window == text);
            found.then_some(true)
        }
        _ => Some(false),
    }
}

/// Ids are the MD5 of the statement in all servers.
fn is_id(id: &[u8]) -> bool {
    id.len() == 16
}

fn is_cql(text: &str) -> bool {
    text.trim_start()
        .chars()
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, '-' | '/' | '('))
}
