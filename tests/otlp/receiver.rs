//! A real collector, built out of its Go modules.

use std::{
    fs,
    net::SocketAddr,
    time::{Duration, Instant},
};

use cqlens_testing::{
    Missing, cache,
    process::Supervised,
    proxy::{free_address, get},
    tools, workspace,
};
use serde_json::Value;

const LISTENS_WITHIN: Duration = Duration::from_secs(60);

/// A collector, with what it was sent.
pub(crate) struct Collector {
    pub(crate) folder: tempfile::TempDir,
    receives: SocketAddr,
    shows: SocketAddr,
    /// Further settings of its listener.
    pub(crate) listener: String,
    process: Option<Supervised>,
}

impl Collector {
    /// A collector that does not run yet.
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            receives: free_address(),
            shows: free_address(),
            listener: String::new(),
            process: None,
        }
    }

    pub(crate) fn start(&mut self) -> Result<(), Missing> {
        let source = workspace().join("tests/otlp/collector");
        let program = tools::of_go_source("tool-otel-collector", &source, ".", "")?;
        let settings = self.folder.path().join("collector.yaml");
        let written = self.folder.path().join("written.json");
        fs::write(&settings, settings_of(self, &written.display().to_string())).unwrap();
        let command = [
            program.display().to_string(),
            format!("--config={}", settings.display()),
        ];
        let log = cache::log_file("otel-collector");
        self.process = Some(Supervised::spawn(&command, &[], &log, None));
        let begun = Instant::now();
        while get(self.shows, "/metrics").is_none() {
            assert!(begun.elapsed() < LISTENS_WITHIN, "the collector does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.receives)
    }

    /// What Prometheus would read of the collector.
    pub(crate) fn exposed(&self) -> String {
        get(self.shows, "/metrics").unwrap()
    }

    /// What it has written under a name.
    pub(crate) fn written(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("written.json")).unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| !line[name].is_null()).collect()
    }

    /// The findings that it was told.
    pub(crate) fn findings(&self) -> Vec<Value> {
        let written = self.written("resourceLogs");
        let scopes = written
            .iter()
            .flat_map(|line| line["resourceLogs"].as_array().unwrap());
        let scopes = scopes.flat_map(|resource| resource["scopeLogs"].as_array().unwrap());
        let records = scopes.flat_map(|scope| scope["logRecords"].as_array().unwrap());
        records.cloned().collect()
    }
}

fn settings_of(collector: &Collector, file: &str) -> String {
    let Collector {
        receives,
        shows,
        listener,
        ..
    } = collector;
    format!(
        "receivers:
  otlp:
    protocols:
      http:
        endpoint: {receives}{listener}
exporters:
  file:
    path: {file}
    flush_interval: 100ms
  prometheus:
    endpoint: {shows}
    without_scope_info: true
service:
  pipelines:
    metrics:
      receivers: [otlp]
      exporters: [file, prometheus]
    logs:
      receivers: [otlp]
      exporters: [file]
"
    )
}

/// The attribute of a record or resource.
pub(crate) fn attribute<'record>(record: &'record Value, name: &str) -> Option<&'record str> {
    let attributes = record["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == name)?;
    found["value"]["stringValue"].as_str()
}
