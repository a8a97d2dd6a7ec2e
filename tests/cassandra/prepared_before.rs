//! A proxy that starts after its clients have prepared their statements counts their partitions all the same.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use crate::node;
use crate::support::available;
use crate::support::driver::Driver;
use crate::support::proxy::Proxy;

fn arguments(addresses: &[SocketAddr]) -> Vec<String> {
    addresses
        .iter()
        .flat_map(|address| [address.ip().to_string(), address.port().to_string()])
        .collect()
}

#[test]
fn statements_prepared_before_the_proxy_are_looked_up() {
    let Some(python) = available("the Python driver", Driver::python("prepared_before.py")) else {
        return;
    };
    let Some(node) = node() else { return };
    python.run_with(arguments(&[node.address()]));

    let folder = tempfile::tempdir().unwrap();
    let report_file = folder.path().join("report.json");
    let options = ["--window", "3600s", "--report", report_file.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &options);
    let asked = python.run_with(arguments(&[node.address(), proxy.address]));
    let ended = proxy.stop(Duration::from_secs(300));
    assert_eq!(ended.code, 0, "{}", ended.log);

    let asked: Value = serde_json::from_str(&asked[0]).unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();
    let patterns = report["patterns"].as_array().unwrap();
    let found: Vec<&Value> = patterns
        .iter()
        .filter(|pattern| pattern["keyspace"] == "prepared_before" && pattern["table"] == "t")
        .collect();
    assert_eq!(found.len(), 1, "{patterns:#?}");
    assert_eq!(found[0]["count"], asked["reads"], "{}", found[0]);
    assert_eq!(
        found[0]["partitions"]["total"], asked["partitions"],
        "{}",
        found[0]
    );
}
