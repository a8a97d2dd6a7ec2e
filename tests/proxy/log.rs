//! The log holds up nothing, and what clients and servers chose stays text in it.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
};

use cqlens_rehearse::recording::RecordingReader;
use cqlens_report::text::is_unprintable;
use serde_json::Value;

use crate::proxy::{
    procfs::until,
    ring::{PROGRAM, Rule},
    support::proxy::{Proxy, free_address},
    wire::{LIMIT, Node, connect, envelope, proxy, query, read_to_end, void},
};

/// A node that answers whatever it is sent.
fn node() -> Node {
    Node::start(|mut connection| {
        while let Some([_, _, _, stream, opcode]) = request(&mut connection) {
            let answer = match opcode {
                0x01 => envelope(0x84, i16::from(stream), 0x02, &[]),
                _ => void(i16::from(stream)),
            };
            if connection.write_all(&answer).is_err() {
                return;
            }
        }
    })
}

/// What stands before the length of the next request, whose body is read.
fn request(connection: &mut TcpStream) -> Option<[u8; 5]> {
    let mut header = [0; 9];
    connection.read_exact(&mut header).ok()?;
    let length = u32::from_be_bytes(header[5..].try_into().unwrap());
    let mut body = vec![0; length.try_into().unwrap()];
    connection.read_exact(&mut body).ok()?;
    header[..5].try_into().ok()
}

/// A program that is `cqlens` with a pipe that is not read as its standard output and standard error.
fn with_unread_output(folder: &Path) -> (PathBuf, PathBuf) {
    let (pipe, script) = (folder.join("pipe"), folder.join("cqlens"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Opened for both, so that it waits for no reader and has one, which does not read.
    let text = format!(
        "#!/bin/sh\nexec 1<>'{}' 2>&1\nexec '{}' \"$@\"\n",
        pipe.display(),
        env!("CARGO_BIN_EXE_cqlens")
    );
    fs::write(&script, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).unwrap();
    (script, pipe)
}

/// More lines than the pipe and the queue have room for.
fn flood(address: SocketAddr) {
    for _ in 0..5_000 {
        drop(connect(address));
    }
}

/// Clients that were accepted are still coming to their lines.
fn until_lines_are_dropped(admin: &str) {
    until("lines are dropped", || {
        let mut status = connect(admin.parse().unwrap());
        status
            .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let status = String::from_utf8(read_to_end(&mut status)).unwrap();
        let (_, dropped) = status
            .split_once("\"log_lines_dropped\":")
            .expect("they are counted");
        !dropped.starts_with('0')
    });
}

/// A hundred requests, one after the other, each with its answer.
fn ask(client: &mut TcpStream) {
    client.set_read_timeout(Some(LIMIT)).unwrap();
    for _ in 0..100 {
        client.write_all(&query(7, "SELECT * FROM k.t")).unwrap();
        let mut answer = vec![0; void(7).len()];
        client.read_exact(&mut answer).expect("an answer comes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_trouble_logs_no_warning() {
    let folder = tempfile::tempdir().unwrap();
    let below = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let node = cqlens_node::Node::start(cqlens_node::Options::default())
        .await
        .unwrap();
    let (report, snapshots, key) = (below("report.html"), below("snapshots"), below("hash.key"));
    let (admin, rule) = (free_address().to_string(), Rule::new().text());
    let upstream = node.address().to_string();
    let arguments = [
        // Otherwise clients could go past the proxy, which is a warning.
        ["--topology", "cluster"],
        ["--upstream", &upstream],
        ["--listen", &rule],
        ["--report", &report],
        ["--snapshot-dir", &snapshots],
        ["--hash-key-file", &key],
        ["--admin", &admin],
        // How many descriptors there are is the machine's business.
        ["--max-connections", "100"],
    ];
    let mut proxy = Proxy::launch(PROGRAM, &arguments.concat(), &[], None);
    proxy.wait_for_log("control connection open");
    let mut client = cqlens_client::Client::connect(proxy.address, &cqlens_client::ClientOptions::default())
        .await
        .unwrap();
    client.query("SELECT * FROM system.local").await.unwrap();
    drop(client);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    let is_worry = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    assert_eq!(ended.log.lines().find(is_worry), None, "{}", ended.log);
}

#[test]
fn a_standard_error_that_is_not_read_holds_up_neither_clients_nor_the_end() {
    let (folder, node) = (tempfile::tempdir().unwrap(), node());
    let (program, _pipe) = with_unread_output(folder.path());
    let admin = free_address().to_string();
    let arguments = ["--no-control-connection", "--log", "debug", "--admin", &admin];
    let proxy = Proxy::start(program.to_str().unwrap(), node.address, &arguments);
    let mut client = connect(proxy.address);
    flood(proxy.address);
    ask(&mut client);
    until_lines_are_dropped(&admin);
    drop(client);
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn lines_that_were_dropped_are_counted_when_the_log_is_read_again() {
    let (folder, node) = (tempfile::tempdir().unwrap(), node());
    let (program, pipe) = with_unread_output(folder.path());
    let admin = free_address().to_string();
    let arguments = ["--no-control-connection", "--log", "debug", "--admin", &admin];
    let proxy = Proxy::start(program.to_str().unwrap(), node.address, &arguments);
    let mut client = connect(proxy.address);
    flood(proxy.address);
    ask(&mut client);
    until_lines_are_dropped(&admin);
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let pipe = BufReader::new(fs::File::open(pipe).unwrap());
        // The test ends when it has read enough.
        let _ = pipe
            .lines()
            .try_for_each(|line| sender.send(line.unwrap()).map_err(drop));
    });
    let said = loop {
        let line = lines.recv_timeout(LIMIT).expect("the log tells what was dropped");
        if line.contains("log lines were dropped") {
            break line;
        }
    };
    let dropped: u32 = said.rsplit_once("lines=").unwrap().1.parse().unwrap();
    assert!(dropped > 0, "{said}");
    assert!(said.contains("WARN") && said.starts_with("20"), "{said}");
    assert_eq!(proxy.stop(LIMIT).code, 0);
    assert!(
        std::iter::from_fn(|| lines.recv_timeout(LIMIT).ok()).any(|line| line.contains("stopped")),
        "the last lines are written"
    );
}

/// A forged line, a cleared screen, a title, reversed writing, invisible letters, a row of a table, code and
/// a script.
const HOSTILE: &str = "x\n2026-01-01T00:00:00Z ERROR forged \x1b[2J\x1b]0;t\x07\u{9b}31m\u{202e}\u{2066}\u{200b}\u{2028}\u{61c}\r| a ` b <script>alert(1)</script>";

fn assert_printable(what: &str, text: &str) {
    let letters = text.chars().enumerate();
    let mut others = letters.filter(|(_, letter)| is_unprintable(*letter) && !matches!(letter, '\n' | '\t'));
    assert_eq!(others.next(), None, "{what}");
}

fn strings(texts: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    for text in texts {
        body.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        body.extend(text.as_bytes());
    }
    body
}

#[test]
fn hostile_names_and_errors_stay_text_in_log_reports_and_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = folder.path().join("snapshots");
    let node = Node::start(|mut connection| {
        while let Some([version, _, _, stream, opcode]) = request(&mut connection) {
            let refused = [&0x2200_u32.to_be_bytes()[..], &strings(&[HOSTILE])].concat();
            let stream = i16::from(stream);
            let answer = match (version, opcode) {
                (0x04, 0x01) => envelope(0x84, stream, 0x02, &[]),
                (0x04, 0x07) if stream == 7 => void(stream),
                (version, _) => envelope(version | 0x80, stream, 0x00, &refused),
            };
            if connection.write_all(&answer).is_err() {
                return;
            }
        }
    });
    // With a control connection, to which the node answers the same.
    let arguments = ["--log", "debug", "--snapshot-dir", snapshots.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address, &arguments);
    let mut client = connect(proxy.address);
    let names = [
        "CQL_VERSION",
        "3.0.0",
        "APPLICATION_NAME",
        HOSTILE,
        "DRIVER_NAME",
        HOSTILE,
    ];
    let startup = [&[0, 3][..], &strings(&names)].concat();
    let quoted = HOSTILE.replace('"', "\"\"");
    let cql = format!("SELECT \"{quoted}\" FROM \"{quoted}\".\"{quoted}\" WHERE k = 1 ALLOW FILTERING");
    for request in [
        envelope(4, 1, 0x01, &startup),
        query(7, &cql),
        query(8, &cql),
        query(7, HOSTILE),
    ] {
        client.write_all(&request).unwrap();
        let mut header = [0; 9];
        client.read_exact(&mut header).unwrap();
        let length = u32::from_be_bytes(header[5..].try_into().unwrap());
        client
            .read_exact(&mut vec![0; length.try_into().unwrap()])
            .unwrap();
    }
    drop(client);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert_printable("the log", &ended.log);
    assert!(
        ended
            .log
            .lines()
            .all(|line| line.starts_with("20") && !line.contains("Z ERROR forged"))
    );

    for format in ["html", "md", "json"] {
        let report = Command::new(env!("CARGO_BIN_EXE_cqlens"))
            .args(["report", "--format", format, snapshots.to_str().unwrap()])
            .output()
            .unwrap();
        assert!(report.status.success());
        let text = String::from_utf8(report.stdout).unwrap();
        let escaped = if format == "json" { r"\u202e" } else { r"\u{202e}" };
        assert!(text.contains(escaped), "the names are there, escaped");
        assert_printable(format, &text);
        assert!(format != "html" || !text.contains("<script"), "{format}");
        let cells = |row: &str| row.replace("\\|", "").matches('|').count();
        for rows in text
            .split("\n\n")
            .filter(|part| format == "md" && part.starts_with('|'))
        {
            let widths: Vec<_> = rows.lines().map(cells).collect();
            assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{rows}");
        }
    }
    let script = folder.path().join("hostile.cql");
    fs::write(&script, format!("{cql};\nSELEKT {HOSTILE}")).unwrap();
    let explained = Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .arg("explain")
        .arg(&script)
        .output()
        .unwrap();
    assert_printable("explain", &String::from_utf8(explained.stdout).unwrap());
    assert_printable("errors of explain", &String::from_utf8(explained.stderr).unwrap());
}

#[test]
fn a_start_that_needs_no_worry_logs_no_warning_and_one_that_keeps_nothing_names_what_would() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.html");
    let warnings = |arguments: &[&str]| -> Vec<String> {
        let node = node();
        // As many as any machine that runs tests has descriptors for.
        let arguments = [&["--max-connections", "100"], arguments].concat();
        let log = proxy(node.address, &arguments).stop(LIMIT).log;
        let lines = log.lines().filter(|line| line.contains("WARN"));
        lines.map(str::to_owned).collect()
    };
    let kept = ["--report", report.to_str().unwrap()];
    assert_eq!(warnings(&kept), Vec::<String>::new());
    assert_eq!(
        warnings(&["--snapshot-dir", folder.path().to_str().unwrap()]),
        Vec::<String>::new()
    );
    let said = warnings(&[]);
    assert_eq!(said.len(), 1, "{said:?}");
    for flag in ["--report", "--snapshot-dir", "--admin"] {
        assert!(said[0].contains(flag), "{said:?}");
    }
}

/// The lines of a log in JSON.
fn json_lines(log: &str) -> Vec<Value> {
    let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    log.lines().map(read).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_in_json_has_its_target_and_connections_are_those_of_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording");
    let node = cqlens_node::Node::start(cqlens_node::Options::default())
        .await
        .unwrap();
    let arguments = [
        ["--log-format", "json"],
        ["--log", "warn,cqlens_proxy=debug,cqlens_proxy::listener=off"],
        ["--record", recording.to_str().unwrap()],
    ];
    let proxy = Proxy::start(PROGRAM, node.address(), &arguments.concat());
    for _ in 0..3 {
        let options = cqlens_client::ClientOptions::default();
        let mut client = cqlens_client::Client::connect(proxy.address, &options)
            .await
            .unwrap();
        client.query("CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").await.unwrap();
    }
    // Text of a client's choice: not TLS, not CQL.
    connect(proxy.address)
        .write_all(b"GET /\x1b[2J HTTP/1.1\r\n\r\n")
        .unwrap();
    let ended = proxy.stop(LIMIT);
    assert_printable("the log", &ended.log);
    let lines = json_lines(&ended.log);
    for line in &lines {
        assert!(
            line["target"].as_str().unwrap().starts_with("cqlens_proxy") || line["level"] != "DEBUG",
            "{line}"
        );
        assert!(
            line["message"].is_string() && line["timestamp"].is_string(),
            "{line}"
        );
    }
    let of_lines: BTreeSet<_> = lines
        .iter()
        .filter(|line| line["message"] == "connection closed")
        .map(|line| line["fields"]["connection"].as_u64().unwrap())
        .collect();
    let recorded: BTreeSet<_> = RecordingReader::open(&recording)
        .unwrap_or_else(|error| panic!("{error}, exit code {}\n{}", ended.code, ended.log))
        .by_ref()
        .map(|exchange| exchange.connection)
        .collect();
    assert_eq!(recorded.len(), 3, "{recorded:?}");
    assert!(recorded.is_subset(&of_lines), "{recorded:?}, {of_lines:?}");
}

#[test]
fn an_error_that_ends_the_program_is_json_too() {
    let arguments = ["proxy", "--log-format", "json", "--upstream", "127.0.0.1:9"];
    let ended = Command::new(PROGRAM)
        .args(arguments)
        .args(["--schema", "no\nsuch.cql"])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let lines = json_lines(&String::from_utf8(ended.stderr).unwrap());
    let last = lines.last().unwrap();
    assert_eq!(last["level"], "ERROR");
    assert!(
        last["message"].as_str().unwrap().contains(r"no\nsuch.cql"),
        "{last}"
    );
}
