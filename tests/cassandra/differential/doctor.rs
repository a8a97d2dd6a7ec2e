//! Wrong answers: observations that are changed so that the judge must notice. One that does not notice them
//! is worth nothing.

use cqlens_cql::syntax::{self, ast::Body};
use cqlens_proto::message::ErrorCode;
use cqlens_proto::types::CqlType;

use super::KEYSPACE;
use super::ask::{Executed, Observation, Outcome, Prepared, Refused};
use super::case::Case;
use super::judge::Category;
use super::trace::Trace;

/// The observation with another answer to a question; none if this one has no such answer.
pub(crate) fn doctor(category: Category, case: &Case, observation: &Observation) -> Option<Observation> {
    let mut doctored = observation.clone();
    match category {
        Category::Syntax => {
            let is_syntax = matches!(observation.prepared.first()?, Err(refused) if refused.code == ErrorCode::SYNTAX_ERROR);
            *doctored.prepared.first_mut()? = if is_syntax {
                Ok(Prepared::made_up())
            } else {
                Err(refused(ErrorCode::SYNTAX_ERROR))
            };
        }
        Category::Preparation => {
            let is_refused = |prepared: &&mut Result<Prepared, Refused>| matches!(prepared, Err(refused) if refused.code != ErrorCode::SYNTAX_ERROR);
            let refusal = doctored.prepared.iter_mut().find(is_refused)?;
            *refusal = Ok(Prepared::made_up());
        }
        Category::Table => each(&mut doctored, |prepared| {
            for name in prepared.table.iter_mut().chain(&mut prepared.markers.table) {
                name.1.push('x');
            }
        }),
        Category::Columns => each(&mut doctored, |prepared| drop(prepared.columns.pop())),
        Category::MarkerCount => each(&mut doctored, |prepared| {
            prepared.markers.columns.push(("x".to_owned(), CqlType::Int));
        }),
        Category::MarkerNames => each(&mut doctored, |prepared| {
            for (name, _) in &mut prepared.markers.columns {
                name.push('x');
            }
        }),
        Category::MarkerTypes => each(&mut doctored, |prepared| {
            for (_, cql_type) in &mut prepared.markers.columns {
                *cql_type = CqlType::set(cql_type.clone());
            }
        }),
        Category::KeyMarkers => each(&mut doctored, |prepared| prepared.markers.partition_key.push(99)),
        Category::Filtering => {
            let answer = doctored.without_filtering.as_mut()?;
            *answer = match answer {
                Ok(()) => Err(refused(ErrorCode::INVALID)),
                Err(_) => Ok(()),
            };
        }
        Category::Execution => {
            let executed = doctored.executed.as_mut()?;
            executed.result.as_ref().err()?;
            executed.result = Ok(Outcome::Void);
        }
        Category::Partitions | Category::WithoutSchema => {
            let trace = trace(&mut doctored)?;
            let range_read = "Computing ranges to query".to_owned();
            *trace = if trace.reads_range() {
                Trace::of([])
            } else if trace.touches() {
                Trace::of([range_read])
            } else if is_empty_batch(case) {
                // There is no table that could have been touched.
                return None;
            } else {
                let tables = observation.schema.keyspace(KEYSPACE)?.tables.keys();
                let writes = tables.map(|table| format!("Adding to {table} memtable"));
                trace.after(writes.chain([range_read]))
            };
        }
        Category::RingShare => {
            let trace = trace(&mut doctored)?;
            *trace = trace.map(|activity| match activity.split_once(" for ") {
                Some((scan, _)) => format!("{scan} for (max(0), max(3074457345618258602)]"),
                None => activity.to_owned(),
            });
        }
        Category::Indexes => {
            let trace = trace(&mut doctored)?;
            let chosen = "Index mean cardinalities are x:1. Scanning with x.";
            *trace = trace.after([chosen.to_owned()]);
        }
        Category::Lwt => {
            let outcome = doctored.executed.as_mut()?.result.as_mut().ok()?;
            *outcome = match outcome {
                Outcome::Rows(_) => Outcome::Void,
                _ => Outcome::Rows(vec!["[applied]".to_owned()]),
            };
        }
        Category::Aggregate => {
            let warnings = &mut doctored.executed.as_mut()?.warnings;
            let before = warnings.len();
            warnings.retain(|warning| !warning.starts_with(AGGREGATION));
            if warnings.len() == before {
                warnings.push(AGGREGATION.to_owned());
            }
        }
        Category::SchemaChange => {
            let (Outcome::Keyspace(keyspace) | Outcome::SchemaChange(keyspace, _)) =
                doctored.executed.as_mut()?.result.as_mut().ok()?
            else {
                return None;
            };
            keyspace.push('x');
        }
    }
    Some(doctored)
}

fn is_empty_batch(case: &Case) -> bool {
    let is_empty = |statement: &str| {
        let parsed = syntax::parse(statement);
        matches!(parsed.map(|parsed| parsed.body), Ok(Body::Batch(batch)) if batch.statements.is_empty())
    };
    case.statements().into_iter().all(is_empty)
}

const AGGREGATION: &str = "Aggregation query used";

fn refused(code: ErrorCode) -> Refused {
    Refused {
        code,
        message: "ALLOW FILTERING, says the doctor".to_owned(),
    }
}

fn each(observation: &mut Observation, change: impl Fn(&mut Prepared)) {
    observation.prepared.iter_mut().flatten().for_each(change);
}

fn trace(observation: &mut Observation) -> Option<&mut Trace> {
    let executed: &mut Executed = observation.executed.as_mut()?;
    executed.trace.as_mut()
}
