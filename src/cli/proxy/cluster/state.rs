//! The file that keeps the numbers of nodes beyond the end of the process. Processes may share it.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, bail};

use super::numbers::Numbers;
use crate::sink::replace;
use cqlens_proxy::files::{self, Limit};

const HEAD: &str = "\
    # Which node has which number in the listen addresses of cqlens. Removing a node here frees its \
    number.\n\n";

/// The file, on a disk that may not answer.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    /// Still waits for the disk.
    stuck: Option<JoinHandle<()>>,
}

/// How long the control loop waits for the disk.
const PATIENCE: Duration = Duration::from_secs(2);

impl StateFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, stuck: None }
    }

    /// Changes the numbers in the file, which need not exist, and returns them. Processes that
    /// share it wait for each other.
    ///
    /// # Errors
    /// A file that cannot be read, written or understood, or not in time.
    pub(super) fn update(
        &mut self,
        change: impl FnOnce(&mut Numbers) + Send + 'static,
    ) -> anyhow::Result<Numbers> {
        let hangs = format!(
            "the state file {} (state-file) is on a disk that does not respond",
            self.path.display()
        );
        if self.stuck.as_ref().is_some_and(|thread| !thread.is_finished()) {
            bail!(hangs);
        }
        let (done, is_done) = mpsc::sync_channel(1);
        let path = self.path.clone();
        let thread = thread::Builder::new()
            .name("state-file".to_owned())
            // The caller may have given up.
            .spawn(move || drop(done.send(update(&path, change))))
            .context("no thread for the state file")?;
        is_done.recv_timeout(PATIENCE).unwrap_or_else(|_timeout| {
            self.stuck = Some(thread);
            bail!(hangs)
        })
    }
}

fn update(path: &Path, change: impl FnOnce(&mut Numbers)) -> anyhow::Result<Numbers> {
    let context = || format!("the state file {} (state-file)", path.display());
    // Until it is dropped.
    let _lock = lock(path).with_context(context)?;
    let before = read(path).with_context(context)?;
    let mut numbers = before.clone();
    change(&mut numbers);
    if numbers != before {
        write(path, &numbers).with_context(context)?;
    }
    Ok(numbers)
}

/// About 150 bytes a node.
const LIMIT: Limit = Limit::new("the state of a cluster", 4 << 20);

fn read(path: &Path) -> anyhow::Result<Numbers> {
    let text = match files::read_text(path, LIMIT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Numbers::default()),
        read => read?,
    };
    let numbers: Numbers = toml::from_str(&text)?;
    if !numbers.is_consistent() {
        bail!("a node or a number is listed twice");
    }
    Ok(numbers)
}

fn write(path: &Path, numbers: &Numbers) -> anyhow::Result<()> {
    let text = toml::to_string(numbers)?;
    replace(path, |to| {
        to.write_all(HEAD.as_bytes())?;
        to.write_all(text.as_bytes())
    })?;
    Ok(())
}

/// The file itself is replaced: the lock is on one beside it, which stays.
fn lock(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(PathBuf::from(name))?;
    file.lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{fs, net::SocketAddr};

    use cqlens_proto::types::Uuid;
    use jiff::Timestamp;

    use super::*;

    fn assign(path: &Path, ids: &[u8]) -> Vec<Option<u32>> {
        let present: Vec<_> = ids
            .iter()
            .map(|id| (Uuid([*id; 16]), SocketAddr::from(([10, 0, 0, *id], 9042))))
            .collect();
        let change = move |numbers: &mut Numbers| numbers.assign(&present, 9, Timestamp::UNIX_EPOCH);
        let numbers = StateFile::new(path.to_owned()).update(change).unwrap();
        ids.iter().map(|id| numbers.number(Uuid([*id; 16]))).collect()
    }

    #[test]
    fn a_file_that_never_ends_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes.toml");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = format!("{:#}", update(&path, |_| ()).unwrap_err());
        assert!(error.contains("state-file") && error.contains("4 MiB"), "{error}");
    }

    #[test]
    fn numbers_outlive_the_process_and_are_shared() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes.toml");
        assert_eq!(assign(&path, &[5, 6]), [Some(1), Some(2)]);
        assert_eq!(assign(&path, &[4, 6]), [Some(3), Some(2)]);
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("# ") && text.contains("gone_since = \"1970-01-01T00:00:00Z\""),
            "{text}"
        );
        thread::scope(|scope| {
            for id in 10..14 {
                let path = &path;
                scope.spawn(move || assign(path, &[4, 6, id]));
            }
        });
        assert!(read(&path).unwrap().is_consistent());
        assert_eq!(assign(&path, &[4, 6]), [Some(3), Some(2)]);
    }

    #[test]
    fn a_disk_that_does_not_answer_is_waited_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes.toml");
        // As a disk does, another process keeps it waiting.
        let held = lock(&path).unwrap();
        let mut file = StateFile::new(path);
        let began = std::time::Instant::now();
        for _ in 0..5 {
            let error = format!("{:#}", file.update(|_| ()).unwrap_err());
            assert!(error.contains("nodes.toml (state-file)"), "{error}");
        }
        assert!(began.elapsed() < 5 * PATIENCE, "{:?}", began.elapsed());
        drop(held);
        while file.stuck.as_ref().is_some_and(|thread| !thread.is_finished()) {
            thread::yield_now();
        }
        assert!(file.update(|_| ()).is_ok());
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes.toml");
        let one = "[[node]]\nnumber = 1\nhost_id = 'a'\naddress = '10.0.0.1:9042'\n";
        for wrong in ["[[node]]\nnumber = 'x'", "numbers = 1", &[one, one].concat()] {
            fs::write(&path, wrong).unwrap();
            let error = format!("{:#}", update(&path, |_| ()).unwrap_err());
            assert!(error.contains("nodes.toml (state-file)"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), wrong);
        }
    }
}
