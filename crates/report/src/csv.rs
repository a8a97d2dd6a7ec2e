//! The statements as a table for spreadsheets, one a line.

use std::{
    collections::{BTreeSet, HashMap},
    io::{self, Write},
};

use serde::Serialize;

use super::{FindingReport, PatternReport, Report};
use crate::text;
use cqlens_cql::{footprint::PartitionClass, plan::StatementKind};
use cqlens_rules::{Severity, work};
use cqlens_window::PatternId;

/// A line; the names of its fields are the headings.
#[derive(Serialize)]
struct CsvLine<'r> {
    id: String,
    keyspace: String,
    table: String,
    kind: StatementKind,
    executions: u64,
    observed_seconds: f64,
    time_share: Option<f64>,
    work_share: f64,
    errors: u64,
    latency_mean_us: f64,
    latency_p50_us: u64,
    latency_p99_us: u64,
    partition_class: PartitionClass,
    partitions_p50: u64,
    partitions_p99: u64,
    partitions_max: u64,
    /// Empty where no response said how many.
    rows_p50: Option<u64>,
    rows_p99: Option<u64>,
    response_bytes_p99: u64,
    tombstones_p99: u64,
    prepared: u64,
    severity: Option<Severity>,
    rules: String,
    clients: String,
    cql: &'r str,
}

/// Writes one line for each statement, with `delimiter` between its fields (RFC 4180).
pub(super) fn render(report: &Report, delimiter: u8, to: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().delimiter(delimiter).from_writer(to);
    let patterns: Vec<_> = match &report.by_table {
        Some(groups) => {
            let all = report.on_tables();
            groups
                .iter()
                .flat_map(|group| all.patterns(group).to_vec())
                .collect()
        }
        None => report.patterns.iter().collect(),
    };
    let findings = by_pattern(report);
    for pattern in patterns {
        let findings = findings.get(&pattern.id).map(Vec::as_slice);
        csv.serialize(line(findings.unwrap_or_default(), pattern, &inert(&pattern.cql)))?;
    }
    csv.flush()
}

/// The findings of each pattern, in the order of the report.
fn by_pattern(report: &Report) -> HashMap<PatternId, Vec<&FindingReport>> {
    let mut by_pattern: HashMap<_, Vec<_>> = HashMap::new();
    for finding in report.findings.iter().chain(&report.accepted) {
        let patterns: BTreeSet<_> = finding.patterns.iter().collect();
        work::look(patterns.len());
        for id in patterns {
            by_pattern.entry(*id).or_default().push(finding);
        }
    }
    by_pattern
}

fn line<'r>(findings: &[&FindingReport], pattern: &PatternReport, cql: &'r str) -> CsvLine<'r> {
    work::look(findings.len());
    let rules: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
    let clients: Vec<_> = pattern.clients.keys().map(String::as_str).collect();
    let (latency, partitions) = (&pattern.latency_us, &pattern.partitions.numbers);
    let rows = Some(&pattern.rows).filter(|rows| !rows.steps.is_empty());
    CsvLine {
        id: pattern.id.to_string(),
        keyspace: inert(pattern.keyspace.as_deref().unwrap_or_default()),
        table: inert(pattern.table.as_deref().unwrap_or_default()),
        kind: pattern.kind,
        executions: pattern.count,
        observed_seconds: pattern.observed_seconds,
        time_share: pattern.time_share,
        work_share: pattern.work_share,
        errors: pattern.errors,
        latency_mean_us: latency.mean,
        latency_p50_us: latency.p50,
        latency_p99_us: latency.p99,
        partition_class: pattern.partitions.class,
        partitions_p50: partitions.p50,
        partitions_p99: partitions.p99,
        partitions_max: partitions.max,
        rows_p50: rows.map(|rows| rows.p50),
        rows_p99: rows.map(|rows| rows.p99),
        response_bytes_p99: pattern.response_bytes.p99,
        tombstones_p99: pattern.tombstones.p99,
        prepared: pattern.prepared,
        severity: findings.iter().map(|finding| finding.severity).max(),
        rules: rules.join(" "),
        clients: inert(&clients.join(" ")),
        cql,
    }
}

/// Text that a client chose, in one line, and no formula: spreadsheets compute what begins like one. In many
/// languages they begin a cell after each semicolon, too, quoted or not.
fn inert(field: &str) -> String {
    let mut inert = String::with_capacity(field.len() + 1);
    let mut begins = true;
    for letter in text::escaped(field).chars() {
        if begins && matches!(letter, '=' | '+' | '-' | '@' | '\t') {
            inert.push('\'');
        }
        begins = letter == ';' || begins && matches!(letter, ' ' | '"');
        inert.push(letter);
    }
    inert
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Format, Quantiles, testing};

    fn rendered(report: &Report, format: Format) -> String {
        let mut csv = Vec::new();
        report.render(format, &mut csv).unwrap();
        String::from_utf8(csv).unwrap()
    }

    #[test]
    fn each_statement_is_a_line_that_a_reader_reads_back() {
        let report = testing::busy_report();
        for (format, delimiter) in [(Format::Csv, b','), (Format::Tsv, b'\t')] {
            let text = rendered(&report, format);
            let mut read = csv::ReaderBuilder::new()
                .delimiter(delimiter)
                .from_reader(text.as_bytes());
            let headings = read.headers().unwrap().clone();
            let lines: Vec<_> = read.records().map(Result::unwrap).collect();
            assert_eq!(lines.len(), report.patterns.len());
            let field = |line: &csv::StringRecord, name| {
                let at = headings.iter().position(|heading| heading == name).unwrap();
                line[at].to_owned()
            };
            for (line, pattern) in lines.iter().zip(&report.patterns) {
                assert_eq!(field(line, "id"), pattern.id.to_string());
                assert_eq!(field(line, "executions"), pattern.count.to_string());
                assert_eq!(field(line, "partition_class"), pattern.partitions.class.name());
                assert_eq!(field(line, "cql"), pattern.cql);
            }
            let worst = &report.findings[0];
            let id = worst.patterns[0].to_string();
            let line = lines.iter().find(|line| field(line, "id") == id).unwrap();
            assert!(field(line, "rules").contains(worst.rule));
            assert_eq!(field(line, "severity"), worst.severity.to_string());
        }
    }

    /// As in Markdown.
    #[test]
    fn of_responses_that_do_not_say_how_many_rows_there_are_there_is_no_number() {
        let mut report = testing::busy_report();
        report.patterns.retain(|pattern| !pattern.rows.steps.is_empty());
        report.patterns.truncate(1);
        let shown = |report: &Report| {
            let csv = rendered(report, Format::Csv);
            let mut read = csv::Reader::from_reader(csv.as_bytes());
            let mut headings = read.headers().unwrap().iter();
            let at = headings.position(|heading| heading == "rows_p99").unwrap();
            let line = read.records().next().unwrap().unwrap();
            let markdown = rendered(report, Format::Md);
            let lines = markdown.lines();
            let mut ranking = lines.skip_while(|line| !line.starts_with("| # | Time | Executions |"));
            let statement = ranking.nth(2).unwrap();
            (line[at].to_owned(), statement.contains(" row"))
        };
        let p99 = report.patterns[0].rows.p99;
        assert_eq!(shown(&report), (p99.to_string(), true));
        report.patterns[0].rows = Quantiles::default();
        assert_eq!(shown(&report), (String::new(), false));
    }

    #[test]
    fn what_a_client_sends_is_no_formula_and_no_line_of_its_own() {
        let mut report = testing::busy_report();
        report.patterns.truncate(1);
        report.patterns[0].cql = "=HYPERLINK(\"x\")\r\nSELECT \u{1b}".to_owned();
        let text = rendered(&report, Format::Csv);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("'=HYPERLINK") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn nothing_begins_a_formula_after_a_semicolon_either() {
        for (field, shown) in [
            ("a;=b", "a;'=b"),
            ("a; \"@b\";-c", "a; \"'@b\";'-c"),
            ("+a", "'+a"),
            (
                "SELECT a - b FROM t WHERE c = 1",
                "SELECT a - b FROM t WHERE c = 1",
            ),
        ] {
            assert_eq!(inert(field), shown);
        }
    }
}
