//! From a window and its judgement to a report.
//!
//! Drivers' and tools' own statements are kept apart from the application's. No number is made up: what was
//! not observed is empty or absent, and nothing divides by zero.

mod numbers;
mod pattern;
mod table;

use jiff::Timestamp;

use super::{
    Chart, FORMAT, FindingReport, LoadReport, PatternReport, Report, Span, Tool, Totals, Unit, summary,
};
use crate::{
    rules::{self, Finding, Judgement, RULES},
    window::{Cluster, Distribution, Pattern, PatternId, Window},
};
use cqlens_cql::{plan::StatementKind, schema::Schema};
use numbers::{latency, quantiles};
use pattern::pattern_report;
use table::tables;

/// How many patterns keep what their distributions are drawn from, which takes more memory than all else of
/// them.
pub(super) const MOST_DRAWN: usize = 200;

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
            window: span(window),
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

fn span(window: &Window) -> Span {
    Span {
        start: window.start,
        end: window.end,
        seconds: window.observed_seconds,
        sources: window.sources.clone(),
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
