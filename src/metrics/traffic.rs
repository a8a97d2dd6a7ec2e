//! What all windows since the start have counted: running totals that only grow, whatever a window had to give up for want of room.

use std::collections::BTreeMap;

use super::{
    latency::Latency,
    places::{Places, Total},
};
use crate::sink::SinkFigures;
use cqlens_report::text::is_unprintable;
use cqlens_rules::{Severity, application_name};
use cqlens_window::{Coverage, OVERFLOW, Pattern, Window};

/// How many names have series of their own; the others are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesLimits {
    /// Keyspaces.
    pub keyspaces: usize,
    /// Tables, of all keyspaces together. Each has 24 series.
    pub tables: usize,
    /// Applications.
    pub applications: usize,
}

impl Default for SeriesLimits {
    /// About 4,000 series, which Prometheus takes from forty proxies without being asked.
    fn default() -> Self {
        Self {
            keyspaces: 50,
            tables: 100,
            applications: 50,
        }
    }
}

/// The running totals.
#[derive(Debug, Clone)]
pub struct Traffic {
    pub(super) windows: u64,
    /// When the last window ended, in seconds since 1970; none before the first one.
    pub(super) window_end: Option<f64>,
    /// Its clients and notices are left out, which say what holds now.
    pub(super) coverage: Coverage,
    pub(super) keyspaces: Places<String, Executions>,
    /// By keyspace and table.
    pub(super) tables: Places<(String, String), Executions>,
    pub(super) applications: Places<String, Application>,
    /// Findings that are open, by rule and severity.
    pub(super) findings: BTreeMap<(&'static str, Severity), u64>,
    pub(super) snapshot_failures: u64,
    pub(super) report_failures: u64,
    /// None where there is no sink.
    pub(super) sink: Option<SinkFigures>,
}

/// What executions of statements add up to.
#[derive(Debug, Clone, Default)]
pub(super) struct Executions {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) warnings: u64,
    /// Those that are known.
    pub(super) partitions: u64,
    pub(super) rows: u64,
    pub(super) request_bytes: u64,
    pub(super) response_bytes: u64,
    pub(super) latency: Latency,
}

impl Executions {
    fn of(pattern: &Pattern) -> Self {
        let mut latency = Latency::default();
        latency.add(&pattern.latency_us);
        Self {
            requests: pattern.count,
            errors: pattern.errors,
            warnings: pattern.warnings,
            partitions: pattern.partitions.total(),
            rows: pattern.rows.total(),
            request_bytes: pattern.request_bytes.total(),
            response_bytes: pattern.response_bytes.total(),
            latency,
        }
    }
}

impl Total for Executions {
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.warnings += other.warnings;
        self.partitions = self.partitions.saturating_add(other.partitions);
        self.rows = self.rows.saturating_add(other.rows);
        self.request_bytes = self.request_bytes.saturating_add(other.request_bytes);
        self.response_bytes = self.response_bytes.saturating_add(other.response_bytes);
        self.latency.merge(&other.latency);
    }

    fn weight(&self) -> u64 {
        self.requests
    }
}

/// What is exact of an application: latencies and errors are counted by statement, which several may send.
#[derive(Debug, Clone, Default)]
pub(super) struct Application {
    pub(super) requests: u64,
    pub(super) connections: u64,
}

impl Total for Application {
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.connections += other.connections;
    }

    fn weight(&self) -> u64 {
        self.requests
    }
}

impl Traffic {
    /// Nothing was counted yet.
    pub fn new(limits: SeriesLimits) -> Self {
        Self {
            windows: 0,
            window_end: None,
            coverage: Coverage::default(),
            keyspaces: Places::new(limits.keyspaces),
            tables: Places::new(limits.tables),
            applications: Places::new(limits.applications),
            findings: BTreeMap::new(),
            snapshot_failures: 0,
            report_failures: 0,
            sink: None,
        }
    }

    /// Adds a window that has ended.
    pub fn add(&mut self, window: &Window) {
        self.windows += 1;
        self.window_end = Some(window.end.as_millisecond() as f64 / 1e3);
        self.coverage.merge(&window.coverage);
        self.coverage.notices.clear();
        self.coverage.refused_clients.clear();
        self.add_patterns(window);
        self.add_applications(window);
    }

    fn add_patterns(&mut self, window: &Window) {
        let mut keyspaces: BTreeMap<String, Executions> = BTreeMap::new();
        let mut tables: BTreeMap<(String, String), Executions> = BTreeMap::new();
        for (id, pattern) in &window.patterns {
            // Drivers' and tools' own statements have a counter of their own.
            if pattern.head.system {
                continue;
            }
            let executions = Executions::of(pattern);
            if *id == OVERFLOW {
                self.keyspaces.add_to_others(&executions);
                self.tables.add_to_others(&executions);
                continue;
            }
            let keyspace = pattern.head.keyspace.as_deref().map_or_else(none, label);
            if let Some(table) = &pattern.head.table {
                let name = (keyspace.clone(), label(table));
                tables.entry(name).or_default().merge(&executions);
            }
            keyspaces.entry(keyspace).or_default().merge(&executions);
        }
        self.keyspaces.add(keyspaces);
        self.tables.add(tables);
    }

    fn add_applications(&mut self, window: &Window) {
        let mut applications: BTreeMap<String, Application> = BTreeMap::new();
        for (client, requests) in &window.clients {
            let application = applications.entry(label(application_name(client))).or_default();
            application.requests += requests;
        }
        for (client, connections) in &window.connections {
            let application = applications.entry(label(application_name(client))).or_default();
            application.connections += connections.opened;
        }
        // What the window itself has counted together.
        if let Some(others) = applications.remove(OTHERS) {
            self.applications.add_to_others(&others);
        }
        self.applications.add(applications);
    }

    /// These findings are open now.
    pub fn find(&mut self, findings: impl IntoIterator<Item = (&'static str, Severity)>) {
        self.findings.clear();
        for finding in findings {
            *self.findings.entry(finding).or_default() += 1;
        }
    }

    /// How snapshots reach the sink now.
    pub fn set_sink(&mut self, figures: SinkFigures) {
        self.sink = Some(figures);
    }

    /// A snapshot could not be written.
    pub fn count_snapshot_failure(&mut self) {
        self.snapshot_failures += 1;
    }

    /// A report could not be written.
    pub fn count_report_failure(&mut self) {
        self.report_failures += 1;
    }
}

/// What has no name of its own stands in parentheses, which no keyspace or table can have in its name.
pub(super) const OTHERS: &str = "(others)";

fn none() -> String {
    "(none)".to_owned()
}

/// The value of a label: text that clients chose, without what cannot be seen and of bounded length.
fn label(text: &str) -> String {
    let characters = text.chars().filter(|character| !is_unprintable(*character));
    characters.take(LONGEST_LABEL).collect()
}

/// Names of keyspaces and tables have up to 48 characters.
const LONGEST_LABEL: usize = 100;
