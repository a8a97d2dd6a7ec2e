//! Whether the threads of this process make progress: named in the log when one does not, shown on the admin
//! listener, and told to the service manager.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use arc_swap::ArcSwap;

use super::supervisor;
use cqlens_admin::ThreadStatus;
use cqlens_capture::pulse::{Pulse, Runner};

/// The threads to watch.
pub(super) struct WatchedThreads {
    /// Threads without which clients or operators are not served.
    pub(super) vital: Vec<Pulse>,
    /// Vital, too; they beat only on request.
    pub(super) runners: Vec<Runner>,
    /// Threads that may be stuck while clients are served: a report or window is late then.
    pub(super) others: Vec<Pulse>,
}

/// What the watchdog has seen last.
#[derive(Debug)]
pub(super) struct ThreadHealth {
    threads: ArcSwap<Vec<ThreadStatus>>,
    began: Instant,
    /// Milliseconds from then to when it last saw all vital threads at work.
    all_well: AtomicU64,
}

/// Looks after one thread.
struct Patient {
    pulse: Pulse,
    is_vital: bool,
    count: u64,
    silent: Duration,
}

/// The thread's own part.
pub(super) struct Watchdog {
    patients: Vec<Patient>,
    runners: Vec<Runner>,
    watch: Arc<ThreadHealth>,
}

/// A thread that makes no progress for so long is stuck: each has something to show several times a
/// second, unless it is idle.
const STUCK: Duration = Duration::from_secs(10);

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);

/// Begins to watch, and to tell the service manager if that wants to hear.
///
/// # Errors
/// A thread that cannot be had.
pub(super) fn start(
    watched: WatchedThreads,
    manager: Option<supervisor::ServiceManager>,
) -> anyhow::Result<Arc<ThreadHealth>> {
    let mut watchdog = Watchdog::new(watched);
    let watch = Arc::clone(&watchdog.watch);
    let pause = manager.as_ref().map_or(LOOK, |manager| manager.every.min(LOOK));
    let look = move || {
        loop {
            thread::sleep(pause);
            watchdog.look(pause);
            if let Some(manager) = manager.as_ref().filter(|_| watchdog.watch.is_well()) {
                manager.pat();
            }
        }
    };
    thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(look)
        .context("no thread for the watchdog")?;
    Ok(watch)
}

impl ThreadHealth {
    /// How each thread is.
    pub(super) fn threads(&self) -> Vec<ThreadStatus> {
        self.threads.load().to_vec()
    }

    /// Whether all vital threads were seen at work a moment ago. False also where the
    /// watchdog itself is stuck.
    pub(super) fn is_well(&self) -> bool {
        let all_well = Duration::from_millis(self.all_well.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(all_well) < STUCK
    }
}

impl Watchdog {
    pub(super) fn new(watched: WatchedThreads) -> Self {
        let patient = |is_vital| {
            move |pulse: &Pulse| Patient {
                pulse: pulse.clone(),
                is_vital,
                count: pulse.count(),
                silent: Duration::ZERO,
            }
        };
        let WatchedThreads {
            vital,
            runners,
            others,
        } = watched;
        let of_runners = runners.iter().map(|runner| &runner.pulse);
        let patients = vital.iter().chain(of_runners).map(patient(true));
        let patients = patients.chain(others.iter().map(patient(false))).collect();
        runners.iter().for_each(Runner::ask);
        Self {
            patients,
            runners,
            watch: Arc::new(ThreadHealth {
                threads: ArcSwap::default(),
                began: Instant::now(),
                all_well: AtomicU64::new(0),
            }),
        }
    }

    #[cfg(test)]
    pub(super) fn watch(&self) -> &ThreadHealth {
        &self.watch
    }

    /// Looks at all threads, `passed` after the last time. A process that was stopped as a whole has
    /// not been silent meanwhile.
    pub(super) fn look(&mut self, passed: Duration) {
        for patient in &mut self.patients {
            patient.look(passed);
        }
        let threads = self.patients.iter().map(Patient::status).collect();
        self.watch.threads.store(Arc::new(threads));
        let mut vital = self.patients.iter().filter(|patient| patient.is_vital);
        // Once in a while each is between two beats.
        if vital.all(|patient| patient.silent < STUCK / 2) {
            let now = u64::try_from(self.watch.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.watch.all_well.store(now, Ordering::Relaxed);
        }
        self.runners.iter().for_each(Runner::ask);
    }
}

impl Patient {
    fn look(&mut self, passed: Duration) {
        let was_stuck = self.silent >= STUCK;
        let silent = self.silent;
        let count = self.pulse.count();
        let is_silent = count == self.count && !self.pulse.is_idle();
        self.count = count;
        self.silent = if is_silent {
            silent + passed
        } else {
            Duration::ZERO
        };
        let thread = self.pulse.thread();
        match (was_stuck, self.silent >= STUCK) {
            (false, true) => {
                tracing::error!(thread, for_seconds = self.silent.as_secs(), "a thread is stuck")
            }
            (true, false) => tracing::info!(
                thread,
                was_for_seconds = silent.as_secs(),
                "a stuck thread makes progress again"
            ),
            _ => {}
        }
    }

    fn status(&self) -> ThreadStatus {
        ThreadStatus {
            thread: self.pulse.thread().to_owned(),
            silent_seconds: self.silent.as_secs(),
            stuck: self.silent >= STUCK,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn runner() -> (tokio::runtime::Runtime, Runner) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let runner = Runner::new("wire-0", runtime.handle().clone());
        (runtime, runner)
    }

    #[test]
    fn a_process_whose_vital_threads_stand_still_is_not_alive() {
        let (runtime, runner) = runner();
        let mut watchdog = Watchdog::new(WatchedThreads {
            vital: Vec::new(),
            runners: vec![runner],
            others: vec![Pulse::new("audit")],
        });
        let silent = |watchdog: &Watchdog| -> Vec<u64> {
            let threads = watchdog.watch.threads();
            threads.iter().map(|thread| thread.silent_seconds).collect()
        };
        for _ in 0..20 {
            // It runs what it was given.
            runtime.block_on(tokio::task::yield_now());
            watchdog.look(LOOK);
        }
        assert_eq!(silent(&watchdog), [0, 20], "an auditor is not vital");
        assert!(watchdog.watch.is_well());
        let last_well = |watchdog: &Watchdog| watchdog.watch.all_well.load(Ordering::Relaxed);
        (0..10).for_each(|_| watchdog.look(LOOK));
        assert_eq!(silent(&watchdog), [10, 30]);
        let before = last_well(&watchdog);
        thread::sleep(Duration::from_millis(5));
        watchdog.look(LOOK);
        assert_eq!(last_well(&watchdog), before, "a silent thread is not well");
        runtime.block_on(tokio::task::yield_now());
        watchdog.look(LOOK);
        assert!(last_well(&watchdog) > before, "it gets on");
        // As it is when all that was a while ago.
        let began = watchdog.watch.began.checked_sub(STUCK * 2).unwrap();
        let later = ThreadHealth {
            threads: ArcSwap::default(),
            began,
            all_well: AtomicU64::new(0),
        };
        assert!(!later.is_well(), "nobody has looked for a while");
    }
}
