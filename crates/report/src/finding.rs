//! What a report found, spelled as its JSON form spells it: problems, and the findings that they consist of.

use serde::Serialize;

use super::{SinceReview, histogram};
use cqlens_rules::{Applied, Evidence, EvidenceValue, Example, PartitionGrowth, Severity, StableId, Unit};
use cqlens_window::PatternId;

/// Findings with one cause on one table, or of one application: what the owner of a model has to decide.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ProblemReport {
    /// 16 hex digits, the same in every report that has the problem.
    pub id: StableId,
    /// The severity of its severest finding.
    pub severity: Severity,
    /// Its keyspace; null if it is not about one.
    pub keyspace: Option<String>,
    /// Its table; null if it is not about one.
    pub table: Option<String>,
    /// What its first finding says.
    pub title: String,
    /// The same without its table and its rate, for lists that have columns for those.
    pub what: String,
    /// What to do, in about three words.
    pub fix: &'static str,
    /// Executions of the statements of its first finding.
    pub executions: u64,
    /// Seconds in which those could have been seen: the divisor of its rate.
    pub observed_seconds: f64,
    /// The applications that send its statements, without their versions; those that send most first.
    pub applications: Vec<String>,
    /// The rules that found it, each once.
    pub rules: Vec<&'static str>,
    /// Its findings by their ids, the most telling first.
    pub findings: Vec<StableId>,
    /// The part of the measured time of the application's statements that its patterns take, 0 to 1; null
    /// where no time was measured.
    pub time_share: Option<f64>,
    /// The part of the partitions, rows and tombstones that its patterns touch, 0 to 1.
    pub work_share: f64,
}

/// What one rule says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FindingReport {
    /// 16 hex digits, the same in every report that has the finding.
    pub id: StableId,
    /// The rule's id.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// Its keyspace; null if it is not about one.
    pub keyspace: Option<String>,
    /// Its table; null if it is not about one.
    pub table: Option<String>,
    /// The templates.
    pub patterns: Vec<PatternId>,
    /// The fact in one sentence.
    pub title: String,
    /// The part of the measured time of the application's statements that its patterns take, 0 to 1; null
    /// where no time was measured.
    pub time_share: Option<f64>,
    /// The part of the partitions, rows and tombstones that its patterns touch, 0 to 1.
    pub work_share: f64,
    /// The numbers, in the order in which they are shown.
    #[serde(serialize_with = "in_order")]
    #[cfg_attr(
        feature = "json-schema",
        schemars(with = "std::collections::BTreeMap<String, EvidenceValue>")
    )]
    pub evidence: Evidence,
    /// The rule's mechanism: what Cassandra does and why that costs.
    pub why: &'static str,
    /// What to do.
    pub advice: String,
    /// CQL that would help.
    pub suggested_cql: Vec<String>,
    /// What to write instead of what; absent where there is CQL that would help, or nothing to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Example>,
    /// How the partition grows that it is about, and when it becomes too large; absent if there is no forecast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<PartitionGrowth>,
    /// Where the rule comes from.
    pub reference: &'static str,
    /// The acceptance that covers it, or did; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acceptance: Option<Applied>,
    /// Whether the last review had it, as `review` and `severity_before`; absent where there is none to
    /// compare with.
    #[serde(flatten)]
    pub since_review: Option<SinceReview>,
    /// The distribution of the figure that its rule judges; absent if it has a single value, or if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<Chart>,
}

/// A distribution to draw.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Chart {
    /// What is counted: `partitions per read`.
    pub label: &'static str,
    /// How its values are written.
    pub unit: Unit,
    /// (highest value of the step, how often), ascending.
    #[serde(rename = "histogram", serialize_with = "histogram::serialize")]
    pub steps: Vec<(u64, u64)>,
    /// The value from which the finding has its severity; absent if no single number decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u64>,
}

fn in_order<S: serde::Serializer>(
    evidence: &[(&str, EvidenceValue)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(evidence.iter().map(|(name, value)| (name, value)))
}
