//! Files that are read whole: settings, schemas, certificates, keys. None of them may
//! fill the memory or never end.
//!
//! Snapshots and captures are read in pieces, by `cqlens_window` and `cqlens_sniff`.

use std::{
    fs::{self, File},
    io::{self, BufRead, Read},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

/// How large a file of one kind may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    kind: &'static str,
    bytes: u64,
}

impl Limit {
    /// Certificates and keys; the authorities of a whole system take up about 250 KiB.
    pub(crate) const PEM: Self = Self::new("certificates and keys", 16 << 20);

    /// A limit of so many `bytes`, and the `kind` of file that errors name.
    pub const fn new(kind: &'static str, bytes: u64) -> Self {
        Self { kind, bytes }
    }

    /// Appends the next line to `line`; false at the end of the input.
    ///
    /// # Errors
    /// An input that cannot be read, a line that is larger than this.
    pub fn read_line(self, input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
        let read = input.take(self.bytes + 1).read_until(b'\n', line)?;
        if read as u64 > self.bytes {
            return Err(self.exceeded());
        }
        Ok(read > 0)
    }

    fn exceeded(self) -> io::Error {
        let size = match self.bytes {
            bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
            bytes => format!("{} KiB", bytes >> 10),
        };
        let kind = self.kind;
        io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {size}, the limit for {kind}"),
        )
    }
}

/// All bytes of the file at `path`.
///
/// # Errors
/// A file that cannot be opened or read, or that is larger than `limit`.
pub fn read(path: &Path, limit: Limit) -> io::Result<Vec<u8>> {
    read_from(open(path)?, limit)
}

fn read_from(input: impl Read, limit: Limit) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = input.take(limit.bytes + 1).read_to_end(&mut bytes)?;
    if read as u64 > limit.bytes {
        return Err(limit.exceeded());
    }
    Ok(bytes)
}

/// The text of the file at `path`.
///
/// # Errors
/// As [`read`], and bytes that are not UTF-8.
pub fn read_text(path: &Path, limit: Limit) -> io::Result<String> {
    text_from(open(path)?, limit)
}

/// The text of what is open already, such as standard input.
///
/// # Errors
/// As [`read_text`].
pub fn text_from(input: impl Read, limit: Limit) -> io::Result<String> {
    String::from_utf8(read_from(input, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Opens a file for reading. Opening a named pipe waits for a writer, perhaps for ever: only the descriptors
/// of this process (`/dev/stdin`, `/dev/fd/63` as shells pass them) may be pipes.
///
/// # Errors
/// A file that cannot be opened, a directory, a named pipe.
pub fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let is_descriptor = path.starts_with("/dev") || path.starts_with("/proc");
    if kind.is_fifo() && !is_descriptor {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a named pipe, which may never end: pass it as /dev/stdin",
        ));
    }
    File::open(path)
}

/// Warns of a secret that every user of this machine can read, or that others can replace.
pub fn warn_if_exposed(path: &Path, secret: &str) {
    if let Some(mode) = exposed_mode(path) {
        tracing::warn!(
            path = %path.display(),
            mode = format!("{mode:04o}"),
            "{secret}: other users can read or replace this file, chmod 0600 is enough for cqlens"
        );
    }
}

/// The mode of a regular file that users other than its owner can read or write. Its group may read it:
/// Kubernetes and `ssl-cert` pass secrets so.
fn exposed_mode(path: &Path) -> Option<u32> {
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mode = metadata.mode() & 0o7777;
    (mode & 0o026 != 0).then_some(mode)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{fs::Permissions, os::unix::fs::PermissionsExt, process::Command};

    use super::*;

    const LIMIT: Limit = Limit::new("a hash key", 1 << 10);

    #[test]
    fn a_file_up_to_the_limit_is_read_and_a_larger_or_endless_one_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, vec![b'a'; 1 << 10]).unwrap();
        assert_eq!(read_text(&path, LIMIT).unwrap().len(), 1 << 10);
        fs::write(&path, vec![b'a'; (1 << 10) + 1]).unwrap();
        // Sparse: no disk is filled.
        let huge = folder.path().join("huge");
        File::create(&huge).unwrap().set_len(1 << 40).unwrap();
        for path in [&path, &huge, Path::new("/dev/zero")] {
            let error = read(path, LIMIT).unwrap_err();
            assert_eq!(error.to_string(), "larger than 1 KiB, the limit for a hash key");
        }
    }

    #[test]
    fn a_named_pipe_is_refused_without_waiting_and_a_descriptor_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = read(&pipe, LIMIT).unwrap_err();
        assert!(error.to_string().contains("named pipe"), "{error}");
        assert_eq!(read(Path::new("/dev/null"), LIMIT).unwrap(), b"");
        let kind = read(folder.path(), LIMIT).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::IsADirectory);
    }

    #[test]
    fn what_others_can_read_or_write_is_exposed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, exposed) in [
            (0o600, false),
            (0o440, false),
            (0o644, true),
            (0o620, true),
            (0o602, true),
        ] {
            fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(exposed_mode(file.path()).is_some(), exposed, "{mode:o}");
        }
    }
}
