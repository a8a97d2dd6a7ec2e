//! A well-modelled application before the embedded node: nothing is found above info.

use std::time::Duration;

use super::*;
use cqlens_testing::proxy::Proxy;

#[path = "../scenarios/clean.rs"]
mod clean;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_well_modelled_workload_has_no_finding_above_info() {
    let node = node().await;
    let folder = tempfile::tempdir().unwrap();
    let report_file = folder.path().join("report.json");
    let options = ["--window", "2s", "--report", report_file.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &options);
    let requests = clean::run(proxy.address, &ClientOptions::default()).await;
    let ended = tokio::task::spawn_blocking(|| proxy.stop(Duration::from_secs(60)));
    let ended = ended.await.unwrap();
    assert_eq!(ended.code, 0, "{}", ended.log);
    let report = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();
    clean::is_clean(&report, requests);
}
