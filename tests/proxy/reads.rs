//! Reads that are more than one exchange: pages, repetitions, sweeps of the ring.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::mpsc,
};

use cqlens_client::{Bind, Client, ClientOptions, Run, RunOptions};
use cqlens_node::{Node, Options};
use serde_json::{Value, json};

use crate::proxy::{
    support::proxy::Proxy,
    wire::{self, LIMIT, report},
};

const SCHEMA: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE shop.orders (day int, number int, amount int, PRIMARY KEY (day, number));";

const DAYS: i32 = 10;
const ORDERS_A_DAY: i32 = 5;

/// A node with 10 partitions of 5 rows each.
async fn node() -> Node {
    let node = Node::start(Options::default()).await.unwrap();
    let mut client = connect(node.address()).await;
    client.script(SCHEMA).await.unwrap();
    for day in 0..DAYS {
        for number in 0..ORDERS_A_DAY {
            let insert = format!("INSERT INTO shop.orders (day, number, amount) VALUES ({day}, {number}, 1)");
            client.query(&insert).await.unwrap();
        }
    }
    node
}

async fn connect(address: SocketAddr) -> Client {
    Client::connect(address, &ClientOptions::default()).await.unwrap()
}

/// A proxy that knows the schema from a file, and so at once.
fn proxy(upstream: SocketAddr, folder: &Path) -> Proxy {
    let schema = folder.join("schema.cql");
    std::fs::write(&schema, SCHEMA).unwrap();
    let file = folder.join("report.json");
    let arguments = [
        "--schema",
        schema.to_str().unwrap(),
        "--no-control-connection",
        "--report",
        file.to_str().unwrap(),
    ];
    Proxy::start(env!("CARGO_BIN_EXE_cqlens"), upstream, &arguments)
}

/// Stops the proxy; the only pattern on the table in its report.
fn pattern(proxy: Proxy, folder: &Path) -> Value {
    assert_eq!(proxy.stop(LIMIT).code, 0);
    let report = report(&folder.join("report.json"));
    let patterns = report["patterns"].as_array().unwrap();
    let mut of_table = patterns.iter().filter(|pattern| pattern["table"] == "orders");
    let pattern = of_table.next().unwrap().clone();
    assert_eq!(of_table.next(), None);
    pattern
}

/// SELECTs in pages of 100 rows, and answers with so many rows of one column, with or without more to come.
fn asks(stream: i16, cql: &str) -> Vec<u8> {
    let length = i32::try_from(cql.len()).unwrap().to_be_bytes();
    let parameters = [&[0, 1, 0x04][..], &100_i32.to_be_bytes()].concat();
    wire::envelope(4, stream, 7, &[&length, cql.as_bytes(), &parameters].concat())
}

fn rows(stream: i16, rows: i32, more: bool) -> Vec<u8> {
    let number = |number: i32| number.to_be_bytes().to_vec();
    // Rows; no metadata but the number of columns, and the state of paging.
    let mut body = [number(2), number(if more { 6 } else { 4 }), number(1)].concat();
    if more {
        body.extend([number(1), vec![7]].concat());
    }
    body.extend(number(rows));
    (0..rows).for_each(|row| body.extend([number(4), number(row)].concat()));
    wire::envelope(0x84, stream, 8, &body)
}

#[test]
fn pages_that_end_early_though_more_is_to_come_are_told_and_full_or_filtered_ones_are_not() {
    const OF_A_DAY: &str = "SELECT number FROM shop.orders WHERE day = 1";
    const FILTERED: &str = "SELECT number FROM shop.orders WHERE day = 1 AND amount = 2 ALLOW FILTERING";
    let conversation = [
        (OF_A_DAY, rows(1, 0, true)),
        (OF_A_DAY, rows(2, 99, true)),
        (OF_A_DAY, rows(3, 100, true)),
        (OF_A_DAY, rows(4, 3, false)),
        (FILTERED, rows(5, 0, true)),
        ("SELECT number FROM shop.orders", rows(6, 0, true)),
        (
            "SELECT number FROM shop.orders WHERE day = 1 GROUP BY number",
            rows(7, 2, true),
        ),
    ];
    let answers: Vec<u8> = conversation
        .iter()
        .flat_map(|(_, answer)| answer.clone())
        .collect();
    let requests: Vec<u8> = (1..)
        .zip(&conversation)
        .flat_map(|(stream, (cql, _))| asks(stream, cql))
        .collect();
    let expected = requests.len();
    let node = wire::Node::start(move |mut connection| {
        let mut requests = vec![0; expected];
        if connection.read_exact(&mut requests).is_ok() {
            connection.write_all(&answers).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let proxy = proxy(node.address, folder.path());
    wire::converse(proxy.address, &requests);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    let report = report(&folder.path().join("report.json"));
    let findings = report["findings"].as_array().unwrap().iter();
    let of_rule: Vec<_> = findings
        .filter(|finding| finding["rule"] == "tombstone-heavy-read")
        .collect();
    let [finding] = of_rule[..] else {
        panic!("{of_rule:#?}")
    };
    let evidence = &finding["evidence"];
    assert_eq!(
        (&evidence["short_pages"], &evidence["empty_pages"]),
        (&json!(2), &json!(1)),
        "{finding:#}"
    );
    assert_eq!(evidence["known_from"], json!(["short-pages"]));
}

fn page(size: i32, paging_state: Option<Vec<u8>>) -> RunOptions {
    RunOptions {
        page_size: Some(size),
        paging_state,
        ..RunOptions::default()
    }
}

/// Reads the table in pages of seven rows, each page over another connection; the pages that came.
async fn read_in_pages(proxy: SocketAddr, cql: &str, most: usize) -> usize {
    let mut state = None;
    for number in 1.. {
        let mut client = connect(proxy).await;
        let prepared = client.prepare(cql).await.unwrap();
        let options = RunOptions {
            skip_metadata: true,
            ..page(7, state.take())
        };
        let answer = client.run(Run::Prepared(&prepared, &[]), &options).await.unwrap();
        state = answer.paging_state;
        if state.is_none() || number == most {
            return number;
        }
    }
    0
}

#[tokio::test]
async fn pages_over_many_connections_are_one_read_and_show_its_partitions() {
    let (node, folder) = (node().await, tempfile::tempdir().unwrap());
    let proxy = proxy(node.address(), folder.path());
    let pages = read_in_pages(proxy.address, "SELECT * FROM shop.orders", 100).await;
    assert!(pages >= 8, "{pages}");
    let pattern = pattern(proxy, folder.path());
    assert_eq!(pattern["count"], pages);
    assert_eq!(pattern["logical_reads"], 1);
    let reads = &pattern["per_read"];
    assert_eq!(
        (&reads["reads"], &reads["abandoned"], &reads["unlinked_pages"]),
        (&json!(1), &json!(0), &json!(0))
    );
    assert_eq!(
        (&reads["rows"]["max"], &reads["pages"]["max"]),
        (&json!(50), &json!(pages))
    );
    assert_eq!(pattern["partitions"]["class"], "scan");
    let scanned = &pattern["scanned"];
    assert_eq!(scanned["lower_bound"], true);
    assert_eq!(
        (
            &scanned["distinct_partitions"],
            &scanned["partitions_per_read"]["max"]
        ),
        (&json!(10), &json!(10))
    );
    assert_eq!(
        (&scanned["rows"], &scanned["rows_left_out"]),
        (&json!(50), &json!(0))
    );
    assert_eq!(scanned["answers_without_keys"], 0);
    assert_eq!(pattern.get("repeats"), None);
}

#[tokio::test]
async fn a_read_that_is_not_continued_is_no_error_and_rows_without_their_key_are_said() {
    let (node, folder) = (node().await, tempfile::tempdir().unwrap());
    let proxy = proxy(node.address(), folder.path());
    for _ in 0..3 {
        read_in_pages(proxy.address, "SELECT amount FROM shop.orders", 2).await;
    }
    let pattern = pattern(proxy, folder.path());
    assert_eq!(
        (&pattern["logical_reads"], &pattern["errors"]),
        (&json!(3), &json!(0))
    );
    // The three have the same paging states, and the last one of them waits when the proxy stops.
    assert_eq!(pattern["per_read"]["abandoned"], 1);
    assert_eq!(pattern["per_read"]["rows"]["max"], 14);
    assert_eq!(pattern["scanned"]["answers_without_keys"], 6);
    assert_eq!(pattern["scanned"]["distinct_partitions"], 0);
}

#[tokio::test]
async fn a_page_whose_predecessor_was_not_seen_is_no_new_read() {
    let (node, folder) = (node().await, tempfile::tempdir().unwrap());
    let proxy = proxy(node.address(), folder.path());
    let mut direct = connect(node.address()).await;
    let cql = "SELECT day, number FROM shop.orders WHERE day = 3";
    let first = direct.run(Run::Text(cql, &[]), &page(2, None)).await.unwrap();
    let mut client = connect(proxy.address).await;
    let second = client
        .run(Run::Text(cql, &[]), &page(2, first.paging_state))
        .await
        .unwrap();
    client
        .run(Run::Text(cql, &[]), &page(2, second.paging_state))
        .await
        .unwrap();
    drop(client);
    let pattern = pattern(proxy, folder.path());
    assert_eq!(
        (&pattern["count"], &pattern["logical_reads"]),
        (&json!(2), &json!(0))
    );
    let reads = &pattern["per_read"];
    assert_eq!(
        (&reads["unlinked_pages"], &reads["reads"]),
        (&json!(1), &json!(0))
    );
}

#[tokio::test]
async fn a_walk_through_all_token_ranges_is_one_sweep() {
    let (node, folder) = (node().await, tempfile::tempdir().unwrap());
    let proxy = proxy(node.address(), folder.path());
    const RANGES: i64 = 384;
    let mut rows = 0;
    let mut clients = [connect(proxy.address).await, connect(proxy.address).await];
    let cql = "SELECT day FROM shop.orders WHERE token(day) > ? AND token(day) <= ?";
    let prepared = clients[0].prepare(cql).await.unwrap();
    let end = |number: i64| {
        i64::try_from(i128::from(i64::MIN) + (i128::from(number) << 64) / i128::from(RANGES))
            .unwrap_or(i64::MAX)
    };
    for sweep in 0..2 {
        for number in 0..RANGES {
            let bind = |token: i64| Bind::Bytes(token.to_be_bytes().to_vec().into());
            let range = [bind(end(number)), bind(end(number + 1))];
            let client = &mut clients[usize::from((number + sweep) % 2 == 0)];
            let answer = client
                .run(Run::Prepared(&prepared, &range), &RunOptions::default())
                .await
                .unwrap();
            rows += answer.rows.len();
        }
    }
    drop(clients);
    assert_eq!(rows, 100, "every row twice");
    let pattern = pattern(proxy, folder.path());
    assert_eq!(pattern["partitions"]["class"], "token-range");
    assert_eq!(
        pattern["token_ranges"],
        json!({"ring_share": 1.0, "sweeps": 2, "sweep_reads": 768})
    );
    assert_eq!(pattern["scanned"]["distinct_partitions"], 10);
}

/// READ_TIMEOUT at ONE: one replica was asked, none has answered.
fn read_timeout(stream: i16) -> Vec<u8> {
    let mut body = vec![0, 0, 0x12, 0, 0, 1, b'x', 0, 1];
    body.extend([0, 0, 0, 0, 0, 0, 0, 1, 0]);
    wire::envelope(0x84, stream, 0x00, &body)
}

/// Rows without columns and without more pages.
fn no_rows(stream: i16) -> Vec<u8> {
    wire::envelope(
        0x84,
        stream,
        0x08,
        &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0],
    )
}

/// Reads one QUERY, whose length is known.
fn read_query(connection: &mut TcpStream, cql: &str) -> bool {
    let mut bytes = vec![0; wire::query(1, cql).len()];
    // The connection that only asks whether the proxy listens sends nothing.
    connection.read_exact(&mut bytes).is_ok()
}

/// Sends a query over a connection of its own and waits for `expected`.
fn ask(address: SocketAddr, cql: &str, expected: &[u8]) {
    assert_eq!(wire::converse(address, &wire::query(1, cql)), expected);
}

fn startup() -> Vec<u8> {
    wire::envelope(4, 0, 1, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0")
}

const READY: &[u8] = b"\x84\x00\x00\x00\x02\x00\x00\x00\x00";

const READ: &str = "SELECT day, number FROM shop.orders WHERE day = 3";

#[test]
fn a_read_that_comes_again_after_a_timeout_is_a_retry_and_not_another_read() {
    let folder = tempfile::tempdir().unwrap();
    let (fail, fails) = mpsc::channel();
    let fails = std::sync::Arc::new(std::sync::Mutex::new(fails));
    for failing in [true, false, false] {
        fail.send(failing).unwrap();
    }
    let node = wire::Node::start(move |mut connection| {
        if read_query(&mut connection, READ) {
            let answer = if fails.lock().unwrap().recv().unwrap() {
                read_timeout(1)
            } else {
                no_rows(1)
            };
            connection.write_all(&answer).unwrap();
        }
    });
    let proxy = proxy(node.address, folder.path());
    ask(proxy.address, READ, &read_timeout(1));
    ask(proxy.address, READ, &no_rows(1));
    // And once more, which is nobody's retry.
    ask(proxy.address, READ, &no_rows(1));
    let pattern = pattern(proxy, folder.path());
    assert_eq!((&pattern["count"], &pattern["errors"]), (&json!(3), &json!(1)));
    assert_eq!(
        pattern["repeats"],
        json!({"in_flight": 0, "retries": {"read-timeout": 1}})
    );
    assert_eq!(pattern["logical_reads"], 2);
}

#[test]
fn a_read_that_comes_again_while_the_first_is_in_flight_is_told_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let (arrived, arrivals) = mpsc::channel();
    let node = wire::Node::start(move |mut connection| {
        if read_query(&mut connection, READ) {
            arrived.send(connection).unwrap();
        }
    });
    let proxy = proxy(node.address, folder.path());
    let mut clients: Vec<_> = (0..2).map(|_| wire::connect(proxy.address)).collect();
    let mut nodes = Vec::new();
    for client in &mut clients {
        client.write_all(&wire::query(1, READ)).unwrap();
        // The second one is sent when the first one has arrived, and is answered first.
        nodes.push(arrivals.recv_timeout(LIMIT).unwrap());
    }
    while let (Some(mut client), Some(mut node)) = (clients.pop(), nodes.pop()) {
        node.write_all(&no_rows(1)).unwrap();
        drop(node);
        assert_eq!(wire::read_to_end(&mut client), no_rows(1));
    }
    let pattern = pattern(proxy, folder.path());
    assert_eq!(pattern["count"], 2);
    assert_eq!(pattern["repeats"], json!({"in_flight": 1, "retries": {}}));
    // Two threads that ask the same thing would look like this: they are two reads.
    assert_eq!(pattern["logical_reads"], 2);
}

#[test]
fn a_read_that_comes_again_after_its_connection_was_lost_is_a_retry() {
    let folder = tempfile::tempdir().unwrap();
    let lost = std::sync::atomic::AtomicBool::new(false);
    let lost = std::sync::Arc::new(lost);
    let node = wire::Node::start(move |mut connection| {
        let mut startup = vec![0; startup().len()];
        if connection.read_exact(&mut startup).is_ok() {
            connection.write_all(READY).unwrap();
        }
        let first =
            read_query(&mut connection, READ) && !lost.swap(true, std::sync::atomic::Ordering::SeqCst);
        if !first {
            // The connection that only asks whether the proxy listens has gone already.
            let _ = connection.write_all(&no_rows(1));
        }
    });
    let proxy = proxy(node.address, folder.path());
    // Without a STARTUP it would be no read.
    for answer in [vec![], no_rows(1)] {
        let mut client = wire::connect(proxy.address);
        client.write_all(&startup()).unwrap();
        client.read_exact(&mut [0; READY.len()]).unwrap();
        client.write_all(&wire::query(1, READ)).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(wire::read_to_end(&mut client), answer);
    }
    let pattern = pattern(proxy, folder.path());
    assert_eq!((&pattern["count"], &pattern["errors"]), (&json!(2), &json!(0)));
    assert_eq!(
        pattern["repeats"],
        json!({"in_flight": 0, "retries": {"connection-lost": 1}})
    );
    assert_eq!(pattern["logical_reads"], 1);
}
