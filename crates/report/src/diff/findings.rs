//! Findings that are new, gone, worse or better.

use std::cmp::Reverse;

use serde::Serialize;

use super::{
    super::baseline::{AcceptedBefore, Before},
    patterns::{FigureChange, figure_changes},
    reading::ReadReport,
};
use cqlens_rules::Severity;
use cqlens_window::PatternId;

/// The findings of two reports, each group by severity and then by the time that it takes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FindingChanges {
    /// Those in the new report only.
    pub new: Vec<FindingChange>,
    /// Those in the base report only.
    pub gone: Vec<FindingChange>,
    /// Those that are more severe, or whose statements are more frequent, take longer or touch more.
    pub worse: Vec<FindingChange>,
    /// Those of which the opposite is true.
    pub better: Vec<FindingChange>,
    /// How many others are in both reports.
    pub unchanged: u64,
}

/// A finding that is not as it was.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FindingChange {
    /// The rule's id.
    pub rule: String,
    /// How severe it is; for a finding that is gone, how severe it was.
    pub severity: Severity,
    /// How severe it was, where both reports have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity_before: Option<Severity>,
    /// Its keyspace; null if it is not about one.
    pub keyspace: Option<String>,
    /// Its table; null if it is not about one.
    pub table: Option<String>,
    /// The fact in one sentence.
    pub title: String,
    /// Its templates.
    pub patterns: Vec<PatternId>,
    /// What is different in them.
    pub figures: Vec<FigureChange>,
    /// False if its statements are so rare that the other report may have missed them by chance.
    pub is_certain: bool,
    /// Who has accepted it, why and until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "json-schema", schemars(with = "Option<serde_json::Value>"))]
    pub(crate) acceptance: Option<AcceptedBefore>,
    #[serde(skip)]
    time_share: f64,
}

/// What became of a finding that both reports have.
enum Trend {
    Worse,
    Better,
    Unchanged,
}

impl FindingChanges {
    pub(super) fn between(base: &ReadReport, new: &ReadReport) -> Self {
        let mut changes = Self::default();
        let (known, here) = (base.judged.known(), new.judged.known());
        let befores: Vec<_> = base.judged.findings().collect();
        for finding in new.judged.findings() {
            let before = known.severest(finding.identity());
            match before.and_then(|(_, at)| befores.get(at)) {
                None => changes.new.push(FindingChange::of(finding, new, base)),
                Some(before) => changes.add(before, finding, base, new),
            }
        }
        let is_gone = |before: &&&Before| here.severest(before.identity()).is_none();
        let gone = befores.iter().filter(is_gone);
        changes.gone = gone.map(|before| FindingChange::of(before, base, new)).collect();
        let Self {
            new,
            gone,
            worse,
            better,
            ..
        } = &mut changes;
        for group in [new, gone, worse, better] {
            group.sort_by(|left, right| {
                let severity = |change: &FindingChange| Reverse(change.severity);
                let by_severity = severity(left).cmp(&severity(right));
                by_severity.then(right.time_share.total_cmp(&left.time_share))
            });
        }
        changes
    }

    fn add(&mut self, before: &Before, finding: &Before, base: &ReadReport, new: &ReadReport) {
        let mut change = FindingChange::of(finding, new, base);
        change.severity_before = Some(before.severity);
        change.is_certain = true;
        let of_both = finding
            .patterns
            .iter()
            .filter_map(|id| base.pattern(*id).zip(new.pattern(*id)));
        change.figures = of_both
            .flat_map(|(before, after)| figure_changes(before, after))
            .collect();
        match change.trend() {
            Trend::Worse => self.worse.push(change),
            Trend::Better => self.better.push(change),
            Trend::Unchanged => self.unchanged += 1,
        }
    }
}

impl FindingChange {
    /// A finding of `here`, beside a report that has it not.
    fn of(finding: &Before, here: &ReadReport, there: &ReadReport) -> Self {
        let would_be_seen = |id: &PatternId| {
            let is_there = there.pattern(*id).is_some();
            let pattern = here.pattern(*id);
            is_there || pattern.is_none_or(|pattern| pattern.counted().would_be_seen_in(there.seconds()))
        };
        Self {
            rule: finding.rule.clone(),
            severity: finding.severity,
            severity_before: None,
            keyspace: finding.keyspace.clone(),
            table: finding.table.clone(),
            title: finding.title.clone(),
            patterns: finding.patterns.clone(),
            figures: Vec::new(),
            is_certain: finding.patterns.is_empty() || finding.patterns.iter().any(would_be_seen),
            acceptance: finding.acceptance.clone(),
            time_share: finding.time_share.unwrap_or_default(),
        }
    }

    /// By severity; where that is the same, by the figures, of which one that is worse outweighs the others.
    fn trend(&self) -> Trend {
        let before = self.severity_before.unwrap_or(self.severity);
        if self.severity != before {
            return match self.severity > before {
                true => Trend::Worse,
                false => Trend::Better,
            };
        }
        if self.figures.iter().any(FigureChange::is_rise) {
            Trend::Worse
        } else if self.figures.is_empty() {
            Trend::Unchanged
        } else {
            Trend::Better
        }
    }

    /// Whether it is not accepted, or no longer.
    pub(super) fn is_open(&self) -> bool {
        let accepted = self.acceptance.as_ref();
        accepted.and_then(|accepted| accepted.state.as_deref()) != Some("in-force")
    }

    /// `shop.orders`, or the keyspace alone; nothing where it is about a client.
    pub(super) fn place(&self) -> String {
        let names = [self.keyspace.as_deref(), self.table.as_deref()];
        names.into_iter().flatten().collect::<Vec<_>>().join(".")
    }

    /// What is different, in words: `was medium; rate 2.0/s → 17/s; accepted by the shop team until 2027-01-31`.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(before) = self.severity_before
            && before != self.severity
        {
            remarks.push(format!("was {before}"));
        }
        remarks.extend(self.figures.iter().take(MOST_FIGURES).map(ToString::to_string));
        if !self.is_certain {
            remarks.push("too rare for certainty".to_owned());
        }
        if let (false, Some(accepted)) = (self.is_open(), &self.acceptance)
            && let (Some(owner), Some(until)) = (&accepted.owner, &accepted.until)
        {
            remarks.push(format!("accepted by {owner} until {until}"));
        }
        remarks
    }
}

/// Of all statements of a finding: a reader wants the first.
const MOST_FIGURES: usize = 3;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::{between, scan};
    use super::*;

    #[test]
    fn severity_decides_what_is_worse_or_better() {
        let (rare, frequent) = (scan("items", 20), scan("items", 400_000));
        let worse = between(&rare, &frequent).findings.worse;
        let remarks = worse[0].remarks().join("; ");
        assert_eq!(worse[0].rule, "allow-filtering");
        assert!(worse[0].severity > worse[0].severity_before.unwrap(), "{remarks}");
        assert!(remarks.starts_with("was "), "{remarks}");
        let better = between(&frequent, &rare).findings.better;
        assert_eq!(better[0].rule, "allow-filtering");
    }

    #[test]
    fn a_finding_is_worse_where_its_statements_take_longer() {
        let before = scan("items", 1_000);
        let mut after = before.clone();
        after["patterns"][0]["latency_us"] = latency(90_000);
        let mut slower = before.clone();
        slower["patterns"][0]["latency_us"] = latency(200_000);
        let worse = between(&after, &slower).findings.worse;
        assert_eq!(worse[0].remarks(), ["p99 90 ms → 200 ms"]);
        assert_eq!(between(&slower, &after).findings.better.len(), worse.len());
    }

    fn latency(p99: u64) -> serde_json::Value {
        serde_json::json!({ "count": 1_000, "p99": p99, "p99_between": [p99, p99 + 1] })
    }

    #[test]
    fn what_is_new_may_have_been_missed_before() {
        let (items, orders) = (scan("items", 1_000), scan("orders", 1_000));
        let new = between(&items, &orders).findings.new;
        assert!(new.iter().all(|change| change.is_certain), "{new:?}");
        let rare = scan("orders", 2);
        let new = between(&items, &rare).findings.new;
        assert!(new.iter().all(|change| !change.is_certain), "{new:?}");
        assert!(new[0].remarks().contains(&"too rare for certainty".to_owned()));
    }

    #[test]
    fn an_accepted_finding_is_compared_and_fails_nothing() {
        let before = scan("items", 1_000);
        let mut after = scan("orders", 400_000);
        assert!(between(&before, &after).fails_on_new(Severity::High));
        let mut accepted = after["findings"].take();
        for finding in accepted.as_array_mut().unwrap() {
            finding["acceptance"] =
                serde_json::json!({"owner": "shop", "until": "2027-01-31", "state": "in-force"});
        }
        (after["accepted"], after["findings"]) = (accepted, serde_json::json!([]));
        let diff = between(&before, &after);
        assert!(!diff.fails_on_new(Severity::Info));
        let remarks = diff.findings.new[0].remarks().join("; ");
        assert!(remarks.contains("accepted by shop until 2027-01-31"), "{remarks}");
    }
}
