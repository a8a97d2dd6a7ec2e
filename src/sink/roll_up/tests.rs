//! What is merged, and what a crash leaves.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};

use jiff::{SignedDuration, Timestamp};

use super::{
    super::{file::replace_dated, snapshot_file},
    *,
};
use cqlens_window::{Cluster, Snapshot, Window};

const ALL: RollUp = RollUp {
    minutes: Some(Duration::from_secs(2 * 86_400)),
    hours: Some(Duration::from_secs(30 * 86_400)),
    bytes: None,
    limits: Limits {
        patterns: 1_000,
        bytes: 16 << 20,
    },
};

/// A window of `source` with ten requests that began at `start` and was watched for `seconds`.
fn snapshot(source: &str, start: &str, seconds: i64) -> Snapshot {
    let mut window = Window::new(start.parse().unwrap(), source);
    window.close(window.start + SignedDuration::from_secs(seconds));
    window.coverage.requests = 10;
    window.coverage.audited = 10;
    window.count_client(&format!("app-{start}"), 10);
    let cluster = Cluster {
        nodes: Some(3),
        ..Cluster::default()
    };
    let schema = format!("-- {start}");
    Snapshot::new(window, cluster, schema, "key".to_owned())
}

/// A folder with snapshots of some age.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a snapshot as if that were so many days ago.
    fn write(&self, snapshot: &Snapshot, days: u64) -> PathBuf {
        let source = snapshot.window.sources.first().unwrap();
        let path = self.path().join(snapshot_file::file_name(snapshot, source));
        let written = now_in(self.path()).unwrap() - Duration::from_secs(days * 86_400 + 60);
        replace_dated(&path, Some(written), |to| {
            snapshot_file::write(snapshot, &path, to)
        })
        .unwrap();
        path
    }

    /// A window of a minute of `a`, so many minutes after six, three days ago.
    fn minute(&self, minute: i64) -> PathBuf {
        let start: Timestamp = "2026-11-21T06:00:00Z".parse().unwrap();
        let start = start + SignedDuration::from_mins(minute);
        self.write(&snapshot("a", &start.to_string(), 60), 3)
    }

    /// Merges until nothing is left to do.
    fn merge(&self, source: &str) {
        let mut worker = RollUpThread::new(self.path(), ALL);
        (0..20).for_each(|_| worker.step(source));
        assert!(!worker.is_stuck);
    }

    /// The snapshots, in order; what is hidden is no snapshot.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }

    fn read(&self, name: &str) -> Snapshot {
        Snapshot::read(File::open(self.path().join(name)).unwrap()).unwrap()
    }
}

#[test]
fn the_minutes_of_an_old_hour_become_one_file_that_says_the_same() {
    let folder = Folder::new();
    let parts: Vec<_> = (0..120).map(|minute| folder.minute(minute)).collect();
    folder.write(&snapshot("a", "2026-11-23T06:00:00Z", 60), 1);
    folder.write(&snapshot("a", "2026-11-23T06:01:00Z", 60), 1);
    folder.write(&snapshot("b", "2026-11-21T06:00:00Z", 60), 3);
    folder.write(&snapshot("b", "2026-11-21T06:01:00Z", 60), 3);
    let read = |path: &PathBuf| Snapshot::read(File::open(path).unwrap()).unwrap();
    let mut expected = read(&parts[0]);
    parts[1..60].iter().for_each(|part| expected.append(read(part)));
    let latest = fs::metadata(&parts[59]).unwrap().modified().unwrap();
    folder.merge("a");
    assert_eq!(
        folder.names(),
        [
            "20261121T060000000Z-a.cqlens.json.gz",
            "20261121T060000000Z-b.cqlens.json.gz",
            "20261121T060100000Z-b.cqlens.json.gz",
            "20261121T070000000Z-a.cqlens.json.gz",
            "20261123T060000000Z-a.cqlens.json.gz",
            "20261123T060100000Z-a.cqlens.json.gz",
        ]
    );
    let hour = folder.read("20261121T060000000Z-a.cqlens.json.gz");
    assert_eq!(hour, expected);
    assert_eq!((hour.window.coverage.requests, hour.parts.len()), (600, 59));
    assert_eq!(hour.window.observed_seconds, 3_600.0);
    assert_eq!(hour.schema, "-- 2026-11-21T06:59:00Z");
    // It is as old as its last part, so that it becomes part of a day, and goes, when that would.
    assert_eq!(fs::metadata(&parts[0]).unwrap().modified().unwrap(), latest);
}

#[test]
fn hours_become_days_and_so_do_minutes_that_never_were_hours() {
    let folder = Folder::new();
    for hour in 0..24 {
        folder.write(&snapshot("a", &format!("2026-10-01T{hour:02}:00:00Z"), 3_600), 40);
    }
    for minute in 0..60 {
        folder.write(&snapshot("a", &format!("2026-10-02T23:{minute:02}:00Z"), 60), 39);
    }
    folder.write(&snapshot("a", "2026-10-03T00:00:00Z", 3_600), 29);
    folder.merge("a");
    let names = folder.names();
    let requests = |name: &String| folder.read(name).window.coverage.requests;
    assert_eq!(names.iter().map(requests).collect::<Vec<_>>(), [240, 600, 10]);
    assert!(names[1].starts_with("20261002T230000000Z"), "{names:?}");
}

/// The attack: a process that is killed between the rename and the last removal.
#[test]
fn what_a_killed_process_has_left_is_removed_and_not_counted_again() {
    let folder = Folder::new();
    (0..60).for_each(|minute| drop(folder.minute(minute)));
    folder.merge("a");
    let whole = folder.read(&folder.names()[0]);
    (7..60).for_each(|minute| drop(folder.minute(minute)));
    folder.merge("a");
    assert_eq!(folder.names().len(), 1);
    assert_eq!(folder.read(&folder.names()[0]), whole);
    // Together with a window that came late.
    (7..60).for_each(|minute| drop(folder.minute(minute)));
    folder.write(&snapshot("a", "2026-11-21T06:30:30.5Z", 0), 3);
    folder.merge("a");
    let merged = folder.read(&folder.names()[0]);
    assert_eq!((folder.names().len(), merged.parts.len()), (1, 1));
    assert_eq!(merged.window.coverage.requests, 610);
}

#[test]
fn what_cannot_be_one_file_stays_apart_and_is_not_tried_again() {
    let folder = Folder::new();
    folder.minute(0);
    folder.minute(1);
    let mut other_key = snapshot("a", "2026-11-21T06:02:00Z", 60);
    other_key.key_id = "other".to_owned();
    folder.write(&other_key, 3);
    other_key.window.start += SignedDuration::from_mins(1);
    other_key
        .window
        .close(other_key.window.start + SignedDuration::from_mins(1));
    folder.write(&other_key, 3);
    let mut other_cluster = snapshot("a", "2026-11-21T06:04:00Z", 60);
    other_cluster.cluster.name = Some("other".to_owned());
    folder.write(&other_cluster, 3);
    // It shares half a minute with the one before.
    folder.write(&snapshot("a", "2026-11-21T06:04:30Z", 60), 3);
    let damaged = folder.minute(6);
    let written = fs::metadata(&damaged).unwrap().modified().unwrap();
    replace_dated(&damaged, Some(written), |to| to.write_all(b"damaged")).unwrap();
    let mut worker = RollUpThread::new(
        folder.path(),
        RollUp {
            minutes: Some(Duration::ZERO),
            ..ALL
        },
    );
    worker.step("a");
    let left = folder.names();
    assert_eq!(left.len(), 5, "{left:?}");
    let requests = |name: &String| folder.read(name).window.coverage.requests;
    assert_eq!(
        left[..4].iter().map(requests).collect::<Vec<_>>(),
        [20, 20, 10, 10]
    );
    let before = worker.settled.clone();
    assert_eq!(before.values().collect::<Vec<_>>(), [&5]);
    assert!(worker.due("a").unwrap().is_none());
    folder.minute(7);
    assert!(worker.due("a").unwrap().is_some(), "there is something new");
}

/// Two processes of one source, while one takes over from the other: the last window of the first goes on into the
/// next hour.
#[test]
fn a_window_that_overlaps_with_the_hour_before_does_not_take_its_hour_along() {
    let folder = Folder::new();
    folder.write(&snapshot("a", "2026-11-21T05:59:00Z", 90), 3);
    (0..60).for_each(|minute| drop(folder.minute(minute)));
    folder.merge("a");
    let requests = |name: &String| folder.read(name).window.coverage.requests;
    let counts: Vec<_> = folder.names().iter().map(requests).collect();
    assert_eq!(counts, [10, 10, 590]);
}

#[test]
fn where_bytes_are_short_the_oldest_become_hours_and_days_before_their_time() {
    let folder = Folder::new();
    for (day, hour) in [(20, 5), (20, 6), (21, 5), (21, 6)] {
        for minute in 0..3 {
            folder.write(
                &snapshot("a", &format!("2026-11-{day}T{hour:02}:{minute:02}:00Z"), 60),
                0,
            );
        }
    }
    let size = |name: &String| fs::metadata(folder.path().join(name)).unwrap().len();
    let all: u64 = folder.names().iter().map(size).sum();
    let merge = |limit: u64, steps: usize| {
        let mut worker = RollUpThread::new(
            folder.path(),
            RollUp {
                bytes: Some(limit),
                ..ALL
            },
        );
        (0..steps).for_each(|_| worker.step("a"));
        folder.names().len()
    };
    assert_eq!(merge(all * 16 / 15 + 16, 9), 12, "there is room");
    assert_eq!(merge(all, 1), 10, "the oldest hour");
    assert_eq!(merge(1, 2), 6, "every hour that is over");
    assert_eq!(merge(1, 1), 5, "every day that is over");
    assert_eq!(merge(1, 9), 5, "the latest hour is being written");
}

#[test]
fn that_files_are_merged_early_is_noticed() {
    let folder = Folder::new();
    for (hour, minute) in [(5, 0), (5, 1), (6, 0)] {
        folder.write(
            &snapshot("a", &format!("2026-11-20T{hour:02}:{minute:02}:00Z"), 60),
            0,
        );
    }
    let tight = |bytes| {
        let mut worker = RollUpThread::new(
            folder.path(),
            RollUp {
                bytes: Some(bytes),
                ..ALL
            },
        );
        worker.step("a");
        worker.is_tight
    };
    assert!(!tight(1 << 20));
    assert!(tight(1));
}

#[test]
fn one_process_of_a_source_merges_at_a_time() {
    let folder = Folder::new();
    folder.minute(0);
    folder.minute(1);
    let locked = lock(&folder.path().join(".roll-up-a.lock")).unwrap();
    assert!(locked.is_some());
    folder.merge("a");
    assert_eq!(folder.names().len(), 2);
    drop(locked);
    folder.merge("a");
    assert_eq!(folder.names().len(), 1);
}

#[test]
fn a_failure_loses_nothing_and_is_not_repeated_at_every_window() {
    let folder = Folder::new();
    let first = folder.minute(0);
    folder.minute(1);
    let mut worker = RollUpThread::new(folder.path(), ALL);
    worker.folder = folder.path().join("missing");
    worker.step("a");
    assert!(worker.is_stuck);
    worker.folder = folder.path().to_owned();
    (0..PAUSE).for_each(|_| worker.step("a"));
    assert_eq!(folder.names().len(), 2);
    worker.step("a");
    assert!(!worker.is_stuck && folder.names().len() == 1 && first.exists());
}

#[test]
fn nothing_is_merged_where_nobody_asks_for_it() {
    let folder = Folder::new();
    assert!(RollUp::default().begin(folder.path()).is_none());
    (0..3).for_each(|minute| drop(folder.minute(minute)));
    let mut worker = RollUpThread::new(folder.path(), RollUp::default());
    worker.step("a");
    assert_eq!(folder.names().len(), 3);
}
