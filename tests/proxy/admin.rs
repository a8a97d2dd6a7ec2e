//! The admin listener: what probes see, what operators may do, what strangers may not.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{self, Options};
use serde_json::Value;

use crate::proxy::{
    support::proxy::{Proxy, free_address},
    wire::{LIMIT, Node, connect, proxy},
};

/// An answer: its code, head and body.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Sends a request and reads its answer to the end.
pub(crate) fn http(admin: SocketAddr, method: &str, path: &str, more: &str) -> Answer {
    let mut connection = connect(admin);
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n{more}\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let code = head
        .split(' ')
        .nth(1)
        .unwrap_or_else(|| panic!("no answer: {text:?}"));
    Answer {
        code: code.parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

pub(crate) fn get(admin: SocketAddr, path: &str) -> Answer {
    http(admin, "GET", path, "")
}

pub(crate) fn post(admin: SocketAddr, path: &str) -> Answer {
    http(admin, "POST", path, "Content-Length: 0\r\n")
}

/// A proxy with an admin listener, before a node that never answers.
pub(crate) fn with_admin(arguments: &[&str]) -> (Proxy, SocketAddr) {
    let silent = Node::start(|mut connection| {
        let _ = connection.read_to_end(&mut Vec::new());
    });
    let admin = free_address();
    let address = admin.to_string();
    let arguments = [&["--admin", &address], arguments].concat();
    (proxy(silent.address, &arguments), admin)
}

#[test]
fn probes_see_a_proxy_that_is_alive_and_ready() {
    let (proxy, admin) = with_admin(&[]);
    assert_eq!(get(admin, "/livez").code, 200);
    let clients: Vec<_> = (0..3).map(|_| connect(proxy.address)).collect();
    let deadline = Instant::now() + LIMIT;
    let ready = loop {
        let ready = get(admin, "/readyz");
        assert_eq!(ready.code, 200);
        if ready.json()["connections"] == clients.len() {
            break ready.json();
        }
        assert!(Instant::now() < deadline, "{}", ready.body);
    };
    assert_eq!(ready["state"], "accepting");
    assert_eq!(ready["listen"], proxy.address.to_string());
    assert_eq!(ready["control_connection"], "off");
    assert_eq!(ready["schema_known"], false);
    assert_eq!(ready["audit"]["dropped_bytes"], 0);
    ready["since"]
        .as_str()
        .unwrap()
        .parse::<jiff::Timestamp>()
        .unwrap();
    drop(clients);
    let deadline = Instant::now() + LIMIT;
    while get(admin, "/readyz").json()["connections"] != 0 {
        assert!(Instant::now() < deadline, "connections are counted down");
    }
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_connection_is_open_trying_or_off() {
    let node = cqlens_node::Node::start(Options::default()).await.unwrap();
    let admin = free_address();
    let address = admin.to_string();
    let proxy = Proxy::start(
        env!("CARGO_BIN_EXE_cqlens"),
        node.address(),
        &["--admin", &address],
    );
    let turns = |wanted: &str| {
        let deadline = Instant::now() + LIMIT;
        while get(admin, "/readyz").json()["control_connection"] != wanted {
            assert!(Instant::now() < deadline, "never {wanted}");
        }
    };
    turns("open");
    assert_eq!(get(admin, "/readyz").json()["schema_known"], true);
    node.shutdown().await;
    turns("trying");
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_read_the_report_of_what_has_passed() {
    let node = cqlens_node::Node::start(Options::default()).await.unwrap();
    let admin = free_address();
    let address = admin.to_string();
    let proxy = Proxy::start(
        env!("CARGO_BIN_EXE_cqlens"),
        node.address(),
        &["--admin", &address, "--window", "1s"],
    );
    let options = ClientOptions::default();
    let mut client = Client::connect(proxy.address, &options).await.unwrap();
    client.query("SELECT * FROM system.local").await.unwrap();
    let deadline = Instant::now() + LIMIT;
    let report = loop {
        let report = get(admin, "/report.json");
        assert_eq!(report.code, 200);
        if report.json()["coverage"]["audited"].as_u64() > Some(0) {
            break report;
        }
        assert!(Instant::now() < deadline, "{}", report.body);
    };
    assert_eq!(report.json()["format"], "cqlens.report.v1");
    assert!(
        report.head.contains("content-type: application/json"),
        "{}",
        report.head
    );
    let page = get(admin, "/report");
    assert!(
        page.body.to_lowercase().starts_with("<!doctype html>"),
        "{}",
        page.body
    );
    assert!(page.head.contains("refresh: 60"), "{}", page.head);
    assert!(get(admin, "/report.md").body.starts_with("# "));
    assert_eq!(get(admin, "/report.exe").code, 404);
    assert_eq!(get(admin, "/other.json").code, 404);
    assert_eq!(post(admin, "/report").code, 405);
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn orders_are_carried_out_and_their_outcome_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cqlens.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("[proxy]\npassword = 'hunter2'\n");
    let (proxy, admin) = with_admin(&["--config", file.to_str().unwrap()]);
    let config = get(admin, "/config");
    assert_eq!(config.code, 200);
    assert!(
        config.body.contains(&format!("admin = \"{admin}\"  # flag")),
        "{}",
        config.body
    );
    assert!(!config.body.contains("hunter2"), "{}", config.body);

    write("[proxy]\npassword = 'hunter2'\nwindow = '7s'\nreuse-port = true\n");
    let reloaded = post(admin, "/reload");
    assert_eq!(reloaded.code, 200, "{}", reloaded.body);
    assert_eq!(
        reloaded.json(),
        serde_json::json!({ "applied": ["window"], "need_restart": ["reuse-port"] })
    );
    assert!(get(admin, "/config").body.contains("window = \"7s\"  # file"));
    assert!(get(admin, "/config").body.contains("reuse-port = false"));

    write("[proxy]\nwindow = 7\n");
    let refused = post(admin, "/reload");
    assert_eq!(refused.code, 422);
    assert!(
        refused.json()["error"]
            .as_str()
            .unwrap()
            .contains("cqlens.toml:2:10: window"),
        "{}",
        refused.body
    );

    assert_eq!(post(admin, "/drain").code, 202);
    let ended = proxy.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.log.contains("the admin listener"), "{}", ended.log);
}

#[test]
fn readiness_turns_false_before_clients_are_turned_away() {
    let (mut proxy, admin) = with_admin(&["--drain-delay", "2s", "--grace", "0s"]);
    let began = Instant::now();
    proxy.signal("TERM");
    let deadline = Instant::now() + LIMIT;
    while get(admin, "/readyz").code == 200 {
        assert!(Instant::now() < deadline, "readiness never turns false");
    }
    let status = get(admin, "/readyz");
    assert_eq!(
        (status.code, status.json()["state"].as_str()),
        (503, Some("draining"))
    );
    assert_eq!(get(admin, "/livez").code, 200);
    // Who has not heard of it is still let in.
    drop(connect(proxy.address));
    assert_eq!(post(admin, "/reload").code, 422);
    // Asked once more, it does not hurry.
    assert_eq!(post(admin, "/drain").code, 202);
    let address = proxy.address;
    let ended = proxy.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn web_pages_give_no_orders() {
    let (proxy, admin) = with_admin(&[]);
    for (method, path) in [("POST", "/drain"), ("POST", "/reload"), ("GET", "/config")] {
        let origin = "Origin: http://evil.example\r\nContent-Length: 0\r\n";
        let from_page = http(admin, method, path, origin);
        assert_eq!(from_page.code, 403, "{path}: {}", from_page.head);
    }
    assert_eq!(get(admin, "/drain").code, 405);
    assert_eq!(get(admin, "/other").code, 404);
    assert_eq!(post(admin, "/metrics").code, 405);
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn hostile_requests_are_bounded() {
    let (proxy, admin) = with_admin(&[]);
    // No end of a head, an endless header, too many headers, a body that nobody asked for, and no HTTP at
    // all.
    let mut slow = connect(admin);
    slow.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n").unwrap();
    let endless = ["GET /livez HTTP/1.1\r\nX: ", &"x".repeat(64 << 10)].concat();
    let many = format!("GET /livez HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(200));
    for request in [
        &endless,
        &many,
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0",
        "\0\0\0\0\r\n\r\n",
    ] {
        let mut connection = connect(admin);
        // It may be reset before all is written.
        let _ = connection.write_all(request.as_bytes());
        let _ = connection.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    let mut body = connect(admin);
    body.write_all(b"POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n")
        .unwrap();
    let mut answer = [0; 12];
    body.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");

    // The slow one is given up after 5 seconds; silent ones take no more than their places, for as long.
    let silent: Vec<_> = (0..100).map(|_| connect(admin)).collect();
    assert_eq!(get(admin, "/livez").code, 200);
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    drop(silent);

    // The data path has noticed nothing.
    drop(connect(proxy.address));
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
}

/// Asks for `/livez` over a connection that stays open.
fn keep_alive(admin: SocketAddr) -> TcpStream {
    let mut connection = connect(admin);
    let request = format!("GET /livez HTTP/1.1\r\nHost: {admin}\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    connection
}

#[test]
fn idle_connections_take_no_probe_its_place_and_are_closed() {
    let (proxy, admin) = with_admin(&[]);
    let mut idle: Vec<_> = (0..250).map(|_| keep_alive(admin)).collect();
    // Some say nothing at all.
    idle.extend((0..100).map(|_| connect(admin)));
    for _ in 0..20 {
        assert_eq!(get(admin, "/livez").code, 200);
    }
    for connection in &mut idle {
        // The rest of an answer, then the end: a reset where it was closed with a request unread.
        let _ = connection.read_to_end(&mut Vec::new());
    }
    assert_eq!(get(admin, "/livez").code, 200);
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn a_name_that_was_made_to_resolve_to_this_machine_gives_no_orders() {
    let (proxy, admin) = with_admin(&[]);
    let ask = |path: &str| {
        let mut connection = connect(admin);
        let request = format!("GET {path} HTTP/1.1\r\nHost: evil.example:9143\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        text
    };
    let config = ask("/config");
    assert!(
        config.starts_with("HTTP/1.1 421") && !config.contains("listen ="),
        "{config}"
    );
    let ready = ask("/readyz");
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
    assert!(ready.ends_with(r#"{"state":"accepting"}"#), "{ready}");
    let ended = proxy.stop(LIMIT);
    assert!(
        ended.log.contains("refused on the admin listener"),
        "{}",
        ended.log
    );
}

#[test]
fn operators_may_ask_over_a_socket_of_their_own() {
    use std::os::unix::{fs::PermissionsExt, net::UnixStream};
    let (node, _) = Node::answering(b"");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    // What a process that was killed has left.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let setting = format!("unix:{}", path.display());
    let first = proxy(node.address, &["--admin", &setting]);
    // Clients may connect a moment before.
    let begun = Instant::now();
    while UnixStream::connect(&path).is_err() {
        assert!(begun.elapsed() < LIMIT, "the admin socket accepts no connection");
        std::thread::sleep(Duration::from_millis(10));
    }
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let ask = |request: &str| {
        let mut connection = UnixStream::connect(&path).unwrap();
        connection.set_read_timeout(Some(LIMIT)).unwrap();
        let request = format!("{request} HTTP/1.1\r\nHost: cqlens\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        text
    };
    assert!(ask("GET /readyz").contains("\"threads\""));
    assert!(ask("GET /config").contains(&format!("admin = \"{setting}\"")));
    // One process, one socket.
    let second = Proxy::spawn(
        env!("CARGO_BIN_EXE_cqlens"),
        &[
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            &node.address.to_string(),
            "--admin",
            &setting,
        ],
    );
    let refused = second.wait(LIMIT);
    assert_eq!(refused.code, 2, "{}", refused.log);
    assert!(
        refused.log.contains("another process listens there"),
        "{}",
        refused.log
    );
    assert!(ask("POST /drain").starts_with("HTTP/1.1 202"));
    let ended = first.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(!path.exists());
}
