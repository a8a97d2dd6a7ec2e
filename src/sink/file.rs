//! Files that change at once: a reader sees what was there or what is there, never half of it.

use std::{
    fs::{File, Permissions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// Replaces the file at `path` by what `write` writes.
///
/// The new content goes to a file of another name in the same directory, is flushed to disk and renamed. A symbolic link
/// stays a link, its target is replaced. What is no regular file (a pipe, `/dev/stdout`) is written to as it is.
///
/// # Errors
/// Whatever `write` or the file system fails with; the old file is then untouched and nothing is left behind.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let target = match path.canonicalize() {
        Ok(target) if target.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(target) if !target.is_file() => return write_to(File::options().write(true).open(path)?, write),
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let mut temporary = builder().tempfile_in(directory(&target))?;
    write_to(temporary.as_file_mut(), write)?;
    temporary.as_file().sync_all()?;
    temporary.persist(&target)?;
    Ok(())
}

fn write_to(file: impl Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffered = BufWriter::new(file);
    write(&mut buffered)?;
    buffered.flush()
}

fn directory(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// As readable as any other new file: the mode that the umask leaves, not the owner-only mode of secrets.
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".cqlens-");
    #[cfg(unix)]
    builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(
        0o666,
    ));
    builder
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_file_is_made_and_replaced_without_leftovers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        for text in ["first", "second, longer", "3"] {
            replace(&path, |to| to.write_all(text.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names(directory.path()), ["report.html"]);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        fs::write(&path, "old").unwrap();
        let failed = replace(&path, |to| {
            to.write_all(b"half of the n")?;
            Err(io::Error::other("no more"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(directory.path()), ["report.html"]);
    }

    #[test]
    fn a_missing_directory_and_a_directory_in_its_place_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("no/such/report.html");
        assert_eq!(
            replace(&missing, |_| Ok(())).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        let kind = replace(directory.path(), |_| Ok(())).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::IsADirectory);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_a_device_a_device() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        replace(&link, |to| to.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        replace(Path::new("/dev/null"), |to| to.write_all(b"gone")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[cfg(unix)]
    #[test]
    fn others_can_read_it_as_far_as_the_umask_allows() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let (plain, replaced) = (directory.path().join("plain"), directory.path().join("replaced"));
        fs::write(&plain, "").unwrap();
        replace(&replaced, |_| Ok(())).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&replaced), mode(&plain));
    }
}
