//! The folder that holds what tests download: filled once, by the first test that needs it, kept between runs.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Missing;

/// `CQLENS_TEST_CACHE`, else `cassandra-cache` in cargo's target folder.
pub fn root() -> PathBuf {
    let target = || target_dir().join("cassandra-cache");
    std::env::var_os("CQLENS_TEST_CACHE").map_or_else(target, PathBuf::from)
}

/// What a test that runs inside of another one's network is called, for its logs.
pub const INSIDE: &str = "CQLENS_TEST_INSIDE";

/// Where the next process called `name` logs to: numbered by test binary, so that a later run overwrites what
/// an earlier one left.
pub fn log_file(name: &str) -> PathBuf {
    static STARTED: AtomicUsize = AtomicUsize::new(1);
    let binary = std::env::current_exe().expect("a process knows its program");
    let binary = binary
        .file_stem()
        .expect("a program has a name")
        .to_string_lossy()
        .into_owned();
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    target_dir()
        .join("test-logs")
        .join(binary)
        .join(std::env::var(INSIDE).unwrap_or_default())
        .join(format!("{number:02}-{name}.log"))
}

/// A new folder beside the logs, for files that last as long as the process: a later run replaces them.
pub fn lasting_folder(name: &str) -> PathBuf {
    let folder = log_file(name).with_extension("");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn target_dir() -> PathBuf {
    let workspace = || super::workspace().join("target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(workspace, PathBuf::from)
}

/// The cache's folder for `name` as `recipe` (the text of a pom, a requirements file) describes it, filled by
/// `fill` if it is not there yet. Another recipe is another folder. One process fills, the others wait for
/// it.
#[allow(
    clippy::incompatible_msrv,
    reason = "file locks are newer than what the crate promises to build with; tests run on the pinned toolchain"
)]
pub fn folder(
    name: &str,
    recipe: &str,
    fill: impl FnOnce(&Path) -> Result<(), Missing>,
) -> Result<PathBuf, Missing> {
    let root = root();
    std::fs::create_dir_all(&root).unwrap_or_else(|error| panic!("cannot make {}: {error}", root.display()));
    let mut hasher = DefaultHasher::new();
    recipe.hash(&mut hasher);
    let folder = root.join(format!("{name}-{:016x}", hasher.finish()));
    let lock = File::create(root.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let complete = folder.join(".complete");
    if !complete.exists() {
        // What an interrupted run has left is not trusted.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        fill(&folder)?;
        File::create(complete).unwrap();
    }
    Ok(folder)
}

/// Runs a command to its end and returns its output.
///
/// # Errors
/// [`Missing`] if the program is not installed.
///
/// # Panics
/// If it fails, with what it said: a build that fails is a fault, not something that this machine lacks.
pub fn run(command: &mut Command) -> Result<String, Missing> {
    output(command).map(|ended| ended.unwrap_or_else(|said| panic!("{said}")))
}

/// Runs a command that downloads, and returns its output.
///
/// # Errors
/// [`Missing`] if the program is not installed, or fails: a machine without a network is no reason for a test
/// to fail, but in CI.
pub fn download(command: &mut Command) -> Result<String, Missing> {
    output(command)?.map_err(Missing)
}

/// The output; what a command that failed has said.
fn output(command: &mut Command) -> Result<Result<String, String>, Missing> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => return Err(Missing(format!("`{program}` cannot be run: {error}"))),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(Ok(text(&output.stdout)));
    }
    let said = text(&output.stdout) + &text(&output.stderr);
    Ok(Err(format!("{command:?} ended with {}:\n{said}", output.status)))
}
