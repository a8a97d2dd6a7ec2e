//! The part of a report's JSON form (`cqlens.report.v1`) that a screen shows. Fields that are absent are empty: a report
//! of another version is shown as far as it is understood.

use std::collections::BTreeMap;

use cqlens_rules::Severity;
use serde::Deserialize;

/// A report.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    pub(crate) window: Window,
    pub(crate) cluster: Cluster,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) applications: Vec<Application>,
}

/// The time that it covers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Window {
    pub(crate) start: String,
    pub(crate) seconds: f64,
}

/// Whose traffic it is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Cluster {
    pub(crate) name: Option<String>,
}

/// A query pattern.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pattern {
    pub(crate) id: String,
    pub(crate) keyspace: Option<String>,
    pub(crate) table: Option<String>,
    pub(crate) cql: String,
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) observed_seconds: f64,
    pub(crate) time_share: Option<f64>,
    pub(crate) work_share: f64,
    pub(crate) latency_us: Latency,
    pub(crate) partitions: Partitions,
    pub(crate) rows: Quantiles,
    pub(crate) clients: BTreeMap<String, u64>,
}

impl Pattern {
    /// `keyspace.table`.
    pub(crate) fn table_name(&self) -> String {
        table_name(self.keyspace.as_deref(), self.table.as_deref())
    }
}

/// Microseconds; they say nothing if `count` is 0.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Latency {
    pub(crate) count: u64,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
}

/// Partitions of an execution.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Partitions {
    pub(crate) class: String,
    pub(crate) p99: u64,
}

/// Rows of a response.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Quantiles {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
}

/// What a rule found.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Finding {
    pub(crate) id: String,
    pub(crate) rule: String,
    pub(crate) severity: Severity,
    pub(crate) keyspace: Option<String>,
    pub(crate) table: Option<String>,
    pub(crate) patterns: Vec<String>,
    pub(crate) title: String,
    pub(crate) why: String,
    pub(crate) advice: String,
    #[serde(default)]
    pub(crate) suggested_cql: Vec<String>,
    pub(crate) time_share: Option<f64>,
}

impl Finding {
    /// `keyspace.table`; `–` if it is not about one.
    pub(crate) fn table_name(&self) -> String {
        table_name(self.keyspace.as_deref(), self.table.as_deref())
    }
}

/// One application on all of its machines.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Application {
    pub(crate) name: String,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) latency_us: Latency,
    pub(crate) drivers: Vec<String>,
}

fn table_name(keyspace: Option<&str>, table: Option<&str>) -> String {
    match (keyspace, table) {
        (Some(keyspace), Some(table)) => format!("{keyspace}.{table}"),
        (Some(name), None) | (None, Some(name)) => name.to_owned(),
        (None, None) => "–".to_owned(),
    }
}
