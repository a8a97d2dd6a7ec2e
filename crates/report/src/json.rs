//! The JSON form: the contract that programs hold on to.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use jiff::Timestamp;
use serde::Serialize;

use super::{FindingReport, ProblemReport, Report, Span};
use crate::text::Lines;

pub(super) fn render(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(Lines::of_json(&mut *to), report)?;
    writeln!(to)
}

/// What was found, and what is to be known of it: fields of the report, under its names.
#[derive(Serialize)]
struct FindingsDocument<'r> {
    part_of: &'static str,
    generated_at: Timestamp,
    window: &'r Span,
    notices: &'r BTreeSet<String>,
    problems: &'r [ProblemReport],
    findings: &'r [FindingReport],
    accepted: &'r [FindingReport],
}

pub(super) fn render_findings(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let findings = FindingsDocument {
        part_of: report.format,
        generated_at: report.generated_at,
        window: &report.window,
        notices: &report.notices,
        problems: &report.problems,
        findings: &report.findings,
        accepted: &report.accepted,
    };
    serde_json::to_writer_pretty(Lines::of_json(&mut *to), &findings)?;
    writeln!(to)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Format, testing};

    #[test]
    fn the_json_form_of_a_small_report_stays_as_it_is() {
        let mut json = Vec::new();
        testing::small_report().render(Format::Json, &mut json).unwrap();
        let text = String::from_utf8(json).unwrap();
        let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
        insta::assert_snapshot!(text.replace(&version, "\"version\": \"…\""));
    }

    #[test]
    fn findings_alone_are_those_of_the_report() {
        let report = testing::busy_report();
        let value = |render: &dyn Fn(&mut Vec<u8>)| -> serde_json::Value {
            let mut json = Vec::new();
            render(&mut json);
            serde_json::from_slice(&json).unwrap()
        };
        let whole = value(&|json| report.render(Format::Json, json).unwrap());
        let part = value(&|json| report.render_findings(json).unwrap());
        assert_eq!(part["part_of"], whole["format"]);
        assert!(!part["findings"].as_array().unwrap().is_empty());
        for (name, field) in part.as_object().unwrap() {
            assert!(name == "part_of" || *field == whole[name], "{name}");
        }
    }

    #[test]
    fn every_number_of_a_busy_report_is_a_number() {
        let mut json = Vec::new();
        testing::busy_report().render(Format::Json, &mut json).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        // serde_json writes NaN and infinities as null: only what may be absent may be null.
        for path in nulls(&value, String::new()) {
            let name = path.rsplit('.').next().unwrap();
            let optional = [
                "keyspace",
                "table",
                "read_write_ratio",
                "caution",
                "view_of",
                "name",
                "nodes",
            ];
            assert!(optional.contains(&name), "{path} is null");
        }
    }

    fn nulls(value: &serde_json::Value, path: String) -> Vec<String> {
        match value {
            serde_json::Value::Null => vec![path],
            serde_json::Value::Array(all) => all.iter().flat_map(|one| nulls(one, path.clone())).collect(),
            serde_json::Value::Object(all) => all
                .iter()
                .flat_map(|(name, one)| nulls(one, format!("{path}.{name}")))
                .collect(),
            _ => Vec::new(),
        }
    }
}
