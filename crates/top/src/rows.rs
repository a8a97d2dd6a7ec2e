//! The rows of each view: what is shown of a report, sorted and filtered.

use std::collections::{BTreeMap, HashMap};

use cqlens_rules::Severity;

use crate::report::{Finding, Pattern, Report};

/// A report and the one before it, for what happened between them.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    pub(crate) now: Report,
    /// Executions of each pattern and requests of each application in the report before, and the seconds since.
    before: Option<Before>,
}

#[derive(Debug)]
struct Before {
    counts: HashMap<String, u64>,
    seconds: f64,
}

impl Reports {
    /// Puts a later report in the place of this one. A report of the same time is no later one, and one that covers
    /// less time is of a proxy that has started anew.
    pub(crate) fn replace(&mut self, report: Report) {
        let seconds = report.window.seconds - self.now.window.seconds;
        if seconds != 0.0 {
            let is_next = seconds > 0.0 && report.window.start == self.now.window.start;
            self.before = is_next.then(|| Before {
                counts: counts(&self.now),
                seconds,
            });
        }
        self.now = report;
    }

    /// Whether rates are those since the report before, and not those of the whole time.
    pub(crate) fn are_recent(&self) -> bool {
        self.before.is_some()
    }

    /// How often a second.
    fn rate(&self, key: &str, count: u64, seconds: f64) -> f64 {
        let (count, seconds) = match &self.before {
            None => (count, seconds),
            Some(before) => {
                let counted = before.counts.get(key).copied().unwrap_or_default();
                (count.saturating_sub(counted), before.seconds)
            }
        };
        #[allow(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
        match seconds > 0.0 {
            true => count as f64 / seconds,
            false => 0.0,
        }
    }

    fn pattern_rate(&self, pattern: &Pattern) -> f64 {
        self.rate(&pattern.id, pattern.count, pattern.observed_seconds)
    }

    /// All requests on user keyspaces.
    pub(crate) fn total_rate(&self) -> f64 {
        self.now
            .patterns
            .iter()
            .map(|pattern| self.pattern_rate(pattern))
            .sum()
    }
}

fn counts(report: &Report) -> HashMap<String, u64> {
    let patterns = report
        .patterns
        .iter()
        .map(|pattern| (pattern.id.clone(), pattern.count));
    let applications = report.applications.iter();
    let applications =
        applications.map(|application| (application_key(&application.name), application.requests));
    patterns.chain(applications).collect()
}

/// No pattern's id has a blank.
fn application_key(name: &str) -> String {
    format!("application {name}")
}

/// What rows are sorted by, the greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Time,
    Work,
    Rate,
    Latency,
    Errors,
    Severity,
}

impl Sort {
    pub(crate) const ALL: [Self; 6] = [
        Self::Time,
        Self::Work,
        Self::Rate,
        Self::Latency,
        Self::Errors,
        Self::Severity,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Work => "work",
            Self::Rate => "rate",
            Self::Latency => "p99",
            Self::Errors => "errors",
            Self::Severity => "severity",
        }
    }
}

/// One line: of a pattern, a table or an application.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Row {
    /// A pattern's id, else the name.
    pub(crate) key: String,
    pub(crate) rate: f64,
    pub(crate) time_share: Option<f64>,
    pub(crate) work_share: Option<f64>,
    /// Microseconds; none if nothing was measured.
    pub(crate) p99_us: Option<u64>,
    /// Partitions of an execution, p99; none if they are unknown.
    pub(crate) partitions: Option<u64>,
    pub(crate) errors: u64,
    /// Of its worst finding.
    pub(crate) severity: Option<Severity>,
    pub(crate) text: String,
}

impl Row {
    fn sort_key(&self, sort: Sort) -> f64 {
        #[allow(
            clippy::cast_precision_loss,
            reason = "rows that close to each other may stand either way"
        )]
        match sort {
            Sort::Time => self.time_share.unwrap_or_default(),
            Sort::Work => self.work_share.unwrap_or_default(),
            Sort::Rate => self.rate,
            Sort::Latency => self.p99_us.unwrap_or_default() as f64,
            Sort::Errors => self.errors as f64,
            Sort::Severity => self
                .severity
                .map_or(0.0, |severity| f64::from(severity as u8) + 1.0),
        }
    }
}

/// The rows of patterns.
pub(crate) fn statements(reports: &Reports, chosen: impl Fn(&Pattern) -> bool) -> Vec<Row> {
    let worst = worst(&reports.now.findings, |finding| finding.patterns.clone());
    let chosen = reports.now.patterns.iter().filter(|pattern| chosen(pattern));
    chosen
        .map(|pattern| Row {
            key: pattern.id.clone(),
            rate: reports.pattern_rate(pattern),
            time_share: pattern.time_share,
            work_share: Some(pattern.work_share),
            p99_us: p99(pattern),
            partitions: partitions(pattern),
            errors: pattern.errors,
            severity: worst.get(&pattern.id).copied(),
            text: pattern.cql.clone(),
        })
        .collect()
}

/// The rows of tables, each the sum of its patterns.
pub(crate) fn tables(reports: &Reports) -> Vec<Row> {
    let worst = worst(&reports.now.findings, |finding| vec![finding.table_name()]);
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for pattern in &reports.now.patterns {
        let name = pattern.table_name();
        let row = rows.entry(name.clone()).or_insert_with(|| Row {
            severity: worst.get(&name).copied(),
            text: name.clone(),
            key: name,
            ..Row::default()
        });
        row.rate += reports.pattern_rate(pattern);
        row.time_share = added(row.time_share, pattern.time_share);
        row.work_share = added(row.work_share, Some(pattern.work_share));
        row.p99_us = row.p99_us.max(p99(pattern));
        row.partitions = row.partitions.max(partitions(pattern));
        row.errors += pattern.errors;
    }
    rows.into_values().collect()
}

/// The rows of applications.
pub(crate) fn applications(reports: &Reports) -> Vec<Row> {
    let row = |application: &crate::report::Application| Row {
        key: application.name.clone(),
        rate: reports.rate(
            &application_key(&application.name),
            application.requests,
            reports.now.window.seconds,
        ),
        p99_us: (application.latency_us.count > 0).then_some(application.latency_us.p99),
        errors: application.errors,
        text: match application.drivers.is_empty() {
            true => application.name.clone(),
            false => format!("{} ({})", application.name, application.drivers.join(", ")),
        },
        ..Row::default()
    };
    reports.now.applications.iter().map(row).collect()
}

/// Leaves rows that contain `filter`, whatever the case, and puts the greatest first.
pub(crate) fn arrange(mut rows: Vec<Row>, filter: &str, sort: Sort) -> Vec<Row> {
    let filter = filter.to_lowercase();
    rows.retain(|row| row.text.to_lowercase().contains(&filter));
    rows.sort_by(|one, other| {
        let order = other.sort_key(sort).total_cmp(&one.sort_key(sort));
        order
            .then_with(|| other.rate.total_cmp(&one.rate))
            .then_with(|| one.key.cmp(&other.key))
    });
    rows
}

fn worst(findings: &[Finding], keys: impl Fn(&Finding) -> Vec<String>) -> HashMap<String, Severity> {
    let mut worst = HashMap::new();
    for finding in findings {
        for key in keys(finding) {
            let severity = worst.entry(key).or_insert(finding.severity);
            *severity = finding.severity.max(*severity);
        }
    }
    worst
}

fn p99(pattern: &Pattern) -> Option<u64> {
    (pattern.latency_us.count > 0).then_some(pattern.latency_us.p99)
}

/// Scans, index reads and the like have no number of partitions.
fn partitions(pattern: &Pattern) -> Option<u64> {
    let is_counted = ["single", "multi"].contains(&pattern.partitions.class.as_str());
    is_counted.then_some(pattern.partitions.p99)
}

fn added(sum: Option<f64>, share: Option<f64>) -> Option<f64> {
    match (sum, share) {
        (Some(sum), Some(share)) => Some(sum + share),
        (sum, share) => sum.or(share),
    }
}
