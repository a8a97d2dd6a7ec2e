//! The scenarios of `cqlens demo` on a real Cassandra: the verdict is the same as on the embedded node.

use std::time::Duration;

use cqlens_client::ClientOptions;
use cqlens_node::scenario::Scenario;

use crate::node;
use crate::support::proxy::Proxy;

#[path = "../scenarios/verdict.rs"]
mod verdict;

#[test]
fn every_scenario_has_the_verdict_on_cassandra_that_it_has_on_the_embedded_node() {
    let Some(node) = node() else { return };
    let folder = tempfile::tempdir().unwrap();
    let report_file = folder.path().join("report.json");
    let options = ["--window", "3600s", "--report", report_file.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &options);
    let ids = verdict::ids();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for id in &ids {
        let scenario = Scenario::parse(
            id,
            &verdict::text(id, "schema.cql"),
            &verdict::text(id, "traffic.toml"),
        );
        let options = ClientOptions {
            timeout: Duration::from_secs(30),
            ..ClientOptions::default()
        };
        let ran = runtime.block_on(scenario.unwrap().run(proxy.address, &options));
        assert_eq!(ran.unwrap().refused, 0, "{id}");
    }
    let ended = proxy.stop(Duration::from_secs(60));
    assert_eq!(ended.code, 0, "{}", ended.log);
    let report = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();
    let complaints: Vec<_> = ids
        .iter()
        .flat_map(|id| verdict::read(id).complaints(id, &report))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}
