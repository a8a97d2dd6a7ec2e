//! Connections on which nothing happens: the kernel asks whether the other end is there, and the operator may
//! end them.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::proxy::{
    procfs::until,
    wire::{LIMIT, Node, connect, proxy, query, read_to_end, void},
};

const QUERY: &str = "SELECT k FROM s.t";

/// A node that answers every query, and says when a connection ends.
fn node() -> (Node, mpsc::Receiver<()>) {
    let (sender, ended) = mpsc::channel();
    let node = Node::start(move |mut connection| {
        let mut request = vec![0; query(7, QUERY).len()];
        while connection.read_exact(&mut request).is_ok() {
            connection.write_all(&void(7)).unwrap();
        }
        // The test may be over.
        let _ = sender.send(());
    });
    (node, ended)
}

fn ask(client: &mut TcpStream) {
    let mut answer = vec![0; void(7).len()];
    client.write_all(&query(7, QUERY)).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, void(7));
}

#[test]
fn a_connection_that_carries_nothing_is_closed_and_one_that_does_is_not() {
    let (node, ended) = node();
    let proxy = proxy(node.address, &["--idle-timeout", "1s"]);
    // The one that has asked whether the proxy listens.
    ended.recv_timeout(LIMIT).unwrap();
    let (mut idle, mut busy) = (connect(proxy.address), connect(proxy.address));
    ask(&mut idle);
    let since = Instant::now();
    let address = proxy.address;
    let waiting = thread::spawn(move || {
        assert_eq!(read_to_end(&mut idle), b"");
        // Its own end is still open: it was told, not cut off.
        (since.elapsed(), idle)
    });
    while since.elapsed() < Duration::from_secs(3) {
        ask(&mut busy);
        thread::sleep(Duration::from_millis(100));
    }
    let (after, idle) = waiting.join().unwrap();
    assert!(after >= Duration::from_millis(950), "{after:?}");
    assert!(after < Duration::from_secs(3), "{after:?}");
    ended.recv_timeout(LIMIT).unwrap();
    ask(&mut busy);
    ask(&mut connect(address));
    drop(idle);
    assert!(proxy.log().contains("idle for too long"));
}

#[test]
fn without_the_setting_silence_is_no_reason_to_close() {
    let (node, _ended) = node();
    let proxy = proxy(node.address, &[]);
    let mut client = connect(proxy.address);
    ask(&mut client);
    thread::sleep(Duration::from_secs(2));
    ask(&mut client);
}

/// The kind of timer that runs for each open connection from or to a port of this machine, as `/proc/net/tcp`
/// has it.
pub(crate) fn timers(end: &str, port: u16) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{port:04X}");
    let lines = table.lines().skip(1).map(|line| {
        let fields: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        let [_number, local, remote, state, _queues, timer, ..] = &fields[..] else {
            panic!("{line}")
        };
        let of = if end == "local" { local } else { remote };
        let is_open = state == "01" && of.ends_with(&port);
        is_open.then(|| timer.split(':').next().unwrap().to_owned())
    });
    lines.flatten().collect()
}

/// The timer of keepalive.
pub(crate) const KEEPALIVE: &str = "02";

#[test]
fn the_kernel_asks_both_ends_whether_they_are_there() {
    for (argument, timer) in [("5s", KEEPALIVE), ("off", "00")] {
        let (node, ended) = node();
        let proxy = proxy(node.address, &["--keepalive", argument]);
        // The one that has asked whether the proxy listens.
        ended.recv_timeout(LIMIT).unwrap();
        let mut client = connect(proxy.address);
        ask(&mut client);
        // Acknowledgements are on their way; then only the long timer is left.
        until("both ends have the timer", || {
            let to_client = timers("local", proxy.address.port());
            let to_node = timers("remote", node.address.port());
            to_client == [timer] && to_node == [timer]
        });
    }
}
