//! File descriptors: what happens when there are none, and that all of them come back.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::proxy::{
    procfs::{Process, until, within},
    support::proxy::Proxy,
    wire::{LIMIT, Node, connect, query, report, void},
};

const QUERY: &str = "SELECT k FROM s.t";

/// A node that answers every query.
fn node() -> Node {
    Node::start(|mut connection| {
        let mut request = vec![0; query(7, QUERY).len()];
        while connection.read_exact(&mut request).is_ok() {
            connection.write_all(&void(7)).unwrap();
        }
    })
}

/// The program, with so many file descriptors at most.
fn limited(folder: &Path, descriptors: u32) -> PathBuf {
    let script = folder.join("cqlens");
    let program = env!("CARGO_BIN_EXE_cqlens");
    let text = format!("#!/bin/sh\nulimit -n {descriptors}\nexec '{program}' \"$@\"\n");
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// Whether the node answers a query on this connection before long.
fn is_served(client: &mut TcpStream) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut answer = vec![0; void(7).len()];
    client.write_all(&query(7, QUERY)).is_ok() && client.read_exact(&mut answer).is_ok() && answer == void(7)
}

/// A client that the node answers.
fn served(address: SocketAddr) -> TcpStream {
    let mut client = connect(address);
    assert!(is_served(&mut client));
    client
}

#[test]
fn without_descriptors_open_connections_go_on_and_new_ones_come_when_there_are_some() {
    let (folder, node) = (tempfile::tempdir().unwrap(), node());
    let file = folder.path().join("report.json");
    let program = limited(folder.path(), 60);
    let arguments = [
        "--no-control-connection",
        "--max-connections",
        "1000",
        "--report",
        file.to_str().unwrap(),
    ];
    let proxy = Proxy::start(program.to_str().unwrap(), node.address, &arguments);
    let process = Process::listening_at(proxy.address);
    // What the connection leaves that has asked whether the proxy listens.
    drop(served(proxy.address));
    let mut baseline = 0;
    until("the descriptors are counted", || {
        let before = std::mem::replace(&mut baseline, process.descriptors());
        std::thread::sleep(Duration::from_millis(100));
        before == baseline && process.descriptors() == baseline
    });

    let mut first = served(proxy.address);
    let crowd: Vec<_> = (0..60).map(|_| connect(proxy.address)).collect();
    until("there are no descriptors left", || process.descriptors() >= 59);
    assert!(is_served(&mut first), "{}", proxy.log());
    // It waits; it does not try as fast as it can.
    let before = process.cpu_ticks();
    std::thread::sleep(Duration::from_secs(2));
    let used = process.cpu_ticks() - before;
    assert!(used < 20, "{used} hundredths of a second in two seconds");
    assert!(is_served(&mut first), "{}", proxy.log());

    drop(crowd);
    // Those of the crowd that are still in the queue come and go first.
    within(LIMIT, "a new client is served", || {
        is_served(&mut connect(proxy.address))
    });
    assert!(is_served(&mut first), "{}", proxy.log());
    drop(first);
    until("all descriptors are back", || process.descriptors() == baseline);

    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    let said = ended.log.matches("no clients can be accepted for now").count();
    assert!((1..=2).contains(&said), "{said} times\n{}", ended.log);
    assert!(
        ended.log.contains("is too low for max-connections"),
        "{}",
        ended.log
    );
    // Whoever was accepted and found no descriptor for the node was told.
    let refused = &report(&file)["coverage"]["refused_connections"];
    assert!(refused["descriptors"].as_u64().unwrap() >= 1, "{refused}");
}

#[test]
fn without_a_limit_of_connections_there_are_no_more_than_the_descriptors_hold() {
    let (folder, node) = (tempfile::tempdir().unwrap(), node());
    // 64 refusals, 48 others, three for each thread (one more than there are processors), the listener, and 6
    // connections.
    let threads = u32::try_from(std::thread::available_parallelism().unwrap().get()).unwrap() + 1;
    let program = limited(folder.path(), 64 + 48 + 3 * threads + 1 + 12);
    let proxy = Proxy::start(
        program.to_str().unwrap(),
        node.address,
        &["--no-control-connection"],
    );
    let mut clients = Vec::new();
    until("the limit is reached", || {
        let mut client = connect(proxy.address);
        let served = is_served(&mut client);
        if served {
            clients.push(client);
        }
        !served && clients.len() == 6
    });
    assert!(clients.iter_mut().all(is_served));
    let log = proxy.log();
    assert!(log.contains("allows fewer connections than the default"), "{log}");
    assert!(
        log.contains("6 connections are open, and max-connections allows no more"),
        "{log}"
    );
    assert!(!log.contains("no clients can be accepted"), "{log}");
}
