//! Files that change at once: a reader sees what was there or what is there, never half of it.

use std::{
    fs::{self, File, Permissions, TryLockError},
    io::{self, BufWriter, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::process::geteuid;

/// Replaces the file at `path` by what `write` writes.
///
/// The new content goes to a file of another name in the same directory, is flushed to disk and renamed. A
/// symbolic link stays a link, its target is replaced; a link that belongs neither to this process's user nor
/// to root is refused, wherever on the path it is: its owner would choose the file. What is no regular file
/// (a pipe, `/dev/stdout`) is written to as it is.
///
/// # Errors
/// Any error of `write` or of the file system; the old file is then untouched and nothing is left behind.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    replace_with(path, None, || true, write)
}

/// The same, but leaves the file as it was if `is_awaited` is false once everything is written.
///
/// # Errors
/// The same, and what is no longer awaited.
pub fn replace_while(
    path: &Path,
    is_awaited: impl FnOnce() -> bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    replace_with(path, None, is_awaited, write)
}

/// The same as [`replace`], with a file that is as old as `written` says: what is in it was written then, elsewhere.
pub(super) fn replace_dated(
    path: &Path,
    written: Option<SystemTime>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    replace_with(path, written, || true, write)
}

fn replace_with(
    path: &Path,
    written: Option<SystemTime>,
    is_awaited: impl FnOnce() -> bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let target = resolve(path)?;
    match fs::metadata(path) {
        Ok(present) if present.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(present) if !present.is_file() => {
            return write_to(File::options().write(true).open(path)?, write);
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut temporary = builder().tempfile_in(directory(&target))?;
    // Held until the process ends or the file is closed: `remove_leftovers` leaves it alone.
    let _ = temporary.as_file().try_lock();
    write_to(temporary.as_file_mut(), write)?;
    if let Some(written) = written {
        temporary.as_file().set_modified(written)?;
    }
    temporary.as_file().sync_all()?;
    if !is_awaited() {
        return Err(io::Error::other("it is not awaited any more"));
    }
    temporary.persist(&target)?;
    Ok(())
}

/// Waits until the names of files in `directory` are on the disk: what follows a replacement there is not on it
/// before the replacement is.
pub(super) fn sync_names(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        // A file system that does not do this for folders.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// What a file that is written to `directory` now would be dated: by the clock that dates the others, also where
/// files are on another machine.
pub(super) fn now_in(directory: &Path) -> io::Result<SystemTime> {
    tempfile::tempfile_in(directory)?.metadata()?.modified()
}

/// Removes the temporary files that killed processes have left in `directory`: files of ours by name and
/// owner, which no process has locked or has written for a minute. A file that cannot be removed stays until
/// the next process tries.
pub fn remove_leftovers(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let Ok(now) = now_in(directory) else { return };
    let is_ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    let mut removed = 0_u64;
    for entry in entries.flatten().filter(is_ours) {
        let Ok(metadata) = entry.metadata() else { continue };
        let age = metadata
            .modified()
            .ok()
            .and_then(|modified| now.duration_since(modified).ok());
        let is_old = age.is_some_and(|age| age >= LEFT_ALONE);
        if metadata.is_file() && metadata.uid() == geteuid().as_raw() && is_old && !is_locked(&entry.path()) {
            removed += u64::from(fs::remove_file(entry.path()).is_ok());
        }
    }
    if removed > 0 {
        tracing::info!(removed, directory = %directory.display(), "removed temporary files of a killed process");
    }
}

/// Locks the file at `path`, creating it where it is missing; none where another process has it. The file stays, since removing
/// it would let two processes have one each.
pub(super) fn lock(path: &Path) -> io::Result<Option<File>> {
    // Neither follows a link to a file that does not exist: its owner would choose what is made.
    let new = File::options().write(true).create_new(true).open(path);
    let file = match new {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            File::options().write(true).open(path)?
        }
        new => new?,
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Between the making of a temporary file and its lock; also for file systems that know no locks.
const LEFT_ALONE: Duration = Duration::from_secs(60);

const PREFIX: &str = ".cqlens-";

/// Whether a process has it open; where that cannot be known, it may.
fn is_locked(path: &Path) -> bool {
    File::open(path).and_then(|file| Ok(file.try_lock()?)).is_err()
}

/// Where `path` leads to, link by link; what follows a part that is missing is taken as it is.
///
/// # Errors
/// A link that belongs neither to this process's user nor to root; see [`replace`].
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut left = parts(path);
    let mut resolved = match path.is_absolute() {
        true => PathBuf::from("/"),
        false => std::env::current_dir()?,
    };
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            resolved.pop();
            continue;
        }
        resolved.push(part);
        let metadata = match fs::symlink_metadata(&resolved) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && !left.iter().any(|part| part == "..") =>
            {
                resolved.extend(left.iter().rev());
                break;
            }
            metadata => metadata?,
        };
        if !metadata.is_symlink() || left.is_empty() && is_open_pipe(&resolved) {
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(io::Error::other("too many links"));
        }
        if ![0, geteuid().as_raw()].contains(&metadata.uid()) {
            return Err(foreign(&resolved, metadata.uid()));
        }
        let target = fs::read_link(&resolved)?;
        resolved.pop();
        if target.is_absolute() {
            resolved = PathBuf::from("/");
        }
        left.extend(parts(&target));
    }
    Ok(resolved)
}

/// Whether it is what `/dev/stdout` leads to where that is no regular file: its target is no path.
fn is_open_pipe(path: &Path) -> bool {
    path.starts_with("/proc") && !fs::metadata(path).is_ok_and(|target| target.is_file())
}

/// The names in a path, the first one last.
fn parts(path: &Path) -> Vec<std::ffi::OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<_> = names.collect();
    names.reverse();
    names
}

fn foreign(link: &Path, owner: u32) -> io::Error {
    let text = format!(
        "{} is a symbolic link of user {owner}, who could make this process overwrite any file: cqlens \
            does not follow it",
        link.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// As many as Linux follows.
const MOST_LINKS: usize = 40;

fn write_to(file: impl Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffered = BufWriter::new(file);
    write(&mut buffered)?;
    buffered.flush()
}

/// The directory in which `file` is.
pub fn directory(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// As readable as any other new file: the mode that the umask leaves, not the owner-only mode of secrets.
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).permissions(Permissions::from_mode(0o666));
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

    #[test]
    fn others_can_read_it_as_far_as_the_umask_allows() {
        let directory = tempfile::tempdir().unwrap();
        let (plain, replaced) = (directory.path().join("plain"), directory.path().join("replaced"));
        fs::write(&plain, "").unwrap();
        replace(&replaced, |_| Ok(())).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&replaced), mode(&plain));
    }

    #[test]
    fn a_link_to_nothing_makes_its_target() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("./../target", &link).unwrap();
        let inside = directory.path().join("inside");
        fs::create_dir(&inside).unwrap();
        fs::rename(&link, inside.join("link")).unwrap();
        replace(&inside.join("link"), |to| to.write_all(b"new")).unwrap();
        assert_eq!(
            fs::read_to_string(directory.path().join("target")).unwrap(),
            "new"
        );
        assert!(fs::symlink_metadata(inside.join("link")).unwrap().is_symlink());
    }

    #[test]
    fn links_that_lead_in_a_circle_are_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("link", &link).unwrap();
        assert!(replace(&link, |_| Ok(())).is_err());
    }

    /// The attack: another user's link where root writes its report.
    #[test]
    fn a_link_of_another_user_is_not_followed() {
        // Only root can give a link to another user.
        if !geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let (link, folder) = (
            directory.path().join("report.html"),
            directory.path().join("folder"),
        );
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        std::os::unix::fs::symlink(directory.path(), &folder).unwrap();
        for (link, report) in [(&link, link.clone()), (&folder, folder.join("victim"))] {
            std::os::unix::fs::lchown(link, Some(65534), Some(65534)).unwrap();
            let error = replace(&report, |to| to.write_all(b"overwritten")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(
                error.to_string().contains("symbolic link of user 65534"),
                "{error}"
            );
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn only_what_a_killed_process_has_left_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, age: u64| {
            let file = File::create(directory.path().join(name)).unwrap();
            let written = file.metadata().unwrap().modified().unwrap();
            file.set_modified(written - Duration::from_secs(age)).unwrap();
            file
        };
        for (name, age) in [
            (".cqlens-killed", 90),
            (".cqlens-young", 0),
            (".other", 90),
            ("report.html", 90),
        ] {
            drop(file(name, age));
        }
        let live = file(".cqlens-live", 90);
        live.lock().unwrap();
        remove_leftovers(directory.path());
        let mut left = names(directory.path());
        left.sort();
        assert_eq!(left, [".cqlens-live", ".cqlens-young", ".other", "report.html"]);
        drop(live);
        remove_leftovers(directory.path());
        assert!(!names(directory.path()).contains(&".cqlens-live".to_owned()));
    }

    #[test]
    fn a_file_that_is_being_written_is_locked() {
        let directory = tempfile::tempdir().unwrap();
        replace(&directory.path().join("report.html"), |_| {
            let name = names(directory.path())
                .into_iter()
                .find(|name| name.starts_with(PREFIX));
            assert!(is_locked(&directory.path().join(name.unwrap())));
            Ok(())
        })
        .unwrap();
    }
}
