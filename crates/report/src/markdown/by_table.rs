//! The Markdown form table by table: a list of tables, then each with its problems and its statements.

use std::io::{self, Write};

use super::{MOST_LINES, Piece, code, code_cell, more, piece, problem, prose_cell, statements};
use crate::{PatternReport, Report, TableGroup, TableReport};
use cqlens_window::number;

/// Statements of one table.
const MOST_STATEMENTS: usize = 10;

/// One line a table: those with problems.
pub(super) fn list(report: &Report, groups: &[TableGroup], to: &mut dyn Write) -> io::Result<()> {
    let with_problems: Vec<_> = groups.iter().filter(|group| !group.problems.is_empty()).collect();
    writeln!(to, "\n## Tables\n")?;
    if with_problems.is_empty() {
        return writeln!(to, "{}.", report.none());
    }
    writeln!(
        to,
        "| Table | Problems | Worst | Fix | Reads | Writes | Statements |"
    )?;
    writeln!(to, "| --- | --- | --- | --- | ---: | ---: | ---: |")?;
    for group in with_problems.iter().take(MOST_LINES * 2) {
        let Some((_, worst)) = report.problems_of(group).next() else {
            continue;
        };
        let table = table_of(report, group);
        let count =
            |of: fn(&TableReport) -> u64| table.map_or("–".to_owned(), |table| number::count(of(table)));
        writeln!(
            to,
            "| {} | {} | {} | {} | {} | {} | {} |",
            group.name().map_or("–".to_owned(), |name| code_cell(&name)),
            group.severities(report),
            prose_cell(&worst.what),
            worst.fix,
            count(|table| table.reads),
            count(|table| table.writes),
            group.patterns.len(),
        )?;
    }
    more(with_problems.len(), MOST_LINES * 2, "tables with problems", to)
}

/// Each table in pieces: its heading, each of its problems, its statements.
pub(super) fn details(report: &Report, groups: &[TableGroup]) -> io::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let all = report.on_tables();
    for group in groups {
        let patterns = all.patterns(group);
        if patterns.is_empty() && group.problems.is_empty() {
            continue;
        }
        pieces.push(Piece::of(0, piece(|to| heading(all.table(group), group, to))?));
        for &(rank, one) in all.problems(group) {
            pieces.push(Piece::of(1, piece(|to| problem(report, rank, one, to))?));
        }
        if !patterns.is_empty() {
            pieces.push(Piece::of(0, piece(|to| its_statements(report, patterns, to))?));
        }
    }
    Ok(pieces)
}

fn heading(table: Option<&TableReport>, group: &TableGroup, to: &mut dyn Write) -> io::Result<()> {
    match group.name() {
        Some(name) => writeln!(to, "\n### {}", code(&name))?,
        None => writeln!(to, "\n### Not of a single table")?,
    }
    if let Some(table) = table {
        let (reads, writes) = (number::count(table.reads), number::count(table.writes));
        let partitions = number::count(table.distinct_partitions);
        writeln!(
            to,
            "\n{reads} reads, {writes} writes, {partitions} distinct partitions seen."
        )?;
    }
    Ok(())
}

fn its_statements(report: &Report, patterns: &[&PatternReport], to: &mut dyn Write) -> io::Result<()> {
    writeln!(to)?;
    let shown = &patterns[..patterns.len().min(MOST_STATEMENTS)];
    statements(report, shown, to)?;
    more(patterns.len(), MOST_STATEMENTS, "statements", to)
}

fn table_of<'r>(report: &'r Report, group: &TableGroup) -> Option<&'r TableReport> {
    let (keyspace, name) = (group.keyspace.as_deref()?, group.table.as_deref()?);
    let mut tables = report.tables.iter();
    tables.find(|table| table.keyspace == keyspace && table.table == name)
}

#[cfg(test)]
mod tests {
    use crate::{
        markdown::tests::markdown,
        testing::{busy_report, small_report},
    };

    #[test]
    fn each_table_has_its_problems_and_its_statements() {
        let report = busy_report().table_by_table();
        let text = markdown(&report);
        assert!(text.contains("| `work.jobs` | 1 high"), "{text}");
        let (_, jobs) = text.split_once("### `work.jobs`").unwrap_or_default();
        let section = jobs.split("\n### ").next().unwrap_or_default();
        assert!(
            section.contains("<details open><summary><b>1. high:</b>"),
            "{section}"
        );
        assert!(section.contains("| Template | Time |"), "{section}");
        assert_eq!(text.matches("<details").count(), report.problems.len());
        assert!(!text.contains("## The costliest patterns") && !text.contains("| # | Severity |"));
        for row in ["| Template |", "| Table | Problems |"] {
            let rows = text.split("\n\n").filter(|part| part.starts_with(row));
            for rows in rows {
                let cells = |row: &str| row.replace("\\|", "").matches('|').count();
                let widths: Vec<_> = rows.lines().map(cells).collect();
                assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{rows}");
            }
        }
    }

    #[test]
    fn a_report_without_problems_lists_the_statements_of_its_tables() {
        let mut report = small_report();
        (report.problems, report.findings) = (Vec::new(), Vec::new());
        let text = markdown(&report.table_by_table());
        assert!(text.contains("## Tables\n\nNone"), "{text}");
        assert!(
            text.contains("### `shop.items`\n\n104 reads, 50 writes"),
            "{text}"
        );
    }
}
