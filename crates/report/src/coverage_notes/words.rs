//! The names that windows keep for reasons, opcodes and failures, in words.

use std::collections::BTreeMap;

use cqlens_cql::footprint::Reason;

use cqlens_window::number;

/// ` (1,900 EXECUTE, 100 QUERY)`, the most frequent first; nothing where nothing is known.
pub(super) fn opcodes(counts: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let counts: Vec<_> = counts
        .into_iter()
        .map(|(opcode, &count)| format!("{} {opcode}", number::exact(count)))
        .collect();
    match counts.is_empty() {
        true => String::new(),
        false => format!(" ({})", counts.join(", ")),
    }
}

pub(super) fn tls_failure(whose: &str) -> String {
    match whose {
        "plain-client" => "failed because the client uses plain CQL instead of TLS".to_owned(),
        "client" => "failed because of TLS with the client".to_owned(),
        "upstream" => "failed because of TLS with the node".to_owned(),
        other => format!("failed because of TLS ({other})"),
    }
}

pub(super) fn refusal(reason: &str) -> String {
    match reason {
        "descriptors" => "cqlens had no file descriptor for it".to_owned(),
        "proxy-header" => {
            "it did not begin with a PROXY protocol header, which is required from every client here"
                .to_owned()
        }
        "destination" => {
            "it was not redirected to cqlens, which serves only redirected connections".to_owned()
        }
        "loop" => "it was cqlens' own, redirected back to it by rules that do not exempt cqlens".to_owned(),
        "upstream-down" => "its node accepted no connections".to_owned(),
        "login-timeout" => "the client did not log in within the login-timeout".to_owned(),
        setting => format!("{setting} allowed no more"),
    }
}

/// The names that windows keep, as a reader understands them; what is not listed stays as it is.
pub(super) fn in_words(name: &str) -> &str {
    REASONS
        .iter()
        .find(|(known, _)| *known == name)
        .map_or(name, |(_, words)| words)
}

/// [`Reason`]s of missing counts, then why a connection could not be cut into envelopes.
const REASONS: &[(&str, &str)] = &[
    (
        Reason::PreparedIdUnknown.name(),
        "prepared before cqlens started, and `system.prepared_statements` does not list the statement",
    ),
    (Reason::TableUnknown.name(), "the table is not in the schema"),
    (Reason::KeyspaceUnknown.name(), "no keyspace was given"),
    (
        Reason::SchemaUnknown.name(),
        "there is no schema, and PREPARED does not contain the position of the partition key markers",
    ),
    (
        Reason::TypeUnknown.name(),
        "the partition key has a type that is not known",
    ),
    (
        Reason::StatementUnknown.name(),
        "the statement could not be parsed",
    ),
    (
        Reason::StatementTooComplex.name(),
        "the statement is too long or too deeply nested to be analysed",
    ),
    (
        Reason::InvalidStatement.name(),
        "the statement does not match the known schema",
    ),
    (
        Reason::NotFollowed.name(),
        "the statement uses syntax that Cassandra 5.0 does not have",
    ),
    (Reason::Unbound.name(), "a marker had no value"),
    (
        Reason::InvalidKey.name(),
        "a value of the partition key was null, not set or empty",
    ),
    (
        Reason::ValueUndecodable.name(),
        "a bound value does not match its column's type",
    ),
    (Reason::FunctionValue.name(), "the server computes the key"),
    (
        Reason::Json.name(),
        "the key is inside a JSON text that could not be read",
    ),
    (Reason::TooManyKeys.name(), "more keys than cqlens stores"),
    (
        Reason::ServerError.name(),
        "the server failed with an internal error, at an unknown point of the execution",
    ),
    (
        Reason::TurnedAway.name(),
        "the server could not reach the replicas of one of several partitions (or under a condition), and \
         does not report which others it had reached",
    ),
    (
        Reason::ErrorUnseen.name(),
        "the server responded with an error that was cut off in the capture: it may have refused the \
            statement",
    ),
    (
        Reason::RequestCut.name(),
        "the request is longer than the part that cqlens stores: not all of its values are known",
    ),
    (
        Reason::Page.name(),
        "a page of a read of several partitions touches only some of them; all are counted with the first \
         page, and one with each later page",
    ),
    (Reason::NotApplicable.name(), "the statement has no partitions"),
    ("tls", "TLS on a port expected to be plain"),
    ("text", "text instead of CQL envelopes, such as an HTTP request"),
    (
        "no-place",
        "in mid-connection, and nothing in it looks like CQL (it may be encrypted)",
    ),
    ("unknown-version", "an unknown protocol version"),
    ("wrong-direction", "envelopes in the wrong direction"),
    ("impossible-length", "an envelope with an impossible length"),
    ("damaged-segment", "a segment whose header is damaged"),
];
