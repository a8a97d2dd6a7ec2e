//! Whatever a stranger can have logged at will is a few lines, however often it happens.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener},
};

use crate::proxy::{
    admin::http,
    certificates::Authority,
    support::proxy::{Proxy, free_address},
    wire::{LIMIT, Node, connect, proxy},
};

const TIMES: usize = 300;

/// The first few, and how many more there were.
const MOST_LINES: usize = 8;

/// Sends `bytes` over many connections, and waits for the end of each.
fn flood(address: SocketAddr, bytes: &[u8]) {
    for _ in 0..TIMES {
        let mut client = connect(address);
        // It may have been closed before.
        let _ = client
            .write_all(bytes)
            .and_then(|()| client.shutdown(Shutdown::Write));
        let _ = client.read_to_end(&mut Vec::new());
    }
}

fn is_calm(proxy: Proxy, kind: &str) {
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    let of_clients = |line: &&str| line.contains("WARN") && !line.contains("the audit keeps nothing");
    let lines: Vec<_> = ended.log.lines().filter(of_clients).collect();
    assert!(lines.iter().any(|line| line.contains(kind)), "{lines:?}");
    assert!(lines.len() <= MOST_LINES, "{} lines: {lines:?}", lines.len());
}

fn silent() -> Node {
    Node::start(|mut connection| {
        let _ = connection.read_to_end(&mut Vec::new());
    })
}

#[test]
fn clients_that_speak_no_tls() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Authority::new(folder.path(), "authority").issue("proxy", &["127.0.0.1"]);
    let arguments = [
        "--client-tls-cert",
        identity.certificate.to_str().unwrap(),
        "--client-tls-key",
        identity.key.to_str().unwrap(),
    ];
    let node = silent();
    let proxy = proxy(node.address, &arguments);
    flood(proxy.address, b"\x04\0\0\0\x05\0\0\0\0");
    is_calm(proxy, "does not use TLS");
}

#[test]
fn clients_without_a_proxy_header() {
    let node = silent();
    let proxy = proxy(node.address, &["--accept-proxy-protocol"]);
    flood(proxy.address, b"GET / HTTP/1.1\r\n\r\n");
    is_calm(proxy, "PROXY protocol");
}

#[test]
fn clients_of_a_node_that_refuses_them() {
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = proxy(nowhere, &[]);
    flood(proxy.address, b"");
    assert!(
        !proxy.log().contains("accepts no connections"),
        "it refuses at once, as without cqlens"
    );
    is_calm(proxy, "upstream refused the connection");
}

#[test]
fn clients_beyond_a_limit() {
    let node = silent();
    let proxy = proxy(node.address, &["--max-connections", "1"]);
    let _in = connect(proxy.address);
    flood(proxy.address, b"\x04\0\0\0\x05\0\0\0\0");
    is_calm(proxy, "max-connections");
}

#[test]
fn strangers_at_the_admin_listener() {
    let (node, admin) = (silent(), free_address());
    let proxy = proxy(node.address, &["--admin", &admin.to_string()]);
    for _ in 0..TIMES {
        assert_eq!(
            http(admin, "GET", "/config", "Origin: http://elsewhere\r\n").code,
            403
        );
    }
    is_calm(proxy, "refused on the admin listener");
}
