//! The PROXY protocol: from a load balancer in front, and to the node.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::mpsc,
    time::Duration,
};

use proxy_header::{ProxiedAddress, ProxyHeader, SslInfo, Tlv};
use serde_json::{Value, json};

use crate::proxy::{
    certificates::{self, Authority, BOTH, acceptor},
    procfs::until,
    support::proxy::Proxy,
    wire::{LIMIT, Node, connect, converse, envelope, proxy, query, read_to_end, report, void},
};

pub(crate) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header of version 2 for a connection over version 4 of IP.
pub(crate) fn header(client: &str, destination: &str) -> Vec<u8> {
    let (client, destination): (std::net::SocketAddrV4, std::net::SocketAddrV4) =
        (client.parse().unwrap(), destination.parse().unwrap());
    let mut bytes = [SIGNATURE, &[0x21, 0x11, 0, 12]].concat();
    bytes.extend(client.ip().octets());
    bytes.extend(destination.ip().octets());
    bytes.extend(client.port().to_be_bytes());
    bytes.extend(destination.port().to_be_bytes());
    bytes
}

fn local() -> Vec<u8> {
    [SIGNATURE, &[0x20, 0, 0, 0]].concat()
}

/// The clients of the report, and the rest of it, after the end.
fn ended(proxy: Proxy, file: &std::path::Path) -> Value {
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
    report(file)
}

#[test]
fn the_client_is_whom_the_load_balancer_names_and_the_node_gets_what_follows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let (node, received) = Node::answering(b"\x84\0\0\x07\x08\0\0\0\x04\0\0\0\x01");
    let arguments = ["--accept-proxy-protocol", "--report", file.to_str().unwrap()];
    let proxy = proxy(node.address, &arguments);
    let request = query(7, "SELECT k FROM s.t");
    let with_additions = {
        // A byte of nothing, in the way that additions have.
        let mut bytes = header("203.0.113.7:50000", "192.0.2.1:9042");
        bytes[15] = 12 + 4;
        bytes.extend([0x04, 0, 1, 0]);
        bytes
    };
    // As a load balancer with mutual TLS of its own sends it.
    let with_certificate = {
        let mut tls = SslInfo::new(true, true, true, 0);
        tls.append_tlv(Tlv::SslCn("orders".into()));
        let addresses = ProxiedAddress::stream(
            "203.0.113.9:1".parse().unwrap(),
            "192.0.2.1:9042".parse().unwrap(),
        );
        let mut bytes = Vec::new();
        let header = ProxyHeader::with_tlvs(Some(addresses), [Tlv::Ssl(tls)]);
        header.encode_v2(&mut bytes).unwrap();
        bytes
    };
    for header in [
        header("203.0.113.7:40000", "192.0.2.1:9042"),
        with_certificate,
        with_additions,
        b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 9042\r\n".to_vec(),
        local(),
        b"PROXY UNKNOWN\r\n".to_vec(),
    ] {
        let sent = [&header[..], &request].concat();
        assert_eq!(converse(proxy.address, &sent), void(7));
        assert_eq!(received.recv_timeout(LIMIT).unwrap(), request);
    }
    let log = proxy.log();
    assert!(log.contains("203.0.113.7:40000"), "{log}");
    let report = ended(proxy, &file);
    assert_eq!(
        report["clients"],
        json!({"203.0.113.7": 2, "CN=orders 203.0.113.9": 1, "2001:db8::7": 1, "127.0.0.1": 2})
    );
    assert_eq!(report["coverage"]["refused_connections"], json!({}));
}

#[test]
fn a_header_that_comes_in_pieces_is_waited_for() {
    let (node, received) = Node::answering(b"answer");
    let proxy = proxy(node.address, &["--accept-proxy-protocol"]);
    let mut client = connect(proxy.address);
    client.set_nodelay(true).unwrap();
    let sent = [&header("203.0.113.7:4", "192.0.2.1:9042")[..], b"what follows"].concat();
    for byte in sent {
        client.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut client), b"answer");
    assert_eq!(received.recv_timeout(LIMIT).unwrap(), b"what follows");
}

#[test]
fn a_client_without_a_header_is_refused_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let (node, received) = Node::answering(b"");
    let arguments = ["--accept-proxy-protocol", "--report", file.to_str().unwrap()];
    let proxy = proxy(node.address, &arguments);
    let damaged = [
        envelope(4, 0, 0x05, &[]),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\xaa".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        [SIGNATURE, &[0x31, 0x11, 0, 12], &[0; 12]].concat(),
        [SIGNATURE, &[0x21, 0x11, 0, 3], &[0; 3]].concat(),
        [SIGNATURE, &[0x21, 0x99, 0, 0]].concat(),
        b"PROXY TCP4 1.2.3.4\r\n".to_vec(),
        [b"PROXY ".to_vec(), vec![b'x'; 200]].concat(),
    ];
    for bytes in &damaged {
        let mut client = connect(proxy.address);
        client.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A reset, where the close came before all was read.
        let _ = client.read_to_end(&mut answer);
        assert_eq!(answer, b"", "{bytes:?}");
    }
    // One that sends the beginning and nothing else is waited for.
    let mut slow = connect(proxy.address);
    slow.write_all(&SIGNATURE[..5]).unwrap();
    assert_eq!(read_to_end(&mut slow), b"");
    assert!(received.try_recv().is_err(), "nothing went on to the node");
    let refused = ended(proxy, &file)["coverage"]["refused_connections"].clone();
    assert_eq!(refused, json!({"proxy-header": damaged.len() + 1}));
}

#[test]
fn limits_and_refusals_speak_of_the_client_that_was_named() {
    let node = Node::start(|mut connection| {
        let mut request = vec![0; query(7, "SELECT").len()];
        while connection.read_exact(&mut request).is_ok() {
            connection.write_all(&void(7)).unwrap();
        }
    });
    let arguments = ["--accept-proxy-protocol", "--max-connections-per-client", "1"];
    let mut proxy = proxy(node.address, &arguments);
    let address = proxy.address;
    let come = |client: &str, request: &[u8]| {
        let mut socket = connect(address);
        let sent = [&header(client, "192.0.2.1:9042")[..], request].concat();
        socket.write_all(&sent).unwrap();
        socket
    };
    let served = |client: &str| {
        let mut socket = come(client, &query(7, "SELECT"));
        let mut answer = vec![0; void(7).len()];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(answer, void(7));
        socket
    };
    let _one = served("203.0.113.7:1");
    let _other = served("203.0.113.8:1");
    let refused = read_to_end(&mut come("203.0.113.7:2", &envelope(4, 3, 0x05, &[])));
    let text = String::from_utf8_lossy(&refused);
    assert!(text.contains("max-connections-per-client"), "{text}");
    proxy.wait_for_log("client=203.0.113.7:2");
}

/// A node that gives what it gets to the test, and answers once.
fn recording() -> (Node, mpsc::Receiver<Vec<u8>>) {
    let (sender, received) = mpsc::channel();
    let node = Node::start(move |mut connection| {
        let mut bytes = Vec::new();
        let _ = connection.read_to_end(&mut bytes);
        let _ = connection.write_all(b"answer");
        // The test may be over.
        let _ = sender.send(bytes);
    });
    (node, received)
}

#[test]
fn the_node_is_told_who_the_client_is_and_what_it_connected_to() {
    let (node, received) = recording();
    let proxy = proxy(node.address, &["--send-proxy-protocol"]);
    let mut client = connect(proxy.address);
    client.write_all(b"\x04what the client says").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut client), b"answer");
    let expected = header(
        &client.local_addr().unwrap().to_string(),
        &proxy.address.to_string(),
    );
    let expected = [&expected[..], b"\x04what the client says"].concat();
    until("the node has got it", || {
        received.try_recv().is_ok_and(|bytes| bytes == expected)
    });
}

#[test]
fn what_the_load_balancer_says_is_passed_on() {
    let (node, received) = recording();
    let arguments = ["--accept-proxy-protocol", "--send-proxy-protocol"];
    let proxy = proxy(node.address, &arguments);
    let sent = [&header("203.0.113.7:4", "192.0.2.1:9042")[..], b"what follows"].concat();
    assert_eq!(converse(proxy.address, &sent), b"answer");
    until("the node has got it", || {
        received.try_recv().is_ok_and(|bytes| bytes == sent)
    });
}

#[test]
fn the_control_connection_names_no_client() {
    let (sender, received) = mpsc::channel();
    let node = Node::start(move |mut connection| {
        let mut bytes = [0; 17];
        if connection.read_exact(&mut bytes).is_ok() {
            let _ = sender.send(bytes);
        }
    });
    let upstream = node.address.to_string();
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--upstream",
        &upstream,
        "--send-proxy-protocol",
    ];
    // Nobody may connect to see whether it accepts: the node would be told of that one first, perhaps.
    let _proxy = Proxy::launch(env!("CARGO_BIN_EXE_cqlens"), &arguments, &[], None);
    let bytes = received.recv_timeout(LIMIT).unwrap();
    // Then STARTUP, in the newest version.
    assert_eq!(bytes[..], [&local()[..], &[5]].concat());
}

/// Takes a header off, then speaks TLS.
async fn behind_header(address: SocketAddr, proxy: SocketAddr) -> TcpStream {
    let header = header("203.0.113.7:4", &proxy.to_string());
    let socket = TcpStream::connect(address).unwrap();
    (&socket).write_all(&header).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn the_header_goes_before_tls_on_both_sides() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let authority = Authority::new(folder.path(), "authority");
    let (to_clients, of_node) = (
        authority.issue("proxy", &["127.0.0.1"]),
        authority.issue("node", &["127.0.0.1"]),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = listener.local_addr().unwrap();
    let tls = acceptor(&of_node, None, BOTH);
    let (sender, mut headers) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let (tls, sender) = (tls.clone(), sender.clone());
            tokio::spawn(async move {
                let mut header = [0; 28];
                socket.read_exact(&mut header).await.unwrap();
                let mut stream = tls.accept(socket).await.unwrap();
                let mut request = vec![0; query(7, "SELECT").len()];
                stream.read_exact(&mut request).await.unwrap();
                stream.write_all(&void(7)).await.unwrap();
                sender.send(header).unwrap();
            });
        }
    });
    let arguments = [
        "--accept-proxy-protocol",
        "--send-proxy-protocol",
        "--client-tls-cert",
        to_clients.certificate.to_str().unwrap(),
        "--client-tls-key",
        to_clients.key.to_str().unwrap(),
        "--upstream-tls-ca",
        authority.file.to_str().unwrap(),
        "--report",
        file.to_str().unwrap(),
    ];
    let proxy = proxy(node, &arguments);
    let socket = behind_header(proxy.address, proxy.address).await;
    let socket = tokio::net::TcpStream::from_std(socket).unwrap();
    let mut client = certificates::handshake(socket, &authority, None, BOTH).await;
    client.write_all(&query(7, "SELECT")).await.unwrap();
    let mut answer = vec![0; void(7).len()];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, void(7));
    let seen = headers.recv().await.unwrap();
    assert_eq!(seen[..], header("203.0.113.7:4", &proxy.address.to_string()));
    drop(client);
    assert_eq!(ended(proxy, &file)["clients"], json!({"203.0.113.7": 1}));
}
