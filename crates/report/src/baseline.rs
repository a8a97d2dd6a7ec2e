//! What is new since the last review: the report at hand beside an earlier one in its JSON form.
//!
//! A finding is known if the earlier report has one with its id, or one by the same rule, on the same table,
//! about one of the same templates; so it stays known when further templates join it. Accepted findings are
//! findings here: what was accepted then and is open now is known.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    FORMAT, FindingReport, Report,
    identity::{Identity, Known},
};
use cqlens_rules::{Severity, StableId};
use cqlens_window::{PatternId, number};

/// What an earlier report found.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Baseline {
    format: String,
    pub(super) generated_at: Timestamp,
    pub(super) window: Period,
    pub(super) cluster: NamedCluster,
    pub(super) findings: Vec<Before>,
    /// Absent in reports of versions that did not know acceptances.
    #[serde(default)]
    pub(super) accepted: Vec<Before>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Period {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    /// Absent in reports of versions that did not say it.
    #[serde(default)]
    pub(super) seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct NamedCluster {
    pub(super) name: Option<String>,
}

/// A finding of an earlier report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Before {
    /// Absent in reports of versions that gave findings no ids.
    id: Option<StableId>,
    pub(super) rule: String,
    pub(super) severity: Severity,
    pub(super) keyspace: Option<String>,
    pub(super) table: Option<String>,
    pub(super) patterns: Vec<PatternId>,
    pub(super) title: String,
    #[serde(default)]
    pub(super) time_share: Option<f64>,
    #[serde(default)]
    pub(super) acceptance: Option<AcceptedBefore>,
}

/// What an earlier report says of an acceptance, with the fields in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AcceptedBefore {
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<String>,
}

/// Why a file is no baseline.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// It cannot be read, or lacks what a report has.
    #[error("it is not a report in JSON form")]
    NoReport(#[from] serde_json::Error),
    /// It is something else, or of another version.
    #[error("its format is {0:?}, not {FORMAT:?}")]
    OtherFormat(String),
    /// It speaks of other traffic.
    #[error("it is from cluster {0:?}, but this report from {1:?}")]
    OtherCluster(String, String),
}

/// Whether the last review had a finding too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Review {
    /// It had not.
    New,
    /// It had.
    Known,
}

/// A finding beside the last review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SinceReview {
    /// Whether it was there.
    pub review: Review,
    /// How severe it was then; absent if it was not found then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity_before: Option<Severity>,
}

/// The last review, and what it had that is no more.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LastReview {
    /// When its report was made.
    pub generated_at: Timestamp,
    /// The start of the time that it covered.
    pub start: Timestamp,
    /// The end of the time that it covered.
    pub end: Timestamp,
    /// Its findings that are not in this report, the severest first.
    pub gone: Vec<Gone>,
}

/// A finding of the last review that is no more.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Gone {
    /// The rule's id.
    pub rule: String,
    /// How severe it was.
    pub severity: Severity,
    /// Its keyspace; null if it is not about one.
    pub keyspace: Option<String>,
    /// Its table; null if it is not about one.
    pub table: Option<String>,
    /// Its templates.
    pub patterns: Vec<PatternId>,
    /// What was said of it.
    pub title: String,
    /// How often its templates were seen this time; 0 may only mean that no client sent them.
    pub executions: u64,
}

impl Baseline {
    /// Reads what is compared of a report in its JSON form; what else it has takes no memory.
    ///
    /// # Errors
    /// A text that is none.
    pub fn read(text: &[u8]) -> Result<Self, BaselineError> {
        #[derive(Deserialize)]
        struct Head {
            format: Option<String>,
        }
        let head: Head = serde_json::from_slice(text)?;
        match head.format {
            Some(format) if format != FORMAT => Err(BaselineError::OtherFormat(format)),
            _ => Ok(serde_json::from_slice(text)?),
        }
    }

    /// Whether both are of one cluster, as far as their reports name it.
    pub(super) fn check_cluster(&self, other: Option<&str>) -> Result<(), BaselineError> {
        match (self.cluster.name.as_deref(), other) {
            (Some(then), Some(now)) if then != now => {
                Err(BaselineError::OtherCluster(then.to_owned(), now.to_owned()))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn findings(&self) -> impl Iterator<Item = &Before> {
        self.findings.iter().chain(&self.accepted)
    }

    /// The findings by what they are known by.
    pub(super) fn known(&self) -> Known<'_> {
        Known::of(self.findings().map(|before| (before.identity(), before.severity)))
    }
}

impl Report {
    /// The same with what is new since `baseline` marked, and what is gone listed.
    ///
    /// # Errors
    /// A baseline of another cluster.
    pub fn since(mut self, baseline: &Baseline) -> Result<Self, BaselineError> {
        baseline.check_cluster(self.cluster.name.as_deref())?;
        let gone = gone(&self, baseline);
        let known = baseline.known();
        for finding in self.findings.iter_mut().chain(&mut self.accepted) {
            finding.since_review = Some(since_review(finding, &known));
        }
        let (new, gone_count) = (self.new_findings(), gone.len() as u64);
        self.summary.detail += &format!(" {}.", sentence(new, gone_count, baseline.window.end));
        self.baseline = Some(LastReview {
            generated_at: baseline.generated_at,
            start: baseline.window.start,
            end: baseline.window.end,
            gone,
        });
        Ok(self)
    }

    /// Whether a finding that is not accepted is of `severity` or above.
    pub fn has_open(&self, severity: Severity) -> bool {
        self.findings.iter().any(|finding| finding.severity >= severity)
    }

    /// The same of findings that are new since the last review, or were less severe then.
    pub fn has_new(&self, severity: Severity) -> bool {
        let is_new = |finding: &FindingReport| {
            let since = finding.since_review;
            since.is_some_and(|since| {
                since
                    .severity_before
                    .is_none_or(|before| before < finding.severity)
            })
        };
        let mut severe = self
            .findings
            .iter()
            .filter(|finding| finding.severity >= severity);
        severe.any(is_new)
    }

    fn new_findings(&self) -> u64 {
        let new = self.findings.iter().filter(|finding| {
            finding
                .since_review
                .is_some_and(|since| since.review == Review::New)
        });
        new.count() as u64
    }
}

fn sentence(new: u64, gone: u64, last: Timestamp) -> String {
    let count = |count: u64| match count {
        0 => "none".to_owned(),
        count => number::word(count),
    };
    format!(
        "Since the last review ({}): {} new, {} gone",
        last.strftime("%-d %B %Y"),
        count(new),
        count(gone)
    )
}

fn since_review(finding: &FindingReport, known: &Known<'_>) -> SinceReview {
    match known.severest(finding.identity()) {
        Some((severity, _)) => SinceReview {
            review: Review::Known,
            severity_before: Some(severity),
        },
        None => SinceReview {
            review: Review::New,
            severity_before: None,
        },
    }
}

fn gone(report: &Report, baseline: &Baseline) -> Vec<Gone> {
    let findings = report.findings.iter().chain(&report.accepted);
    let here = Known::of(findings.map(|finding| (finding.identity(), finding.severity)));
    let patterns = report.patterns.iter();
    let counts = patterns.map(|pattern| (pattern.id, pattern.count)).collect();
    let mut gone: Vec<_> = baseline
        .findings()
        .filter(|before| here.severest(before.identity()).is_none())
        .map(|before| before.gone(&counts))
        .collect();
    // Stable: by what they cost, where they are equally severe.
    gone.sort_by_key(|gone| std::cmp::Reverse(gone.severity));
    gone
}

impl Before {
    pub(super) fn identity(&self) -> Identity<'_> {
        Identity {
            id: self.id,
            rule: &self.rule,
            place: (self.keyspace.as_deref(), self.table.as_deref()),
            patterns: &self.patterns,
        }
    }

    fn gone(&self, counts: &HashMap<PatternId, u64>) -> Gone {
        let seen: BTreeSet<_> = self.patterns.iter().collect();
        let seen = seen.into_iter().filter_map(|id| counts.get(id));
        Gone {
            rule: self.rule.clone(),
            severity: self.severity,
            keyspace: self.keyspace.clone(),
            table: self.table.clone(),
            patterns: self.patterns.clone(),
            title: self.title.clone(),
            executions: seen.sum(),
        }
    }
}

impl Gone {
    /// What became of its statements: repaired, or not asked.
    pub(super) fn why(&self) -> String {
        match (self.executions, self.patterns.is_empty()) {
            (_, true) => String::new(),
            (0, _) => "Its statements were not seen this time.".to_owned(),
            (count, _) => format!(
                "Its statements were seen {} this time.",
                number::plural(count, "time", "times")
            ),
        }
    }
}

impl FindingReport {
    fn identity(&self) -> Identity<'_> {
        Identity {
            id: Some(self.id),
            rule: self.rule,
            place: (self.keyspace.as_deref(), self.table.as_deref()),
            patterns: &self.patterns,
        }
    }

    /// The mark beside its rule: `new`, `was low`; none where nothing has changed.
    pub(super) fn mark(&self) -> Option<String> {
        let since = self.since_review?;
        match (since.review, since.severity_before) {
            (Review::New, _) => Some("new".to_owned()),
            (Review::Known, Some(before)) if before != self.severity => Some(format!("was {before}")),
            (Review::Known, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Format, testing};
    use cqlens_cql::{footprint::PartitionClass, plan::Flag};
    use cqlens_rules::testing::{read, window};
    use cqlens_window::Window;

    fn scan(table: &str, times: u64) -> Window {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let cql = format!("SELECT * FROM shop.{table} WHERE a = ? ALLOW FILTERING");
        window([read(&cql, &flags, PartitionClass::Scan, times)])
    }

    fn json(report: &Report) -> serde_json::Value {
        let mut json = Vec::new();
        report.render(Format::Json, &mut json).unwrap();
        serde_json::from_slice(&json).unwrap()
    }

    fn baseline(report: &serde_json::Value) -> Result<Baseline, BaselineError> {
        Baseline::read(report.to_string().as_bytes())
    }

    fn of<'j>(report: &'j serde_json::Value, rule: &str) -> &'j serde_json::Value {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["rule"] == rule).unwrap()
    }

    #[test]
    fn what_was_there_is_known_and_the_rest_is_new() {
        let before = baseline(&json(&testing::report(&scan("items", 1)))).unwrap();
        let same = json(&testing::report(&scan("items", 100_000)).since(&before).unwrap());
        let finding = of(&same, "allow-filtering");
        assert_eq!(
            (&finding["review"], &finding["severity_before"]),
            (&"known".into(), &"low".into())
        );
        assert_eq!(finding["severity"], "high");
        assert_eq!(same["baseline"]["gone"], serde_json::json!([]));

        let other = json(&testing::report(&scan("orders", 1)).since(&before).unwrap());
        let finding = of(&other, "allow-filtering");
        assert_eq!(
            (&finding["review"], finding.get("severity_before")),
            (&"new".into(), None)
        );
        let gone = &other["baseline"]["gone"][0];
        assert_eq!(
            (&gone["rule"], &gone["table"]),
            (&"allow-filtering".into(), &"items".into())
        );
    }

    #[test]
    fn a_finding_on_more_templates_than_before_is_the_same_one() {
        let report = testing::report(&scan("items", 1));
        let before = baseline(&json(&report)).unwrap();
        let mut now = report.clone();
        now.findings[0].patterns.push(PatternId(7));
        assert_eq!(
            since_review(&now.findings[0], &before.known()).review,
            Review::Known
        );
        now.findings[0].patterns.remove(0);
        now.findings[0].id = testing::report(&scan("orders", 1)).findings[0].id;
        assert_eq!(
            since_review(&now.findings[0], &before.known()).review,
            Review::New
        );
    }

    #[test]
    fn what_was_accepted_then_is_known_now() {
        let mut report = testing::report(&scan("items", 1));
        report.accepted = std::mem::take(&mut report.findings);
        let before = baseline(&json(&report)).unwrap();
        let now = testing::report(&scan("items", 1)).since(&before).unwrap();
        assert!(now.findings.iter().all(|finding| finding.mark().is_none()));
        assert_eq!(now.baseline.unwrap().gone, []);
    }

    #[test]
    fn every_form_marks_what_is_new_and_lists_what_is_gone() {
        let before = baseline(&json(&testing::report(&scan("items", 1)))).unwrap();
        let now = testing::report(&scan("orders", 1)).since(&before).unwrap();
        let text = |format| {
            let mut text = Vec::new();
            now.render(format, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let said = "Since the last review (1 January 1970): ";
        let html = text(Format::Html);
        assert!(
            html.contains("<span class=\"new\">new</span>") && html.contains("Gone since the last review")
        );
        assert!(
            html.contains("Since 1 January 1970: 1 new, <a href=\"#gone\">"),
            "{html}"
        );
        let markdown = text(Format::Md);
        assert!(markdown.contains("`allow-filtering` (new)"), "{markdown}");
        assert!(markdown.contains("### Gone since the last review"), "{markdown}");
        assert!(markdown.contains(said), "{markdown}");
    }

    #[test]
    fn what_is_no_report_of_this_cluster_is_refused() {
        let report = json(&testing::report(&scan("items", 1)));
        let changed = |key: &str, value: serde_json::Value| {
            let mut report = report.clone();
            report[key] = value;
            report
        };
        let said = |report| baseline(&report).unwrap_err().to_string();
        assert_eq!(
            said(changed("format", "cqlens.report.v9".into())),
            "its format is \"cqlens.report.v9\", not \"cqlens.report.v1\""
        );
        for broken in [
            changed("findings", 7.into()),
            changed("window", "x".into()),
            7.into(),
        ] {
            assert_eq!(said(broken), "it is not a report in JSON form");
        }
        let other = baseline(&changed("cluster", serde_json::json!({"name": "b"}))).unwrap();
        let error = testing::report(&scan("items", 1)).since(&other).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it is from cluster \"b\", but this report from \"shop\""
        );
    }
}
