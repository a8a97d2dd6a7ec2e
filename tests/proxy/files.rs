//! Files that cannot be read or written: refused at the start, survived later.

use std::{fs, path::Path, process::Command};

use crate::wire::{LIMIT, Node, converse, proxy, query, report};

/// Runs `cqlens proxy` with arguments that it must refuse; what it says.
fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .args(["proxy", "--upstream", "127.0.0.1:1", "--no-control-connection"])
        .env("CQLENS_LISTEN", "127.0.0.1:0")
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_missing_schema_file_is_refused_by_name() {
    let text = refused(&["--schema", "no/such/schema.cql"]);
    assert!(
        text.contains("no/such/schema.cql") && text.contains("No such file"),
        "{text}"
    );
}

#[test]
fn a_malformed_schema_file_is_refused_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(
        folder.path(),
        "schema.cql",
        "CREATE TABLE s.t (k int PRIMARY KEY);\nCREATE TABEL s.u (k int);",
    );
    let text = refused(&["--schema", &file]);
    assert!(text.contains(&file) && text.contains("mistake"), "{text}");
}

#[test]
fn a_snapshot_folder_that_cannot_be_written_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "file", "");
    let text = refused(&["--snapshot-dir", &file]);
    assert!(text.contains(&file), "{text}");
}

#[test]
fn a_report_that_cannot_be_written_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let below_a_file = format!("{}/report.html", written(folder.path(), "file", ""));
    assert!(refused(&["--report", &below_a_file]).contains(&below_a_file));
    assert!(refused(&["--report", "report.pdf"]).contains("must end in .html, .md or .json"));
}

#[test]
fn an_address_that_cannot_be_bound_is_refused() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = refused(&["--listen", &address]);
    assert!(text.contains(&address), "{text}");
}

#[test]
fn a_snapshot_folder_that_goes_away_is_said_once_and_forwarding_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = folder.path().join("snapshots");
    let file = folder.path().join("report.json");
    let (node, received) = Node::answering(b"");
    let proxy = proxy(
        node.address,
        &[
            "--window",
            "50ms",
            "--snapshot-dir",
            snapshots.to_str().unwrap(),
            "--report",
            file.to_str().unwrap(),
        ],
    );
    fs::remove_dir_all(&snapshots).unwrap();
    // A file in its place: the folder cannot come back by itself.
    fs::write(&snapshots, "").unwrap();
    let complaint = |log: &str| log.matches("cannot write a snapshot").count();
    while complaint(&proxy.log()) == 0 {
        assert_eq!(converse(proxy.address, &query(1, "SELECT k FROM s.t")), b"");
        received.recv_timeout(LIMIT).unwrap();
    }
    // Several windows later it is still one line, and the report counts.
    let failures = || {
        let notices = report(&file)["coverage"]["notices"].to_string();
        notices
            .split(|c: char| !c.is_ascii_digit())
            .find_map(|number| number.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let before = failures();
    while failures() < before + 3 {
        assert_eq!(converse(proxy.address, &query(1, "SELECT k FROM s.t")), b"");
        received.recv_timeout(LIMIT).unwrap();
    }
    let ended = proxy.stop(LIMIT);
    assert_eq!((ended.code, complaint(&ended.log)), (0, 1), "{}", ended.log);
}
