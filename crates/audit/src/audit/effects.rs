//! What an exchange changes for those that follow: the keyspace of its connection (USE), the prepared
//! statements (PREPARE), the schema (definitions, and rows of the schema that a client has read).
//!
//! The only place where traffic changes session or catalog, called once for each exchange, however often it
//! is interpreted. What a connection agrees on before its first statement (STARTUP, SUPPORTED) belongs to
//! [`connection`](super::connection): the bytes that follow cannot be read without it.

use cqlens_proto::message::{BatchQuery, ColumnSpecs, Prepare, Prepared, QueryResult, Request, Response};

use crate::audit::{
    connection::{
        event::{RawExchange, ReceivedResponse},
        session::Session,
    },
    exchange::{
        DecodedExchange, Execution,
        answer::Answer,
        builder::{ExchangeBuilder, keyspace_of},
    },
};
use crate::catalog::{Live, PreparedStatement};
use cqlens_cql::{footprint::Reason, plan::Markers};

/// Applies what an exchange changes.
#[inline]
pub(crate) fn apply(
    live: &Live,
    builder: &mut ExchangeBuilder,
    session: &mut Session,
    decoded: DecodedExchange<'_>,
    execution: Option<&Execution>,
) {
    let DecodedExchange { raw, request, answer } = decoded;
    if let Some(execution) = execution
        && !execution.is_of_one()
        && answer.outcome.is_answer()
    {
        if execution.footprint.reason() == Some(Reason::PreparedIdUnknown) {
            want_unknown(live, request);
        }
        // Of the rows of a head some are missing.
        let is_whole = !matches!(raw.response, Some((ReceivedResponse::Head(_), _)));
        if let (Some(rows), true) = (answer.rows, is_whole && may_show_schema(session, execution)) {
            live.see_rows(rows);
        }
    }
    if let Some(response) = answer.message
        && (!raw.is_request_cut() || is_keyspace(response))
    {
        follow(live, builder, session, decoded, response);
    }
}

/// Whether the rows of an answer may be the schema's, where no control connection may have read it.
#[inline]
pub(crate) fn may_show_schema(session: &Session, execution: &Execution) -> bool {
    session.is_recorded && execution.analysis.head.system
}

/// Learns the keyspace of a connection whose USE was not seen from rows, which name their table; whether the meaning of the
/// statement that they answer has changed by that.
#[inline]
pub(crate) fn learn_keyspace(
    session: &mut Session,
    raw: &RawExchange,
    execution: Option<&Execution>,
    answer: &Answer<'_>,
) -> bool {
    let columns = answer.rows.and_then(|rows| rows.metadata.columns);
    let (Some(columns), Some(execution)) = (columns, execution) else {
        return false;
    };
    execution.analysis.lacks_keyspace()
        && !execution.prepared
        && !raw.is_request_cut()
        && learn_from(session, raw, &columns)
}

/// Takes over the keyspace of columns whose table a statement names without one.
#[cold]
fn learn_from(session: &mut Session, raw: &RawExchange, columns: &ColumnSpecs<'_>) -> bool {
    let Some((keyspace, _)) = columns.global_table() else {
        return false;
    };
    session.learn_keyspace(raw.keyspace_changes, keyspace);
    session.keyspace_after(raw.keyspace_changes).is_some()
}

/// Asks the control connection for the statements of `request` that the server has executed and that are not
/// known.
#[cold]
fn want_unknown(live: &Live, request: &Request<'_>) {
    match request {
        Request::Execute(execute) => live.prepared.want(execute.id.0),
        Request::Batch(batch) => {
            for statement in &batch.statements {
                if let BatchQuery::Prepared(id) = statement.query {
                    live.prepared.want(id.0);
                }
            }
        }
        _ => {}
    }
}

/// What a response that is no rows changes.
#[inline(never)]
fn follow(
    live: &Live,
    builder: &mut ExchangeBuilder,
    session: &mut Session,
    decoded: DecodedExchange<'_>,
    response: &Response<'_>,
) {
    let DecodedExchange { raw, request, .. } = decoded;
    match (request, response) {
        (_, Response::Result(QueryResult::SetKeyspace { keyspace })) => session.use_keyspace(keyspace),
        (Request::Prepare(prepare), Response::Result(QueryResult::Prepared(prepared))) => {
            if keyspace_of(prepare.keyspace, raw, session).is_none() {
                learn_keyspace_of_prepared(builder, session, raw, prepare, prepared);
            }
            let keyspace = keyspace_of(prepare.keyspace, raw, session);
            learn(live, builder, prepare, prepared, keyspace.as_deref());
        }
        (Request::Query(query), Response::Result(QueryResult::SchemaChange(_))) => {
            let keyspace = keyspace_of(query.parameters.keyspace, raw, session);
            live.apply(query.query, keyspace.as_deref());
        }
        (Request::Execute(execute), Response::Result(QueryResult::SchemaChange(_))) => {
            if let Some(statement) = live.prepared.get(execute.id.0) {
                live.apply(&statement.cql, statement.keyspace.as_deref());
            }
        }
        _ => {}
    }
}

/// Learns the keyspace of a connection whose USE was not seen from the columns of markers, or of rows to come.
#[cold]
fn learn_keyspace_of_prepared(
    builder: &mut ExchangeBuilder,
    session: &mut Session,
    raw: &RawExchange,
    prepare: &Prepare<'_>,
    prepared: &Prepared<'_>,
) {
    let (analysis, _) = builder.statements.of_text(prepare.query, None);
    if analysis.lacks_keyspace() {
        let columns = [Some(prepared.bind.markers), prepared.result.columns];
        for columns in columns.iter().flatten() {
            learn_from(session, raw, columns);
        }
    }
}

/// Takes over what a PREPARED result says.
#[cold]
fn learn(
    live: &Live,
    builder: &mut ExchangeBuilder,
    prepare: &Prepare<'_>,
    prepared: &Prepared<'_>,
    keyspace: Option<&str>,
) {
    let id = prepared.id.0;
    let statement = PreparedStatement {
        cql: prepare.query.into(),
        keyspace: keyspace.map(Into::into),
        markers: Some(Markers::of(&prepared.bind)),
    };
    builder.scanned_keys.prepared(prepare.query, prepared);
    builder.result_columns.prepared(prepared);
    builder.statements.forget_prepared(id);
    live.prepared.insert(id, statement);
}

/// Whether the connection has another keyspace from now on.
fn is_keyspace(response: &Response<'_>) -> bool {
    matches!(response, Response::Result(QueryResult::SetKeyspace { .. }))
}
