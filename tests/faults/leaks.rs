//! Nothing is left behind: descriptors and memory of a proxy, before and after.

use std::time::{Duration, Instant};

use cqlens_testing::{
    process::{descriptors, resident_kib},
    proxy::Proxy,
};

use super::wire::LIMIT;

/// What a process holds.
pub(crate) struct Holds {
    process: u32,
    descriptors: usize,
    resident_kib: u64,
}

impl Holds {
    /// Now, once it holds no connection.
    pub(crate) fn of(proxy: &Proxy) -> Self {
        let process = proxy.id();
        // The connection that asked whether the proxy listens may still be closing.
        let mut since = (descriptors(process), Instant::now());
        while since.1.elapsed() < Duration::from_millis(200) {
            std::thread::sleep(Duration::from_millis(10));
            if descriptors(process) != since.0 {
                since = (descriptors(process), Instant::now());
            }
        }
        Self {
            process,
            descriptors: descriptors(process),
            resident_kib: resident_kib(process),
        }
    }

    /// Checks that the process holds no more descriptors than then, soon, and `more_kib` more memory at most.
    pub(crate) fn assert_back(&self, more_kib: u64) {
        let process = self.process;
        until(
            || descriptors(process) <= self.descriptors,
            || {
                format!(
                    "{} descriptors instead of {}",
                    descriptors(process),
                    self.descriptors
                )
            },
        );
        // What the audit has not looked at yet waits in memory.
        until(
            || resident_kib(process) <= self.resident_kib + more_kib,
            || {
                let resident = resident_kib(process);
                format!("{resident} KiB are resident, {} were", self.resident_kib)
            },
        );
    }
}

fn until(done: impl Fn() -> bool, what: impl Fn() -> String) {
    let deadline = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "{}", what());
        std::thread::sleep(Duration::from_millis(10));
    }
}
