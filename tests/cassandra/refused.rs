//! A client of whom the node refuses everything is named; one that is refused something now and then is not.

use std::{thread, time::Duration};

use serde_json::Value;

use crate::node;
use crate::support::cassandra::Cassandra;
use crate::support::driver::Driver;
use crate::support::proxy::Proxy;
use crate::support::{available, with_everything};

/// An application for a bit more than a minute through a proxy of its own: how many statements were refused
/// and how many served, whom the report names, and the lines of log that name a client.
fn run(python: &Driver, node: &Cassandra, share: &str) -> (u64, u64, Vec<(String, u64)>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let report_file = folder.path().join("report.json");
    let options = ["--window", "5s", "--report", report_file.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &options);
    let (host, port) = (proxy.address.ip().to_string(), proxy.address.port().to_string());
    let asked = python.run_with(vec![host, port, "75".to_owned(), share.to_owned()]);
    let ended = proxy.stop(Duration::from_secs(300));
    assert_eq!(ended.code, 0, "{}", ended.log);
    let asked: Value = serde_json::from_str(&asked[0]).unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();
    let named = report["coverage"]["refused_clients"].as_object().unwrap();
    let named = named
        .iter()
        .map(|(client, count)| (client.clone(), count.as_u64().unwrap()));
    let lines = ended
        .log
        .lines()
        .filter(|line| line.contains("has refused all requests"));
    let [refused, served] = ["refused", "served"].map(|count| asked[count].as_u64().unwrap());
    (refused, served, named.collect(), lines.count())
}

#[test]
fn a_client_of_whom_the_node_refuses_everything_for_a_minute_is_named() {
    if !with_everything("a client that is refused everything for a minute") {
        return;
    }
    let Some(python) = available("the Python driver", Driver::python("refused.py")) else {
        return;
    };
    let Some(node) = node() else { return };
    let (all, half) = thread::scope(|scope| {
        let all = scope.spawn(|| run(&python, node, "all"));
        let half = run(&python, node, "half");
        (all.join().unwrap(), half)
    });
    let (refused, served, named, lines) = all;
    assert!(refused > 20 && served == 0, "{refused} refused, {served} served");
    let [(client, count)] = &named[..] else {
        panic!("{named:?}");
    };
    assert!(client.contains("Python"), "{client}");
    // Windows name it from its first full minute on.
    assert!((1..refused).contains(count), "{count} of {refused}");
    assert_eq!(lines, 1, "said once");

    let (refused, served, named, lines) = half;
    assert!(refused > 20 && served > 20, "{refused} refused, {served} served");
    assert_eq!((named, lines), (vec![], 0));
}
