//! Summaries of small reports, word by word.

#![allow(clippy::unwrap_used)]
use super::cql_of_all;
use crate::{Format, testing::report};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::{Flag, StatementKind},
};
use cqlens_rules::testing::{pattern, read, window};

fn lookup(times: u64) -> cqlens_window::Pattern {
    let cql = "SELECT * FROM shop.items WHERE id = ?";
    read(cql, &[Flag::FullPartitionKey], PartitionClass::Single, times)
}

#[test]
fn what_to_write_instead_stands_with_a_finding_that_needs_no_table() {
    let mut at_all = lookup(90_000);
    at_all.consistency = [("ALL".to_owned(), 90_000)].into();
    let report = report(&window([at_all]));
    let rendered = |format| {
        let mut text = Vec::new();
        report.render(format, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let markdown = rendered(Format::Md);
    assert!(
        markdown.contains("\nInstead of\n\n```sql\n-- at consistency level ALL\n"),
        "{markdown}"
    );
    assert!(
        markdown.contains("\nWrite\n\n```sql\n-- at consistency level LOCAL_QUORUM\n"),
        "{markdown}"
    );
    let html = rendered(Format::Html);
    assert!(
        html.contains("<pre>-- at consistency level LOCAL_QUORUM\n"),
        "{html}"
    );
    let json: serde_json::Value = serde_json::from_str(&rendered(Format::Json)).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let finding = findings
        .iter()
        .find(|finding| finding["rule"] == "consistency-all")
        .unwrap();
    assert_eq!(finding["example"]["own_statement"], true);
    assert_eq!(finding["suggested_cql"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_table_that_two_findings_of_a_problem_need_is_printed_once() {
    let filtering = |what: &str| {
        let cql = format!("SELECT {what} FROM shop.items WHERE kind = ? ALLOW FILTERING");
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        read(&cql, &flags, PartitionClass::Scan, 9_000)
    };
    let mut report = report(&window([filtering("id"), filtering("name")]));
    let mut second = report.findings[0].clone();
    second.id = serde_json::from_str("\"000000000000000a\"").unwrap();
    report.findings[0].suggested_cql = vec!["CREATE TABLE a".to_owned(), "SELECT a".to_owned()];
    second.suggested_cql = vec!["CREATE TABLE a".to_owned(), "SELECT b".to_owned()];
    let mut problem = report.problems[0].clone();
    problem.findings = vec![report.findings[0].id, second.id];
    report.findings.push(second);
    let findings: Vec<_> = report.findings_of(&problem).collect();
    assert_eq!(
        cql_of_all(&findings),
        [
            ["CREATE TABLE a", "SELECT a"],
            ["-- the table above serves this as well", "SELECT b"]
        ]
    );
}

#[test]
fn nothing_seen_is_not_called_healthy() {
    let summary = report(&window([])).summary;
    assert_eq!(summary.headline, "No requests were seen.");
    assert!(summary.detail.contains("There is nothing to say"));
}

#[test]
fn only_drivers_statements_say_nothing_of_the_model() {
    let mut own = lookup(12);
    own.head.system = true;
    let mut window = window([own]);
    window.coverage.requests = 12;
    let summary = report(&window).summary;
    assert_eq!(summary.headline, "No application statements were seen.");
}

#[test]
fn without_findings_it_says_what_was_looked_at() {
    let mut window = window([lookup(100)]);
    window.coverage.requests = 100;
    let summary = report(&window).summary;
    assert_eq!(summary.headline, "No findings.");
    assert_eq!(
        summary.detail,
        format!(
            "{} rules checked 1 query pattern on 0 tables. 100 % of the reads touch one partition.",
            cqlens_rules::RULES.len()
        )
    );
    assert_eq!(summary.caution, None);
}

#[test]
fn what_overflowed_is_said_first_and_nothing_is_called_clean() {
    let mut window = window([lookup(100)]);
    window.coverage.requests = 12_445;
    window.coverage.patterns_overflowed = 12_345;
    let quiet = report(&window);
    assert_eq!(
        quiet.summary.headline,
        "No findings among the 1 pattern kept; 12,345 executions of other statements were not judged."
    );
    assert!(
        quiet
            .notices
            .first()
            .is_some_and(|notice| notice.contains("12,345 executions"))
    );
    for format in [Format::Html, Format::Md, Format::Json] {
        let mut text = Vec::new();
        quiet.render(format, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("No findings."), "{format:?}");
        assert!(
            text.contains("12,345 executions of other statements"),
            "{format:?}"
        );
    }
    window.coverage.patterns_overflowed = 0;
    window.coverage.tables_overflowed = 1;
    assert_eq!(
        report(&window).summary.headline,
        "No findings among the 1 pattern kept; 1 read or write of another table was not judged."
    );
}

#[test]
fn the_headline_sets_cost_against_number() {
    let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
    let cql = "SELECT * FROM shop.items WHERE title = ? ALLOW FILTERING";
    let mut scan = read(cql, &flags, PartitionClass::Scan, 100);
    scan.rows.record_n(1_000, 100);
    let mut window = window([lookup(900), scan]);
    window.coverage.requests = 1_000;
    let summary = report(&window).summary;
    assert_eq!(
        summary.time.as_deref(),
        Some("100 % of the time is reading `shop.items`, 2.0 ms each.")
    );
    assert_eq!(
        summary.headline,
        "The high problem takes 10 % of the measured time and 98.2 % of the work with 10 % of the statements."
    );
    assert_eq!(
        summary.detail,
        "Problems: 1 high. The worst: reads of `shop.items` filter the whole table row by row, 1.7 a minute."
    );
}

/// The headline of scans among lookups, so many of each, with so many rows a scan and such latencies.
fn headline(lookups: (u64, u64), scans: (u64, u64), rows: u64) -> String {
    let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
    let timed = |mut pattern: cqlens_window::Pattern, latency_us| {
        pattern.latency_us = cqlens_window::Distribution::default();
        pattern.latency_us.record_n(latency_us, pattern.count);
        pattern
    };
    let filtering = |column: &str| {
        let cql = format!("SELECT * FROM shop.items WHERE {column} = ? ALLOW FILTERING");
        let mut scan = read(&cql, &flags, PartitionClass::Scan, scans.0 / 2);
        scan.rows = cqlens_window::Distribution::default();
        scan.rows.record_n(rows, scans.0 / 2);
        timed(scan, scans.1)
    };
    let mut many_rows = lookup(lookups.0);
    many_rows.rows.record_n(8, lookups.0);
    let mut window = window([
        timed(many_rows, lookups.1),
        filtering("title"),
        filtering("colour"),
    ]);
    window.coverage.requests = lookups.0 + scans.0;
    report(&window).summary.headline
}

#[test]
fn the_headline_says_that_few_statements_take_much() {
    assert_eq!(
        headline((8_000, 1_000), (2_000, 16_000), 1),
        "The high problem takes 80 % of the measured time and 2.4 % of the work with 20 % of the statements."
    );
}

#[test]
fn the_headline_says_that_the_cost_is_spread() {
    assert_eq!(
        headline((5_000, 1_000), (5_000, 1_500), 2),
        "The high problem takes 60 % of the measured time and 17 % of the work with 50 % of the \
         statements, each about as costly as the average."
    );
    assert_eq!(
        headline((50_000, 4_000), (50_000, 1_000), 2),
        "The high problem takes 20 % of the measured time and 17 % of the work with 50 % of the \
         statements, each cheaper than the average."
    );
}

#[test]
fn the_headline_says_that_a_risk_costs_nothing_today() {
    assert_eq!(
        headline((10_000_000, 10_000), (200, 600_000), 1),
        "The medium problem is a risk rather than a cost: 0.1 % of the measured time and <0.1 % of the work today."
    );
}

#[test]
fn what_was_missed_is_a_caution_on_the_first_screen() {
    let mut window = window([lookup(80)]);
    window.coverage.requests = 100;
    window.coverage.dropped = 20;
    window.coverage.partitions_unknown = 30;
    window.coverage.partitions_exact = 50;
    assert_eq!(
        report(&window).summary.caution.as_deref(),
        Some(
            "20 % of the requests were not audited. The partitions of 38 % of the executions are not known."
        )
    );
}

#[test]
fn writes_alone_have_no_share_of_single_partition_reads() {
    let mut window = window([pattern("INSERT INTO shop.items", StatementKind::Insert, 5)]);
    window.coverage.requests = 5;
    let detail = report(&window).summary.detail;
    assert!(
        detail.ends_with("The number of partitions is not known for any read."),
        "{detail}"
    );
}
