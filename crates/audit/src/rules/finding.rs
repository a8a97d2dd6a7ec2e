//! What a rule says of a window, and what it could not see.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{About, Applied, Settings, Threshold};
use crate::window::{Pattern, PatternHead, PatternId, Window};
use cqlens_cql::{plan::StatementKind, schema::TableName};

/// How much a finding matters. `High` is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing, nothing to do.
    Info,
    /// Costs little as things are.
    Low,
    /// Costs enough to plan a change.
    Medium,
    /// Costs more than the rest of the traffic, or will break.
    High,
}

impl Severity {
    /// One step up.
    pub fn raised(self) -> Self {
        match self {
            Self::Info => Self::Low,
            Self::Low => Self::Medium,
            Self::Medium | Self::High => Self::High,
        }
    }

    /// One step down.
    pub fn lowered(self) -> Self {
        match self {
            Self::Info | Self::Low => Self::Info,
            Self::Medium => Self::Low,
            Self::High => Self::Medium,
        }
    }
}

impl std::fmt::Display for Severity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// Numbers and short texts that support a finding, in the order in which they are shown.
///
/// Names end in their unit (`_us`, `_bytes`, `_per_second`, `_share`); plain counts have no ending.
pub type Evidence = Vec<(&'static str, serde_json::Value)>;

/// One rule's judgement of one pattern or table.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule's id.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// Where.
    pub keyspace: Option<String>,
    /// Where.
    pub table: Option<String>,
    /// The patterns that it speaks of, the most expensive first.
    pub patterns: Vec<PatternId>,
    /// The fact in one sentence, with the table and the number that matters most. Names and CQL stand in
    /// backticks.
    pub title: String,
    /// The numbers.
    pub evidence: Evidence,
    /// What to do. Names and CQL stand in backticks.
    pub advice: String,
    /// CQL that would help, where it can be written.
    pub suggested_cql: Vec<String>,
    /// How often × how many partitions, rows and tombstones × how slow; only for ranking.
    pub cost: f64,
    /// The rule's source.
    pub reference: &'static str,
    /// By whom it is accepted, or was.
    pub acceptance: Option<Applied>,
}

impl Finding {
    /// A finding on `pattern`, with the rule's general advice and the evidence that belongs to every pattern.
    pub fn on(
        about: &'static About,
        severity: Severity,
        (id, pattern): (PatternId, &Pattern),
        window: &Window,
    ) -> Self {
        Self {
            rule: about.id,
            severity,
            keyspace: pattern.head.keyspace.clone(),
            table: pattern.head.table.clone(),
            patterns: vec![id],
            title: about.summary.to_owned(),
            evidence: common_evidence(pattern, window),
            advice: about.fix.to_owned(),
            suggested_cql: Vec::new(),
            cost: cost(pattern),
            reference: about.source,
            acceptance: None,
        }
    }

    /// A finding on several patterns together, the costliest first; it is of a table if all of them are.
    pub fn on_all(
        about: &'static About,
        severity: Severity,
        mut patterns: Vec<(PatternId, &Pattern)>,
        window: &Window,
    ) -> Self {
        patterns.sort_by(|(left_id, left), (right_id, right)| {
            cost(right).total_cmp(&cost(left)).then(left_id.cmp(right_id))
        });
        let same = |name: fn(&Pattern) -> &Option<String>| {
            let first = patterns.first().and_then(|(_, pattern)| name(pattern).clone());
            let all = patterns.iter().all(|(_, pattern)| *name(pattern) == first);
            first.filter(|_| all)
        };
        let keyspace = same(|pattern| &pattern.head.keyspace);
        let executions: u64 = patterns.iter().map(|(_, pattern)| pattern.count).sum();
        let mut evidence: Evidence = vec![("executions", executions.into())];
        if window.seconds() > 0.0 {
            let per_second = executions as f64 / window.seconds();
            evidence.push(("executions_per_second", per_second.into()));
        }
        let mut all = Pattern::new(overall(&patterns), BTreeSet::new());
        patterns.iter().for_each(|(_, pattern)| all.merge(pattern));
        evidence.extend(origin(&all, window));
        Self {
            rule: about.id,
            severity,
            table: same(|pattern| &pattern.head.table).filter(|_| keyspace.is_some()),
            keyspace,
            patterns: patterns.iter().take(MOST_PATTERNS).map(|&(id, _)| id).collect(),
            title: about.summary.to_owned(),
            evidence,
            advice: about.fix.to_owned(),
            suggested_cql: Vec::new(),
            cost: patterns.iter().map(|(_, pattern)| cost(pattern)).sum(),
            reference: about.source,
            acceptance: None,
        }
    }

    /// The same, of this table: where patterns that write several are looked at for one.
    pub fn of_table(mut self, name: &TableName) -> Self {
        self.keyspace = Some(name.keyspace.clone());
        self.table = Some(name.table.clone());
        self
    }

    /// The same with this title.
    pub fn title(mut self, title: String) -> Self {
        self.title = title;
        self
    }

    /// The same with this number put before all others.
    pub fn first(mut self, name: &'static str, value: impl Into<serde_json::Value>) -> Self {
        self.evidence.insert(0, (name, value.into()));
        self
    }

    /// The same with this advice.
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// The same with these statements as a suggestion.
    pub fn suggest(mut self, cql: impl IntoIterator<Item = String>) -> Self {
        self.suggested_cql.extend(cql);
        self
    }
}

/// What a rule could not see, and therefore does not judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlindSpot {
    /// The rule's id.
    pub rule: &'static str,
    /// One sentence, with the number of executions where it is known.
    pub text: String,
}

/// All that the rules say of a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judgement {
    /// What they found and nobody has accepted: the severest first, then the costliest.
    pub findings: Vec<Finding>,
    /// What they found and somebody has accepted.
    pub accepted: Vec<Finding>,
    /// Acceptances of what was not found.
    pub idle: Vec<Applied>,
    /// What was meant as an acceptance and is none, in whole sentences.
    pub mistakes: Vec<String>,
    /// What they could not see.
    pub blind_spots: Vec<BlindSpot>,
}

/// Collects what rules find, and gives them their thresholds.
pub struct Findings<'a> {
    settings: &'a Settings,
    judgement: Judgement,
}

impl<'a> Findings<'a> {
    /// Nothing found yet; thresholds as in `settings`, else their defaults.
    pub fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            judgement: Judgement::default(),
        }
    }

    /// The value of one of the rule's thresholds.
    pub fn threshold(&self, about: &About, threshold: &Threshold) -> f64 {
        let declared = about
            .thresholds
            .iter()
            .any(|declared| declared.name == threshold.name);
        debug_assert!(declared, "{}: {} is not on its page", about.id, threshold.name);
        let set = self
            .settings
            .get(&(about.id.to_owned(), threshold.name.to_owned()));
        set.copied().unwrap_or(threshold.default)
    }

    /// Adds a finding.
    pub fn push(&mut self, finding: Finding) {
        self.judgement.findings.push(finding);
    }

    /// Notes that the rule could not see what it needs.
    pub fn blind(&mut self, about: &About, text: String) {
        self.judgement
            .blind_spots
            .push(BlindSpot { rule: about.id, text });
    }

    /// Everything, ranked: severest first, then the costliest.
    pub fn ranked(mut self) -> Judgement {
        self.judgement.findings.sort_by(|a, b| {
            b.severity
                .cmp(&a.severity)
                .then(b.cost.total_cmp(&a.cost))
                .then_with(|| a.title.cmp(&b.title))
        });
        self.judgement
    }
}

/// What a pattern cost the cluster in the window: executions × (partitions + rows + tombstones) × mean
/// latency.
///
/// Comparable between findings of one window only. A scan counts its rows, since its partitions are unknown.
pub fn cost(pattern: &Pattern) -> f64 {
    // The server speaks of tombstones in few reads only: the others count as having passed none.
    let tombstones = pattern.tombstones.scanned.total() as f64 / pattern.count.max(1) as f64;
    let touched = pattern.partitions.mean() + pattern.rows.mean() + tombstones;
    pattern.count as f64 * touched.max(1.0) * pattern.latency_us.mean().max(1.0)
}

/// The most patterns that one finding names.
const MOST_PATTERNS: usize = 10;

/// What patterns that are put together are called.
fn overall(patterns: &[(PatternId, &Pattern)]) -> PatternHead {
    let kind = patterns.first().map(|(_, pattern)| pattern.head.kind);
    PatternHead {
        kind: kind.unwrap_or(StatementKind::Other),
        keyspace: None,
        table: None,
        cql: String::new(),
        system: false,
    }
}

fn common_evidence(pattern: &Pattern, window: &Window) -> Evidence {
    let mut evidence: Evidence = vec![("executions", pattern.count.into())];
    if window.seconds() > 0.0 {
        let per_second = pattern.count as f64 / window.seconds();
        evidence.push(("executions_per_second", per_second.into()));
    }
    if !pattern.latency_us.is_empty() {
        evidence.push(("latency_p50_us", pattern.latency_us.quantile(0.5).into()));
        evidence.push(("latency_p99_us", pattern.latency_us.quantile(0.99).into()));
    }
    if !pattern.rows.is_empty() {
        evidence.push(("rows_p99", pattern.rows.quantile(0.99).into()));
    }
    if pattern.errors > 0 {
        evidence.push(("errors", pattern.errors.into()));
    }
    evidence.extend(origin(pattern, window));
    evidence
}

/// How much of the application's requests it is, who sent it, at which consistency levels, and when. What is
/// not known is left out, as all of it is of a statement that was only read.
fn origin(pattern: &Pattern, window: &Window) -> Evidence {
    let mut origin = Evidence::new();
    let requests = window
        .coverage
        .audited
        .saturating_sub(window.coverage.system_requests);
    if pattern.count > 0 && pattern.count <= requests {
        let share = pattern.count as f64 / requests as f64;
        origin.push(("of_all_requests_share", share.into()));
    }
    if let Some(names) = most_frequent(&pattern.clients) {
        origin.push(("clients", names.into()));
    }
    if let Some(levels) = most_frequent(&pattern.consistency) {
        origin.push(("consistency", levels.into()));
    }
    if let Some((first, last)) = pattern.seen {
        let second = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        origin.push(("first_seen", second(first).into()));
        origin.push(("last_seen", second(last).into()));
    }
    origin
}

/// The three that come most often, and how many more there are.
fn most_frequent(counts: &BTreeMap<String, u64>) -> Option<String> {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
    let names: Vec<_> = counts.iter().take(3).map(|(name, _)| name.as_str()).collect();
    match counts.len() {
        0 => None,
        1..=3 => Some(names.join(", ")),
        more => Some(format!("{} and {} more", names.join(", "), more - 3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing;

    #[test]
    fn the_origin_says_how_much_who_how_and_when_as_far_as_that_is_known() {
        let mut pattern = testing::pattern("SELECT * FROM s.t", StatementKind::Select, 30);
        let mut window = testing::window([]);
        assert_eq!(origin(&pattern, &window), []);
        (window.coverage.audited, window.coverage.system_requests) = (130, 10);
        pattern.see(Timestamp::UNIX_EPOCH);
        pattern.consistency = [("ONE".to_owned(), 10), ("LOCAL_QUORUM".to_owned(), 20)].into();
        let named = |name: &str| (name.to_owned(), 1);
        pattern.clients = ["a", "b", "c", "d"].map(named).into();
        let expected: Evidence = vec![
            ("of_all_requests_share", 0.25.into()),
            ("clients", "a, b, c and 1 more".into()),
            ("consistency", "LOCAL_QUORUM, ONE".into()),
            ("first_seen", "1970-01-01T00:00:00Z".into()),
            ("last_seen", "1970-01-01T00:00:00Z".into()),
        ];
        assert_eq!(origin(&pattern, &window), expected);
    }
}
