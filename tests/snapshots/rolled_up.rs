//! What a report says of a folder before and after its windows were merged.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use cqlens::sink::{Retention, RollUp, SnapshotDir};
use cqlens_window::Snapshot;
use serde_json::Value;

use crate::snapshots::{fleet, shop::Shop};

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

/// Writes windows, all but the last of which become one file, and gives the reports before and after.
fn rolled_up(windows: &[Snapshot], roll_up: RollUp) -> [Value; 2] {
    let folder = tempfile::tempdir().unwrap();
    let plain = SnapshotDir::open(folder.path(), Retention::default()).unwrap();
    let (last, old) = windows.split_last().unwrap();
    for window in old {
        let path = plain.write(&mut window.clone()).unwrap();
        let written = SystemTime::now() - TWO_DAYS - Duration::from_hours(1);
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(written)
            .unwrap();
    }
    plain.write(&mut last.clone()).unwrap();
    assert_eq!(files(folder.path()), windows.len());
    let before = report(folder.path());

    let retention = Retention {
        roll_up,
        ..Retention::default()
    };
    let merging = SnapshotDir::open(folder.path(), retention).unwrap();
    merging.write(&mut last.clone()).unwrap();
    let deadline = Instant::now() + LIMIT;
    while files(folder.path()) != 2 {
        assert!(Instant::now() < deadline, "{} files", files(folder.path()));
        sleep(Duration::from_millis(20));
    }
    [before, report(folder.path())]
}

/// Both are the same, but for quantiles, which may be off by the error that is stated, and what is drawn of them.
fn assert_same(before: &Value, after: &Value, most: f64, place: &str) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            assert!(before.keys().eq(after.keys()), "{place}: {before:?}, {after:?}");
            for (key, was) in before.iter().filter(|(key, _)| *key != "histogram") {
                let place = format!("{place}.{key}");
                match key
                    .strip_prefix('p')
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
                {
                    true => assert_near(was, &after[key], most, &place),
                    false => assert_same(was, &after[key], most, &place),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            let pairs = before.iter().zip(after);
            pairs.for_each(|(before, after)| assert_same(before, after, most, place));
        }
        _ => assert_eq!(before, after, "{place}"),
    }
}

fn assert_near(before: &Value, after: &Value, most: f64, place: &str) {
    let numbers = |value: &Value| match value {
        Value::Array(all) => all.iter().filter_map(Value::as_f64).collect(),
        one => Vec::from_iter(one.as_f64()),
    };
    for (was, is) in numbers(before).into_iter().zip(numbers(after)) {
        assert!((was - is).abs() <= was * most, "{place}: {was}, {is}");
    }
}

#[test]
fn a_report_says_the_same_of_minutes_and_of_the_hour_that_they_become() {
    let windows = MINUTES.map(|minute| fleet::snapshot("proxy-a", minute, 1));
    let roll_up = RollUp {
        minutes: Some(TWO_DAYS),
        ..RollUp::default()
    };
    let [before, after] = rolled_up(&windows, roll_up);
    assert!(before["patterns"].as_array().unwrap().len() >= 100);
    assert_same(&before, &after, 0.025, "");
}

/// Of traffic that was audited, with operations of several statements.
#[test]
fn a_report_says_the_same_of_minutes_and_of_the_day_that_they_become() {
    let mut shop = Shop::open();
    let mut windows: Vec<_> = (0..4).map(|_| shop.minute()).collect();
    let day = jiff::SignedDuration::from_hours(24);
    let last = &mut windows[3].window;
    last.start += day;
    last.close(last.start + jiff::SignedDuration::from_mins(1));
    let roll_up = RollUp {
        minutes: Some(TWO_DAYS),
        hours: Some(TWO_DAYS),
        ..RollUp::default()
    };
    let [before, after] = rolled_up(&windows, roll_up);
    assert_ne!(before["findings"], serde_json::json!([]));
    assert_same(&before, &after, 0.04, "");
}
