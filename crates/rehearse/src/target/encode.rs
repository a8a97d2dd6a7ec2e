//! Requests as this cluster is sent them: its own prepared ids and paging states; no custom payload, no tracing.

use std::sync::Arc;

use cqlens_proto::{
    envelope::{Envelope, StreamId},
    error::EncodeError,
    message::{
        Batch, BatchQuery, BatchStatement, Dialect, Execute, Extras, PagingState, PreparedId, Query,
        QueryParameters, Request, ResultMetadataId, Value, ValuesBuf,
    },
};

use super::{job::Job, prepared::PreparedStatement};
use crate::exchange::{Effect, RecordedExchange, RecordedStatement, ValueContent};

/// What a statement is sent as: its id, where it was prepared.
pub(super) type Ids = Vec<Option<Arc<PreparedStatement>>>;

/// The envelope of a request. `ids` are those of its statements.
///
/// # Errors
/// What the version cannot express.
pub(super) fn envelope(
    job: &Job,
    ids: &Ids,
    keyspace: Option<&str>,
    dialect: Dialect,
    stream_id: StreamId,
) -> Result<Envelope, EncodeError> {
    let exchange = &*job.request.exchange;
    let statements = &exchange.request.statements;
    let values: Vec<ValuesBuf> = statements.iter().map(values).collect::<Result<_, _>>()?;
    let request = match exchange.request.batch {
        Some(_) => batch(exchange, ids, &values, keyspace)?,
        None => single(exchange, ids, &values, keyspace, job.paging_state.as_deref())?,
    };
    request.to_envelope(dialect, stream_id, &Extras::default())
}

fn single<'a>(
    exchange: &'a RecordedExchange,
    ids: &'a Ids,
    values: &'a [ValuesBuf],
    keyspace: Option<&'a str>,
    paging_state: Option<&'a super::pages::PagingState>,
) -> Result<Request<'a>, EncodeError> {
    let request = &exchange.request;
    let ([statement], [values], [prepared]) = (&*request.statements, values, &**ids) else {
        return Err(EncodeError::Unsupported {
            what: "several statements without a batch",
        });
    };
    let parameters = QueryParameters {
        values: values.values(),
        page_size: request.page_size,
        paging_state: paging_state.map(|state| PagingState(state.bytes())),
        serial_consistency: request.serial_consistency,
        timestamp: timestamp(exchange),
        // The keyspace of a prepared statement is PREPARE's.
        keyspace: keyspace.filter(|_| prepared.is_none()),
        now_in_seconds: request.now_in_seconds,
        ..QueryParameters::new(request.consistency)
    };
    Ok(match prepared {
        None => Request::Query(Query {
            query: &statement.cql,
            parameters,
        }),
        Some(prepared) => Request::Execute(Execute {
            id: PreparedId(&prepared.id),
            result_metadata_id: prepared.result_metadata_id.as_deref().map(ResultMetadataId),
            parameters,
        }),
    })
}

fn batch<'a>(
    exchange: &'a RecordedExchange,
    ids: &'a Ids,
    values: &'a [ValuesBuf],
    keyspace: Option<&'a str>,
) -> Result<Request<'a>, EncodeError> {
    let request = &exchange.request;
    let Some(kind) = request.batch else {
        return Err(EncodeError::Unsupported { what: "no batch" });
    };
    let children = request.statements.iter().zip(ids).zip(values);
    let statements = children.map(|((statement, prepared), values)| BatchStatement {
        query: match prepared {
            None => BatchQuery::Text(&statement.cql),
            Some(prepared) => BatchQuery::Prepared(PreparedId(&prepared.id)),
        },
        values: values.values(),
    });
    Ok(Request::Batch(Batch {
        kind,
        statements: statements.collect(),
        consistency: request.consistency,
        serial_consistency: request.serial_consistency,
        timestamp: timestamp(exchange),
        keyspace,
        now_in_seconds: request.now_in_seconds,
        other_flags: 0,
    }))
}

/// Two writes of one cell have to end the same way on both clusters, whichever comes first: where the client
/// gives no time, the moment of its request is it.
fn timestamp(exchange: &RecordedExchange) -> Option<i64> {
    let own = (exchange.request.effect == Effect::Write).then_some(exchange.at_us);
    exchange.request.timestamp.or(own)
}

fn values(statement: &RecordedStatement) -> Result<ValuesBuf, EncodeError> {
    let is_named = statement.values.first().is_some_and(|value| value.name.is_some());
    if is_named {
        let values = statement.values.iter().map(|value| {
            let name = value.name.as_deref().unwrap_or_default();
            (name, on_the_wire(&value.content))
        });
        return ValuesBuf::by_name(values);
    }
    ValuesBuf::positional(statement.values.iter().map(|value| on_the_wire(&value.content)))
}

fn on_the_wire(content: &ValueContent) -> Value<'_> {
    match content {
        ValueContent::Bytes(bytes) => Value::Bytes(bytes),
        // The gate lets none pass.
        ValueContent::Hashed { .. } | ValueContent::Null => Value::Null,
        ValueContent::NotSet => Value::NotSet,
    }
}
