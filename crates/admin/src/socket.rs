//! The admin listener as a Unix socket: only the user that cqlens runs as may connect.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};

use tokio::net::UnixListener;

/// A socket in the file system, which goes when this is dropped, unless another process
/// has put its own there since.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

/// Listens at `path`, with mode 0600 from its first moment. A stale socket there, without a listener, is
/// replaced, and so is any other if `replaces` says that a successor may.
///
/// # Errors
/// A path that cannot be used: something else is there, or another process listens.
pub fn listen(path: &Path, replaces: bool) -> io::Result<(UnixListener, SocketFile)> {
    check(path, replaces)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    // No other user can enter this folder: the socket has its mode before anyone can reach it.
    let folder = tempfile::Builder::new()
        .prefix(".cqlens-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent.unwrap_or(Path::new(".")))?;
    let first = folder.path().join("s");
    let listener = UnixListener::bind(&first)?;
    fs::set_permissions(&first, Permissions::from_mode(0o600))?;
    let metadata = fs::symlink_metadata(&first)?;
    fs::rename(&first, path)?;
    let file = SocketFile {
        path: path.to_owned(),
        identity: (metadata.dev(), metadata.ino()),
    };
    Ok((listener, file))
}

fn check(path: &Path, replaces: bool) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the file exists and is not a socket",
        ));
    }
    if !replaces && UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens there",
        ));
    }
    Ok(())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_own = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if is_own {
            // The next process replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_owner_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin");
        let (_listener, file) = listen(&path, false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing else is left"
        );
        let refused = listen(&path, false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let (_successor, file_of_successor) = listen(&path, true).unwrap();
        drop(file);
        assert!(path.exists(), "it is the successor's");
        drop(file_of_successor);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(listen(&path, false).unwrap());
        fs::write(&path, "a file").unwrap();
        assert_eq!(
            listen(&path, true).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    }
}
