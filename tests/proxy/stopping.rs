//! SIGTERM and SIGINT: no new clients, requests in flight end, the last window is written, exit code 0.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::mpsc,
    time::{Duration, Instant},
};

use crate::wire::{LIMIT, Node, connect, converse, proxy, query, read_to_end, report, void};

/// A node that answers a QUERY when the test says so.
fn slow_node() -> (Node, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (asked, was_asked) = mpsc::channel();
    let (answer, may_answer) = mpsc::channel::<()>();
    let may_answer = std::sync::Arc::new(std::sync::Mutex::new(may_answer));
    let node = Node::start(move |mut connection| {
        let mut request = vec![0; query(7, "SELECT k FROM s.t").len()];
        if connection.read_exact(&mut request).is_err() {
            return;
        }
        asked.send(()).unwrap();
        may_answer.lock().unwrap().recv().unwrap();
        connection.write_all(&void(7)).unwrap();
        // Until the proxy closes.
        let _ = connection.read(&mut [0; 1]);
    });
    (node, was_asked, answer)
}

#[test]
fn a_request_in_flight_is_answered_before_the_end_and_the_last_window_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let snapshots = folder.path().join("snapshots");
    let (node, was_asked, answer) = slow_node();
    let arguments = [
        "--report",
        file.to_str().unwrap(),
        "--snapshot-dir",
        snapshots.to_str().unwrap(),
    ];
    let proxy = proxy(node.address, &arguments);
    let address = proxy.address;
    let mut client = connect(address);
    client.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
    was_asked.recv_timeout(LIMIT).unwrap();

    let stopping = std::thread::spawn(move || proxy.stop(LIMIT));
    until("new clients are refused", || TcpStream::connect(address).is_err());
    answer.send(()).unwrap();
    assert_eq!(read_to_end(&mut client), void(7));
    drop(client);

    let ended = stopping.join().unwrap();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert_eq!(report(&file)["coverage"]["audited"], 1);
    assert_eq!(report(&file)["coverage"]["unanswered"], 0);
    let snapshots: Vec<_> = std::fs::read_dir(snapshots)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        snapshots
            .iter()
            .filter(|name| name.ends_with(".cqlens.json"))
            .count(),
        1,
        "{snapshots:?}"
    );
}

#[test]
fn a_request_that_is_never_answered_is_waited_for_no_longer_than_the_grace_period() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let (node, was_asked, _never) = slow_node();
    let proxy = proxy(
        node.address,
        &["--grace", "300ms", "--report", file.to_str().unwrap()],
    );
    let mut client = connect(proxy.address);
    client.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
    was_asked.recv_timeout(LIMIT).unwrap();
    let stopping = std::thread::spawn(move || proxy.stop(LIMIT));
    assert_eq!(read_to_end(&mut client), b"");
    drop(client);
    let ended = stopping.join().unwrap();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert_eq!(report(&file)["coverage"]["unanswered"], 1);
}

#[test]
fn an_idle_connection_does_not_delay_the_end() {
    let node = Node::start(|mut connection| {
        let mut request = vec![0; query(7, "SELECT k FROM s.t").len()];
        if connection.read_exact(&mut request).is_ok() {
            connection.write_all(&void(7)).unwrap();
            // Until the proxy closes.
            let _ = connection.read(&mut request);
        }
    });
    let proxy = proxy(node.address, &["--grace", "1h"]);
    let mut idle = connect(proxy.address);
    idle.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
    let mut answer = vec![0; void(7).len()];
    idle.read_exact(&mut answer).unwrap();
    assert_eq!(proxy.stop(LIMIT).code, 0);
    assert_eq!(read_to_end(&mut idle), b"");
}

#[test]
fn an_interrupt_is_as_good_as_a_termination() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let (node, received) = Node::answering(b"");
    let proxy = proxy(node.address, &["--report", file.to_str().unwrap()]);
    assert_eq!(converse(proxy.address, &query(1, "SELECT k FROM s.t")), b"");
    assert_eq!(
        received.recv_timeout(LIMIT).unwrap(),
        query(1, "SELECT k FROM s.t")
    );
    let ended = proxy.stop_by("INT", LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.log.contains("SIGINT"), "{}", ended.log);
    assert_eq!(report(&file)["coverage"]["requests"], 1);
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
