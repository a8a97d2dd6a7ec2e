//! One client of a scenario: computes the expressions of its steps, sends their statements and keeps what
//! they read.

use std::collections::{BTreeMap, HashMap};

use cqlens_client::{Answer, Bind, Client, ClientError, Prepared, Run, RunOptions};
use cqlens_proto::message::{BatchKind, Consistency, ErrorCode};

use super::expression::{Random, Scope};
use super::outcome::{StepError, Totals};
use super::{BatchForm, Results, Step, ValueTemplate};

/// One connection of a scenario, with what it has prepared.
pub(super) struct ScenarioClient {
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

/// How often a statement is prepared again for one run: drivers do it without end.
const MOST_PREPARED: usize = 8;

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
    /// A connection on which nothing has been sent yet.
    pub(super) fn new(client: Client) -> Self {
        ScenarioClient {
            client,
            prepared: HashMap::new(),
            totals: Totals::default(),
        }
    }

    /// What it has sent so far.
    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// Runs a step, once for each row of the step that it follows, and keeps the rows that it reads in
    /// `results`.
    ///
    /// # Errors
    /// Steps that are malformed, and answers that are errors.
    pub(super) async fn step(
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
                let answer = self.send(&run, &run_options(step)).await;
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

    async fn send(&mut self, ready: &Ready, options: &RunOptions) -> Result<Answer, ClientError> {
        let answer = self.send_once(ready, options).await;
        self.unless_forgotten(answer, ready, options).await
    }

    /// Prepares what the server has forgotten again, as drivers do it: also what it forgets once more, as servers do
    /// that still look at a change of the schema.
    async fn unless_forgotten(
        &mut self,
        mut answer: Result<Answer, ClientError>,
        ready: &Ready,
        options: &RunOptions,
    ) -> Result<Answer, ClientError> {
        for _ in 0..MOST_PREPARED {
            if !is_unprepared(&answer) {
                break;
            }
            for statement in ready.statements() {
                if let Filled::Prepared { cql, .. } = statement {
                    // The same text has the same id again.
                    self.client.prepare(cql).await?;
                }
            }
            self.totals.sent_again += 1;
            answer = self.send_once(ready, options).await;
        }
        answer
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
        let options = run_options(step);
        let runs: Vec<_> = together
            .iter()
            .flat_map(Ready::statements)
            .map(Filled::run)
            .collect();
        let answers = self.client.run_all(&runs, &options).await?;
        for (ready, answer) in together.iter().zip(answers) {
            let answer = self.unless_forgotten(answer, ready, &options).await;
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

/// How the statements of a step are run.
fn run_options(step: &Step) -> RunOptions {
    let named = |consistency: &&Consistency| consistency.name() == step.consistency;
    let consistency = Consistency::ALL.iter().find(named).copied();
    RunOptions {
        consistency: consistency.unwrap_or(Consistency::LocalOne),
        page_size: step.page_size,
        ..RunOptions::default()
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
