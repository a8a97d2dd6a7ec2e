//! Limits of connections: who comes too much is told so, who is in is not disturbed.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::proxy::{
    certificates::{self, Authority, BOTH},
    procfs::until,
    support::proxy::Proxy,
    wire::{LIMIT, Node, connect, envelope, proxy, query, read_to_end, report, void},
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

/// Whether the connection is one to the node.
fn is_served(client: &mut TcpStream) -> bool {
    let mut answer = vec![0; void(7).len()];
    client.write_all(&query(7, QUERY)).is_ok() && client.read_exact(&mut answer).is_ok() && answer == void(7)
}

/// A client that is in. The connection that has asked whether the proxy listens may still be there for a
/// moment.
fn admitted(address: SocketAddr) -> TcpStream {
    admitted_by(|| connect(address))
}

fn admitted_by(connect: impl Fn() -> TcpStream) -> TcpStream {
    let mut client = None;
    until("a client is let in", || {
        let mut another = connect();
        let served = is_served(&mut another);
        client = served.then_some(another);
        served
    });
    client.unwrap()
}

/// Connects from an address of this machine.
pub(crate) fn connect_from(source: &str, address: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let source: SocketAddr = format!("{source}:0").parse().unwrap();
    socket.bind(&source.into()).unwrap();
    socket.connect(&address.into()).unwrap();
    let client = TcpStream::from(socket);
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client
}

/// Reads the ERROR with which `request` is answered: code and message. Nothing but the end may follow.
pub(crate) fn refusal(client: &mut TcpStream, request: &[u8]) -> (u32, String) {
    client.write_all(request).unwrap();
    error_in(&read_to_end(client), request)
}

pub(crate) fn error_in(answer: &[u8], request: &[u8]) -> (u32, String) {
    assert!(answer.len() > 15, "no answer but {answer:?}");
    let (header, body) = answer.split_at(9);
    assert_eq!(header[0], request[0] | 0x80, "the client's version");
    assert_eq!(header[2..4], request[2..4], "the client's stream");
    assert_eq!(header[4], 0, "an ERROR");
    assert_eq!(header[5..9], u32::try_from(body.len()).unwrap().to_be_bytes());
    let code = u32::from_be_bytes(body[..4].try_into().unwrap());
    let length = u16::from_be_bytes(body[4..6].try_into().unwrap());
    assert_eq!(usize::from(length), body.len() - 6);
    (code, String::from_utf8(body[6..].to_vec()).unwrap())
}

/// What the report says of refused clients after the end.
fn refused(proxy: Proxy, file: &std::path::Path) -> (Value, String) {
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
    (report(file)["coverage"]["refused_connections"].clone(), ended.log)
}

#[test]
fn a_client_too_much_is_told_so_in_its_own_version_and_those_that_are_in_go_on() {
    let (folder, node) = (tempfile::tempdir().unwrap(), node());
    let file = folder.path().join("report.json");
    let arguments = ["--max-connections", "2", "--report", file.to_str().unwrap()];
    let proxy = proxy(node.address, &arguments);
    let (mut one, mut other) = (admitted(proxy.address), admitted(proxy.address));
    for version in [3, 4, 5, 66] {
        // OPTIONS, and a STARTUP whose body is not looked at.
        for request in [
            envelope(version, 5, 0x05, &[]),
            envelope(version, -300, 0x01, &[0; 50]),
        ] {
            let (code, message) = refusal(&mut connect(proxy.address), &request);
            assert_eq!(code, 0x1001, "overloaded");
            assert_eq!(
                message,
                "cqlens refuses the connection: 2 connections are open, and max-connections allows no more"
            );
        }
    }
    assert!(is_served(&mut one) && is_served(&mut other));
    drop(other);
    let mut another = admitted(proxy.address);
    assert!(is_served(&mut one) && is_served(&mut another));
    drop((one, another));
    let (refused, log) = refused(proxy, &file);
    assert!(refused["max-connections"].as_u64().unwrap() >= 8, "{refused}");
    // The first is said at once; the others within 10 seconds, which this takes rarely.
    let said = log.matches("refuses the connection").count();
    assert!((1..=2).contains(&said), "{log}");
}

#[test]
fn a_client_that_speaks_something_else_is_closed_without_an_answer() {
    let node = node();
    let proxy = proxy(node.address, &["--max-connections", "1"]);
    let _in = admitted(proxy.address);
    for strange in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x84\0\0\0\x05\0\0\0\0"] {
        let mut client = connect(proxy.address);
        client.write_all(strange).unwrap();
        let mut answer = Vec::new();
        // A reset, where the close came before all was read.
        let _ = client.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_from_being_refused() {
    let node = node();
    let proxy = proxy(node.address, &["--max-connections", "1"]);
    let mut client = admitted(proxy.address);
    // As many as are answered at a time.
    let mut silent: Vec<_> = (0..64).map(|_| connect(proxy.address)).collect();
    // The next one is only closed, and at once.
    let begun = Instant::now();
    until("a client is closed without a word", || {
        read_to_end(&mut connect(proxy.address)).is_empty() && begun.elapsed() < Duration::from_millis(2500)
    });
    // The silent ones are not waited for forever.
    for client in &mut silent {
        assert_eq!(read_to_end(client), b"");
    }
    assert!(is_served(&mut client));
    let (code, _) = refusal(&mut connect(proxy.address), &envelope(4, 0, 0x05, &[]));
    assert_eq!(code, 0x1001);
}

#[test]
fn one_client_may_have_fewer_than_all() {
    let (folder, node) = (tempfile::tempdir().unwrap(), node());
    let file = folder.path().join("report.json");
    let arguments = [
        "--max-connections-per-client",
        "2",
        "--report",
        file.to_str().unwrap(),
    ];
    let proxy = proxy(node.address, &arguments);
    let from = |source: &'static str| move || connect_from(source, proxy.address);
    let _greedy = [admitted_by(from("127.0.0.21")), admitted_by(from("127.0.0.21"))];
    let (code, message) = refusal(&mut from("127.0.0.21")(), &envelope(4, 1, 0x05, &[]));
    assert_eq!(
        (code, message.as_str()),
        (
            0x1001,
            "cqlens refuses the connection: 2 connections are open from this address, and max-connections-per-client allows no more"
        )
    );
    let _others = [admitted_by(from("127.0.0.22")), admitted_by(from("127.0.0.22"))];
    drop((_greedy, _others));
    drop(admitted_by(from("127.0.0.21")));
    let (refused, _log) = refused(proxy, &file);
    assert!(
        refused["max-connections-per-client"].as_u64().unwrap() >= 1,
        "{refused}"
    );
}

#[test]
fn a_listener_may_have_fewer_than_the_process() {
    let node = node();
    let arguments = ["--max-connections", "5", "--max-connections-per-listener", "1"];
    let proxy = proxy(node.address, &arguments);
    let _in = admitted(proxy.address);
    let (_code, message) = refusal(&mut connect(proxy.address), &envelope(4, 1, 0x05, &[]));
    assert_eq!(
        message,
        "cqlens refuses the connection: 1 connection is open through this listener, and max-connections-per-listener allows no more"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_speaks_tls_is_told_inside_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let identity = authority.issue("proxy", &["127.0.0.1"]);
    let node = node();
    let arguments = [
        "--max-connections",
        "1",
        "--client-tls-cert",
        identity.certificate.to_str().unwrap(),
        "--client-tls-key",
        identity.key.to_str().unwrap(),
    ];
    let proxy = proxy(node.address, &arguments);
    // Whoever is in, is in; the next one is not.
    let mut clients = Vec::new();
    let request = envelope(4, 9, 0x05, &[]);
    let deadline = Instant::now() + LIMIT;
    let answer = loop {
        assert!(Instant::now() < deadline, "nobody is refused");
        let mut client = certificates::connect(proxy.address, &authority, BOTH).await;
        client.write_all(&request).await.unwrap();
        let mut answer = Vec::new();
        // The node waits for more than these 9 bytes, and answers nothing.
        match tokio::time::timeout(Duration::from_millis(500), client.read_to_end(&mut answer)).await {
            // Before that, the connection that has asked whether the proxy listens may be the one that is in.
            Ok(_) if clients.is_empty() => {}
            Ok(_) => break answer,
            Err(_served) => clients.push(client),
        }
    };
    let (code, message) = error_in(&answer, &request);
    assert_eq!(
        (code, message.as_str()),
        (
            0x1001,
            "cqlens refuses the connection: 1 connection is open, and max-connections allows no more"
        )
    );
    assert_eq!(clients.len(), 1);
}
