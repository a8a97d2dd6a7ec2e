//! Nothing leaks: no value is in a log, a snapshot or a report.

use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
};

use base64::Engine;
use cqlens_client::{Bind, Client, ClientOptions, Run, RunOptions};
use cqlens_node::{Node, Options};
use cqlens_proxy::tls::{Authorities, Connector, HostnameCheck};

use crate::proxy::{
    certificates::{Authority, Issued},
    support::{proxy::Proxy, snapshots},
    wire::{LIMIT, envelope},
};

/// Planted in every place where a value can stand.
const SECRET: &str = "hunter2";

#[tokio::test]
async fn no_value_is_in_the_log_a_snapshot_or_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let (report, snapshot_dir) = (folder.path().join("report.html"), folder.path().join("snapshots"));
    let node = Node::start(Options::default()).await.unwrap();
    let arguments = [
        "--log",
        "debug",
        "--report",
        report.to_str().unwrap(),
        "--snapshot-dir",
        snapshot_dir.to_str().unwrap(),
    ];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &arguments);
    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    client
        .script(
            "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE s.users (name text PRIMARY KEY, word text);",
        )
        .await
        .unwrap();
    for cql in [
        "INSERT INTO s.users (name, word) VALUES ('hunter2', 'hunter2')",
        "SELECT word FROM s.users WHERE name IN ('hunter2', $$hunter2$$)",
        "SELECT word FROM s.users WHERE word = 'hunter2' ALLOW FILTERING",
        // Refused, not CQL, or neither: the texts hold values all the same.
        "SELECT word FROM s.users WHERE word = 'hunter2'",
        "SELECT 'hunter2 FROM s.users",
        "SELEKT word FROM s.users WHERE name = 'hunter2' /* hunter2 */",
        "CREATE ROLE anna WITH PASSWORD = 'hunter2' AND LOGIN = true",
    ] {
        // Whether the node takes it is not the question.
        let _ = client.query(cql).await;
    }
    let prepared = client
        .prepare("SELECT word FROM s.users WHERE name = ?")
        .await
        .unwrap();
    client
        .run(
            Run::Prepared(&prepared, &[Bind::text(SECRET)]),
            &RunOptions::default(),
        )
        .await
        .unwrap();
    drop(client);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0);

    assert_clean("the log", &ended.log);
    assert_clean("the report", &fs::read_to_string(&report).unwrap());
    let texts: Vec<_> = snapshots::files(&snapshot_dir)
        .iter()
        .map(|file| snapshots::text(file).unwrap())
        .collect();
    assert!(
        texts.iter().any(|text| text.contains("s.users")),
        "the statements are there, without their values"
    );
    for text in texts {
        assert_clean("a snapshot", &text);
    }
}

/// What clients and cqlens itself log in with.
const PASSWORD: &str = "correct-horse-battery";

/// A server that asks for a password, and then is the node behind it.
fn asking_for_passwords(node: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            std::thread::spawn(move || log_in(client, node));
        }
    });
    address
}

fn log_in(mut client: TcpStream, node: SocketAddr) -> Option<()> {
    let mut startup = next(&mut client)?;
    let refused = envelope(0x84, 0, 0x00, b"\0\0\0\x0a\0\x12unsupported version");
    while startup[0] != 4 {
        client.write_all(&refused).ok()?;
        startup = next(&mut client)?;
    }
    let mut server = TcpStream::connect(node).ok()?;
    while startup[4] != 0x01 {
        server.write_all(&startup).ok()?;
        client.write_all(&next(&mut server)?).ok()?;
        startup = next(&mut client)?;
    }
    let stream = i16::from_be_bytes([startup[2], startup[3]]);
    client
        .write_all(&envelope(0x84, stream, 0x03, b"\0\x15PasswordAuthenticator"))
        .ok()?;
    let answer = next(&mut client)?;
    assert!(
        answer
            .windows(PASSWORD.len())
            .any(|part| part == PASSWORD.as_bytes())
    );
    server.write_all(&startup).ok()?;
    next(&mut server)?;
    let stream = i16::from_be_bytes([answer[2], answer[3]]);
    client.write_all(&envelope(0x84, stream, 0x10, &[0xff; 4])).ok()?;
    let (mut from_client, mut to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(Shutdown::Both);
    Some(())
}

/// The next envelope.
fn next(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 9];
    from.read_exact(&mut bytes).ok()?;
    let length = u32::from_be_bytes(bytes[5..9].try_into().unwrap());
    // As a node has a limit: what is no envelope may say gigabytes.
    if length > 1 << 20 {
        return None;
    }
    bytes.resize(9 + usize::try_from(length).unwrap(), 0);
    from.read_exact(&mut bytes[9..]).ok()?;
    Some(bytes)
}

/// A session with a secret wherever one can be: bound, as a literal, in errors, in what cannot be decoded, in
/// what is no CQL, and passwords of clients, of cqlens, of roles. Returns the log, and the key file's text.
async fn whole_session(arguments: &[&str]) -> (String, String) {
    let node = Node::start(Options::default()).await.unwrap();
    let server = asking_for_passwords(node.address());
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let Issued { certificate, key } = authority.issue("proxy", &["127.0.0.1"]);
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let tls = ["--client-tls-cert", certificate, "--client-tls-key", key];
    let control = ["--username", "cqlens", "--password", PASSWORD];
    let proxy = Proxy::start(
        env!("CARGO_BIN_EXE_cqlens"),
        server,
        &[&tls[..], &control, arguments].concat(),
    );
    while !proxy.log().contains("control connection open") {
        assert!(proxy.log().len() < 1 << 20, "{}", proxy.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let authorities = Authorities::read(&authority.file).unwrap();
    let connector = Connector::new(authorities, None, "127.0.0.1", HostnameCheck::On).unwrap();
    let options = ClientOptions {
        credentials: Some(("somebody".to_owned(), PASSWORD.to_owned())),
        tls: Some(std::sync::Arc::new(connector.clone())),
        ..ClientOptions::default()
    };
    let mut client = Client::connect(proxy.address, &options).await.unwrap();
    client
        .script(
            "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE s.users (name text PRIMARY KEY, word text);",
        )
        .await
        .unwrap();
    for cql in [
        "INSERT INTO s.users (name, word) VALUES ('hunter2', 'hunter2')",
        "SELECT word FROM s.users WHERE name IN ('hunter2', $$hunter2$$)",
        "SELECT word FROM s.users WHERE word = 'hunter2'",
        "SELECT 'hunter2 FROM s.users",
        "CREATE TABLE s.other (k int PRIMARY KEY) WITH comment = 'hunter2'",
        "CREATE ROLE anna WITH PASSWORD = 'correct-horse-battery' AND LOGIN = true",
    ] {
        let _ = client.query(cql).await;
    }
    let prepared = client
        .prepare("SELECT word FROM s.users WHERE name = ?")
        .await
        .unwrap();
    let bound = [Bind::text(SECRET)];
    let run = Run::Prepared(&prepared, &bound);
    client.run(run, &RunOptions::default()).await.unwrap();
    drop(client);
    // What cannot be decoded, and what is no CQL at all.
    let mut body = vec![0, 0, 0xff, 0xff];
    body.extend(SECRET.repeat(3).bytes());
    for bytes in [envelope(4, 1, 0x07, &body), format!("POST {SECRET}").into_bytes()] {
        let socket = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
        let mut stream = connector.connect(socket).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, &bytes)
            .await
            .unwrap();
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut stream).await;
    }
    // Plain text where TLS is spoken.
    let _ = TcpStream::connect(proxy.address)
        .unwrap()
        .write_all(SECRET.as_bytes());
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    (ended.log, fs::read_to_string(key).unwrap())
}

/// A server that is `node`, but for requests with tracing: it refuses them, and quotes them in a text with a
/// forged line.
fn refusing_traces(node: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            std::thread::spawn(move || pass_untraced(client, node));
        }
    });
    address
}

fn pass_untraced(mut client: TcpStream, node: SocketAddr) -> Option<()> {
    let mut server = TcpStream::connect(node).ok()?;
    loop {
        let request = next(&mut client)?;
        let stream = i16::from_be_bytes([request[2], request[3]]);
        let text = match (request[0], request[1] & 0x02) {
            (4, 0) => {
                server.write_all(&request).ok()?;
                client.write_all(&next(&mut server)?).ok()?;
                continue;
            }
            (4, _) => "no 'hunter2'\n2026-01-01T00:00:00Z ERROR forged\x1b[2J\u{202e}",
            _ => "unsupported version",
        };
        let code: u32 = if text.contains(SECRET) { 0x2200 } else { 0x000a };
        let mut body = code.to_be_bytes().to_vec();
        body.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        body.extend(text.as_bytes());
        client.write_all(&envelope(0x84, stream, 0x00, &body)).ok()?;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_of_a_traced_read_is_not_in_the_log() {
    let node = Node::start(Options::default()).await.unwrap();
    let mut direct = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    direct
        .script(
            "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE s.users (name text PRIMARY KEY, word text);",
        )
        .await
        .unwrap();
    let arguments = ["--log", "debug", "--trace-sample", "100"];
    let server = refusing_traces(node.address());
    let mut proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), server, &arguments);
    proxy.wait_for_log("control connection open");
    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    let begun = std::time::Instant::now();
    while !proxy.log().contains("a read could not be traced") {
        assert!(begun.elapsed() < LIMIT, "{}", proxy.log());
        let read = "SELECT word FROM s.users WHERE name = 'hunter2'";
        client.query(read).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    drop(client);
    let log = proxy.stop(LIMIT).log;
    assert_clean("the log", &log);
    assert!(
        !log.contains("forged") && !log.contains('\x1b') && !log.contains('\u{202e}'),
        "{log}"
    );
    assert!(log.contains("the server answered"), "its code is said: {log}");
}

/// The ways in which a log could show it.
fn forms(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // As `Debug` shows bytes.
    let decimal: Vec<_> = bytes.iter().map(ToString::to_string).collect();
    let mut forms = vec![secret.to_owned(), hex.to_uppercase(), hex, decimal.join(", ")];
    // In the middle of something longer, wherever in a group of three it begins; the ends depend on the
    // neighbours.
    let base64 = base64::engine::general_purpose::STANDARD_NO_PAD;
    forms.extend((0..3).map(|before| {
        let padded = [&vec![0; before][..], bytes].concat();
        let whole = padded.len() / 3 * 3;
        let text = base64.encode(&padded[..whole]);
        text[if before == 0 { 0 } else { 4 }..].to_owned()
    }));
    forms
}

fn assert_hidden(log: &str, secret: &str) {
    for form in forms(secret) {
        assert_clean_of(&form, "the log", log);
    }
}

fn assert_key_hidden(log: &str, key: &str) {
    let lines = key.lines().filter(|line| !line.starts_with('-'));
    lines.for_each(|line| assert_clean_of(line, "the log", log));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_key_or_password_is_in_the_log_at_any_level() {
    for level in ["debug", "trace"] {
        let (log, key) = whole_session(&["--log", level]).await;
        assert!(
            log.contains("could not be decoded") && log.contains("DEBUG"),
            "{log}"
        );
        assert_hidden(&log, SECRET);
        assert_hidden(&log, PASSWORD);
        assert_key_hidden(&log, &key);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_out_of_a_file_logs_in_and_is_warned_of_where_others_can_read_it() {
    let node = Node::start(Options::default()).await.unwrap();
    let server = asking_for_passwords(node.address());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    for (mode, is_exposed) in [(0o600, false), (0o604, true)] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let arguments = ["--username", "cqlens", "--password-file", file.to_str().unwrap()];
        let mut proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), server, &arguments);
        proxy.wait_for_log("control connection open");
        let log = proxy.stop(LIMIT).log;
        assert_eq!(
            log.contains("password: other users can read"),
            is_exposed,
            "{log}"
        );
        assert_hidden(&log, PASSWORD);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_shown_at_trace_to_who_asks_and_passwords_never() {
    let (log, _) = whole_session(&["--log", "debug", "--show-values"]).await;
    assert_hidden(&log, SECRET);
    let (log, key) = whole_session(&["--log", "trace", "--show-values"]).await;
    let shown: Vec<_> = log.lines().filter(|line| line.contains("TRACE")).collect();
    for expected in [
        "QUERY INSERT INTO s.users (name, word) VALUES ('hunter2', 'hunter2')",
        // The bound value.
        "[0x68756e74657232]",
        "QUERY (a statement with a password)",
    ] {
        assert!(
            shown.iter().any(|line| line.contains(expected)),
            "{expected} is not in {shown:#?}"
        );
    }
    let others = log
        .lines()
        .filter(|line| !line.contains("TRACE"))
        .collect::<Vec<_>>()
        .join("\n");
    assert_hidden(&others, SECRET);
    assert_hidden(&log, PASSWORD);
    assert_key_hidden(&log, &key);
}

fn assert_clean(what: &str, text: &str) {
    assert_clean_of(SECRET, what, text);
}

fn assert_clean_of(secret: &str, what: &str, text: &str) {
    if let Some(at) = text.find(secret) {
        let shown: String = text[..at]
            .chars()
            .rev()
            .take(80)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        panic!("a secret is in {what}, after {shown:?}");
    }
}
