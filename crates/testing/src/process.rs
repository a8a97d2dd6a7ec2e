//! A child process that never outlives the test run, not even one that is killed with SIGKILL.
//!
//! The child runs below a few lines of `sh` that read a pipe whose other end only this process holds. Each
//! line on the pipe is the name of a signal to pass on; the end of the pipe, also the one that the kernel
//! makes when this process dies, is SIGKILL. So stopping is closing the pipe, and a `static` that is never
//! dropped is stopped all the same.

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// `$1` is a folder to remove after the end (or empty), the rest is the command.
///
/// The watcher is ended before the shell lets go of the child's process id, so that it cannot signal a
/// stranger.
const SUPERVISOR: &str = r#"
exec 3<&0 </dev/null
scratch=$1
shift
"$@" 3<&- &
child=$!
{
    while read -r signal; do kill -s "$signal" "$child"; done
    kill -s KILL "$child"
} <&3 3<&- 2>/dev/null &
watcher=$!
wait "$child"
status=$?
kill -s KILL "$watcher"
[ -z "$scratch" ] || rm -rf -- "$scratch"
exit "$status"
"#;

/// Memory of a process that is in physical memory, in KiB.
pub fn resident_kib(process: u32) -> u64 {
    status_kib(process, "VmRSS:")
}

/// The most that it ever was.
pub fn peak_kib(process: u32) -> u64 {
    status_kib(process, "VmHWM:")
}

fn status_kib(process: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// How many file descriptors a process has open.
pub fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// A running child, its log file, and a scratch folder that goes when the child goes.
pub struct Supervised {
    supervisor: Child,
    control: Option<ChildStdin>,
    log: PathBuf,
}

impl Supervised {
    /// Starts `command` (program and arguments; its environment is this process's with `environment` added).
    /// Standard output and error go to `log`, which is replaced; `scratch` is removed when the child has
    /// ended.
    pub fn spawn(
        command: &[String],
        environment: &[(String, String)],
        log: &Path,
        scratch: Option<&Path>,
    ) -> Self {
        Self::spawn_with(command, environment, log, scratch, Vec::new())
    }

    /// The same, with at most two `sockets` as the child's standard output and standard error, for it to take
    /// wherever it likes: then it has to open `log` itself.
    pub fn spawn_with(
        command: &[String],
        environment: &[(String, String)],
        log: &Path,
        scratch: Option<&Path>,
        sockets: Vec<TcpListener>,
    ) -> Self {
        assert!(sockets.len() <= 2, "there is no room for more");
        let mut sockets = sockets.into_iter();
        let parent = log.parent().expect("a log file is in a folder");
        std::fs::create_dir_all(parent).unwrap();
        let output =
            File::create(log).unwrap_or_else(|error| panic!("cannot write {}: {error}", log.display()));
        let mut given = || sockets.next().map(|socket| Stdio::from(OwnedFd::from(socket)));
        let mut supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(scratch.unwrap_or(Path::new("")))
            .args(command)
            // Hash keys of tests are not the user's.
            .env("XDG_STATE_HOME", super::cache::root().join("state"))
            .envs(environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(given().unwrap_or_else(|| output.try_clone().unwrap().into()))
            .stderr(given().unwrap_or_else(|| output.into()))
            // A group of its own: Ctrl-C in the terminal goes to the test run, whose end then reaches the
            // child by the pipe.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let control = supervisor.stdin.take();
        Self {
            supervisor,
            control,
            log: log.to_owned(),
        }
    }

    /// The child's process id, for `/proc`.
    ///
    /// # Panics
    /// If it does not run within a while.
    pub fn id(&self) -> u32 {
        let supervisor = self.supervisor.id();
        // Of a process that is not dumpable, others see its name and not its program.
        let name = |of: &str| std::fs::read_to_string(format!("/proc/{of}/comm"));
        let shell = name(&supervisor.to_string()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let children =
                std::fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).unwrap();
            // The other child is a shell, and so is this one until it runs the program.
            let is_program = |id: &&str| name(id).is_ok_and(|program| program != shell);
            if let Some(id) = children.split_whitespace().find(is_program) {
                return id.parse().expect("a process id is a number");
            }
            assert!(Instant::now() < deadline, "the child does not run: {children:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The process id of the child's parent, which runs nothing else.
    pub fn supervisor(&self) -> u32 {
        self.supervisor.id()
    }

    /// Where the child's output goes.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// What the child has written so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// How the child ended, if it has; a child that a signal ended shows as 128 + the signal's number.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.supervisor
            .try_wait()
            .expect("our own child can be waited for")
    }

    /// Sends the signal with this name, such as `TERM`.
    pub fn signal(&mut self, name: &str) {
        let control = self.control.as_mut().expect("the pipe is open until the drop");
        // A child that has ended has closed the pipe: there is nobody to signal, which `ended` says better.
        let _ = writeln!(control, "{name}");
    }

    /// Waits for the child to end by itself; `None` if it has not within `limit`.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.ended() {
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
                ended => return ended,
            }
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        drop(self.control.take());
        let _ = self.supervisor.wait();
    }
}
