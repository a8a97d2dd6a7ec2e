//! Sends a scenario to a node.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use cqlens_cql::syntax::Span;
use cqlens_cql::syntax::ast::{Literal, LiteralKind};
use cqlens_proto::message::{BatchKind, Consistency, ErrorCode};
use cqlens_proto::types::CqlType;
use tokio::task::JoinSet;

use super::expression::{Random, Scope};
use super::{BatchForm, Phase, Results, Scenario, Step, ValueTemplate};
use crate::{bind, literal};
use cqlens_client::{Answer, Bind, Client, ClientError, ClientOptions, Prepared, Run, RunOptions};

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Statements and batches; a page is one of its own only for the server.
    pub requests: u64,
    /// How many of them were sent once more, because the server had forgotten what was prepared.
    pub sent_again: u64,
    /// How many were refused where they may be.
    pub refused: u64,
    /// Rows that came back.
    pub rows: u64,
}

/// Why a scenario did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A statement of the schema was refused.
    #[error("the schema of {scenario}: {source}")]
    Schema {
        /// The scenario.
        scenario: String,
        /// What the server said.
        source: ClientError,
    },
    /// A step failed that may not.
    #[error("{scenario}, phase {phase:?}: {cql}: {source}")]
    Step {
        /// The scenario.
        scenario: String,
        /// The phase.
        phase: String,
        /// The statement.
        cql: String,
        /// What went wrong.
        source: StepError,
    },
    /// A connection's task ended in the middle.
    #[error("a client of the scenario was cut off")]
    CutOff,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The connection or the server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A value that is none of its marker's type.
    #[error("`{text}` is no value of type {cql_type}")]
    Value {
        /// The value.
        text: String,
        /// The type of the marker.
        cql_type: CqlType,
    },
    /// A step without a statement, or with too few values.
    #[error("{0}")]
    Malformed(&'static str),
}

impl Scenario {
    /// Makes the schema and sends the traffic.
    ///
    /// # Errors
    /// The first step that fails, unless it may.
    pub async fn run(&self, address: SocketAddr, options: &ClientOptions) -> Result<Totals, RunError> {
        let schema = |source| RunError::Schema {
            scenario: self.id.clone(),
            source,
        };
        let mut client = Client::connect(address, options).await.map_err(schema)?;
        client.script(&self.schema).await.map_err(schema)?;
        let mut totals = Totals::default();
        for (number, phase) in (1..).zip(&self.traffic.phases) {
            let mut clients = JoinSet::new();
            for client in 0..phase.clients {
                let worker = Worker {
                    scenario: self.id.clone(),
                    phase: Arc::new(phase.clone()),
                    seed: self.traffic.seed.wrapping_mul(31).wrapping_add(number),
                    address,
                    options: options.clone(),
                    client,
                };
                clients.spawn(worker.run());
            }
            while let Some(ended) = clients.join_next().await {
                let its = ended.map_err(|_| RunError::CutOff)??;
                totals.requests += its.requests;
                totals.sent_again += its.sent_again;
                totals.refused += its.refused;
                totals.rows += its.rows;
            }
        }
        Ok(totals)
    }
}

/// One client of a phase.
struct Worker {
    scenario: String,
    phase: Arc<Phase>,
    seed: u64,
    address: SocketAddr,
    options: ClientOptions,
    client: u64,
}

impl Worker {
    async fn run(self) -> Result<Totals, RunError> {
        let phase = Arc::clone(&self.phase);
        let connecting = Client::connect(self.address, &self.options).await;
        let client = connecting.map_err(|error| self.failed("connect", error.into()))?;
        let mut session = ScenarioClient {
            client,
            prepared: HashMap::new(),
            totals: Totals::default(),
        };
        let mut iteration = phase.first + self.client;
        while iteration < phase.first + phase.repeat {
            let mut random = Random::new(self.seed, iteration);
            let mut results = Results::new();
            for step in &phase.steps {
                let ran = session.step(step, iteration, &mut results, &mut random).await;
                ran.map_err(|error| self.failed(step.label(), error))?;
            }
            iteration += phase.clients;
        }
        Ok(session.totals)
    }

    fn failed(&self, cql: &str, source: StepError) -> RunError {
        RunError::Step {
            scenario: self.scenario.clone(),
            phase: self.phase.name.clone(),
            cql: cql.to_owned(),
            source,
        }
    }
}

impl Step {
    fn label(&self) -> &str {
        let cql = self.cql.as_ref().and_then(|cql| cql.constant());
        cql.or(self.statements.first().map(|part| part.cql.as_str()))
            .unwrap_or("a statement")
    }

    fn options(&self) -> RunOptions {
        let named = |consistency: &&Consistency| consistency.name() == self.consistency;
        let consistency = Consistency::ALL.iter().find(named).copied();
        RunOptions {
            consistency: consistency.unwrap_or(Consistency::LocalOne),
            page_size: self.page_size,
            ..RunOptions::default()
        }
    }
}

struct ScenarioClient {
    client: Client,
    prepared: HashMap<String, Prepared>,
    totals: Totals,
}

/// A run of a step, its expressions computed.
enum Ready {
    One(Filled),
    Batch(BatchKind, Vec<Filled>),
}

/// A statement with its values.
enum Filled {
    Text(String),
    Prepared {
        cql: String,
        statement: Prepared,
        values: Vec<Bind>,
    },
}

impl Ready {
    fn statements(&self) -> &[Filled] {
        match self {
            Ready::One(statement) => std::slice::from_ref(statement),
            Ready::Batch(_, statements) => statements,
        }
    }
}

impl Filled {
    fn run(&self) -> Run<'_> {
        match self {
            Filled::Text(cql) => Run::Text(cql, &[]),
            Filled::Prepared {
                statement, values, ..
            } => Run::Prepared(statement, values),
        }
    }
}

fn is_unprepared(answer: &Result<Answer, ClientError>) -> bool {
    matches!(
        answer,
        Err(ClientError::Server {
            code: ErrorCode::UNPREPARED,
            ..
        })
    )
}

impl ScenarioClient {
    async fn step(
        &mut self,
        step: &Step,
        iteration: u64,
        results: &mut Results,
        random: &mut Random,
    ) -> Result<(), StepError> {
        let walked = step
            .for_each
            .as_ref()
            .map(|name| (name.as_str(), results.get(name).cloned()));
        let rows: Vec<Option<BTreeMap<String, String>>> = match &walked {
            Some((_, rows)) => rows.clone().unwrap_or_default().into_iter().map(Some).collect(),
            None => vec![None],
        };
        let mut found = Vec::new();
        let mut together = Vec::new();
        'rows: for row in &rows {
            for turn in 0..step.times {
                let at = walked.as_ref().map(|(name, _)| *name).zip(row.as_ref());
                let mut scope = Scope {
                    iteration,
                    turn,
                    results,
                    at,
                    random,
                };
                let run = self.ready(step, &mut scope).await?;
                if step.together {
                    together.push(run);
                    continue;
                }
                let answer = self.send(&run, &step.options()).await;
                self.settle(step, answer, &mut found)?;
                if step.until_rows.is_some_and(|rows| found.len() >= rows) {
                    break 'rows;
                }
            }
        }
        self.send_together(step, &together, &mut found).await?;
        if let Some(name) = &step.name {
            results.insert(name.clone(), found);
        }
        Ok(())
    }

    /// Counts an answer and keeps its rows.
    fn settle(
        &mut self,
        step: &Step,
        answer: Result<Answer, ClientError>,
        found: &mut Vec<BTreeMap<String, String>>,
    ) -> Result<(), StepError> {
        self.totals.requests += 1;
        let answer = match answer {
            Err(ClientError::Server { .. }) if step.may_fail => {
                self.totals.refused += 1;
                return Ok(());
            }
            answer => answer?,
        };
        self.totals.rows += answer.rows.len() as u64;
        if step.name.is_some() || step.until_rows.is_some() {
            let names = || answer.columns.iter().map(|column| column.name.clone());
            found.extend(answer.shown().into_iter().map(|row| names().zip(row).collect()));
        }
        Ok(())
    }

    /// Sends a run. What the server has forgotten is prepared again, once, as drivers do it.
    async fn send(&mut self, ready: &Ready, options: &RunOptions) -> Result<Answer, ClientError> {
        let answer = self.send_once(ready, options).await;
        match is_unprepared(&answer) {
            true => self.send_again(ready, options).await,
            false => answer,
        }
    }

    async fn send_again(&mut self, ready: &Ready, options: &RunOptions) -> Result<Answer, ClientError> {
        for statement in ready.statements() {
            if let Filled::Prepared { cql, .. } = statement {
                // The same text has the same id again.
                self.client.prepare(cql).await?;
            }
        }
        self.totals.sent_again += 1;
        self.send_once(ready, options).await
    }

    async fn send_once(&mut self, ready: &Ready, options: &RunOptions) -> Result<Answer, ClientError> {
        match ready {
            Ready::One(statement) => self.client.run_paged(statement.run(), options).await,
            Ready::Batch(kind, statements) => {
                let runs: Vec<_> = statements.iter().map(Filled::run).collect();
                self.client.batch(*kind, &runs, options).await
            }
        }
    }

    async fn send_together(
        &mut self,
        step: &Step,
        together: &[Ready],
        found: &mut Vec<BTreeMap<String, String>>,
    ) -> Result<(), StepError> {
        let options = step.options();
        let runs: Vec<_> = together
            .iter()
            .flat_map(Ready::statements)
            .map(Filled::run)
            .collect();
        let answers = self.client.run_all(&runs, &options).await?;
        for (ready, answer) in together.iter().zip(answers) {
            let answer = match is_unprepared(&answer) {
                true => self.send_again(ready, &options).await,
                false => answer,
            };
            self.settle(step, answer, found)?;
        }
        Ok(())
    }

    async fn ready(&mut self, step: &Step, scope: &mut Scope<'_>) -> Result<Ready, StepError> {
        if let Some(form) = step.batch {
            if step.together {
                return Err(StepError::Malformed("batches are sent one after the other"));
            }
            let kind = match form {
                BatchForm::Logged => BatchKind::Logged,
                BatchForm::Unlogged => BatchKind::Unlogged,
            };
            let mut statements = Vec::with_capacity(step.statements.len());
            for part in &step.statements {
                statements.push(self.filled(&part.cql, &part.values, scope).await?);
            }
            return Ok(Ready::Batch(kind, statements));
        }
        let cql = step
            .cql
            .as_ref()
            .ok_or(StepError::Malformed("a step needs `cql` or `batch`"))?;
        if !step.prepared {
            return Ok(Ready::One(Filled::Text(cql.text(scope).unwrap_or_default())));
        }
        let cql = cql
            .constant()
            .ok_or(StepError::Malformed("a prepared statement has no expressions"))?;
        Ok(Ready::One(self.filled(cql, &step.values, scope).await?))
    }

    async fn filled(
        &mut self,
        cql: &str,
        values: &[ValueTemplate],
        scope: &mut Scope<'_>,
    ) -> Result<Filled, StepError> {
        let statement = self.prepare(cql).await?;
        let values = binds(values, &statement, scope)?;
        Ok(Filled::Prepared {
            cql: cql.to_owned(),
            statement,
            values,
        })
    }

    async fn prepare(&mut self, cql: &str) -> Result<Prepared, StepError> {
        if let Some(statement) = self.prepared.get(cql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(cql).await?;
        self.prepared.insert(cql.to_owned(), statement.clone());
        Ok(statement)
    }
}

fn binds(
    values: &[ValueTemplate],
    statement: &Prepared,
    scope: &mut Scope<'_>,
) -> Result<Vec<Bind>, StepError> {
    if values.len() != statement.markers.len() {
        return Err(StepError::Malformed("as many values as markers are needed"));
    }
    let markers = values.iter().zip(&statement.markers);
    markers
        .map(|(value, marker)| {
            Ok(value
                .bytes(&marker.column_type, scope)?
                .map_or(Bind::Null, Bind::Bytes))
        })
        .collect()
}

impl ValueTemplate {
    /// The bytes of a value of a type; `None` for null.
    fn bytes(&self, cql_type: &CqlType, scope: &mut Scope<'_>) -> Result<Option<Bytes>, StepError> {
        let text = match self {
            ValueTemplate::Number(number) => number.to_string(),
            ValueTemplate::Text(template) => match template.text(scope) {
                Some(text) => text,
                None => return Ok(None),
            },
            ValueTemplate::List(items) => return list(items, cql_type, scope).map(Some),
        };
        let kind = match cql_type {
            CqlType::Boolean => LiteralKind::Boolean,
            CqlType::Uuid | CqlType::TimeUuid => LiteralKind::Uuid,
            CqlType::Blob => LiteralKind::Hex,
            CqlType::Duration => LiteralKind::Duration,
            CqlType::Float | CqlType::Double | CqlType::Decimal => LiteralKind::Float,
            CqlType::Text | CqlType::Ascii | CqlType::Inet => LiteralKind::String,
            // A timestamp may be milliseconds or a date.
            _ if text.parse::<i128>().is_ok() => LiteralKind::Integer,
            _ => LiteralKind::String,
        };
        // The text of a string stands without quotes here, so that it cannot need escaping.
        let literal = Literal {
            kind,
            text: &text,
            span: Span::default(),
        };
        match literal::serialize(&literal, cql_type) {
            Some(bytes) => Ok(Some(bytes.into())),
            None => Err(StepError::Value {
                text,
                cql_type: cql_type.clone(),
            }),
        }
    }
}

fn list(items: &[ValueTemplate], cql_type: &CqlType, scope: &mut Scope<'_>) -> Result<Bytes, StepError> {
    let (CqlType::List(element) | CqlType::Set(element)) = cql_type else {
        return Err(StepError::Value {
            text: "a list".to_owned(),
            cql_type: cql_type.clone(),
        });
    };
    let mut values = Vec::new();
    for item in items {
        values.extend(item.bytes(element, scope)?);
    }
    let packed = match cql_type {
        CqlType::Set(_) => bind::set_of(values, element),
        _ => bind::collection(values.len(), &values),
    };
    packed.map_err(|_| StepError::Malformed("a list is too long"))
}
