//! A report table by table, as a team goes through its data model: on each table its problems and its statements.
//!
//! The lists of the report stay in their order: this says where each of their members belongs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{FindingReport, PatternReport, ProblemReport, Report, TableReport};
use cqlens_rules::{Severity, StableId, work};
use cqlens_window::PatternId;

/// A keyspace and a table; none of what is of no single table.
type TableKey<'r> = (Option<&'r str>, Option<&'r str>);

/// What a report has on one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TableGroup {
    /// Its keyspace; null if it belongs to none.
    pub keyspace: Option<String>,
    /// Its name; null for what belongs to no single table.
    pub table: Option<String>,
    /// The severity of its severest problem; null if it has none.
    pub severity: Option<Severity>,
    /// Its problems by their ids, the severest first.
    pub problems: Vec<StableId>,
    /// Its findings by their ids, the severest first.
    pub findings: Vec<StableId>,
    /// Its patterns by their ids, the costliest first.
    pub patterns: Vec<PatternId>,
}

/// Problems with their ranks among all, patterns and figures by table, each in the order of the report.
#[derive(Default)]
pub(super) struct OnTables<'r> {
    problems: BTreeMap<TableKey<'r>, Vec<(usize, &'r ProblemReport)>>,
    patterns: BTreeMap<TableKey<'r>, Vec<&'r PatternReport>>,
    tables: BTreeMap<TableKey<'r>, &'r TableReport>,
}

impl<'r> OnTables<'r> {
    pub(super) fn problems(&self, group: &'r TableGroup) -> &[(usize, &'r ProblemReport)] {
        work::look(1);
        self.problems
            .get(&group.place())
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    pub(super) fn patterns(&self, group: &'r TableGroup) -> &[&'r PatternReport] {
        work::look(1);
        self.patterns
            .get(&group.place())
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    pub(super) fn table(&self, group: &'r TableGroup) -> Option<&'r TableReport> {
        work::look(1);
        self.tables.get(&group.place()).copied()
    }
}

impl TableGroup {
    fn of((keyspace, table): TableKey<'_>) -> Self {
        Self {
            keyspace: keyspace.map(str::to_owned),
            table: table.map(str::to_owned),
            severity: None,
            problems: Vec::new(),
            findings: Vec::new(),
            patterns: Vec::new(),
        }
    }

    fn place(&self) -> TableKey<'_> {
        (self.keyspace.as_deref(), self.table.as_deref())
    }

    /// `keyspace.table`, or the keyspace alone; none of what is of neither.
    pub fn name(&self) -> Option<String> {
        let names: Vec<_> = [&self.keyspace, &self.table]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        (!names.is_empty()).then(|| names.join("."))
    }

    /// How many problems there are of each severity, the greatest first: `2 high, 1 low`.
    pub fn severities(&self, report: &Report) -> String {
        let problems: Vec<_> = report.problems_of(self).collect();
        let counted = [Severity::High, Severity::Medium, Severity::Low, Severity::Info].map(|severity| {
            let of_it = problems
                .iter()
                .filter(|(_, problem)| problem.severity == severity);
            (severity, of_it.count())
        });
        let counted = counted.iter().filter(|(_, count)| *count > 0);
        let counted: Vec<_> = counted
            .map(|(severity, count)| format!("{count} {severity}"))
            .collect();
        counted.join(", ")
    }
}

impl Report {
    /// The same table by table: the table with the worst problem first, those without problems by their traffic, and what
    /// belongs to no single table at the end.
    #[must_use]
    pub fn table_by_table(mut self) -> Self {
        let mut groups: Vec<TableGroup> = Vec::new();
        let mut places: BTreeMap<(Option<String>, Option<String>), usize> = BTreeMap::new();
        let mut group = |(keyspace, table): TableKey<'_>| -> usize {
            let name = (keyspace.map(str::to_owned), table.map(str::to_owned));
            *places.entry(name).or_insert_with(|| {
                groups.push(TableGroup::of((keyspace, table)));
                groups.len() - 1
            })
        };
        let problems: Vec<_> = self.problems.iter().map(|one| group(place_of(one))).collect();
        for table in &self.tables {
            group((Some(&table.keyspace), Some(&table.table)));
        }
        let findings: Vec<_> = self
            .findings
            .iter()
            .map(|one| group(finding_place(one)))
            .collect();
        let patterns: Vec<_> = self
            .patterns
            .iter()
            .map(|one| group(pattern_place(one)))
            .collect();
        for (at, problem) in problems.into_iter().zip(&self.problems) {
            groups[at].problems.push(problem.id);
            groups[at].severity = groups[at].severity.max(Some(problem.severity));
        }
        for (at, finding) in findings.into_iter().zip(&self.findings) {
            groups[at].findings.push(finding.id);
        }
        for (at, pattern) in patterns.into_iter().zip(&self.patterns) {
            groups[at].patterns.push(pattern.id);
        }
        // Of neither a table nor a keyspace: an application, the cluster.
        groups.sort_by_key(|group| group.table.is_none());
        self.by_table = Some(groups);
        self
    }

    /// The problems of a table with their ranks among all.
    pub(super) fn problems_of<'r>(
        &'r self,
        group: &'r TableGroup,
    ) -> impl Iterator<Item = (usize, &'r ProblemReport)> {
        let problems = (1..).zip(&self.problems);
        problems.filter(|(_, problem)| place_of(problem) == group.place())
    }

    /// What is on each table, sorted once for all of them.
    pub(super) fn on_tables(&self) -> OnTables<'_> {
        let mut all = OnTables::default();
        for ranked in (1..).zip(&self.problems) {
            all.problems.entry(place_of(ranked.1)).or_default().push(ranked);
        }
        for pattern in &self.patterns {
            all.patterns
                .entry(pattern_place(pattern))
                .or_default()
                .push(pattern);
        }
        for table in &self.tables {
            let place = (Some(table.keyspace.as_str()), Some(table.table.as_str()));
            all.tables.entry(place).or_insert(table);
        }
        work::look(self.problems.len() + self.patterns.len() + self.tables.len());
        all
    }
}

fn place_of(problem: &ProblemReport) -> TableKey<'_> {
    (problem.keyspace.as_deref(), problem.table.as_deref())
}

fn finding_place(finding: &FindingReport) -> TableKey<'_> {
    (finding.keyspace.as_deref(), finding.table.as_deref())
}

fn pattern_place(pattern: &PatternReport) -> TableKey<'_> {
    (pattern.keyspace.as_deref(), pattern.table.as_deref())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Format, testing};

    #[test]
    fn each_problem_finding_and_statement_is_on_its_table_once() {
        let whole = testing::busy_report();
        let report = whole.clone().table_by_table();
        let groups = report.by_table.clone().unwrap();
        let count = |of: fn(&TableGroup) -> usize| groups.iter().map(of).sum::<usize>();
        assert_eq!(count(|group| group.problems.len()), whole.problems.len());
        assert_eq!(count(|group| group.findings.len()), whole.findings.len());
        assert_eq!(count(|group| group.patterns.len()), whole.patterns.len());
        assert_eq!(
            groups[0].name().as_deref(),
            Some("work.jobs"),
            "the table of the worst problem"
        );
        let is_last = groups.iter().rev().skip_while(|group| group.table.is_none());
        assert!(is_last.into_iter().all(|group| group.table.is_some()));
        let all = report.on_tables();
        for group in &groups {
            let problems: Vec<_> = report.problems_of(group).map(|(_, problem)| problem.id).collect();
            assert_eq!(problems, group.problems);
            assert_eq!(report.problems_of(group).collect::<Vec<_>>(), all.problems(group));
            assert_eq!(all.patterns(group).len(), group.patterns.len());
        }
    }

    #[test]
    fn the_lists_of_the_json_form_stay_as_they_are() {
        let json = |report: &Report| -> serde_json::Value {
            let mut json = Vec::new();
            report.render(Format::Json, &mut json).unwrap();
            serde_json::from_slice(&json).unwrap()
        };
        let whole = json(&testing::busy_report());
        let mut by_table = json(&testing::busy_report().table_by_table());
        assert_eq!(by_table["by_table"][0]["table"], "jobs");
        assert_eq!(by_table["by_table"][0]["severity"], "high");
        by_table.as_object_mut().unwrap().remove("by_table");
        assert_eq!(by_table, whole);
    }

    #[test]
    fn a_spreadsheet_has_the_statements_of_a_table_together() {
        let report = testing::busy_report().table_by_table();
        let mut text = Vec::new();
        report.render(Format::Csv, &mut text).unwrap();
        let mut read = csv::Reader::from_reader(&text[..]);
        let lines: Vec<_> = read.records().map(Result::unwrap).collect();
        assert_eq!(lines.len(), report.patterns.len());
        let tables: Vec<_> = lines
            .iter()
            .map(|line| (line[1].to_owned(), line[2].to_owned()))
            .collect();
        let mut apart = tables.clone();
        apart.dedup();
        let different: std::collections::BTreeSet<_> = tables.iter().collect();
        assert_eq!(apart.len(), different.len(), "{tables:?}");
        assert_eq!(tables[0], ("work".to_owned(), "jobs".to_owned()));
    }
}
