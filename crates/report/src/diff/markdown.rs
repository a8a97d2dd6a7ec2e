//! For pull requests: findings first, everything else folded.

use std::io::{self, Write};

use super::{
    super::markdown::{code, code_cell, prose, prose_cell},
    FindingChange, PatternChange, ReportDiff,
};

/// Of each group: a comment has to stay readable, and below the 65,536 letters that GitHub takes.
const MOST: usize = 25;

/// Letters of a statement.
const MOST_LETTERS: usize = 300;

pub(super) fn render(diff: &ReportDiff, to: &mut dyn Write) -> io::Result<()> {
    let cluster = diff.cluster.as_deref().unwrap_or("a cluster");
    writeln!(to, "# What changed in {}\n", prose(cluster))?;
    writeln!(to, "**{}.**\n", diff.headline())?;
    writeln!(to, "- Base: {}", diff.base.shown())?;
    writeln!(to, "- New: {}", diff.new.shown())?;
    for notice in &diff.notices {
        writeln!(to, "- {}", prose(notice))?;
    }
    for (heading, changes) in diff.finding_groups() {
        findings(heading, changes, to)?;
    }
    for (heading, changes) in diff.pattern_groups() {
        patterns(heading, changes, to)?;
    }
    let tables = diff.schema.iter().map(|change| {
        let name = code(&format!("{}.{}", change.keyspace, change.table));
        format!("{name}: {}", prose(&change.sentence()))
    });
    list("Tables", tables, to)?;
    list("New clients", diff.clients.new.iter().map(|name| code(name)), to)?;
    list(
        "Clients not seen again",
        diff.clients.gone.iter().map(|name| code(name)),
        to,
    )
}

fn findings(heading: &str, changes: &[FindingChange], to: &mut dyn Write) -> io::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    writeln!(to, "\n## {heading}\n")?;
    writeln!(
        to,
        "| Severity | Where | What | Difference |\n| --- | --- | --- | --- |"
    )?;
    for change in changes.iter().take(MOST) {
        let place = match change.place() {
            place if place.is_empty() => String::new(),
            place => code_cell(&place),
        };
        writeln!(
            to,
            "| **{}** {} | {place} | {} | {} |",
            change.severity,
            code_cell(&change.rule),
            prose_cell(&change.title),
            prose_cell(&change.remarks().join("; "))
        )?;
    }
    more(changes.len(), to)
}

fn patterns(heading: &str, changes: &[PatternChange], to: &mut dyn Write) -> io::Result<()> {
    let lines = changes.iter().map(|change| {
        let shown: String = change.cql.chars().take(MOST_LETTERS).collect();
        format!("{}: {}", prose(&change.remarks()), code(&shown))
    });
    list(heading, lines, to)
}

/// A folded list; nothing where it is empty.
fn list(heading: &str, lines: impl ExactSizeIterator<Item = String>, to: &mut dyn Write) -> io::Result<()> {
    let count = lines.len();
    if count == 0 {
        return Ok(());
    }
    writeln!(to, "\n<details><summary>{heading} ({count})</summary>\n")?;
    for line in lines.take(MOST) {
        writeln!(to, "- {line}")?;
    }
    more(count, to)?;
    writeln!(to, "\n</details>")
}

fn more(count: usize, to: &mut dyn Write) -> io::Result<()> {
    match count.saturating_sub(MOST) {
        0 => Ok(()),
        more => writeln!(to, "\nAnd {more} more: the JSON form lists all of them."),
    }
}
