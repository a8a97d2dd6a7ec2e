//! Cassandra 5.0 beside 4.1 and beside itself: what is the same shows no difference while writes go on, and each way
//! in which contents and schemas differ is found and named.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use cqlens_client::{Bind, Client, ClientOptions, Run, RunOptions};
use cqlens_proto::envelope::Version;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::node;
use crate::shared;
use crate::shop::{Application, Drivers, data};
use crate::support::{
    available,
    cassandra::{Cassandra, Options, Release},
    everything,
    proxy::Proxy,
    tap::{Tap, assert_passed_unchanged},
    with_everything,
};

/// Far beyond what anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// The keyspace of the drivers' programs, which both clusters have.
const SHOP: &str = "rehearsed_shop";

const KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS rehearsal WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};";
const SAME: &str = "
    CREATE TABLE rehearsal.same (a int, b int, v text, l list<text>, s set<int>, PRIMARY KEY (a, b));
    CREATE TABLE rehearsal.written (a int, b int, v text, PRIMARY KEY (a, b));";

/// Tables of which contents or definitions differ: what the first cluster has, what the other has, and what a read
/// of the partition shows.
const SEEDED: [(&str, &str, &str, &str); 8] = [
    (
        "missing",
        "CREATE TABLE rehearsal.missing (a int, b int, v text, PRIMARY KEY (a, b)); INSERT INTO rehearsal.missing (a, b, v) VALUES (1, 1, 'x'); INSERT INTO rehearsal.missing (a, b, v) VALUES (1, 2, 'y');",
        "CREATE TABLE rehearsal.missing (a int, b int, v text, PRIMARY KEY (a, b)); INSERT INTO rehearsal.missing (a, b, v) VALUES (1, 1, 'x');",
        "row-count",
    ),
    (
        "changed",
        "CREATE TABLE rehearsal.changed (a int, b int, v text, PRIMARY KEY (a, b)); INSERT INTO rehearsal.changed (a, b, v) VALUES (1, 1, 'x');",
        "CREATE TABLE rehearsal.changed (a int, b int, v text, PRIMARY KEY (a, b)); INSERT INTO rehearsal.changed (a, b, v) VALUES (1, 1, 'y');",
        "rows",
    ),
    (
        "ordered",
        "CREATE TABLE rehearsal.ordered (a int, b int, PRIMARY KEY (a, b)); INSERT INTO rehearsal.ordered (a, b) VALUES (1, 1); INSERT INTO rehearsal.ordered (a, b) VALUES (1, 2);",
        "CREATE TABLE rehearsal.ordered (a int, b int, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b DESC); INSERT INTO rehearsal.ordered (a, b) VALUES (1, 1); INSERT INTO rehearsal.ordered (a, b) VALUES (1, 2);",
        "order",
    ),
    (
        "typed",
        "CREATE TABLE rehearsal.typed (a int PRIMARY KEY, v int); INSERT INTO rehearsal.typed (a, v) VALUES (1, 1);",
        "CREATE TABLE rehearsal.typed (a int PRIMARY KEY, v bigint); INSERT INTO rehearsal.typed (a, v) VALUES (1, 1);",
        "types",
    ),
    (
        "wider",
        "CREATE TABLE rehearsal.wider (a int PRIMARY KEY, v int); INSERT INTO rehearsal.wider (a, v) VALUES (1, 1);",
        "CREATE TABLE rehearsal.wider (a int PRIMARY KEY, v int, w int); INSERT INTO rehearsal.wider (a, v) VALUES (1, 1);",
        "columns",
    ),
    (
        "nothing",
        "CREATE TABLE rehearsal.nothing (a int PRIMARY KEY, v text); INSERT INTO rehearsal.nothing (a, v) VALUES (1, '');",
        "CREATE TABLE rehearsal.nothing (a int PRIMARY KEY, v text); INSERT INTO rehearsal.nothing (a, v) VALUES (1, null);",
        "rows",
    ),
    (
        "expired",
        "CREATE TABLE rehearsal.expired (a int PRIMARY KEY, v text); INSERT INTO rehearsal.expired (a, v) VALUES (1, 'x');",
        "CREATE TABLE rehearsal.expired (a int PRIMARY KEY, v text); INSERT INTO rehearsal.expired (a, v) VALUES (1, 'x') USING TTL 1;",
        "row-count",
    ),
    (
        "absent",
        "CREATE TABLE rehearsal.absent (a int PRIMARY KEY, v text);",
        "",
        "error",
    ),
];

async fn connect(address: SocketAddr, version: Version) -> Client {
    let options = ClientOptions {
        version,
        timeout: Duration::from_secs(120),
        ..ClientOptions::default()
    };
    Client::connect(address, &options).await.unwrap()
}

/// The role that Cassandra makes itself.
pub(crate) const LOGIN: (&str, &str) = ("cassandra", "cassandra");

/// Once that role is there: a node makes it some time after it listens.
pub(crate) async fn log_in(address: SocketAddr) -> Client {
    let options = ClientOptions {
        credentials: Some((LOGIN.0.to_owned(), LOGIN.1.to_owned())),
        ..ClientOptions::default()
    };
    let begun = Instant::now();
    loop {
        match Client::connect(address, &options).await {
            Ok(client) => return client,
            Err(error) => assert!(begun.elapsed() < LIMIT, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Both clusters, of which the second differs as [`SEEDED`] says.
async fn fill(first: SocketAddr, other: SocketAddr) {
    for address in [first, other] {
        let mut client = connect(address, Version::V4).await;
        client.script(KEYSPACE).await.unwrap();
        client.script(SAME).await.unwrap();
        for a in 0..10 {
            for b in 0..12 {
                let insert = format!(
                    "INSERT INTO rehearsal.same (a, b, v, l, s) VALUES ({a}, {b}, 'v{a}-{b}', ['x', 'y'], {{{a}, {b}}}) USING TIMESTAMP 1"
                );
                client.query(&insert).await.unwrap();
            }
        }
    }
    seed(first, other, "rehearsal").await;
}

/// Makes the tables of [`SEEDED`] in a keyspace of both clusters.
async fn seed(first: SocketAddr, other: SocketAddr, keyspace: &str) {
    for (address, is_first) in [(first, true), (other, false)] {
        let mut client = connect(address, Version::V4).await;
        for (_, of_first, of_other, _) in SEEDED {
            let script = if is_first { of_first } else { of_other };
            let script = script.replace("rehearsal.", &format!("{keyspace}."));
            client.script(&script).await.unwrap();
        }
    }
}

/// Each of [`SEEDED`] is found, as what it is, and nothing else.
fn assert_seeded_are_found(first: SocketAddr, other: SocketAddr, keyspace: &str, runtime: &Runtime) {
    let shadowed = Shadowed::start(first, other, &["--shadow-ask-upstream"]);
    runtime.block_on(async {
        let mut client = connect(shadowed.proxy.address, Version::V5).await;
        for (table, ..) in SEEDED {
            for _ in 0..3 {
                client
                    .query(&format!("SELECT * FROM {keyspace}.{table} WHERE a = 1"))
                    .await
                    .unwrap();
            }
        }
    });
    // Each is repeated after a while, before it counts.
    let begun = Instant::now();
    while shadowed.total("differing") < 3 * SEEDED.len() as u64 && begun.elapsed() < LIMIT / 4 {
        std::thread::sleep(Duration::from_millis(200));
    }
    let report = shadowed.end();
    let patterns = report["patterns"].as_array().unwrap().iter();
    let found: BTreeMap<&str, &Value> = patterns
        .map(|pattern| (pattern["cql"].as_str().unwrap(), &pattern["differences"]))
        .collect();
    for (table, _, _, kind) in SEEDED {
        let (_, differences) = found
            .iter()
            .find(|(cql, _)| cql.contains(&format!("{keyspace}.{table} ")))
            .unwrap();
        assert_eq!(
            **differences,
            serde_json::json!({ kind: 3 }),
            "{table}: {report:#}"
        );
    }
}

/// Reads of one client: prepared and plain, in pages that end within the partition and with it, in order and not.
async fn read(address: SocketAddr, version: Version, rounds: i32) {
    let mut client = connect(address, version).await;
    client.query("USE rehearsal").await.unwrap();
    let partition = client.prepare("SELECT * FROM same WHERE a = ?").await.unwrap();
    let newest = client
        .prepare("SELECT b, v FROM same WHERE a = ? ORDER BY b DESC LIMIT 5")
        .await
        .unwrap();
    let written = client.prepare("SELECT v FROM written WHERE a = ?").await.unwrap();
    for round in 0..rounds {
        let values = [Bind::int(round % 11)];
        for page_size in [None, Some(5), Some(6)] {
            let options = RunOptions {
                page_size,
                ..RunOptions::default()
            };
            client
                .run_paged(Run::Prepared(&partition, &values), &options)
                .await
                .unwrap();
        }
        client
            .run(Run::Prepared(&newest, &values), &RunOptions::default())
            .await
            .unwrap();
        client
            .run(
                Run::Prepared(&written, &[Bind::int(round % 4)]),
                &RunOptions::default(),
            )
            .await
            .unwrap();
        let plain = format!(
            "SELECT v, writetime(v), toTimestamp(now()) FROM rehearsal.same WHERE a = {} AND b = 3",
            round % 10
        );
        client.query(&plain).await.unwrap();
        let several = format!(
            "SELECT a, b FROM rehearsal.same WHERE a IN ({}, {})",
            round % 10,
            (round + 3) % 10
        );
        client.query(&several).await.unwrap();
        client.query("SELECT count(*) FROM rehearsal.same").await.unwrap();
        client
            .query("SELECT absent FROM rehearsal.same WHERE a = 1")
            .await
            .unwrap_err();
    }
}

/// Writes to both clusters, to one after the other, until it is told to stop; never to one alone, which would be a
/// difference that stays.
async fn write(first: SocketAddr, other: SocketAddr, stop: Arc<AtomicBool>) {
    let mut clients = [
        connect(first, Version::V5).await,
        connect(other, Version::V5).await,
    ];
    for round in (0_i64..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let write = format!(
            "INSERT INTO rehearsal.written (a, b, v) VALUES ({}, {}, 'r{round}') USING TIMESTAMP {}",
            round % 4,
            round % 3,
            round + 1
        );
        for client in &mut clients {
            client.query(&write).await.unwrap();
        }
    }
}

/// A proxy before `first` that copies all requests to the other cluster.
struct Shadowed {
    proxy: Proxy,
    folder: TempDir,
}

impl Shadowed {
    fn start(first: SocketAddr, other: SocketAddr, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (shadow, report) = (other.to_string(), report_in(&folder).display().to_string());
        let arguments = [&["--shadow", &shadow, "--shadow-report", &report], more].concat();
        Self {
            proxy: Proxy::start(env!("CARGO_BIN_EXE_cqlens"), first, &arguments),
            folder,
        }
    }

    /// A number of the report as it is now; 0 if there is no report yet.
    fn total(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(report_in(&self.folder)).unwrap_or_default();
        let report: Value = serde_json::from_str(&text).unwrap_or_default();
        report["totals"][name].as_u64().unwrap_or_default()
    }

    /// Stops the proxy; its last report.
    fn end(self) -> Value {
        let ended = self.proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
        serde_json::from_str(&std::fs::read_to_string(report_in(&self.folder)).unwrap()).unwrap()
    }
}

fn report_in(folder: &TempDir) -> PathBuf {
    folder.path().join("shadow.json")
}

#[test]
fn cassandra_5_0_beside_4_1_differs_where_it_was_made_to() {
    if !with_everything("Cassandra 4.1 in the shadow of 5.0") {
        return;
    }
    let options = Options {
        release: Release::V4_1,
        ..Options::default()
    };
    let (Some(first), Some(other)) = (node(), available("Cassandra 4.1", Cassandra::start(&options))) else {
        return;
    };
    let (first, other) = (first.address(), other.nodes()[0].address);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(fill(first, other));

    let shadowed = Shadowed::start(first, other, &["--shadow-ask-upstream"]);
    runtime.block_on(async {
        let stop = Arc::new(AtomicBool::new(false));
        let writing = tokio::spawn(write(first, other, Arc::clone(&stop)));
        let mut reading = tokio::task::JoinSet::new();
        for version in [Version::V5, Version::V4, Version::V3, Version::V5] {
            reading.spawn(read(shadowed.proxy.address, version, 250));
        }
        while let Some(read) = reading.join_next().await {
            read.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        writing.await.unwrap();
    });
    let report = shadowed.end();
    let totals = &report["totals"];
    assert_eq!(totals["differences"], serde_json::json!({}), "{report:#}");
    assert!(totals["compared"].as_u64().unwrap() > 8_000, "{totals:#}");

    assert_seeded_are_found(first, other, "rehearsal", &runtime);
}

/// Compared results of what two drivers send, writes among it, none of which may differ.
fn mixed() -> u64 {
    if everything() { 100_000 } else { 3_000 }
}

#[test]
fn cassandra_5_0_beside_itself_differs_only_where_it_was_made_to() {
    let Some(drivers) = Drivers::new() else { return };
    let (Some(first), Some(other)) = (node(), shared::second()) else {
        return;
    };
    let (first, other) = (first.address(), other.nodes()[0].address);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        tokio::join!(data::fill(first, SHOP), data::fill(other, SHOP));
        seed(first, other, SHOP).await;
    });

    let shadowed = Shadowed::start(
        first,
        other,
        &["--shadow-ask-upstream", "--shadow-write-keyspaces", SHOP],
    );
    // A busy machine gives copies what clients leave: then it takes more requests.
    while shadowed.total("compared") < mixed() {
        send(&drivers, &shadowed);
    }
    let report = shadowed.end();
    let totals = &report["totals"];
    println!("{totals:#}");
    assert_eq!(totals["differences"], serde_json::json!({}), "{report:#}");
    assert_seeded_are_found(first, other, SHOP, &runtime);
}

/// Lets both drivers send for some seconds; outside ring 3 no more than two cores can compare.
fn send(drivers: &Drivers, shadowed: &Shadowed) {
    let applications = if everything() {
        [Application::python(16, 1_000, 15), Application::go(32, 3_000, 15)]
    } else {
        [Application::python(4, 150, 5), Application::go(8, 250, 5)]
    };
    let running = applications.map(|application| {
        let application = Application {
            keyspace: SHOP,
            ..application
        };
        let labels = shadowed.folder.path().join(application.name);
        drivers.start(&application, shadowed.proxy.address, &labels)
    });
    for mut program in running {
        let ended = program.wait(LIMIT);
        let is_done = ended.is_some_and(|status| status.success());
        assert!(is_done, "{ended:?}\n{}\n{}", program.log(), shadowed.proxy.log());
    }
}

/// A node that cannot extend its commit log stops: writes time out, then nothing listens any more.
#[test]
fn a_shadow_that_fills_its_disk_costs_clients_nothing() {
    if !with_everything("a shadow whose disk is full") {
        return;
    }
    // And asks for a login, which the first does not.
    let options = Options::default()
        .with("commitlog_segment_size", "2MiB")
        .with("write_request_timeout", "2s")
        .with("authenticator", "PasswordAuthenticator");
    let full = || available("a second Cassandra 5.0", Cassandra::start(&options));
    let (Some(first), Some(full)) = (node(), full()) else {
        return;
    };
    let (first, other) = (first.address(), full.nodes()[0].address);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let table = "CREATE TABLE rehearsal.large (a int PRIMARY KEY, v text);";
        for mut client in [connect(first, Version::V5).await, log_in(other).await] {
            client.script(&[KEYSPACE, table].concat()).await.unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, LOGIN.1).unwrap();
    let arguments = [
        "--no-control-connection",
        "--shadow-write-keyspaces",
        "rehearsal",
        "--shadow-username",
        LOGIN.0,
        "--shadow-password-file",
        password.to_str().unwrap(),
    ];
    let back = Tap::start(first);
    let shadowed = Shadowed::start(back.address, other, &arguments);
    let front = Tap::start(shadowed.proxy.address);
    runtime.block_on(until_full(front.address, &full));
    let front = front.finish(LIMIT);
    let report = shadowed.end();
    assert_passed_unchanged(&front, &back.finish(LIMIT));
    let totals = &report["totals"];
    assert!(totals["compared"].as_u64().unwrap() > 0, "{totals:#}");
    let mut kinds = totals["differences"].as_object().unwrap().keys();
    assert!(
        kinds.all(|kind| kind == "error"),
        "what it could not write is no other difference: {report:#}"
    );
    let lost: u64 = ["skipped", "not_compared"]
        .iter()
        .flat_map(|why| totals[why].as_object().unwrap().values())
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert!(
        lost > 0,
        "what a node that has stopped did not get is counted: {totals:#}"
    );
}

/// Writes through `proxy`, also when the disk of the other cluster is full and when it has stopped because of that.
async fn until_full(proxy: SocketAddr, other: &Cassandra) {
    let mut client = connect(proxy, Version::V5).await;
    let insert = client
        .prepare("INSERT INTO rehearsal.large (a, v) VALUES (?, ?)")
        .await
        .unwrap();
    let text = "x".repeat(16 << 10);
    let has_stopped = || {
        other.nodes()[0]
            .log()
            .contains("Commit disk failure policy is stop")
    };
    let mut after = 0;
    for a in 0..20_000 {
        if a == 100 {
            other.fill_disk(0);
        }
        let values = [Bind::int(a), Bind::text(&text)];
        client
            .run(Run::Prepared(&insert, &values), &RunOptions::default())
            .await
            .unwrap();
        after += i32::from(a % 100 == 99 && has_stopped());
        if after == 3 {
            return;
        }
    }
    panic!("the other cluster has not stopped");
}
