//! Windows of several proxies in one store, and the report that is made of them. Stores of clouds are in
//! `tests/external/stores.rs`.

mod cluster;
mod endless_store;
mod hostile;

use std::{fs, process::Command};

use cqlens_testing::proxy::free_address;

use crate::proxy::wire;
use cluster::{Cluster, PROGRAM, comparable, json, report, text};

#[test]
fn the_report_of_the_store_is_that_of_the_snapshots() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let [store, spool, snapshots] = ["store", "spool", "snapshots"].map(|name| folder.path().join(name));
    let key = folder.path().join("hash.key");
    fs::create_dir(&store).unwrap();
    let arguments = [
        "--sink",
        text(&store),
        "--sink-spool",
        text(&spool),
        "--snapshot-dir",
        text(&snapshots),
        "--hash-key-file",
        text(&key),
    ];
    cluster.watch("proxy-a", 20, &arguments, &[]);
    cluster.watch("proxy-b", 30, &arguments, &[]);
    let from_store = json(&report(&["--from", text(&store), "--since", "1d"], &[]));
    assert_eq!(
        from_store["coverage"]["requests"],
        json(&report(&[text(&snapshots)], &[]))["coverage"]["requests"]
    );
    // What is in the store was merged, which rounds the quantiles of distributions: so is the other.
    let copied = folder.path().join("copied");
    fs::create_dir(&copied).unwrap();
    for day in fs::read_dir(&store).unwrap().map(Result::unwrap) {
        for source in fs::read_dir(day.path()).unwrap().map(Result::unwrap) {
            for file in fs::read_dir(source.path()).unwrap().map(Result::unwrap) {
                fs::copy(file.path(), copied.join(file.file_name())).unwrap();
            }
        }
    }
    assert_eq!(fs::read_dir(&copied).unwrap().count(), 2, "one for each proxy");
    assert_eq!(
        comparable(from_store),
        comparable(json(&report(&[text(&copied)], &[])))
    );

    let other = report(
        &["--from", text(&store), "--since", "1d", "--cluster", "another"],
        &[],
    );
    assert_eq!(other.status.code(), Some(2));
    let before = report(
        &[
            "--from",
            text(&store),
            "--since",
            "2020-01-01",
            "--until",
            "2020-01-02",
        ],
        &[],
    );
    assert!(String::from_utf8_lossy(&before.stderr).contains("has no snapshot of that span of time"));
}

#[test]
fn a_proxy_does_not_wait_for_a_sink_that_is_not_there() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let nowhere = format!("cassandra://{}/cqlens", free_address());
    let arguments = [
        "--sink",
        &nowhere,
        "--sink-spool",
        text(&spool),
        "--sink-every",
        "1s",
    ];
    let log = cluster.watch("proxy-a", 20, &arguments, &[]);
    assert!(
        log.contains("sink: snapshots cannot be written and wait in"),
        "{log}"
    );
    assert!(log.contains("the others wait for the next start"), "{log}");
    // The next process writes what this one has left.
    let store = folder.path().join("store");
    fs::create_dir(&store).unwrap();
    let arguments = ["--sink", text(&store), "--sink-spool", text(&spool)];
    cluster.watch("proxy-b", 1, &arguments, &[]);
    let whole = json(&report(&["--from", text(&store), "--since", "1d"], &[]));
    let sources = whole["window"]["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 2, "{sources:?}");
    let left = fs::read_dir(&spool)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left
        .filter(|name| name.to_string_lossy().ends_with(".gz"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn damaged_objects_are_left_out_and_named() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let [store, spool] = ["store", "spool"].map(|name| folder.path().join(name));
    fs::create_dir(&store).unwrap();
    cluster.watch(
        "proxy-a",
        5,
        &["--sink", text(&store), "--sink-spool", text(&spool)],
        &[],
    );
    let day = fs::read_dir(&store).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read_dir(day.join("proxy-a"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let cut = fs::read(whole.path()).unwrap();
    let name = whole
        .file_name()
        .into_string()
        .unwrap()
        .replace("proxy-a", "proxy-b");
    fs::create_dir(day.join("proxy-b")).unwrap();
    fs::write(day.join("proxy-b").join(&name), &cut[..cut.len() / 2]).unwrap();
    fs::write(day.join("proxy-b").join("README"), "not a window").unwrap();
    let from = ["--from", text(&store), "--since", "1d"];
    let found = json(&report(&from, &[]));
    let notices = found["coverage"]["notices"].to_string();
    assert!(
        notices.contains(&format!("1 snapshot is damaged and left out: {name}")),
        "{notices}"
    );
    let strict = report(&[&from[..], &["--strict"]].concat(), &[]);
    assert_eq!(strict.status.code(), Some(2));
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    for (arguments, told) in [
        (
            ["proxy", "--sink", "http://bucket"],
            "expected a folder, or a URL",
        ),
        (
            ["proxy", "--sink", "cassandra://me:secret@db1/cqlens"],
            "do not belong in the URL",
        ),
        (["report", "--from", "s3://reviews"], "--since"),
    ] {
        let mut command = Command::new(PROGRAM);
        command.args(arguments);
        if arguments[0] == "proxy" {
            command.args(["--upstream", "127.0.0.1:9"]);
        }
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(told), "{error}");
    }
}
