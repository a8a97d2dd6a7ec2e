//! A problem in detail: the figures that decide it, why it costs, and what to do.

use std::collections::BTreeSet;

use super::{ReportPage, index::Ranked};
use crate::{Chart, FindingReport, PatternReport, ProblemReport, SequenceReport, evidence};
use cqlens_rules::{EvidenceValue, Severity, Unit};
use cqlens_window::number;

/// Problems that are open when the page is: beyond these a reader has enough to do.
const MOST_OPEN: usize = 3;

/// Problems with a section of their own; further ones are a line.
pub(super) const MOST_DETAILED: usize = 100;
/// Further ones are in the JSON form alone.
pub(super) const MOST_NAMED: usize = 1_000;
pub(super) const MOST_NOTES: usize = 200;

/// A figure with what it is.
pub(super) struct Fact {
    pub(super) value: String,
    pub(super) name: String,
}

impl<'a> ReportPage<'a> {
    pub(super) fn is_open(&self, ranked: &Ranked<'_>) -> bool {
        ranked.problem.severity == Severity::High && ranked.rank <= MOST_OPEN
    }

    /// The id of what the page shows of a problem.
    pub(super) fn problem_anchor(&self, ranked: &Ranked<'_>) -> String {
        match ranked.rank {
            0..=MOST_NAMED => format!("problem-{}", ranked.problem.id),
            _ => self.place_of_problems().to_owned(),
        }
    }

    /// What it costs, then the first figures of its rule: five at most.
    pub(super) fn deciding(&self, problem: &ProblemReport, finding: &FindingReport) -> Vec<Fact> {
        let mut facts = Vec::new();
        if let Some(share) = problem.time_share {
            facts.push(Fact {
                value: number::percent(share),
                name: "of the measured time".to_owned(),
            });
        }
        facts.push(Fact {
            value: number::percent(problem.work_share),
            name: "of the work".to_owned(),
        });
        let lines = self.evidence(evidence::own(&finding.evidence)).into_iter();
        let first = lines.filter(decides).take(MOST_FACTS - facts.len());
        facts.extend(first.map(|line| match always(&line.value) {
            Some(value) => Fact {
                value: value.to_owned(),
                name: format!("{}, always", line.label.split(" p").next().unwrap_or_default()),
            },
            None => Fact {
                value: line.value,
                name: line.label,
            },
        }));
        facts
    }

    /// The figures of its rule that do not stand among the deciding ones.
    pub(super) fn further(
        &self,
        problem: &ProblemReport,
        finding: &FindingReport,
    ) -> Vec<evidence::EvidenceLine> {
        let mut shown = MOST_FACTS - 1 - usize::from(problem.time_share.is_some());
        let mut lines = self.evidence(evidence::own(&finding.evidence));
        lines.retain(|line| {
            let is_shown = shown > 0 && decides(line);
            shown -= usize::from(is_shown);
            !is_shown
        });
        lines
    }

    /// The figures of a finding; times only where they say something of the cluster.
    pub(super) fn evidence(&self, evidence: &[(&'static str, EvidenceValue)]) -> Vec<evidence::EvidenceLine> {
        let says_something = |name: &str| self.report.has_times() || !name.ends_with("_us");
        let evidence = evidence.iter().filter(|(name, _)| says_something(name));
        evidence::lines(&evidence.cloned().collect::<Vec<_>>())
    }

    /// The problem before it that has the whole mechanism of the same rule.
    pub(super) fn explained_by(&self, ranked: &Ranked<'_>, rule: &str) -> Option<Ranked<'a>> {
        let before = self.index.problems.iter();
        let mut before = before.take_while(|other| other.rank < ranked.rank);
        let explains = |other: &&Ranked<'a>| {
            let first = self.index.findings_of(other.problem).into_iter().next();
            first.is_some_and(|finding| finding.rule == rule)
        };
        before.find(explains).copied()
    }

    /// The statements of a finding that are known, the costliest first.
    pub(super) fn statements(&self, finding: &FindingReport) -> Vec<&'a PatternReport> {
        let ids = finding.patterns.iter();
        ids.filter_map(|&id| self.index.pattern(id)).take(3).collect()
    }

    /// The problem that shows an operation.
    pub(super) fn problem_of(&self, operation: &SequenceReport) -> Option<Ranked<'a>> {
        let shows = |ranked: &&Ranked<'a>| {
            let first = self.index.findings_of(ranked.problem).into_iter().next();
            first.and_then(|finding| self.operation_of(finding)) == Some(operation)
        };
        self.index
            .problems
            .iter()
            .take(MOST_DETAILED)
            .find(shows)
            .copied()
    }

    /// What is drawn of a finding; latencies only where they say something of the cluster.
    pub(super) fn chart_of<'f>(&self, finding: &'f FindingReport) -> Option<&'f Chart> {
        let chart = finding.chart.as_ref();
        chart.filter(|chart| chart.unit != Unit::Micros || self.report.has_times())
    }

    /// The operation that a finding of several statements speaks of.
    pub(super) fn operation_of(&self, finding: &FindingReport) -> Option<&'a SequenceReport> {
        let ids: BTreeSet<_> = finding.patterns.iter().map(ToString::to_string).collect();
        self.report.sequences.iter().find(|operation| {
            operation.rule == finding.rule && operation.patterns.iter().all(|id| ids.contains(id))
        })
    }
}

/// Figures with which a problem begins.
const MOST_FACTS: usize = 5;

fn decides(line: &evidence::EvidenceLine) -> bool {
    line.is_number && line.value != "0"
}

/// The one value of several quantiles that are the same.
fn always(value: &str) -> Option<&str> {
    let (first, _) = value.split_once(" · ")?;
    value
        .split(" · ")
        .all(|quantile| quantile == first)
        .then_some(first)
}

/// The first two sentences, and the rest.
pub(super) fn two_sentences(text: &str) -> (&str, &str) {
    let mut is_code = false;
    let mut letters = text.char_indices().peekable();
    let mut ends = 0;
    while let Some((at, letter)) = letters.next() {
        is_code ^= letter == '`';
        let is_end =
            matches!(letter, '.' | '?' | '!') && !is_code && letters.peek().is_some_and(|next| next.1 == ' ');
        ends += usize::from(is_end);
        if ends == 2 {
            return (&text[..=at], text[at + 1..].trim_start());
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanisms_are_cut_between_sentences() {
        assert_eq!(
            two_sentences("One. Two `a. b`. Three."),
            ("One. Two `a. b`.", "Three.")
        );
        assert_eq!(two_sentences("One at 1.5 ms."), ("One at 1.5 ms.", ""));
    }
}
