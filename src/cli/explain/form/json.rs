//! `cqlens.explain.v1`: one JSON document with everything. Field names are a contract, adding is free.

use std::io::{self, Write};

use cqlens_report::text::Lines;
use cqlens_rules::Example;
use serde::Serialize;

use crate::cli::explain::lint::LintOutcome;
use crate::cli::explain::print::{KeptRemarks, PlacedRemark};

/// What `cqlens explain --format json` found.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document<'a> {
    /// `cqlens.explain.v1`.
    format: &'static str,
    /// What wrote the document.
    tool: Tool,
    /// Counts over all inputs.
    summary: Summary,
    /// In the order of the inputs; findings on definitions come last.
    findings: Vec<JsonFinding<'a>>,
}

/// The program.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Tool {
    /// `cqlens`.
    name: &'static str,
    /// Its version.
    version: &'static str,
}

/// What was read and found, in numbers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Summary {
    /// Files, and standard input.
    inputs: usize,
    /// Statements that were read.
    statements: usize,
    /// Texts that are not CQL, and statements that Cassandra would refuse.
    errors: usize,
    /// Findings of high severity.
    high: usize,
    /// Findings of medium severity.
    medium: usize,
    /// Findings of low severity.
    low: usize,
    /// Findings worth knowing that need no change.
    info: usize,
    /// Findings that are accepted; they are not among the others.
    accepted: usize,
    /// Statements that could not be judged because their table is not known.
    unjudged: usize,
    /// Findings that are counted but not listed.
    left_out: usize,
}

/// A finding or an error.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JsonFinding<'a> {
    /// The rule; for errors the stage: `parse`, `definition`, `prepare`, `bind`, `validate`.
    id: &'static str,
    /// `error`, or that of the finding: `high`, `medium`, `low`, `info`.
    severity: &'static str,
    /// One sentence.
    title: String,
    /// Where it is.
    span: JsonSpan<'a>,
    /// The keyspace and the table, as CQL writes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'a str>,
    /// What to do; for errors what may have been meant.
    advice: String,
    /// The statements of the fix, in order.
    suggested_cql: &'a [String],
    /// How it is done now, and a better way.
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<&'a Example>,
    /// The statement; the beginning of a long one.
    cql: &'a str,
    /// The document, setting or class that the rule comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'static str>,
}

/// A part of an input. Lines and columns begin at 1; the end is behind the last character (Unicode code points).
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JsonSpan<'a> {
    /// The path as given, or the file that `--located` names; `<stdin>` is standard input.
    file: &'a str,
    /// Of the first character.
    line: usize,
    /// Of the first character.
    column: usize,
    /// Of the place behind the last character.
    end_line: usize,
    /// Of the place behind the last character.
    end_column: usize,
}

const FORMAT: &str = "cqlens.explain.v1";

pub(super) fn write(kept: &KeptRemarks, outcome: &LintOutcome, out: &mut impl Write) -> io::Result<()> {
    let [info, low, medium, high] = outcome.findings;
    let document = Document {
        format: FORMAT,
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
        reference: cqlens_rules::find(remark.id).map(|rule| rule.about().source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::contract;

    #[test]
    fn the_schema_is_what_the_program_writes() {
        contract::check_schema::<Document<'_>>(FORMAT);
    }
}
