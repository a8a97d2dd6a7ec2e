//! From entries of the log to exchanges: what is not logged has its usual value.

use std::{collections::HashMap, sync::Arc};

use cqlens_cql::{
    schema::is_system,
    syntax::{
        ast::{Body, Modification, Statement},
        parse,
    },
};
use cqlens_proto::message::{BatchKind, Consistency};

use super::{Entry, LoggedStatement, LoggedValue};
use crate::{
    digest::ResponseDigest,
    exchange::{
        Effect, Page, RecordedExchange, RecordedRequest, RecordedStatement, RecordedValue, ValueContent,
    },
    left_out::LeftOut,
    statement::StatementFacts,
    text::{Special, may_count},
};

/// Makes exchanges of entries.
#[derive(Debug)]
pub struct FromLog {
    /// Of unqualified names.
    keyspace: Option<Arc<str>>,
    number: u64,
    /// Begins anew when it is full.
    texts: HashMap<String, Arc<str>>,
    /// Of the texts.
    bytes: usize,
}

/// Texts that are kept: each stands once in memory and in the recording.
const MOST_TEXTS: usize = 10_000;
const MOST_TEXT_BYTES: usize = 32 << 20;
/// The page size of drivers: the log does not have it, and whole tables at once would be too much.
const PAGE_SIZE: i32 = 5_000;

impl FromLog {
    /// Unqualified names are of `keyspace`.
    pub fn new(keyspace: Option<&str>) -> Self {
        Self {
            keyspace: keyspace.map(Into::into),
            number: 0,
            texts: HashMap::new(),
            bytes: 0,
        }
    }

    /// The exchange of an entry.
    ///
    /// # Errors
    /// Why it is left out.
    pub fn convert(&mut self, entry: &Entry) -> Result<RecordedExchange, LeftOut> {
        let effects = entry.statements.iter().map(effect);
        let effects = effects.collect::<Result<Vec<_>, _>>()?;
        let effect = effects.into_iter().max().ok_or(LeftOut::NoStatement)?;
        let effect = match entry.batch {
            Some(BatchKind::Counter) => effect.max(Effect::Counter),
            _ => effect,
        };
        let statements = entry.statements.iter();
        let statements = statements.map(|statement| self.statement(statement)).collect();
        let number = self.number;
        self.number += 1;
        Ok(RecordedExchange {
            number,
            // Clients are not logged: each request stands by itself, and is sent at its time.
            connection: number,
            actor: 0,
            at_us: entry.start_ms.saturating_mul(1_000),
            request: RecordedRequest {
                statements,
                batch: entry.batch,
                keyspace: self.keyspace.clone(),
                consistency: Consistency::LocalOne,
                serial_consistency: None,
                timestamp: entry.timestamp.filter(|_| effect == Effect::Write),
                now_in_seconds: None,
                page_size: (effect == Effect::Read).then_some(PAGE_SIZE),
                page: Page::First,
                effect,
                is_ordered: false,
                pattern: None,
            },
            latency: None,
            response: ResponseDigest::Missing,
        })
    }

    fn statement(&mut self, logged: &LoggedStatement) -> RecordedStatement {
        let cql = match self.texts.get(&logged.cql) {
            Some(cql) => Arc::clone(cql),
            None => {
                self.bytes += logged.cql.len();
                if self.texts.len() >= MOST_TEXTS || self.bytes > MOST_TEXT_BYTES {
                    self.texts.clear();
                    self.bytes = logged.cql.len();
                }
                let cql: Arc<str> = logged.cql.as_str().into();
                self.texts.insert(logged.cql.clone(), Arc::clone(&cql));
                cql
            }
        };
        RecordedStatement {
            cql,
            // What has values was prepared, with few exceptions.
            is_prepared: !logged.values.is_empty(),
            values: logged.values.iter().map(value).collect(),
        }
    }
}

fn value(logged: &LoggedValue) -> RecordedValue {
    RecordedValue {
        name: None,
        content: match logged {
            LoggedValue::Bytes(bytes) => ValueContent::Bytes(bytes.clone().into()),
            LoggedValue::Null => ValueContent::Null,
            // Far more often than empty texts and blobs, values are not set. One that was cut was refused before.
            LoggedValue::Empty | LoggedValue::Cut => ValueContent::NotSet,
        },
    }
}

/// What a statement does, in doubt the more.
fn effect(logged: &LoggedStatement) -> Result<Effect, LeftOut> {
    match Special::of(&logged.cql) {
        Some(Special::Use) => return Err(LeftOut::Use),
        Some(Special::Credentials) => return Err(LeftOut::Credentials),
        Some(Special::Server) => return Err(LeftOut::System),
        None => {}
    }
    if logged.values.contains(&LoggedValue::Cut) {
        return Err(LeftOut::TooLong);
    }
    let statement = parse(&logged.cql).map_err(|_| LeftOut::Unread)?;
    // Values that the log lost, or a text that looked like the end of one.
    if statement.bind_markers.len() != logged.values.len() {
        return Err(LeftOut::Unread);
    }
    if StatementFacts::of(&logged.cql).touched(None).any(is_system) {
        return Err(LeftOut::System);
    }
    Ok(match &statement.body {
        Body::Select(_) => Effect::Read,
        Body::Insert(_) | Body::Update(_) | Body::Delete(_) | Body::Batch(_) => match () {
            () if is_conditional(&statement) => Effect::Conditional,
            () if may_count(&logged.cql) => Effect::Counter,
            () => Effect::Write,
        },
        _ => Effect::Definition,
    })
}

fn is_conditional(statement: &Statement<'_>) -> bool {
    match &statement.body {
        Body::Insert(insert) => insert.if_not_exists,
        Body::Update(update) => update.condition.is_some(),
        Body::Delete(delete) => delete.condition.is_some(),
        Body::Batch(batch) => batch.statements.iter().any(|statement| match statement {
            Modification::Insert(insert) => insert.if_not_exists,
            Modification::Update(update) => update.condition.is_some(),
            Modification::Delete(delete) => delete.condition.is_some(),
        }),
        _ => false,
    }
}
