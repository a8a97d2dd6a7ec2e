//! `cqlens replay` sends a recording to another cluster and says in which way its answers differ.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Output},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use cqlens_proto::message::{BatchKind, Consistency};
use cqlens_rehearse::{
    digest::{DigestKey, ResponseDigest},
    exchange::{
        Effect, Page, RecordedExchange, RecordedRequest, RecordedStatement, RecordedValue, ValueContent,
    },
    left_out::LeftOut,
    recording::{Limits, RecordedValues, RecordingWriter, Settings},
    target::{Extent, Outcome, Purpose, Target, TargetRequest, TargetSettings},
};
use cqlens_testing::tap::Tap;
use serde_json::Value;
use tokio::runtime::Runtime;

const KEY: DigestKey = DigestKey(42);

fn schema(keyspace: &str) -> String {
    format!(
        "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
         CREATE TABLE {keyspace}.t (a int, b int, v text, PRIMARY KEY (a, b));"
    )
}

async fn node(script: &str) -> Node {
    let node = Node::start(Options::default()).await.unwrap();
    let mut client = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    client.script(script).await.unwrap();
    node
}

fn rows(keyspace: &str) -> String {
    let row = |a: i32| format!("INSERT INTO {keyspace}.t (a, b, v) VALUES ({a}, 1, 'secret{a}');");
    (0..10).map(row).collect()
}

fn request(cql: &str, value: i32, effect: Effect) -> RecordedRequest {
    RecordedRequest {
        statements: vec![RecordedStatement {
            cql: cql.into(),
            is_prepared: true,
            values: vec![RecordedValue {
                name: None,
                content: ValueContent::Bytes(Bytes::copy_from_slice(&value.to_be_bytes())),
            }],
        }],
        batch: None,
        keyspace: Some("k".into()),
        consistency: Consistency::One,
        serial_consistency: None,
        timestamp: None,
        now_in_seconds: None,
        page_size: None,
        page: Page::First,
        effect,
        is_ordered: true,
        pattern: None,
    }
}

/// Two hundred reads on five connections, within two tenths of a second, and a write at their end.
fn requests() -> Vec<RecordedRequest> {
    let read = |number: i32| match number % 2 {
        0 => request("SELECT v FROM t WHERE a = ?", number % 10, Effect::Read),
        _ => request("SELECT * FROM k.t WHERE a = ?", number % 10, Effect::Read),
    };
    let write = request("INSERT INTO k.t (a, b, v) VALUES (?, 9, 'x')", 77, Effect::Write);
    (0..200).map(read).chain([write]).collect()
}

/// Records what a node answers to them.
async fn record(node: &Node, folder: &Path, values: RecordedValues) {
    record_all(node, folder, values, requests()).await;
}

fn writer(folder: &Path, values: RecordedValues) -> RecordingWriter {
    RecordingWriter::open(Settings {
        folder: folder.to_owned(),
        source: "test".to_owned(),
        values,
        digest_key: KEY,
        limits: Limits {
            file_bytes: 1 << 20,
            file_age: Duration::from_secs(60),
            bytes: None,
            age: None,
        },
    })
    .unwrap()
}

fn exchange(number: u64, request: RecordedRequest) -> RecordedExchange {
    RecordedExchange {
        number,
        connection: number % 5,
        actor: 1,
        at_us: 1_700_000_000_000_000 + i64::try_from(number).unwrap() * 1_000,
        request,
        latency: Some(Duration::from_micros(500)),
        response: ResponseDigest::Missing,
    }
}

async fn record_all(node: &Node, folder: &Path, values: RecordedValues, requests: Vec<RecordedRequest>) {
    let nodes = vec![(node.address().to_string(), ClientOptions::default())];
    let mut target = Target::open(TargetSettings::new(nodes, KEY));
    let mut writer = writer(folder, values);
    for (number, request) in (0_u64..).zip(requests) {
        let mut exchange = exchange(number, request);
        let ask = TargetRequest {
            exchange: Arc::new(exchange.clone()),
            extent: Extent::Page,
            purpose: Purpose::First,
        };
        target.send(ask).unwrap();
        if let Outcome::Answered { response, .. } = target.completed().await.unwrap().outcome {
            exchange.response = response;
        }
        writer.write(&exchange, BTreeMap::new).unwrap();
    }
    let left_out = [(LeftOut::QueueFull, 2), (LeftOut::Use, 5)];
    writer.end(left_out.into()).unwrap();
}

fn replay(folder: &Path, to: &Node, more: &[&str]) -> Output {
    replay_to(folder, to.address(), more)
}

fn replay_to(folder: &Path, to: SocketAddr, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .arg("replay")
        .arg(folder)
        .args([
            "--to",
            &to.to_string(),
            "--ask-again-after",
            "20ms",
            "--format",
            "json",
        ])
        .args(more)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// Keeps nodes running.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// A folder with a recording of a node with rows, and the runtime that keeps nodes running.
fn recorded() -> (Runtime, tempfile::TempDir, Node) {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let script = [schema("k"), rows("k")].concat();
    let node = runtime.block_on(async {
        let node = node(&script).await;
        record(&node, folder.path(), RecordedValues::Clear).await;
        node
    });
    (runtime, folder, node)
}

#[test]
fn the_same_cluster_does_not_differ_and_is_not_written() {
    let (runtime, folder, _first) = recorded();
    let same = runtime.block_on(node(&[schema("k"), rows("k")].concat()));
    let output = replay(folder.path(), &same, &["--fail-on-difference"]);
    assert_eq!(output.status.code(), Some(0));
    let comparison = json(&output);
    assert_eq!(comparison["format"], "cqlens.comparison.v1");
    let totals = &comparison["totals"];
    assert_eq!(
        (&totals["executions"], &totals["compared"]),
        (&201.into(), &200.into()),
        "{totals}"
    );
    assert_eq!(totals["skipped"], serde_json::json!({"write": 1}));
    assert_eq!(
        comparison["not_offered"],
        serde_json::json!({"queue full": 2}),
        "what the recording lacks"
    );
    assert_eq!(comparison["pace"]["end"], "complete");
    assert!(
        comparison["pace"]["seconds"].as_f64().unwrap() >= 0.19,
        "at the pace of the recording"
    );

    let output = replay(
        folder.path(),
        &same,
        &["--speed", "max", "--write-keyspaces", "k"],
    );
    let comparison = json(&output);
    assert_eq!(comparison["totals"]["compared"], 201, "{}", comparison["totals"]);
    assert_eq!(comparison["totals"]["skipped"], serde_json::json!({}));
}

#[test]
fn differences_are_found_and_no_value_is_shown() {
    let (runtime, folder, first) = recorded();
    let lacking = "DELETE FROM k.t WHERE a = 3;";
    let other = runtime.block_on(node(&[schema("k"), rows("k"), lacking.to_owned()].concat()));
    for against in [vec![], vec!["--against".to_owned(), first.address().to_string()]] {
        let mut more: Vec<&str> = against.iter().map(String::as_str).collect();
        more.extend(["--speed", "max", "--fail-on-difference"]);
        let output = replay(folder.path(), &other, &more);
        assert_eq!(output.status.code(), Some(1));
        let comparison = json(&output);
        assert_eq!(comparison["patterns_that_differ"], 1, "{comparison}");
        let pattern = &comparison["patterns"][0];
        assert_eq!(pattern["differences"], serde_json::json!({"row-count": 20}));
        assert_eq!(pattern["example"]["expected"], "1 row");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("secret"));
    }
    let page = folder.path().join("page.md");
    let output = Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .arg("replay")
        .arg(folder.path())
        .args([
            "--to",
            &other.address().to_string(),
            "--speed",
            "max",
            "--ask-again-after",
            "20ms",
            "-o",
        ])
        .arg(&page)
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("20 of 200 results differ, in 1 pattern.") && !page.contains("secret"),
        "{page}"
    );
}

#[test]
fn keyspaces_may_have_another_name() {
    let (runtime, folder, _first) = recorded();
    let renamed = runtime.block_on(node(&[schema("k2"), rows("k2")].concat()));
    let output = replay(
        folder.path(),
        &renamed,
        &["--rename", "k=k2", "--speed", "max", "--fail-on-difference"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", json(&output));
    let output = replay(
        folder.path(),
        &renamed,
        &["--speed", "max", "--stop-at-error-rate", "10"],
    );
    assert_eq!(output.status.code(), Some(1), "without it, all fail");
    assert_eq!(json(&output)["pace"]["end"], "too-many-errors");
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let (runtime, folder, first) = recorded();
    let hashed = tempfile::tempdir().unwrap();
    runtime.block_on(record(&first, hashed.path(), RecordedValues::Hashed));
    let output = replay(hashed.path(), &first, &[]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && stderr.contains("hashes in place of values"),
        "{stderr}"
    );
    let address = first.address();
    runtime.block_on(first.shutdown());
    let output = Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .arg("replay")
        .arg(folder.path())
        .args(["--to", &address.to_string()])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && stderr.contains("cannot reach"),
        "{stderr}"
    );
}

#[test]
fn conditional_writes_counters_and_definitions_are_replayed_if_a_setting_names_their_keyspace() {
    const KINDS: [(&str, &str, Effect, &str); 3] = [
        (
            "--lwt-keyspaces",
            "INSERT INTO k.t (a, b, v) VALUES (70, 7, 'secret') IF NOT EXISTS",
            Effect::Conditional,
            "conditional",
        ),
        (
            "--counter-keyspaces",
            "UPDATE k.c SET n = n + 2 WHERE a = 1",
            Effect::Counter,
            "counter",
        ),
        (
            "--ddl-keyspaces",
            "CREATE TABLE k.added (a int PRIMARY KEY)",
            Effect::Definition,
            "definition",
        ),
    ];
    // What shows that each has arrived.
    const READS: [&str; 3] = [
        "SELECT a FROM k.t WHERE a = 70",
        "SELECT n FROM k.c",
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'k' AND table_name = 'added'",
    ];
    let counter = "CREATE TABLE k.c (a int PRIMARY KEY, n counter);";
    let script = [&schema("k"), counter].concat();
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let requests = KINDS.map(|(_, cql, effect, _)| plain(cql, effect)).to_vec();
        let first = node(&script).await;
        record_all(&first, folder.path(), RecordedValues::Clear, requests).await;
    });
    for (allowed, (setting, ..)) in KINDS.into_iter().enumerate() {
        for (keyspace, is_sent) in [("k", true), ("other", false)] {
            let other = runtime.block_on(node(&script));
            let output = replay(folder.path(), &other, &[setting, keyspace, "--speed", "max"]);
            let totals = &json(&output)["totals"];
            let options = ClientOptions::default();
            let mut client = runtime
                .block_on(Client::connect(other.address(), &options))
                .unwrap();
            for (place, (.., kind)) in KINDS.into_iter().enumerate() {
                let has_come = is_sent && place == allowed;
                let answer = runtime.block_on(client.query(READS[place])).unwrap();
                assert_eq!(!answer.rows.is_empty(), has_come, "{setting} {keyspace}: {kind}");
                let skipped = totals["skipped"][kind].as_u64().unwrap_or(0);
                assert_eq!(skipped, u64::from(!has_come), "{setting} {keyspace}: {totals:#}");
            }
        }
    }
}

/// A statement of text alone.
fn plain(cql: &str, effect: Effect) -> RecordedRequest {
    let mut request = request(cql, 0, effect);
    request.statements[0].is_prepared = false;
    request.statements[0].values.clear();
    request
}

/// A recording is passed around: it may say of every statement that it reads.
#[test]
fn a_forged_recording_sends_nothing_that_its_texts_do_not_permit() {
    const FORGED: [&str; 12] = [
        "DROP KEYSPACE k",
        "TRUNCATE k.t",
        "DELETE FROM k.t WHERE a = 1",
        "INSERT INTO k.t (a, b, v) VALUES (1, 1, 'x')",
        "CREATE ROLE r WITH SUPERUSER = true AND LOGIN = true AND PASSWORD = 'p'",
        "CREATE/**/ROLE r WITH SUPERUSER = true",
        "CREATE /* USER */ -- TABLE\n ROLE r WITH SUPERUSER = true",
        "GRANT ALL ON ALL KEYSPACES TO r",
        "ALTER USER r WITH PASSWORD 'p' SUPERUSER",
        "BEGIN BATCH DELETE FROM k.t WHERE a = 1; APPLY BATCH",
        "/* SELECT */ DROP KEYSPACE k",
        "SELECT * FROM k.t WHERE a = 1; DROP KEYSPACE k",
    ];
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let node = runtime.block_on(node(&[schema("k"), rows("k")].concat()));
    let read = |cql: &str, is_prepared| {
        let mut read = request(cql, 1, Effect::Read);
        read.statements[0].is_prepared = is_prepared;
        read.statements[0].values.clear();
        read
    };
    let mut requests = Vec::new();
    for cql in FORGED {
        requests.extend([read(cql, false), read(cql, true)]);
        for is_prepared in [false, true] {
            let mut batch = read("SELECT v FROM k.t WHERE a = 1", false);
            batch.batch = Some(BatchKind::Unlogged);
            batch.statements.extend(read(cql, is_prepared).statements);
            requests.push(batch);
        }
    }
    let forged = requests.len();
    requests.push(request("SELECT v FROM k.t WHERE a = ?", 3, Effect::Read));
    let mut writer = writer(folder.path(), RecordedValues::Clear);
    for (number, request) in (0_u64..).zip(requests) {
        writer.write(&exchange(number, request), BTreeMap::new).unwrap();
    }
    writer.end(BTreeMap::new()).unwrap();

    // Permissions for another keyspace change nothing.
    for more in [&[][..], &["--write-keyspaces", "k2", "--ddl-keyspaces", "k2"]] {
        let tap = Tap::start(node.address());
        let more = [&["--speed", "max", "--no-discovery"][..], more].concat();
        let comparison = json(&replay_to(folder.path(), tap.address, &more));
        let totals = &comparison["totals"];
        assert_eq!(totals["executions"], forged + 1, "{totals}");
        let skipped = totals["skipped"].as_object().unwrap().values();
        let skipped: u64 = skipped.map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(skipped, forged as u64, "{totals}");
        assert!(totals["skipped"]["unparsed"].as_u64() >= Some(2), "{totals}");
        let mut sent = Vec::new();
        for connection in tap.finish(Duration::from_secs(60)) {
            sent.extend(connection.requests);
        }
        let sent = String::from_utf8_lossy(&sent).to_uppercase();
        assert!(sent.contains("SELECT V FROM K.T WHERE A = ?"));
        for word in [
            "DROP", "TRUNCATE", "DELETE", "INSERT", "ROLE", "GRANT", "ALTER", "BATCH",
        ] {
            assert!(!sent.contains(word), "{word} was sent");
        }
    }
}
