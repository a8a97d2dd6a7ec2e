//! Clients that send more statements than anybody keeps: what matters is found all the same, and what was not
//! judged is said first.

use std::{
    io::{BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use cqlens_window::MAX_PATTERNS;
use serde_json::Value;

use crate::faults::{support::proxy::Proxy, wire};

const BAD: &str = "SELECT v FROM k.t WHERE v = 1 ALLOW FILTERING";
const TIMES: u64 = 60;
const JUNK: usize = MAX_PATTERNS + 500;

/// A node with a table, and the proxy before it.
async fn start(report: &Path) -> (Node, Proxy) {
    let node = Node::start(Options::default()).await.unwrap();
    let mut client = connect(node.address()).await;
    for cql in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (id int PRIMARY KEY, v int)",
    ] {
        client.query(cql).await.unwrap();
    }
    // Thousands of shapes take a debug build longer to judge than an operator waits.
    let arguments = ["--report", report.to_str().unwrap(), "--grace", "120s"];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &arguments);
    (node, proxy)
}

async fn connect(address: SocketAddr) -> Client {
    Client::connect(address, &ClientOptions::default()).await.unwrap()
}

/// Sends texts, as many at once as there are answers to wait for, after a STARTUP or without one.
async fn flood(address: SocketAddr, has_startup: bool, texts: Vec<String>) {
    let work = move || {
        let mut client = wire::connect(address);
        if has_startup {
            let body = b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0";
            client.write_all(&wire::envelope(4, 0, 0x01, body)).unwrap();
            read_answers(&mut client, 1);
        }
        for chunk in texts.chunks(500) {
            let requests = (1..)
                .zip(chunk)
                .flat_map(|(stream, text)| wire::query(stream, text));
            client.write_all(&requests.collect::<Vec<_>>()).unwrap();
            read_answers(&mut client, chunk.len());
        }
    };
    tokio::task::spawn_blocking(work).await.unwrap();
}

fn read_answers(client: &mut TcpStream, answers: usize) {
    let mut from = BufReader::new(client);
    for _ in 0..answers {
        let mut header = [0; 9];
        from.read_exact(&mut header).unwrap();
        let length = u32::from_be_bytes(header[5..].try_into().unwrap());
        from.read_exact(&mut vec![0; length as usize]).unwrap();
    }
}

fn texts(template: impl Fn(usize) -> String) -> Vec<String> {
    (0..JUNK).map(template).collect()
}

/// The report at the end.
fn end(proxy: Proxy, file: &Path) -> Value {
    let ended = proxy.stop(Duration::from_secs(180));
    assert_eq!(ended.code, 0, "{}", ended.log);
    wire::report(file)
}

fn assert_found(report: &Value) {
    let pattern = report["patterns"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pattern| pattern["cql"] == "SELECT v FROM k.t WHERE v = ? ALLOW FILTERING");
    let pattern = pattern.expect("the bad query is there");
    let missed = pattern["missed"].as_u64().unwrap_or(0);
    assert_eq!(pattern["count"].as_u64().unwrap() + missed, TIMES, "{pattern}");
    let findings = report["findings"].as_array().unwrap();
    // How severe it is depends on what it costs beside all of that.
    let found = findings
        .iter()
        .find(|finding| finding["rule"] == "allow-filtering");
    assert_ne!(found.expect("it is found")["severity"], "info");
}

async fn ask(address: SocketAddr, times: u64) {
    let mut client = connect(address).await;
    for _ in 0..times {
        client.query(BAD).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_before_startup_are_requests_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let (node, proxy) = start(&file).await;
    flood(proxy.address, false, texts(|number| format!("JUNK{number} a"))).await;
    ask(proxy.address, TIMES).await;
    let report = end(proxy, &file);
    assert_found(&report);
    let coverage = &report["coverage"];
    let before = coverage["before_startup"].as_u64().unwrap();
    let dropped = coverage["dropped"].as_u64().unwrap();
    assert_eq!(before + dropped, JUNK as u64, "{coverage}");
    assert_eq!(coverage["patterns_overflowed"], 0, "{coverage}");
    assert!(report["patterns"].as_array().unwrap().len() < 5);
    let clients = report["clients"].as_object().unwrap().values();
    let requests: u64 = clients.map(|count| count.as_u64().unwrap()).sum();
    assert!(requests < TIMES + 20, "{}", report["clients"]);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_the_server_refuses_displace_nothing() {
    overflows(|number| format!("SELECT c{number} FROM k.t{number} WHERE id = 1")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_an_application_builds_displace_no_steady_one() {
    overflows(|number| format!("SELECT v AS c{number} FROM k.t WHERE id = 1")).await;
}

/// The bad query comes before, between and after them.
async fn overflows(template: impl Fn(usize) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let (node, proxy) = start(&file).await;
    let texts = texts(template);
    let (first, second) = texts.split_at(JUNK / 2);
    for part in [first, second] {
        ask(proxy.address, TIMES / 3).await;
        flood(proxy.address, true, part.to_vec()).await;
    }
    ask(proxy.address, TIMES / 3).await;
    let report = end(proxy, &file);
    assert_found(&report);
    let coverage = &report["coverage"];
    let others = coverage["patterns_overflowed"].as_u64().unwrap();
    assert!(others > 0, "{coverage}");
    let first = report["notices"][0].as_str().unwrap();
    assert!(first.contains("were not judged"), "{first}");
    let headline = report["summary"]["headline"].as_str().unwrap();
    assert!(headline.contains("were not judged"), "{headline}");
    // Nothing is lost, whatever went.
    let patterns = report["patterns"].as_array().unwrap();
    let counted: u64 = patterns
        .iter()
        .map(|pattern| pattern["count"].as_u64().unwrap())
        .sum();
    let dropped = coverage["dropped"].as_u64().unwrap();
    assert_eq!(counted + dropped, JUNK as u64 + TIMES, "{coverage}");
    // None of them has made a table.
    assert_eq!(report["tables"].as_array().unwrap().len(), 1);
    node.shutdown().await;
}
