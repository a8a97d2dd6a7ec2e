//! What `--show-values` adds to the log: requests as they were decoded, with their values, at the level `trace`.
//!
//! Never a password: what clients log in with is not decoded, and statements that set one are not shown.

use std::fmt::Write;

use cqlens_proto::{
    envelope::Envelope,
    message::{BatchQuery, Extensions, Request, Value, Values},
};

use cqlens_audit::audit::Watch;

/// Shows requests if `values` may be shown; where they may not, nobody looks.
pub(super) fn watch(values: bool) -> Watch {
    match values {
        true => Watch::new(show),
        false => Watch::default(),
    }
}

fn show(request: &Envelope) {
    if tracing::enabled!(tracing::Level::TRACE)
        && let Some(line) = line(request)
    {
        tracing::trace!(stream = request.header.stream_id.0, "{line}");
    }
}

/// The request in one line; none where nothing may be shown, or there are no values.
fn line(envelope: &Envelope) -> Option<String> {
    let decoded = Request::decode(envelope, Extensions::NONE).ok()?;
    let opcode = envelope.header.opcode;
    Some(match decoded.message {
        Request::Query(query) => format!(
            "{opcode} {}{}",
            text(query.query),
            values(&query.parameters.values)
        ),
        Request::Prepare(prepare) => format!("{opcode} {}", text(prepare.query)),
        Request::Execute(execute) => format!(
            "{opcode} {}{}",
            hex(execute.id.0),
            values(&execute.parameters.values)
        ),
        Request::Batch(batch) => {
            let mut line = opcode.to_string();
            for statement in &batch.statements {
                let what = match statement.query {
                    BatchQuery::Text(cql) => text(cql).to_owned(),
                    BatchQuery::Prepared(id) => hex(id.0),
                };
                // Writing to a text cannot fail.
                let _ = write!(line, " {what}{};", values(&statement.values));
            }
            line
        }
        _ => return None,
    })
}

fn text(cql: &str) -> &str {
    let sets_password = cql.to_ascii_lowercase().contains("password");
    if sets_password {
        "(a statement with a password)"
    } else {
        cql
    }
}

/// ` [name 0x6e616d65, null]`
fn values(values: &Values<'_>) -> String {
    let value = |(name, value): (Option<&str>, Value<'_>)| {
        let name = name.map_or_else(String::new, |name| format!("{name} "));
        match value {
            Value::Bytes(bytes) => name + &hex(bytes),
            Value::Null => name + "null",
            Value::NotSet => name + "not set",
        }
    };
    let values: Vec<_> = values.iter().map(value).collect();
    match values.is_empty() {
        true => String::new(),
        false => format!(" [{}]", values.join(", ")),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
