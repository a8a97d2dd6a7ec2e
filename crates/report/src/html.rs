//! The HTML form: one self-contained file that works from disk, without scripts, in the dark, on a phone and
//! on paper.
//!
//! Templates stand in `html/`. askama escapes everything that is not marked safe, and only charts (numbers
//! and our own words) and [`prose`] (which escapes by itself) are; a content security policy forbids scripts
//! and outside resources even so, since CQL holds whatever a client sends.

mod application;
mod by_table;
mod chapter;
mod chart;
mod comparison;
mod diagram;
mod facts;
mod growth;
mod index;
mod list;
mod problem;
mod ranking;
mod sections;
mod statement;
mod table;
mod timeline;

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use askama::{
    Template,
    filters::{Html, Safe, escape},
};
use jiff::Timestamp;

use facts::facts;
use index::{Index, Ranked};

use super::{
    ColumnReport, ColumnRole, PatternReport, Quantiles, Report, chebotko, evidence, html, load, words,
};
use crate::{brief::brief, errors::ErrorLine, ranking::Ranking, text::Lines};
use cqlens_rules::Severity;
use cqlens_window::{PatternId, number};

const MOST_OPERATIONS: usize = 50;
const MOST_NODES: usize = 60;
/// So many keyspaces are drawn for all to see, the others where a reader asks for them.
const OPEN_DIAGRAMS: usize = 1;
const FEW_DIAGRAMS: usize = 6;
const MOST_DIAGRAMS: usize = 6;
const MOST_COMPARED: usize = 50;
const MOST_SYSTEM_PATTERNS: usize = 50;
const MOST_DEFINITIONS: usize = 10;

pub(super) fn render(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let index = Index::of(report);
    let page = ReportPage {
        report,
        index,
        ranking: report.ranking(),
        errors: report.error_lines(),
        slowest: report.slowest(),
    };
    page.write_into(&mut Lines::new(to))
}

#[derive(Template)]
#[template(path = "report.html")]
struct ReportPage<'a> {
    report: &'a Report,
    index: Index<'a>,
    ranking: Ranking<'a>,
    errors: Vec<ErrorLine<'a>>,
    /// The statements with the slowest executions.
    slowest: Vec<&'a PatternReport>,
}

/// Executions whose partitions are known as well as its name says.
struct CoverageShare {
    name: &'static str,
    count: u64,
}

impl ReportPage<'_> {
    fn cluster(&self) -> String {
        match &self.report.cluster.name {
            Some(name) => format!("Cluster {name}"),
            None => "A cluster".to_owned(),
        }
    }

    /// Who watched what for how long.
    fn origin(&self) -> String {
        let (span, cluster) = (&self.report.window, &self.report.cluster);
        let sources: Vec<_> = span.sources.iter().take(4).map(String::as_str).collect();
        let more = span.sources.len() - sources.len();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let mut parts = vec![format!(
            "{} seen by {}{more}",
            number::seconds(self.report.seconds()),
            sources.join(", ")
        )];
        parts.extend(cluster.software());
        parts.extend(
            cluster
                .nodes
                .map(|nodes| number::plural(nodes as u64, "node", "nodes")),
        );
        parts.extend(cluster.partitioner.clone());
        if let Some(review) = &self.report.baseline {
            parts.push(format!("compared with {}", review.end.strftime("%-d %B %Y")));
        }
        parts.join(" · ")
    }

    fn coverage_parts(&self) -> [CoverageShare; 4] {
        let coverage = &self.report.coverage;
        [
            ("partitions counted exactly", coverage.partitions_exact),
            ("bounds", coverage.partitions_bounded),
            ("scans, lower bound", coverage.partitions_scan),
            ("unknown", coverage.partitions_unknown),
        ]
        .map(|(name, count)| CoverageShare { name, count })
    }

    /// Executions that touch partitions.
    fn executions(&self) -> u64 {
        self.coverage_parts().iter().map(|part| part.count).sum()
    }

    /// How many problems of each severity, the greatest first.
    fn severities(&self) -> Vec<(Severity, usize)> {
        severities(self.report.problems.iter().map(|problem| problem.severity))
    }

    /// How many findings on a table are accepted.
    fn accepted_on(&self, table: &super::TableReport) -> usize {
        let accepted = self.report.accepted.iter();
        let is_on = |finding: &&super::FindingReport| {
            finding.table.as_ref() == Some(&table.table) && finding.keyspace.as_ref() == Some(&table.keyspace)
        };
        accepted.filter(is_on).count()
    }

    /// The keyspaces that are drawn. Where there are many, those of one table have all that a drawing would show in the
    /// table's section.
    fn keyspaces(&self) -> Vec<&str> {
        let keyspaces = chebotko::keyspaces(self.report);
        let are_few = keyspaces.len() <= FEW_DIAGRAMS;
        let mut tables: BTreeMap<&str, usize> = BTreeMap::new();
        for table in &self.report.tables {
            *tables.entry(&table.keyspace).or_default() += 1;
        }
        let has_several = |name: &str| tables.get(name).is_some_and(|tables| *tables > 1);
        let drawn = keyspaces.into_iter().filter(|name| are_few || has_several(name));
        drawn.take(MOST_DIAGRAMS).collect()
    }

    fn diagram(&self, keyspace: &str) -> Safe<String> {
        Safe(chebotko::svg(self.report, keyspace, &|id| {
            self.index.is_shown(id)
        }))
    }

    fn rate(&self, pattern: &PatternReport) -> String {
        number::frequency(pattern.count, pattern.observed_seconds)
    }

    fn left_out(&self) -> String {
        number::plural(self.index.left_out as u64, "more pattern", "more patterns")
    }

    /// Reads, writes and partitions of everything together.
    fn totals(&self) -> String {
        let totals = &self.report.totals;
        let mut parts = vec![
            format!("{} reads", number::count(totals.reads)),
            format!("{} writes", number::count(totals.writes)),
            format!("{} batches", number::count(totals.batches)),
        ];
        let partitions = &totals.partitions_per_read;
        if !partitions.steps.is_empty() {
            parts.push(format!(
                "{} partitions per read on average",
                number::decimal(partitions.mean)
            ));
        }
        if let Some(share) = totals.single_partition_share() {
            parts.push(format!(
                "{} of the reads touch one partition",
                number::percent(share)
            ));
        }
        if let Some(share) = totals.ring_share() {
            parts.push(format!("{} have no partition key", number::percent(share)));
        }
        let latency = &totals.read_latency_us;
        if latency.count > 0 && self.report.has_times() {
            parts.push(format!(
                "read latency {} (p50 · p99)",
                latency.shown([latency.p50, latency.p99])
            ));
        }
        parts.join(", ")
    }

    /// What the rules looked at.
    fn scope(&self) -> String {
        let count = |count: usize, one, many| number::plural(count as u64, one, many);
        format!(
            "{} checked {} on {}",
            count(self.report.rules.len(), "rule", "rules"),
            count(
                self.report.patterns.len() - self.index.definitions.len(),
                "query pattern",
                "query patterns"
            ),
            count(self.report.tables.len(), "table", "tables"),
        )
    }

    fn system_scope(&self) -> String {
        let patterns = &self.report.system_patterns;
        let executions = patterns.iter().map(|pattern| pattern.count).sum();
        format!(
            "{}, {}",
            number::plural(patterns.len() as u64, "template", "templates"),
            number::plural(executions, "execution", "executions"),
        )
    }

    /// A link to the section of a table, or its name where it has none.
    fn table_link(&self, keyspace: Option<&str>, table: Option<&str>) -> Safe<String> {
        let name = index::full_name(keyspace, table);
        Safe(name.map_or_else(String::new, |name| {
            self.link_to('t', &name, self.index.has_table(&name))
        }))
    }

    /// The same of its whole name.
    fn table_named(&self, name: &str) -> Safe<String> {
        Safe(self.link_to('t', name, self.index.has_table(name)))
    }

    fn table_name(&self, problem: &super::ProblemReport) -> String {
        index::full_name(problem.keyspace.as_deref(), problem.table.as_deref()).unwrap_or_default()
    }

    fn application_link(&self, name: &str) -> Safe<String> {
        let shown = if name.is_empty() { "unknown" } else { name };
        let is_there = self.index.has_application(name);
        Safe(match is_there {
            true => format!("<a href=\"#{}\">{}</a>", index::id('a', name), escaped(shown)),
            false => escaped(shown),
        })
    }

    fn link_to(&self, kind: char, name: &str, is_there: bool) -> String {
        let shown = format!("<code>{}</code>", breakable(&escaped(name)));
        match is_there {
            true => format!("<a href=\"#{}\">{shown}</a>", index::id(kind, name)),
            false => shown,
        }
    }

    fn pattern_link(&self, id: PatternId, words: &str) -> Safe<String> {
        Safe(match self.index.is_shown(id) {
            true => format!("<a href=\"#p-{id}\">{}</a>", escaped(words)),
            false => escaped(words),
        })
    }

    /// A link to a statement by its line in lists.
    fn brief_link(&self, pattern: &PatternReport) -> Safe<String> {
        self.pattern_link(pattern.id, &brief(&pattern.cql))
    }

    /// A link to a statement by what it is; nothing where it is not shown.
    fn statement_link(&self, id: PatternId) -> Safe<String> {
        let pattern = self.index.pattern(id).filter(|_| self.index.is_shown(id));
        pattern.map_or_else(
            || Safe(String::new()),
            |pattern| self.pattern_link(id, table::kind(pattern)),
        )
    }

    /// Links to applications, at most three.
    fn senders(&self, names: &[String]) -> Safe<String> {
        let links: Vec<_> = names
            .iter()
            .take(3)
            .map(|name| self.application_link(name).0)
            .collect();
        let more = match names.len() {
            0..=3 => String::new(),
            more => format!(" +{}", more - 3),
        };
        Safe(links.join(", ") + &more)
    }
}

/// A name that may be broken after its keyspace and between its words. It is escaped already.
fn breakable(name: &str) -> String {
    name.replace('.', ".<wbr>").replace('_', "_<wbr>")
}

fn severities(all: impl Iterator<Item = Severity> + Clone) -> Vec<(Severity, usize)> {
    [Severity::High, Severity::Medium, Severity::Low, Severity::Info]
        .map(|severity| (severity, all.clone().filter(|one| *one == severity).count()))
        .into_iter()
        .filter(|&(_, count)| count > 0)
        .collect()
}

fn counted(count: usize, one: &str, many: &str) -> String {
    number::plural(count as u64, one, many)
}

fn severities_of(problems: &[Ranked<'_>]) -> Vec<(Severity, usize)> {
    severities(problems.iter().map(|ranked| ranked.problem.severity))
}

fn capitalized(severity: Severity) -> &'static str {
    match severity {
        Severity::High => "High",
        Severity::Medium => "Medium",
        Severity::Low => "Low",
        Severity::Info => "Info",
    }
}

/// A sentence as HTML: escaped, with what stands between backticks as code.
pub(super) fn prose(text: &str) -> Safe<String> {
    let mut html = String::with_capacity(text.len() + 16);
    let mut pieces = text.split('`').peekable();
    let mut is_code = false;
    while let Some(piece) = pieces.next() {
        // A last backtick without its partner is a backtick.
        let code = is_code && pieces.peek().is_some();
        let escaped = escaped(piece);
        html += &match (is_code, code) {
            (_, true) => format!("<code>{escaped}</code>"),
            (true, false) => format!("`{escaped}"),
            (false, false) => escaped,
        };
        is_code = !is_code;
    }
    Safe(html)
}

pub(super) fn escaped(text: &str) -> String {
    match escape(text, Html) {
        Ok(escaped) => escaped.0.to_string(),
        Err(never) => match never {},
    }
}

/// A column's marks in Chebotko's notation.
pub(super) fn marks(column: &ColumnReport) -> String {
    let role = match column.kind {
        ColumnRole::PartitionKey => "K",
        ColumnRole::ClusteringAscending => "C↑",
        ColumnRole::ClusteringDescending => "C↓",
        ColumnRole::Static => "S",
        ColumnRole::Regular => "",
    };
    let index = if column.indexed { " IDX" } else { "" };
    format!("{role}{index}").trim().to_owned()
}

fn day(time: Timestamp) -> String {
    time.strftime("%-d %B %Y").to_string()
}

fn moment(time: Timestamp) -> String {
    time.strftime("%-d %B %Y, %H:%M").to_string()
}

fn p50_p99(numbers: &Quantiles) -> String {
    if numbers.steps.is_empty() {
        return "–".to_owned();
    }
    format!("{} · {}", number::count(numbers.p50), number::count(numbers.p99))
}

#[cfg(test)]
mod tests;
