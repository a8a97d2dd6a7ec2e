//! `cqlens.explain.v1`: one JSON document with everything. Field names are a contract, adding is free.

use std::io::{self, Write};

use cqlens_audit::rules::{self, Example};
use cqlens_audit::text::Lines;
use serde::Serialize;

use crate::cli::explain::lint::LintOutcome;
use crate::cli::explain::print::{KeptRemarks, PlacedRemark};

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    tool: Tool,
    summary: Summary,
    /// In the order of the inputs; findings on definitions come last.
    findings: Vec<JsonFinding<'a>>,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Summary {
    inputs: usize,
    statements: usize,
    errors: usize,
    high: usize,
    medium: usize,
    low: usize,
    info: usize,
    accepted: usize,
    unjudged: usize,
    /// How many findings are counted and not listed.
    left_out: usize,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    /// The rule; for errors the stage: `parse`, `definition`, `prepare`, `bind`, `validate`.
    id: &'static str,
    /// `error`, or that of the finding.
    severity: &'static str,
    title: String,
    span: JsonSpan<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'a str>,
    /// What to do; for errors what may have been meant.
    advice: String,
    suggested_cql: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<&'a Example>,
    /// The statement, of a long one the beginning.
    cql: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'static str>,
}

/// Lines and columns begin at 1; the end is behind the last character (Unicode code points).
#[derive(Serialize)]
struct JsonSpan<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
}

pub(super) fn write(kept: &KeptRemarks, outcome: &LintOutcome, out: &mut impl Write) -> io::Result<()> {
    let [info, low, medium, high] = outcome.findings;
    let document = Document {
        format: "cqlens.explain.v1",
        tool: Tool {
            name: "cqlens",
            version: env!("CARGO_PKG_VERSION"),
        },
        summary: Summary {
            inputs: outcome.inputs,
            statements: outcome.statements,
            errors: outcome.wrong,
            high,
            medium,
            low,
            info,
            accepted: outcome.accepted,
            unjudged: outcome.unjudged,
            left_out: kept.left_out,
        },
        findings: kept.remarks.iter().map(finding).collect(),
    };
    serde_json::to_writer_pretty(Lines::of_json(&mut *out), &document)?;
    out.write_all(b"\n")
}

fn finding(placed: &PlacedRemark) -> JsonFinding<'_> {
    let remark = &placed.remark;
    JsonFinding {
        id: remark.id,
        severity: remark.level.as_str(),
        title: remark.sentence(),
        span: JsonSpan {
            file: &placed.file,
            line: placed.start.line,
            column: placed.start.column,
            end_line: placed.end.line,
            end_column: placed.end.column,
        },
        table: remark.table.as_deref(),
        advice: remark.advice.join("\n"),
        suggested_cql: &remark.suggested_cql,
        example: remark.example.as_ref(),
        cql: &placed.cql,
        reference: rules::find(remark.id).map(|rule| rule.about().source),
    }
}
