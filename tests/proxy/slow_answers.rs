//! Answers that take longer than a pause when the proxy is told to stop: on every version and compression,
//! and on connections that cqlens cannot read.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use cqlens_proto::{
    compress::{Compression, compress_body},
    segment::{Encoding, MAX_PAYLOAD, encode},
};

use crate::proxy::{
    support::proxy::Proxy,
    wire::{LIMIT, Node, connect, envelope, proxy, read_to_end},
};

const STARTUP: u8 = 0x01;
const READY: u8 = 0x02;
const QUERY: u8 = 0x07;
const RESULT: u8 = 0x08;

/// What a client and a node say to each other.
#[derive(Clone)]
struct Session {
    name: &'static str,
    /// A request that is answered at once, and its answer. No two sessions of a test begin alike.
    opening: (Vec<u8>, Vec<u8>),
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// A node that takes `pause` for the answer to the request of a session, and says when the request has come.
fn node(sessions: &[Session], pause: Duration) -> (Node, mpsc::Receiver<()>) {
    let (asked, was_asked) = mpsc::channel();
    let sessions = sessions.to_vec();
    let node = Node::start(move |mut connection| {
        let mut buffer = [0; 1024];
        let mut receive = |connection: &mut TcpStream| {
            let length = connection.read(&mut buffer).unwrap_or(0);
            buffer[..length].to_vec()
        };
        let opening = receive(&mut connection);
        // The connection that only asked whether the proxy listens sends nothing.
        let Some(session) = sessions.iter().find(|session| session.opening.0 == opening) else {
            return;
        };
        connection.write_all(&session.opening.1).unwrap();
        if receive(&mut connection) == session.request {
            // The test may be over.
            let _ = asked.send(());
            thread::sleep(pause);
            let _ = connection.write_all(&session.answer);
            // Until the proxy closes.
            receive(&mut connection);
        }
    });
    (node, was_asked)
}

/// A proxy with a client for each session, whose requests have reached a node that takes `pause` for the
/// answers.
fn asked(sessions: &[Session], pause: Duration, grace: &str) -> (Proxy, Vec<TcpStream>) {
    let (node, was_asked) = node(sessions, pause);
    let proxy = proxy(node.address, &["--grace", grace]);
    let clients = sessions.iter().map(|session| {
        let mut client = connect(proxy.address);
        client.write_all(&session.opening.0).unwrap();
        client.read_exact(&mut vec![0; session.opening.1.len()]).unwrap();
        client.write_all(&session.request).unwrap();
        was_asked.recv_timeout(LIMIT).unwrap();
        client
    });
    let clients = clients.collect();
    (proxy, clients)
}

/// Tells `proxy` to stop, and returns the names of the sessions whose clients do not get what is `expected`
/// and then the end, within a third of what a test may take.
fn stop(
    mut proxy: Proxy,
    sessions: &[Session],
    clients: Vec<TcpStream>,
    expected: impl Fn(&Session) -> &[u8],
) -> Vec<&'static str> {
    proxy.signal("TERM");
    let deadline = Instant::now() + LIMIT / 3;
    let exceptions = sessions.iter().zip(clients).filter_map(|(session, mut client)| {
        let left = deadline.saturating_duration_since(Instant::now());
        client
            .set_read_timeout(Some(left.max(Duration::from_millis(1))))
            .unwrap();
        let mut got = Vec::new();
        let ended = client.read_to_end(&mut got).is_ok();
        (!ended || got != expected(session)).then_some(session.name)
    });
    let exceptions: Vec<_> = exceptions.collect();
    if exceptions.is_empty() {
        let ended = proxy.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    exceptions
}

/// A session of `version`, whose bodies (before version 5) or segments are compressed.
fn session(name: &'static str, version: u8, compression: Compression) -> Session {
    let startup = match compression {
        Compression::None => b"\x00\x00".to_vec(),
        Compression::Lz4 => b"\x00\x01\x00\x0bCOMPRESSION\x00\x03lz4".to_vec(),
        Compression::Snappy => b"\x00\x01\x00\x0bCOMPRESSION\x00\x06snappy".to_vec(),
    };
    let ready = envelope(0x80 | version, 0, READY, &[]);
    let cql = b"SELECT k FROM s.t";
    let mut query = u32::try_from(cql.len()).unwrap().to_be_bytes().to_vec();
    query.extend(cql);
    // Consistency ONE and no flags, which are four bytes from version 5 on.
    query.extend([0, 1]);
    query.resize(query.len() + if version < 5 { 1 } else { 4 }, 0);
    let message = |version, opcode, body: &[u8]| match version & 0x7f {
        5 => segment(Encoding::of(compression), &envelope(version, 7, opcode, body)),
        _ => compressed(version, opcode, body, compression),
    };
    Session {
        name,
        opening: (envelope(version, 0, STARTUP, &startup), ready),
        request: message(version, QUERY, &query),
        answer: message(0x80 | version, RESULT, &[0, 0, 0, 1]),
    }
}

fn segment(encoding: Encoding, envelope: &[u8]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    encode(encoding, true, envelope, &mut bytes).unwrap();
    bytes.to_vec()
}

fn compressed(version: u8, opcode: u8, body: &[u8], compression: Compression) -> Vec<u8> {
    let mut shorter = BytesMut::new();
    compress_body(compression, body, &mut shorter).unwrap();
    let mut bytes = envelope(version, 7, opcode, &shorter);
    bytes[1] = u8::from(compression != Compression::None);
    bytes
}

/// Sessions whose versions cqlens knows. What is in flight can be counted in all but the last two.
fn readable() -> Vec<Session> {
    vec![
        session("v3", 3, Compression::None),
        session("v3 lz4", 3, Compression::Lz4),
        session("v3 snappy", 3, Compression::Snappy),
        session("v4", 4, Compression::None),
        session("v4 lz4", 4, Compression::Lz4),
        session("v4 snappy", 4, Compression::Snappy),
        session("v5", 5, Compression::None),
        session("v5 lz4", 5, Compression::Lz4),
        continuous_paging(),
    ]
}

/// A session with more answers than requests, as continuous paging of DSE has them.
fn continuous_paging() -> Session {
    let v4 = session("continuous paging", 4, Compression::None);
    let page = envelope(0x84, 2, RESULT, &[0, 0, 0, 1]);
    Session {
        opening: (
            envelope(4, 2, QUERY, b"\x00\x00\x00\x01k\x00\x01\x00"),
            page.repeat(3),
        ),
        ..v4
    }
}

/// Sessions that cqlens cannot read.
fn opaque() -> Vec<Session> {
    vec![
        Session {
            name: "v2",
            opening: (
                b"\x02\x00\x00\x01\x00\x00\x00\x02\x00\x00".to_vec(),
                b"\x82\x00\x00\x02\x00\x00\x00\x00".to_vec(),
            ),
            request: b"\x02\x00\x01\x07\x00\x00\x00\x07\x00\x00\x00\x01k\x00\x01".to_vec(),
            answer: b"\x82\x00\x01\x08\x00\x00\x00\x04\x00\x00\x00\x01".to_vec(),
        },
        Session {
            name: "tls",
            opening: (
                b"\x16\x03\x01\x00\x05hello".to_vec(),
                b"\x16\x03\x03\x00\x02hi".to_vec(),
            ),
            request: b"\x17\x03\x03\x00\x05query".to_vec(),
            answer: b"\x17\x03\x03\x00\x06answer".to_vec(),
        },
        Session {
            name: "text",
            opening: (b"HELLO\r\n".to_vec(), b"HI\r\n".to_vec()),
            request: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            answer: b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        },
        turning_opaque(),
    ]
}

/// A session whose request can be told from others, and whose answer cannot be read.
fn turning_opaque() -> Session {
    let v4 = session("v4, then text", 4, Compression::None);
    Session {
        opening: (
            envelope(4, 1, STARTUP, b"\x00\x00"),
            envelope(0x84, 1, READY, &[]),
        ),
        answer: b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        ..v4
    }
}

const SLOW: Duration = Duration::from_secs(2);

#[test]
fn a_request_of_two_seconds_is_answered_on_every_version_and_compression() {
    let sessions = readable();
    let (proxy, clients) = asked(&sessions, SLOW, "20s");
    let cut_off = stop(proxy, &sessions, clients, |session| &session.answer);
    assert!(cut_off.is_empty(), "{cut_off:?}");
}

#[test]
fn so_is_one_on_a_connection_that_cannot_be_read() {
    let sessions = opaque();
    let (proxy, clients) = asked(&sessions, SLOW, "20s");
    let cut_off = stop(proxy, &sessions, clients, |session| &session.answer);
    assert!(cut_off.is_empty(), "{cut_off:?}");
}

#[test]
fn no_request_is_waited_for_beyond_the_grace_period() {
    let sessions = [readable(), opaque()].concat();
    let (proxy, clients) = asked(&sessions, LIMIT, "300ms");
    let waited_for = stop(proxy, &sessions, clients, |_| b"");
    assert!(waited_for.is_empty(), "{waited_for:?}");
}

#[test]
fn connections_whose_requests_are_answered_do_not_delay_the_end() {
    let sessions = [readable(), opaque()].concat();
    let (proxy, mut clients) = asked(&sessions, Duration::ZERO, "1h");
    for (session, client) in sessions.iter().zip(&mut clients) {
        client.read_exact(&mut vec![0; session.answer.len()]).unwrap();
    }
    let waited_for = stop(proxy, &sessions, clients, |_| b"");
    assert!(waited_for.is_empty(), "{waited_for:?}");
}

#[test]
fn an_answer_in_several_compressed_segments_comes_whole_though_the_node_pauses_between_them() {
    let v5 = session("v5 lz4", 5, Compression::Lz4);
    let mut answer = BytesMut::new();
    let result = envelope(0x85, 7, RESULT, &vec![0; 3 * MAX_PAYLOAD]);
    let mut parts = Vec::new();
    for part in result.chunks(MAX_PAYLOAD) {
        encode(Encoding::Lz4, false, part, &mut answer).unwrap();
        parts.push(answer.split().to_vec());
    }
    let whole = parts.concat();
    let (opening, request) = (v5.opening.clone(), v5.request.clone());
    let node = Node::start(move |mut connection| {
        // The connection that only asked whether the proxy listens sends nothing.
        if connection.read_exact(&mut vec![0; opening.0.len()]).is_err() {
            return;
        }
        connection.write_all(&opening.1).unwrap();
        connection.read_exact(&mut vec![0; request.len()]).unwrap();
        for part in &parts {
            let _ = connection.write_all(part);
            thread::sleep(Duration::from_millis(500));
        }
        // Until the proxy closes.
        let _ = connection.read(&mut [0; 1]);
    });
    let proxy = proxy(node.address, &["--grace", "20s"]);
    let mut client = connect(proxy.address);
    client.write_all(&v5.opening.0).unwrap();
    client.read_exact(&mut vec![0; v5.opening.1.len()]).unwrap();
    client.write_all(&v5.request).unwrap();
    let mut first = vec![0; 8];
    client.read_exact(&mut first).unwrap();
    let stopping = thread::spawn(move || proxy.stop(LIMIT / 3));
    let got = [first, read_to_end(&mut client)].concat();
    assert!(got == whole, "{} of {} bytes", got.len(), whole.len());
    drop(client);
    assert_eq!(stopping.join().unwrap().code, 0);
}
