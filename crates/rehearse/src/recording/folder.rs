//! The files of a recording: their names, who may read them, and how long they are kept.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;

/// How the files of a recording end.
pub const ENDING: &str = ".cqlens.recording.gz";

/// The folder in that of a recording with the windows of the audit, which reports are made from.
pub const SNAPSHOTS: &str = "snapshots";

/// How large and how old files and recordings become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of one file, compressed; then another one is begun.
    pub file_bytes: u64,
    /// Of one file, in the time of its exchanges.
    pub file_age: Duration,
    /// Of all files of a source together: the oldest go. No limit where there is none.
    pub bytes: Option<u64>,
    /// Since a file was written to.
    pub age: Option<Duration>,
}

impl Limits {
    /// Two files fit in all.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes.min(self.bytes.unwrap_or(u64::MAX) / 2)
    }
}

/// Whether this is a folder with files of a recording, or one of them.
pub fn is_recording(path: &Path) -> bool {
    is_named(path) || files(path).is_ok_and(|files| !files.is_empty())
}

/// The files of a recording in the order of their names, which is that of their times.
pub(super) fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if is_named(&path) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn is_named(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(ENDING) && !name.starts_with('.'))
}

/// Opens a file of a recording for reading. A folder that was passed on may have a named pipe in it: to open one would
/// wait for a writer, perhaps forever.
pub(super) fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        )),
    }
}

/// Makes the folder, for its owner alone. One that is there already stays as it is.
///
/// # Errors
/// A folder that cannot be made.
pub fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Creates a file for its owner alone, named after the source and a time: `20261121T060000000Z-<source>`.
pub(super) fn create(folder: &Path, source: &str, at: Timestamp) -> io::Result<File> {
    let mut at = at;
    loop {
        let stamp = at.strftime("%Y%m%dT%H%M%S%.3fZ").to_string().replace('.', "");
        let path = folder.join(format!("{stamp}-{}{ENDING}", part_of_name(source)));
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                at = at
                    .checked_add(Duration::from_millis(1))
                    .map_err(|_| io::ErrorKind::AlreadyExists)?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// A source as it stands in names of files.
fn part_of_name(source: &str) -> String {
    let characters = source.chars().take(180);
    characters
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect()
}

/// Removes the oldest files of a source, so that `coming` bytes more fit, and those that are too old; how many.
/// Of other sources in the same folder none goes.
pub(super) fn remove_surplus(
    folder: &Path,
    source: &str,
    limits: &Limits,
    coming: u64,
    now: SystemTime,
) -> io::Result<u64> {
    let part = part_of_name(source);
    let mut kept = Vec::new();
    for path in files(folder)? {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let of_source = name.strip_suffix(ENDING).and_then(|stem| stem.split_once('-'));
        // It may have gone meanwhile.
        if let (Some((_, rest)), Ok(metadata)) = (of_source, fs::metadata(&path))
            && rest == part
        {
            kept.push((path, metadata.len(), metadata.modified()?));
        }
    }
    let mut bytes = kept.iter().map(|(_, bytes, _)| bytes).sum::<u64>() + coming;
    let mut removed = 0;
    for (path, of_file, written) in kept {
        let is_too_old = limits
            .age
            .is_some_and(|age| now.duration_since(written).is_ok_and(|passed| passed > age));
        if !is_too_old && limits.bytes.is_none_or(|limit| bytes <= limit) {
            break;
        }
        match fs::remove_file(&path) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        bytes -= of_file;
    }
    Ok(removed)
}
