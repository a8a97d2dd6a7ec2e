//! Small windows become large ones as they age: those of an hour one file, and later those of a day.
//!
//! Merging windows is associative, so a report of the merged file equals that of its parts, but for what a report says
//! of single windows. The merged file replaces the first of its parts and names the others ([`Snapshot::parts`]); only
//! once it is on the disk they are removed. A process that is killed in between leaves parts that everyone who reads the
//! folder in order knows to be counted already, and the next process removes them first.
//!
//! A thread of its own does it, one hour or day after each window that was written, so that it never holds up the next
//! one. It keeps one merged window and one part in memory, whatever there is in the folder.
//!
//! [`Snapshot::parts`]: cqlens_window::Snapshot::parts

mod merging;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::mpsc::{self, SyncSender},
    thread,
    time::{Duration, SystemTime},
};

use cqlens_window::{Detail, Limits};

use super::{
    file::{lock, now_in},
    snapshot_file::{SnapshotFile, part_of_name},
};

/// When small windows become large ones; never where there is no age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RollUp {
    /// Windows that were written longer ago become one file for each hour, in UTC.
    pub minutes: Option<Duration>,
    /// Files that were written longer ago become one for each day.
    pub hours: Option<Duration>,
    /// From 15/16 of so many bytes on, the oldest files are merged whatever their age: what would be removed
    /// for want of room is worth more as an hour or a day.
    pub bytes: Option<u64>,
    /// How much a merged window holds.
    pub limits: Limits,
}

/// What the thread works with.
struct RollUpThread {
    folder: PathBuf,
    roll_up: RollUp,
    /// How many files were left of hours and days that cannot be one file: of two clusters, with hashes of two keys,
    /// with time in common.
    settled: BTreeMap<String, usize>,
    /// Windows to wait after a failure.
    pause: u32,
    /// Whether the last attempt failed, which was logged.
    is_stuck: bool,
    /// Whether files are merged early, which was logged.
    is_tight: bool,
}

/// How much of a stamp, `20261121T060000000Z`, files of one day and of one hour have in common.
const DAY: usize = 8;
const HOUR: usize = 11;

/// After a failure, so many windows pass before the next attempt: it reads an hour of files.
const PAUSE: u32 = 60;

impl RollUp {
    /// Begins the thread that rolls up in `folder`; it ends with the sender, to which the source of a window that was
    /// written is given. None where nothing is to be rolled up.
    pub(super) fn begin(self, folder: &Path) -> Option<SyncSender<String>> {
        if self.minutes.is_none() && self.hours.is_none() {
            return None;
        }
        let (written, sources) = mpsc::sync_channel::<String>(1);
        let mut worker = RollUpThread::new(folder, self);
        let thread = thread::Builder::new().name("roll-up".to_owned());
        let begun = thread.spawn(move || sources.iter().for_each(|source| worker.step(&source)));
        match begun {
            Ok(_) => Some(written),
            Err(error) => {
                tracing::error!(
                    "no thread to merge old snapshots (keep-minutes, keep-hours): {error}; they stay as they are"
                );
                None
            }
        }
    }
}

impl RollUpThread {
    fn new(folder: &Path, roll_up: RollUp) -> Self {
        Self {
            folder: folder.to_owned(),
            roll_up,
            settled: BTreeMap::new(),
            pause: 0,
            is_stuck: false,
            is_tight: false,
        }
    }

    /// Merges the files of one hour or day of `source`, where some are due. A failure is logged once, and costs nothing:
    /// every window stays in exactly one file, or in one and in its part that is known to be counted.
    fn step(&mut self, source: &str) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        match self.merge_due(&part_of_name(source)) {
            Ok(()) => self.is_stuck = false,
            Err(error) => {
                self.pause = PAUSE;
                if !std::mem::replace(&mut self.is_stuck, true) {
                    let folder = self.folder.display();
                    tracing::error!(
                        "cannot merge old snapshots in {folder} (keep-minutes, keep-hours), they stay as they are: {error}"
                    );
                }
            }
        }
    }

    fn merge_due(&mut self, source: &str) -> io::Result<()> {
        if self.due(source)?.is_none() {
            return Ok(());
        }
        // Another process of that source, which takes over from this one, must not merge the same files.
        let Some(_lock) = lock(&self.folder.join(format!(".roll-up-{source}.lock")))? else {
            return Ok(());
        };
        // What it did in the meantime is done.
        let Some(due) = self.due(source)? else {
            return Ok(());
        };
        self.tell_early(&due);
        let left = merging::merge(&self.folder, &due, self.roll_up.limits)?;
        tracing::debug!(files = due.group().len(), left, period = %due.period, "merged old snapshots");
        if left > 1 {
            self.settled.insert(due.period, left);
        }
        Ok(())
    }

    /// Logs once that files are merged for want of bytes.
    fn tell_early(&mut self, due: &Due) {
        if due.is_early && !std::mem::replace(&mut self.is_tight, true) {
            let folder = self.folder.display();
            tracing::warn!(
                "snapshots in {folder} nearly fill `keep-bytes`: the oldest are merged into hours and days earlier than \
                 `keep-minutes` and `keep-hours` say"
            );
        }
    }

    /// The next hour or day of which there are several files, all of them old enough, or early for want of bytes.
    fn due(&self, source: &str) -> io::Result<Option<Due>> {
        let mut files = SnapshotFile::of_source(source, &self.folder)?;
        files.sort_by(|one, other| (&one.stamp, &one.path).cmp(&(&other.stamp, &other.path)));
        let now = now_in(&self.folder)?;
        let (minutes, hours) = (self.roll_up.minutes, self.roll_up.hours);
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let is_tight = self.roll_up.bytes.is_some_and(|limit| bytes > limit / 16 * 15);
        let of_age = |digits, age: Option<Duration>| {
            age.and_then(|age| self.first(source, &files, digits, |range| is_old(&files[range], age, now)))
        };
        // The latest hour and day are not over yet.
        let of_any_age = |digits, age: Option<Duration>| {
            let is_over = |range: Range<usize>| range.end < files.len();
            age.filter(|_| is_tight)
                .and_then(|_| self.first(source, &files, digits, is_over))
        };
        let become_one = |detail, is_early| move |found| (detail, is_early, found);
        let due = of_age(DAY, hours)
            .map(become_one(Detail::Day, false))
            .or_else(|| of_age(HOUR, minutes).map(become_one(Detail::Hour, false)))
            .or_else(|| of_any_age(HOUR, minutes).map(become_one(Detail::Hour, true)))
            .or_else(|| of_any_age(DAY, hours).map(become_one(Detail::Day, true)));
        Ok(due.map(|(detail, is_early, (period, range))| Due {
            period,
            detail,
            is_early,
            files,
            range,
        }))
    }

    /// The first period with several files that may become fewer, and where they are.
    fn first(
        &self,
        source: &str,
        files: &[SnapshotFile],
        digits: usize,
        is_due: impl Fn(Range<usize>) -> bool,
    ) -> Option<(String, Range<usize>)> {
        let period = |range: &Range<usize>| format!("{source} {}", &files[range.start].stamp[..digits]);
        let several = periods(files, digits).filter(|range| range.len() > 1);
        let mut named = several.map(|range| (period(&range), range));
        named.find(|(period, range)| self.settled.get(period) != Some(&range.len()) && is_due(range.clone()))
    }
}

/// Merges those of a source's files that are in `range`; all of them are in the order of their windows. Some stay apart where
/// they cannot be one.
///
/// # Errors
/// A file that cannot be written or removed. What was seen is still counted once.
#[cfg(feature = "fleet")]
pub(super) fn merge_files(
    folder: &Path,
    files: Vec<SnapshotFile>,
    range: Range<usize>,
    detail: Detail,
    limits: Limits,
) -> io::Result<()> {
    let due = Due {
        period: String::new(),
        detail,
        is_early: false,
        files,
        range,
    };
    merging::merge(folder, &due, limits).map(drop)
}

/// Files of one source in the order of their windows, and those of them that are to become one.
struct Due {
    /// The source, and the hour or the day.
    period: String,
    /// How much detail the one has.
    detail: Detail,
    /// For want of bytes.
    is_early: bool,
    files: Vec<SnapshotFile>,
    range: Range<usize>,
}

impl Due {
    fn group(&self) -> &[SnapshotFile] {
        &self.files[self.range.clone()]
    }

    /// The files before them.
    fn before(&self) -> &[SnapshotFile] {
        &self.files[..self.range.start]
    }
}

/// The places of files that have so much of their stamps in common.
fn periods(files: &[SnapshotFile], digits: usize) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    let groups = files.chunk_by(move |one, next| one.stamp[..digits] == next.stamp[..digits]);
    groups.map(move |group| {
        let start = end;
        end += group.len();
        start..end
    })
}

fn is_old(files: &[SnapshotFile], age: Duration, now: SystemTime) -> bool {
    files
        .iter()
        .all(|file| now.duration_since(file.written).is_ok_and(|passed| passed > age))
}
