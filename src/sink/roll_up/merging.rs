//! The files of an hour or a day as one.

use std::{collections::BTreeSet, fs, io, path::Path, time::SystemTime};

use super::{
    super::{
        file::{replace_dated, sync_names},
        snapshot_file::{self, SnapshotFile, stamp},
    },
    Due,
};
use cqlens_window::{Detail, Limits, Observed, Snapshot};

/// Files before the due ones whose time is looked at: a report leaves out what overlaps with them.
const LOOK_BACK: usize = 2;

/// Parts of one merged file; more become a second one, and both one the next time.
const MOST_PARTS: usize = 10_000;

/// Windows that follow each other and become one file.
struct Run<'f> {
    first: &'f SnapshotFile,
    snapshot: Snapshot,
    parts: Vec<&'f SnapshotFile>,
}

/// Merges the files that are due and gives how many are left: one, unless some must stay apart. A damaged file stays
/// as it is, and so does one whose time is in another: a report leaves either out and says so.
///
/// # Errors
/// A file that cannot be written or removed. What was seen is still counted once.
pub(super) fn merge(folder: &Path, due: &Due, limits: Limits) -> io::Result<usize> {
    let group = due.group();
    let mut watched = watched_before(due);
    let (mut left, mut gone) = (0, BTreeSet::new());
    let mut run: Option<Run<'_>> = None;
    for file in group {
        if gone.contains(file.stamp.as_str()) {
            continue;
        }
        left += 1;
        let Ok(mut snapshot) = file.read() else { continue };
        gone.extend(remove_counted(group, &snapshot)?);
        snapshot.parts.clear();
        if watched.overlap(&snapshot.window.observed).is_some() {
            continue;
        }
        watched.merge(&snapshot.window.observed);
        match &mut run {
            Some(run) if run.takes(&snapshot) => {
                run.add(file, snapshot);
                left -= 1;
            }
            _ => {
                let next = Run::new(file, snapshot, limits);
                if let Some(done) = run.replace(next) {
                    done.finish(folder, due.detail)?;
                }
            }
        }
    }
    if let Some(done) = run {
        done.finish(folder, due.detail)?;
    }
    Ok(left)
}

/// When the files before the due ones watched.
fn watched_before(due: &Due) -> Observed {
    let mut watched = Observed::default();
    for file in due.before().iter().rev().take(LOOK_BACK) {
        if let Ok(snapshot) = file.read() {
            watched.merge(&snapshot.window.observed);
        }
    }
    watched
}

/// Removes what a killed process has left: parts of a merged file. Gives their stamps.
fn remove_counted<'f>(group: &'f [SnapshotFile], merged: &Snapshot) -> io::Result<Vec<&'f str>> {
    let parts: BTreeSet<_> = merged.parts.iter().map(|&start| stamp(start)).collect();
    let left: Vec<_> = group.iter().filter(|file| parts.contains(&file.stamp)).collect();
    left.iter().try_for_each(|file| remove(file))?;
    Ok(left.iter().map(|file| file.stamp.as_str()).collect())
}

fn remove(file: &SnapshotFile) -> io::Result<()> {
    match fs::remove_file(&file.path) {
        // It was too old besides.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

impl<'f> Run<'f> {
    fn new(first: &'f SnapshotFile, mut snapshot: Snapshot, limits: Limits) -> Self {
        snapshot.window = snapshot.window.with_limits(limits);
        Self {
            first,
            snapshot,
            parts: Vec::new(),
        }
    }

    fn takes(&self, next: &Snapshot) -> bool {
        self.parts.len() < MOST_PARTS && next.continues(&self.snapshot)
    }

    fn add(&mut self, file: &'f SnapshotFile, next: Snapshot) {
        self.parts.push(file);
        self.snapshot.append(next);
    }

    /// Writes the merged file in place of the first, and removes the others once it is on the disk. It is as old as
    /// the latest of them.
    fn finish(mut self, folder: &Path, detail: Detail) -> io::Result<()> {
        if self.parts.is_empty() {
            return Ok(());
        }
        self.snapshot.window.condense(detail);
        let path = &self.first.path;
        replace_dated(path, Some(self.written()), |to| {
            snapshot_file::write(&self.snapshot, path, to)
        })?;
        sync_names(folder)?;
        self.parts.iter().try_for_each(|part| remove(part))
    }

    fn written(&self) -> SystemTime {
        let parts = self.parts.iter().map(|part| part.written);
        parts.fold(self.first.written, SystemTime::max)
    }
}
