//! A folder of snapshots, one compressed file for each window, kept for as long and in as many
//! bytes as the operator sets.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError, mpsc::SyncSender},
    time::{Duration, SystemTime},
};

use cqlens_window::{Detail, Snapshot, SnapshotError};

use super::{
    file::now_in,
    roll_up::RollUp,
    snapshot_file::{self, SnapshotFile, file_name, part_of_name},
};

/// Which snapshots of one source are kept; no limit where there is none. The latest one always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Since they were written.
    pub age: Option<Duration>,
    /// Of all files together.
    pub bytes: Option<u64>,
    /// Which of them become one file for an hour or a day.
    pub roll_up: RollUp,
    /// Whether windows are written with all that is known of them, and not with the detail that files have.
    pub in_full: bool,
}

/// A folder that snapshots are written to.
///
/// Sources may share a folder: each removes what is too old or too much of its own, known by name, and
/// nothing else. What a source has left that is gone is the operator's to remove.
#[derive(Debug)]
pub struct SnapshotDir {
    folder: PathBuf,
    retention: Retention,
    log: Mutex<RemovalLog>,
    /// To the thread that rolls up, which begins with the first window: the source of one that was written. None
    /// where there is no such thread.
    written: OnceLock<Option<SyncSender<String>>>,
}

/// What was removed and not logged yet, and what was logged.
#[derive(Debug, Default)]
struct RemovalLog {
    files: u64,
    /// Those of them that were younger than they may be: for want of bytes.
    early: u64,
    bytes: u64,
    /// When removed files were last logged.
    at: Option<SystemTime>,
    /// Whether files cannot be removed, which was logged.
    is_stuck: bool,
}

impl SnapshotDir {
    /// Opens `folder`, creating it where it is missing, and makes sure that files can be written there.
    /// Temporary files that a killed process has left there are removed.
    ///
    /// # Errors
    /// A folder that cannot be created or written.
    pub fn open(folder: &Path, retention: Retention) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        tempfile::tempfile_in(folder)?;
        super::remove_leftovers(folder);
        Ok(Self {
            folder: folder.to_owned(),
            retention,
            log: Mutex::default(),
            written: OnceLock::new(),
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Writes `snapshot`, compressed, under a name that sorts by time:
    /// `20261121T060000000Z-<source>.cqlens.json.gz`; then removes what is too old or
    /// too much of this source. A thread of its own rolls up what is due, and is not waited for. What the file does not
    /// keep is gone from the snapshot: a copy would take as much memory again.
    ///
    /// # Errors
    /// Any error of writing; a half-written file is never left.
    pub fn write(&self, snapshot: &mut Snapshot) -> Result<PathBuf, SnapshotError> {
        if !self.retention.in_full {
            snapshot.window.condense(Detail::Observed);
        }
        let source = snapshot.window.sources.iter().next().map_or("", String::as_str);
        let path = self.folder.join(file_name(snapshot, source));
        let written = super::replace(&path, |to| snapshot_file::write(snapshot, &path, to));
        self.remove_surplus(source);
        written?;
        self.roll_up(source);
        Ok(path)
    }

    fn roll_up(&self, source: &str) {
        let begin = || self.retention.roll_up.begin(&self.folder);
        if let Some(written) = self.written.get_or_init(begin) {
            // If it is still busy, the next window comes in time.
            let _ = written.try_send(source.to_owned());
        }
    }

    /// Removes the snapshots of `source` that are too old or too much, never the latest one.
    pub fn remove_surplus(&self, source: &str) {
        if self.retention.age.is_none() && self.retention.bytes.is_none() {
            return;
        }
        let mut kept = match SnapshotFile::of_source(&part_of_name(source), &self.folder) {
            Ok(kept) => kept,
            Err(error) => return self.failed(&error),
        };
        kept.sort();
        // Files are dated by the clock of the file system, which may be another machine's.
        let latest = kept.last().map_or(SystemTime::UNIX_EPOCH, |kept| kept.written);
        let now = now_in(&self.folder).unwrap_or(latest);
        let surplus = self.retention.surplus(&kept, now);
        for file in &kept[..surplus] {
            match fs::remove_file(&file.path) {
                Ok(()) => self.removed(file, !self.retention.is_too_old(file, now)),
                // Another process has the same source.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return self.failed(&error),
            }
        }
        self.log_removed(now);
    }

    fn log(&self) -> std::sync::MutexGuard<'_, RemovalLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn removed(&self, file: &SnapshotFile, is_early: bool) {
        let mut log = self.log();
        log.files += 1;
        log.early += u64::from(is_early);
        log.bytes += file.bytes;
        log.is_stuck = false;
    }

    fn failed(&self, error: &io::Error) {
        if !std::mem::replace(&mut self.log().is_stuck, true) {
            let folder = self.folder.display();
            tracing::error!("cannot remove old snapshots in {folder} (keep, keep-bytes): {error}");
        }
    }

    fn log_removed(&self, now: SystemTime) {
        let mut log = self.log();
        let is_due = log
            .at
            .is_none_or(|at| now.duration_since(at).is_ok_and(|passed| passed >= LOG_EVERY));
        if log.files > 0 && is_due {
            let RemovalLog {
                files, early, bytes, ..
            } = *log;
            let folder = self.folder.display();
            match early {
                0 => tracing::info!(files, bytes, %folder, "removed old snapshots (keep)"),
                _ => tracing::warn!(
                    files, early, bytes, %folder,
                    "removed old snapshots, some before they were as old as `keep` says: they take up more than `keep-bytes`"
                ),
            }
            *log = RemovalLog {
                at: Some(now),
                ..RemovalLog::default()
            };
        }
    }
}

/// A proxy at its limit removes a file each window.
const LOG_EVERY: Duration = Duration::from_secs(3600);

impl Retention {
    /// How many of these, the oldest ones, are too old or too much.
    fn surplus(self, kept: &[SnapshotFile], now: SystemTime) -> usize {
        let mut bytes: u64 = kept.iter().map(|kept| kept.bytes).sum();
        let but_the_latest = kept.len().saturating_sub(1);
        let surplus = kept[..but_the_latest].iter().take_while(|kept| {
            let is_surplus = self.is_too_old(kept, now) || self.bytes.is_some_and(|limit| bytes > limit);
            bytes -= kept.bytes;
            is_surplus
        });
        surplus.count()
    }

    fn is_too_old(self, file: &SnapshotFile, now: SystemTime) -> bool {
        let age = now.duration_since(file.written).unwrap_or_default();
        self.age.is_some_and(|limit| age > limit)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{super::snapshot_file::stamp_of, *};
    use cqlens_window::{Cluster, Window};

    #[test]
    fn a_snapshot_is_written_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let window = Window::new("2026-11-21T06:00:00Z".parse().unwrap(), "127.0.0.1:9042");
        let mut snapshot = Snapshot::new(window, Cluster::default(), String::new(), "k".to_owned());
        let path = SnapshotDir::open(&folder.path().join("a/b"), Retention::default())
            .unwrap()
            .write(&mut snapshot)
            .unwrap();
        assert_eq!(
            path.file_name().unwrap(),
            "20261121T060000000Z-127-0-0-1-9042.cqlens.json.gz"
        );
        assert_eq!(Snapshot::read(fs::File::open(path).unwrap()).unwrap(), snapshot);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(SnapshotDir::open(&file, Retention::default()).is_err());
        assert!(SnapshotDir::open(&file.join("below"), Retention::default()).is_err());
    }

    fn snapshot(source: &str, start: &str) -> Snapshot {
        let window = Window::new(start.parse().unwrap(), source);
        Snapshot::new(window, Cluster::default(), String::new(), "k".to_owned())
    }

    /// A file of 100 bytes that was written so many days ago.
    fn file(folder: &Path, name: &str, days: u64) {
        let path = folder.join(name);
        fs::write(&path, [b'x'; 100]).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now - Duration::from_secs(days * 86_400))
            .unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn days(days: u64) -> Retention {
        Retention {
            age: Some(Duration::from_secs(days * 86_400)),
            ..Retention::default()
        }
    }

    #[test]
    fn old_snapshots_of_the_same_source_go_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let others = [
            "20260101T060000000Z-a-b.cqlens.json",
            "20260101T060000000Z-b.cqlens.json.gz",
            "20260101-a.cqlens.json",
            "hash.key",
            "x20260101T060000000Z-a.cqlens.json",
        ];
        for name in others {
            file(folder.path(), name, 40);
        }
        file(folder.path(), "20260101T060000000Z-a.cqlens.json", 40);
        file(folder.path(), "20260102T060000000Z-a.cqlens.json.gz", 31);
        file(folder.path(), "20260103T060000000Z-a.cqlens.json.gz", 29);
        let dir = SnapshotDir::open(folder.path(), days(30)).unwrap();
        // Of a capture of long ago: what counts is when it was written.
        dir.write(&mut snapshot("a", "2020-11-21T06:00:00Z")).unwrap();
        let left = names(folder.path());
        assert!(
            others.iter().all(|name| left.contains(&(*name).to_owned())),
            "{left:?}"
        );
        let own: Vec<_> = left.iter().filter(|name| stamp_of("a", name).is_some()).collect();
        assert_eq!(
            own,
            [
                "20201121T060000000Z-a.cqlens.json.gz",
                "20260103T060000000Z-a.cqlens.json.gz"
            ]
        );
    }

    #[test]
    fn the_latest_snapshot_stays_however_old_and_large() {
        let folder = tempfile::tempdir().unwrap();
        file(folder.path(), "20260101T060000000Z-a.cqlens.json", 400);
        file(folder.path(), "20260102T060000000Z-a.cqlens.json", 399);
        let nothing = Retention {
            bytes: Some(0),
            ..days(1)
        };
        SnapshotDir::open(folder.path(), nothing)
            .unwrap()
            .remove_surplus("a");
        assert_eq!(names(folder.path()), ["20260102T060000000Z-a.cqlens.json"]);
    }

    #[test]
    fn as_many_bytes_are_kept_as_were_asked_for_the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        for day in 1..=9 {
            file(
                folder.path(),
                &format!("2026010{day}T060000000Z-a.cqlens.json"),
                10 - day,
            );
        }
        let retention = Retention {
            bytes: Some(350),
            ..Retention::default()
        };
        let dir = SnapshotDir::open(folder.path(), retention).unwrap();
        dir.remove_surplus("a");
        let left = names(folder.path());
        assert_eq!(left.len(), 3, "{left:?}");
        assert!(left[0].starts_with("20260107"), "{left:?}");
        dir.remove_surplus("a");
        assert_eq!(names(folder.path()), left);
    }

    #[test]
    fn without_limits_nothing_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        file(folder.path(), "20260101T060000000Z-a.cqlens.json", 4000);
        let dir = SnapshotDir::open(folder.path(), Retention::default()).unwrap();
        dir.write(&mut snapshot("a", "2026-11-21T06:00:00Z")).unwrap();
        assert_eq!(names(folder.path()).len(), 2);
    }

    #[test]
    fn a_plain_snapshot_is_read_too() {
        let plain = snapshot("a", "2026-11-21T06:00:00Z");
        let mut text = Vec::new();
        plain.write(&mut text).unwrap();
        assert_eq!(Snapshot::read(&text[..]).unwrap(), plain);
    }
}
