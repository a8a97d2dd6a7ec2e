//! The Markdown form, for pull requests and wikis: verdict, findings, tables, the costliest patterns, what
//! was not seen.
//!
//! GitHub's dialect. CQL holds whatever a client sends, so every text is escaped for the place where it
//! stands.

use std::io::{self, Write};

use super::{
    FindingReport, PatternReport, ProblemReport, Report, SequenceReport, TableReport, coverage_notes,
    evidence, load,
};
use crate::{number, text::Lines};

/// A pull request is no place for all of them.
const MOST_PATTERNS: usize = 20;
const MOST_TABLES: usize = 50;
const MOST_OPERATIONS: usize = 30;
const MOST_NODES: usize = 50;

pub(super) fn render(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let to: &mut dyn Write = &mut Lines::new(to);
    opening(report, to)?;
    findings(report, to)?;
    gone(report, to)?;
    accepted(report, to)?;
    operations(report, to)?;
    tables(report, to)?;
    patterns(report, to)?;
    nodes(report, to)?;
    writeln!(to, "\n## What was not seen\n")?;
    for line in coverage_notes::lines(report) {
        writeln!(to, "- {}", prose(&line))?;
    }
    let (tool, time) = (&report.tool, report.generated_at.strftime("%-d %B %Y, %H:%M"));
    writeln!(to, "\n_{} {}, {time} UTC_", tool.name, tool.version)
}

fn opening(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let name = report.cluster.name.as_deref().unwrap_or("a cluster");
    writeln!(to, "# Query patterns of {}, {}\n", prose(name), report.period())?;
    for notice in &report.coverage.notices {
        writeln!(to, "> **Before you read on:** {}\n", prose(notice))?;
    }
    let summary = &report.summary;
    write!(to, "**{}** {}", prose(&summary.headline), prose(&summary.detail))?;
    match &summary.caution {
        Some(caution) => writeln!(to, " **{}**\n", prose(caution))?,
        None => writeln!(to, "\n")?,
    }
    let coverage = &report.coverage;
    let executions = coverage.partitions_exact
        + coverage.partitions_bounded
        + coverage.partitions_scan
        + coverage.partitions_unknown;
    writeln!(
        to,
        "{} ({} left out, {} undecoded). Partition counts: exact {}, bounds {}, scans {}, unknown {}.",
        report.audited(),
        number::exact(coverage.dropped),
        number::exact(coverage.undecoded),
        number::share(coverage.partitions_exact, executions),
        number::share(coverage.partitions_bounded, executions),
        number::share(coverage.partitions_scan, executions),
        number::share(coverage.partitions_unknown, executions),
    )
}

fn findings(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "\n## Findings")?;
    if report.findings.is_empty() {
        let rules: Vec<_> = report.rules.iter().map(|rule| format!("`{rule}`")).collect();
        return writeln!(
            to,
            "\n{}. The rules that ran: {}.",
            report.none(),
            rules.join(", ")
        );
    }
    for (at, problem) in (1..).zip(&report.problems) {
        self::problem(report, at, problem, to)?;
    }
    Ok(())
}

/// ` (new)`, where that is known.
fn mark(finding: &FindingReport) -> String {
    finding
        .mark()
        .map_or_else(String::new, |mark| format!(" ({mark})"))
}

fn gone(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let gone = report.baseline.iter().flat_map(|review| &review.gone);
    for (at, gone) in gone.enumerate() {
        if at == 0 {
            writeln!(to, "\n### Gone since the last review\n")?;
        }
        let (severity, title) = (gone.severity, prose(&gone.title));
        writeln!(to, "- {severity} {}: {title}. {}", code(&gone.rule), gone.why())?;
    }
    Ok(())
}

/// What says it best under its heading; the other findings with the same cause below.
fn problem(report: &Report, at: usize, problem: &ProblemReport, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "\n### {at}. {}\n", prose(&problem.title))?;
    for (at, finding) in report.findings_of(problem).enumerate() {
        if at > 0 {
            writeln!(to, "\n#### {}\n", prose(&finding.title))?;
        }
        self::finding(report, finding, &report.cql_of(problem, at), to)?;
    }
    Ok(())
}

fn finding(
    report: &Report,
    finding: &FindingReport,
    suggested: &[&str],
    to: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        to,
        "**{}** `{}`{}\n",
        finding.severity,
        finding.rule,
        mark(finding)
    )?;
    if let Some(acceptance) = &finding.acceptance {
        writeln!(to, "{}\n", prose(&acceptance.to_string()))?;
    }
    for id in finding.patterns.iter().take(3) {
        if let Some(pattern) = report.patterns.iter().find(|pattern| pattern.id == *id) {
            fenced(&pattern.cql, to)?;
            writeln!(to)?;
        }
    }
    for line in evidence::lines(&finding.evidence) {
        writeln!(to, "- {}: {}", line.label, prose(&line.value))?;
    }
    writeln!(to, "\n{}", prose(&finding.advice))?;
    for cql in suggested {
        writeln!(to)?;
        fenced(cql, to)?;
    }
    if let Some(example) = &finding.example {
        let (instead, write) = example.words();
        writeln!(to, "\n{instead}\n")?;
        fenced(&example.before, to)?;
        writeln!(to, "\n{write}\n")?;
        fenced(&example.after, to)?;
    }
    Ok(())
}

fn accepted(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    if !report.speaks_of_acceptances() {
        return Ok(());
    }
    writeln!(to, "\n## Accepted\n")?;
    for finding in &report.accepted {
        let acceptance = finding.acceptance.as_ref().map(ToString::to_string);
        writeln!(
            to,
            "- **{}** `{}`{}: {}. {}",
            finding.severity,
            finding.rule,
            mark(finding),
            prose(&finding.title),
            prose(&acceptance.unwrap_or_default())
        )?;
    }
    for line in report
        .idle_lines()
        .chain(report.acceptance_mistakes.iter().cloned())
    {
        writeln!(to, "- {}", prose(&line))?;
    }
    Ok(())
}

/// Statements that belong together.
fn operations(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    if report.sequences.is_empty() {
        return Ok(());
    }
    writeln!(to, "\n## Operations of several statements\n")?;
    writeln!(
        to,
        "| Operation | Rule | Times | Partitions | Time p50 | Time p99 | Sent |"
    )?;
    writeln!(to, "| --- | --- | ---: | ---: | ---: | ---: | --- |")?;
    for operation in report.sequences.iter().take(MOST_OPERATIONS) {
        writeln!(
            to,
            "| {} | {} | {} | {} | {} | {} | {} |",
            arrows(operation),
            operation.rule,
            number::count(operation.count),
            number::decimal(operation.partitions),
            operation.time(operation.elapsed_us.p50),
            operation.time(operation.elapsed_us.p99),
            prose_cell(operation.words(operation.sent)),
        )?;
    }
    more(report.sequences.len(), MOST_OPERATIONS, "operations", to)
}

/// The lines of an operation in one cell; their arrows stay as they are.
fn arrows(operation: &SequenceReport) -> String {
    let lines = operation.lines();
    let lines: Vec<String> = lines
        .iter()
        .map(|line| prose_cell(line).replace("-&gt;", "->"))
        .collect();
    lines.join("<br>")
}

fn tables(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    if report.tables.is_empty() {
        return Ok(());
    }
    writeln!(to, "\n## Tables\n")?;
    writeln!(
        to,
        "| Table | Reads | Writes | Partitions / read p50 · p99 | Tombstones / read p99 | Busiest partition |"
    )?;
    writeln!(to, "| --- | ---: | ---: | ---: | ---: | ---: |")?;
    for table in report.tables.iter().take(MOST_TABLES) {
        let partitions = &table.partitions_per_read;
        writeln!(
            to,
            "| {} | {} | {} | {} | {} | {} |",
            code_cell(&format!("{}.{}", table.keyspace, table.table)),
            number::count(table.reads),
            number::count(table.writes),
            match partitions.steps.is_empty() {
                true => "–".to_owned(),
                false => format!(
                    "{} · {}",
                    number::count(partitions.p50),
                    number::count(partitions.p99)
                ),
            },
            tombstones(table),
            table
                .top_partitions
                .first()
                .map_or("–".to_owned(), |top| number::percent(top.share)),
        )?;
    }
    more(report.tables.len(), MOST_TABLES, "tables", to)
}

fn tombstones(table: &TableReport) -> String {
    match table.tombstones_per_read.observed {
        0 => "not known".to_owned(),
        _ => number::count(table.tombstones_per_read.p99),
    }
}

fn patterns(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    if report.patterns.is_empty() {
        return Ok(());
    }
    writeln!(to, "\n## The costliest patterns\n")?;
    // Of a single node it is no news that it holds every partition.
    let routed = report.load.has_several_nodes();
    let (head, line) = if routed {
        (" To a replica |", " ---: |")
    } else {
        ("", "")
    };
    writeln!(
        to,
        "| Template | Time | Work | Executions | Partitions p99 | Rows p99 | Latency p50 · p99 |{head}"
    )?;
    writeln!(to, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |{line}")?;
    for pattern in report.patterns.iter().take(MOST_PATTERNS) {
        let routing = pattern.routing.map_or("–".to_owned(), |routing| routing.shown());
        let routing = if routed {
            format!(" {routing} |")
        } else {
            String::new()
        };
        writeln!(
            to,
            "| {} | {} | {} | {} | {} | {} | {} |{routing}",
            code_cell(&pattern.cql),
            pattern.time_share.map_or("–".to_owned(), number::percent),
            number::percent(pattern.work_share),
            number::count(pattern.count),
            pattern.partitions.shown(),
            rows(pattern),
            pattern
                .latency_us
                .shown([pattern.latency_us.p50, pattern.latency_us.p99]),
        )?;
    }
    more(report.patterns.len(), MOST_PATTERNS, "patterns", to)
}

fn nodes(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let load = &report.load;
    if !load.has_several_nodes() {
        return Ok(());
    }
    writeln!(to, "\n## Nodes\n\n{}\n", load::MEANING)?;
    writeln!(
        to,
        "| Node | Datacenter · rack | Coordinated | Share | Partitions read | Partitions written | Against the mean of its datacenter |"
    )?;
    writeln!(to, "| --- | --- | ---: | ---: | ---: | ---: | ---: |")?;
    for node in load.nodes.iter().take(MOST_NODES) {
        writeln!(
            to,
            "| {} | {} | {} | {} | {} | {} | {} |",
            code_cell(node.name()),
            prose_cell(&node.place()),
            number::count(node.coordinated),
            number::percent(node.coordinated_share),
            number::count(node.reads),
            number::count(node.writes),
            node.against_mean(),
        )?;
    }
    more(load.nodes.len(), MOST_NODES, "nodes", to)?;
    for line in load.sentences() {
        writeln!(to, "\n{}", prose(&line))?;
    }
    Ok(())
}

fn rows(pattern: &PatternReport) -> String {
    match pattern.rows.steps.is_empty() {
        true => "–".to_owned(),
        false => number::count(pattern.rows.p99),
    }
}

fn more(all: usize, shown: usize, what: &str, to: &mut dyn Write) -> io::Result<()> {
    if all > shown {
        writeln!(to, "\n{} more {what} stand in the JSON form.", all - shown)?;
    }
    Ok(())
}

/// A sentence: what stands between backticks stays code, everything else loses its meaning in Markdown and
/// HTML.
pub(super) fn prose(text: &str) -> String {
    let pieces: Vec<_> = text.split('`').collect();
    // An odd number of backticks is no code at all.
    let paired = pieces.len() % 2 == 1;
    let mut prose = String::with_capacity(text.len() + 8);
    for (at, piece) in pieces.iter().enumerate() {
        match (at % 2 == 1 && paired, at) {
            (true, _) => prose += &code(piece),
            (false, 0) => prose += &escaped(piece),
            (false, _) if paired => prose += &escaped(piece),
            (false, _) => prose += &format!("\\`{}", escaped(piece)),
        }
    }
    prose
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '@' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// Inline code, fenced by more backticks than it holds in a row.
pub(super) fn code(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    let fence = "`".repeat(longest_run(&text) + 1);
    // A blank keeps a backtick at either end apart from the fence; Markdown takes it off again.
    let pad = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Inline code in a table: the only place where a bar inside code must be escaped.
pub(super) fn code_cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// A sentence in a table.
pub(super) fn prose_cell(text: &str) -> String {
    // Outside of code they are escaped already.
    prose(text).replace('|', "\\|").replace("\\\\|", "\\|")
}

fn fenced(cql: &str, to: &mut dyn Write) -> io::Result<()> {
    let fence = "`".repeat(longest_run(cql).max(2) + 1);
    writeln!(to, "{fence}sql\n{cql}\n{fence}")
}

fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        report::testing::{busy_report, report, small_report},
        rules::testing::window,
    };

    fn markdown(report: &Report) -> String {
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
    fn hostile_text_stays_text() {
        assert_eq!(
            prose("a|b <script> *x* `c|d`"),
            "a\\|b &lt;script&gt; \\*x\\* `c|d`"
        );
        assert_eq!(prose("an odd ` backtick"), "an odd \\` backtick");
        assert_eq!(code("a``b"), "```a``b```");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(code_cell("a|b\nc"), "`a\\|b c`");
        let mut fence = Vec::new();
        fenced("x ``` y", &mut fence).unwrap();
        assert_eq!(String::from_utf8(fence).unwrap(), "````sql\nx ``` y\n````\n");
    }

    #[test]
    fn a_report_without_findings_names_the_rules_that_ran() {
        let text = markdown(&report(&window([])));
        assert!(
            text.contains("None. The rules that ran: `allow-filtering`, "),
            "{text}"
        );
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
}
