//! A folder of snapshots, one file for each window.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::window::{Snapshot, SnapshotError};

/// A folder that snapshots are written to.
#[derive(Debug)]
pub struct SnapshotDir {
    folder: PathBuf,
}

impl SnapshotDir {
    /// Opens `folder`, creating it where it is missing, and makes sure that files can be written there.
    ///
    /// # Errors
    /// A folder that cannot be created or written.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        tempfile::tempfile_in(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Writes `snapshot` under a name that sorts by time: `20261121T060000Z-<source>.cqlens.json`.
    ///
    /// # Errors
    /// Whatever writing fails with; a half-written file is never left.
    pub fn write(&self, snapshot: &Snapshot) -> Result<PathBuf, SnapshotError> {
        let path = self.folder.join(file_name(snapshot));
        super::replace(&path, |to| {
            snapshot.write(to).map_err(|error| match error {
                SnapshotError::Io(error) => error,
                other => io::Error::other(other),
            })
        })?;
        Ok(path)
    }
}

fn file_name(snapshot: &Snapshot) -> String {
    let start = snapshot
        .window
        .start
        .strftime("%Y%m%dT%H%M%S%.3fZ")
        .to_string()
        .replace('.', "");
    let source = snapshot.window.sources.iter().next().map_or("", String::as_str);
    let source: String = source
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    format!("{start}-{source}.cqlens.json")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::window::{Cluster, Window};

    #[test]
    fn a_snapshot_is_written_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let window = Window::new("2026-11-21T06:00:00Z".parse().unwrap(), "127.0.0.1:9042");
        let snapshot = Snapshot::new(window, Cluster::default(), String::new(), "k".to_owned());
        let path = SnapshotDir::open(&folder.path().join("a/b"))
            .unwrap()
            .write(&snapshot)
            .unwrap();
        assert_eq!(
            path.file_name().unwrap(),
            "20261121T060000000Z-127-0-0-1-9042.cqlens.json"
        );
        assert_eq!(Snapshot::read(fs::File::open(path).unwrap()).unwrap(), snapshot);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(SnapshotDir::open(&file).is_err());
        assert!(SnapshotDir::open(&file.join("below")).is_err());
    }
}
