//! The scenarios of `cqlens demo` on a real Cassandra: the verdict is the same as on the embedded node.

use std::{net::SocketAddr, time::Duration};

use cqlens_client::ClientOptions;
use cqlens_node::scenario::Scenario;
use tokio::runtime::Runtime;

use crate::node;
use crate::support::{
    available,
    cassandra::{Cassandra, Options, Release},
    proxy::Proxy,
    with_everything,
};

#[path = "../scenarios/verdict.rs"]
mod verdict;

#[test]
fn every_scenario_has_the_verdict_on_cassandra_that_it_has_on_the_embedded_node() {
    let Some(node) = node() else { return };
    let runtime = Runtime::new().unwrap();
    let complaints: Vec<_> = read_by(Release::default().version())
        .iter()
        .flat_map(|scenario| complaints(&scenario.id, &report(scenario, node.address(), &runtime)))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn cassandra_4_1_is_judged_alike() {
    if with_everything("the scenarios on Cassandra 4.1") {
        is_judged_alike(Release::V4_1, 1);
    }
}

#[test]
fn cassandra_4_0_is_judged_alike() {
    let all = with_everything("two thirds of the scenarios on Cassandra 4.0");
    is_judged_alike(Release::V4_0, if all { 1 } else { 3 });
}

/// One scenario in `one_in` is sent to a node of that release.
fn is_judged_alike(release: Release, one_in: usize) {
    let options = Options {
        release,
        ..Options::default().with("tombstone_warn_threshold", "10")
    };
    let version = release.version();
    let Some(node) = available(format!("Cassandra {version}"), Cassandra::start(&options)) else {
        return;
    };
    let runtime = Runtime::new().unwrap();
    let mut complaints = Vec::new();
    for scenario in read_by(version).iter().step_by(one_in) {
        let report = report(scenario, node.address(), &runtime);
        assert_eq!(report.json["cluster"]["release_version"], version);
        complaints.extend(self::complaints(&scenario.id, &report));
    }
    assert!(complaints.is_empty(), "{version}: {complaints:#?}");
}

/// The scenarios that a Cassandra of this version reads.
fn read_by(version: &str) -> Vec<Scenario> {
    let ids = verdict::ids();
    let scenarios = ids.iter().map(|id| {
        let [schema, traffic] = ["schema.cql", "traffic.toml"].map(|file| verdict::text(id, file));
        Scenario::parse(id, &schema, &traffic).unwrap()
    });
    scenarios
        .filter(|scenario| scenario.is_read_by(version))
        .collect()
}

struct Report {
    json: serde_json::Value,
    /// Whether the server has forgotten prepared statements meanwhile, as older ones do around changes of the schema.
    has_forgotten: bool,
}

/// What speaks against the verdict of a scenario. That a server forgets statements is found, and in no verdict.
fn complaints(id: &str, report: &Report) -> Vec<String> {
    let mut json = report.json.clone();
    if report.has_forgotten {
        let findings = json["findings"].as_array_mut().unwrap();
        findings.retain(|finding| finding["rule"] != "prepare-churn");
    }
    verdict::read(id).complaints(id, &json)
}

/// The report on a scenario alone: what it costs is a part of its own traffic, as it was of that of the
/// application that it was taken from.
fn report(scenario: &Scenario, node: SocketAddr, runtime: &Runtime) -> Report {
    let id = &scenario.id;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    // A build for tests is slow, and would look at a sample of what belongs together.
    let options = ["--window", "3600s", "--sequence-budget", "100000"];
    let options = [&options[..], &["--report", file.to_str().unwrap()]].concat();
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node, &options);
    let options = ClientOptions {
        timeout: Duration::from_secs(120),
        ..ClientOptions::default()
    };
    let ran = runtime.block_on(scenario.run(proxy.address, &options));
    let ran = ran.unwrap();
    assert_eq!(ran.refused, verdict::read(id).refused, "{id}");
    let ended = proxy.stop(Duration::from_secs(300));
    assert_eq!(ended.code, 0, "{}", ended.log);
    Report {
        json: serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap(),
        has_forgotten: ran.sent_again > 0,
    }
}
