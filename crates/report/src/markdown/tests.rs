//! What a report is in Markdown, whatever was found.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::testing::{busy_report, report, small_report};
use cqlens_cql::{footprint::PartitionClass, plan::Flag};
use cqlens_rules::testing::{read, window};

pub(super) fn markdown(report: &Report) -> String {
    let mut text = Vec::new();
    render(report, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_small_report_reads_well() {
    let text = markdown(&small_report());
    insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "…"));
}

#[test]
fn a_report_without_findings_names_the_rules_that_ran() {
    let text = markdown(&report(&window([])));
    assert!(text.contains("None. Active rules: `allow-filtering`, "), "{text}");
    assert!(text.contains("**No requests were seen.**"), "{text}");
}

#[test]
fn every_row_of_a_table_has_as_many_cells_as_its_head() {
    let text = markdown(&busy_report());
    let cells = |row: &str| row.replace("\\|", "").matches('|').count();
    for rows in text.split("\n\n").filter(|part| part.starts_with('|')) {
        let widths: Vec<_> = rows.lines().map(cells).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{rows}");
    }
}

#[test]
fn the_list_of_problems_comes_first_and_each_has_its_fold() {
    let report = busy_report();
    let text = markdown(&report);
    let list = text.find("| # | Severity | Table |").unwrap();
    let folds = text.find("<details").unwrap();
    assert!(list < folds && text.find("## Tables").unwrap() > folds, "{text}");
    assert_eq!(text.matches("<details").count(), report.problems.len());
    assert_eq!(text.matches("</details>").count(), report.problems.len());
    assert!(text.contains("| 1 | high (new) | `work.jobs` | "), "{text}");
}

#[test]
fn it_fits_a_comment_whatever_was_found() {
    let filters = (0..400).map(|at| {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let cql = format!("SELECT a FROM shop.orders_{at} WHERE b = ? ALLOW FILTERING");
        read(&cql, &flags, PartitionClass::Scan, 100_000)
    });
    let text = markdown(&report(&window(filters)));
    assert!(text.len() <= 62_000, "{} bytes", text.len());
    assert!(
        text.contains("more problems have no room here"),
        "{}",
        &text[text.len() - 2_000..]
    );
    assert!(text.contains("and 390 more: "), "{}", &text[..4_000]);
    assert!(text.contains("## What was not seen"));
}
