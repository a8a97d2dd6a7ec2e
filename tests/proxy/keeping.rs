//! What stays on the disk and in memory, for how long and for whom: snapshots, the key of hashes, the process
//! itself.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::proxy::{
    settings::PROGRAM,
    support::{cache, process::Supervised, proxy::Proxy, snapshots},
    wire::{LIMIT, Node, proxy},
};

fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A file that was written so many days ago.
fn old(folder: &Path, name: &str, days: u64) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, "old").unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    let now = file.metadata().unwrap().modified().unwrap();
    file.set_modified(now - Duration::from_secs(days * 86_400))
        .unwrap();
    path
}

/// The attack is time: a proxy that writes a window every few milliseconds.
#[test]
fn snapshots_never_take_up_more_than_keep_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _received) = Node::answering(b"");
    let arguments = ["--window", "5ms", "--name", "a", "--keep-bytes", "20kB"];
    let path = folder.path().to_str().unwrap();
    let proxy = proxy(
        node.address,
        &[&arguments[..], &["--snapshot-dir", path]].concat(),
    );
    until("snapshots are removed", || {
        proxy.log().contains("removed old snapshots")
    });
    let oldest = || snapshots::files(folder.path()).into_iter().min().unwrap();
    let first = oldest();
    until("the oldest is removed", || oldest() > first);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    let files = snapshots::files(folder.path());
    let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(files.len() > 1 && bytes <= 20_000, "{bytes} bytes, {files:?}");
    // Once an hour, however many there are.
    assert_eq!(
        ended.log.matches("removed old snapshots").count(),
        1,
        "{}",
        ended.log
    );
}

#[test]
fn at_the_start_only_what_is_old_and_of_this_source_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _received) = Node::answering(b"");
    let gone = old(folder.path(), "20260101T000000000Z-a.cqlens.json", 401);
    let left = old(folder.path(), ".cqlens-killed", 1);
    let stay = [
        old(folder.path(), "20260102T000000000Z-a.cqlens.json.gz", 399),
        old(folder.path(), "20260101T000000000Z-b.cqlens.json", 401),
        old(folder.path(), "notes.json", 31),
    ];
    let path = folder.path().to_str().unwrap();
    let proxy = proxy(
        node.address,
        &["--name", "a", "--window", "1h", "--snapshot-dir", path],
    );
    until("the old one is removed", || !gone.exists());
    assert!(!left.exists(), "what a killed process has left");
    assert!(stay.iter().all(|path| path.exists()));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

/// Starts a proxy that writes snapshots, with these directories for state; its log.
fn log_with_state(snapshot_dir: &Path, state: &[(&str, &Path)]) -> String {
    let (node, _received) = Node::answering(b"");
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--no-control-connection",
        "--upstream",
        &node.address.to_string(),
        "--snapshot-dir",
        snapshot_dir.to_str().unwrap(),
    ];
    let environment: Vec<_> = state
        .iter()
        .map(|(name, path)| ((*name).to_owned(), path.to_str().unwrap().to_owned()))
        .collect();
    let proxy = Proxy::launch(PROGRAM, &arguments, &environment, None);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    ended.log
}

#[test]
fn the_hash_key_is_in_the_state_directory_and_hashes_stay_comparable() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, state) = (folder.path().join("snapshots"), folder.path().join("state"));
    let key_ids = || {
        let texts = snapshots::files(&dir)
            .into_iter()
            .filter_map(|file| snapshots::text(&file));
        let id = |text: String| {
            let snapshot: serde_json::Value = serde_json::from_str(&text).unwrap();
            snapshot["key_id"].as_str().unwrap().to_owned()
        };
        texts.map(id).collect::<Vec<_>>()
    };
    for service in ["STATE_DIRECTORY", "STATE_DIRECTORY"] {
        let log = log_with_state(&dir, &[(service, &state)]);
        assert!(!log.contains("hash key"), "{log}");
    }
    let key = fs::read_to_string(state.join("hash.key")).unwrap();
    assert!(!dir.join("hash.key").exists());
    // As an earlier version left it: the same key, and how to move it.
    fs::rename(state.join("hash.key"), dir.join("hash.key")).unwrap();
    let log = log_with_state(&dir, &[("STATE_DIRECTORY", &state)]);
    assert!(log.contains("is in the same folder as the snapshots"), "{log}");
    assert!(log.contains(state.join("hash.key").to_str().unwrap()), "{log}");
    assert_eq!(fs::read_to_string(dir.join("hash.key")).unwrap(), key);
    let ids = key_ids();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn without_a_place_for_the_hash_key_snapshots_are_written_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("file");
    fs::write(&state, "").unwrap();
    let log = log_with_state(&folder.path().join("snapshots"), &[("STATE_DIRECTORY", &state)]);
    assert!(log.contains("cannot be compared by partition"), "{log}");
    assert!(log.contains("hash-key-file"), "{log}");
}

/// What is in memory are requests, keys and passwords.
#[test]
fn the_process_is_not_dumpable_and_leaves_no_core() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("cqlens");
    fs::copy(PROGRAM, &program).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Vec::new();
    // The files of root's processes are root's anyway.
    if rustix::process::geteuid().is_root() {
        command.extend(["setpriv", "--reuid=65534", "--clear-groups"]);
    }
    let arguments = "proxy --no-control-connection --upstream 127.0.0.1:1 --listen 127.0.0.1:0";
    command.push(program.to_str().unwrap());
    command.extend(arguments.split(' '));
    let command: Vec<_> = command.into_iter().map(str::to_owned).collect();
    let process = Supervised::spawn(&command, &[], &cache::log_file("not-dumpable"), None);
    until("it listens", || process.log().contains("forwarding"));
    let file = |name: &str| PathBuf::from(format!("/proc/{}/{name}", process.id()));
    // Of a process that can be dumped they are its user's (proc(5)).
    let environment = fs::metadata(file("environ")).unwrap();
    assert_eq!(environment.uid(), 0);
    let limits = fs::read_to_string(file("limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}
