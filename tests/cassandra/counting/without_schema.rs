//! Without a schema, from nobody and nowhere, what PREPARED results and texts allow is counted, and the
//! coverage says what not.

use std::time::Duration;

use cqlens_client::{Bind, Client, ClientOptions, Prepared, Run, RunOptions};
use cqlens_proto::envelope::Version;
use cqlens_proto::message::BatchKind;
use serde_json::{Value, json};

use crate::node;
use crate::support::proxy::Proxy;

const LIMIT: Duration = Duration::from_secs(300);

/// What the report has to say of an execution.
#[derive(Debug, Clone, Copy)]
enum Known {
    Partitions(u64),
    /// `scan` and its kin.
    Class(&'static str),
    Nothing,
}
use Known::{Class, Nothing, Partitions};

#[tokio::test(flavor = "multi_thread")]
async fn prepared_results_are_counted_without_any_schema() {
    let Some(node) = node() else { return };
    for version in [Version::V3, Version::V4, Version::V5] {
        let keyspace = format!("no_schema_{}", version.number());
        let options = ClientOptions {
            version,
            timeout: LIMIT,
            ..ClientOptions::default()
        };
        let mut direct = Client::connect(node.address(), &options).await.unwrap();
        direct.script(&tables(&keyspace)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let report_file = folder.path().join("report.json");
        let arguments = [
            "--no-control-connection",
            "--window",
            "3600s",
            "--report",
            report_file.to_str().unwrap(),
        ];
        let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &arguments);
        let mut client = Client::connect(proxy.address, &options).await.unwrap();
        client.query(&format!("USE {keyspace}")).await.unwrap();
        ask(&mut client).await;
        let at_the_node = format!("SELECT v AS r_elsewhere FROM {keyspace}.one WHERE k = ?");
        let unseen = direct.prepare(&at_the_node).await.unwrap();
        run(&mut client, &unseen, &[Bind::int(1)]).await;
        drop(client);
        let ended = proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
        let report: Value = serde_json::from_slice(&std::fs::read(report_file).unwrap()).unwrap();
        assert_counted(&report, version);
    }
}

fn tables(keyspace: &str) -> String {
    format!(
        "DROP KEYSPACE IF EXISTS {keyspace};
         CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
         CREATE TABLE {keyspace}.one (k int PRIMARY KEY, v int, w_text int);
         CREATE TABLE {keyspace}.two (a int, b int, c int, v int, PRIMARY KEY ((a, b), c));"
    )
}

/// Each statement once, with as many ones as it has markers.
const PREPARED: &[&str] = &[
    "SELECT v AS r_one FROM one WHERE k = ?",
    "SELECT v AS r_two FROM two WHERE c = ? AND b = ? AND a = ?",
    "SELECT v AS r_partly FROM two WHERE a = ? AND b = 1",
    "SELECT v AS r_in FROM one WHERE k IN (?, ?)",
    "UPDATE two SET v = 1 WHERE a = ? AND b = ? AND c = ?",
    "INSERT INTO two (a, b, c) VALUES (?, 1, ?)",
    "DELETE v FROM two WHERE a = ? AND b = 1 AND c = ?",
    "SELECT v AS r_all FROM one",
];

async fn ask(client: &mut Client) {
    for text in PREPARED {
        let prepared = client.prepare(text).await.unwrap();
        let values: Vec<Bind> = prepared.markers.iter().map(|_| Bind::int(1)).collect();
        run(client, &prepared, &values).await;
    }
    let (one, two) = (
        client
            .prepare("INSERT INTO one (k, v) VALUES (?, 1)")
            .await
            .unwrap(),
        client
            .prepare("DELETE FROM two WHERE a = ? AND b = ?")
            .await
            .unwrap(),
    );
    let keys = [[Bind::int(1), Bind::int(1)], [Bind::int(1), Bind::int(2)]];
    let runs = [
        Run::Prepared(&one, &keys[0][..1]),
        Run::Prepared(&two, &keys[0]),
        Run::Prepared(&two, &keys[1]),
        Run::Prepared(&one, &keys[0][..1]),
    ];
    client
        .batch(BatchKind::Logged, &runs, &RunOptions::default())
        .await
        .unwrap();
    client
        .query("SELECT v AS r_text FROM one WHERE k = 1")
        .await
        .unwrap();
    client
        .query("UPDATE one SET w_text = 1 WHERE k = 1")
        .await
        .unwrap();
}

async fn run(client: &mut Client, prepared: &Prepared, values: &[Bind]) {
    client
        .run(Run::Prepared(prepared, values), &RunOptions::default())
        .await
        .unwrap();
}

fn assert_counted(report: &Value, version: Version) {
    // Version 3 does not say which markers are the key.
    let of_key = if version == Version::V3 {
        Nothing
    } else {
        Partitions(1)
    };
    for (words, known) in [
        ("r_one", of_key),
        ("r_two", of_key),
        ("r_partly", Nothing),
        ("r_in", Nothing),
        // Whatever the key is, a row has one.
        ("UPDATE two", Partitions(1)),
        ("INSERT INTO two", Partitions(1)),
        ("DELETE v", Partitions(1)),
        ("r_all", Class("scan")),
        // At least one, where none is known.
        (
            "BEGIN BATCH",
            Partitions(if version == Version::V3 { 1 } else { 3 }),
        ),
        ("r_text", Nothing),
        ("w_text", Partitions(1)),
        ("(a prepared statement that was not seen)", Nothing),
    ] {
        let patterns = report["patterns"].as_array().unwrap();
        let text = |pattern: &Value| pattern["cql"].as_str().unwrap_or_default().to_owned();
        let unqualified =
            |pattern: &Value| text(pattern).replace(&format!("no_schema_{}.", version.number()), "");
        let found: Vec<_> = patterns
            .iter()
            .filter(|pattern| unqualified(pattern).contains(words))
            // The statements of a batch are in its text.
            .filter(|pattern| words == "BEGIN BATCH" || pattern["kind"] != "batch")
            .collect();
        assert_eq!(found.len(), 1, "{words}: {patterns:#?}");
        let partitions = &found[0]["partitions"];
        let expected = match known {
            Partitions(0 | 1) => (json!(known.number()), json!("single")),
            Partitions(_) => (json!(known.number()), json!("multi")),
            Class(class) => (json!(0), json!(class)),
            Nothing => (json!(0), json!("unknown")),
        };
        let seen = (partitions["total"].clone(), partitions["class"].clone());
        assert_eq!(seen, expected, "{version:?}, {words}: {}", found[0]);
    }
    // In version 3 nothing is known of two more reads by key, nor how many partitions the batch writes.
    let (exact, bounded, reasons) = match version {
        Version::V3 => (4, 1, json!({"prepared-id-unknown": 1, "schema-unknown": 6})),
        _ => (7, 0, json!({"prepared-id-unknown": 1, "schema-unknown": 3})),
    };
    let coverage = &report["coverage"];
    assert_eq!(coverage["partitions_exact"], exact, "{coverage}");
    assert_eq!(coverage["partitions_bounded"], bounded, "{coverage}");
    assert_eq!(coverage["partitions_scan"], 1, "{coverage}");
    assert_eq!(coverage["unknown_reasons"], reasons, "{coverage}");
}

impl Known {
    fn number(self) -> u64 {
        match self {
            Partitions(count) => count,
            Class(_) | Nothing => 0,
        }
    }
}
