//! A second cluster that changes while requests are copied to it: what it answers later is compared again, and between
//! clients and the first cluster nothing changes.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use cqlens_client::{Bind, Run, RunOptions};
use serde_json::json;

use crate::proxy::{
    admin::get,
    procfs::Process,
    shadow::{ProxyWithShadow, connect, node, proxy, report, runtime, traffic},
    support::{
        proxy::{Proxy, free_address},
        tap::{Tap, assert_passed_unchanged},
    },
    wire::LIMIT,
};

/// A way to a node on which nothing moves while it stalls.
#[derive(Clone, Default)]
struct Way {
    stalls: Arc<AtomicBool>,
    /// Bytes of the node.
    answered: Arc<AtomicU64>,
    /// Connections that were closed by the other side.
    closed: Arc<AtomicU64>,
}

impl Way {
    fn open(&self, node: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let way = self.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(node) else {
                    return;
                };
                let (back, forth) = (way.clone(), way.clone());
                let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || back.carry(from, to, &back.answered));
                let both = [client.try_clone().unwrap(), server.try_clone().unwrap()];
                thread::spawn(move || {
                    forth.carry(client, server, &AtomicU64::new(0));
                    // What is still on its way back is not answered to anybody.
                    both.iter()
                        .for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
                    forth.closed.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        address
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
        let mut bytes = [0; 4_096];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            while self.stalls.load(Ordering::Relaxed) {
                // Its peer may have gone meanwhile, which is not waited for.
                if from.set_nonblocking(true).is_ok() && matches!(from.peek(&mut [0]), Ok(0)) {
                    return;
                }
                let _ = from.set_nonblocking(false);
                thread::sleep(Duration::from_millis(1));
            }
            if to.write_all(&bytes[..length]).is_err() {
                break;
            }
            count.fetch_add(length as u64, Ordering::Relaxed);
        }
        let _ = to.shutdown(Shutdown::Write);
    }
}

/// Does something until it has come true; too long is a failure.
fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "it does not come true");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_shadow_that_stalls_and_comes_back_is_compared_again() {
    let runtime = runtime();
    let (first, other) = (node(&runtime, ""), node(&runtime, ""));
    let way = Way::default();
    let folder = tempfile::tempdir().unwrap();
    let back = Tap::start(first.address());
    let arguments = [
        "--no-control-connection",
        "--shadow-no-discovery",
        "--shadow-timeout",
        "500ms",
    ];
    let proxy = proxy(back.address, way.open(other.address()), folder.path(), &arguments);
    let front = Tap::start(proxy.address);
    let rounds = |rounds| runtime.block_on(traffic(front.address, rounds));
    // What the handshake takes is less.
    let answers = |since: u64| way.answered.load(Ordering::Relaxed) > since + 2_000;
    rounds(20);
    until(|| answers(0));

    way.stalls.store(true, Ordering::Relaxed);
    let closed = way.closed.load(Ordering::Relaxed);
    rounds(20);
    // Both connections have nothing to wait for any more.
    until(|| way.closed.load(Ordering::Relaxed) > closed + 1);
    let answered = way.answered.load(Ordering::Relaxed);
    way.stalls.store(false, Ordering::Relaxed);
    // On a busy machine several connections are begun until one is there.
    until(|| {
        rounds(5);
        answers(answered + 8_000)
    });

    let front = front.finish(LIMIT);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    assert_passed_unchanged(&front, &back.finish(LIMIT));
    let report = report(folder.path());
    let totals = &report["totals"];
    let skipped = |why: &str| totals["skipped"][why].as_u64().unwrap_or(0);
    assert!(
        skipped("timed-out") + skipped("connection-lost") > 0,
        "{totals:#}"
    );
    assert!(
        report["connections"]["connections_opened"].as_u64() > Some(2),
        "{report:#}"
    );
    assert_eq!(totals["differences"], json!({}), "{totals:#}");
    assert!(totals["compared"].as_u64() > Some(20), "{totals:#}");
}

/// A quarter of a gigabyte is written while the shadow has stalled, four times as much as may wait for it.
#[test]
fn a_shadow_that_stalls_costs_bounded_memory() {
    const WRITES: usize = 4_096;
    let runtime = runtime();
    let (first, other) = (node(&runtime, ""), node(&runtime, ""));
    let way = Way::default();
    let folder = tempfile::tempdir().unwrap();
    let report_file = folder.path().join("shadow.json").display().to_string();
    let shadow = way.open(other.address()).to_string();
    let proxy = Proxy::start(
        env!("CARGO_BIN_EXE_cqlens"),
        first.address(),
        &[
            "--shadow",
            &shadow,
            "--shadow-report",
            &report_file,
            "--shadow-timeout",
            "10m",
            "--shadow-write-keyspaces",
            "k",
            "--shadow-no-discovery",
        ],
    );
    runtime.block_on(traffic(proxy.address, 20));
    until(|| way.answered.load(Ordering::Relaxed) > 2_000);
    way.stalls.store(true, Ordering::Relaxed);

    let process = Process::listening_at(proxy.address);
    let before = process.resident_kib();
    let most = runtime.block_on(async {
        let mut client = connect(proxy.address).await;
        let insert = client
            .prepare("INSERT INTO k.w (a, v) VALUES (?, ?)")
            .await
            .unwrap();
        let values = [Bind::int(1), Bind::text("x".repeat(64 << 10))];
        let mut most = 0;
        for write in 0..WRITES {
            let options = RunOptions::default();
            client
                .run(Run::Prepared(&insert, &values), &options)
                .await
                .unwrap();
            if write % 64 == 0 {
                most = most.max(process.resident_kib());
            }
        }
        most
    });
    let grown = most.saturating_sub(before) >> 10;
    assert!(grown < 160, "{grown} MiB");
    way.stalls.store(false, Ordering::Relaxed);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    let totals = &report(folder.path())["totals"];
    assert!(totals["skipped"]["queue-full"].as_u64() > Some(100), "{totals:#}");
}

#[test]
fn a_shadow_whose_schema_changes_is_prepared_again_and_its_new_columns_are_found() {
    let runtime = runtime();
    let (first, other) = (node(&runtime, ""), node(&runtime, ""));
    let folder = tempfile::tempdir().unwrap();
    let back = Tap::start(first.address());
    let arguments = ["--no-control-connection", "--shadow-write-keyspaces", "k"];
    let shadowed = ProxyWithShadow::start(back.address, other.address(), folder.path(), &arguments);
    let front = Tap::start(shadowed.proxy.address);
    const INSERT: &str = "INSERT INTO k.w (a, v) VALUES (?, ?)";
    const SELECT: &str = "SELECT * FROM k.t WHERE a = ?";
    let has_row = |key: i32| {
        let answer = runtime.block_on(async {
            let mut shadow = connect(other.address()).await;
            shadow.query(&format!("SELECT v FROM k.w WHERE a = {key}")).await
        });
        !answer.unwrap().rows.is_empty()
    };
    let read_and_write = |keys: std::ops::Range<i32>| {
        let last = keys.end - 1;
        runtime.block_on(async {
            let mut client = connect(front.address).await;
            let insert = client.prepare(INSERT).await.unwrap();
            let select = client.prepare(SELECT).await.unwrap();
            let options = RunOptions::default();
            for key in keys {
                let read = [Bind::int(key)];
                client.run(Run::Prepared(&select, &read), &options).await.unwrap();
                let written = [Bind::int(key), Bind::text("secret")];
                client
                    .run(Run::Prepared(&insert, &written), &options)
                    .await
                    .unwrap();
            }
        });
        until(|| has_row(last));
    };
    read_and_write(0..10);
    runtime.block_on(async {
        let mut shadow = connect(other.address()).await;
        shadow.query("ALTER TABLE k.t ADD extra text").await.unwrap();
        other.forget_prepared();
    });
    read_and_write(10..20);
    let front = front.finish(LIMIT);
    let report = shadowed.finish(40);
    assert_passed_unchanged(&front, &back.finish(LIMIT));
    // Of the reads before the change, any may be answered after it, over the other connection.
    let differences = report["totals"]["differences"].as_object().unwrap();
    assert_eq!(differences.keys().collect::<Vec<_>>(), ["columns"], "{report:#}");
    assert!(
        (10..=20).contains(&differences["columns"].as_u64().unwrap()),
        "{report:#}"
    );
    assert_eq!(report["totals"]["compared"], 40, "{report:#}");
    assert_eq!(report["totals"]["skipped"], json!({}), "{report:#}");
    assert!(
        report["connections"]["unprepared"].as_u64() >= Some(2),
        "{report:#}"
    );
    assert_eq!(
        report["patterns"][0]["example"]["columns"],
        json!(["extra"]),
        "{report:#}"
    );
}

/// The attack: distinct long texts, of which something is remembered each.
#[test]
fn what_a_shadow_keeps_counts_in_the_budget() {
    let runtime = runtime();
    let (first, other) = (node(&runtime, ""), node(&runtime, ""));
    let folder = tempfile::tempdir().unwrap();
    let admin = free_address();
    let admin_text = admin.to_string();
    let more = ["--memory", "32MiB", "--admin", &admin_text];
    let proxy = proxy(first.address(), other.address(), folder.path(), &more);
    let part = || {
        let status = get(admin, "/readyz").json();
        let parts = status["memory"]["parts"].as_array().unwrap().clone();
        let part = parts
            .into_iter()
            .find(|part| part["name"] == "rehearsal")
            .unwrap();
        ["used_bytes", "limit_bytes", "evicted"].map(|field| part[field].as_u64().unwrap())
    };
    runtime.block_on(async {
        let mut client = connect(proxy.address).await;
        let long = "a".repeat(8 << 10);
        for number in 0..1_000 {
            let cql =
                format!("SELECT v FROM k.t WHERE a = 1 AND b = 1 AND v = '{number}{long}' ALLOW FILTERING");
            // Whether the node runs it or not.
            let _ = client.query(&cql).await;
            if number % 100 == 0 {
                let [used, limit, _] = part();
                assert!(used <= limit && limit == 8 << 20, "{used}");
            }
        }
    });
    until(|| part()[2] > 100);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(report(folder.path())["totals"]["executions"].as_u64() > Some(0));
}
