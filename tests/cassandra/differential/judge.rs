//! Holds what cqlens says of a case against what the server said: one verdict for each question that both can
//! answer.

mod execution;
mod preparation;

use cqlens_cql::ServerVersion;
use cqlens_cql::footprint::{Footprint, Keys};
use cqlens_cql::plan::{Plan, Stage};
use cqlens_cql::syntax;
use cqlens_cql::syntax::ast::Statement;

use super::KEYSPACE;
use super::ask::{Observation, Refused};
use super::case::Case;

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Category {
    Syntax,
    Preparation,
    Table,
    Columns,
    MarkerCount,
    MarkerNames,
    MarkerTypes,
    KeyMarkers,
    Filtering,
    Execution,
    Partitions,
    WithoutSchema,
    RingShare,
    Indexes,
    Lwt,
    Aggregate,
    SchemaChange,
}

impl Category {
    pub(crate) const ALL: [Self; 17] = [
        Self::Syntax,
        Self::Preparation,
        Self::Table,
        Self::Columns,
        Self::MarkerCount,
        Self::MarkerNames,
        Self::MarkerTypes,
        Self::KeyMarkers,
        Self::Filtering,
        Self::Execution,
        Self::Partitions,
        Self::WithoutSchema,
        Self::RingShare,
        Self::Indexes,
        Self::Lwt,
        Self::Aggregate,
        Self::SchemaChange,
    ];

    pub(crate) fn question(self) -> &'static str {
        match self {
            Self::Syntax => "is it CQL",
            Self::Preparation => "is it refused when prepared",
            Self::Table => "keyspace and table",
            Self::Columns => "columns of SELECT *, and their types",
            Self::MarkerCount => "number of bind markers",
            Self::MarkerNames => "names of bind markers",
            Self::MarkerTypes => "types of bind markers",
            Self::KeyMarkers => "partition key markers",
            Self::Filtering => "is ALLOW FILTERING needed",
            Self::Execution => "is it refused when executed",
            Self::Partitions => "partitions, by trace",
            Self::WithoutSchema => "partitions without a schema, by trace",
            Self::RingShare => "share of the ring, by trace",
            Self::Indexes => "indexes, by trace",
            Self::Lwt => "is it a lightweight transaction",
            Self::Aggregate => "is it an aggregate",
            Self::SchemaChange => "object of a schema change",
        }
    }
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Agreed,
    /// The server refused what cqlens did not foresee: no fault of an observer, who sees the refusal.
    Unforeseen(String),
    Disagreed(String),
}

impl Verdict {
    fn of<T: PartialEq + std::fmt::Debug>(ours: &T, theirs: &T) -> Self {
        if ours == theirs {
            Self::Agreed
        } else {
            Self::Disagreed(format!("cqlens says {ours:?}, Cassandra {theirs:?}"))
        }
    }

    fn that(holds: bool, otherwise: impl FnOnce() -> String) -> Self {
        if holds {
            Self::Agreed
        } else {
            Self::Disagreed(otherwise())
        }
    }

    /// Whether both refuse, both accept, or who does not.
    fn of_refusal(ours: Option<String>, theirs: Option<&Refused>) -> Self {
        match (ours, theirs) {
            (Some(_), Some(_)) | (None, None) => Self::Agreed,
            (Some(ours), None) => Self::Disagreed(format!("Cassandra accepts it, cqlens says: {ours}")),
            (None, Some(theirs)) => Self::Unforeseen(theirs.message.clone()),
        }
    }
}

/// The verdicts on a case.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(pub(crate) Vec<(Category, Verdict)>);

impl Verdicts {
    fn add(&mut self, category: Category, verdict: Verdict) {
        self.0.push((category, verdict));
    }

    /// Whether the question was asked, and both agree whenever it was.
    pub(crate) fn agree(&self, category: Category) -> bool {
        let mut verdicts = self.of(category).peekable();
        verdicts.peek().is_some() && verdicts.all(|verdict| *verdict == Verdict::Agreed)
    }

    /// Whether the answers to a question differ.
    pub(crate) fn disagree(&self, category: Category) -> bool {
        self.of(category)
            .any(|verdict| matches!(verdict, Verdict::Disagreed(_)))
    }

    fn of(&self, category: Category) -> impl Iterator<Item = &Verdict> {
        let verdicts = self.0.iter();
        verdicts.filter_map(move |(of, verdict)| (*of == category).then_some(verdict))
    }
}

/// Asks cqlens what the server was asked.
pub(crate) fn judge(case: &Case, observation: &Observation, server: ServerVersion) -> Verdicts {
    let mut verdicts = Verdicts::default();
    let mut plans = Vec::new();
    for (text, prepared) in case.statements().into_iter().zip(&observation.prepared) {
        let Some(statement) = preparation::syntax(text, prepared, server, &mut verdicts) else {
            continue;
        };
        let plan = Plan::of(&statement, Some(KEYSPACE), &observation.schema).on(server);
        preparation::refusal(&plan, prepared, &mut verdicts);
        if let Ok(prepared) = prepared {
            preparation::metadata(&statement, &plan, prepared, &observation.schema, &mut verdicts);
        }
        plans.push((statement, plan));
    }
    if plans.len() == case.statements().len() {
        execution::judge(case, &plans, observation, &mut verdicts);
    }
    verdicts
}

/// What cqlens refuses when it is prepared.
fn refused_when_prepared(plan: &Plan) -> Option<String> {
    let refusal = plan.refusal().filter(|refusal| refusal.stage == Stage::Prepare);
    refusal.map(ToString::to_string)
}
