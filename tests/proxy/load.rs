//! Which node coordinates a request and which hold its partitions, as far as cqlens is told of nodes at all.

use std::{net::SocketAddr, path::Path, time::Instant};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use serde_json::{Value, json};

use crate::proxy::{
    support::proxy::Proxy,
    wire::{LIMIT, report},
};

const SCHEMA: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE shop.users (name text PRIMARY KEY, age int);";

const TRAFFIC: [&str; 5] = [
    "INSERT INTO shop.users (name, age) VALUES ('anna', 31)",
    "INSERT INTO shop.users (name, age) VALUES ('bert', 32)",
    "SELECT age FROM shop.users WHERE name = 'anna'",
    "SELECT age FROM shop.users WHERE name IN ('anna', 'bert')",
    "SELECT age FROM shop.users",
];

/// Sends [`TRAFFIC`] through a proxy; its report, as JSON and as the Markdown that the snapshots give.
async fn observe(arguments: &[&str]) -> (Value, String) {
    let node = Node::start(Options::default()).await.unwrap();
    connect(node.address()).await.script(SCHEMA).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("schema.cql"), SCHEMA).unwrap();
    let (schema, json, snapshots) = (path("schema.cql"), path("report.json"), path("snapshots"));
    let files = [
        ("--schema", &schema),
        ("--report", &json),
        ("--snapshot-dir", &snapshots),
    ];
    let mut all = vec!["--window", "3600s"];
    all.extend(
        files
            .iter()
            .flat_map(|(flag, path)| [*flag, path.to_str().unwrap()]),
    );
    all.extend(arguments);
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &all);
    if !arguments.contains(&"--no-control-connection") {
        wait_for_the_ring(&proxy).await;
    }
    let mut client = connect(proxy.address).await;
    for statement in TRAFFIC {
        client.query(statement).await.unwrap();
    }
    drop(client);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    (report(&json), markdown(&snapshots))
}

async fn connect(address: SocketAddr) -> Client {
    Client::connect(address, &ClientOptions::default()).await.unwrap()
}

async fn wait_for_the_ring(proxy: &Proxy) {
    let deadline = Instant::now() + LIMIT;
    while !proxy.log().contains("control connection open") {
        assert!(Instant::now() < deadline, "{}", proxy.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn markdown(snapshots: &Path) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cqlens"));
    let output = command.arg("report").arg(snapshots).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn pattern<'r>(report: &'r Value, cql: &str) -> &'r Value {
    let mut patterns = report["patterns"].as_array().unwrap().iter();
    patterns.find(|pattern| pattern["cql"] == cql).unwrap()
}

#[tokio::test]
async fn a_single_node_coordinates_and_holds_everything_and_the_reader_is_spared_it() {
    let (report, markdown) = observe(&[]).await;
    let load = &report["load"];
    let nodes = load["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 1);
    let numbers = ["coordinated", "reads", "writes"].map(|name| &nodes[0][name]);
    assert_eq!(numbers, [&json!(5), &json!(3), &json!(2)]);
    assert_eq!(nodes[0]["data_center"], "datacenter1");
    assert_eq!(
        (&load["unplaced"], &load["coordinator_unknown"]),
        (&json!({}), &json!(0))
    );
    assert_eq!(load["without_keys"], 1);
    assert_eq!(
        load["ring"]["loads"].as_array().unwrap().len(),
        2,
        "two keys: {load}"
    );
    let one = pattern(&report, "SELECT age FROM shop.users WHERE name = ?");
    assert_eq!(
        one["routing"],
        json!({"replica": 1, "other": 0, "unknown": 0, "replica_share": 1.0})
    );
    let several = pattern(&report, "SELECT age FROM shop.users WHERE name IN ?");
    assert_eq!(several.get("routing"), None);
    assert!(
        !markdown.contains("## Nodes") && !markdown.contains("To a replica"),
        "{markdown}"
    );
}

#[tokio::test]
async fn without_a_control_connection_nothing_is_said_of_nodes_but_that_they_are_not_known() {
    let (report, markdown) = observe(&["--no-control-connection"]).await;
    let load = &report["load"];
    assert_eq!(
        (&load["nodes"], &load["unplaced"]),
        (&json!([]), &json!({"ring-unknown": 5}))
    );
    assert_eq!(load["coordinator_unknown"], 5);
    assert_eq!(load.get("ring"), None);
    let one = pattern(&report, "SELECT age FROM shop.users WHERE name = ?");
    assert_eq!(one["routing"], json!({"replica": 0, "other": 0, "unknown": 1}));
    let said = "\
            For 5 partitions read or written, the nodes that hold them are not known: no node reported its \
            tokens";
    assert!(markdown.contains(said), "{markdown}");
    assert!(!markdown.contains("## Nodes"), "{markdown}");
}
