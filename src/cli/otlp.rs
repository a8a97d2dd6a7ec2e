//! A collector of OpenTelemetry that gets the metrics, and the findings as they appear.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    time::Duration,
};

use anyhow::Context;
use tokio::sync::mpsc;

use super::{config::positive_duration, login::secret, plaintext};
use cqlens_otlp::{Event, Exporter, ExporterSettings, Level, Resource};
use cqlens_proxy::files::{self, Limit};
use cqlens_report::{FindingReport, Report};
use cqlens_rules::{Severity, StableId};

/// Where the collector is.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operation")]
pub(super) struct OtlpArgs {
    /// Send metrics and new findings to an OpenTelemetry collector
    ///
    /// By OTLP over HTTP, below a URL such as http://127.0.0.1:4318: all that /metrics has to /v1/metrics, and findings
    /// to /v1/logs when they first appear or become more severe.
    #[arg(long, env = "CQLENS_OTLP", value_name = "URL", hide_short_help = true)]
    pub(super) otlp: Option<String>,
    /// How often to send metrics to the collector
    #[arg(long, env = "CQLENS_OTLP_EVERY", value_name = "DURATION", default_value = "60s", value_parser = positive_duration, hide_short_help = true)]
    pub(super) otlp_every: Duration,
    /// Read a header to send along from a file, such as `Authorization: Bearer …`
    #[arg(
        long,
        env = "CQLENS_OTLP_HEADER_FILE",
        value_name = "FILE",
        requires = "otlp",
        hide_short_help = true
    )]
    otlp_header_file: Option<PathBuf>,
    /// CA certificates to verify the collector, in PEM, instead of the system's
    #[arg(
        long,
        env = "CQLENS_OTLP_TLS_CA",
        value_name = "FILE",
        requires = "otlp",
        hide_short_help = true
    )]
    otlp_tls_ca: Option<PathBuf>,
}

/// Certificates of authorities.
const AUTHORITIES: Limit = Limit::new("certificates", 1 << 20);

impl OtlpArgs {
    /// The way to the collector, for a source of this name; none where no collector is named. Files are read each time.
    ///
    /// # Errors
    /// A URL or files that cannot be used.
    pub(super) fn exporter(&self, source: &str) -> anyhow::Result<Option<Exporter>> {
        let Some(endpoint) = &self.otlp else {
            return Ok(None);
        };
        let header = self
            .otlp_header_file
            .as_deref()
            .map(|path| secret(path, "header"));
        let authorities = self.otlp_tls_ca.as_deref().map(|path| {
            let read = files::read(path, AUTHORITIES);
            read.with_context(|| format!("cannot read {}", path.display()))
        });
        let settings = ExporterSettings {
            endpoint: endpoint.clone(),
            headers: header.transpose()?.unwrap_or_default(),
            authorities: authorities.transpose()?,
            plaintext_headers: plaintext::is_allowed(),
        };
        let resource = Resource(vec![
            ("service.name", "cqlens".to_owned()),
            ("service.instance.id", source.to_owned()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        let exporter = Exporter::new(&settings, resource);
        exporter
            .map(Some)
            .with_context(|| format!("otlp: cannot use {endpoint}"))
    }
}

/// Events on their way from the thread that judges to the one that sends.
pub(super) type Events = mpsc::Receiver<Event>;

/// How many events may wait. A finding for which there is no room is sent after a later window.
pub(super) const MOST_WAITING: usize = 1_000;

/// So many findings are known to have been sent; beyond them those that are no more would be sent again.
const MOST_SENT: usize = 20_000;

/// Sends each finding once, and again if it becomes more severe.
pub(super) struct FindingEvents {
    sent: HashMap<StableId, Severity>,
    events: mpsc::Sender<Event>,
}

impl FindingEvents {
    pub(super) fn begin() -> (Self, Events) {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        let findings = Self {
            sent: HashMap::new(),
            events: sender,
        };
        (findings, receiver)
    }

    /// Sends the findings of a report that are new or more severe than before.
    pub(super) fn send_new(&mut self, report: &Report) {
        let patterns = report.patterns.iter();
        let texts: HashMap<_, _> = patterns
            .map(|pattern| (pattern.id, pattern.cql.as_str()))
            .collect();
        for finding in &report.findings {
            let before = self.sent.get(&finding.id);
            if before.is_some_and(|&before| before >= finding.severity) {
                continue;
            }
            let statement = finding.patterns.first().and_then(|id| texts.get(id).copied());
            if self.events.try_send(event(finding, statement, report)).is_ok() {
                self.sent.insert(finding.id, finding.severity);
            }
        }
        self.forget_gone(report);
    }

    /// Forgets findings that are no more where there are too many: a client can make ever new ones.
    fn forget_gone(&mut self, report: &Report) {
        if self.sent.len() > MOST_SENT.max(2 * report.findings.len()) {
            let here: HashSet<_> = report.findings.iter().map(|finding| finding.id).collect();
            self.sent.retain(|id, _| here.contains(id));
        }
    }
}

/// With OpenTelemetry's names for what is of a database.
fn event(finding: &FindingReport, statement: Option<&str>, report: &Report) -> Event {
    let severity = finding.severity.to_string();
    let attributes = [
        ("cqlens.rule", Some(finding.rule.to_owned())),
        ("cqlens.finding.id", Some(finding.id.to_string())),
        ("cqlens.severity", Some(severity.clone())),
        ("cqlens.advice", Some(finding.advice.clone())),
        ("db.system.name", Some("cassandra".to_owned())),
        ("db.namespace", finding.keyspace.clone()),
        ("db.collection.name", finding.table.clone()),
        // A template: it has no values.
        ("db.query.text", statement.map(str::to_owned)),
    ];
    let end = report.window.end.as_nanosecond();
    Event {
        name: "cqlens.finding",
        time_ns: u64::try_from(end).unwrap_or_default(),
        severity: match finding.severity {
            Severity::High => Level::Error,
            Severity::Medium => Level::Warn,
            Severity::Low | Severity::Info => Level::Info,
        },
        severity_text: severity,
        body: finding.title.clone(),
        attributes: attributes
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqlens_cql::schema::Schema;
    use cqlens_rules::{Context, Settings, check};
    use jiff::Timestamp;

    fn report() -> Report {
        let snapshot = crate::cli::report::tests::snapshot("a", "2026-11-21T06:00:00Z");
        let (window, cluster, schema) = (snapshot.window, snapshot.cluster, Schema::default());
        let judgement = check(&Context::new(&window, &schema, &cluster), &Settings::default());
        Report::new(&window, &cluster, &schema, judgement, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn findings_that_are_no_more_are_forgotten_where_there_are_many() {
        let (mut findings, _events) = FindingEvents::begin();
        let report = report();
        assert!(!report.findings.is_empty());
        let id = |number| serde_json::from_value(format!("{number:016x}").into()).ok();
        let ids = (0..=MOST_SENT).filter_map(id).map(|id| (id, Severity::High));
        findings.sent.extend(ids);
        assert!(findings.sent.len() > MOST_SENT);
        findings.send_new(&report);
        assert_eq!(findings.sent.len(), report.findings.len());
        findings.send_new(&report);
        assert_eq!(findings.sent.len(), report.findings.len());
    }
}
