//! What operators may do over the admin listener, from this machine and, with TLS and a token, from others.

use std::{
    fs,
    io::{Read, Write},
    net::SocketAddr,
    process::Command,
    time::Instant,
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::proxy::{
    admin::{Answer, get, http},
    certificates::{Authority, BOTH, Issued, connect},
    support::proxy::{Proxy, free_address},
    wire,
    wire::LIMIT,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");
const TOKEN: &str = "dG9rZW4tb2Ytb3BlcmF0b3Jz";

/// A proxy before a node, through which a full scan has passed, and its admin listener.
async fn scanned(options: &[&str]) -> (Node, Proxy, SocketAddr) {
    let node = Node::start(Options::default()).await.unwrap();
    let admin = free_address();
    let address = admin.to_string();
    let arguments = [&["--admin", &address, "--window", "1s"], options].concat();
    let proxy = Proxy::start(PROGRAM, node.address(), &arguments);
    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    for cql in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.orders (id int PRIMARY KEY, total int)",
        "SELECT total FROM shop.orders",
    ] {
        client.query(cql).await.unwrap();
    }
    (node, proxy, admin)
}

/// The findings, once there are some.
fn findings(admin: SocketAddr) -> Answer {
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = get(admin, "/findings");
        assert_eq!(answer.code, 200, "{}", answer.body);
        if answer.body.contains("\"full-scan\"") {
            return answer;
        }
        assert!(Instant::now() < deadline, "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_and_a_snapshot_are_those_of_the_report() {
    let (_node, proxy, admin) = scanned(&[]).await;
    let found = findings(admin);
    assert!(
        found.head.contains("content-type: application/json"),
        "{}",
        found.head
    );
    let report = get(admin, "/report.json").json();
    assert_eq!(found.json()["part_of"], report["format"]);
    assert_eq!(found.json()["findings"][0]["rule"], report["findings"][0]["rule"]);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("now.cqlens.json.gz");
    fs::write(&file, bytes_of(admin, "/snapshot")).unwrap();
    let from_snapshot = Command::new(PROGRAM)
        .args(["report", "--format", "json"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(from_snapshot.status.success(), "{from_snapshot:?}");
    let from_snapshot: serde_json::Value = serde_json::from_slice(&from_snapshot.stdout).unwrap();
    assert_eq!(
        from_snapshot["findings"][0]["rule"],
        report["findings"][0]["rule"]
    );
    for path in ["/findings", "/snapshot"] {
        assert_eq!(http(admin, "POST", path, "Content-Length: 0\r\n").code, 405);
    }
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

/// The body of an answer that is no text.
fn bytes_of(admin: SocketAddr, path: &str) -> Vec<u8> {
    let mut connection = wire::connect(admin);
    write!(
        connection,
        "GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("content-disposition: attachment"), "{head}");
    answer.split_off(end + 4)
}

fn put(admin: SocketAddr, level: &str) -> Answer {
    let body = format!("Content-Length: {}\r\n\r\n{level}", level.len());
    // The blank line that ends the head comes before the body; what follows it is of no further request.
    http(admin, "PUT", "/log-level", &body)
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_change_what_is_logged() {
    let (_node, proxy, admin) = scanned(&[]).await;
    assert_eq!(get(admin, "/log-level").body, "info\n");
    let changed = put(admin, "cqlens_proxy=debug,warn");
    assert_eq!(changed.code, 200, "{}", changed.body);
    assert!(changed.body.contains("cqlens_proxy=debug"), "{}", changed.body);
    let refused = put(admin, "no=such=level");
    assert_eq!(refused.code, 422, "{}", refused.body);
    assert_eq!(put(admin, &"x".repeat(2_000)).code, 400);
    // A request by GET changes nothing, whatever it says.
    let asked = http(admin, "GET", "/log-level?level=trace", "Content-Length: 0\r\n");
    assert_eq!(asked.body, changed.body);
    assert_eq!(put(admin, "error").body, "error\n");
    let ended = proxy.stop(LIMIT);
    assert!(!ended.log.contains("INFO stopped"), "{}", ended.log);
}

/// Asks an admin listener with TLS, with these lines of the head.
async fn ask(admin: SocketAddr, authority: &Authority, request: &str, more: &str) -> (String, String) {
    let mut connection = connect(admin, authority, BOTH).await;
    let request = format!("{request} HTTP/1.1\r\nHost: cqlens.example\r\nConnection: close\r\n{more}\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // It may end without a goodbye.
    let _ = connection.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tls_and_a_token_operators_may_come_from_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let Issued { certificate, key } = authority.issue("admin", &["127.0.0.1"]);
    let token = folder.path().join("token");
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let node = Node::start(Options::default()).await.unwrap();
    let admin: SocketAddr = free_address();
    let anywhere = format!("0.0.0.0:{}", admin.port());
    let [certificate, key, token_file] = [&certificate, &key, &token].map(|path| path.to_str().unwrap());
    let arguments = [
        ["--admin", &anywhere],
        ["--admin-tls-cert", certificate],
        ["--admin-tls-key", key],
        ["--admin-token-file", token_file],
    ];
    let mut proxy = Proxy::start(PROGRAM, node.address(), &arguments.concat());
    let (head, body) = ask(admin, &authority, "GET /metrics", &bearer(TOKEN)).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let expiry = "cqlens_certificate_expiry_timestamp_seconds{presented_to=\"operators\"";
    assert!(body.contains(expiry), "{body}");

    // Being on this machine, and naming it, is not enough.
    for (request, more) in [
        ("GET /metrics", String::new()),
        ("POST /drain", String::new()),
        ("POST /drain", bearer("dG9rZW4tb2Ytb3BlcmF0b3J0")),
    ] {
        let (head, body) = ask(admin, &authority, request, &more).await;
        assert!(head.starts_with("HTTP/1.1 401"), "{head}");
        assert!(head.contains("www-authenticate: Bearer"), "{head}");
        assert!(!body.contains("cqlens_"), "{body}");
    }
    let (head, _) = ask(admin, &authority, "GET /livez", "").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (_, body) = ask(admin, &authority, "GET /readyz", "").await;
    assert_eq!(body, r#"{"state":"accepting"}"#);

    // In clear text nothing is said, and what is no handshake disturbs no other.
    let mut plain = wire::connect(admin);
    plain
        .write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let silent: Vec<_> = (0..100).map(|_| wire::connect(admin)).collect();
    let (head, _) = ask(admin, &authority, "GET /livez", "").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    drop(silent);

    let renewed = "cmVuZXdlZC10b2tlbi0xMjM0";
    fs::write(&token, renewed).unwrap();
    proxy.signal("HUP");
    proxy.wait_for_log("token and certificate of the admin listener read again");
    let (head, _) = ask(admin, &authority, "GET /config", &bearer(TOKEN)).await;
    assert!(head.starts_with("HTTP/1.1 401"), "{head}");
    let (head, body) = ask(admin, &authority, "GET /config", &bearer(renewed)).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(!body.contains(renewed), "{body}");
    fs::write(&token, "short").unwrap();
    proxy.signal("HUP");
    proxy.wait_for_log("the previous ones stay");
    let (head, _) = ask(admin, &authority, "POST /drain", &bearer(renewed)).await;
    assert!(head.starts_with("HTTP/1.1 202"), "{head}");
    let ended = proxy.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(
        !ended.log.contains(renewed) && !ended.log.contains(TOKEN),
        "{}",
        ended.log
    );
}

#[test]
fn a_token_that_would_cross_the_network_in_clear_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, TOKEN).unwrap();
    let refused = |more: &[&str]| {
        let arguments = ["proxy", "--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:9"];
        let started = Command::new(PROGRAM)
            .args(arguments)
            .args(["--admin-token-file", token.to_str().unwrap()])
            .args(more)
            .output()
            .unwrap();
        let said = String::from_utf8(started.stderr).unwrap();
        assert_eq!(started.status.code(), Some(2), "{said}");
        said
    };
    for more in [
        &["--admin", "0.0.0.0:0"][..],
        &["--admin", "0.0.0.0:0", "--check"],
        &["--admin", "[::]:0"],
    ] {
        let said = refused(more);
        assert!(said.contains("in clear text"), "{said}");
        assert!(
            said.contains("set admin-tls-cert and admin-tls-key, or listen on 127.0.0.1"),
            "{said}"
        );
    }
    fs::write(&token, "hunter2").unwrap();
    for more in [
        &["--admin", "127.0.0.1:0"][..],
        &["--admin", "127.0.0.1:0", "--check"],
    ] {
        let said = refused(more);
        assert!(
            said.contains("at least 16 characters") && !said.contains("hunter2"),
            "{said}"
        );
    }
}
