//! Rules on the shape of single reads: how many partitions one SELECT makes Cassandra visit.
//!
//! No read is called the same thing twice: what filters is not also a scan, a cartesian product is not also
//! an `IN`. How much a read brings (`large-result`, `unpaged-read`) and in which way (`reversed-read`,
//! `select-star`) is said beside that. They look at the application's own SELECTs only, never at drivers' and
//! tools'.

mod aggregate_without_partition_key;
mod allow_filtering;
mod empty_read;
mod full_scan;
mod in_cartesian_product;
mod in_clustering;
mod in_partition_key;
mod index;
mod index_high_cardinality;
mod index_low_cardinality;
mod index_on_updated_column;
mod large_pages;
mod large_result;
mod materialized_view_read;
mod reversed_read;
mod secondary_index_read;
mod select_star;
mod small_pages;
pub(super) mod suggest;
mod token_range_scan;
mod unbounded_read;
mod unpaged_read;
mod writetime_read;

use super::{
    About, Finding, Findings, Severity, Threshold,
    figures::{self, table},
    severity::Impact,
};
use crate::Context;
use cqlens_cql::{
    footprint::PartitionClass,
    plan::{Flag, StatementKind},
    syntax::ast::{Body, RelationOperator, Statement},
};
use cqlens_window::{Pattern, PatternId, number};
use suggest::Suggestion;

pub(super) use aggregate_without_partition_key::AggregateWithoutPartitionKey;
pub(super) use allow_filtering::AllowFiltering;
pub(super) use empty_read::EmptyRead;
pub(super) use full_scan::FullScan;
pub(super) use in_cartesian_product::InCartesianProduct;
pub(super) use in_clustering::InClustering;
pub(super) use in_partition_key::InPartitionKey;
pub(super) use index_high_cardinality::IndexHighCardinality;
pub(super) use index_low_cardinality::IndexLowCardinality;
pub(super) use index_on_updated_column::IndexOnUpdatedColumn;
pub(super) use large_pages::LargePages;
pub(super) use large_result::LargeResult;
pub(super) use materialized_view_read::MaterializedViewRead;
pub(super) use reversed_read::ReversedRead;
pub(super) use secondary_index_read::SecondaryIndexRead;
pub(super) use select_star::SelectStar;
pub(super) use small_pages::SmallPages;
pub(super) use token_range_scan::TokenRangeScan;
pub(super) use unbounded_read::UnboundedRead;
pub(super) use unpaged_read::UnpagedRead;
pub(super) use writetime_read::WritetimeRead;

/// The application's own SELECTs, but for those that the server always refused: they cost nothing.
pub(super) fn user_reads<'a>(context: &Context<'a>) -> impl Iterator<Item = (PatternId, &'a Pattern)> {
    figures::user_patterns(context).filter(|(_, pattern)| is_judged(pattern))
}

/// Whether it is a SELECT that the server did not always refuse.
pub(super) fn is_judged(pattern: &Pattern) -> bool {
    pattern.head.kind == StatementKind::Select && !pattern.classes.is_empty()
}

/// Whether Cassandra drops rows that it has read: `ALLOW FILTERING` is written and, as far as is known,
/// needed.
fn filters(pattern: &Pattern) -> bool {
    pattern.is(Flag::AllowFiltering)
        && (pattern.is(Flag::FilteringNeeded) || pattern.class() == PartitionClass::Unknown)
}

/// Whether it reads a range of the ring by its tokens, as analytics and exports do: with whatever predicate and
/// `ALLOW FILTERING` their connector appends, it is a piece of one walk over the table (`token-range-scan`).
pub(super) fn is_sweep(pattern: &Pattern) -> bool {
    let is_on_token = pattern.is(Flag::OnToken) && !pattern.is(Flag::FullPartitionKey);
    is_on_token || pattern.class() == PartitionClass::TokenRange
}

/// The rate of a title, `, 3 a minute`, the pages of one read counted once; nothing where no time was
/// observed, as of a statement that was only read.
fn how_often(pattern: &Pattern, context: &Context<'_>) -> String {
    figures::often(reads(pattern), context.watch(pattern))
}

/// The number of partitions in a title: of a text with markers in its lists the most that there can be.
fn how_many(pattern: &Pattern, context: &Context<'_>) -> String {
    if pattern.partitions.is_empty() {
        return "an unknown number of".to_owned();
    }
    let count = number::count(pattern.partitions.quantile(0.99));
    match context.text().is_some_and(lists_markers) {
        true => format!("up to {count}"),
        false => count,
    }
}

/// Whether what is bound decides how many keys a list has.
fn lists_markers(statement: &Statement<'_>) -> bool {
    let where_clause = match &statement.body {
        Body::Select(select) => &select.where_clause,
        Body::Update(update) => &update.where_clause,
        Body::Delete(delete) => &delete.where_clause,
        _ => return false,
    };
    let lists = where_clause.relations.iter();
    let mut lists = lists.filter(|relation| relation.operator == RelationOperator::In);
    let markers = || statement.bind_markers.iter().map(|marker| marker.span.start);
    lists.any(|list| markers().any(|start| list.span.range().contains(&(start as usize))))
}

/// Says which of many executions the number of a title is of.
fn at_p99(pattern: &Pattern) -> &'static str {
    if pattern.partitions.count() > 1 {
        " (p99)"
    } else {
        ""
    }
}

/// The finding with the partitions of an execution as its first numbers, where they are known.
fn with_partitions(finding: Finding, pattern: &Pattern) -> Finding {
    if pattern.partitions.is_empty() {
        return finding;
    }
    finding
        .first("partitions_max", pattern.partitions.max())
        .first("partitions_p99", pattern.partitions.quantile(0.99))
        .first("partitions_p50", pattern.partitions.quantile(0.5))
}

/// Reads, the pages of one counted once.
fn reads(pattern: &Pattern) -> u64 {
    match pattern.logical_reads {
        0 => pattern.count,
        logical => logical,
    }
}

/// How bad one read of the whole table is: its cost grows with the table. Of a statement that was only read,
/// not executed, it is not known how large the table is.
fn of_a_scan(context: &Context<'_>) -> Severity {
    if context.window.seconds() > 0.0 {
        Severity::High
    } else {
        Severity::Medium
    }
}

/// How bad one read through an index on all nodes is: the larger the cluster, the more of them. ScyllaDB's indexes are global.
fn of_an_index(context: &Context<'_>) -> Severity {
    match context.is_scylladb() {
        true => Severity::Low,
        false => Severity::Medium,
    }
}

/// How bad reads of several partitions are: by their number at p99, and what the reads cost; none for one
/// partition. Where the number depends on what will be bound, as of a statement that was only read, it is worth
/// knowing and no more.
///
/// The rule's thresholds must hold [`LOW_PARTITIONS`], [`MEDIUM_PARTITIONS`] and `high`.
fn by_partitions<'p>(
    found: &Findings<'_>,
    (about, high): (&About, &Threshold),
    pattern: &'p Pattern,
) -> Option<Impact<'p>> {
    if pattern.partitions.is_empty() && pattern.class() == PartitionClass::Multi {
        return Some(Impact::each(Severity::Info).at_most(Severity::Info));
    }
    let p99 = pattern.partitions.quantile(0.99);
    let reached = |threshold: &Threshold| p99 as f64 >= found.threshold(about, threshold);
    let each = if reached(high) {
        Severity::High
    } else if reached(&MEDIUM_PARTITIONS) {
        Severity::Medium
    } else if reached(&LOW_PARTITIONS) {
        Severity::Low
    } else if p99 > 1 {
        Severity::Info
    } else {
        return None;
    };
    Some(Impact::each(each).of(pattern))
}

/// From here on an `IN` is a habit of the query, not a pair of keys.
const LOW_PARTITIONS: Threshold = Threshold {
    name: "low_partitions",
    unit: "partitions at p99",
    default: 5.0,
    origin: "\
        rule 2 of the literature: read as few partitions as possible, ideally one; two or three cost little \
        more than one",
};

/// As many partitions as Cassandra itself warns of in a batch.
const MEDIUM_PARTITIONS: Threshold = Threshold {
    name: "medium_partitions",
    unit: "partitions at p99",
    default: 10.0,
    origin: "\
        `unlogged_batch_across_partitions_warn_threshold` of cassandra.yaml: 10; Cassandra has no default \
        for reads",
};

/// Puts the advice and the numbers that belong to the table that would serve a query into the finding on it, and
/// gives the statements; nothing where none can be written. Of further queries of a finding (no pattern) only the
/// statements are new.
pub(super) fn with_suggestion(
    finding: &mut Finding,
    pattern: Option<&Pattern>,
    suggestion: Option<Suggestion>,
) -> Vec<String> {
    let Some(suggestion) = suggestion else {
        return Vec::new();
    };
    if let Some(pattern) = pattern {
        advise_table(finding, pattern, &suggestion);
    }
    suggestion.cql
}

fn advise_table(finding: &mut Finding, pattern: &Pattern, suggestion: &Suggestion) {
    let advice = match &suggestion.existing {
        Some(existing) => {
            format!("`{existing}` already has the key that this query needs: read from that table.")
        }
        None if !suggestion.may_be_large => finding.advice.clone(),
        None => format!(
            "{} If many rows share a value, add a bucket to the partition key, such as a day, that the \
                query can specify.",
            finding.advice
        ),
    };
    finding.advice = advice;
    // Within its partition a read finds fewer rows afterwards, and no fewer partitions.
    if !pattern.is(Flag::FullPartitionKey)
        && let Some(partitions) = suggestion.partitions
    {
        let after = ("partitions_per_read_after", partitions.into());
        finding.evidence.push(after);
    }
}

/// Says how many reads touch an unknown number of partitions, which this rule therefore cannot judge.
fn blind_on_unknown(found: &mut Findings<'_>, about: &About, context: &Context<'_>) {
    let (mut unknown, mut all, mut patterns) = (0, 0, 0);
    for (_, pattern) in user_reads(context) {
        let here = pattern.classes.get(&PartitionClass::Unknown).copied();
        unknown += here.unwrap_or_default();
        patterns += u64::from(here.is_some());
        all += pattern.count;
    }
    if unknown > 0 {
        found.blind(
            about,
            format!(
                "{} of {} ({}) touch partitions that are not known",
                number::count(unknown),
                number::plural(all, "read", "reads"),
                number::plural(patterns, "pattern", "patterns"),
            ),
        );
    }
}
