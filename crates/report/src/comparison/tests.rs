//! A comparison as a document, and as a section of a report.
#![allow(clippy::unwrap_used)]
use super::{
    testing::{comparison, replay},
    *,
};
use crate::{Format, Selection, testing::small_report};
use cqlens_window::PatternId;

fn written(comparison: &Comparison, format: ComparisonFormat) -> String {
    let mut text = Vec::new();
    comparison.render(format, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn report(format: Format, comparison: Option<Comparison>) -> String {
    let mut text = Vec::new();
    let report = small_report().compared(comparison);
    report.render(format, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn what_was_written_can_be_read_and_nothing_else_can() {
    let json = written(&comparison(), ComparisonFormat::Json);
    assert_eq!(Comparison::read(json.as_bytes()).unwrap(), comparison());
    let error = |text: &str| Comparison::read(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error("{}"), "not a comparison in its JSON form");
    let other = json.replace("comparison.v1", "comparison.v2");
    assert_eq!(
        error(&other),
        "its format is \"cqlens.comparison.v2\", not \"cqlens.comparison.v1\""
    );
}

#[test]
fn a_document_says_which_patterns_differ_in_which_way() {
    for format in [ComparisonFormat::Text, ComparisonFormat::Markdown] {
        let text = written(&comparison(), format);
        for said in [
            "3 of 1,500 results differ, in 1 pattern.",
            "3 of 1,000 results: another number of rows (2), another order (1)",
            "exchange 17: the other cluster gave 2 rows, not 3 rows",
            "not sent, or no response: 10 (a write to a keyspace that may not be written)",
            "left out before: 2 (too many requests waiting)",
            "sent to 3 nodes (1 out of reach in the end), 1,200 requests to one that holds the partition",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }
    let markdown = written(&comparison(), ComparisonFormat::Markdown);
    assert!(
        markdown.contains("| 2 × |") && markdown.contains("| – |"),
        "{markdown}"
    );
}

#[test]
fn a_replay_says_how_it_went() {
    let text = written(&replay(), ComparisonFormat::Text);
    let said = "sent 9 requests in 2.5 s, 3.6 a second; late by 40 µs (median), 400 µs (p99)";
    assert!(text.contains(said), "{text}");
}

#[test]
fn a_difference_of_latency_is_said_where_intervals_are_apart() {
    let times: Vec<_> = comparison()
        .patterns
        .iter()
        .map(|pattern| pattern.latency_us.times())
        .collect();
    assert_eq!(times, [Some(2.0), None]);
}

#[test]
fn a_report_has_a_section_of_it_where_there_is_one() {
    for format in [Format::Html, Format::Md, Format::Json] {
        let text = report(format, Some(comparison()));
        let figures = match format {
            Format::Json => [
                "\"patterns_that_differ\": 1",
                "\"row-count\": 2",
                "\"actual\": \"2 rows\"",
            ],
            _ => [
                "3 of 1,500 results differ, in 1 pattern.",
                "another number of rows (2), another order (1)",
                "2 rows, not 3 rows",
            ],
        };
        for said in figures {
            assert!(text.contains(said), "{said}: {text}");
        }
        assert!(
            format != Format::Html || !text.contains("<script"),
            "statements stay text: {text}"
        );
        assert!(!report(format, None).contains("10.1.0.1:9042"));
    }
}

#[test]
fn a_part_of_a_report_has_that_part_of_the_comparison() {
    let of_report: PatternId = small_report().patterns[0].id;
    let mut compared = comparison();
    compared.patterns[1].id = Some(of_report.to_string());
    let table = small_report().patterns[0].table.clone().unwrap();
    let selection = Selection {
        table: vec![table],
        ..Selection::default()
    };
    let part = small_report().compared(Some(compared.clone())).select(&selection);
    let left = part.comparison.unwrap();
    assert_eq!(left.patterns, compared.patterns[1..]);
    assert_eq!(left.totals, compared.totals);
    let top = small_report().compared(Some(compared.clone())).keep_top(1);
    assert_eq!(top.comparison.unwrap().patterns, compared.patterns[..1]);
}
