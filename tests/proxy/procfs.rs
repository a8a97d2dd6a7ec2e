//! What the kernel tells of a running proxy.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::proxy::wire::LIMIT;

/// The process that listens at `address`, as its command line says.
pub(crate) struct Process {
    folder: PathBuf,
}

impl Process {
    /// Looks for it. A shell that has started it, and has the same arguments, is not it.
    pub(crate) fn listening_at(address: SocketAddr) -> Self {
        let address = address.to_string();
        let is_it = |folder: &Path| {
            let executable = std::fs::read_link(folder.join("exe")).unwrap_or_default();
            let arguments = std::fs::read(folder.join("cmdline")).unwrap_or_default();
            executable.file_name().is_some_and(|name| name == "cqlens")
                && arguments.split(|&b| b == 0).any(|a| a == address.as_bytes())
        };
        let folders = std::fs::read_dir("/proc").unwrap();
        let mut folders = folders.map(|entry| entry.unwrap().path());
        let folder = folders
            .find(|folder| is_it(folder))
            .expect("the proxy is running");
        Self { folder }
    }

    /// How many file descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(self.folder.join("fd")).unwrap().count()
    }

    /// Its memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(self.folder.join("status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// The processor time that it has used, in hundredths of a second.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(self.folder.join("stat")).unwrap();
        // After the name, which may hold anything: state is the first, user and system time the 12th and
        // 13th.
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        fields
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u64>().unwrap())
            .sum()
    }
}

/// Waits until `condition` holds.
pub(crate) fn until(what: &str, condition: impl FnMut() -> bool) {
    within(LIMIT, what, condition);
}

/// Waits until `condition` holds, but no longer than `limit`.
pub(crate) fn within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
