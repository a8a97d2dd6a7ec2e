//! What a year of a fleet takes up on the disk.

use std::fs;

use cqlens::sink::{Retention, SnapshotDir};
use cqlens_audit::window::Snapshot;

use crate::fleet;

const PROXIES: u64 = 40;

/// Bytes of the file that a snapshot becomes.
fn bytes(snapshot: &Snapshot) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let dir = SnapshotDir::open(folder.path(), Retention::default()).unwrap();
    fs::metadata(dir.write(snapshot).unwrap()).unwrap().len()
}

fn merged(mut parts: impl Iterator<Item = Snapshot>) -> Snapshot {
    let mut all = parts.next().unwrap();
    parts.for_each(|part| all.append(part));
    all.window.condense();
    all
}

/// The defaults of `--keep-minutes` and `--keep-hours`, in files of a source, and that of `--keep-bytes`.
const MINUTES: u64 = 2 * 24 * 60;
const HOURS: u64 = 28 * 24;
const DAYS: u64 = 365 - 30;
const KEEP_BYTES: u64 = 245_000_000;

/// A source that has more to keep than `--keep-bytes` merges it earlier; what must fit is the year as days, with the day
/// before as hours and the hour before as minutes.
#[test]
#[allow(clippy::print_stdout, reason = "the figures")]
fn a_year_of_forty_proxies_takes_up_less_than_ten_gigabytes() {
    let minute = bytes(&fleet::snapshot("proxy-a", 7, 1));
    let hour = bytes(&merged(
        (0..2).map(|part| fleet::snapshot("proxy-a", part * 30, 30)),
    ));
    let day = bytes(&merged(
        (0..2).map(|part| fleet::snapshot("proxy-a", part * 720, 720)),
    ));
    let by_age = MINUTES * minute + HOURS * hour + DAYS * day;
    let least = 60 * minute + 24 * hour + 365 * day;
    let year = PROXIES * by_age.min(KEEP_BYTES);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "a minute takes up {minute} bytes, an hour {hour}, a day {day}; of a proxy a year as days {:.0} MB, all by age {:.0} MB; \
         of {PROXIES} proxies {:.1} GB",
        megabytes(least),
        megabytes(by_age),
        megabytes(year) / 1e3
    );
    assert!(year < 10_000_000_000, "{year} bytes");
    assert!(least < KEEP_BYTES, "nothing of a year is removed: {least} bytes");
}
