//! What a report says of a folder before and after its windows were merged.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use cqlens::sink::{Retention, RollUp, SnapshotDir};
use serde_json::Value;

use crate::fleet;

const LIMIT: Duration = Duration::from_secs(120);
const TWO_DAYS: Duration = Duration::from_hours(48);

/// Minutes after midnight at which windows begin: three of an hour, and one of the next.
const MINUTES: [i64; 4] = [0, 1, 2, 60];

/// The report of a folder, without what differs by design: when it was made, the timeline, and which partitions and
/// rows were kept as examples.
fn report(folder: &Path) -> Value {
    let path = folder.join("report.json");
    let made = Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .args(["report", "--log", "error", "-o"])
        .arg(&path)
        .arg(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut report: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    fs::remove_file(path).unwrap();
    let sections = report.as_object_mut().unwrap();
    for section in ["generated_at", "timeline"] {
        sections.remove(section);
    }
    for table in sections["tables"].as_array_mut().unwrap() {
        let table = table.as_object_mut().unwrap();
        let examples: Vec<_> = table
            .keys()
            .filter(|key| key.contains("top_partitions"))
            .cloned()
            .collect();
        for key in examples {
            table.remove(&key);
        }
    }
    report
}

fn files(folder: &Path) -> usize {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".json.gz"))
        .count()
}

#[test]
fn a_report_says_the_same_of_minutes_and_of_the_hour_that_they_become() {
    let folder = tempfile::tempdir().unwrap();
    let plain = SnapshotDir::open(folder.path(), Retention::default()).unwrap();
    let windows = MINUTES.map(|minute| fleet::snapshot("proxy-a", minute, 1));
    for window in &windows[..3] {
        let path = plain.write(window).unwrap();
        let written = SystemTime::now() - TWO_DAYS - Duration::from_hours(1);
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(written)
            .unwrap();
    }
    plain.write(&windows[3]).unwrap();
    assert_eq!(files(folder.path()), 4);
    let before = report(folder.path());

    let roll_up = RollUp {
        minutes: Some(TWO_DAYS),
        ..RollUp::default()
    };
    let retention = Retention {
        roll_up,
        ..Retention::default()
    };
    let merging = SnapshotDir::open(folder.path(), retention).unwrap();
    merging.write(&windows[3]).unwrap();
    let deadline = Instant::now() + LIMIT;
    while files(folder.path()) != 2 {
        assert!(Instant::now() < deadline, "{} files", files(folder.path()));
        sleep(Duration::from_millis(20));
    }
    let after = report(folder.path());
    assert!(before["patterns"].as_array().unwrap().len() >= 100);
    let sections = before.as_object().unwrap();
    for (section, said) in sections {
        assert_eq!(said, &after[section], "{section}");
    }
    assert_eq!(sections.len(), after.as_object().unwrap().len());
}
