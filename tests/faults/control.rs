//! cqlens' own connection is refused while traffic passes: clients notice nothing, it is tried again ever
//! more patiently, and once it comes the audit counts exactly.

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

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};

use crate::faults::{
    support::proxy::Proxy,
    wire::{LIMIT, report},
};

/// Before a node: hangs up on clients that name themselves cqlens, while it is told to.
struct Doorkeeper {
    address: SocketAddr,
    refuses: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
}

impl Doorkeeper {
    fn start(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (refuses, refused) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        let (refuse, count) = (Arc::clone(&refuses), Arc::clone(&refused));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, refuse, count) = (client.unwrap(), Arc::clone(&refuse), Arc::clone(&count));
                thread::spawn(move || pass(client, node, &refuse, &count));
            }
        });
        Self {
            address,
            refuses,
            refused,
        }
    }
}

fn pass(client: TcpStream, node: SocketAddr, refuse: &AtomicBool, refused: &AtomicU64) {
    let server = TcpStream::connect(node).unwrap();
    let (mut to_client, from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || copy(from_server, &mut to_client, |_| true));
    copy(client, &mut server.try_clone().unwrap(), |bytes| {
        let is_control = bytes.windows(14).any(|part| part == b"cqlens control");
        let is_refused = is_control && refuse.load(Ordering::SeqCst);
        refused.fetch_add(u64::from(is_refused), Ordering::SeqCst);
        !is_refused
    });
}

fn copy(mut from: TcpStream, to: &mut TcpStream, may_pass: impl Fn(&[u8]) -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if !may_pass(&buffer[..length]) || to.write_all(&buffer[..length]).is_err() {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_connection_that_is_refused_for_long() {
    let node = Node::start(Options::default()).await.unwrap();
    let mut direct = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    direct
        .script(
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE k.t (a int, b int, v int, PRIMARY KEY ((a, b)));",
        )
        .await
        .unwrap();
    let door = Doorkeeper::start(node.address());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let arguments = ["--window", "3600s", "--report", file.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), door.address, &arguments);
    let begun = Instant::now();
    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    let mut asked = 0;
    let mut reads = async |count: u64| {
        for _ in 0..count {
            client
                .query("SELECT v FROM k.t WHERE a = 1 AND b IN (1, 2, 3)")
                .await
                .unwrap();
            asked += 1;
        }
    };
    // Longer than anything waits for a schema, so that these reads are counted without one.
    while begun.elapsed() < Duration::from_secs(7) {
        reads(10).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // 250 ms, then twice as long each time, and with each attempt down the versions that the node may speak.
    let attempts = door.refused.load(Ordering::SeqCst);
    assert!((2..=18).contains(&attempts), "{attempts} attempts");
    door.refuses.store(false, Ordering::SeqCst);
    while !proxy.log().contains("control connection open") {
        assert!(begun.elapsed() < LIMIT, "{}", proxy.log());
        reads(1).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    const EXACT: u64 = 50;
    reads(EXACT).await;
    drop(client);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert_eq!(
        ended.log.matches("no control connection").count(),
        1,
        "{}",
        ended.log
    );
    let report = report(&file);
    let pattern = report["patterns"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pattern| pattern["cql"] == "SELECT v FROM k.t WHERE a = ? AND b IN ?")
        .unwrap();
    assert_eq!(pattern["count"], asked, "all are counted: {pattern}");
    let coverage = &report["coverage"];
    assert!(
        coverage["partitions_exact"].as_u64().unwrap() >= EXACT,
        "{coverage}"
    );
    assert!(coverage["partitions_unknown"].as_u64().unwrap() > 0, "{coverage}");
    assert_eq!(pattern["partitions"]["max"], 3, "{pattern}");
    node.shutdown().await;
}
