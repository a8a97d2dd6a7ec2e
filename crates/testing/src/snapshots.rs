//! The snapshots in a folder, as text.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

/// The snapshot files in `folder`; none if it cannot be read.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(".cqlens.json.gz"))
        .collect()
}

/// What a snapshot says; none if it has gone.
pub fn text(file: &Path) -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(File::open(file).ok()?)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}
