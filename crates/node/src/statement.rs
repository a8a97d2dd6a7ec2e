//! Runs one statement, or one batch, against the database.

use std::sync::Arc;

use cqlens_cql::schema::is_system;
use cqlens_cql::syntax::ast::{self, BatchKind, Body, Modification, QualifiedName, Statement};
use cqlens_proto::types::CqlType;

use super::answer::{Answer, Outcome};
use super::bind;
use super::database::Database;
use super::execution::Execution;
use super::failure::Failure;
use super::layout::Layout;
use super::select::read::Thresholds;
use super::store::Seconds;
use super::write::batch::{self, Entry};
use super::write::condition::{self, Condition, ConditionOutcome};
use super::write::modification;
use super::{select, system, transaction, view};

/// Runs a statement other than USE.
///
/// # Errors
/// What Cassandra refuses, and what this node does not have.
pub(super) fn run(
    statement: &Statement<'_>,
    execution: &Execution<'_>,
    database: &mut Database,
) -> Result<Answer, Failure> {
    match &statement.body {
        Body::Select(select) => self::select(select, execution, database),
        Body::Transaction(transaction) => transaction::run(transaction, execution, database),
        Body::Insert(insert) => modify(&Modification::Insert(insert.clone()), execution, database),
        Body::Update(update) => modify(&Modification::Update(update.clone()), execution, database),
        Body::Delete(delete) => modify(&Modification::Delete(delete.clone()), execution, database),
        Body::Batch(batch) => batch_statement(batch, execution, database),
        Body::Truncate(truncate) => {
            let layout = writable(&truncate.table, execution, database)?;
            database.truncate(&layout);
            Ok(Answer::default())
        }
        _ => Ok(match database.define(statement, execution.keyspace)? {
            None => Answer::default(),
            Some(change) => Answer {
                outcome: Outcome::SchemaChange(change),
                warnings: Vec::new(),
            },
        }),
    }
}

/// Runs a SELECT.
///
/// # Errors
/// What Cassandra refuses, and what this node does not have.
pub(super) fn select(
    select: &ast::Select<'_>,
    execution: &Execution<'_>,
    database: &mut Database,
) -> Result<Answer, Failure> {
    let layout = database.layout(&select.table, execution.keyspace)?;
    derive_rows(&layout, execution.now, database)?;
    let thresholds = Thresholds {
        warn: database.options.tombstone_warn_threshold,
        fail: database.options.tombstone_failure_threshold,
    };
    select::run(select, &layout, database.rows(&layout), execution, thresholds)
}

/// The layout of a table that clients may write.
///
/// # Errors
/// Views, tables of the system, and those that there are not.
pub(super) fn writable(
    name: &QualifiedName<'_>,
    execution: &Execution<'_>,
    database: &mut Database,
) -> Result<Arc<Layout>, Failure> {
    let layout = database.layout(name, execution.keyspace)?;
    if layout.base.is_some() {
        return Err(Failure::invalid("Cannot directly modify a materialized view"));
    }
    if is_system(&layout.keyspace) {
        return Err(Failure::invalid(format!(
            "{} keyspace is not user-modifiable.",
            layout.keyspace
        )));
    }
    Ok(layout)
}

fn modify(
    modification: &Modification<'_>,
    execution: &Execution<'_>,
    database: &mut Database,
) -> Result<Answer, Failure> {
    let layout = writable(modification.table(), execution, database)?;
    let mutations = modification::mutations(modification, &layout, execution)?;
    let Some(condition) = Condition::of(modification) else {
        database.write(mutations, execution.now)?;
        return Ok(Answer::default());
    };
    let [mutation] = &mutations[..] else {
        let statement = match modification {
            Modification::Delete(_) => "deletions",
            _ => "updates",
        };
        return Err(Failure::invalid(format!(
            "IN on the partition key is not supported with conditional {statement}"
        )));
    };
    let verdict = condition::check(condition, mutation, database.rows(&layout), execution)?;
    if verdict == ConditionOutcome::Applied {
        database.write(mutations, execution.now)?;
    }
    let rows = condition::answer(vec![verdict], &layout);
    Ok(Answer {
        outcome: Outcome::Rows(rows),
        warnings: Vec::new(),
    })
}

/// A BATCH as text: its timestamp is that of all its statements.
fn batch_statement(
    batch: &ast::Batch<'_>,
    execution: &Execution<'_>,
    database: &mut Database,
) -> Result<Answer, Failure> {
    let mut execution = execution.clone();
    if let Some(term) = &batch.using.timestamp {
        let timestamp = bind::term(term, &CqlType::BigInt, &execution)?.value();
        let timestamp = timestamp
            .and_then(|bytes| bytes[..].try_into().ok())
            .map(i64::from_be_bytes);
        execution.timestamp = timestamp.unwrap_or(execution.timestamp);
    }
    let modifications = batch.statements.iter().cloned();
    let entries: Vec<Entry<'_>> = modifications
        .map(|modification| Entry {
            modification,
            execution: execution.clone(),
        })
        .collect();
    run_batch(batch.kind, &entries, database)
}

/// Writes a batch.
///
/// # Errors
/// As its statements, and batches that are too large.
pub(super) fn run_batch(
    kind: BatchKind,
    entries: &[Entry<'_>],
    database: &mut Database,
) -> Result<Answer, Failure> {
    for entry in entries {
        writable(entry.modification.table(), &entry.execution, database)?;
    }
    batch::run(kind, entries, database)
}

/// Fills tables whose rows are derived from something else: system tables and materialized views.
fn derive_rows(layout: &Layout, now: Seconds, database: &mut Database) -> Result<(), Failure> {
    if is_system(&layout.keyspace) {
        let rows = system::table(database, layout)?;
        database.replace_rows(layout, rows);
    } else if let Some(base) = &layout.base {
        let base = database.layout_of(&layout.keyspace, base)?;
        let changes = database.rows(&base).changes();
        if !database.is_view_current(layout, changes) {
            let rows = view::derive(layout, &base, database.rows(&base), now)?;
            database.replace_view(layout, rows, changes);
        }
    }
    Ok(())
}
