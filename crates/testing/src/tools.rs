//! Programs that tests check their files with, each built or installed once into the cache.

use std::{path::PathBuf, process::Command};

use super::{Missing, cache};

/// The program of a Go module, such as `example.com/tool/cmd/tool@v1.2.3`.
///
/// # Errors
/// [`Missing`] where there is no `go`, or no network.
pub fn of_go(module: &str) -> Result<PathBuf, Missing> {
    let (path, _version) = module.split_once('@').unwrap();
    let name = path.rsplit('/').next().unwrap();
    let folder = cache::folder(&format!("tool-{name}"), module, |folder| {
        let mut install = Command::new("go");
        install.args(["install", module]).env("GOBIN", folder);
        cache::download(&mut install).map(drop)
    })?;
    Ok(folder.join(name))
}
