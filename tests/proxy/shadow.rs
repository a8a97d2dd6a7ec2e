//! Requests are copied to a second cluster: whatever becomes of it, clients and the bytes of the first notice nothing.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use cqlens_client::{Bind, Client, ClientOptions, Run, RunOptions};
use cqlens_node::{Node, Options};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::proxy::{
    admin::{get, post},
    support::{
        proxy::{Proxy, free_address},
        tap::{Tap, assert_passed_unchanged},
    },
    wire::LIMIT,
};

const SCHEMA: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE k.t (a int, b int, v text, PRIMARY KEY (a, b));
    CREATE TABLE k.w (a int PRIMARY KEY, v text);";

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) fn node(runtime: &Runtime, more: &str) -> Node {
    runtime.block_on(async {
        let node = Node::start(Options::default()).await.unwrap();
        let mut client = connect(node.address()).await;
        client.script(SCHEMA).await.unwrap();
        for a in 0..20 {
            for b in 0..3 {
                let insert = format!("INSERT INTO k.t (a, b, v) VALUES ({a}, {b}, 'secret')");
                client.query(&insert).await.unwrap();
            }
        }
        client.script(more).await.unwrap();
        node
    })
}

pub(crate) async fn connect(address: SocketAddr) -> Client {
    Client::connect(address, &ClientOptions::default()).await.unwrap()
}

/// Prepared reads in pages, plain reads, a statement that is refused, and a write.
pub(crate) async fn traffic(address: SocketAddr, rounds: i32) {
    let mut client = connect(address).await;
    client.query("USE k").await.unwrap();
    let prepared = client.prepare("SELECT b, v FROM t WHERE a = ?").await.unwrap();
    for round in 0..rounds {
        let values = [Bind::int(round % 20)];
        let pages = RunOptions {
            page_size: Some(2),
            ..RunOptions::default()
        };
        let answer = client
            .run_paged(Run::Prepared(&prepared, &values), &pages)
            .await
            .unwrap();
        assert_eq!(answer.rows.len(), 3);
        client
            .query(&format!("SELECT v FROM k.t WHERE a = {} AND b = 1", round % 20))
            .await
            .unwrap();
        client
            .query("SELECT absent FROM k.t WHERE a = 1")
            .await
            .unwrap_err();
    }
    client
        .query("INSERT INTO k.w (a, v) VALUES (100, 'secret')")
        .await
        .unwrap();
}

/// A proxy before `upstream` that copies requests to `shadow`.
pub(crate) fn proxy(upstream: SocketAddr, shadow: SocketAddr, folder: &Path, more: &[&str]) -> Proxy {
    let (shadow, report) = (
        shadow.to_string(),
        folder.join("shadow.json").display().to_string(),
    );
    let common = [
        "--shadow",
        &shadow,
        "--shadow-report",
        &report,
        "--shadow-ask-again-after",
        "30ms",
    ];
    let arguments = [&common[..], more].concat();
    Proxy::start(env!("CARGO_BIN_EXE_cqlens"), upstream, &arguments)
}

/// A proxy that is stopped when its shadow has done what it had to: its threads yield to all others of the machine.
pub(crate) struct ProxyWithShadow<'f> {
    pub(crate) proxy: Proxy,
    pub(crate) admin: SocketAddr,
    folder: &'f Path,
}

impl<'f> ProxyWithShadow<'f> {
    pub(crate) fn start(upstream: SocketAddr, shadow: SocketAddr, folder: &'f Path, more: &[&str]) -> Self {
        let admin = free_address();
        let listener = admin.to_string();
        let arguments = [&["--admin", &listener], more].concat();
        Self {
            proxy: proxy(upstream, shadow, folder, &arguments),
            admin,
            folder,
        }
    }

    /// The report, once so many requests are compared or left out.
    pub(crate) fn finish(self, requests: u64) -> Value {
        let begun = Instant::now();
        loop {
            let report = get(self.admin, "/shadow").json();
            if done(&report) >= requests {
                break;
            }
            assert!(begun.elapsed() < LIMIT, "{requests} requests: {report:#}");
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(self.proxy.stop(LIMIT).code, 0);
        report(self.folder)
    }
}

/// How many requests are compared or left out.
fn done(report: &Value) -> u64 {
    let left_out = [&report["totals"]["skipped"], &report["not_offered"]];
    let left_out = left_out.into_iter().filter_map(Value::as_object);
    let left_out: u64 = left_out
        .flat_map(|reasons| reasons.values().filter_map(Value::as_u64))
        .sum();
    // Before the first report there is none.
    report["totals"]["compared"].as_u64().unwrap_or(0) + left_out
}

pub(crate) fn report(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("shadow.json")).unwrap();
    assert!(!text.contains("secret"), "no value leaves the process");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_same_cluster_does_not_differ_and_another_does() {
    let runtime = runtime();
    let first = node(&runtime, "");
    for (more, differing) in [("", 0), ("DELETE FROM k.t WHERE a = 3 AND b = 1;", 2)] {
        let other = node(&runtime, more);
        for arguments in [&[][..], &["--shadow-ask-upstream", "--shadow-noise-sample", "50"]] {
            let folder = tempfile::tempdir().unwrap();
            let shadowed = ProxyWithShadow::start(first.address(), other.address(), folder.path(), arguments);
            runtime.block_on(traffic(shadowed.proxy.address, 20));
            let report = shadowed.finish(61);
            assert_eq!(
                report["patterns_that_differ"], differing,
                "{arguments:?}: {report:#}"
            );
            let totals = &report["totals"];
            assert_eq!(
                totals["differences"]["row-count"].as_u64().unwrap_or(0),
                differing,
                "{totals:#}"
            );
            assert_eq!(totals["compared"], 60, "three results of each round: {totals:#}");
            assert_eq!(totals["skipped"], json!({"write": 1}), "{totals:#}");
        }
    }
}

#[test]
fn reports_have_what_the_shadow_has_answered() {
    let runtime = runtime();
    let first = node(&runtime, "");
    let other = node(&runtime, "DELETE FROM k.t WHERE a = 3 AND b = 1;");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (live, snapshots) = (path("live.json"), path("snapshots"));
    let arguments = ["--report", &live, "--snapshot-dir", &snapshots];
    let shadowed = ProxyWithShadow::start(first.address(), other.address(), folder.path(), &arguments);
    runtime.block_on(traffic(shadowed.proxy.address, 20));
    let comparison = shadowed.finish(61);
    let (later, of_shadow) = (path("later.json"), path("shadow.json"));
    let written = Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .args(["report", &snapshots, "--comparison", &of_shadow, "-o", &later])
        .output()
        .unwrap();
    assert!(written.status.success(), "{written:?}");
    for path in [live, later] {
        let text = std::fs::read_to_string(&path).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["comparison"], comparison, "{path}");
        let pattern = &report["comparison"]["patterns"][0];
        assert_eq!(pattern["differences"], json!({"row-count": 1}), "{path}");
        let patterns = report["patterns"].as_array().unwrap();
        assert!(
            patterns.iter().any(|known| known["id"] == pattern["id"]),
            "{pattern:#}"
        );
    }
}

#[test]
fn conditional_writes_counters_and_definitions_are_copied_where_a_setting_names_their_keyspace() {
    const STATEMENTS: [(&str, &str, &str); 3] = [
        (
            "--shadow-lwt-keyspaces",
            "INSERT INTO k.w (a, v) VALUES (7, 'secret') IF NOT EXISTS",
            "conditional",
        ),
        (
            "--shadow-counter-keyspaces",
            "UPDATE k.c SET n = n + 2 WHERE a = 1",
            "counter",
        ),
        (
            "--shadow-ddl-keyspaces",
            "CREATE TABLE k.added (a int PRIMARY KEY)",
            "definition",
        ),
    ];
    // What shows on the shadow that each has arrived.
    const READS: [&str; 3] = [
        "SELECT a FROM k.w",
        "SELECT n FROM k.c",
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'k' AND table_name = 'added'",
    ];
    let runtime = runtime();
    let counter = "CREATE TABLE k.c (a int PRIMARY KEY, n counter);";
    for (allowed, (setting, _, _)) in STATEMENTS.into_iter().enumerate() {
        for (keyspace, is_sent) in [("k", true), ("other", false)] {
            let (first, other) = (node(&runtime, counter), node(&runtime, counter));
            let folder = tempfile::tempdir().unwrap();
            let arguments = [setting, keyspace];
            let shadowed =
                ProxyWithShadow::start(first.address(), other.address(), folder.path(), &arguments);
            let mut client = runtime.block_on(connect(shadowed.proxy.address));
            for (_, statement, _) in STATEMENTS {
                runtime.block_on(client.query(statement)).unwrap();
            }
            drop(client);
            let totals = &shadowed.finish(STATEMENTS.len() as u64)["totals"];
            let mut shadow = runtime.block_on(connect(other.address()));
            for (place, (_, _, effect)) in STATEMENTS.into_iter().enumerate() {
                let has_come = is_sent && place == allowed;
                let answer = runtime.block_on(shadow.query(READS[place])).unwrap();
                assert_eq!(!answer.rows.is_empty(), has_come, "{arguments:?}: {effect}");
                let left_out = u64::from(!has_come);
                let skipped = totals["skipped"][effect].as_u64().unwrap_or(0);
                assert_eq!(skipped, left_out, "{arguments:?}: {totals:#}");
            }
            assert_eq!(
                totals["compared"],
                u64::from(is_sent),
                "{arguments:?}: {totals:#}"
            );
            assert_eq!(totals["differences"], json!({}), "{arguments:?}: {totals:#}");
        }
    }
}

/// A peer that does the same with each connection.
fn peer(serve: impl Fn(std::net::TcpStream) + Send + Sync + Copy + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || serve(socket));
        }
    });
    address
}

#[test]
fn whatever_becomes_of_the_shadow_the_bytes_of_the_first_cluster_are_the_same() {
    let runtime = runtime();
    let first = node(&runtime, "");
    let up = node(&runtime, "");
    let silent = peer(|mut socket| {
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let nonsense = peer(|mut socket| {
        let _ = socket.write_all(&[0x84, 0, 0, 0, 2, 0, 0, 0, 0]);
        while matches!(socket.read(&mut [0; 4_096]), Ok(1..)) {
            let _ = socket.write_all(&[0xff; 100]);
        }
    });
    for (what, shadow) in [
        ("up", up.address()),
        ("dead", free_address()),
        ("silent", silent),
        ("nonsense", nonsense),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let back = Tap::start(first.address());
        let arguments = ["--no-control-connection", "--shadow-timeout", "500ms"];
        let proxy = proxy(back.address, shadow, folder.path(), &arguments);
        let front = Tap::start(proxy.address);
        runtime.block_on(traffic(front.address, 20));
        let front = front.finish(LIMIT);
        assert_eq!(proxy.stop(LIMIT).code, 0, "{what}");
        assert_passed_unchanged(&front, &back.finish(LIMIT));
        let totals = &report(folder.path())["totals"];
        let compared = totals["compared"].as_u64().unwrap();
        assert!(
            if what == "up" { compared > 0 } else { compared == 0 },
            "{what}: {totals:#}"
        );
        assert_eq!(
            totals["differences"],
            json!({}),
            "{what}: what does not answer does not differ"
        );
    }
}

#[test]
fn copying_is_stopped_and_started_by_orders() {
    let runtime = runtime();
    let (first, other) = (node(&runtime, ""), node(&runtime, ""));
    let folder = tempfile::tempdir().unwrap();
    let shadowed = ProxyWithShadow::start(first.address(), other.address(), folder.path(), &[]);
    let (admin, address) = (shadowed.admin, shadowed.proxy.address);
    assert_eq!(
        post(admin, "/shadow/stop").json(),
        json!({"copying": false, "before": true})
    );
    runtime.block_on(traffic(address, 5));
    assert_eq!(get(admin, "/shadow").code, 200);
    // What was seen while it was stopped is not waited for: another connection comes after it.
    assert_eq!(
        post(admin, "/shadow/start").json(),
        json!({"copying": true, "before": false})
    );
    runtime.block_on(traffic(address, 7));
    let totals = &shadowed.finish(22)["totals"];
    assert!(totals["compared"].as_u64().unwrap() >= 21, "{totals:#}");
    assert_eq!(totals["differences"], json!({}));
}

#[test]
fn without_a_shadow_there_is_nothing_to_order() {
    let runtime = runtime();
    let first = node(&runtime, "");
    let admin = free_address();
    let proxy = Proxy::start(
        env!("CARGO_BIN_EXE_cqlens"),
        first.address(),
        &["--admin", &admin.to_string()],
    );
    assert_eq!(post(admin, "/shadow/stop").code, 404);
    assert_eq!(proxy.stop(LIMIT).code, 0);
}
