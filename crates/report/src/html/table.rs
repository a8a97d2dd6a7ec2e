//! A table in detail: its columns, who reads and writes it, how its partitions are used, its statements.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{ReportPage, problem::Fact};
use crate::{Latency, PatternReport, TableReport, TopPartition};
use cqlens_rules::{Severity, application_name};
use cqlens_window::number;

/// Tables that are open when the page is.
const MOST_OPEN: usize = 1;
/// Partitions of a table that are shown.
const MOST_PARTITIONS: usize = 5;
/// A smaller share says nothing: any partition may be the busiest by chance.
const WORTH_SHOWING: f64 = 0.02;

impl<'a> ReportPage<'a> {
    /// The busiest partitions of a table with problems, where some are busier than the others.
    pub(super) fn busiest(&self, table: &'a TableReport) -> Vec<&'a TopPartition> {
        let has_problems = !self.index.problems_on(table).is_empty();
        let busiest = table.top_partitions.iter().take(MOST_PARTITIONS);
        let busiest = busiest.filter(|top| has_problems && top.share >= WORTH_SHOWING);
        busiest.collect()
    }

    /// Tables with problems, the worst first.
    pub(super) fn tables_with_problems(&self) -> Vec<&'a TableReport> {
        let mut tables: Vec<_> = self
            .tables()
            .filter(|table| !self.index.problems_on(table).is_empty())
            .collect();
        tables.sort_by_key(|table| self.index.problems_on(table).first().map(|ranked| ranked.rank));
        tables
    }

    pub(super) fn other_tables(&self) -> Vec<&'a TableReport> {
        self.tables()
            .filter(|table| self.index.problems_on(table).is_empty())
            .collect()
    }

    fn tables(&self) -> impl Iterator<Item = &'a TableReport> {
        self.report.tables.iter().take(super::index::MOST_TABLES)
    }

    pub(super) fn is_table_open(&self, table: &TableReport, at: usize) -> bool {
        let mut problems = self.index.problems_on(table).iter();
        at < MOST_OPEN && problems.any(|ranked| ranked.problem.severity == Severity::High)
    }

    /// `13 reads/s, 83 writes/min`.
    pub(super) fn traffic(&self, table: &TableReport) -> String {
        let said = |count: u64, what: &str| (count > 0).then(|| format!("{} {what}", number::count(count)));
        let parts = [said(table.reads, "reads"), said(table.writes, "writes")];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        match parts.is_empty() {
            true => "not read or written".to_owned(),
            false => parts.join(", "),
        }
    }

    /// Reads and writes as rates; none where they are too few for that, and their counts say it all.
    pub(super) fn table_rates(&self, table: &TableReport) -> Option<Fact> {
        let seconds = self.report.seconds();
        let has_rate = |count| number::per_second(count, seconds).is_some();
        let rate = |count| match count {
            0 => "0".to_owned(),
            count => crate::words::rate(count, seconds),
        };
        (has_rate(table.reads) || has_rate(table.writes)).then(|| Fact {
            value: format!("{} · {}", rate(table.reads), rate(table.writes)),
            name: "reads · writes".to_owned(),
        })
    }

    pub(super) fn table_facts(&self, table: &TableReport) -> Vec<Fact> {
        let fact = |value: String, name: &str| Fact {
            value,
            name: name.to_owned(),
        };
        let mut facts = Vec::new();
        let partitions = &table.partitions_per_read;
        if !partitions.steps.is_empty() {
            facts.push(match partitions.p50 == partitions.max {
                true => fact(number::count(partitions.max), "partitions per read, always"),
                false => fact(super::p50_p99(partitions), "partitions per read, p50 · p99"),
            });
        }
        if table.tombstones_per_read.observed > 0 {
            facts.push(fact(
                number::count(table.tombstones_per_read.p99),
                "tombstones per read, p99, as reported by the server",
            ));
        }
        if table.distinct_partitions > 0 {
            facts.push(fact(
                number::count(table.distinct_partitions),
                "distinct partitions seen",
            ));
        }
        if let Some(top) = table.top_partitions.first() {
            facts.push(fact(
                number::percent(top.share),
                "of reads and writes go to the busiest partition",
            ));
        }
        facts
    }

    /// What is worth knowing of a statement that nothing is wrong with, in one line.
    pub(super) fn in_brief(&self, pattern: &PatternReport) -> String {
        let rows = &pattern.rows;
        let rows = (!rows.steps.is_empty()).then(|| format!("{} rows", number::count(rows.p99)));
        let times = self.report.has_times().then(|| latency(&pattern.latency_us));
        let said = |count: u64, what: &str| (count > 0).then(|| format!("{} {what}", number::count(count)));
        let unprepared = (pattern.unprepared > 0)
            .then(|| number::share(pattern.prepared, pattern.prepared + pattern.unprepared) + " prepared");
        let levels: Vec<_> = pattern.consistency.keys().map(String::as_str).collect();
        let parts = [
            Some(self.rate(pattern)),
            said(pattern.missed, "more among other statements"),
            Some(format!("partitions {}", pattern.partitions.shown())),
            rows,
            times.filter(|times| !times.is_empty()),
            said(pattern.errors, "errors"),
            unprepared,
            Some(levels.join(", ")).filter(|levels| !levels.is_empty()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }

    /// The applications that read a table, or write it, with their shares.
    pub(super) fn users(&self, table: &TableReport, reads: bool) -> Vec<(String, String)> {
        let patterns = table.patterns.iter().filter_map(|&id| self.index.pattern(id));
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for pattern in patterns.filter(|pattern| pattern.kind.is_read() == reads) {
            for (client, count) in &pattern.clients {
                *counts.entry(application_name(client)).or_default() += count;
            }
        }
        let whole: u64 = counts.values().sum();
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|&(name, count)| (Reverse(count), name));
        let shown = counts.into_iter().take(6);
        shown
            .map(|(name, count)| (name.to_owned(), number::share(count, whole)))
            .collect()
    }
}

/// Two latencies for a line; nothing where they say nothing of the cluster.
pub(super) fn latency(latency: &Latency) -> String {
    match latency.count {
        0 => String::new(),
        _ => format!(
            "{} · {}",
            number::micros(latency.p50),
            number::micros(latency.p99)
        ),
    }
}

/// What a statement is, for a link to it.
pub(super) fn kind(pattern: &PatternReport) -> &'static str {
    match letter(pattern) {
        "B" => "Batch",
        "T" => "Transaction",
        "R" => "Read",
        "W" => "Write",
        _ => "Statement",
    }
}

/// The colour of a statement: reads have one, writes the other.
pub(super) fn colour(pattern: &PatternReport) -> &'static str {
    match pattern.kind.is_read() {
        true => "r",
        false => "w",
    }
}

/// The letter before a statement: read, write, batch, transaction, other.
pub(super) fn letter(pattern: &PatternReport) -> &'static str {
    use cqlens_cql::plan::StatementKind;
    match pattern.kind {
        StatementKind::Batch => "B",
        StatementKind::Transaction => "T",
        kind if kind.is_read() => "R",
        kind if kind.is_write() => "W",
        _ => "–",
    }
}
