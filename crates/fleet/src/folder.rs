//! A folder as a store: `FOLDER/2026-11-21/SOURCE/20261121T060000000Z-SOURCE.cqlens.json.gz`.
//!
//! Others may write to it. What is no window, or not where its name belongs, is passed over: only names that a window can have are followed, one
//! folder deep, so that a loop of links leads nowhere.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use jiff::civil::Date;

use super::{MOST_BYTES, MOST_NAMES, StoreError, WindowName, left_out::Notes};

/// A folder.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    notes: Notes,
}

impl Folder {
    pub(super) fn new(root: PathBuf, notes: Notes) -> Self {
        Self { root, notes }
    }

    fn day(&self, day: Date) -> PathBuf {
        self.root.join(day.to_string())
    }

    pub(super) async fn sources(&self, day: Date) -> Result<Vec<String>, StoreError> {
        let (folder, notes) = (self.day(day), self.notes.clone());
        in_thread(move || {
            let mut sources = Vec::new();
            for name in names_in(&folder)? {
                let is_folder = fs::metadata(folder.join(&name)).map(|found| found.is_dir());
                match name.to_str() {
                    Some(source) if WindowName::is_source(source) => match is_folder {
                        Ok(true) => sources.push(source.to_owned()),
                        Ok(false) => {}
                        Err(_) => notes.add(source),
                    },
                    _ if is_folder.unwrap_or(true) => notes.add(&name.to_string_lossy()),
                    _ => {}
                }
            }
            sources.sort();
            Ok(sources)
        })
        .await
    }

    pub(super) async fn names(&self, day: Date, source: &str) -> Result<Vec<WindowName>, StoreError> {
        let (folder, notes) = (self.day(day).join(source), self.notes.clone());
        let source = source.to_owned();
        in_thread(move || {
            let mut names = Vec::new();
            for name in names_in(&folder)? {
                let name = name.to_string_lossy();
                names.extend(WindowName::of_folder(&name, day, &source, &notes));
            }
            names.sort();
            Ok(names)
        })
        .await
    }

    /// None if it has gone since it was listed, or is no file that can be read.
    pub(super) async fn get(&self, name: &WindowName) -> Result<Option<Bytes>, StoreError> {
        let path = self.day(name.day()).join(name.source()).join(name.to_string());
        let (notes, shown) = (self.notes.clone(), name.to_string());
        in_thread(move || match read(&path, MOST_BYTES) {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => {
                Ok(None)
            }
            Ok(None) | Err(_) => {
                notes.add(&shown);
                Ok(None)
            }
        })
        .await
    }
}

/// Away from the runtime, since a file system may take its time.
async fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panicked| Err(io::Error::other(panicked).into()))
}

/// The names in a folder; none if there is no folder.
fn names_in(folder: &Path) -> Result<Vec<std::ffi::OsString>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        if names.len() == MOST_NAMES {
            return Err(StoreError::TooMany);
        }
        names.push(entry?.file_name());
    }
    Ok(names)
}

/// What is in a regular file; nothing if it is another or has more than `limit` bytes.
fn read(path: &Path, limit: usize) -> io::Result<Option<Bytes>> {
    // Before it is opened: a pipe would wait.
    let found = fs::metadata(path)?;
    if !found.is_file() || found.len() > limit as u64 {
        return Ok(None);
    }
    read_up_to(File::open(path)?, limit)
}

/// Whatever a file system says of the size: at most one byte more than the limit is read.
fn read_up_to(file: impl Read, limit: usize) -> io::Result<Option<Bytes>> {
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= limit).then(|| bytes.into()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    struct Endless<'c>(&'c mut usize);

    impl Read for Endless<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            *self.0 += to.len();
            Ok(to.len())
        }
    }

    #[test]
    fn a_file_that_grows_while_it_is_read_is_read_up_to_one_byte_beyond_the_limit() {
        let mut read = 0;
        assert_eq!(read_up_to(Endless(&mut read), 100).unwrap(), None);
        assert_eq!(read, 101);
        assert_eq!(read_up_to(&[1; 100][..], 100).unwrap().unwrap().len(), 100);
        assert_eq!(read_up_to(&[1; 101][..], 100).unwrap(), None);
    }

    #[test]
    fn of_a_file_that_is_too_large_no_byte_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(5 << 30).unwrap();
        assert_eq!(read(&path, MOST_BYTES).unwrap(), None);
        file.set_len(7).unwrap();
        assert_eq!(read(&path, 7).unwrap().unwrap(), vec![0; 7]);
        assert_eq!(read(folder.path(), 7).unwrap(), None);
    }
}
