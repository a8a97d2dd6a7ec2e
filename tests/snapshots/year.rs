//! What a year of a fleet takes up on the disk.

use std::fs;

use cqlens::sink::{Retention, SnapshotDir};
use cqlens_testing::with_everything;
use cqlens_window::{Detail, Snapshot};

use crate::snapshots::{fleet, shop::Shop};

const PROXIES: u64 = 40;

/// The defaults of `--keep-minutes`, `--keep-hours` and `--keep`, in files of a source: an hour is merged once all of it is
/// a day old, and a day once all of it is 14 days old.
const MINUTES: u64 = 25 * 60;
const HOURS: u64 = 15 * 24 - 25;
const DAYS: u64 = 400 - 14;

/// Of the default of `--keep-bytes`, what there is before files are merged early.
const BYTES: u64 = 245_000_000 / 16 * 15;

/// What the files of a source are large.
struct Sizes {
    minute: u64,
    hour: u64,
    day: u64,
}

impl Sizes {
    fn by_age(&self) -> u64 {
        MINUTES * self.minute + HOURS * self.hour + DAYS * self.day
    }

    #[allow(clippy::print_stdout, reason = "the figures")]
    fn print(&self, name: &str) {
        let Self { minute, hour, day } = self;
        println!(
            "{name}: a minute takes up {minute} bytes, an hour {hour}, a day {day}; 400 days of a proxy {:.0} MB",
            self.by_age() as f64 / 1e6
        );
    }
}

/// Bytes of the file that a window becomes.
fn observed(snapshot: &Snapshot) -> u64 {
    bytes(snapshot, Retention::default())
}

/// The same of merged windows, which have no more detail than their file.
fn bytes_of_merged(snapshot: &Snapshot) -> u64 {
    let in_full = Retention {
        in_full: true,
        ..Retention::default()
    };
    bytes(snapshot, in_full)
}

fn bytes(snapshot: &Snapshot, retention: Retention) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let dir = SnapshotDir::open(folder.path(), retention).unwrap();
    fs::metadata(dir.write(&mut snapshot.clone()).unwrap())
        .unwrap()
        .len()
}

fn merged(parts: &[Snapshot], detail: Detail) -> Snapshot {
    let mut all = parts[0].clone();
    parts[1..].iter().for_each(|part| all.append(part.clone()));
    all.window.condense(detail);
    all.parts.clear();
    all
}

/// As if as much had passed many times more: counts are larger, and there are no other values.
fn again(snapshot: &Snapshot, doublings: usize) -> Snapshot {
    let mut all = snapshot.clone();
    for _ in 0..doublings {
        let same = all.window.clone();
        all.window.merge(&same);
    }
    all
}

/// By age alone: nothing is merged early or removed for want of bytes. An hour and a day are made of a few minutes, with the
/// counts that they would have.
#[test]
fn a_year_of_forty_proxies_takes_up_less_than_ten_gigabytes() {
    if !with_everything("what a year of a fleet takes up on the disk") {
        return;
    }
    let mut shop = Shop::open();
    let minutes: Vec<_> = (0..5).map(|_| shop.minute()).collect();
    let hours: Vec<_> = (2..)
        .zip(&minutes)
        .map(|(twice, part)| again(part, twice))
        .collect();
    let hour = merged(&hours, Detail::Hour);
    let days: Vec<_> = (2..5).map(|twice| again(&hour, twice)).collect();
    let sizes = Sizes {
        minute: observed(&minutes[4]),
        hour: bytes_of_merged(&hour),
        day: bytes_of_merged(&merged(&days, Detail::Day)),
    };
    sizes.print("60 statements on 25 tables");
    let requests = |snapshot: &Snapshot| snapshot.window.coverage.requests;
    assert!(requests(&hour) > 60 * requests(&minutes[4]));
    assert!(sizes.by_age() < BYTES, "{} bytes", sizes.by_age());
    assert!(PROXIES * sizes.by_age() < 10_000_000_000);
}

/// A proxy that sees much more has fewer minutes and hours (see `docs/snapshots.md`), and all days.
#[test]
fn the_days_of_a_year_fit_however_busy_a_proxy_is() {
    if !with_everything("what the days of busy proxies take up on the disk") {
        return;
    }
    let hours: Vec<_> = (0..2)
        .map(|part| fleet::snapshot("proxy-a", part * 30, 30))
        .collect();
    let days: Vec<_> = (0..2)
        .map(|part| fleet::snapshot("proxy-a", part * 720, 720))
        .collect();
    let sizes = Sizes {
        minute: observed(&fleet::snapshot("proxy-a", 7, 1)),
        hour: bytes_of_merged(&merged(&hours, Detail::Hour)),
        day: bytes_of_merged(&merged(&days, Detail::Day)),
    };
    sizes.print("200 statements on 60 tables");
    let least = 60 * sizes.minute + 24 * sizes.hour + DAYS * sizes.day;
    assert!(least < BYTES, "{least} bytes");
}
