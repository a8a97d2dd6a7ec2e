//! What a command says at its end, on one screen: the verdict, the worst problems, and where the report is.

use std::{
    io::{self, IsTerminal, Write, stdout},
    path::Path,
};

use super::{colour, rules::wrapped};
use cqlens_report::{ProblemReport, Report, TableGroup, text};
use cqlens_rules::Severity;
use cqlens_window::number;

/// Problems that are named; with all else fewer than the 24 lines of the smallest terminals.
const MOST_PROBLEMS: usize = 5;
/// Columns of a terminal.
const WIDTH: usize = 100;
const TABLE_WIDTH: usize = 30;
/// What is left for the words beside severity, table and share.
const WHAT_WIDTH: usize = WIDTH - TABLE_WIDTH - 21;

/// Tables that are named, where the report is read table by table.
const MOST_TABLES: usize = 12;
/// `12 high, 15 medium, 20 low`.
const COUNTS_WIDTH: usize = 27;
const WORST_WIDTH: usize = WIDTH - TABLE_WIDTH - COUNTS_WIDTH - 6;

/// A report as a terminal shows it.
pub(super) struct ScreenSummary<'a> {
    pub(super) report: &'a Report,
    /// What was written, and where: `Report`, its file.
    pub(super) written: &'a [(&'static str, &'a Path)],
    pub(super) has_colours: bool,
}

/// Says on a terminal what a report says that was written to a file; to a pipe nothing, as scripts expect.
///
/// # Errors
/// Those of standard output.
pub(super) fn show(report: &Report, path: &Path) -> io::Result<()> {
    if !stdout().is_terminal() {
        return Ok(());
    }
    let summary = ScreenSummary {
        report,
        written: &[("Report", path)],
        has_colours: colour::is_on(&stdout()),
    };
    summary.print(&mut stdout().lock())
}

/// The same as text, for a process that prints it when all else has ended.
pub(super) fn text(report: &Report, written: &[(&'static str, &Path)]) -> Option<String> {
    if !stdout().is_terminal() {
        return None;
    }
    let summary = ScreenSummary {
        report,
        written,
        has_colours: colour::is_on(&stdout()),
    };
    let mut text = Vec::new();
    summary.print(&mut text).ok()?;
    String::from_utf8(text).ok()
}

impl ScreenSummary<'_> {
    /// Prints it: at most 20 lines, as long as the verdict is no longer than it should be.
    ///
    /// # Errors
    /// Those of `to`.
    pub(super) fn print(&self, to: &mut dyn Write) -> io::Result<()> {
        let summary = &self.report.summary;
        if let Some(time) = &summary.time {
            writeln!(to, "{}", paragraph(time))?;
        }
        writeln!(to, "{}", paragraph(&summary.headline))?;
        if let Some(caution) = &summary.caution {
            writeln!(to, "{}", paragraph(caution))?;
        }
        if let Some(comparison) = &self.report.comparison {
            let (other, headline) = (&comparison.about.other, comparison.headline());
            writeln!(to, "{}", paragraph(&format!("Compared with {other}: {headline}")))?;
        }
        match &self.report.by_table {
            Some(groups) => self.tables(groups, to)?,
            None => self.problems(to)?,
        }
        for (at, (what, path)) in self.written.iter().enumerate() {
            let apart = if at == 0 { "\n" } else { "" };
            writeln!(to, "{apart}{what}: {}", path.display())?;
        }
        Ok(())
    }

    /// The worst problems, one a line.
    fn problems(&self, to: &mut dyn Write) -> io::Result<()> {
        let problems = &self.report.problems;
        if !problems.is_empty() {
            writeln!(
                to,
                "\n  severity  {:<TABLE_WIDTH$}  {:<WHAT_WIDTH$}  time",
                "table", "what"
            )?;
        }
        for problem in problems.iter().take(MOST_PROBLEMS) {
            writeln!(to, "  {}", self.line(problem))?;
        }
        if let Some(more) = problems.len().checked_sub(MOST_PROBLEMS).filter(|&more| more > 0) {
            writeln!(to, "  and {more} more")?;
        }
        Ok(())
    }

    /// The tables with problems, one a line: how many there are, and the worst.
    fn tables(&self, groups: &[TableGroup], to: &mut dyn Write) -> io::Result<()> {
        let with_problems: Vec<_> = groups.iter().filter(|group| !group.problems.is_empty()).collect();
        if !with_problems.is_empty() {
            writeln!(
                to,
                "\n  {:<TABLE_WIDTH$}  {:<COUNTS_WIDTH$}  worst",
                "table", "problems"
            )?;
        }
        for group in with_problems.iter().take(MOST_TABLES) {
            writeln!(to, "  {}", self.table_line(group))?;
        }
        if let Some(more) = with_problems
            .len()
            .checked_sub(MOST_TABLES)
            .filter(|&more| more > 0)
        {
            writeln!(
                to,
                "  and {}",
                number::plural(more as u64, "more table", "more tables")
            )?;
        }
        Ok(())
    }

    fn table_line(&self, group: &TableGroup) -> String {
        let mut problems = self.report.problems.iter();
        let worst = problems.find(|problem| group.problems.first() == Some(&problem.id));
        let counts = fitting(&group.severities(self.report), COUNTS_WIDTH);
        format!(
            "{:<TABLE_WIDTH$}  {}  {}",
            fitting(group.name().as_deref().unwrap_or("–"), TABLE_WIDTH),
            self.coloured(group.severity, &format!("{counts:<COUNTS_WIDTH$}")),
            fitting(worst.map_or("", |problem| &problem.what), WORST_WIDTH),
        )
    }

    fn line(&self, problem: &ProblemReport) -> String {
        let names = [problem.keyspace.as_deref(), problem.table.as_deref()];
        let table: Vec<_> = names.into_iter().flatten().collect();
        let share = problem.time_share.map_or("–".to_owned(), number::percent);
        format!(
            "{}  {:<TABLE_WIDTH$}  {:<WHAT_WIDTH$}  {share:>4}",
            self.severity(problem.severity),
            fitting(&table.join("."), TABLE_WIDTH),
            fitting(&problem.what, WHAT_WIDTH),
        )
    }

    /// In its colour, as wide as its heading.
    fn severity(&self, severity: Severity) -> String {
        self.coloured(Some(severity), &format!("{severity:<8}"))
    }

    fn coloured(&self, severity: Option<Severity>, text: &str) -> String {
        let colour = match severity {
            Some(Severity::High) => "31",
            Some(Severity::Medium) => "33",
            Some(Severity::Low) => "36",
            Some(Severity::Info) | None => "2",
        };
        match self.has_colours {
            true => format!("\x1b[{colour}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// A sentence without its backticks, in lines that fit.
fn paragraph(sentence: &str) -> String {
    wrapped(&text::escaped(&sentence.replace('`', "")), "")
}

/// At most so many letters, an ellipsis where there are more.
fn fitting(words: &str, width: usize) -> String {
    let words = text::escaped(words).replace('`', "");
    if words.chars().count() <= width {
        return words;
    }
    words.chars().take(width - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};
    use cqlens_rules::testing::{judge, read, window};
    use cqlens_window::Cluster;
    use jiff::Timestamp;

    fn report(tables: usize) -> Report {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let reads = (0..tables).map(|table| {
            let cql = format!(
                "SELECT a FROM shop.\u{1b}a_table_with_quite_a_long_name_{table} WHERE b = ? ALLOW FILTERING"
            );
            read(&cql, &flags, PartitionClass::Scan, 100_000)
        });
        let window = window(reads);
        let (cluster, schema) = (Cluster::default(), Schema::default());
        Report::new(&window, &cluster, &schema, judge(&window), Timestamp::UNIX_EPOCH)
    }

    fn printed(report: &Report, has_colours: bool) -> String {
        let mut printed = Vec::new();
        let summary = ScreenSummary {
            report,
            written: &[("Report", Path::new("/tmp/report.html"))],
            has_colours,
        };
        summary.print(&mut printed).unwrap();
        String::from_utf8(printed).unwrap()
    }

    #[test]
    fn many_problems_are_one_screen_with_the_worst_five() {
        let report = report(12);
        let more = report.problems.len() - MOST_PROBLEMS;
        let printed = printed(&report, false);
        let lines: Vec<_> = printed.lines().collect();
        assert!(lines.len() <= 24, "{printed}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= WIDTH),
            "{printed}"
        );
        assert_eq!(printed.matches("  high  ").count(), MOST_PROBLEMS, "{printed}");
        assert!(printed.contains(&format!("and {more} more\n")), "{printed}");
        assert!(printed.ends_with("\nReport: /tmp/report.html\n"), "{printed}");
        assert!(!printed.contains('\u{1b}') && !printed.contains('`'), "{printed}");
    }

    #[test]
    fn table_by_table_each_table_is_a_line() {
        let report = report(20).table_by_table();
        let printed = printed(&report, false);
        let lines: Vec<_> = printed.lines().collect();
        assert!(lines.len() <= 24, "{printed}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= WIDTH),
            "{printed}"
        );
        assert_eq!(printed.matches("  1 high").count(), MOST_TABLES, "{printed}");
        assert!(printed.contains("and 8 more tables\n"), "{printed}");
        assert!(
            printed.contains("  worst\n") && !printed.contains('\u{1b}'),
            "{printed}"
        );
    }

    #[test]
    fn colours_are_those_of_severities_alone() {
        let printed = printed(&report(1), true);
        assert!(printed.contains("\u{1b}[31mhigh    \u{1b}[0m"), "{printed}");
        assert!(!printed.contains("more\n"), "{printed}");
    }

    #[test]
    fn what_was_written_is_named_in_lines_below_each_other_and_nothing_where_nothing_was() {
        let printed = |written: &[(&'static str, &Path)]| {
            let mut printed = Vec::new();
            let report = report(0);
            let summary = ScreenSummary {
                report: &report,
                written,
                has_colours: false,
            };
            summary.print(&mut printed).unwrap();
            String::from_utf8(printed).unwrap()
        };
        let both = [("Report", Path::new("a.html")), ("Snapshots", Path::new("b"))];
        assert!(printed(&both).ends_with("\n\nReport: a.html\nSnapshots: b\n"));
        assert!(!printed(&[]).contains("Report:"));
    }

    #[test]
    fn a_report_without_problems_is_its_verdict_and_its_place() {
        let printed = printed(&report(0), false);
        assert!(!printed.contains("severity"), "{printed}");
        assert!(printed.starts_with("No requests were seen.\n"), "{printed}");
    }
}
