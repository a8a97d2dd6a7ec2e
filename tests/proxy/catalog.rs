//! What cqlens finds out by itself: the schema, and statements that others have prepared.

use std::{net::SocketAddr, path::Path, time::Instant};

use cqlens_client::{Bind, Client, ClientOptions, Run, RunOptions};
use cqlens_node::{Node, Options};
use serde_json::{Value, json};

use crate::proxy::{
    support::proxy::Proxy,
    wire::{LIMIT, report},
};

const SCHEMA: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE shop.users (name text PRIMARY KEY, age int);";

fn proxy(upstream: SocketAddr, file: &Path, arguments: &[&str]) -> Proxy {
    let arguments = [
        &["--window", "50ms", "--report", file.to_str().unwrap()],
        arguments,
    ]
    .concat();
    Proxy::start(env!("CARGO_BIN_EXE_cqlens"), upstream, &arguments)
}

/// Reads the report again and again until `wanted` is true of its coverage.
async fn until(file: &Path, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + LIMIT;
    loop {
        // The proxy listens a moment before it writes the first report.
        let coverage = if file.exists() {
            report(file)["coverage"].clone()
        } else {
            Value::Null
        };
        if !coverage.is_null() && wanted(&coverage) {
            return coverage;
        }
        assert!(Instant::now() < deadline, "never: {what}\n{coverage}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn has_schema_notice(coverage: &Value) -> bool {
    coverage["notices"]
        .to_string()
        .contains("The schema could not be read")
}

#[tokio::test]
async fn the_schema_is_read_when_the_node_comes_up_later() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    // The node that is to be followed has gone before the proxy starts.
    let node = Node::start(Options::default()).await.unwrap();
    let address = node.address();
    node.shutdown().await;
    let proxy = proxy(address, &file, &[]);
    until(&file, "a notice that there is no schema", has_schema_notice).await;

    let node = Node::start(Options {
        listen: address,
        ..Options::default()
    })
    .await
    .unwrap();
    Client::connect(address, &ClientOptions::default())
        .await
        .unwrap()
        .script(SCHEMA)
        .await
        .unwrap();
    until(&file, "no such notice", |coverage| !has_schema_notice(coverage)).await;
    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    // The control connection may have come just before the table: its event then brings the table.
    let deadline = Instant::now() + LIMIT;
    while report(&file)["coverage"]["partitions_exact"] == 0 {
        client
            .query("SELECT age FROM shop.users WHERE name = 'anna'")
            .await
            .unwrap();
        assert!(Instant::now() < deadline, "the table is never known");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let log = proxy.log();
    assert_eq!(
        log.matches("no control connection").count(),
        1,
        "said once, not at every attempt:\n{log}"
    );
    drop(node);
}

// The node must answer while the proxy stops.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_was_prepared_elsewhere_is_looked_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let node = Node::start(Options::default()).await.unwrap();
    let mut direct = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    direct.script(SCHEMA).await.unwrap();
    let proxy = proxy(node.address(), &file, &[]);
    until(&file, "the schema", |coverage| !has_schema_notice(coverage)).await;

    let prepared = direct
        .prepare("SELECT age FROM shop.users WHERE name IN ?")
        .await
        .unwrap();
    let names = [Bind::Bytes(
        [0, 0, 0, 2, 0, 0, 0, 1, b'a', 0, 0, 0, 1, b'b'].to_vec().into(),
    )];
    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    client
        .run(Run::Prepared(&prepared, &names), &RunOptions::default())
        .await
        .unwrap();
    drop(client);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    let report = report(&file);
    // The first execution waits until the id has been looked up.
    let coverage = &report["coverage"];
    assert_eq!(coverage["partitions_exact"], 1, "{coverage}");
    assert_eq!(coverage["partitions_unknown"], 0, "{coverage}");
    let pattern = &report["patterns"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pattern| pattern["table"] == "users")
        .unwrap();
    assert_eq!(pattern["cql"], "SELECT age FROM shop.users WHERE name IN ?");
    assert_eq!(
        (&pattern["partitions"]["p50"], &pattern["partitions"]["class"]),
        (&json!(2), &json!("multi"))
    );
}

// The node must answer while the proxy stops.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_others_create_is_counted_from_its_first_request_on() {
    const TABLES: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let node = Node::start(Options::default()).await.unwrap();
    let mut direct = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    direct.script(SCHEMA).await.unwrap();
    let proxy = proxy(node.address(), &file, &[]);
    until(&file, "the schema", |coverage| !has_schema_notice(coverage)).await;

    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    for table in 0..TABLES {
        // Past the proxy: only the control connection can tell, and it does so later than the requests come.
        direct
            .query(&format!("CREATE TABLE shop.t{table} (id int PRIMARY KEY, v int)"))
            .await
            .unwrap();
        client
            .query(&format!("INSERT INTO shop.t{table} (id, v) VALUES (1, 1)"))
            .await
            .unwrap();
    }
    direct.query("ALTER TABLE shop.t0 ADD later int").await.unwrap();
    client
        .query("SELECT later FROM shop.t0 WHERE id IN (1, 2)")
        .await
        .unwrap();
    drop(client);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    let coverage = &report(&file)["coverage"];
    assert_eq!(coverage["partitions_exact"], TABLES + 1, "{coverage}");
    assert_eq!(coverage["partitions_unknown"], 0, "{coverage}");
}

// The node must answer while the proxy stops.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_stays_unknown_is_said_to_be_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let node = Node::start(Options::default()).await.unwrap();
    let mut direct = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    direct.script(SCHEMA).await.unwrap();
    let proxy = proxy(node.address(), &file, &[]);
    until(&file, "the schema", |coverage| !has_schema_notice(coverage)).await;
    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    // It has gone before anybody could look at it.
    direct
        .query("CREATE TABLE shop.short (id int PRIMARY KEY)")
        .await
        .unwrap();
    client
        .query("INSERT INTO shop.short (id) VALUES (1)")
        .await
        .unwrap();
    direct.query("DROP TABLE shop.short").await.unwrap();
    drop(client);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    let coverage = &report(&file)["coverage"];
    assert_eq!(coverage["audited"], coverage["requests"], "{coverage}");
    let (exact, unknown) = (&coverage["partitions_exact"], &coverage["partitions_unknown"]);
    // Unless the control connection was quick enough.
    if *exact == 0 {
        assert_eq!(*unknown, 1, "{coverage}");
        assert_eq!(coverage["unknown_reasons"], json!({"table-unknown": 1}));
    } else {
        assert_eq!((exact, unknown), (&json!(1), &json!(0)), "{coverage}");
    }
}

// The node must answer while the proxy stops.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_comes_back_with_another_key_is_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let node = Node::start(Options::default()).await.unwrap();
    let mut direct = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    direct.script(SCHEMA).await.unwrap();
    let proxy = proxy(node.address(), &file, &[]);
    let coverage = until(&file, "the schema", |coverage| !has_schema_notice(coverage)).await;
    let says_so = |coverage: &Value| {
        coverage["notices"]
            .to_string()
            .contains("shop.users was recreated with another partition key")
    };
    assert!(!says_so(&coverage), "{coverage}");
    let deadline = Instant::now() + LIMIT;
    // A reading between DROP and CREATE sees no other key: then again.
    for key in ["(name, age)", "name, age"].iter().cycle() {
        let create = format!("CREATE TABLE shop.users (name text, age int, PRIMARY KEY ({key}))");
        direct.query("DROP TABLE shop.users").await.unwrap();
        direct.query(&create).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        if says_so(&report(&file)["coverage"]) {
            break;
        }
        assert!(Instant::now() < deadline, "never: {}", report(&file)["coverage"]);
    }
    assert_eq!(proxy.stop(LIMIT).code, 0);
    assert!(
        says_so(&report(&file)["coverage"]),
        "it stays in the report of all windows"
    );
}

/// Executes a point read and an IN of two keys, prepared, and a scan; the coverage afterwards.
async fn three_reads(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let node = Node::start(Options::default()).await.unwrap();
    Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap()
        .script(SCHEMA)
        .await
        .unwrap();
    let proxy = proxy(
        node.address(),
        &file,
        &[&["--no-control-connection"], arguments].concat(),
    );
    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    for (cql, values) in [
        (
            "SELECT age FROM shop.users WHERE name = ?",
            vec![Bind::text("anna")],
        ),
        (
            "SELECT age FROM shop.users WHERE name IN (?, ?)",
            vec![Bind::text("anna"), Bind::text("bert")],
        ),
        ("SELECT name FROM shop.users", vec![]),
    ] {
        let prepared = client.prepare(cql).await.unwrap();
        client
            .run(Run::Prepared(&prepared, &values), &RunOptions::default())
            .await
            .unwrap();
    }
    drop(client);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    report(&file)["coverage"].clone()
}

#[tokio::test]
async fn a_schema_file_is_as_good_as_a_control_connection() {
    let folder = tempfile::tempdir().unwrap();
    let schema = folder.path().join("schema.cql");
    std::fs::write(&schema, SCHEMA).unwrap();
    let coverage = three_reads(&["--schema", schema.to_str().unwrap()]).await;
    assert_eq!(
        (&coverage["partitions_exact"], &coverage["partitions_scan"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(coverage["partitions_unknown"], 0);
}

#[tokio::test]
async fn without_any_schema_prepared_results_still_count_and_the_rest_says_why_not() {
    let coverage = three_reads(&[]).await;
    assert_eq!(coverage["partitions_exact"], 1, "{coverage}");
    assert_eq!(coverage["partitions_scan"], 1, "{coverage}");
    assert_eq!(coverage["partitions_unknown"], 1, "{coverage}");
    assert_eq!(coverage["unknown_reasons"], json!({"schema-unknown": 1}));
    assert!(has_schema_notice(&coverage));
}
