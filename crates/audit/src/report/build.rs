//! From a window and its judgement to a report.
//!
//! Drivers' and tools' own statements are kept apart from the application's. No number is made up: what was not
//! observed is empty or absent, and nothing divides by zero.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    Chart, ColumnReport, ColumnRole, FORMAT, FindingReport, Latency, LoadReport, ObservedTombstones,
    PartitionsReport, PatternReport, PerRead, Quantiles, RepeatsReport, Report, RoutingReport, ScannedReport,
    Span, TableReport, TokenRangesReport, Tool, TopPartition, Totals, Unit, summary,
};
use crate::{
    rules::{self, Comment, Finding, Judgement, RULES},
    window::{
        Cluster, Distinct, Distribution, Paging, Pattern, PatternId, Repeats, Scanned, TableTraffic,
        TokenRanges, Tombstones, Window,
    },
};
use cqlens_cql::{
    plan::StatementKind,
    schema::{ColumnKind, Order, Schema, Table, TableName, is_system},
};

/// How many patterns keep what their distributions are drawn from, which takes more memory than all else of them.
pub(super) const MOST_DRAWN: usize = 200;

/// How many of its busiest partitions a table shows.
const TOP_PARTITIONS: usize = 10;

impl Report {
    /// What `window` and the rules' judgement of it say.
    pub fn new(
        window: &Window,
        cluster: &Cluster,
        schema: &Schema,
        judgement: Judgement,
        generated_at: Timestamp,
    ) -> Self {
        let (patterns, system_patterns) = patterns(window);
        let reports = |findings: Vec<Finding>| -> Vec<_> {
            findings
                .into_iter()
                .map(|finding| finding_report(finding, window))
                .collect()
        };
        let findings = reports(judgement.findings);
        let accepted = reports(judgement.accepted);
        let totals = totals(window);
        let rules: Vec<_> = RULES.iter().map(|rule| rule.about().id).collect();
        let tables = tables(window, schema, &patterns);
        let summary = summary::summarize(&summary::Facts {
            coverage: &window.coverage,
            totals: &totals,
            tables: tables.len(),
            patterns: &patterns,
            findings: &findings,
            accepted: accepted.len(),
            rules: rules.len(),
        });
        let mut coverage = window.coverage.clone();
        // Before anything else that is said.
        coverage.notices.extend(summary::overflow(&coverage, &patterns));
        Self {
            format: FORMAT,
            notices: coverage.notices.clone(),
            tool: Tool {
                name: "cqlens",
                version: env!("CARGO_PKG_VERSION"),
            },
            generated_at,
            window: Span {
                start: window.start,
                end: window.end,
                seconds: window.observed_seconds,
                sources: window.sources.clone(),
            },
            cluster: cluster.clone(),
            summary,
            coverage,
            totals,
            tables,
            patterns,
            system_patterns,
            load: LoadReport::of(window),
            sequences: Vec::new(),
            findings,
            accepted,
            idle_acceptances: judgement.idle,
            acceptance_mistakes: judgement.mistakes,
            baseline: None,
            rules,
            blind_spots: judgement.blind_spots,
            clients: window.clients.clone(),
        }
    }

    /// Seconds of observation of one source, for rates.
    pub fn seconds(&self) -> f64 {
        self.window.seconds / self.window.sources.len().max(1) as f64
    }
}

fn user_patterns(window: &Window) -> impl Iterator<Item = &Pattern> {
    window.patterns.values().filter(|pattern| !pattern.head.system)
}

fn totals(window: &Window) -> Totals {
    let mut totals = Totals {
        clients: window.clients.len() as u64,
        ..Totals::default()
    };
    let (mut partitions, mut read_latency, mut write_latency) = Default::default();
    for pattern in user_patterns(window) {
        totals.errors += pattern.errors;
        totals.warnings += pattern.warnings;
        match pattern.head.kind {
            StatementKind::Select => totals.reads += pattern.count,
            StatementKind::Insert | StatementKind::Update | StatementKind::Delete => {
                totals.writes += pattern.count
            }
            StatementKind::Batch => totals.batches += pattern.count,
            StatementKind::Ddl | StatementKind::Other => {}
        }
        if pattern.head.kind.is_read() {
            Distribution::merge(&mut partitions, &pattern.partitions);
            Distribution::merge(&mut read_latency, &pattern.latency_us);
            for (&class, &count) in &pattern.classes {
                *totals.reads_by_class.entry(class).or_default() += count;
            }
        } else if pattern.head.kind.is_write() {
            Distribution::merge(&mut write_latency, &pattern.latency_us);
        }
    }
    totals.partitions_per_read = quantiles(&partitions);
    totals.read_latency_us = latency(&read_latency);
    totals.write_latency_us = latency(&write_latency);
    totals
}

/// The application's patterns and the others, each by cost.
fn patterns(window: &Window) -> (Vec<PatternReport>, Vec<PatternReport>) {
    let whole: f64 = user_patterns(window).map(rules::cost).sum();
    let reports = window
        .patterns
        .iter()
        .filter(|(_, pattern)| pattern.count > 0)
        .map(|(&id, pattern)| (rules::cost(pattern), id, pattern));
    let (system, user): (Vec<_>, Vec<_>) = reports.partition(|(.., pattern)| pattern.head.system);
    let sorted = |mut patterns: Vec<(f64, PatternId, &Pattern)>| -> Vec<_> {
        patterns.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let reports = (0..).zip(patterns);
        reports
            .map(|(at, (_, id, pattern))| {
                let mut report = pattern_report(id, pattern, whole);
                if at >= MOST_DRAWN {
                    report.forget_steps();
                }
                report
            })
            .collect()
    };
    (sorted(user), sorted(system))
}

fn pattern_report(id: PatternId, pattern: &Pattern, whole_cost: f64) -> PatternReport {
    let cost = rules::cost(pattern);
    let part = cost / whole_cost;
    PatternReport {
        id,
        kind: pattern.head.kind,
        keyspace: pattern.head.keyspace.clone(),
        table: pattern.head.table.clone(),
        cql: pattern.head.cql.clone(),
        count: pattern.count,
        missed: pattern.missed.executions,
        errors: pattern.errors,
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
        prepared: pattern.prepared,
        unprepared: pattern.unprepared,
        flags: pattern.flags.clone(),
        clients: pattern.clients.clone(),
        cost,
        cost_share: if part.is_finite() && !pattern.head.system {
            part
        } else {
            0.0
        },
    }
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

/// The application's tables, the busiest first.
fn tables(window: &Window, schema: &Schema, patterns: &[PatternReport]) -> Vec<TableReport> {
    let mut by_table: BTreeMap<TableName, Vec<PatternId>> = BTreeMap::new();
    for pattern in patterns {
        if let Some(name) = table_name(pattern) {
            by_table.entry(name).or_default().push(pattern.id);
        }
    }
    let of_users = window
        .tables
        .iter()
        .filter(|(name, _)| !is_system(&name.keyspace));
    let mut tables: Vec<_> = of_users
        .map(|(name, traffic)| {
            let patterns = by_table.remove(name).unwrap_or_default();
            table_report(name, traffic, patterns, schema.table(&name.keyspace, &name.table))
        })
        .collect();
    tables.sort_by_key(|table| {
        let name = (table.keyspace.clone(), table.table.clone());
        (std::cmp::Reverse(table.reads + table.writes), name)
    });
    tables
}

fn table_name(pattern: &PatternReport) -> Option<TableName> {
    Some(TableName {
        keyspace: pattern.keyspace.clone()?,
        table: pattern.table.clone()?,
    })
}

fn table_report(
    name: &TableName,
    traffic: &TableTraffic,
    patterns: Vec<PatternId>,
    definition: Option<&Table>,
) -> TableReport {
    let all = traffic.top_partitions.total();
    let top_partitions = traffic.top_partitions.top(TOP_PARTITIONS).into_iter();
    TableReport {
        keyspace: name.keyspace.clone(),
        table: name.table.clone(),
        reads: traffic.reads,
        writes: traffic.writes,
        read_write_ratio: (traffic.writes > 0).then(|| traffic.reads as f64 / traffic.writes as f64),
        partitions_per_read: quantiles(&traffic.partitions_per_read),
        tombstones_per_read: observed_tombstones(&traffic.tombstones),
        node_reads: traffic.node_reads,
        top_partitions: top_partitions
            .map(|(key, entry)| TopPartition {
                key: format!("#{key:016x}"),
                share: entry.at_least() as f64 / all.max(1) as f64,
                reads: entry.reads,
                writes: entry.writes,
                error: (entry.error > 0).then_some(entry.error),
            })
            .collect(),
        distinct_partitions: traffic.distinct_partitions.estimate(),
        patterns,
        columns: definition.map(columns).unwrap_or_default(),
        view_of: definition.and_then(Table::base).map(str::to_owned),
        comment: definition.map_or_else(String::new, |table| Comment::of(table).text),
    }
}

fn columns(table: &Table) -> Vec<ColumnReport> {
    let targets = || table.indexes.values().flat_map(|index| &index.targets);
    let columns = table.columns.iter();
    columns
        .map(|column| ColumnReport {
            name: column.name.clone(),
            data_type: column.data_type.to_string(),
            kind: match column.kind {
                ColumnKind::PartitionKey => ColumnRole::PartitionKey,
                ColumnKind::Clustering(Order::Ascending) => ColumnRole::ClusteringAscending,
                ColumnKind::Clustering(Order::Descending) => ColumnRole::ClusteringDescending,
                ColumnKind::Static => ColumnRole::Static,
                ColumnKind::Regular => ColumnRole::Regular,
            },
            indexed: targets().any(|target| target.column == column.name),
        })
        .collect()
}

fn finding_report(finding: Finding, window: &Window) -> FindingReport {
    let about = rules::find(finding.rule).map(|rule| rule.about());
    let worst = finding.patterns.first().and_then(|id| window.patterns.get(id));
    FindingReport {
        rule: finding.rule,
        severity: finding.severity,
        keyspace: finding.keyspace,
        table: finding.table,
        patterns: finding.patterns,
        title: finding.title,
        evidence: finding.evidence,
        why: about.map_or("", |about| about.why),
        advice: finding.advice,
        suggested_cql: finding.suggested_cql,
        reference: finding.reference,
        acceptance: finding.acceptance,
        since_review: None,
        chart: worst.and_then(chart),
    }
}

/// The distribution that tells most of a pattern: the first one that has something to show.
fn chart(pattern: &Pattern) -> Option<Chart> {
    let tombstones = ("tombstones of one read", Unit::Count, &pattern.tombstones.scanned);
    let partitions = ("partitions of one read", Unit::Count, &pattern.partitions);
    let latency = ("latency", Unit::Micros, &pattern.latency_us);
    // One value is no distribution: the evidence says it in a number.
    let tells = |distribution: &Distribution| distribution.steps().len() > 1;
    let (label, unit, distribution) = [tombstones, partitions, latency]
        .into_iter()
        .find(|(.., distribution)| tells(distribution))?;
    Some(Chart {
        label,
        unit,
        steps: distribution.steps(),
    })
}

fn quantiles(distribution: &Distribution) -> Quantiles {
    Quantiles {
        p50: distribution.quantile(0.5),
        p99: distribution.quantile(0.99),
        max: distribution.max(),
        mean: distribution.mean(),
        total: distribution.total(),
        steps: distribution.steps(),
    }
}

fn latency(distribution: &Distribution) -> Latency {
    Latency {
        count: distribution.count(),
        p50: distribution.quantile(0.5),
        p90: distribution.quantile(0.9),
        p99: distribution.quantile(0.99),
        p999: distribution.quantile(0.999),
        max: distribution.max(),
        mean: distribution.mean(),
        steps: distribution.steps(),
    }
}

fn observed_tombstones(tombstones: &Tombstones) -> ObservedTombstones {
    ObservedTombstones {
        p50: tombstones.scanned.quantile(0.5),
        p99: tombstones.scanned.quantile(0.99),
        max: tombstones.scanned.max(),
        observed: tombstones.observed(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        report::{Format, testing},
        rules::testing as windows,
    };
    use cqlens_cql::footprint::PartitionClass;

    fn report(window: &Window) -> Report {
        testing::report(window)
    }

    #[test]
    fn statements_of_drivers_are_kept_apart() {
        let mut own = windows::read("SELECT * FROM system.local", &[], PartitionClass::Single, 9);
        own.head.system = true;
        let user = windows::read(
            "SELECT * FROM shop.items WHERE id = ?",
            &[],
            PartitionClass::Single,
            5,
        );
        let report = report(&windows::window([own, user]));
        assert_eq!((report.patterns.len(), report.system_patterns.len()), (1, 1));
        assert_eq!(report.totals.reads, 5);
        assert_eq!(report.totals.reads_by_class[&PartitionClass::Single], 5);
        assert_eq!(report.patterns[0].cost_share.to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn patterns_come_by_cost_and_tables_by_traffic() {
        let report = report(&testing::busy_window());
        assert!(report.patterns.is_sorted_by(|a, b| a.cost >= b.cost));
        assert!(
            report
                .tables
                .is_sorted_by(|a, b| a.reads + a.writes >= b.reads + b.writes)
        );
        assert!(report.tables.iter().all(|table| table.keyspace != "system"));
        let whole: f64 = report.patterns.iter().map(|pattern| pattern.cost_share).sum();
        assert!((whole - 1.0).abs() < 1e-9, "{whole}");
    }

    #[test]
    fn an_empty_window_makes_a_report_without_nonsense_numbers() {
        let report = report(&windows::window([]));
        let mut json = Vec::new();
        report.render(Format::Json, &mut json).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(value["totals"]["reads"], 0);
        assert_eq!(value["totals"]["partitions_per_read"]["mean"], 0.0);
    }

    #[test]
    fn the_chart_of_a_finding_shows_what_it_is_about() {
        let mut pattern = windows::read("SELECT * FROM a.b WHERE c IN ?", &[], PartitionClass::Multi, 4);
        pattern = windows::with_partitions(pattern, 7);
        assert_eq!(chart(&pattern), None);
        pattern.latency_us.record(9_000);
        assert_eq!(chart(&pattern).unwrap().unit, Unit::Micros);
        pattern.partitions.record(3);
        assert_eq!(chart(&pattern).unwrap().steps, [(3, 1), (7, 4)]);
        pattern.tombstones.scanned.record(2_000);
        pattern.tombstones.scanned.record(2_001);
        assert_eq!(chart(&pattern).unwrap().label, "tombstones of one read");
    }
}
