//! What a connection remembers, and how its requests become statements: QUERY, PREPARE, EXECUTE and BATCH.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cqlens_cql::syntax;
use cqlens_cql::syntax::ast::{BatchKind, Body, Modification, Returning, Statement, Transaction};
use cqlens_proto::message::{self, BatchQuery, Consistency, QueryParameters, Request, Values};

use super::answer::{Answer, Described, Outcome, PreparedAnswer, ResultColumn};
use super::database::Database;
use super::execution::{Bindings, Execution};
use super::failure::Failure;
use super::marker::{self, Markers};
use super::prepared::{self, PreparedStatement};
use super::select::projection::Projection;
use super::statement;
use super::transaction::{self, NamedRows};
use super::write::batch::Entry;

/// One client's connection.
pub(super) struct Session {
    database: Arc<Mutex<Database>>,
    /// What `USE` named.
    keyspace: Option<Arc<str>>,
}

/// When a request is answered, and for which keyspace.
struct Circumstances<'a> {
    keyspace: Option<&'a str>,
    since_epoch: Duration,
}

impl Session {
    /// A connection on which nothing was said yet.
    pub(super) fn new(database: Arc<Mutex<Database>>) -> Session {
        Session {
            database,
            keyspace: None,
        }
    }

    /// Answers a request that is not about the connection itself.
    ///
    /// # Errors
    /// What the client is told instead.
    pub(super) fn answer(&mut self, request: &Request<'_>, since_epoch: Duration) -> Result<Answer, Failure> {
        let database = Arc::clone(&self.database);
        let mut database = super::lock(&database);
        let keyspace = self.keyspace.clone();
        let named = match request {
            Request::Query(query) => query.parameters.keyspace,
            Request::Prepare(prepare) => prepare.keyspace,
            Request::Batch(batch) => batch.keyspace,
            _ => None,
        };
        let circumstances = Circumstances {
            keyspace: named.or(keyspace.as_deref()),
            since_epoch,
        };
        match request {
            Request::Query(query) => {
                let statement = parse(query.query)?;
                if let Body::Use(using) = &statement.body {
                    return self.use_keyspace(using.keyspace.as_str(), &database);
                }
                run(&statement, &query.parameters, &circumstances, &mut database)
            }
            Request::Prepare(prepare) => self::prepare(prepare.query, &circumstances, &mut database),
            Request::Execute(execute) => self.execute(execute, &circumstances, &mut database),
            Request::Batch(batch) => run_batch(batch, &circumstances, &mut database),
            request => Err(Failure::protocol(format!(
                "Unexpected message {}",
                request.opcode()
            ))),
        }
    }

    fn use_keyspace(&mut self, keyspace: &str, database: &Database) -> Result<Answer, Failure> {
        if database.schema.keyspace(keyspace).is_none() {
            return Err(Failure::invalid(format!("Keyspace '{keyspace}' does not exist")));
        }
        self.keyspace = Some(keyspace.into());
        Ok(Answer {
            outcome: Outcome::SetKeyspace(keyspace.to_owned()),
            warnings: Vec::new(),
        })
    }

    fn execute(
        &mut self,
        execute: &message::Execute<'_>,
        circumstances: &Circumstances<'_>,
        database: &mut Database,
    ) -> Result<Answer, Failure> {
        let statement = database
            .prepared
            .get(execute.id.0)
            .ok_or_else(|| Failure::unprepared(execute.id.0))?
            .clone();
        let parsed = parse(&statement.text)?;
        if let Body::Use(using) = &parsed.body {
            return self.use_keyspace(using.keyspace.as_str(), database);
        }
        let keyspace = statement.keyspace.as_deref();
        let circumstances = Circumstances {
            keyspace,
            ..*circumstances
        };
        let mut answer = run(&parsed, &execute.parameters, &circumstances, database)?;
        if let Outcome::Rows(rows) = &mut answer.outcome {
            let id = prepared::metadata_id(Some(&rows.columns));
            // A conditional write has other columns each time: PREPARED could not name them.
            let is_known = statement.columns.is_some();
            rows.described = match execute.result_metadata_id {
                Some(known) if is_known && known.0 != id => Described::Anew(id),
                _ if is_known && execute.parameters.skip_metadata => Described::Not,
                _ => Described::Fully,
            };
        }
        Ok(answer)
    }
}

fn parse(text: &str) -> Result<Statement<'_>, Failure> {
    syntax::parse(text).map_err(|error| Failure::syntax(&error, text))
}

fn run(
    statement: &Statement<'_>,
    parameters: &QueryParameters<'_>,
    circumstances: &Circumstances<'_>,
    database: &mut Database,
) -> Result<Answer, Failure> {
    let markers = marker::of(statement, database, circumstances.keyspace)?;
    let timestamp = parameters.timestamp;
    let mut execution = circumstances.execution(parameters.consistency, timestamp, database);
    execution.bindings = Bindings::of(&parameters.values, &markers.columns)?;
    execution.page_size = parameters
        .page_size
        .and_then(|rows| usize::try_from(rows).ok())
        .filter(|rows| *rows > 0);
    execution.paging_state = parameters.paging_state.map(|state| state.0);
    if let Some(now) = parameters.now_in_seconds {
        execution.now = i64::from(now);
    }
    statement::run(statement, &execution, database)
}

fn prepare(
    text: &str,
    circumstances: &Circumstances<'_>,
    database: &mut Database,
) -> Result<Answer, Failure> {
    let statement = parse(text)?;
    let keyspace = circumstances.keyspace;
    let Markers {
        columns: markers,
        partition_key_indices,
    } = marker::of(&statement, database, keyspace)?;
    let mut tables = Vec::new();
    let columns = match &statement.body {
        Body::Select(select) => {
            let layout = database.layout(&select.table, keyspace)?;
            tables.push((layout.keyspace.clone(), layout.name.clone()));
            let execution = circumstances.execution(Consistency::One, None, database);
            Some(Projection::of(&select.selection, &layout, &execution)?.columns)
        }
        Body::Transaction(transaction) => {
            let named = transaction.lets.iter().map(|read| &read.select.table);
            let written = transaction.updates.iter().map(Modification::table);
            let names: Vec<_> = named.chain(written).collect();
            for name in names {
                let layout = database.layout(name, keyspace)?;
                tables.push((layout.keyspace.clone(), layout.name.clone()));
            }
            returned_columns(transaction, circumstances, database)?
        }
        Body::Batch(batch) => {
            for modification in &batch.statements {
                let layout = database.layout(modification.table(), keyspace)?;
                tables.push((layout.keyspace.clone(), layout.name.clone()));
            }
            None
        }
        _ => {
            if let Some(modification) = modification(&statement) {
                let layout = database.layout(modification.table(), keyspace)?;
                tables.push((layout.keyspace.clone(), layout.name.clone()));
            }
            None
        }
    };
    let metadata_id = prepared::metadata_id(columns.as_deref());
    let id = database.prepared.insert(PreparedStatement {
        text: text.into(),
        keyspace: keyspace.map(Into::into),
        tables,
        columns: columns.clone(),
    });
    let prepared = PreparedAnswer {
        id,
        metadata_id,
        markers,
        partition_key_indices,
        columns,
    };
    Ok(Answer {
        outcome: Outcome::Prepared(prepared),
        warnings: Vec::new(),
    })
}

/// The columns of a transaction's response; none if it returns no rows.
fn returned_columns(
    transaction: &Transaction<'_>,
    circumstances: &Circumstances<'_>,
    database: &mut Database,
) -> Result<Option<Vec<ResultColumn>>, Failure> {
    match &transaction.returning {
        None => Ok(None),
        Some(Returning::References(references)) => {
            let columns = references.iter();
            let columns = columns.map(|reference| {
                transaction::result_column(reference, transaction, database, circumstances.keyspace)
            });
            columns.collect::<Result<_, _>>().map(Some)
        }
        Some(Returning::Select(select)) => {
            let layout = database.layout(&select.table, circumstances.keyspace)?;
            let execution = circumstances.execution(Consistency::One, None, database);
            Ok(Some(
                Projection::of(&select.selection, &layout, &execution)?.columns,
            ))
        }
    }
}

/// The statement as one that may stand in a batch.
fn modification<'a>(statement: &Statement<'a>) -> Option<Modification<'a>> {
    match &statement.body {
        Body::Insert(insert) => Some(Modification::Insert(insert.clone())),
        Body::Update(update) => Some(Modification::Update(update.clone())),
        Body::Delete(delete) => Some(Modification::Delete(delete.clone())),
        _ => None,
    }
}

fn run_batch(
    batch: &message::Batch<'_>,
    circumstances: &Circumstances<'_>,
    database: &mut Database,
) -> Result<Answer, Failure> {
    let kind = match batch.kind {
        message::BatchKind::Logged => BatchKind::Logged,
        message::BatchKind::Unlogged => BatchKind::Unlogged,
        message::BatchKind::Counter => BatchKind::Counter,
        message::BatchKind::Unknown(number) => {
            return Err(Failure::protocol(format!("Invalid batch type: {number}")));
        }
    };
    // The texts of prepared statements are cloned first: the trees borrow them while the database is changed.
    let mut texts: Vec<(Arc<str>, Option<Arc<str>>, Values<'_>)> = Vec::new();
    for statement in &batch.statements {
        let (text, keyspace) = match statement.query {
            BatchQuery::Text(text) => (text.into(), circumstances.keyspace.map(Into::into)),
            BatchQuery::Prepared(id) => {
                let prepared = database
                    .prepared
                    .get(id.0)
                    .ok_or_else(|| Failure::unprepared(id.0))?;
                (Arc::clone(&prepared.text), prepared.keyspace.clone())
            }
        };
        texts.push((text, keyspace, statement.values));
    }
    let common = circumstances.execution(batch.consistency, batch.timestamp, database);
    let mut entries = Vec::with_capacity(texts.len());
    for (text, keyspace, values) in &texts {
        let statement = parse(text)?;
        let keyspace = keyspace.as_deref();
        let markers = marker::of(&statement, database, keyspace)?;
        let bindings = Bindings::of(values, &markers.columns)?;
        let modification = modification(&statement).ok_or_else(|| {
            Failure::invalid(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
            )
        })?;
        entries.push(Entry {
            modification,
            execution: Execution {
                keyspace,
                bindings,
                ..common.clone()
            },
        });
    }
    statement::run_batch(kind, &entries, database)
}

impl<'a> Circumstances<'a> {
    /// An execution without values and paging.
    fn execution(
        &self,
        consistency: Consistency,
        timestamp: Option<i64>,
        database: &mut Database,
    ) -> Execution<'a> {
        let own = database.next_timestamp(self.since_epoch);
        Execution {
            keyspace: self.keyspace,
            bindings: Bindings::default(),
            consistency,
            page_size: None,
            paging_state: None,
            timestamp: timestamp.unwrap_or(own),
            now: i64::try_from(self.since_epoch.as_secs()).unwrap_or(i64::MAX),
            is_in_transaction: false,
            named_rows: NamedRows::default(),
            clock_micros: own,
        }
    }
}
