//! Windows of a small fleet as files, and what `cqlens export` and `cqlens report` make of them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

use cqlens_cql::{footprint::PartitionClass, plan::Flag};
use cqlens_rules::testing::read;
use cqlens_testing::everything;
use cqlens_window::{PatternId, Snapshot};
use serde_json::Value;

use super::fleet;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

/// Minutes of three proxies on two days, as a sink writes them: DAY/SOURCE/*.cqlens.json.
pub(crate) struct Windows(tempfile::TempDir);

/// Their files. What makes them takes longer than what is tried with them.
static FILES: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let statements = if everything() { 200 } else { 40 };
    let mut files = Vec::new();
    for (day, first) in [("2026-01-01", 0), ("2026-01-02", 24)] {
        for source in ["checkout-1", "checkout-2", "search-1"] {
            for hour in [first + 9, first + 23] {
                let mut snapshot = fleet::snapshot_of(statements, source, hour * 60, 1);
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
    pub(crate) fn new() -> Self {
        let windows = Self(tempfile::tempdir().unwrap());
        for (name, bytes) in &*FILES {
            let path = windows.path("snapshots").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        windows
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The folders with snapshots.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let days = fs::read_dir(self.path("snapshots")).unwrap();
        let sources = days.flat_map(|day| fs::read_dir(day.unwrap().path()).unwrap());
        let mut folders: Vec<_> = sources.map(|source| source.unwrap().path()).collect();
        folders.sort();
        folders
    }
}

/// A statement that is a finding.
pub(crate) fn search(snapshot: &mut Snapshot) {
    let cql = "SELECT item_id FROM shop.orders WHERE state = ? ALLOW FILTERING";
    let search = read(cql, &[Flag::AllowFiltering], PartitionClass::Scan, 3_000);
    snapshot.window.coverage.requests += search.count;
    snapshot.window.coverage.audited += search.count;
    snapshot.window.patterns.insert(PatternId(1), search);
}

pub(crate) fn write(snapshot: &Snapshot, path: &Path) {
    snapshot.write(&mut fs::File::create(path).unwrap()).unwrap();
}

pub(crate) fn export(sources: &[PathBuf], arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command
        .arg("export")
        .args(sources)
        .args(arguments)
        .output()
        .unwrap()
}

/// The report of snapshots.
pub(crate) fn report(sources: &[PathBuf]) -> Value {
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
pub(crate) fn differences(place: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
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

/// What a report says of its windows taken together, without when it was made. Which partitions of many that are used alike are on the
/// list of the busiest depends on the order of merging, within the error that the list states.
pub(crate) fn said(mut report: Value) -> Value {
    let parts = report.as_object_mut().unwrap();
    for varying in ["generated_at", "timeline"] {
        parts.remove(varying);
    }
    for table in parts["tables"].as_array_mut().unwrap() {
        table.as_object_mut().unwrap().remove("top_partitions");
    }
    report
}
