//! Windows of several proxies in one store, and the report that is made of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use cqlens_testing::{
    available,
    clouds::Server,
    proxy::{Proxy, free_address},
};
use serde_json::Value;
use tokio::runtime::Runtime;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");
const LIMIT: Duration = Duration::from_secs(60);

/// A node with a table.
struct Cluster {
    runtime: Runtime,
    node: Node,
}

impl Cluster {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let node = runtime.block_on(Node::start(Options::default())).unwrap();
        let cluster = Self { runtime, node };
        let schema =
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
            CREATE TABLE shop.items (id int PRIMARY KEY, v text);";
        cluster.send(cluster.node.address(), schema);
        cluster
    }

    fn send(&self, address: SocketAddr, script: &str) {
        self.runtime.block_on(async {
            let options = ClientOptions::default();
            let mut client = Client::connect(address, &options).await.unwrap();
            client.script(script).await.unwrap();
        });
    }

    /// Runs a proxy under a name until it has passed on so many scans and reads of single partitions, which are in
    /// `arguments`' outputs then.
    fn watch(
        &self,
        name: &str,
        rounds: usize,
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> String {
        let (listen, upstream) = (free_address().to_string(), self.node.address().to_string());
        let named = [
            "--listen",
            &listen,
            "--upstream",
            &upstream,
            "--name",
            name,
            "--window",
            "200ms",
        ];
        let proxy = Proxy::launch(PROGRAM, &[&named, arguments].concat(), environment, None);
        for id in 0..rounds {
            self.send(
                proxy.address,
                &format!("SELECT * FROM shop.items; SELECT v FROM shop.items WHERE id = {id};"),
            );
        }
        let ended = proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
        ended.log
    }
}

fn report(arguments: &[&str], environment: &[(String, String)]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["report", "--format", "json"]).args(arguments);
    command.envs(environment.iter().cloned()).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A report without what differs from run to run: when it was made, and points of time shorter than merged windows.
fn comparable(mut report: Value) -> Value {
    let parts = report.as_object_mut().unwrap();
    assert!(parts.remove("generated_at").is_some(), "{:?}", parts.keys());
    parts.remove("timeline");
    report
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_report_of_the_store_is_that_of_the_snapshots() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let [store, spool, snapshots] = ["store", "spool", "snapshots"].map(|name| folder.path().join(name));
    let key = folder.path().join("hash.key");
    fs::create_dir(&store).unwrap();
    let arguments = [
        "--sink",
        text(&store),
        "--sink-spool",
        text(&spool),
        "--snapshot-dir",
        text(&snapshots),
        "--hash-key-file",
        text(&key),
    ];
    cluster.watch("proxy-a", 20, &arguments, &[]);
    cluster.watch("proxy-b", 30, &arguments, &[]);
    let from_store = json(&report(&["--from", text(&store), "--since", "1d"], &[]));
    assert_eq!(
        from_store["coverage"]["requests"],
        json(&report(&[text(&snapshots)], &[]))["coverage"]["requests"]
    );
    // What is in the store was merged, which rounds the quantiles of distributions: so is the other.
    let copied = folder.path().join("copied");
    fs::create_dir(&copied).unwrap();
    for day in fs::read_dir(&store).unwrap().map(Result::unwrap) {
        for source in fs::read_dir(day.path()).unwrap().map(Result::unwrap) {
            for file in fs::read_dir(source.path()).unwrap().map(Result::unwrap) {
                fs::copy(file.path(), copied.join(file.file_name())).unwrap();
            }
        }
    }
    assert_eq!(fs::read_dir(&copied).unwrap().count(), 2, "one for each proxy");
    assert_eq!(
        comparable(from_store),
        comparable(json(&report(&[text(&copied)], &[])))
    );

    let other = report(
        &["--from", text(&store), "--since", "1d", "--cluster", "another"],
        &[],
    );
    assert_eq!(other.status.code(), Some(2));
    let before = report(
        &[
            "--from",
            text(&store),
            "--since",
            "2020-01-01",
            "--until",
            "2020-01-02",
        ],
        &[],
    );
    assert!(String::from_utf8_lossy(&before.stderr).contains("has no snapshot of that span of time"));
}

#[test]
fn a_proxy_does_not_wait_for_a_sink_that_is_not_there() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let nowhere = format!("cassandra://{}/cqlens", free_address());
    let arguments = [
        "--sink",
        &nowhere,
        "--sink-spool",
        text(&spool),
        "--sink-every",
        "1s",
    ];
    let log = cluster.watch("proxy-a", 20, &arguments, &[]);
    assert!(
        log.contains("sink: snapshots cannot be written and wait in"),
        "{log}"
    );
    assert!(log.contains("the others wait for the next start"), "{log}");
    // The next process writes what this one has left.
    let store = folder.path().join("store");
    fs::create_dir(&store).unwrap();
    let arguments = ["--sink", text(&store), "--sink-spool", text(&spool)];
    cluster.watch("proxy-b", 1, &arguments, &[]);
    let whole = json(&report(&["--from", text(&store), "--since", "1d"], &[]));
    let sources = whole["window"]["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 2, "{sources:?}");
    let left = fs::read_dir(&spool)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left
        .filter(|name| name.to_string_lossy().ends_with(".gz"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn damaged_objects_are_left_out_and_named() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let [store, spool] = ["store", "spool"].map(|name| folder.path().join(name));
    fs::create_dir(&store).unwrap();
    cluster.watch(
        "proxy-a",
        5,
        &["--sink", text(&store), "--sink-spool", text(&spool)],
        &[],
    );
    let day = fs::read_dir(&store).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read_dir(day.join("proxy-a"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let cut = fs::read(whole.path()).unwrap();
    let name = whole
        .file_name()
        .into_string()
        .unwrap()
        .replace("proxy-a", "proxy-b");
    fs::create_dir(day.join("proxy-b")).unwrap();
    fs::write(day.join("proxy-b").join(&name), &cut[..cut.len() / 2]).unwrap();
    fs::write(day.join("proxy-b").join("README"), "not a window").unwrap();
    let from = ["--from", text(&store), "--since", "1d"];
    let found = json(&report(&from, &[]));
    let notices = found["coverage"]["notices"].to_string();
    assert!(
        notices.contains(&format!("1 snapshot is damaged and left out: {name}")),
        "{notices}"
    );
    let strict = report(&[&from[..], &["--strict"]].concat(), &[]);
    assert_eq!(strict.status.code(), Some(2));
}

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

#[test]
fn mistakes_are_told_before_anything_starts() {
    for (arguments, told) in [
        (
            ["proxy", "--sink", "http://bucket"],
            "expected a folder, or a URL",
        ),
        (
            ["proxy", "--sink", "cassandra://me:secret@db1/cqlens"],
            "do not belong in the URL",
        ),
        (["report", "--from", "s3://reviews"], "--since"),
    ] {
        let mut command = Command::new(PROGRAM);
        command.args(arguments);
        if arguments[0] == "proxy" {
            command.args(["--upstream", "127.0.0.1:9"]);
        }
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(told), "{error}");
    }
}
