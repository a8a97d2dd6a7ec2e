//! Files that cannot be read or written: refused at the start, survived later.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use crate::proxy::{
    certificates::{Authority, Issued},
    settings::File,
    wire::{LIMIT, Node, converse, proxy, query, report},
};

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
    let place = format!("{file}:2:8: unexpected token");
    assert!(
        text.contains("nothing in the schema file") && text.contains(&place),
        "{text}"
    );
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
    assert!(
        refused(&["--report", "report.pdf"]).contains("must end in .html, .md, .json, .csv, .tsv or .svg")
    );
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

/// The attack: files that never end or fill the memory. Each is refused at once, by name and with its limit.
#[test]
fn huge_and_endless_files_are_refused_with_their_limits() {
    let folder = tempfile::tempdir().unwrap();
    let huge = folder.path().join("huge");
    // Sparse: no disk is filled.
    fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let (authority, huge) = (authority.file.to_str().unwrap(), huge.to_str().unwrap());
    for (before, setting, limit) in [
        (&[][..], "--config", "1 MiB, the limit for settings"),
        (&[], "--schema", "64 MiB, the limit for a schema"),
        (&[], "--hash-key-file", "1 KiB, the limit for a hash key"),
        (&[], "--upstream-tls-ca", "16 MiB, the limit for certificates"),
        (
            &["--client-tls-cert", authority],
            "--client-tls-key",
            "16 MiB, the limit for certificates",
        ),
    ] {
        for file in ["/dev/zero", huge] {
            let text = refused(&[before, &[setting, file]].concat());
            assert!(text.contains(file) && text.contains(limit), "{setting}: {text}");
        }
    }
}

#[test]
fn a_named_pipe_holds_up_neither_the_start_nor_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for setting in ["--config", "--schema", "--hash-key-file", "--upstream-tls-ca"] {
        let text = refused(&[setting, pipe.to_str().unwrap()]);
        assert!(text.contains("named pipe"), "{setting}: {text}");
    }

    let (node, _received) = Node::answering(b"");
    let file = File::new(&format!(
        "[proxy]\nlisten = '127.0.0.1:0'\nupstream = '{}'\nno-control-connection = true\n",
        node.address
    ));
    let mut proxy = file.proxy();
    fs::rename(&pipe, file.path()).unwrap();
    proxy.signal("HUP");
    proxy.wait_for_log("settings cannot be used");
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn reports_refuse_endless_snapshots_baselines_and_comparisons() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.cqlens.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let huge = folder.path().join("huge.json");
    fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    let said = |arguments: &[&Path]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cqlens"));
        let output = command.arg("report").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&[&pipe]).contains("named pipe"));
    assert!(said(&[folder.path()]).contains("named pipe"));
    for (setting, limit) in [
        ("--baseline", "128 MiB, the limit for a baseline"),
        ("--comparison", "16 MiB, the limit for a comparison"),
    ] {
        let text = said(&[&pipe, Path::new(setting), &huge]);
        assert!(text.contains(limit), "{text}");
    }
}

#[test]
fn keys_that_others_can_read_are_warned_of_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let Issued { certificate, key } = authority.issue("proxy", &["127.0.0.1"]);
    let hash_key = written(folder.path(), "hash.key", "000102030405060708090a0b0c0d0e0f\n");
    let (node, _received) = Node::answering(b"");
    let warnings = |mode| {
        for file in [key.as_path(), hash_key.as_ref()] {
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        }
        let arguments = [
            "--client-tls-cert",
            certificate.to_str().unwrap(),
            "--client-tls-key",
            key.to_str().unwrap(),
            "--hash-key-file",
            &hash_key,
        ];
        let log = proxy(node.address, &arguments).stop(LIMIT).log;
        let warned = |secret: &str| log.matches(&format!("{secret}: other users can read")).count();
        (warned("private key"), warned("hash key"))
    };
    assert_eq!(warnings(0o644), (1, 1));
    assert_eq!(warnings(0o600), (0, 0));
}
