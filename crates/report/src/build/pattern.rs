//! From the counts of a pattern to what a report says of it.

use std::collections::BTreeMap;

use super::numbers::{latency, observed_tombstones, quantiles};
use crate::{
    PartitionsReport, PatternReport, PerRead, RepeatsReport, RoutingReport, ScannedReport, TokenRangesReport,
};
use cqlens_rules::{Context, Cost, error_name};
use cqlens_window::{Distinct, Paging, Pattern, PatternId, Repeats, Scanned, TokenRanges};

/// The report of a pattern; drivers' and tools' own have no part in what the application costs.
pub(super) fn pattern_report(id: PatternId, pattern: &Pattern, context: &Context<'_>) -> PatternReport {
    let cost = Cost::of(pattern);
    let of_application = |share| if pattern.head.system { 0.0 } else { share };
    PatternReport {
        id,
        kind: pattern.head.kind,
        keyspace: pattern.head.keyspace.clone(),
        table: pattern.head.table.clone(),
        cql: pattern.head.cql.clone(),
        count: pattern.count,
        observed_seconds: context.watched_seconds([pattern]),
        missed: pattern.missed.executions,
        errors: pattern.errors,
        error_codes: error_codes(pattern),
        warnings: pattern.warnings,
        latency_us: latency(&pattern.latency_us),
        partitions: PartitionsReport {
            class: pattern.class(),
            min: pattern.partitions.min(),
            numbers: quantiles(&pattern.partitions),
        },
        rows: quantiles(&pattern.rows),
        response_bytes: quantiles(&pattern.response_bytes),
        tombstones: observed_tombstones(&pattern.tombstones),
        pages: pattern.pages,
        logical_reads: pattern.logical_reads,
        per_read: per_read(&pattern.paging),
        repeats: repeats(&pattern.repeats),
        scanned: scanned(&pattern.scanned),
        token_ranges: token_ranges(&pattern.token_ranges),
        routing: RoutingReport::of(&pattern.routing),
        consistency: pattern.consistency.clone(),
        serial_consistency: pattern.serial_consistency.clone(),
        prepared: pattern.prepared,
        unprepared: pattern.unprepared,
        flags: pattern.flags.clone(),
        clients: pattern.clients.clone(),
        time_us: cost.time_us,
        time_share: cost.time_share(context).map(of_application),
        work: cost.work,
        work_share: of_application(cost.work_share(context)),
    }
}

fn error_codes(pattern: &Pattern) -> BTreeMap<String, u64> {
    let mut by_name = BTreeMap::new();
    for (&code, &count) in &pattern.error_codes {
        *by_name.entry(error_name(code).to_owned()).or_default() += count;
    }
    by_name
}

fn per_read(paging: &Paging) -> Option<PerRead> {
    let is_seen = !paging.pages.is_empty() || paging.unlinked > 0;
    is_seen.then(|| PerRead {
        reads: paging.pages.count(),
        rows: quantiles(&paging.rows),
        pages: quantiles(&paging.pages),
        abandoned: paging.abandoned,
        unlinked_pages: paging.unlinked,
    })
}

fn repeats(repeats: &Repeats) -> Option<RepeatsReport> {
    (repeats.in_flight + repeats.retried() > 0).then(|| RepeatsReport {
        in_flight: repeats.in_flight,
        retries: repeats.retries.clone(),
    })
}

fn scanned(scanned: &Scanned) -> Option<ScannedReport> {
    (scanned.rows + scanned.answers_without_keys > 0).then(|| ScannedReport {
        lower_bound: true,
        distinct_partitions: scanned.distinct.as_ref().map_or(0, Distinct::estimate),
        partitions_per_read: quantiles(&scanned.partitions),
        rows: scanned.rows,
        rows_left_out: scanned.rows_left_out,
        answers_without_keys: scanned.answers_without_keys,
    })
}

fn token_ranges(ranges: &TokenRanges) -> Option<TokenRangesReport> {
    (!ranges.cover.is_empty()).then(|| TokenRangesReport {
        ring_share: ranges.cover.share(),
        sweeps: ranges.sweeps,
        sweep_reads: ranges.sweep_reads,
    })
}
