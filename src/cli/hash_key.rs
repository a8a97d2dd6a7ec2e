//! Where the key of the hashes that stand for partition keys is kept: away from
//! snapshots, which are passed on.
//!
//! With the key, anyone can try out which partition keys the hashes stand for. Hashes of two runs compare
//! only if the key is the same.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::sink::directory;
use cqlens_audit::audit::HashKey;
use cqlens_proxy::files::{self, Limit};

/// The key: from `file`; else from the snapshot folder, where earlier versions left it; else from the state
/// directory. It is made where it is missing. Without snapshots it is a key of this run alone.
///
/// # Errors
/// A key file that is none, or one that the operator has named and that cannot be read or written.
pub(super) fn hash_key(file: Option<&Path>, snapshot_dir: Option<&Path>) -> anyhow::Result<HashKey> {
    if let Some(path) = file {
        return read_or_make(path)?.with_context(|| context(path));
    }
    let Some(folder) = snapshot_dir else {
        return Ok(HashKey::random());
    };
    let Some(place) = KeyFile::for_snapshots(folder) else {
        tracing::warn!("{INCOMPARABLE}: neither STATE_DIRECTORY nor HOME is set to keep the hash key in");
        return Ok(HashKey::random());
    };
    if place.is_beside_snapshots {
        warn_of_key_beside_snapshots(&place.path);
    }
    read_or_make(&place.path)?.or_else(|error| {
        tracing::warn!("{INCOMPARABLE}: {}: {error}", context(&place.path));
        Ok(HashKey::random())
    })
}

/// Reads the key in `file` without making one.
///
/// # Errors
/// A file that is there and cannot be read, or that holds something else.
pub(super) fn check(file: &Path) -> anyhow::Result<()> {
    let text = match read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.with_context(|| context(file))?,
    };
    text.parse::<HashKey>().map(drop).with_context(|| context(file))
}

/// Leaves `key` where the next process looks for it, when the snapshot folder changes.
///
/// # Errors
/// A file that cannot be written, or that holds another key.
pub(super) fn leave_key(key: HashKey, snapshot_dir: &Path) -> anyhow::Result<()> {
    let Some(KeyFile { path, .. }) = KeyFile::for_snapshots(snapshot_dir) else {
        bail!("neither STATE_DIRECTORY nor HOME is set to keep the hash key in");
    };
    match read(&path) {
        Ok(text) if text.trim() == key.to_string() => Ok(()),
        Ok(_other) => bail!("{} is not the key in use", path.display()),
        Err(_missing) => write(&path, key).with_context(|| context(&path)),
    }
}

/// Where the key is without `--hash-key-file`.
struct KeyFile {
    path: PathBuf,
    is_beside_snapshots: bool,
}

impl KeyFile {
    fn for_snapshots(snapshot_dir: &Path) -> Option<Self> {
        let beside_snapshots = snapshot_dir.join(NAME);
        let is_beside_snapshots = beside_snapshots.exists();
        let path = match is_beside_snapshots {
            true => beside_snapshots,
            false => in_state_directory(|name| env::var_os(name).map(PathBuf::from))?,
        };
        Some(Self {
            path,
            is_beside_snapshots,
        })
    }
}

/// The state directory of the service (`systemd.exec(5)`), else the user's (XDG Base
/// Directory Specification).
fn in_state_directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    directory_of(variable).map(|directory| directory.join(NAME))
}

/// Where state is kept from one process to the next.
#[cfg(feature = "fleet")]
pub(super) fn state_directory() -> Option<PathBuf> {
    directory_of(|name| env::var_os(name).map(PathBuf::from))
}

fn directory_of(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let of_service = absolute("STATE_DIRECTORY").and_then(|paths| env::split_paths(&paths).next());
    let of_user = || absolute("XDG_STATE_HOME").map(|path| path.join("cqlens"));
    let of_home = || absolute("HOME").map(|path| path.join(".local/state/cqlens"));
    of_service.or_else(of_user).or_else(of_home)
}

const NAME: &str = "hash.key";

const INCOMPARABLE: &str =
    "snapshots of this run cannot be compared by partition with those of others (hash-key-file)";

fn warn_of_key_beside_snapshots(path: &Path) {
    let to = in_state_directory(|name| env::var_os(name).map(PathBuf::from)).map_or_else(
        || "a place of its own".to_owned(),
        |path| path.display().to_string(),
    );
    tracing::warn!(
        "the hash key {} is in the same folder as the snapshots: with it, anyone who gets those can try out \
         partition keys. Move it to {to}, or elsewhere with hash-key-file; hashes stay comparable",
        path.display()
    );
}

fn context(path: &Path) -> String {
    format!("hash key file {}", path.display())
}

/// The key, or why the file cannot be read or made.
///
/// # Errors
/// A file that holds something else.
fn read_or_make(path: &Path) -> anyhow::Result<io::Result<HashKey>> {
    let text = match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(make(path)),
        Err(error) => return Ok(Err(error)),
        Ok(text) => text,
    };
    files::warn_if_exposed(path, "hash key");
    text.parse().map(Ok).with_context(|| context(path))
}

/// 32 digits.
const LIMIT: Limit = Limit::new("a hash key", 1 << 10);

fn read(path: &Path) -> io::Result<String> {
    files::read_text(path, LIMIT)
}

fn make(path: &Path) -> io::Result<HashKey> {
    let key = HashKey::random();
    match write(path, key) {
        // Another process was faster: its key is as good.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            read(path)?.parse().map_err(io::Error::other)
        }
        written => written.map(|()| key),
    }
}

/// Writes a whole key or nothing, for its owner alone; replaces nothing.
fn write(path: &Path, key: HashKey) -> io::Result<()> {
    let directory = directory(path);
    fs::create_dir_all(&directory)?;
    // Of mode 0600, as `tempfile` makes them.
    let mut file = tempfile::Builder::new()
        .prefix(".cqlens-")
        .tempfile_in(directory)?;
    writeln!(file, "{key}")?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_state_directory_is_that_of_the_service_before_that_of_the_user() {
        let place = |set: &[(&str, &str)]| {
            in_state_directory(|name| {
                let value = set.iter().find(|(variable, _)| *variable == name);
                value.map(|(_, value)| PathBuf::from(value))
            })
        };
        let (service, user, home) = (
            ("STATE_DIRECTORY", "/var/lib/cqlens:/var/lib/more"),
            ("XDG_STATE_HOME", "/state"),
            ("HOME", "/home/a"),
        );
        let found = |set: &[_]| place(set).unwrap().display().to_string();
        assert_eq!(found(&[home, user, service]), "/var/lib/cqlens/hash.key");
        assert_eq!(found(&[home, user]), "/state/cqlens/hash.key");
        assert_eq!(found(&[home]), "/home/a/.local/state/cqlens/hash.key");
        assert_eq!(
            found(&[home, ("XDG_STATE_HOME", "")]),
            "/home/a/.local/state/cqlens/hash.key"
        );
        assert_eq!(place(&[("HOME", "relative")]), None);
    }

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/hash.key");
        let made = hash_key(Some(&path), None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(hash_key(Some(&path), None).unwrap().to_string(), made.to_string());
        // Nothing is replaced, and nothing is left over.
        assert_eq!(
            write(&path, HashKey::random()).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read_dir(folder.path().join("below")).unwrap().count(), 1);
    }

    #[test]
    fn a_key_beside_snapshots_is_still_used() {
        let folder = tempfile::tempdir().unwrap();
        let key = HashKey::random();
        write(&folder.path().join(NAME), key).unwrap();
        let used = hash_key(None, Some(folder.path())).unwrap();
        assert_eq!(used.to_string(), key.to_string());
        leave_key(key, folder.path()).unwrap();
        assert!(leave_key(HashKey::random(), folder.path()).is_err());
    }

    #[test]
    fn a_damaged_or_endless_key_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        fs::write(&path, "short").unwrap();
        for (file, snapshots) in [(Some(path.as_path()), None), (None, Some(folder.path()))] {
            let error = format!("{:#}", hash_key(file, snapshots).unwrap_err());
            assert!(error.contains("32 hex digits"), "{error}");
        }
        let error = hash_key(Some(Path::new("/dev/zero")), None).unwrap_err();
        assert!(format!("{error:#}").contains("limit for a hash key"), "{error:#}");
    }
}
