//! The priority of a thread that observes: where processors are short, it waits before clients do.

/// Lowers the priority of the calling thread to that of work that can wait (nice 10). It stays as it is on other
/// systems than Linux, and where it is lower already.
pub fn yield_to_clients() {
    #[cfg(target_os = "linux")]
    lower();
}

/// On Linux priorities are those of threads, and lowering one is always allowed; if it fails, it stays as it is.
#[cfg(target_os = "linux")]
fn lower() {
    const NICENESS: i32 = 10;
    let thread = Some(rustix::thread::gettid());
    if rustix::process::getpriority_process(thread).is_ok_and(|niceness| niceness < NICENESS) {
        let _ = rustix::process::setpriority_process(thread, NICENESS);
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
        let after = thread::spawn(|| {
            yield_to_clients();
            niceness()
        });
        assert!(after.join().ok().flatten() >= Some(10));
        assert_eq!(niceness(), before);
    }
}
