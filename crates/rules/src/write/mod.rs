//! Rules on writes: batches, conditions, and what makes replicas read before they write.

mod batch_too_large;
mod counter_batch;
mod counter_delete;
mod growing_collection;
mod large_mutation;
mod list_modification;
mod logged_batch_multi_partition;
mod lwt_heavy;
mod mixed_conditional_writes;
mod overwriting_insert;
mod retried_increment;
mod unlogged_batch_multi_partition;

use super::{
    About, Finding, Findings, Severity, Threshold,
    figures::{table, user_writes},
    severity::Impact,
};
use crate::Context;
use cqlens_cql::plan::StatementKind;
use cqlens_window::{Pattern, PatternId};

pub(super) use batch_too_large::BatchTooLarge;
pub(super) use counter_batch::CounterBatch;
pub(super) use counter_delete::CounterDelete;
pub(super) use growing_collection::GrowingCollection;
pub(super) use large_mutation::LargeMutation;
pub(super) use list_modification::ListModification;
pub(super) use logged_batch_multi_partition::LoggedBatchMultiPartition;
pub(super) use lwt_heavy::LwtHeavy;
pub(super) use mixed_conditional_writes::MixedConditionalWrites;
pub(super) use overwriting_insert::OverwritingInsert;
pub(super) use retried_increment::RetriedIncrement;
pub(super) use unlogged_batch_multi_partition::UnloggedBatchMultiPartition;

/// The application's own batches.
fn user_batches<'a>(context: &Context<'a>) -> impl Iterator<Item = (PatternId, &'a Pattern)> {
    user_writes(context).filter(|(_, pattern)| pattern.head.kind == StatementKind::Batch)
}

/// The finding with the partitions of a batch, or of a transaction, as its first numbers.
pub(super) fn with_partitions(finding: Finding, pattern: &Pattern) -> Finding {
    finding
        .first("partitions_max", pattern.partitions.max())
        .first("partitions_p99", pattern.partitions.quantile(0.99))
        .first("partitions_p50", pattern.partitions.quantile(0.5))
        .first("request_p99_bytes", pattern.request_bytes.quantile(0.99))
}

/// The severity of batches and transactions over several partitions, by their number at p99; none for one.
///
/// The rule's thresholds must hold [`MEDIUM_PARTITIONS`] and [`HIGH_PARTITIONS`].
pub(super) fn by_partitions(
    found: &Findings<'_>,
    about: &About,
    pattern: &Pattern,
    context: &Context<'_>,
    lowest: Severity,
) -> Option<Severity> {
    let p99 = pattern.partitions.quantile(0.99);
    if p99 <= 1 {
        return None;
    }
    let reached = |threshold: &Threshold| p99 as f64 >= found.threshold(about, threshold);
    let severity = if reached(&HIGH_PARTITIONS) {
        Severity::High
    } else if reached(&MEDIUM_PARTITIONS) {
        Severity::Medium
    } else {
        lowest
    };
    // The tables of one fact, written together: right, whatever part of the load it is.
    if severity == Severity::Info {
        return Some(severity);
    }
    Some(context.severity(found, &Impact::each(severity).of(pattern)))
}

pub(super) const MEDIUM_PARTITIONS: Threshold = Threshold {
    name: "medium_partitions",
    unit: "partitions at p99",
    default: 10.0,
    origin: "`unlogged_batch_across_partitions_warn_threshold` of cassandra.yaml: 10",
};

pub(super) const HIGH_PARTITIONS: Threshold = Threshold {
    name: "high_partitions",
    unit: "partitions at p99",
    default: 50.0,
    origin: "\
        cqlens default: five times Cassandra's warning threshold; Cassandra has no threshold for refusing",
};
