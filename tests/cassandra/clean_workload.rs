//! A well-modelled application before a real Cassandra: nothing is found above info.

use std::time::Duration;

use cqlens_client::ClientOptions;

use crate::node;
use crate::support::proxy::Proxy;

#[path = "../scenarios/clean.rs"]
mod clean;

#[test]
fn a_well_modelled_workload_has_no_finding_above_info() {
    let Some(node) = node() else { return };
    let folder = tempfile::tempdir().unwrap();
    let report_file = folder.path().join("report.json");
    let options = ["--window", "5s", "--report", report_file.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &options);
    let options = ClientOptions {
        timeout: Duration::from_secs(120),
        ..ClientOptions::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let requests = runtime.block_on(clean::run(proxy.address, &options));
    let ended = proxy.stop(Duration::from_secs(300));
    assert_eq!(ended.code, 0, "{}", ended.log);
    let report = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();
    clean::is_clean(&report, requests);
}
