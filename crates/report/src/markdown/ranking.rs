//! Statements by what they cost, and their errors.

use std::io::{self, Write};

use super::{code, code_cell, prose};
use crate::{Report, brief::brief, words};
use cqlens_window::number;

/// Where the time goes.
pub(super) fn ranking(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let ranking = report.ranking();
    if ranking.statements.is_empty() {
        return Ok(());
    }
    let (heading, share, times, rule) = match report.has_times() {
        true => ("Where the time goes", "Time", " Mean | p99 |", " ---: | ---: |"),
        false => ("Where the work goes", "Work", "", ""),
    };
    writeln!(to, "\n## {heading}\n")?;
    writeln!(
        to,
        "| # | {share} | Executions |{times} Rate | Table | Statement | Touches on average |"
    )?;
    writeln!(to, "| ---: | ---: | ---: |{rule} ---: | --- | --- | --- |")?;
    for (at, ranked) in (1..).zip(&ranking.statements) {
        let pattern = ranked.pattern;
        let times = match report.has_times() {
            true => format!(" {} |", ranked.latency().join(" | ")),
            false => String::new(),
        };
        writeln!(
            to,
            "| {at} | {} | {} |{times} {} | {} | {} | {} |",
            number::percent(ranked.share),
            number::count(pattern.count),
            words::rate(pattern.count, pattern.observed_seconds),
            pattern.table.as_deref().map_or("–".to_owned(), code_cell),
            code_cell(&brief(&pattern.cql)),
            ranked.touched(),
        )?;
    }
    match ranking.rest() {
        Some(rest) => writeln!(to, "\n{rest}"),
        None => Ok(()),
    }
}

/// What was refused or warned of.
pub(super) fn errors(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let lines = report.error_lines();
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(to, "\n## Errors and warnings\n")?;
    for line in lines {
        let statement = line.pattern.map_or_else(
            || "Statements that change the schema".to_owned(),
            |pattern| code(&brief(&pattern.cql)),
        );
        writeln!(to, "- {statement}: {}", prose(&line.said))?;
    }
    Ok(())
}
