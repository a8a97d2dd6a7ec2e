//! From a window and its judgement to a report.
//!
//! Drivers' and tools' own statements are kept apart from the application's. No number is made up: what was
//! not observed is empty or absent, and nothing divides by zero.

mod chart;
mod numbers;
mod pattern;
mod table;

use std::{cmp::Reverse, collections::BTreeMap};

use jiff::Timestamp;

use super::{
    FORMAT, FindingReport, LoadReport, PatternReport, ProblemReport, Report, SequenceReport, Span, Tool,
    Totals, application, summary, words,
};
use chart::Thresholds;
use cqlens_cql::{plan::StatementKind, schema::Schema};
use cqlens_rules::{Context, Cost, Finding, Judgement, Problem, Severity, find};
use cqlens_window::{Cluster, Distribution, Interval, Pattern, PatternId, Window, number};
pub(super) use numbers::{latency, quantiles};
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
        let context = Context::new(window, schema, cluster);
        let (patterns, system_patterns) = patterns(&context);
        let reports = |findings: Vec<Finding>| -> Vec<_> {
            findings
                .into_iter()
                .map(|finding| finding_report(finding, window, &judgement.thresholds))
                .collect()
        };
        let sequences = judgement.sequences.iter().map(SequenceReport::of).collect();
        let findings = judgement.findings;
        let problems = problems(&findings, &context);
        let findings = reports(findings);
        let accepted = reports(judgement.accepted);
        let totals = totals(window);
        let rules = judgement.rules;
        let tables = tables(window, schema, &patterns);
        let summary = summary::summarize(&summary::Facts {
            coverage: &window.coverage,
            totals: &totals,
            tables: &tables,
            patterns: &patterns,
            problems: &problems,
            findings: &findings,
            accepted: accepted.len(),
            rules: rules.len(),
        });
        let mut coverage = window.coverage.clone();
        // Before anything else that is said.
        coverage.notices.extend(summary::overflow(&coverage, &patterns));
        coverage.notices.extend(unwatched(window));
        coverage.notices.extend(judgement.unwritten.sentence());
        coverage.notices.extend(switched_off(&judgement.off));
        Self {
            format: FORMAT,
            notices: coverage.notices.clone(),
            tool: Tool::this(),
            generated_at,
            window: span(window),
            cluster: cluster.clone(),
            summary,
            chapters: Vec::new(),
            comparison: None,
            coverage,
            totals,
            timeline: None,
            by_table: None,
            tables,
            patterns,
            system_patterns,
            load: LoadReport::of(window),
            sequences,
            problems,
            findings,
            accepted,
            idle_acceptances: judgement.idle,
            acceptance_mistakes: judgement.mistakes,
            baseline: None,
            rules,
            blind_spots: judgement.blind_spots,
            applications: application::applications(window),
            clients: window.clients.clone(),
        }
    }

    /// Seconds in which any source watched, for rates.
    pub fn seconds(&self) -> f64 {
        self.window.seconds
    }
}

fn span(window: &Window) -> Span {
    Span {
        start: window.start,
        end: window.end,
        seconds: window.seconds(),
        observed: window
            .observed
            .sources()
            .map(|(source, intervals)| {
                let first = intervals.len().saturating_sub(MOST_INTERVALS);
                (source.to_owned(), intervals[first..].to_vec())
            })
            .collect(),
        gaps: gaps(window),
        sources: window.sources.clone(),
    }
}

/// The longest gaps of a minute or more, in order.
fn gaps(window: &Window) -> Vec<Interval> {
    let mut gaps = window.observed.gaps();
    gaps.retain(|gap| gap.seconds() >= SHORTEST_GAP);
    gaps.sort_by(|left, right| right.seconds().total_cmp(&left.seconds()));
    gaps.truncate(MOST_GAPS);
    gaps.sort();
    gaps
}

/// Seconds; windows that were late, restarts and deployments leave shorter ones.
const SHORTEST_GAP: f64 = 60.0;

const MOST_GAPS: usize = 5;

/// Of one source.
const MOST_INTERVALS: usize = 100;

/// Names the rules that are switched off: their findings are not missed by anybody.
fn switched_off(rules: &[&str]) -> Option<String> {
    let off = number::plural(rules.len() as u64, "rule is", "rules are");
    let notice = || {
        format!(
            "{off} off in the settings, and found nothing here: {}.",
            rules.join(", ")
        )
    };
    (!rules.is_empty()).then(notice)
}

/// Says when no source watched; nothing where one always did.
fn unwatched(window: &Window) -> Option<String> {
    let gaps = gaps(window);
    let all: f64 = window.observed.gaps().into_iter().map(Interval::seconds).sum();
    let minute = |at: Timestamp| at.strftime("%Y-%m-%d %H:%M").to_string();
    let shown: Vec<_> = gaps
        .iter()
        .map(|gap| format!("{} to {}", minute(gap.start), minute(gap.end)))
        .collect();
    (!shown.is_empty()).then(|| {
        format!(
            "Nothing was observed for {} of the time; the longest gaps (UTC): {}. Rates refer to the \
                observed time.",
            number::seconds(all),
            shown.join(", ")
        )
    })
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
            StatementKind::Transaction => totals.transactions += pattern.count,
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

/// The application's patterns and the others, each by the share of the measured time, then by work.
fn patterns(context: &Context<'_>) -> (Vec<PatternReport>, Vec<PatternReport>) {
    let patterns = context.window.patterns.iter();
    let seen = patterns.filter(|(_, pattern)| pattern.count > 0);
    let (system, user): (Vec<_>, Vec<_>) = seen.partition(|(_, pattern)| pattern.head.system);
    let sorted = |mut patterns: Vec<(&PatternId, &Pattern)>| -> Vec<_> {
        patterns.sort_by_cached_key(|&(id, pattern)| (Reverse(Cost::of(pattern).rank(context)), *id));
        let reports = (0..).zip(patterns);
        reports
            .map(|(at, (&id, pattern))| {
                let mut report = pattern_report(id, pattern, context);
                if at >= MOST_DRAWN {
                    report.forget_steps();
                }
                report
            })
            .collect()
    };
    (sorted(user), sorted(system))
}

fn problems(findings: &[Finding], context: &Context<'_>) -> Vec<ProblemReport> {
    let report = |problem: Problem| {
        let mut of_problem = problem.findings.iter().filter_map(|&at| findings.get(at));
        let first = of_problem.clone().next()?;
        let mut rules = Vec::new();
        for finding in of_problem.clone() {
            if !rules.contains(&finding.rule) {
                rules.push(finding.rule);
            }
        }
        let patterns_of = |finding: &Finding| -> Vec<_> {
            let patterns = finding.patterns.iter();
            patterns
                .filter_map(|id| context.window.patterns.get(id))
                .collect()
        };
        let sent = patterns_of(first);
        let all: BTreeMap<_, _> = of_problem
            .clone()
            .flat_map(|finding| &finding.patterns)
            .filter_map(|id| Some((id, context.window.patterns.get(id)?)))
            .collect();
        let table = first.keyspace.as_deref().zip(first.table.as_deref());
        let table = table.map(|(keyspace, table)| format!("{keyspace}.{table}"));
        Some(ProblemReport {
            id: problem.id,
            severity: problem.severity,
            keyspace: first.keyspace.clone(),
            table: first.table.clone(),
            title: first.title.clone(),
            what: words::what(&first.title, table.as_deref()),
            fix: fix(problem.severity, first),
            executions: sent.iter().map(|pattern| pattern.count).sum(),
            observed_seconds: context.watched_seconds(sent.iter().copied()),
            applications: application::senders(all.into_values()),
            rules,
            findings: of_problem.by_ref().map(Finding::id).collect(),
            time_share: problem.cost.time_share(context),
            work_share: problem.cost.work_share(context),
        })
    };
    let problems = cqlens_rules::problems(findings, context);
    problems.into_iter().filter_map(report).collect()
}

/// What to do in a few words; nothing about what is only worth knowing.
fn fix(severity: Severity, finding: &Finding) -> &'static str {
    match severity {
        Severity::Info => "",
        _ => finding.fix_in_short,
    }
}

fn finding_report(finding: Finding, window: &Window, thresholds: &Thresholds) -> FindingReport {
    let about = find(finding.rule).map(|rule| rule.about());
    let worst = finding.patterns.first().and_then(|id| window.patterns.get(id));
    let chart = worst.and_then(|pattern| chart::chart(&finding, pattern, thresholds));
    FindingReport {
        id: finding.id(),
        rule: finding.rule,
        severity: finding.severity,
        keyspace: finding.keyspace,
        table: finding.table,
        patterns: finding.patterns,
        title: finding.title,
        time_share: finding.time_share,
        work_share: finding.work_share,
        evidence: finding.evidence,
        why: about.map_or("", |about| about.why),
        advice: finding.advice,
        suggested_cql: finding.suggested_cql,
        example: finding.example,
        growth: finding.growth,
        reference: finding.reference,
        acceptance: finding.acceptance,
        since_review: None,
        chart,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Format, testing};
    use cqlens_cql::footprint::PartitionClass;
    use cqlens_rules::testing as windows;

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
        assert_eq!(report.patterns[0].work_share.to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn patterns_come_by_cost_and_tables_by_traffic() {
        let report = report(&testing::busy_window());
        let step = |pattern: &PatternReport| pattern.time_share.map(cqlens_rules::share_step);
        let rank = |pattern: &PatternReport| (step(pattern), pattern.work);
        assert!(report.patterns.is_sorted_by(|a, b| rank(a) >= rank(b)));
        assert!(
            report
                .tables
                .is_sorted_by(|a, b| a.reads + a.writes >= b.reads + b.writes)
        );
        assert!(report.tables.iter().all(|table| table.keyspace != "system"));
        let whole: f64 = report.patterns.iter().map(|pattern| pattern.work_share).sum();
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
}
