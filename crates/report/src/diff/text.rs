//! For terminals: what has to be acted on first; the rest is counted and in the other forms.

use std::io::{self, Write};

use super::{FindingChange, PatternChange, ReportDiff};

/// Of each group: a screen, not a scroll.
const MOST: usize = 10;

/// Letters of a statement in one line.
const MOST_LETTERS: usize = 100;

pub(super) fn render(diff: &ReportDiff, to: &mut dyn Write) -> io::Result<()> {
    let cluster = diff.cluster.as_deref().unwrap_or("a cluster");
    writeln!(to, "{cluster}: {}", diff.headline())?;
    writeln!(to, "base  {}", diff.base.shown())?;
    writeln!(to, "new   {}", diff.new.shown())?;
    for notice in &diff.notices {
        writeln!(to, "note: {notice}")?;
    }
    for (heading, changes) in diff.finding_groups() {
        group(heading, changes, finding, to)?;
    }
    for (heading, changes) in diff.pattern_groups() {
        group(heading, changes, pattern, to)?;
    }
    group(
        "Tables",
        &diff.schema,
        |change| {
            format!(
                "{}.{}: {}",
                change.keyspace,
                change.table,
                change.sentence().replace('`', "")
            )
        },
        to,
    )?;
    group("New clients", &diff.clients.new, Clone::clone, to)?;
    group("Clients not seen again", &diff.clients.gone, Clone::clone, to)
}

/// A heading and its lines; nothing where there are none.
fn group<T>(heading: &str, all: &[T], line: impl Fn(&T) -> String, to: &mut dyn Write) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(to, "\n{heading}")?;
    for one in all.iter().take(MOST) {
        writeln!(to, "  {}", in_one_line(&line(one)))?;
    }
    match all.len().saturating_sub(MOST) {
        0 => Ok(()),
        more => writeln!(to, "  and {more} more"),
    }
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn finding(change: &FindingChange) -> String {
    let remarks = change.remarks();
    let remarks = match remarks.is_empty() {
        true => String::new(),
        false => format!(" ({})", remarks.join("; ")),
    };
    let title = change.title.replace('`', "");
    format!("{} {}: {title}{remarks}", change.severity, change.rule)
}

fn pattern(change: &PatternChange) -> String {
    let cql = in_one_line(&change.cql);
    let shown: String = cql.chars().take(MOST_LETTERS).collect();
    let rest = if shown.len() < cql.len() { "…" } else { "" };
    format!("{}: {shown}{rest}", change.remarks())
}
