//! The first screen: one line a problem, and what stands beneath the list.

use std::collections::BTreeMap;

use super::{ReportPage, index::Ranked};
use crate::{ProblemReport, words};
use cqlens_rules::Severity;
use cqlens_window::number;

/// Problems of the first screen; more fold.
pub(super) const MOST_LINES: usize = 10;

impl<'a> ReportPage<'a> {
    pub(super) fn first_problems(&self) -> &[Ranked<'a>] {
        let problems = &self.index.problems;
        &problems[..problems.len().min(MOST_LINES)]
    }

    pub(super) fn more_problems(&self) -> &[Ranked<'a>] {
        self.index.problems.get(MOST_LINES..).unwrap_or_default()
    }

    /// `2 high, 5 medium and 3 low problems.`
    pub(super) fn verdict(&self) -> String {
        let counted: Vec<_> = self
            .severities()
            .into_iter()
            .filter(|&(severity, _)| severity > Severity::Info)
            .map(|(severity, count)| format!("{count} {severity}"))
            .collect();
        let problems = if self.index.problems.len() == 1 {
            "problem"
        } else {
            "problems"
        };
        match counted.split_last() {
            None => String::new(),
            Some((last, [])) => format!("{last} {problems}."),
            Some((last, others)) => format!("{} and {last} {problems}.", others.join(", ")),
        }
    }

    /// Whether the list has anything to say of new, changed and accepted problems.
    pub(super) fn has_states(&self) -> bool {
        let mut problems = self.index.problems.iter();
        self.report.baseline.is_some() || problems.any(|ranked| !self.state(ranked.problem).is_empty())
    }

    /// What has become of a problem since the last review: `new`, `worse, was low`, or that its acceptance does not hold.
    pub(super) fn state(&self, problem: &ProblemReport) -> String {
        let findings = self.index.findings_of(problem);
        if findings.iter().any(|finding| finding.acceptance.is_some()) {
            return "no longer accepted".to_owned();
        }
        let before: Vec<_> = findings
            .iter()
            .filter_map(|finding| finding.since_review)
            .collect();
        if before.is_empty() {
            return String::new();
        }
        match before.iter().filter_map(|since| since.severity_before).max() {
            None => "new".to_owned(),
            Some(before) if before < problem.severity => format!("worse, was {before}"),
            Some(before) if before > problem.severity => format!("better, was {before}"),
            Some(_) => "known".to_owned(),
        }
    }

    /// How many problems are new since the last review.
    pub(super) fn new_problems(&self) -> usize {
        let problems = self.index.problems.iter();
        problems
            .filter(|ranked| self.state(ranked.problem) == "new")
            .count()
    }

    pub(super) fn problem_rate(&self, problem: &ProblemReport) -> String {
        match problem.executions {
            0 => "–".to_owned(),
            executions => words::rate(executions, problem.observed_seconds),
        }
    }

    /// `20 notes: select-star 12, reversed-read 5 and 3 others`.
    pub(super) fn notes(&self) -> String {
        let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
        for note in &self.index.notes {
            let rule = note.rules.first().copied().unwrap_or_default();
            *rules.entry(rule).or_default() += 1;
        }
        let mut rules: Vec<_> = rules.into_iter().collect();
        rules.sort_by_key(|&(rule, count)| (std::cmp::Reverse(count), rule));
        let shown: Vec<_> = rules
            .iter()
            .take(4)
            .map(|(rule, count)| format!("{rule} {count}"))
            .collect();
        let others: usize = rules.iter().skip(4).map(|(_, count)| count).sum();
        let others = match others {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let notes = number::plural(self.index.notes.len() as u64, "note", "notes");
        format!("and {notes}: {}{others}", shown.join(", "))
    }

    /// The rules that found nothing though they could judge, accepted findings counted as found.
    pub(super) fn silent_rules(&self) -> Vec<&'static str> {
        let mut findings = self.report.findings.iter().chain(&self.report.accepted);
        let mut found = std::collections::BTreeSet::new();
        findings.by_ref().for_each(|finding| {
            found.insert(finding.rule);
        });
        let unjudged = self.unjudged_rules();
        let rules = self.report.rules.iter().copied();
        rules
            .filter(|rule| !found.contains(rule) && !unjudged.contains(rule))
            .collect()
    }

    /// The rules that could judge nothing.
    pub(super) fn unjudged_rules(&self) -> Vec<&'static str> {
        let spots = self.report.blind_spots.iter().filter(|spot| spot.whole);
        spots.map(|spot| spot.rule).collect()
    }
}
