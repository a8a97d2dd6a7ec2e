//! What leads where: patterns, findings, problems, tables and applications by their names, and the ids of what the page
//! shows of them. A link is made only to what is there.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{FindingReport, PatternReport, ProblemReport, Report, TableReport, summary::cql_of_all};
use super::problem::MOST_NOTES;
use cqlens_cql::plan::StatementKind;
use cqlens_rules::{Severity, StableId};
use cqlens_window::PatternId;

/// More patterns than this are for programs.
const MOST_PATTERNS: usize = 500;
/// What an architect reads of one table.
const MOST_OF_A_TABLE: usize = 40;
pub(super) const MOST_TABLES: usize = 200;
pub(super) const MOST_APPLICATIONS: usize = 50;

/// A problem with its place in the list; notes have none.
#[derive(Clone, Copy)]
pub(super) struct Ranked<'a> {
    pub(super) rank: usize,
    pub(super) problem: &'a ProblemReport,
}

/// Everything by its name.
pub(super) struct Index<'a> {
    patterns: BTreeMap<PatternId, &'a PatternReport>,
    findings: BTreeMap<StableId, &'a FindingReport>,
    /// Those above info, the severest first.
    pub(super) problems: Vec<Ranked<'a>>,
    /// The others.
    pub(super) notes: Vec<&'a ProblemReport>,
    by_pattern: BTreeMap<PatternId, Vec<(Option<usize>, &'a FindingReport)>>,
    by_table: BTreeMap<String, Vec<Ranked<'a>>>,
    by_application: BTreeMap<&'a str, Vec<Ranked<'a>>>,
    tables: BTreeSet<String>,
    applications: BTreeSet<&'a str>,
    /// The patterns of each table that are shown there.
    shown_of: BTreeMap<String, Vec<&'a PatternReport>>,
    /// Shown patterns that are on no table that is shown.
    pub(super) others: Vec<&'a PatternReport>,
    shown: BTreeSet<PatternId>,
    /// Findings whose advice stands before them in the same problem, or among the notes.
    repeated: BTreeSet<StableId>,
    /// Definitions of tables and the like, which are no patterns among reads.
    pub(super) definitions: Vec<&'a PatternReport>,
    /// Patterns that are not shown.
    pub(super) left_out: usize,
}

impl<'a> Index<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let findings: BTreeMap<_, _> = report.findings.iter().map(|one| (one.id, one)).collect();
        let (problems, notes): (Vec<_>, Vec<_>) = report
            .problems
            .iter()
            .partition(|problem| problem.severity > Severity::Info);
        let problems = (1..).zip(problems);
        let mut index = Self {
            patterns: report.patterns.iter().map(|one| (one.id, one)).collect(),
            findings,
            problems: problems.map(|(rank, problem)| Ranked { rank, problem }).collect(),
            notes,
            by_pattern: BTreeMap::new(),
            by_table: BTreeMap::new(),
            by_application: BTreeMap::new(),
            tables: report.tables.iter().take(MOST_TABLES).map(name_of).collect(),
            applications: report
                .applications
                .iter()
                .take(MOST_APPLICATIONS)
                .map(|application| application.name.as_str())
                .collect(),
            shown_of: BTreeMap::new(),
            others: Vec::new(),
            shown: BTreeSet::new(),
            repeated: BTreeSet::new(),
            definitions: Vec::new(),
            left_out: 0,
        };
        index.judge();
        index.advise();
        index.place(&report.patterns);
        index
    }

    /// What was found on each pattern and table, and of each application.
    fn judge(&mut self) {
        for ranked in self.problems.clone() {
            let mut tables = BTreeSet::new();
            for finding in self.findings_of(ranked.problem) {
                for &pattern in &finding.patterns {
                    let found = self.by_pattern.entry(pattern).or_default();
                    found.push((Some(ranked.rank), finding));
                }
                tables.extend(full_name(finding.keyspace.as_deref(), finding.table.as_deref()));
            }
            for table in tables {
                self.by_table.entry(table).or_default().push(ranked);
            }
            for application in &ranked.problem.applications {
                let problems = self.by_application.entry(application).or_default();
                problems.push(ranked);
            }
        }
        for note in self.notes.clone() {
            for finding in self.findings_of(note) {
                for &pattern in &finding.patterns {
                    self.by_pattern.entry(pattern).or_default().push((None, finding));
                }
            }
        }
    }

    /// Whose advice has been given before.
    fn advise(&mut self) {
        let mut repeated = BTreeSet::new();
        let mut advise = |findings: Vec<&'a FindingReport>| {
            let mut given = BTreeSet::new();
            let again = findings
                .into_iter()
                .filter(|finding| !given.insert(&finding.advice));
            repeated.extend(again.map(|finding| finding.id));
        };
        for ranked in &self.problems {
            advise(self.findings_of(ranked.problem));
        }
        let notes = self.notes.iter().take(MOST_NOTES);
        advise(notes.flat_map(|note| self.findings_of(note)).collect());
        self.repeated = repeated;
    }

    /// Where each pattern is shown, the costliest first.
    fn place(&mut self, patterns: &'a [PatternReport]) {
        for pattern in patterns {
            if matches!(pattern.kind, StatementKind::Ddl) {
                self.definitions.push(pattern);
                continue;
            }
            let table = full_name(pattern.keyspace.as_deref(), pattern.table.as_deref());
            let table = table.filter(|table| self.tables.contains(table));
            let room = match &table {
                Some(table) => self.shown_of.entry(table.clone()).or_default(),
                None => &mut self.others,
            };
            if self.shown.len() >= MOST_PATTERNS || room.len() >= MOST_OF_A_TABLE {
                self.left_out += 1;
                continue;
            }
            room.push(pattern);
            self.shown.insert(pattern.id);
        }
    }

    pub(super) fn pattern(&self, id: PatternId) -> Option<&'a PatternReport> {
        self.patterns.get(&id).copied()
    }

    pub(super) fn is_shown(&self, id: PatternId) -> bool {
        self.shown.contains(&id)
    }

    /// The findings of a problem, the one that says it best first.
    pub(super) fn findings_of(&self, problem: &ProblemReport) -> Vec<&'a FindingReport> {
        let ids = problem.findings.iter();
        ids.filter_map(|id| self.findings.get(id).copied()).collect()
    }

    /// The same with the CQL that is printed with each.
    pub(super) fn with_cql(&self, problem: &ProblemReport) -> Vec<(&'a FindingReport, Vec<&'a str>)> {
        let findings = self.findings_of(problem);
        let cql = cql_of_all(&findings);
        findings.into_iter().zip(cql).collect()
    }

    /// Whether a finding that comes before it in its problem, or among the notes, gives the same advice.
    pub(super) fn is_repeated(&self, finding: &FindingReport) -> bool {
        self.repeated.contains(&finding.id)
    }

    /// What was found on a pattern, with the rank of its problem; notes have none.
    pub(super) fn found_on(&self, pattern: &PatternReport) -> &[(Option<usize>, &'a FindingReport)] {
        self.by_pattern.get(&pattern.id).map_or(&[], Vec::as_slice)
    }

    /// The problems that a pattern is part of, the severest first.
    pub(super) fn problems_of(&self, pattern: &PatternReport) -> Vec<Ranked<'a>> {
        let ranks: BTreeSet<_> = self
            .found_on(pattern)
            .iter()
            .filter_map(|(rank, _)| *rank)
            .collect();
        let problems = ranks
            .into_iter()
            .filter_map(|rank| self.problems.get(rank.checked_sub(1)?));
        problems.copied().collect()
    }

    pub(super) fn problems_on(&self, table: &TableReport) -> &[Ranked<'a>] {
        self.by_table.get(&name_of(table)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn problems_by(&self, application: &str) -> &[Ranked<'a>] {
        self.by_application.get(application).map_or(&[], Vec::as_slice)
    }

    pub(super) fn shown_on(&self, table: &TableReport) -> &[&'a PatternReport] {
        self.shown_of.get(&name_of(table)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn has_table(&self, name: &str) -> bool {
        self.tables.contains(name)
    }

    pub(super) fn has_application(&self, name: &str) -> bool {
        self.applications.contains(name)
    }
}

/// `keyspace.table`.
pub(super) fn name_of(table: &TableReport) -> String {
    format!("{}.{}", table.keyspace, table.table)
}

pub(super) fn full_name(keyspace: Option<&str>, table: Option<&str>) -> Option<String> {
    let (keyspace, table) = keyspace.zip(table)?;
    Some(format!("{keyspace}.{table}"))
}

/// The id of something with a name: letters, digits, dots and underscores as they are, everything else by its number,
/// so that no two names have one id and none means anything in HTML or in an address.
pub(super) fn id(kind: char, name: &str) -> String {
    let mut id = format!("{kind}-");
    for letter in name.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' => id.push(letter),
            other => id += &format!("-{:x}-", u32::from(other)),
        }
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_means_nothing_and_is_of_one_name_only() {
        assert_eq!(id('t', "shop.orders_by_day"), "t-shop.orders_by_day");
        assert_eq!(id('a', "lab portal"), "a-lab-20-portal");
        assert_eq!(id('a', "\"><b"), "a--22--3e--3c-b");
        assert_ne!(id('a', "a-20-b"), id('a', "a b"));
    }
}
