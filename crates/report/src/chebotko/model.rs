//! What is drawn: tables, the queries that enter them, the joins between them.

use std::collections::{BTreeMap, BTreeSet};

use cqlens_cql::syntax::{
    self,
    ast::{Body, Statement},
};

use super::super::{ColumnReport, PatternReport, Report, SequenceReport, TableReport, html};
use cqlens_cql::footprint::PartitionClass;
use cqlens_rules::Severity;
use cqlens_window::{PatternId, number};

/// Queries of a table that are drawn; the others are counted.
const MOST_QUERIES: usize = 5;

/// Columns of a table that are drawn; the others are counted.
const MOST_COLUMNS: usize = 16;

/// The diagram of one keyspace.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) keyspace: String,
    pub(super) tables: Vec<Table>,
    pub(super) joins: Vec<Join>,
}

/// A table or view.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    /// What is below the columns: how often it is written, what is not drawn.
    pub(super) footer: String,
    /// Written, and never read.
    pub(super) is_unread: bool,
    pub(super) queries: Vec<Query>,
}

/// A column: name, physical type, marks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) data_type: String,
    pub(super) marks: String,
}

/// A query that enters a table.
#[derive(Debug)]
pub(super) struct Query {
    /// `Q1 hotels near a point of interest`, or the columns that it restricts.
    pub(super) label: String,
    /// How often it comes.
    pub(super) figures: String,
    pub(super) verdict: ArrowVerdict,
    /// Executions a minute.
    pub(super) per_minute: f64,
    /// The pattern, where the page has a place for it.
    pub(super) link: Option<PatternId>,
}

/// Rows of one table that lead to rows of another one, in the client.
#[derive(Debug)]
pub(super) struct Join {
    /// Indexes of the tables.
    pub(super) from: usize,
    pub(super) to: usize,
    /// `× 20, one after the other`.
    pub(super) label: String,
    /// Operations in the report.
    pub(super) figures: String,
    pub(super) verdict: ArrowVerdict,
    pub(super) per_minute: f64,
}

/// What the rules say of an arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArrowVerdict {
    /// Nothing above info.
    Fine,
    Low,
    Medium,
    High,
    /// No key and no index serves it.
    Unserved,
}

impl Model {
    /// The page around it has a place for the patterns that are shown.
    pub(super) fn of(report: &Report, keyspace: &str, is_shown: &dyn Fn(PatternId) -> bool) -> Self {
        let of_keyspace = report
            .tables
            .iter()
            .filter(|table| table.keyspace == keyspace && !table.columns.is_empty());
        let tables: Vec<_> = of_keyspace.collect();
        let facts = QueryFacts::of(report, &tables);
        Self {
            keyspace: keyspace.to_owned(),
            joins: joins(report, &tables),
            tables: tables
                .iter()
                .map(|table| Table::of(report, table, &facts, is_shown))
                .collect(),
        }
    }
}

/// What is looked up for each table, query and join.
struct QueryFacts<'r> {
    /// Patterns of the tables that are drawn, by their ids.
    patterns: BTreeMap<PatternId, &'r PatternReport>,
    /// The worst that was found on each of them.
    severities: BTreeMap<PatternId, Severity>,
    /// The patterns that follow another read: they are arrows between tables.
    follow_ups: BTreeSet<&'r str>,
}

impl<'r> QueryFacts<'r> {
    fn of(report: &'r Report, tables: &[&TableReport]) -> Self {
        let drawn: BTreeSet<_> = tables.iter().flat_map(|table| &table.patterns).collect();
        let patterns = report
            .patterns
            .iter()
            .filter(|pattern| drawn.contains(&pattern.id));
        let mut severities = BTreeMap::new();
        for finding in &report.findings {
            for id in finding.patterns.iter().filter(|id| drawn.contains(id)) {
                let worst = severities.entry(*id).or_insert(finding.severity);
                *worst = finding.severity.max(*worst);
            }
        }
        let joins = report.sequences.iter().filter(|sequence| is_join(sequence));
        Self {
            patterns: patterns.map(|pattern| (pattern.id, pattern)).collect(),
            severities,
            follow_ups: joins
                .flat_map(|sequence| sequence.patterns.iter().skip(1).map(String::as_str))
                .collect(),
        }
    }
}

impl Table {
    fn of(
        report: &Report,
        table: &TableReport,
        facts: &QueryFacts<'_>,
        is_shown: &dyn Fn(PatternId) -> bool,
    ) -> Self {
        let reads = table
            .patterns
            .iter()
            .filter_map(|id| facts.patterns.get(id).copied());
        let reads = reads.filter(|pattern| {
            pattern.kind.is_read() && !facts.follow_ups.contains(pattern.id.to_string().as_str())
        });
        let mut queries: Vec<_> = reads
            .clone()
            .take(MOST_QUERIES)
            .map(|pattern| Query {
                link: is_shown(pattern.id).then_some(pattern.id),
                ..Query::of(pattern, facts)
            })
            .collect();
        name_queries(&mut queries, &table.comment);
        Self {
            name: table.table.clone(),
            columns: table.columns.iter().take(MOST_COLUMNS).map(Column::of).collect(),
            footer: footer(report, table, reads.count()),
            is_unread: table.reads == 0 && table.writes > 0,
            queries,
        }
    }
}

/// What is not said by columns and arrows.
fn footer(report: &Report, table: &TableReport, reads: usize) -> String {
    let mut parts = Vec::new();
    if let Some(base) = &table.view_of {
        parts.push(format!("view of {base}"));
    }
    if table.writes > 0 {
        parts.push(format!(
            "written {}",
            number::frequency(table.writes, report.seconds())
        ));
    }
    if table.reads == 0 {
        parts.push("not read".to_owned());
    }
    let more = |all: usize, most: usize, one, many| match all.saturating_sub(most) {
        0 => None,
        more => Some(format!("+ {}", number::plural(more as u64, one, many))),
    };
    parts.extend(more(table.columns.len(), MOST_COLUMNS, "column", "columns"));
    parts.extend(more(reads, MOST_QUERIES, "query", "queries"));
    parts.join(" · ")
}

impl Column {
    fn of(column: &ColumnReport) -> Self {
        Self {
            name: column.name.clone(),
            data_type: physical_type(column),
            marks: html::marks(column),
        }
    }
}

/// The type in CQL; a user-defined one between asterisks.
fn physical_type(column: &ColumnReport) -> String {
    let cql = &column.data_type;
    let frozen = cql
        .strip_prefix("frozen<")
        .and_then(|inner| inner.strip_suffix('>'));
    match column.is_user_defined {
        true => format!("*{}*", frozen.unwrap_or(cql)),
        false => cql.clone(),
    }
}

impl Query {
    fn of(pattern: &PatternReport, facts: &QueryFacts<'_>) -> Self {
        Self {
            label: restrictions(pattern),
            figures: number::frequency(pattern.count, pattern.observed_seconds),
            verdict: ArrowVerdict::of_pattern(pattern, facts),
            per_minute: per_minute(pattern.count, pattern.observed_seconds),
            link: None,
        }
    }
}

fn per_minute(times: u64, seconds: f64) -> f64 {
    match seconds > 0.0 {
        true => times as f64 * 60.0 / seconds,
        false => 0.0,
    }
}

/// What a query asks by: `by hotel_id, date`.
fn restrictions(pattern: &PatternReport) -> String {
    let columns = restricted_columns(pattern);
    match (columns.is_empty(), pattern.partitions.class) {
        (true, _) => "all rows".to_owned(),
        (false, PartitionClass::TokenRange) => "a part of the ring".to_owned(),
        (false, _) => format!("by {}", columns.join(", ")),
    }
}

/// The restricted columns in the order of the statement; none of what is no SELECT.
fn restricted_columns(pattern: &PatternReport) -> Vec<String> {
    let Ok(Statement {
        body: Body::Select(select),
        ..
    }) = syntax::parse(&pattern.cql)
    else {
        return Vec::new();
    };
    let relations = select.where_clause.relations.iter();
    let names = relations.flat_map(|relation| relation.subject.columns());
    let mut columns = Vec::new();
    for name in names {
        let name = name.as_str().to_owned();
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    columns
}

/// Gives the busiest query that is served the name that the table's comment has for it: `Q4. Find available rooms`.
fn name_queries(queries: &mut [Query], comment: &str) {
    let Some((number, words)) = named_query(comment) else {
        return;
    };
    let served = queries
        .iter_mut()
        .find(|query| query.verdict != ArrowVerdict::Unserved);
    if let Some(query) = served {
        query.label = format!("{number} {words}").trim().to_owned();
    }
}

/// `("Q4", "Find available rooms")` of `Q4. Find available rooms`.
fn named_query(comment: &str) -> Option<(&str, &str)> {
    let digits = comment.strip_prefix('Q')?;
    let end = digits
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(digits.len());
    let words = digits.get(end..)?.trim_start_matches(['.', ':', ')', ' ']);
    (end > 0).then_some((comment.get(..=end)?, words))
}

impl ArrowVerdict {
    fn of_pattern(pattern: &PatternReport, facts: &QueryFacts<'_>) -> Self {
        let is_refused = pattern.count > 0 && pattern.errors == pattern.count;
        let is_filtered =
            pattern.partitions.class == PartitionClass::Scan && !restricted_columns(pattern).is_empty();
        match is_refused || is_filtered {
            true => Self::Unserved,
            false => Self::of(facts.severities.get(&pattern.id).copied()),
        }
    }

    fn of(severity: Option<Severity>) -> Self {
        match severity {
            None | Some(Severity::Info) => Self::Fine,
            Some(Severity::Low) => Self::Low,
            Some(Severity::Medium) => Self::Medium,
            Some(Severity::High) => Self::High,
        }
    }
}

fn is_join(sequence: &SequenceReport) -> bool {
    matches!(sequence.kind, "client-join" | "index-table-lookup")
}

/// The steps between two tables that are drawn, each pair once: the widest.
fn joins(report: &Report, tables: &[&TableReport]) -> Vec<Join> {
    let names = tables
        .iter()
        .map(|table| format!("{}.{}", table.keyspace, table.table));
    let places: BTreeMap<String, usize> = names.zip(0..).collect();
    let index = |name: &String| places.get(name).copied();
    let findings = by_rule(report);
    let mut joins: Vec<Join> = Vec::new();
    for sequence in report.sequences.iter().filter(|sequence| is_join(sequence)) {
        for step in &sequence.steps {
            let (Some(from), Some(to)) = (index(&step.from), index(&step.to)) else {
                continue;
            };
            let is_drawn = joins.iter().any(|join| (join.from, join.to) == (from, to));
            if from == to || is_drawn {
                continue;
            }
            let times = number::decimal((step.fan_out.mean * 10.0).round() / 10.0);
            joins.push(Join {
                from,
                to,
                label: format!("× {times} in the client"),
                figures: number::frequency(sequence.count, report.seconds()),
                verdict: ArrowVerdict::of(severity_of(&findings, sequence)),
                per_minute: per_minute(sequence.count, report.seconds()) * step.fan_out.mean,
            });
        }
    }
    joins
}

/// The worst that a rule found on a pattern, by the rule and the pattern as operations name them.
type ByRule = BTreeMap<(&'static str, String), Severity>;

fn by_rule(report: &Report) -> ByRule {
    let joins = report.sequences.iter().filter(|sequence| is_join(sequence));
    let rules: BTreeSet<_> = joins.map(|sequence| sequence.rule).collect();
    let mut worst = ByRule::new();
    for finding in report
        .findings
        .iter()
        .filter(|finding| rules.contains(finding.rule))
    {
        for id in &finding.patterns {
            let severity = worst
                .entry((finding.rule, id.to_string()))
                .or_insert(finding.severity);
            *severity = finding.severity.max(*severity);
        }
    }
    worst
}

/// What was found on the statements of an operation by the rule that it belongs to.
fn severity_of(findings: &ByRule, sequence: &SequenceReport) -> Option<Severity> {
    let patterns = sequence.patterns.iter();
    let severities = patterns.filter_map(|id| findings.get(&(sequence.rule, id.clone())).copied());
    severities.max()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{ColumnRole, testing};

    #[test]
    fn names_of_queries_are_taken_from_comments() {
        assert_eq!(
            named_query("Q4. Find available rooms"),
            Some(("Q4", "Find available rooms"))
        );
        assert_eq!(named_query("Q12"), Some(("Q12", "")));
        assert_eq!(named_query("Quarterly figures"), None);
        assert_eq!(named_query("by hotel"), None);
    }

    #[test]
    fn types_of_users_stand_between_asterisks() {
        for (cql, is_user_defined, shown) in [
            ("text", false, "text"),
            ("frozen<address>", true, "*address*"),
            ("address", true, "*address*"),
            ("frozen<list<int>>", false, "frozen<list<int>>"),
        ] {
            let column = ColumnReport {
                name: "c".to_owned(),
                data_type: cql.to_owned(),
                is_user_defined,
                kind: ColumnRole::Regular,
                indexed: false,
                index_reads: None,
            };
            assert_eq!(physical_type(&column), shown);
        }
    }

    #[test]
    fn reads_enter_tables_and_what_nothing_serves_is_marked() {
        let report = testing::busy_report();
        let model = Model::of(&report, "lab", &|_| false);
        let queries = model.tables.iter().flat_map(|table| &table.queries);
        assert!(queries.clone().count() > 0);
        assert!(
            queries
                .clone()
                .any(|query| query.verdict == ArrowVerdict::Unserved)
        );
        assert!(queries.clone().all(|query| !query.label.is_empty()));
    }
}
