//! From exchanges as the audit sees them to exchanges that stand by themselves.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use cqlens_audit::audit::observe::{ObservedExchange, ObservedResponse, ObservedStatement};
use cqlens_cql::plan::{Flag, StatementKind};
use cqlens_proto::message::{
    Batch, BatchKind, BatchQuery, BatchStatement, ErrorCode, Execute, Query, QueryParameters, Request,
    Response, Value, Values,
};
use cqlens_window::PatternId;

use crate::{
    column_types::ColumnTypesCache,
    digest::{DigestKey, ResponseDigest, RowsDigest},
    exchange::{
        Effect, Page, RecordedExchange, RecordedRequest, RecordedStatement, RecordedValue, ValueContent,
    },
    left_out::LeftOut,
    pages::Pages,
    text::{Special, may_count, needs_keyspace},
};

/// Converts the exchanges of one audit, in the order in which it sees them.
#[derive(Debug)]
pub struct Converter {
    key: DigestKey,
    /// Of the next exchange.
    number: u64,
    pages: Pages,
    types: ColumnTypesCache,
    /// The names of patterns; begins anew when it is full.
    patterns: HashMap<PatternId, Arc<str>>,
}

/// Patterns whose names are kept.
const MOST_PATTERNS: usize = 20_000;

impl Converter {
    /// One whose digests have that key.
    pub fn new(key: DigestKey) -> Self {
        Self {
            key,
            number: 0,
            pages: Pages::default(),
            types: ColumnTypesCache::default(),
            patterns: HashMap::new(),
        }
    }

    /// The exchange with copies of all that it needs.
    ///
    /// # Errors
    /// Why it is left out.
    pub fn convert(&mut self, observed: &ObservedExchange<'_>) -> Result<RecordedExchange, LeftOut> {
        let statement = judged(observed)?;
        let mut request = match observed.request {
            Request::Query(query) => of_query(query, observed),
            Request::Execute(execute) => of_execute(execute, observed)?,
            Request::Batch(batch) => of_batch(batch, observed)?,
            _ => return Err(LeftOut::NoStatement),
        };
        request.effect = effect(&statement, &request)?;
        request.is_ordered = statement.kind.is_read() && statement.partitions == Some(1);
        request.pattern = Some(self.pattern(statement.pattern));
        let parameters = observed.request.parameters();
        if parameters.is_some_and(|parameters| parameters.continuous_paging.is_some()) {
            return Err(LeftOut::ContinuousPaging);
        }
        if let Some(state) = parameters.and_then(|parameters| parameters.paging_state) {
            request.page = self.pages.giver(state.0).map_or(Page::Unknown, Page::After);
        }
        let number = self.number;
        self.number += 1;
        if let ObservedResponse::Rows(rows) = observed.response
            && let Some(state) = rows.metadata.paging_state
        {
            self.pages.give(state.0, number);
        }
        Ok(RecordedExchange {
            number,
            connection: observed.connection.0,
            actor: observed.actor,
            at_us: observed.at.unix_nanoseconds() / 1_000,
            request,
            latency: observed.latency,
            response: self.digest(observed.response),
        })
    }

    fn digest(&mut self, response: ObservedResponse<'_>) -> ResponseDigest {
        match response {
            ObservedResponse::Rows(rows) => {
                ResponseDigest::Rows(RowsDigest::of(rows, self.key, &mut self.types))
            }
            ObservedResponse::Message(message) => ResponseDigest::of(message, self.key, &mut self.types),
            ObservedResponse::Unread | ObservedResponse::None => ResponseDigest::Missing,
        }
    }

    fn pattern(&mut self, id: PatternId) -> Arc<str> {
        if self.patterns.len() >= MOST_PATTERNS {
            self.patterns.clear();
        }
        let name = self.patterns.entry(id).or_insert_with(|| id.to_string().into());
        Arc::clone(name)
    }
}

/// What the audit knows of the statement of a request that is not left out at first sight.
fn judged<'a>(observed: &ObservedExchange<'a>) -> Result<ObservedStatement<'a>, LeftOut> {
    let statement = observed.statement.ok_or(LeftOut::NoStatement)?;
    if statement.is_system {
        return Err(LeftOut::System);
    }
    if observed.is_request_cut {
        return Err(LeftOut::TooLong);
    }
    // The client prepares the statement again and sends another request.
    if let ObservedResponse::Message(Response::Error(error)) = observed.response
        && error.code == ErrorCode::UNPREPARED
    {
        return Err(LeftOut::Unprepared);
    }
    Ok(statement)
}

fn of_query(query: &Query<'_>, observed: &ObservedExchange<'_>) -> RecordedRequest {
    let statement = RecordedStatement {
        cql: query.query.into(),
        is_prepared: false,
        values: values(&query.parameters.values),
    };
    of_parameters(&query.parameters, statement, observed.keyspace.map(Into::into))
}

fn of_execute(execute: &Execute<'_>, observed: &ObservedExchange<'_>) -> Result<RecordedRequest, LeftOut> {
    let prepared = observed.prepared.get(execute.id.0);
    let prepared = prepared.ok_or(LeftOut::UnknownPrepared)?;
    let statement = RecordedStatement {
        cql: Arc::clone(&prepared.cql),
        is_prepared: true,
        values: values(&execute.parameters.values),
    };
    Ok(of_parameters(
        &execute.parameters,
        statement,
        prepared.keyspace.clone(),
    ))
}

fn of_parameters(
    parameters: &QueryParameters<'_>,
    statement: RecordedStatement,
    keyspace: Option<Arc<str>>,
) -> RecordedRequest {
    RecordedRequest {
        statements: vec![statement],
        batch: None,
        keyspace,
        consistency: parameters.consistency,
        serial_consistency: parameters.serial_consistency,
        timestamp: parameters.timestamp,
        now_in_seconds: parameters.now_in_seconds,
        page_size: parameters.page_size.filter(|_| !parameters.page_size_in_bytes),
        page: Page::First,
        effect: Effect::Read,
        is_ordered: false,
        pattern: None,
    }
}

fn of_batch(batch: &Batch<'_>, observed: &ObservedExchange<'_>) -> Result<RecordedRequest, LeftOut> {
    let mut keyspace = BatchKeyspace::default();
    let children = batch.statements.iter();
    let statements = children.map(|child| of_child(child, observed, &mut keyspace));
    let statements = statements.collect::<Result<Vec<_>, _>>()?;
    Ok(RecordedRequest {
        statements,
        batch: Some(batch.kind),
        keyspace: keyspace.0,
        consistency: batch.consistency,
        serial_consistency: batch.serial_consistency,
        timestamp: batch.timestamp,
        now_in_seconds: batch.now_in_seconds,
        page_size: None,
        page: Page::First,
        effect: Effect::Write,
        is_ordered: false,
        pattern: None,
    })
}

fn of_child(
    child: &BatchStatement<'_>,
    observed: &ObservedExchange<'_>,
    keyspace: &mut BatchKeyspace,
) -> Result<RecordedStatement, LeftOut> {
    let (cql, is_prepared) = match child.query {
        BatchQuery::Text(cql) => {
            let cql = Arc::from(cql);
            keyspace.join(&cql, observed.keyspace)?;
            (cql, false)
        }
        BatchQuery::Prepared(id) => {
            let prepared = observed.prepared.get(id.0).ok_or(LeftOut::UnknownPrepared)?;
            keyspace.join(&prepared.cql, prepared.keyspace.as_deref())?;
            (Arc::clone(&prepared.cql), true)
        }
    };
    Ok(RecordedStatement {
        cql,
        is_prepared,
        values: values(&child.values),
    })
}

/// The one keyspace of a batch: its children may have been prepared in different ones.
#[derive(Debug, Default)]
struct BatchKeyspace(Option<Arc<str>>);

impl BatchKeyspace {
    fn join(&mut self, cql: &str, keyspace: Option<&str>) -> Result<(), LeftOut> {
        match (&self.0, keyspace) {
            (_, None) => {}
            (Some(one), Some(another)) if **one == *another => {}
            // A second keyspace matters only to a statement that does not name its own.
            (Some(_), Some(_)) if needs_keyspace(cql) => return Err(LeftOut::SeveralKeyspaces),
            (Some(_), Some(_)) => {}
            (None, Some(first)) => self.0 = Some(first.into()),
        }
        Ok(())
    }
}

/// The values in their order, with all their bytes in one piece of memory that is not the data path's.
fn values(values: &Values<'_>) -> Vec<RecordedValue> {
    let bytes = values.iter().filter_map(|(_, value)| value.bytes());
    let mut together = Vec::with_capacity(bytes.clone().map(<[u8]>::len).sum());
    bytes.for_each(|bytes| together.extend_from_slice(bytes));
    let mut together = Bytes::from(together);
    let recorded = values.iter().map(|(name, value)| RecordedValue {
        name: name.map(Into::into),
        content: match value {
            Value::Bytes(bytes) => ValueContent::Bytes(together.split_to(bytes.len())),
            Value::Null => ValueContent::Null,
            Value::NotSet => ValueContent::NotSet,
        },
    });
    recorded.collect()
}

/// What a request does; in doubt the more.
fn effect(statement: &ObservedStatement<'_>, request: &RecordedRequest) -> Result<Effect, LeftOut> {
    let texts = || request.statements.iter().map(|statement| &*statement.cql);
    Ok(match statement.kind {
        StatementKind::Select => Effect::Read,
        StatementKind::Ddl | StatementKind::Other => match texts().find_map(Special::of) {
            Some(Special::Use) => return Err(LeftOut::Use),
            Some(Special::Credentials) => return Err(LeftOut::Credentials),
            Some(Special::Server) => return Err(LeftOut::System),
            None => Effect::Definition,
        },
        _ if statement.flags.contains(&Flag::Lwt) => Effect::Conditional,
        _ if statement.flags.contains(&Flag::Counter) || request.batch == Some(BatchKind::Counter) => {
            Effect::Counter
        }
        _ if !statement.is_known && texts().any(may_count) => Effect::Counter,
        _ => Effect::Write,
    })
}
