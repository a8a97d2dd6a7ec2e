//! Stores of clouds: windows of proxies go there and come back as one report.

use cqlens_testing::{available, clouds::Server};
use serde_json::Value;

use crate::cluster::{Cluster, json, report, text};

#[test]
fn windows_go_to_s3_and_come_back() {
    if let Some(server) = available("S3", Server::s3("reviews")) {
        windows_go_there_and_come_back(server);
    }
}

#[test]
fn windows_go_to_azure_and_come_back() {
    if let Some(server) = available("Azure Blob Storage", Server::azure("reviews")) {
        windows_go_there_and_come_back(server);
    }
}

/// The findings of a report, the first first: their rules and severities.
fn ranked(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| (text(&finding["rule"]), text(&finding["severity"])))
        .collect()
}

fn windows_go_there_and_come_back(server: Server) {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let store = format!("{}/cqlens", server.url());
    let snapshots = folder.path().join("snapshots");
    let arguments = [
        "--sink",
        &store,
        "--sink-spool",
        text(&spool),
        "--snapshot-dir",
        text(&snapshots),
    ];
    let from = ["--from", &store, "--since", "1d"];
    cluster.watch("proxy-a", 20, &arguments, server.environment());
    cluster.watch("proxy-b", 10, &arguments, server.environment());
    let whole = json(&report(&from, server.environment()));
    assert_eq!(whole["window"]["sources"].as_array().unwrap().len(), 2);
    let patterns = whole["patterns"].as_array().unwrap().iter();
    let scans: Vec<&Value> = patterns
        .filter(|pattern| pattern["cql"] == "SELECT * FROM shop.items")
        .collect();
    assert_eq!(scans.len(), 1, "{whole:#}");
    assert_eq!(scans[0]["count"], 30, "of both proxies");
    // Which finding comes first depends on how long a busy machine takes for the same requests.
    let found = ranked(&whole);
    assert!(found.iter().any(|(rule, _)| rule == "full-scan"), "{whole:#}");
    assert_eq!(found, ranked(&json(&report(&[text(&snapshots)], &[]))));

    // A server that is gone costs the proxy nothing.
    let environment = server.environment().to_vec();
    drop(server);
    let log = cluster.watch("proxy-c", 5, &arguments, &environment);
    assert!(log.contains("the others wait for the next start"), "{log}");
    assert_eq!(report(&from, &environment).status.code(), Some(2));
}
