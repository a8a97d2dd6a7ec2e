//! A part of a report: of some keyspaces, tables, clients or rules, or the worst of all.
//!
//! Totals and shares stay those of the whole traffic, so that the same figure means the same in every part.

use std::collections::{BTreeMap, BTreeSet};

use super::{Baseline, ComparedPattern, FindingReport, PatternReport, Report, TableGroup, summary};
use cqlens_rules::{Severity, StableId};
use cqlens_window::{PatternId, number};

/// What is shown; what is not named is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Selection {
    /// Only this keyspace
    ///
    /// Several may be given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEYSPACE"))]
    pub keyspace: Vec<String>,
    /// Only this table, with or without its keyspace
    ///
    /// Several may be given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "TABLE"))]
    pub table: Vec<String>,
    /// Only statements of this client, by its name in the report
    ///
    /// Several may be given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "CLIENT"))]
    pub client: Vec<String>,
    /// Only findings of this rule
    ///
    /// Several may be given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "RULE"))]
    pub rule: Vec<String>,
    /// Only findings of this severity or above
    #[cfg_attr(feature = "clap", arg(long, value_name = "SEVERITY"))]
    pub min_severity: Option<Severity>,
    /// Maximum number of problems, statements and tables
    ///
    /// The worst, the costliest and the busiest are shown.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NUMBER"))]
    pub top: Option<usize>,
    /// Group by table instead of by severity
    ///
    /// Each table with its problems and statements, the table with the worst problem first.
    #[cfg_attr(feature = "clap", arg(long))]
    pub by_table: bool,
}

impl Selection {
    fn has_place(&self, keyspace: Option<&str>, table: Option<&str>) -> bool {
        let is_named = |name: &String| match name.split_once('.') {
            Some((of, name)) => keyspace == Some(of) && table == Some(name),
            None => table == Some(name),
        };
        let of_keyspace = self.keyspace.is_empty() || self.keyspace.iter().any(|name| keyspace == Some(name));
        of_keyspace && (self.table.is_empty() || self.table.iter().any(is_named))
    }

    fn has_pattern(&self, pattern: &PatternReport) -> bool {
        let of_client =
            self.client.is_empty() || self.client.iter().any(|name| pattern.clients.contains_key(name));
        of_client && self.has_place(pattern.keyspace.as_deref(), pattern.table.as_deref())
    }

    fn has_rule(&self, rule: &str, severity: Severity) -> bool {
        let of_rule = self.rule.is_empty() || self.rule.iter().any(|name| name == rule);
        of_rule && self.min_severity.is_none_or(|least| severity >= least)
    }

    /// Whether a part of the traffic is left out, not only findings.
    fn is_of_traffic(&self) -> bool {
        !(self.keyspace.is_empty() && self.table.is_empty() && self.client.is_empty())
    }

    /// `keyspace shop, rule allow-filtering`; nothing where all is shown.
    fn shown(&self) -> Option<String> {
        let named = [
            ("keyspace", &self.keyspace),
            ("table", &self.table),
            ("client", &self.client),
            ("rule", &self.rule),
        ];
        let mut parts: Vec<_> = named
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what} `{}`", names.join("`, `")))
            .collect();
        parts.extend(
            self.min_severity
                .map(|severity| format!("severity {severity} and above")),
        );
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl Report {
    /// The part that is selected, but for [`Selection::top`], with a notice that says so.
    #[must_use]
    pub fn select(mut self, selection: &Selection) -> Self {
        let Some(shown) = selection.shown() else {
            return self;
        };
        self.patterns.retain(|pattern| selection.has_pattern(pattern));
        let patterns: BTreeSet<_> = self.patterns.iter().map(|pattern| pattern.id).collect();
        self.tables.retain(|table| {
            let is_read = table.patterns.iter().any(|id| patterns.contains(id));
            let of_client = selection.client.is_empty() || is_read;
            of_client && selection.has_place(Some(&table.keyspace), Some(&table.table))
        });
        let is_selected = |finding: &FindingReport| {
            let place = (finding.keyspace.as_deref(), finding.table.as_deref());
            selection.has_rule(finding.rule, finding.severity)
                && is_of(selection, place, &finding.patterns, &patterns)
        };
        self.findings.retain(is_selected);
        self.accepted.retain(is_selected);
        if selection.is_of_traffic() {
            let ids: BTreeSet<_> = patterns.iter().map(ToString::to_string).collect();
            self.sequences
                .retain(|sequence| sequence.patterns.iter().any(|id| ids.contains(id)));
            self.system_patterns.clear();
            self.keep_compared(|id| ids.contains(id));
        }
        if !selection.client.is_empty() {
            self.clients.retain(|name, _| selection.client.contains(name));
        }
        self.keep_problems_of_findings();
        self.keep_timeline();
        let notice =
            format!("Only part of the report is shown: {shown}. Totals and shares refer to all traffic.");
        self.notices.insert(notice.clone());
        self.coverage.notices.insert(notice);
        self.summary = summary::summarize(&summary::Facts::of(&self));
        self
    }

    /// The worst problems, the costliest statements and the busiest tables, or, of a report table by table, the worst
    /// tables with all that belongs to them; with a notice that counts the rest.
    #[must_use]
    pub fn keep_top(mut self, top: usize) -> Self {
        if let Some(groups) = self.by_table.take() {
            return self.keep_top_tables(groups, top);
        }
        let more = self.problems.len().saturating_sub(top);
        self.problems.truncate(top);
        let kept: BTreeSet<StableId> = self
            .problems
            .iter()
            .flat_map(|problem| problem.findings.iter().copied())
            .collect();
        self.findings.retain(|finding| kept.contains(&finding.id));
        self.patterns.truncate(top);
        self.tables.truncate(top);
        self.sequences.truncate(top);
        if let Some(comparison) = &mut self.comparison {
            comparison.patterns.truncate(top);
        }
        self.keep_timeline();
        if more > 0 {
            self.say_rest(top, more, "problems");
        }
        self
    }

    fn keep_top_tables(mut self, mut groups: Vec<TableGroup>, top: usize) -> Self {
        let more = groups.len().saturating_sub(top);
        groups.truncate(top);
        let problems: BTreeSet<_> = groups
            .iter()
            .flat_map(|group| group.problems.iter().copied())
            .collect();
        self.problems.retain(|problem| problems.contains(&problem.id));
        let findings: BTreeSet<_> = self
            .problems
            .iter()
            .flat_map(|problem| problem.findings.iter().copied())
            .collect();
        self.findings.retain(|finding| findings.contains(&finding.id));
        for group in &mut groups {
            group.findings.retain(|id| findings.contains(id));
        }
        let patterns: BTreeSet<_> = groups
            .iter()
            .flat_map(|group| group.patterns.iter().copied())
            .collect();
        self.patterns.retain(|pattern| patterns.contains(&pattern.id));
        let tables: BTreeSet<_> = groups.iter().filter_map(TableGroup::name).collect();
        self.tables
            .retain(|table| tables.contains(&format!("{}.{}", table.keyspace, table.table)));
        let ids: BTreeSet<_> = patterns.iter().map(ToString::to_string).collect();
        self.sequences
            .retain(|sequence| sequence.patterns.iter().any(|id| ids.contains(id)));
        self.keep_compared(|id| ids.contains(id));
        self.by_table = Some(groups);
        self.keep_timeline();
        if more > 0 {
            self.say_rest(top, more, "tables");
        }
        self
    }

    fn say_rest(&mut self, top: usize, more: usize, what: &str) {
        let notice = format!(
            "Shown here: the worst {} of {} {what}. The full report has the others.",
            number::exact(top as u64),
            number::exact((top + more) as u64)
        );
        self.notices.insert(notice.clone());
        self.coverage.notices.insert(notice);
    }

    /// Leaves of the comparison with another cluster the patterns that are left.
    fn keep_compared(&mut self, is_left: impl Fn(&str) -> bool) {
        let Some(comparison) = &mut self.comparison else {
            return;
        };
        let is_left = |pattern: &ComparedPattern| pattern.id.as_deref().is_some_and(&is_left);
        comparison.patterns.retain(is_left);
    }

    /// Leaves the timelines of the tables and patterns that are left.
    fn keep_timeline(&mut self) {
        let Some(timeline) = &mut self.timeline else {
            return;
        };
        let tables: BTreeSet<_> = self
            .tables
            .iter()
            .map(|table| (&table.keyspace, &table.table))
            .collect();
        let patterns: BTreeSet<_> = self.patterns.iter().map(|pattern| pattern.id).collect();
        timeline.retain(
            |one| tables.contains(&(&one.keyspace, &one.table)),
            |id| patterns.contains(&id),
        );
    }

    /// Leaves problems what of their findings is left.
    fn keep_problems_of_findings(&mut self) {
        let all: BTreeMap<_, _> = (0..)
            .zip(&self.findings)
            .map(|(at, one)| (one.id, (at, one)))
            .collect();
        for problem in &mut self.problems {
            problem.findings.retain(|id| all.contains_key(id));
            // In the order of the findings.
            let left = problem.findings.iter().filter_map(|id| all.get(id));
            let left: BTreeMap<usize, &FindingReport> = left.copied().collect();
            problem.severity = left
                .values()
                .map(|finding| finding.severity)
                .max()
                .unwrap_or(problem.severity);
            problem.rules = left.values().map(|finding| finding.rule).collect();
            problem.rules.dedup();
        }
        self.problems.retain(|problem| !problem.findings.is_empty());
    }
}

/// Whether something is about a selected place, or about a statement that is left.
fn is_of(
    selection: &Selection,
    (keyspace, table): (Option<&str>, Option<&str>),
    its: &[PatternId],
    left: &BTreeSet<PatternId>,
) -> bool {
    if !selection.is_of_traffic() || its.iter().any(|id| left.contains(id)) {
        return true;
    }
    // What is known of a definition alone has no statements, and no clients.
    its.is_empty() && selection.client.is_empty() && selection.has_place(keyspace, table)
}

impl Baseline {
    /// What of it concerns the same part as `report`, which was selected likewise.
    #[must_use]
    pub fn select(mut self, selection: &Selection, report: &Report) -> Self {
        let left: BTreeSet<_> = report.patterns.iter().map(|pattern| pattern.id).collect();
        let is_selected = |before: &super::baseline::Before| {
            let (keyspace, table) = (before.keyspace.as_deref(), before.table.as_deref());
            selection.has_rule(&before.rule, before.severity)
                && (is_of(selection, (keyspace, table), &before.patterns, &left)
                    || selection.client.is_empty() && selection.has_place(keyspace, table))
        };
        self.findings.retain(is_selected);
        self.accepted.retain(is_selected);
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Format, testing};
    use cqlens_cql::{footprint::PartitionClass, plan::Flag};
    use cqlens_rules::testing::{read, window};

    fn two_tables() -> Report {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let scan = |table: &str, times, client: &str| {
            let cql = format!("SELECT * FROM shop.{table} WHERE a = ? ALLOW FILTERING");
            let mut read = read(&cql, &flags, PartitionClass::Scan, times);
            read.clients = [(client.to_owned(), times)].into();
            read
        };
        testing::report(&window([
            scan("items", 100_000, "web"),
            scan("orders", 2, "batch"),
        ]))
    }

    fn tables(report: &Report) -> BTreeSet<&str> {
        report
            .findings
            .iter()
            .filter_map(|finding| finding.table.as_deref())
            .collect()
    }

    #[test]
    fn a_part_is_of_a_table_a_client_a_rule_or_a_severity() {
        let part = |selection: Selection| two_tables().select(&selection);
        let name = |name: &str| vec![name.to_owned()];
        let of_table = part(Selection {
            table: name("shop.items"),
            ..Selection::default()
        });
        assert_eq!(tables(&of_table), ["items"].into());
        assert_eq!(of_table.patterns.len(), 1);
        assert_eq!(of_table.totals.reads, 100_002);
        let of_client = part(Selection {
            client: name("batch"),
            ..Selection::default()
        });
        assert_eq!(tables(&of_client), ["orders"].into());
        let severe = part(Selection {
            min_severity: Some(Severity::High),
            ..Selection::default()
        });
        assert_eq!(tables(&severe), ["items"].into());
        assert_eq!(severe.patterns.len(), 2);
        let of_rule = part(Selection {
            rule: name("select-star"),
            ..Selection::default()
        });
        assert!(
            of_rule
                .findings
                .iter()
                .all(|finding| finding.rule == "select-star")
        );
        let of_keyspace = part(Selection {
            keyspace: name("other"),
            ..Selection::default()
        });
        assert_eq!(
            (&of_keyspace.findings[..], of_keyspace.patterns.len()),
            (&[][..], 0)
        );
        let said = of_keyspace
            .notices
            .iter()
            .any(|notice| notice.contains("keyspace `other`"));
        assert!(said, "{:?}", of_keyspace.notices);
        assert_eq!(two_tables().select(&Selection::default()), two_tables());
    }

    #[test]
    fn problems_keep_what_is_left_of_them() {
        let report = two_tables().select(&Selection {
            min_severity: Some(Severity::High),
            ..Selection::default()
        });
        for problem in &report.problems {
            assert_eq!(problem.severity, Severity::High);
            assert_eq!(report.findings_of(problem).count(), problem.findings.len());
        }
    }

    #[test]
    fn the_worst_are_kept_and_the_rest_is_counted() {
        let whole = two_tables();
        let notice = format!(
            "Shown here: the worst 1 of {} problems. The full report has the others.",
            whole.problems.len()
        );
        let top = whole.keep_top(1);
        assert_eq!((top.problems.len(), top.patterns.len()), (1, 1));
        assert!(top.notices.contains(&notice), "{:?}", top.notices);
    }

    #[test]
    fn of_a_report_table_by_table_the_worst_tables_are_kept_with_all_of_them() {
        let whole = two_tables().table_by_table();
        let all = whole.by_table.as_ref().map_or(0, Vec::len);
        let notice = format!("Shown here: the worst 1 of {all} tables. The full report has the others.");
        let items: Vec<_> = whole
            .problems
            .iter()
            .filter(|one| one.table.as_deref() == Some("items"))
            .cloned()
            .collect();
        let top = whole.keep_top(1);
        assert_eq!((tables(&top), top.patterns.len()), (["items"].into(), 1));
        assert_eq!(top.problems, items);
        assert_eq!(top.by_table.as_ref().map(Vec::len), Some(1));
        assert!(top.notices.contains(&notice), "{:?}", top.notices);
    }

    #[test]
    fn what_is_left_out_is_not_gone() {
        let mut json = Vec::new();
        two_tables().render(Format::Json, &mut json).unwrap();
        let baseline = Baseline::read(&json[..]).unwrap();
        let selection = Selection {
            table: vec!["items".to_owned()],
            ..Selection::default()
        };
        let part = two_tables().select(&selection);
        let baseline = baseline.select(&selection, &part);
        assert_eq!(part.since(&baseline).unwrap().baseline.unwrap().gone, []);
    }
}
