//! The HTML form: one self-contained file that works from disk, without scripts, in the dark, on a phone and
//! on paper.
//!
//! Templates stand in `html/`. askama escapes everything that is not marked safe, and only charts (numbers
//! and our own words) and [`prose`] (which escapes by itself) are; a content security policy forbids scripts
//! and outside resources even so, since CQL holds whatever a client sends.

mod chart;
mod diagram;
mod facts;
mod figures;

use std::io::{self, Write};

use askama::{
    Template,
    filters::{Html, Safe, escape},
};
use jiff::Timestamp;

use facts::facts;
use figures::Figure;

use super::{
    Chart, ColumnReport, ColumnRole, FindingReport, PatternReport, ProblemReport, Quantiles, Report,
    TableReport, Unit, coverage_notes, evidence, html, load,
};
use crate::{number, rules::Severity, text::Lines};

/// More patterns than this are for programs.
const MOST_PATTERNS: usize = super::build::MOST_DRAWN;
const MOST_TABLES: usize = 200;
const MOST_OPERATIONS: usize = 50;
const MOST_CLIENTS: usize = 50;
const MOST_NODES: usize = 60;
/// A diagram shows what a table is for, not every variant.
const MOST_QUERIES: usize = 8;
const MOST_SYSTEM_PATTERNS: usize = 50;

pub(super) fn render(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    Page { report }.write_into(&mut Lines::new(to))
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    report: &'a Report,
}

/// A part of the coverage bar.
struct Part {
    name: &'static str,
    class: &'static str,
    count: u64,
}

impl Page<'_> {
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
        parts.join(" · ")
    }

    fn coverage_parts(&self) -> [Part; 4] {
        let coverage = &self.report.coverage;
        [
            ("exact", "exact", coverage.partitions_exact),
            ("bounds", "bounded", coverage.partitions_bounded),
            ("scans", "scan", coverage.partitions_scan),
            ("unknown", "unknown", coverage.partitions_unknown),
        ]
        .map(|(name, class, count)| Part { name, class, count })
    }

    /// Executions that touch partitions.
    fn executions(&self) -> u64 {
        self.coverage_parts().iter().map(|part| part.count).sum()
    }

    fn coverage_bar(&self) -> Safe<String> {
        let parts = self.coverage_parts().map(|part| (part.class, part.count));
        chart::stacked("Partition counts", &parts)
    }

    fn figures(&self) -> [Figure; 5] {
        figures::figures(self.report)
    }

    /// How many problems of each severity, the greatest first.
    fn severities(&self) -> Vec<(Severity, usize)> {
        severities(self.report.problems.iter().map(|problem| problem.severity))
    }

    /// `3 more findings with the same cause: delete-heavy, tombstone-heavy-read`.
    fn facets(&self, problem: &ProblemReport) -> String {
        let more = problem.findings.len() as u64 - 1;
        let mut rules: Vec<_> = self
            .report
            .findings_of(problem)
            .skip(1)
            .map(|finding| finding.rule)
            .collect();
        rules.dedup();
        let findings = number::plural(more, "more finding", "more findings");
        format!("{findings} with the same cause: {}", rules.join(", "))
    }

    /// The same for one table.
    fn severities_of(&self, table: &TableReport) -> Vec<(Severity, usize)> {
        severities(
            self.report
                .findings
                .iter()
                .filter(|finding| is_on(finding, table))
                .map(|finding| finding.severity),
        )
    }

    /// How many findings on a table somebody has accepted.
    fn accepted_on(&self, table: &TableReport) -> usize {
        let accepted = self.report.accepted.iter();
        accepted.filter(|finding| is_on(finding, table)).count()
    }

    fn patterns_of<'p>(&'p self, finding: &'p FindingReport) -> impl Iterator<Item = &'p PatternReport> {
        let find = |id| self.report.patterns.iter().find(move |pattern| pattern.id == id);
        finding.patterns.iter().filter_map(move |&id| find(id))
    }

    /// Whether the schema of any table is known.
    fn has_model(&self) -> bool {
        self.report.tables.iter().any(|table| !table.columns.is_empty())
    }

    /// The queries of a table, the costliest first.
    fn patterns_on<'p>(&'p self, table: &'p TableReport) -> impl Iterator<Item = &'p PatternReport> {
        let patterns = self.report.patterns.iter();
        patterns.filter(|pattern| table.patterns.contains(&pattern.id))
    }

    /// The greatest severity of what was found on a pattern; `fine` where nothing was.
    fn verdict(&self, pattern: &PatternReport) -> String {
        let worst = self
            .rules_on(pattern)
            .into_iter()
            .map(|(severity, _)| severity)
            .max();
        worst.map_or_else(|| "fine".to_owned(), |severity| severity.to_string())
    }

    fn rate(&self, pattern: &PatternReport) -> String {
        number::frequency(pattern.count, pattern.observed_seconds)
    }

    /// What was found on a pattern.
    fn rules_on(&self, pattern: &PatternReport) -> Vec<(Severity, &'static str)> {
        let on_it = self
            .report
            .findings
            .iter()
            .filter(|finding| finding.patterns.contains(&pattern.id));
        on_it.map(|finding| (finding.severity, finding.rule)).collect()
    }

    /// The busiest first.
    fn clients(&self) -> Vec<(&str, u64)> {
        let clients = self
            .report
            .clients
            .iter()
            .map(|(name, &count)| (name.as_str(), count));
        let mut clients: Vec<_> = clients.collect();
        clients.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
        clients.truncate(MOST_CLIENTS);
        clients
    }

    fn client_share(&self, count: u64) -> f64 {
        count as f64 / self.report.clients.values().sum::<u64>().max(1) as f64
    }

    /// What the rules looked at.
    fn scope(&self) -> String {
        let count = |count: usize, one, many| number::plural(count as u64, one, many);
        format!(
            "{} looked at {} on {}",
            count(self.report.rules.len(), "rule", "rules"),
            count(self.report.patterns.len(), "query pattern", "query patterns"),
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
}

fn is_on(finding: &FindingReport, table: &TableReport) -> bool {
    finding.table.as_ref() == Some(&table.table) && finding.keyspace.as_ref() == Some(&table.keyspace)
}

fn severities(all: impl Iterator<Item = Severity> + Clone) -> Vec<(Severity, usize)> {
    [Severity::High, Severity::Medium, Severity::Low, Severity::Info]
        .map(|severity| (severity, all.clone().filter(|one| *one == severity).count()))
        .into_iter()
        .filter(|&(_, count)| count > 0)
        .collect()
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

fn escaped(text: &str) -> String {
    match escape(text, Html) {
        Ok(escaped) => escaped.0.to_string(),
        Err(never) => match never {},
    }
}

/// A column's marks in Chebotko's notation.
fn marks(column: &ColumnReport) -> String {
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

fn moment(time: Timestamp) -> String {
    time.strftime("%-d %B %Y, %H:%M").to_string()
}

fn p50_p99(numbers: &Quantiles) -> String {
    if numbers.steps.is_empty() {
        return "–".to_owned();
    }
    format!("{} · {}", number::count(numbers.p50), number::count(numbers.p99))
}

/// What is worth drawing beside a pattern's latency.
fn second_chart(pattern: &PatternReport) -> Option<Chart> {
    let partitions = (
        "partitions of one execution",
        Unit::Count,
        &pattern.partitions.numbers.steps,
    );
    let rows = ("rows of one answer", Unit::Count, &pattern.rows.steps);
    let bytes = ("size of one answer", Unit::Bytes, &pattern.response_bytes.steps);
    let (label, unit, steps) = [partitions, rows, bytes]
        .into_iter()
        .find(|(.., steps)| steps.len() > 1)?;
    Some(Chart {
        label,
        unit,
        steps: steps.clone(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        report::testing::{busy_report, report},
        rules::testing::window,
    };

    fn html(report: &Report) -> String {
        let mut html = Vec::new();
        render(report, &mut html).unwrap();
        String::from_utf8(html).unwrap()
    }

    #[test]
    fn hostile_text_stays_text() {
        let page = html(&busy_report());
        assert!(
            page.contains("&#60;script&#62;alert(1)&#60;/script&#62;"),
            "the client's name is shown"
        );
        assert!(!page.contains("<script"), "no element is made of it");
        assert_eq!(prose("`a<b` & \"c\"").0, "<code>a&#60;b</code> &#38; &#34;c&#34;");
        assert_eq!(prose("an odd ` backtick").0, "an odd ` backtick");
    }

    #[test]
    fn what_is_accepted_or_gone_is_shown_with_what_is_said_of_it() {
        let report = busy_report();
        assert!(!report.accepted.is_empty() && !report.idle_acceptances.is_empty());
        let page = html(&report);
        for said in [
            "Accepted by team &#60;b&#62; until 1 March 2027: it is <code>rare</code> &#38; &#60;i&#62;cheap&#60;/i&#62; (cqlens.toml:7).",
            "Was accepted by team &#60;b&#62; until 1 March 2026, which is over",
            "Nothing here matches what is accepted by team &#60;b&#62; until 1 March 2027: <code>counter-batch</code> (cqlens.toml:7).",
            "A mistake:</b> The comment of <code>lab.users_by_id</code> says <code>cqlens:accept &#60;u&#62; select-star</code>",
            "Gone since the last review",
            "1 accepted</span></td>",
            "<span class=\"new\">new</span>",
        ] {
            assert!(page.contains(said), "{said}");
        }
    }

    #[test]
    fn the_file_needs_nothing_but_itself() {
        let page = html(&busy_report());
        for outside in [
            "http:", "https:", "url(", "@import", "src=", "<link", "<iframe", "onclick",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn every_link_leads_somewhere_and_every_id_is_unique() {
        let page = html(&busy_report());
        let after = |mark: &str| -> Vec<String> {
            let rest = page.split(mark).skip(1);
            rest.map(|rest| rest.split('"').next().unwrap().to_owned())
                .collect()
        };
        let ids = after(" id=\"");
        let unique: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len());
        for link in after("href=\"#") {
            assert!(unique.contains(&link), "#{link}");
        }
    }

    #[test]
    fn every_picture_has_a_label_or_is_not_read_out() {
        for svg in html(&busy_report()).split("<svg").skip(1) {
            let tag = svg.split('>').next().unwrap();
            assert!(
                tag.contains("aria-label=\"") || tag.contains("aria-hidden"),
                "{tag}"
            );
        }
    }

    #[test]
    fn every_element_is_closed_in_order() {
        const VOID: [&str; 6] = ["meta", "br", "rect", "path", "line", "!doctype"];
        for report in [busy_report(), report(&window([]))] {
            let page = html(&report);
            let body = page.split_once("</style>").unwrap().1;
            let mut open = vec!["html", "head"];
            for tag in body
                .split('<')
                .skip(1)
                .map(|rest| rest.split('>').next().unwrap())
            {
                let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
                if tag.starts_with('/') {
                    assert_eq!(open.pop(), Some(name), "{tag}");
                } else if !VOID.contains(&name) || (name == "rect" && !tag.ends_with('/')) {
                    open.push(name);
                }
            }
            assert_eq!(open, Vec::<&str>::new());
        }
    }

    #[test]
    fn an_empty_window_does_not_look_healthy() {
        let page = html(&report(&window([])));
        assert!(page.contains("No requests were seen."));
        assert!(page.contains("<dd>–</dd>"), "figures are absent, not zero");
        assert!(!page.contains("100 %"));
        assert!(
            page.contains("allow-filtering</span>"),
            "the rules that ran are named"
        );
    }
}
