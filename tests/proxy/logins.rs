//! Clients that reach the port and do not log in hold no place for long; those that are in stay in.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use cqlens_proto::segment::{Encoding, encode};

use crate::proxy::{
    procfs::until,
    wire::{LIMIT, Node, connect, envelope, proxy, query, read_to_end, report, void},
};

const STARTUP: u8 = 0x01;
const READY: u8 = 0x02;
const AUTHENTICATE: u8 = 0x03;
const OPTIONS: u8 = 0x05;
const SUPPORTED: u8 = 0x06;
const QUERY: u8 = 0x07;
const AUTH_RESPONSE: u8 = 0x0f;
const AUTH_SUCCESS: u8 = 0x10;

/// What stands in a STARTUP that asks for a password, here.
const WITH_PASSWORD: &[u8] = b"password";

/// A node of version 4 that lets clients in, some with a password.
fn node() -> Node {
    Node::start(|mut connection| {
        let mut header = [0; 9];
        while connection.read_exact(&mut header).is_ok() {
            if header[0] == 0x16 {
                connection.write_all(b"a server of something else").unwrap();
                let _ = connection.read_to_end(&mut Vec::new());
                return;
            }
            let length = u32::from_be_bytes(header[5..].try_into().unwrap());
            let mut body = vec![0; length as usize];
            connection.read_exact(&mut body).unwrap();
            let opcode = match header[4] {
                STARTUP if body == WITH_PASSWORD => AUTHENTICATE,
                STARTUP => READY,
                OPTIONS => SUPPORTED,
                AUTH_RESPONSE => AUTH_SUCCESS,
                QUERY => {
                    connection.write_all(&void(7)).unwrap();
                    continue;
                }
                opcode => panic!("{opcode}"),
            };
            connection.write_all(&envelope(0x84, 0, opcode, &[])).unwrap();
        }
    })
}

/// Sends an envelope and reads the answer, which has no body.
fn exchange(client: &mut TcpStream, opcode: u8, body: &[u8]) -> u8 {
    let mut header = [0; 9];
    client.write_all(&envelope(4, 0, opcode, body)).unwrap();
    client.read_exact(&mut header).unwrap();
    header[4]
}

fn is_served(client: &mut TcpStream) -> bool {
    let mut answer = vec![0; void(7).len()];
    client.write_all(&query(7, "SELECT k FROM s.t")).is_ok() && client.read_exact(&mut answer).is_ok()
}

/// A connection, and when it was closed.
fn closed_after(mut client: TcpStream, begun: Instant) -> Duration {
    assert_eq!(read_to_end(&mut client), b"");
    begun.elapsed()
}

#[test]
fn a_client_that_does_not_log_in_is_closed_and_one_that_does_is_not() {
    let (folder, node) = (tempfile::tempdir().unwrap(), node());
    let file = folder.path().join("report.json");
    let arguments = ["--login-timeout", "2s", "--report", file.to_str().unwrap()];
    let proxy = proxy(node.address, &arguments);
    let begun = Instant::now();
    let client = || connect(proxy.address);

    let silent = client();
    let mut half = client();
    half.write_all(&envelope(4, 0, STARTUP, &[])[..5]).unwrap();
    let mut asks_for_a_password = client();
    let answer = exchange(&mut asks_for_a_password, STARTUP, WITH_PASSWORD);
    assert_eq!(answer, AUTHENTICATE);
    let mut probe = client();

    let mut ready = client();
    assert_eq!(exchange(&mut ready, STARTUP, &[]), READY);
    let mut has_password = client();
    exchange(&mut has_password, STARTUP, WITH_PASSWORD);
    assert_eq!(exchange(&mut has_password, AUTH_RESPONSE, &[]), AUTH_SUCCESS);
    let mut something_else = client();
    something_else.write_all(b"\x16\x03\x01\x00\x05hello").unwrap();
    something_else.read_exact(&mut [0; 26]).unwrap();

    let waiting =
        [silent, half, asks_for_a_password].map(|client| thread::spawn(move || closed_after(client, begun)));
    // A client that asks for OPTIONS all the time is no client that is in.
    let probed = loop {
        let asked = probe.write_all(&envelope(4, 0, OPTIONS, &[]));
        if asked.is_err() || probe.read_exact(&mut [0; 9]).is_err() {
            break begun.elapsed();
        }
        assert!(begun.elapsed() < LIMIT, "a probe stays for ever");
        thread::sleep(Duration::from_millis(50));
    };
    let closed = waiting.map(|client| client.join().unwrap());
    for after in closed.iter().chain([&probed]) {
        assert!(*after > Duration::from_millis(1_900), "{closed:?} {probed:?}");
    }
    assert!(is_served(&mut ready) && is_served(&mut has_password));
    something_else
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    something_else.read(&mut [0; 1]).expect_err("it is still open");
    drop((ready, has_password, something_else));

    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert_eq!(
        ended.log.matches("has not logged in within").count(),
        1,
        "{}",
        ended.log
    );
    let refused = &report(&file)["coverage"]["refused_connections"];
    assert_eq!(refused["login-timeout"], 4, "{refused}");
}

#[test]
fn in_compressed_segments_the_first_answer_counts() {
    let segment = |direction: u8, opcode| {
        let mut bytes = BytesMut::new();
        encode(
            Encoding::Lz4,
            true,
            &envelope(direction | 5, 0, opcode, &[]),
            &mut bytes,
        )
        .unwrap();
        bytes.to_vec()
    };
    let node = Node::start(move |mut connection| {
        let mut received = [0; 1024];
        let answers = [envelope(0x85, 0, AUTHENTICATE, &[]), segment(0x80, AUTH_SUCCESS)];
        for answer in answers {
            // The connection that only asked whether the proxy listens sends nothing.
            if connection.read(&mut received).unwrap() > 0 {
                connection.write_all(&answer).unwrap();
            }
        }
        let _ = connection.read_to_end(&mut Vec::new());
    });
    let proxy = proxy(node.address, &["--login-timeout", "1s"]);
    let begun = Instant::now();
    let (mut client, mut stuck) = (connect(proxy.address), connect(proxy.address));
    let startup = envelope(5, 0, STARTUP, b"\x00\x01\x00\x0bCOMPRESSION\x00\x03lz4");
    for client in [&mut client, &mut stuck] {
        client.write_all(&startup).unwrap();
        client.read_exact(&mut [0; 9]).unwrap();
    }
    client.write_all(&segment(0, AUTH_RESPONSE)).unwrap();
    client
        .read_exact(&mut vec![0; segment(0x80, AUTH_SUCCESS).len()])
        .unwrap();
    assert!(closed_after(stuck, begun) > Duration::from_millis(900));
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    client.read(&mut [0; 1]).expect_err("it is still open");
}

#[test]
fn without_a_deadline_a_silent_client_may_stay() {
    let node = node();
    let proxy = proxy(node.address, &["--login-timeout", "off"]);
    let mut client = connect(proxy.address);
    client
        .set_read_timeout(Some(Duration::from_millis(1_500)))
        .unwrap();
    client.read(&mut [0; 1]).expect_err("it is still open");
    assert!(is_served(&mut client));
}

/// A node that answers the first bytes with `parts`, a moment apart, and closes.
fn ends(parts: u32, address: &mut Option<SocketAddr>) -> Node {
    let node = Node::start(move |mut connection| {
        if connection.read(&mut [0; 64]).unwrap() == 0 {
            return;
        }
        for _ in 0..parts {
            thread::sleep(Duration::from_millis(300));
            connection.write_all(b"part").unwrap();
        }
    });
    *address = Some(node.address);
    node
}

#[test]
fn a_client_that_keeps_its_end_open_after_the_node_has_closed_holds_no_place() {
    let mut address = None;
    let _node = ends(1, &mut address);
    let proxy = proxy(address.unwrap(), &["--half-closed-timeout", "1s"]);
    let mut client = connect(proxy.address);
    client.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
    assert_eq!(read_to_end(&mut client), b"part");
    until("the place is free", || {
        proxy
            .log()
            .contains("one side has finished and the other was idle")
    });
    drop(client);
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn a_client_that_has_finished_gets_an_answer_that_takes_longer() {
    let mut address = None;
    let _node = ends(8, &mut address);
    let proxy = proxy(address.unwrap(), &["--half-closed-timeout", "1s"]);
    let mut client = connect(proxy.address);
    client.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut client), b"part".repeat(8));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}
