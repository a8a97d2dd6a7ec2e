#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use cqlens_fleet::Address;
use cqlens_window::{Cluster, Window};
use jiff::{SignedDuration, Timestamp};

use super::*;

const LIMIT: Duration = Duration::from_secs(30);
const DAY: &str = "2026-11-21";

/// A spool beside a store that can be made to fail.
struct Setup {
    folder: tempfile::TempDir,
    fails: Arc<AtomicBool>,
}

impl Setup {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            fails: Arc::default(),
        }
    }

    fn spool_folder(&self) -> PathBuf {
        self.folder.path().join("spool")
    }

    fn store_folder(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }

    fn settings(&self, bytes: u64) -> SpoolSettings {
        SpoolSettings {
            folder: self.spool_folder(),
            bytes,
            every: Duration::from_secs(3_600),
            window: Duration::from_secs(60),
            limits: Limits::default(),
        }
    }

    fn open(&self, bytes: u64) -> Spool {
        let fails = Arc::clone(&self.fails);
        let folder = self.store_folder();
        fs::create_dir_all(&folder).unwrap();
        let open = move || {
            anyhow::ensure!(!fails.load(Ordering::Relaxed), "no store");
            let Address::Objects(url) = folder.to_str().unwrap().parse()? else {
                panic!("a folder");
            };
            Ok(Store::objects(&url, std::iter::empty())?)
        };
        Spool::open(self.settings(bytes), Box::new(open)).unwrap()
    }

    /// What the store has of a source, by time.
    fn stored(&self, source: &str) -> Vec<Snapshot> {
        let folder = self.store_folder().join(DAY).join(source);
        let mut paths = paths_in(&folder);
        paths.sort();
        paths.iter().map(|path| read(path)).collect()
    }

    fn waiting(&self) -> Vec<PathBuf> {
        let mut paths = paths_in(&self.spool_folder());
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "gz"));
        paths
    }
}

fn paths_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn read(path: &Path) -> Snapshot {
    Snapshot::read(File::open(path).unwrap()).unwrap()
}

/// A minute of ten requests.
fn minute(source: &str, time: &str) -> Snapshot {
    let mut window = Window::new(format!("{DAY}T{time}:00Z").parse().unwrap(), source);
    window.close(window.start + SignedDuration::from_secs(60));
    window.coverage.requests = 10;
    window.coverage.audited = 10;
    Snapshot::new(window, Cluster::default(), String::new(), "key".to_owned())
}

/// Waits until it holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn requests(snapshots: &[Snapshot]) -> Vec<u64> {
    snapshots
        .iter()
        .map(|snapshot| snapshot.window.coverage.requests)
        .collect()
}

#[test]
fn the_minutes_of_an_hour_arrive_as_one_file_and_leave_nothing_behind() {
    let setup = Setup::new();
    setup.fail(true);
    let spool = setup.open(1 << 20);
    for time in ["06:00", "06:01", "06:59", "07:00"] {
        spool.add(&mut minute("proxy-a", time)).unwrap();
    }
    until("a failure is counted", || spool.figures().failures > 0);
    setup.fail(false);
    spool.flush(LIMIT);
    assert_eq!(requests(&setup.stored("proxy-a")), [30, 10]);
    assert_eq!(setup.waiting(), Vec::<PathBuf>::new());
    let figures = spool.figures();
    assert_eq!((figures.waiting, figures.written, figures.lost), (0, 2, 0));
}

#[test]
fn an_hour_that_goes_on_waits_and_one_that_is_over_does_not() {
    let setup = Setup::new();
    let spool = setup.open(1 << 20);
    let now = Timestamp::now();
    let mut window = Window::new(now, "proxy-a");
    window.close(now);
    let mut of_now = Snapshot::new(window, Cluster::default(), String::new(), "key".to_owned());
    spool.add(&mut minute("proxy-a", "06:00")).unwrap();
    spool.add(&mut of_now).unwrap();
    until("the earlier hour is written", || {
        setup.stored("proxy-a").len() == 1
    });
    until("the hour of now waits", || spool.figures().waiting == 1);
    assert_eq!(setup.waiting().len(), 1);
}

#[test]
fn what_a_process_leaves_the_next_one_writes() {
    let setup = Setup::new();
    setup.fail(true);
    let spool = setup.open(1 << 20);
    spool.add(&mut minute("proxy-a", "06:00")).unwrap();
    spool.flush(LIMIT);
    assert_eq!(spool.figures().waiting, 1);
    drop(spool);
    setup.fail(false);
    let next = setup.open(1 << 20);
    next.add(&mut minute("proxy-b", "06:00")).unwrap();
    next.flush(LIMIT);
    // The first thread lets its files go a moment after it was told to.
    until("both are written", || {
        next.flush(LIMIT);
        setup.waiting().is_empty()
    });
    assert_eq!(requests(&setup.stored("proxy-a")), [10]);
    assert_eq!(requests(&setup.stored("proxy-b")), [10]);
}

#[test]
fn files_of_a_source_that_another_process_has_are_left_to_it() {
    let setup = Setup::new();
    let (answer, answers) = mpsc::channel::<()>();
    let (asked, asks) = mpsc::channel();
    let first = Spool::open(
        setup.settings(1 << 20),
        Box::new(move || {
            let _ = asked.send(());
            let _ = answers.recv();
            anyhow::bail!("no store")
        }),
    )
    .unwrap();
    first.add(&mut minute("proxy-a", "06:00")).unwrap();
    asks.recv_timeout(LIMIT).unwrap();
    // While the first one waits for its store: one source that it has, and one that is new to it.
    first.add(&mut minute("proxy-b", "06:00")).unwrap();
    let second = Spool::open(setup.settings(0), Box::new(|| anyhow::bail!("nothing to write"))).unwrap();
    second.flush(LIMIT);
    assert_eq!(second.figures(), SinkFigures::default());
    assert_eq!(setup.waiting().len(), 2);
    drop(answer);
    first.flush(LIMIT);
    assert_eq!(first.figures().waiting, 2);
}

#[test]
fn beyond_the_limit_the_oldest_are_lost_and_counted() {
    let setup = Setup::new();
    setup.fail(true);
    let one = {
        let spool = setup.open(u64::MAX);
        spool.add(&mut minute("proxy-a", "05:00")).unwrap();
        until("its size is known", || spool.figures().waiting == 1);
        spool.figures().waiting_bytes
    };
    let spool = setup.open(one * 3 + one / 2);
    until("the first one has let go", || {
        spool.flush(LIMIT);
        spool.figures().waiting == 1
    });
    for hour in ["06:00", "07:00", "08:00", "09:00"] {
        spool.add(&mut minute("proxy-a", hour)).unwrap();
    }
    until("two are lost", || spool.figures().lost == 2);
    setup.fail(false);
    spool.flush(LIMIT);
    let stored = setup.stored("proxy-a");
    let starts: Vec<_> = stored
        .iter()
        .map(|snapshot| snapshot.window.start.to_string())
        .collect();
    assert_eq!(starts, [7, 8, 9].map(|hour| format!("{DAY}T0{hour}:00:00Z")));
    assert_eq!(spool.figures().written, 3);
}

#[test]
fn a_file_that_is_written_again_is_the_same_file() {
    let setup = Setup::new();
    let spool = setup.open(1 << 20);
    spool.add(&mut minute("proxy-a", "06:00")).unwrap();
    spool.flush(LIMIT);
    // As if the process had been killed between the writing and the removing.
    let path = paths_in(&setup.store_folder().join(DAY).join("proxy-a")).remove(0);
    fs::copy(&path, setup.spool_folder().join(path.file_name().unwrap())).unwrap();
    spool.flush(LIMIT);
    assert_eq!(spool.figures().written, 2);
    assert_eq!(requests(&setup.stored("proxy-a")), [10]);
}
