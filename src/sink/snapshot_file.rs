//! One file of a folder of snapshots: what its name tells, and how it is written and read.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::file::replace;
use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;

use cqlens_window::{Snapshot, SnapshotError};

/// How snapshot files end: plain ones, which earlier versions wrote, and compressed ones.
pub const SNAPSHOT_ENDINGS: [&str; 2] = [".cqlens.json", ".cqlens.json.gz"];

/// The snapshots in a folder, those that are being written left out; their names, and so they, sort by time and source.
///
/// # Errors
/// A folder that cannot be read.
pub fn snapshots_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let is_snapshot = SNAPSHOT_ENDINGS.iter().any(|ending| name.ends_with(ending));
        if is_snapshot && !name.starts_with('.') {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// A snapshot of one source; they sort by age.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SnapshotFile {
    pub(super) written: SystemTime,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// When its window began, as its name has it: `20261121T060000000Z`.
    pub(super) stamp: String,
}

impl SnapshotFile {
    /// Those of the source that has `part` in its names, in no order.
    pub(super) fn of_source(part: &str, folder: &Path) -> io::Result<Vec<Self>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(stamp) = name.to_str().and_then(|name| stamp_of(part, name)) else {
                continue;
            };
            // It may have gone meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_file() {
                files.push(Self {
                    written: metadata.modified()?,
                    path: entry.path(),
                    bytes: metadata.len(),
                    stamp: stamp.to_owned(),
                });
            }
        }
        Ok(files)
    }

    pub(super) fn read(&self) -> Result<Snapshot, SnapshotError> {
        Snapshot::read(File::open(&self.path)?)
    }
}

/// Writes a snapshot as a whole to the file at `path`, which it replaces.
///
/// # Errors
/// A file that cannot be written.
pub fn write_snapshot(snapshot: &Snapshot, path: &Path) -> io::Result<()> {
    replace(path, |to| write(snapshot, path, to))
}

/// Writes a snapshot into a file that ends as this one: compressed, but where the name says that it is plain.
pub(super) fn write(snapshot: &Snapshot, path: &Path, to: &mut dyn Write) -> io::Result<()> {
    let is_plain = path.to_string_lossy().ends_with(SNAPSHOT_ENDINGS[0]);
    match is_plain {
        true => snapshot.write(to).map_err(failed),
        false => compress(snapshot, to),
    }
}

/// Writes a snapshot, compressed with gzip.
///
/// # Errors
/// Whatever `to` fails with, and a snapshot that is too large to be read.
pub fn compress(snapshot: &Snapshot, to: &mut dyn Write) -> io::Result<()> {
    let mut compressed = BufWriter::new(GzEncoder::new(to, Compression::best()));
    snapshot.write(&mut compressed).map_err(failed)?;
    compressed.into_inner()?.finish()?;
    Ok(())
}

fn failed(error: SnapshotError) -> io::Error {
    match error {
        SnapshotError::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// `20261121T060000000Z-<source>.cqlens.json.gz`.
pub(super) fn file_name(snapshot: &Snapshot, source: &str) -> String {
    let stamp = stamp(snapshot.window.start);
    format!("{stamp}-{}{}", part_of_name(source), SNAPSHOT_ENDINGS[1])
}

/// The beginning of a window as it stands in names of files.
pub(super) fn stamp(start: Timestamp) -> String {
    let stamp = start.strftime("%Y%m%dT%H%M%S%.3fZ").to_string();
    stamp.replace('.', "")
}

/// A source as it stands in names of files, which hold 255 bytes.
pub(crate) fn part_of_name(source: &str) -> String {
    let characters = source.chars().take(200);
    characters
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect()
}

/// The sources of which there are compressed snapshots in `folder`, as they stand in names.
///
/// # Errors
/// A folder that cannot be read.
#[cfg(feature = "fleet")]
pub(super) fn sources_in(folder: &Path) -> io::Result<std::collections::BTreeSet<String>> {
    let paths = snapshots_in(folder)?;
    let sources = paths.iter().filter_map(|path| {
        let name: cqlens_fleet::WindowName = path.file_name()?.to_str()?.parse().ok()?;
        Some(name.source().to_owned())
    });
    Ok(sources.collect())
}

/// When the window began, if a file of this name is a snapshot of that source: `20261121T060000000Z-<source>` and an
/// ending.
pub(super) fn stamp_of<'n>(source: &str, name: &'n str) -> Option<&'n str> {
    let mut endings = SNAPSHOT_ENDINGS.iter();
    let stem = endings.find_map(|ending| name.strip_suffix(ending))?;
    let (stamp, rest) = stem.split_once('-')?;
    let form: String = stamp
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    (form == "00000000T000000000Z" && rest == source).then_some(stamp)
}
