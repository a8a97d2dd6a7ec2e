//! `cqlens export`: tables that other engines merge to what cqlens says, and several snapshots as one.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed"
)]

#[path = "../snapshots/fleet.rs"]
mod fleet;
mod merged;
mod page;
mod snapshot;
mod spark;
mod tables;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

use cqlens_audit::{
    rules::testing::read,
    window::{PatternId, Snapshot},
};
use cqlens_cql::{footprint::PartitionClass, plan::Flag};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

/// Minutes of three proxies on two days, as a sink writes them: DAY/SOURCE/*.cqlens.json.
struct Windows(tempfile::TempDir);

/// Their files. What makes them takes longer than what is tried with them.
static FILES: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let mut files = Vec::new();
    for (day, first) in [("2026-01-01", 0), ("2026-01-02", 24)] {
        for source in ["checkout-1", "checkout-2", "search-1"] {
            for hour in [first + 9, first + 23] {
                let mut snapshot = fleet::snapshot(source, hour * 60, 1);
                search(&mut snapshot);
                let mut bytes = Vec::new();
                snapshot.write(&mut bytes).unwrap();
                files.push((format!("{day}/{source}/{hour:02}.cqlens.json"), bytes));
            }
        }
    }
    files
});

impl Windows {
    fn new() -> Self {
        let windows = Self(tempfile::tempdir().unwrap());
        for (name, bytes) in &*FILES {
            let path = windows.path("snapshots").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        windows
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The folders with snapshots.
    fn folders(&self) -> Vec<PathBuf> {
        let days = fs::read_dir(self.path("snapshots")).unwrap();
        let sources = days.flat_map(|day| fs::read_dir(day.unwrap().path()).unwrap());
        let mut folders: Vec<_> = sources.map(|source| source.unwrap().path()).collect();
        folders.sort();
        folders
    }
}

/// A statement that is a finding.
fn search(snapshot: &mut Snapshot) {
    let cql = "SELECT item_id FROM shop.orders WHERE state = ? ALLOW FILTERING";
    let search = read(cql, &[Flag::AllowFiltering], PartitionClass::Scan, 3_000);
    snapshot.window.coverage.requests += search.count;
    snapshot.window.coverage.audited += search.count;
    snapshot.window.patterns.insert(PatternId(1), search);
}

fn write(snapshot: &Snapshot, path: &Path) {
    snapshot.write(&mut fs::File::create(path).unwrap()).unwrap();
}

fn export(sources: &[PathBuf], arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command
        .arg("export")
        .args(sources)
        .args(arguments)
        .output()
        .unwrap()
}

/// The report of snapshots.
fn report(sources: &[PathBuf]) -> Value {
    let mut command = Command::new(PROGRAM);
    let output = command
        .arg("report")
        .args(sources)
        .args(["--format", "json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Where two values are not the same.
fn differences(place: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) if one.keys().eq(other.keys()) => {
            for (name, value) in one {
                differences(&format!("{place}.{name}"), value, &other[name], found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (number, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{place}.{number}"), one, other, found);
            }
        }
        _ if one != other => found.push(format!("{place}: {one} and {other}")),
        _ => {}
    }
}

/// The error of an export that must fail.
fn refused(sources: &[PathBuf], arguments: &[&str]) -> String {
    let output = export(sources, arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}
