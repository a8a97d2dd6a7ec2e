//! Batches: all statements become mutations first, then all of them are written.

use std::collections::BTreeSet;
use std::sync::Arc;

use cqlens_cql::syntax::ast::{BatchKind, Modification};

use super::condition::{self, Condition, ConditionOutcome};
use super::modification;
use super::mutation::Mutation;
use crate::answer::{Answer, Outcome};
use crate::database::Database;
use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::options::Options;

/// A statement of a batch, with the values of its own markers.
pub(crate) struct Entry<'a> {
    /// The statement.
    pub(crate) modification: Modification<'a>,
    /// How it is run.
    pub(crate) execution: Execution<'a>,
}

/// Writes the statements of a batch, or nothing.
///
/// # Errors
/// The first statement that is refused, conditions that span partitions, and batches that are too large.
pub(crate) fn run(
    kind: BatchKind,
    entries: &[Entry<'_>],
    database: &mut Database,
) -> Result<Answer, Failure> {
    let mut mutations = Vec::new();
    let mut conditions = Vec::new();
    for entry in entries {
        let layout = database.layout(entry.modification.table(), entry.execution.keyspace)?;
        check_kind(kind, &layout)?;
        let its = modification::mutations(&entry.modification, &layout, &entry.execution)?;
        if let Some(condition) = Condition::of(&entry.modification) {
            conditions.push((condition, its.clone(), &entry.execution));
        }
        mutations.extend(its);
    }
    let warnings = check_size(kind, &mutations, SizeLimits::of(&database.options))?;
    let Some((_, first, _)) = conditions.first() else {
        let now = entries.first().map_or(0, |entry| entry.execution.now);
        database.write(mutations, now)?;
        return Ok(Answer {
            outcome: Outcome::Void,
            warnings,
        });
    };
    if partitions(&mutations)? > 1 {
        return Err(Failure::invalid(
            "Batch with conditions cannot span multiple partitions",
        ));
    }
    let layout = first.first().map(|mutation| Arc::clone(&mutation.layout));
    let Some(layout) = layout else {
        return Ok(Answer::default());
    };
    let mut verdicts = Vec::new();
    for (condition, its, execution) in &conditions {
        for mutation in its {
            verdicts.push(condition::check(
                *condition,
                mutation,
                database.rows(&mutation.layout),
                execution,
            )?);
        }
    }
    if verdicts
        .iter()
        .all(|verdict| *verdict == ConditionOutcome::Applied)
    {
        let now = entries.first().map_or(0, |entry| entry.execution.now);
        database.write(mutations, now)?;
    }
    Ok(Answer {
        outcome: Outcome::Rows(condition::answer(verdicts, &layout)),
        warnings,
    })
}

fn check_kind(kind: BatchKind, layout: &Layout) -> Result<(), Failure> {
    match (kind, layout.is_counter) {
        (BatchKind::Counter, false) => Err(Failure::invalid(
            "Cannot include non-counter statement in a counter batch",
        )),
        (BatchKind::Logged, true) => Err(Failure::invalid(
            "Counter and non-counter mutations cannot exist in the same batch",
        )),
        _ => Ok(()),
    }
}

fn partitions(mutations: &[Mutation]) -> Result<usize, Failure> {
    let mut partitions = BTreeSet::new();
    for mutation in mutations {
        partitions.insert((
            &mutation.layout.keyspace,
            &mutation.layout.name,
            mutation.partition()?,
        ));
    }
    Ok(partitions.len())
}

/// From how many bytes on a server warns of a batch, and refuses it.
struct SizeLimits {
    warn: usize,
    fail: usize,
}

impl SizeLimits {
    /// `batch_size_warn_threshold` and `batch_size_fail_threshold` of cassandra.yaml.
    const CASSANDRA: Self = Self {
        warn: 5 * 1024,
        fail: 50 * 1024,
    };

    /// `batch_size_warn_threshold_in_kb` and `batch_size_fail_threshold_in_kb` of scylla.yaml.
    const SCYLLADB: Self = Self {
        warn: 128 * 1024,
        fail: 1024 * 1024,
    };

    fn of(options: &Options) -> Self {
        match options.scylladb {
            Some(_) => Self::SCYLLADB,
            None => Self::CASSANDRA,
        }
    }
}

/// `unlogged_batch_across_partitions_warn_threshold` of cassandra.yaml.
const WARN_PARTITIONS: usize = 10;

/// Cassandra's warnings about large batches; the size is this node's own estimate.
fn check_size(kind: BatchKind, mutations: &[Mutation], limits: SizeLimits) -> Result<Vec<String>, Failure> {
    let SizeLimits { warn, fail } = limits;
    let size: usize = mutations.iter().map(Mutation::size).sum();
    let partitions = partitions(mutations)?;
    let tables: BTreeSet<String> = mutations
        .iter()
        .map(|mutation| format!("{}.{}", mutation.layout.keyspace, mutation.layout.name))
        .collect();
    let plural = if tables.len() == 1 { "" } else { "s" };
    let tables = tables.into_iter().collect::<Vec<_>>().join(", ");
    if size > fail && partitions > 1 {
        return Err(Failure::invalid("Batch too large"));
    }
    let mut warnings = Vec::new();
    if size > warn && mutations.len() > 1 {
        let over = size - warn;
        warnings.push(format!(
            "Batch for [{tables}] is of size {size}, exceeding specified threshold of {warn} by {over}."
        ));
    }
    if kind == BatchKind::Unlogged && partitions > WARN_PARTITIONS {
        warnings.push(format!(
            "Unlogged batch covering {partitions} partitions detected against table{plural} [{tables}]. You should use a \
             logged batch for atomicity, or asynchronous writes for performance."
        ));
    }
    Ok(warnings)
}
