//! The Markdown form, for pull requests and wikis: verdict, the list of problems, each of them below a fold, tables, the
//! costliest patterns, what was not seen.
//!
//! GitHub's dialect, and short enough for one of its comments: what does not fit is counted. CQL holds whatever a client sends, so every text is escaped for the place where it
//! stands.

mod by_table;
mod chapters;
mod comparison;
mod escape;
mod ranking;
mod timeline;

use std::io::{self, Write};

use super::{
    FindingReport, PatternReport, ProblemReport, Report, SequenceReport, TableReport, coverage_notes,
    evidence, html, load, summary::cql_of_all, words,
};
use crate::text::Lines;
use chapters::chapters;
use comparison::comparison;
use cqlens_rules::Severity;
use cqlens_window::number;
pub(super) use escape::{code, code_cell, fenced, prose, prose_cell};
use ranking::{errors, ranking};
use timeline::timeline;

const MOST_TABLES: usize = 50;
const MOST_OPERATIONS: usize = 30;
const MOST_NODES: usize = 50;

/// Problems in the list at the top.
const MOST_LINES: usize = 10;
/// GitHub takes comments of 65,536 characters.
const MOST_BYTES: usize = 60_000;
/// Of them for what comes after the problems.
const ROOM_FOR_TABLES: usize = 16_000;
/// And for what was not seen.
const MOST_UNSEEN: usize = 8_000;

pub(super) fn render(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let to: &mut dyn Write = &mut Lines::new(to);
    let head = piece(|to| {
        opening(report, to)?;
        match &report.by_table {
            Some(groups) => by_table::list(report, groups, to),
            None => list(report, to),
        }
    })?;
    let unseen = piece(|to| unseen(report, to))?;
    let mut left = MOST_BYTES.saturating_sub(head.len() + unseen.len() + 400);
    to.write_all(&head)?;
    type Section = fn(&Report, &mut dyn Write) -> io::Result<()>;
    let others: &[Section] = match report.by_table {
        Some(_) => &[
            ranking, errors, chapters, comparison, gone, accepted, timeline, operations, nodes,
        ],
        None => &[
            ranking, errors, chapters, comparison, gone, accepted, timeline, operations, tables, nodes,
        ],
    };
    let others = others.iter().map(|section| piece(|to| section(report, to)));
    let others: Vec<_> = others.collect::<io::Result<_>>()?;
    let of_others = others.iter().map(Vec::len).sum::<usize>().min(ROOM_FOR_TABLES);
    left -= of_others.min(left);
    let mut left_out = 0;
    for piece in details(report)? {
        // What is short stands there even where something long before it has no room.
        match left.checked_sub(piece.text.len()) {
            Some(rest) => {
                left = rest;
                to.write_all(&piece.text)?;
            }
            None => left_out += piece.problems,
        }
    }
    if left_out > 0 {
        let more = number::plural(left_out, "more problem has", "more problems have");
        writeln!(to, "\n{more} no room here: see the HTML or JSON form.")?;
    }
    left += of_others;
    let mut is_cut = false;
    for section in &others {
        match left.checked_sub(section.len()) {
            Some(rest) => {
                left = rest;
                to.write_all(section)?;
            }
            None => is_cut = true,
        }
    }
    if is_cut {
        writeln!(to, "\nFurther tables are in the HTML and JSON forms.")?;
    }
    to.write_all(&unseen)?;
    let (tool, time) = (&report.tool, report.generated_at.strftime("%-d %B %Y, %H:%M"));
    writeln!(to, "\n_{} {}, {time} UTC_", tool.name, tool.version)
}

/// A part of what is said in detail, with how many problems it is about.
struct Piece {
    problems: u64,
    text: Vec<u8>,
}

impl Piece {
    fn of(problems: u64, text: Vec<u8>) -> Self {
        Self { problems, text }
    }
}

/// Each problem, or each table with its problems.
fn details(report: &Report) -> io::Result<Vec<Piece>> {
    if let Some(groups) = &report.by_table {
        return by_table::details(report, groups);
    }
    let problems = (1..).zip(&report.problems);
    let pieces = problems.map(|(rank, problem)| {
        let text = piece(|to| self::problem(report, rank, problem, to))?;
        Ok(Piece::of(1, text))
    });
    pieces.collect()
}

/// What is written, to be measured before it is used.
fn piece(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write(&mut Lines::new(&mut bytes))?;
    Ok(bytes)
}

fn unseen(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "\n## What was not seen\n")?;
    let mut left = MOST_UNSEEN;
    for line in coverage_notes::lines(report) {
        let line = prose(&line);
        match left.checked_sub(line.len()) {
            Some(rest) => left = rest,
            None => return writeln!(to, "- and more, in the HTML and JSON forms"),
        }
        writeln!(to, "- {line}")?;
    }
    Ok(())
}

fn opening(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let name = report.cluster.name.as_deref().unwrap_or("a cluster");
    writeln!(to, "# Query patterns of {}, {}\n", prose(name), report.period())?;
    for notice in &report.coverage.notices {
        writeln!(to, "> **Before you read on:** {}\n", prose(notice))?;
    }
    let summary = &report.summary;
    if let Some(time) = &summary.time {
        write!(to, "**{}** ", prose(time))?;
    }
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

/// One line a problem.
fn list(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "\n## Problems\n")?;
    if report.problems.is_empty() {
        let rules: Vec<_> = report.rules.iter().map(|rule| format!("`{rule}`")).collect();
        return writeln!(to, "{}. Active rules: {}.", report.none(), rules.join(", "));
    }
    writeln!(
        to,
        "| # | Severity | Table | What | Time | Work | Rate | Fix | Who |"
    )?;
    writeln!(to, "| ---: | --- | --- | --- | ---: | ---: | ---: | --- | --- |")?;
    for (at, problem) in (1..).zip(&report.problems).take(MOST_LINES) {
        let table = problem.keyspace.as_ref().zip(problem.table.as_ref());
        writeln!(
            to,
            "| {at} | {}{} | {} | {} | {} | {} | {} | {} | {} |",
            problem.severity,
            report.findings_of(problem).next().map(mark).unwrap_or_default(),
            table.map_or("–".to_owned(), |(keyspace, table)| code_cell(&format!(
                "{keyspace}.{table}"
            ))),
            prose_cell(&problem.what),
            problem.time_share.map_or("–".to_owned(), number::percent),
            number::percent(problem.work_share),
            words::rate(problem.executions, problem.observed_seconds),
            problem.fix,
            who(&problem.applications),
        )?;
    }
    if report.problems.len() > MOST_LINES {
        let more = &report.problems[MOST_LINES..];
        writeln!(to, "\nand {} more: {}.", more.len(), by_severity(more))?;
    }
    Ok(())
}

/// Three applications at most.
fn who(applications: &[String]) -> String {
    let shown: Vec<_> = applications.iter().take(3).map(|name| prose_cell(name)).collect();
    match applications.len() {
        0..=3 => shown.join(", "),
        more => format!("{} +{}", shown.join(", "), more - 3),
    }
}

/// `5 medium, 10 low`.
fn by_severity(problems: &[ProblemReport]) -> String {
    let counted = [Severity::High, Severity::Medium, Severity::Low, Severity::Info].map(|severity| {
        let of_it = problems.iter().filter(|problem| problem.severity == severity);
        (severity, of_it.count())
    });
    let counted = counted.iter().filter(|(_, count)| *count > 0);
    let counted: Vec<_> = counted
        .map(|(severity, count)| format!("{count} {severity}"))
        .collect();
    counted.join(", ")
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

/// What says it best, and the other findings with the same cause, below a fold that has its title; open where it is high.
fn problem(report: &Report, rank: usize, problem: &ProblemReport, to: &mut dyn Write) -> io::Result<()> {
    let open = if problem.severity == Severity::High {
        " open"
    } else {
        ""
    };
    // In HTML, where Markdown is not read, a name with an at sign would notify a user.
    let title = html::prose(&problem.title).0.replace('@', "&#64;");
    writeln!(
        to,
        "\n<details{open}><summary><b>{rank}. {}:</b> {title}</summary>\n",
        problem.severity
    )?;
    let findings: Vec<_> = report.findings_of(problem).collect();
    let cql = cql_of_all(&findings);
    for (at, (finding, cql)) in findings.into_iter().zip(&cql).enumerate() {
        if at > 0 {
            writeln!(to, "\n#### {}\n", prose(&finding.title))?;
        }
        self::finding(report, finding, cql, to)?;
    }
    writeln!(to, "\n</details>")
}

/// Beside what a rule itself found.
const OF_ALL_RULES: [&str; 5] = [
    "executions",
    "executions_per_second",
    "latency_p99_us",
    "sent_by",
    "sent_by_left_out",
];

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
    let own = evidence::own(&finding.evidence).len();
    let mut figures = finding.evidence.clone();
    // The rest is for those who look closer: in the HTML and JSON forms.
    let mut at = 0;
    figures.retain(|(name, _)| {
        at += 1;
        at <= own || OF_ALL_RULES.contains(name)
    });
    for line in evidence::lines(&figures) {
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

/// One line a statement.
fn statements(report: &Report, patterns: &[&PatternReport], to: &mut dyn Write) -> io::Result<()> {
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
    for pattern in patterns {
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
    Ok(())
}

fn nodes(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let load = &report.load;
    if !load.has_several_nodes() {
        return Ok(());
    }
    writeln!(to, "\n## Nodes\n\n{}\n", load::MEANING)?;
    writeln!(
        to,
        "| Node | Datacenter · rack | Coordinated | Share | Partitions read | Partitions written | \
            Against the mean of its datacenter |"
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
        writeln!(to, "\n{} more {what} are in the JSON form.", all - shown)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
