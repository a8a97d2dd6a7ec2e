//! Asks the server: PREPARE, then EXECUTE or BATCH with values for its markers, and keeps all that it
//! answered.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cqlens_client::{self, Bind, Client, ClientOptions, Column, Run, RunOptions};
use cqlens_cql::ServerVersion;
use cqlens_cql::plan::StatementKind;
use cqlens_cql::plan::{Facts, Plan};
use cqlens_cql::syntax::{self, ast::Kind};
use cqlens_cql::{plan::Markers, schema::Schema};
use cqlens_proto::envelope::Version;
use cqlens_proto::message::{
    Batch, BatchKind, BatchQuery, BatchStatement, Consistency, ErrorCode, Execute, Extensions, Extras,
    Prepare, PreparedId, QueryParameters, QueryResult, Request, Response, ResultMetadataId, SchemaChange,
    SchemaObject, Value, Values, ValuesBuf,
};
use cqlens_proto::types::{CqlType, Uuid};

use super::KEYSPACE;
use super::bind::{bind, json};
use super::case::{Case, Group, Text};
use super::random::Random;
use super::trace::Trace;

/// Everything that the server said of a case, and the schema in which it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Observation {
    pub(crate) schema: Arc<Schema>,
    /// Of each statement.
    pub(crate) prepared: Vec<Result<Prepared, Refused>>,
    /// What was bound to each statement.
    pub(crate) bound: Vec<ValuesBuf>,
    /// None where nothing was executed.
    pub(crate) executed: Option<Executed>,
    /// A `SELECT … ALLOW FILTERING` prepared without these words: what the server says then.
    pub(crate) without_filtering: Option<Result<(), Refused>>,
}

/// An ERROR response.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

/// A PREPARED response.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    id: Vec<u8>,
    result_metadata_id: Option<Vec<u8>>,
    pub(crate) markers: Markers,
    /// The columns of the rows; none for writes.
    pub(crate) columns: Vec<Column>,
    /// The one table that has all of them.
    pub(crate) table: Option<(String, String)>,
}

/// The response to EXECUTE or BATCH.
#[derive(Debug, Clone)]
pub(crate) struct Executed {
    pub(crate) result: Result<Outcome, Refused>,
    pub(crate) warnings: Vec<String>,
    /// A page size was given.
    pub(crate) is_paged: bool,
    trace_id: Option<Uuid>,
    /// Filled in when the server has written it.
    pub(crate) trace: Option<Trace>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Void,
    /// Names of the columns.
    Rows(Vec<String>),
    Keyspace(String),
    /// Keyspace and, unless it is the keyspace itself that changed, the kind and name of the object.
    SchemaChange(String, Option<(&'static str, String)>),
}

pub(crate) struct Server {
    client: Client,
    random: Random,
    version: ServerVersion,
    schema: Arc<Schema>,
}

/// How to read what the server has traced.
struct TraceQueries {
    duration: cqlens_client::Prepared,
    activities: cqlens_client::Prepared,
}

impl Server {
    /// Connects and creates the tables.
    pub(crate) async fn new(
        address: SocketAddr,
        version: ServerVersion,
        seed: u64,
        schema_text: &str,
    ) -> Self {
        let options = ClientOptions {
            version: Version::V5,
            timeout: Duration::from_secs(300),
            ..ClientOptions::default()
        };
        let mut client = Client::connect(address, &options).await.unwrap();
        client.script(schema_text).await.unwrap();
        client.query(&format!("USE {KEYSPACE}")).await.unwrap();
        Self {
            client,
            random: Random::new(seed),
            version,
            schema: Arc::new(Schema::from_cql(schema_text).unwrap()),
        }
    }

    pub(crate) async fn observe(&mut self, case: &Case) -> Observation {
        let mut prepared = Vec::new();
        for statement in case.statements() {
            prepared.push(self.prepare(statement).await);
        }
        let may_be_named = matches!(case.text, Text::Statement(_));
        let bound = prepared
            .iter()
            .map(|prepared| self.values(prepared.as_ref().ok(), may_be_named))
            .collect();
        let mut observation = Observation {
            schema: Arc::clone(&self.schema),
            prepared,
            bound,
            executed: None,
            without_filtering: None,
        };
        match &case.text {
            Text::Statement(statement) => {
                self.observe_statement(case.group, statement, &mut observation)
                    .await
            }
            Text::Message { kind, statements } => {
                observation.executed = Some(self.message(*kind, statements, &observation).await);
            }
        }
        observation
    }

    async fn observe_statement(&mut self, group: Group, text: &str, observation: &mut Observation) {
        let Ok(prepared) = &observation.prepared[0] else {
            return;
        };
        // What cqlens cannot read is not executed either: it may be anything, and the disagreement is noted
        // already.
        let Ok(statement) = syntax::parse(text) else {
            return;
        };
        let plan = Plan::of(&statement, Some(KEYSPACE), &self.schema).on(self.version);
        let facts = plan.facts();
        if !is_harmless(facts, group, text) {
            return;
        }
        // Rows of several partitions cannot be ordered page by page; that is refused only when a page size is
        // given.
        let orders_several = facts
            .schema
            .as_ref()
            .is_some_and(|facts| facts.in_on_partition_key)
            && text.to_ascii_uppercase().contains("ORDER");
        let page_size = (!orders_several && self.random.chance(60)).then_some(5_000);
        let values = observation.bound[0].values();
        let executed = self.execute(prepared, values, page_size).await;
        // `IF NOT EXISTS` and its kin may change nothing, whatever else they say.
        if matches!(executed.result, Ok(Outcome::SchemaChange(..))) {
            let schema = Arc::make_mut(&mut self.schema);
            schema
                .apply(&statement, Some(KEYSPACE))
                .unwrap_or_else(|error| panic!("cqlens does not take {text}: {error}"));
        }
        observation.executed = Some(executed);
        if let Some(start) = text.find("ALLOW FILTERING") {
            let without = format!("{} {}", &text[..start], &text[start + "ALLOW FILTERING".len()..]);
            observation.without_filtering = Some(self.prepare(&without).await.map(|_| ()));
        }
    }

    async fn prepare(&mut self, cql: &str) -> Result<Prepared, Refused> {
        let request = Request::Prepare(Prepare {
            query: cql,
            keyspace: None,
            other_flags: 0,
        });
        let envelope = self.client.request(&request).await.unwrap();
        match Response::decode(&envelope, Extensions::NONE).unwrap().message {
            Response::Result(QueryResult::Prepared(prepared)) => Ok(Prepared {
                id: prepared.id.0.to_vec(),
                result_metadata_id: prepared.result_metadata_id.map(|id| id.0.to_vec()),
                markers: Markers::of(&prepared.bind),
                table: prepared
                    .result
                    .columns
                    .and_then(|columns| columns.global_table())
                    .map(|(keyspace, table)| (keyspace.to_owned(), table.to_owned())),
                columns: prepared
                    .result
                    .columns
                    .into_iter()
                    .flatten()
                    .map(|column| Column {
                        name: column.name.to_owned(),
                        column_type: column.column_type,
                    })
                    .collect(),
            }),
            Response::Error(error) => Err(Refused {
                code: error.code,
                message: error.message.to_owned(),
            }),
            other => panic!("{cql} was answered with {other:?}"),
        }
    }

    /// Values for the markers, by position or (which a BATCH does not know) by name; of one name the first
    /// value counts.
    fn values(&mut self, prepared: Option<&Prepared>, may_be_named: bool) -> ValuesBuf {
        let Some(prepared) = prepared else {
            return ValuesBuf::new();
        };
        let columns = &prepared.markers.columns;
        let binds: Vec<Bind> = columns
            .iter()
            .map(|(name, cql_type)| match name.contains("json") {
                true => json(&mut self.random),
                false => bind(&mut self.random, cql_type),
            })
            .collect();
        let values = binds.iter().map(on_the_wire);
        // 6.0-alpha2 takes values by their place, also those of one name.
        let may_be_named = may_be_named && (self.version < ServerVersion::V6_0 || are_distinct(columns));
        if may_be_named && !columns.is_empty() && self.random.chance(15) {
            let names = columns.iter().map(|(name, _)| name.as_str());
            return ValuesBuf::by_name(names.zip(values)).unwrap();
        }
        ValuesBuf::positional(values).unwrap()
    }

    async fn execute(&mut self, prepared: &Prepared, values: Values<'_>, page_size: Option<i32>) -> Executed {
        let request = Request::Execute(Execute {
            id: PreparedId(&prepared.id),
            result_metadata_id: prepared.result_metadata_id.as_deref().map(ResultMetadataId),
            parameters: QueryParameters {
                values,
                page_size,
                ..QueryParameters::new(Consistency::One)
            },
        });
        let executed = self.traced(&request).await;
        Executed {
            is_paged: page_size.is_some(),
            ..executed
        }
    }

    async fn message(
        &mut self,
        kind: u8,
        statements: &[(String, bool)],
        observation: &Observation,
    ) -> Executed {
        let parts = statements
            .iter()
            .zip(&observation.prepared)
            .zip(&observation.bound);
        let statements = parts.map(|(((text, is_prepared), prepared), bound)| {
            let values = bound.values();
            match prepared {
                Ok(prepared) if *is_prepared => BatchStatement {
                    query: BatchQuery::Prepared(PreparedId(&prepared.id)),
                    values,
                },
                _ => BatchStatement {
                    query: BatchQuery::Text(text),
                    values,
                },
            }
        });
        let request = Request::Batch(Batch::new(
            batch_kind(kind),
            statements.collect(),
            Consistency::One,
        ));
        self.traced(&request).await
    }

    async fn traced(&mut self, request: &Request<'_>) -> Executed {
        let extras = Extras {
            tracing: true,
            ..Extras::default()
        };
        let envelope = self.client.request_with(request, &extras).await.unwrap();
        let decoded = Response::decode(&envelope, Extensions::NONE).unwrap();
        let warnings = decoded
            .extras
            .warnings
            .iter()
            .map(|warning| (*warning).to_owned())
            .collect();
        let result = match decoded.message {
            Response::Error(error) => Err(Refused {
                code: error.code,
                message: error.message.to_owned(),
            }),
            Response::Result(QueryResult::Void) => Ok(Outcome::Void),
            Response::Result(QueryResult::Rows(rows)) => {
                let columns = rows.metadata.columns.into_iter().flatten();
                Ok(Outcome::Rows(
                    columns.map(|column| column.name.to_owned()).collect(),
                ))
            }
            Response::Result(QueryResult::SetKeyspace { keyspace }) => {
                Ok(Outcome::Keyspace(keyspace.to_owned()))
            }
            Response::Result(QueryResult::SchemaChange(change)) => Ok(Outcome::of_change(&change)),
            other => panic!("{request:?} was answered with {other:?}"),
        };
        Executed {
            result,
            warnings,
            is_paged: false,
            trace_id: decoded.extras.tracing_id,
            trace: None,
        }
    }

    /// Reads what the server traced of each execution.
    pub(crate) async fn fetch_traces(&mut self, executions: impl Iterator<Item = &mut Executed>) {
        let duration = "SELECT duration FROM system_traces.sessions WHERE session_id = ?";
        let activities = "SELECT activity FROM system_traces.events WHERE session_id = ?";
        // Prepared not before now: the server forgets statements, the oldest first, when there are many.
        let queries = TraceQueries {
            duration: self.client.prepare(duration).await.unwrap(),
            activities: self.client.prepare(activities).await.unwrap(),
        };
        for executed in executions {
            self.fetch_trace(&queries, executed).await;
        }
    }

    /// Reads one trace, once the server has finished to write it.
    async fn fetch_trace(&mut self, queries: &TraceQueries, executed: &mut Executed) {
        let Some(Uuid(id)) = executed.trace_id else { return };
        let id = [Bind::Bytes(Bytes::copy_from_slice(&id))];
        let options = RunOptions::default();
        let deadline = Instant::now() + TRACED_WITHIN;
        loop {
            let session = self
                .client
                .run(Run::Prepared(&queries.duration, &id), &options)
                .await
                .unwrap();
            if session.rows.iter().flatten().any(Option::is_some) {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "no end of a trace within {TRACED_WITHIN:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let events = self
            .client
            .run(Run::Prepared(&queries.activities, &id), &options)
            .await
            .unwrap();
        let activities = events.rows.iter().flatten().flatten();
        executed.trace = Some(Trace::of(
            activities.map(|cell| String::from_utf8(cell.to_vec()).unwrap()),
        ));
    }
}

fn are_distinct(columns: &[(String, CqlType)]) -> bool {
    let names: BTreeSet<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    names.len() == columns.len()
}

/// The server writes a trace when the response is on its way; usually that takes milliseconds.
const TRACED_WITHIN: Duration = Duration::from_secs(300);

/// Whether a statement may be executed without harm to the others: definitions stay in keyspaces of their
/// own, and nothing makes roles or leaves the keyspace.
fn is_harmless(facts: &Facts, group: Group, text: &str) -> bool {
    match facts.statement_kind() {
        StatementKind::Select
        | StatementKind::Insert
        | StatementKind::Update
        | StatementKind::Delete
        | StatementKind::Batch
        | StatementKind::Transaction => true,
        StatementKind::Ddl => group != Group::Broken && text.contains("forge"),
        StatementKind::Other => facts.kind == Kind::Use && facts.keyspace.as_deref() == Some(KEYSPACE),
    }
}

fn on_the_wire(bind: &Bind) -> Value<'_> {
    match bind {
        Bind::Bytes(bytes) => Value::Bytes(bytes),
        Bind::Null => Value::Null,
        Bind::NotSet => Value::NotSet,
    }
}

/// The kind as BATCH and as the text have it.
pub(crate) fn batch_kind(kind: u8) -> BatchKind {
    match kind {
        0 => BatchKind::Logged,
        1 => BatchKind::Unlogged,
        _ => BatchKind::Counter,
    }
}

impl Prepared {
    /// A statement without markers and rows, which the server has never seen.
    pub(crate) fn made_up() -> Self {
        Self {
            id: Vec::new(),
            result_metadata_id: None,
            markers: Markers {
                columns: Vec::new(),
                table: None,
                partition_key: Vec::new(),
            },
            columns: Vec::new(),
            table: None,
        }
    }
}

impl Observation {
    /// What was bound, as people read it.
    pub(crate) fn values(&self) -> String {
        let value = |(name, value): (Option<&str>, Value<'_>)| {
            let value = match value {
                Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                other => format!("{other:?}"),
            };
            name.map_or(value.clone(), |name| format!("{name}: {value}"))
        };
        let of_statement =
            |values: &ValuesBuf| values.values().iter().map(value).collect::<Vec<_>>().join(", ");
        self.bound.iter().map(of_statement).collect::<Vec<_>>().join("; ")
    }
}

impl Outcome {
    fn of_change(change: &SchemaChange<'_>) -> Self {
        let object = match &change.object {
            SchemaObject::Keyspace => None,
            SchemaObject::Table(name) => Some(("table", (*name).to_owned())),
            SchemaObject::Type(name) => Some(("type", (*name).to_owned())),
            SchemaObject::Function(name, _) => Some(("function", (*name).to_owned())),
            SchemaObject::Aggregate(name, _) => Some(("aggregate", (*name).to_owned())),
            SchemaObject::Other { target, .. } => panic!("a schema change of a {target}"),
        };
        Self::SchemaChange(change.keyspace.to_owned(), object)
    }
}
