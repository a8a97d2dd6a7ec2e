//! Chebotko diagrams: the tables of a keyspace with their keys, the queries that the traffic asks of them as arrows
//! into them, and the joins that clients do as arrows between them (Chebotko, Kashlev, Lu, *A Big Data Modeling
//! Methodology for Apache Cassandra*, 2015).
//!
//! [`model`] says what is drawn, [`layout`] where, [`drawing`] how.

mod drawing;
mod layout;
mod model;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::{self, Write},
};

use super::Report;
use cqlens_window::PatternId;
use layout::Layout;
use model::Model;

/// The diagram of a keyspace, for a page that has a place for some of the patterns.
pub(super) fn svg(report: &Report, keyspace: &str, is_shown: &dyn Fn(PatternId) -> bool) -> String {
    let model = Model::of(report, keyspace, is_shown);
    drawing::draw(&model, &Layout::of(&model))
}

/// The keyspaces that can be drawn, in the order of their traffic.
pub(super) fn keyspaces(report: &Report) -> Vec<&str> {
    let known = report.tables.iter().filter(|table| !table.columns.is_empty());
    let mut seen = BTreeSet::new();
    known
        .map(|table| table.keyspace.as_str())
        .filter(|keyspace| seen.insert(*keyspace))
        .collect()
}

/// Writes one picture of all keyspaces, one below the other, which needs nothing but itself.
pub(super) fn render(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let mut pictures = Vec::new();
    let mut bottom = drawing::HEADING;
    for keyspace in keyspaces(report) {
        let model = Model::of(report, keyspace, &|_| false);
        let layout = Layout::of(&model);
        let mut picture = String::new();
        let _ = write!(picture, "<g transform=\"translate(0 {bottom})\">");
        drawing::heading(&model, &mut picture);
        drawing::draw_inside(&model, &layout, &mut picture);
        picture += "</g>";
        bottom += layout.height + drawing::HEADING;
        pictures.push((keyspace, picture));
    }
    drawing::page(&pictures, bottom, to)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Format, testing};

    fn picture(report: &Report) -> String {
        let mut svg = Vec::new();
        report.render(Format::Svg, &mut svg).unwrap();
        String::from_utf8(svg).unwrap()
    }

    #[test]
    fn every_known_table_is_drawn_with_its_key() {
        let report = testing::busy_report();
        let svg = picture(&report);
        for table in report.tables.iter().filter(|table| !table.columns.is_empty()) {
            assert!(svg.contains(&format!(">{}<", table.table)), "{}", table.table);
        }
        assert!(svg.contains(">K<") && svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn what_names_hold_is_text() {
        let mut report = testing::busy_report();
        let table = report
            .tables
            .iter_mut()
            .find(|table| !table.columns.is_empty())
            .unwrap();
        table.table = "<script>alert(1)</script>".to_owned();
        table.columns[0].name = "\"><image href=x>".to_owned();
        table.comment = "Q1. </svg>\u{202e}".to_owned();
        let svg = picture(&report);
        assert!(!svg.contains("<script") && !svg.contains("<image"), "{svg}");
        assert_eq!(svg.matches("</svg>").count(), 1);
        assert!(!svg.contains('\u{202e}'));
    }

    #[test]
    fn a_report_without_definitions_has_an_empty_picture() {
        let svg = picture(&testing::small_report());
        assert!(svg.contains("No table definitions are known"), "{svg}");
    }
}
