//! The priority of a thread that observes: where processors are short, it waits before clients do.

/// Work that can wait, by how long it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CanWait {
    /// What reports are made of (nice 5): a third of a processor beside a thread that serves clients and never pauses. With less,
    /// a busy machine would hold it up until its queue is full.
    Audit,
    /// What is left out where there is no time (nice 10).
    Copies,
}

impl CanWait {
    #[cfg(target_os = "linux")]
    const fn niceness(self) -> i32 {
        match self {
            Self::Audit => 5,
            Self::Copies => 10,
        }
    }
}

/// Lowers the priority of the calling thread to that of `work`. It stays as it is on other systems than Linux, and where it is
/// lower already.
pub fn yield_to_clients(work: CanWait) {
    #[cfg(target_os = "linux")]
    lower(work.niceness());
    #[cfg(not(target_os = "linux"))]
    let _ = work;
}

/// On Linux priorities are those of threads, and lowering one is always allowed, raising it again is not; if it fails, it stays
/// as it is.
#[cfg(target_os = "linux")]
fn lower(niceness: i32) {
    let thread = Some(rustix::thread::gettid());
    if rustix::process::getpriority_process(thread).is_ok_and(|now| now < niceness) {
        let _ = rustix::process::setpriority_process(thread, niceness);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::thread;

    use super::*;

    fn niceness() -> Option<i32> {
        rustix::process::getpriority_process(Some(rustix::thread::gettid())).ok()
    }

    #[test]
    fn a_thread_yields_and_the_one_that_started_it_does_not() {
        let before = niceness();
        for (work, least) in [(CanWait::Audit, 5), (CanWait::Copies, 10)] {
            let after = thread::spawn(move || {
                yield_to_clients(work);
                niceness()
            });
            assert_eq!(after.join().ok().flatten(), before.max(Some(least)));
        }
        assert_eq!(niceness(), before);
    }
}
