//! A recording in words: how many of which envelopes, and which statements.

use std::collections::BTreeMap;
use std::fmt::Write;

use cqlens_cql::syntax;
use cqlens_proto::envelope::{Direction, Envelope};
use cqlens_proto::message::batch::BatchQuery;
use cqlens_proto::message::{Extensions, QueryResult, Request, Response};

use super::recording::Recording;

type Counts = BTreeMap<String, usize>;

pub(crate) fn of(recording: &Recording) -> String {
    let mut kinds = Counts::new();
    let mut statements = Counts::new();
    for envelope in recording.envelopes() {
        *kinds.entry(kind(&envelope)).or_default() += 1;
        for text in texts(&envelope) {
            *statements.entry(shown(text)).or_default() += 1;
        }
    }
    let mut out = format!("{} connections\n\n", recording.connections().len());
    write(&mut out, &kinds);
    out.push('\n');
    write(&mut out, &statements);
    out
}

fn write(out: &mut String, counts: &Counts) {
    for (name, count) in counts {
        writeln!(out, "{count:>4}  {name}").expect("a string takes what is written");
    }
}

/// `v4 request QUERY`, `v4 response RESULT Rows with warnings`.
fn kind(envelope: &Envelope) -> String {
    let header = &envelope.header;
    let (direction, what, extras) = match header.direction {
        Direction::Request => {
            let decoded = Request::decode(envelope, Extensions::NONE).unwrap();
            ("request", String::new(), decoded.extras)
        }
        Direction::Response => {
            let decoded = Response::decode(envelope, Extensions::NONE).unwrap();
            ("response", of_response(&decoded.message), decoded.extras)
        }
    };
    let mut kind = format!("{} {direction} {}{what}", header.version, header.opcode);
    for (name, is_there) in [
        (" with tracing", extras.tracing),
        (" with warnings", !extras.warnings.is_empty()),
        (" with custom payload", !extras.custom_payload.is_empty()),
    ] {
        kind.push_str(if is_there { name } else { "" });
    }
    kind
}

fn of_response(response: &Response<'_>) -> String {
    match response {
        Response::Error(error) => format!(" {}", error.code),
        Response::Result(QueryResult::Void) => " Void".to_owned(),
        Response::Result(QueryResult::Rows(_)) => " Rows".to_owned(),
        Response::Result(QueryResult::SetKeyspace { .. }) => " SetKeyspace".to_owned(),
        Response::Result(QueryResult::Prepared(_)) => " Prepared".to_owned(),
        Response::Result(QueryResult::SchemaChange(_)) => " SchemaChange".to_owned(),
        _ => String::new(),
    }
}

fn texts(envelope: &Envelope) -> Vec<&str> {
    if envelope.header.direction == Direction::Response {
        return Vec::new();
    }
    match Request::decode(envelope, Extensions::NONE).unwrap().message {
        Request::Query(query) => vec![query.query],
        Request::Prepare(prepare) => vec![prepare.query],
        Request::Batch(batch) => {
            let text = |query| match query {
                BatchQuery::Text(text) => Some(text),
                BatchQuery::Prepared(_) => None,
            };
            batch
                .statements
                .iter()
                .filter_map(|statement| text(statement.query))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The beginning of the text, and whether it is none that the parser knows.
fn shown(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let beginning: String = words.join(" ").chars().take(100).collect();
    let verdict = if syntax::parse(text).is_ok() {
        ""
    } else {
        "(not CQL) "
    };
    format!("{verdict}{beginning}")
}
