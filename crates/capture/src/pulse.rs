//! Signs of life of threads: each counts on while it works, and a watcher of the count sees whether it
//! still does.
//!
//! A count, not a time: threads that bytes or captures wait for read no clock for it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::runtime::Handle;

/// The sign of life of one thread. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Pulse(Arc<Beats>);

#[derive(Debug)]
struct Beats {
    thread: String,
    count: AtomicU64,
    is_idle: AtomicBool,
}

impl Pulse {
    /// That of a thread of this name.
    pub fn new(thread: impl Into<String>) -> Self {
        Self(Arc::new(Beats {
            thread: thread.into(),
            count: AtomicU64::new(0),
            is_idle: AtomicBool::new(false),
        }))
    }

    /// The thread's name.
    pub fn thread(&self) -> &str {
        &self.0.thread
    }

    /// The thread has made progress, and has more to do.
    pub fn beat(&self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        if self.0.is_idle.load(Ordering::Relaxed) {
            self.0.is_idle.store(false, Ordering::Relaxed);
        }
    }

    /// The thread has nothing to do: until its next beat, silence means nothing.
    pub fn rest(&self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        self.0.is_idle.store(true, Ordering::Relaxed);
    }

    /// A number that stays the same only while the thread makes no progress.
    pub fn count(&self) -> u64 {
        self.0.count.load(Ordering::Relaxed)
    }

    /// Whether the thread waits for work.
    pub fn is_idle(&self) -> bool {
        self.0.is_idle.load(Ordering::Relaxed)
    }
}

/// A thread that runs tasks and beats when it is asked to.
#[derive(Debug)]
pub struct Runner {
    /// Beats in a task of its own.
    pub pulse: Pulse,
    runtime: Handle,
    is_asked: Arc<AtomicBool>,
}

impl Runner {
    /// The runtime of a thread, or of several, called `thread`.
    pub fn new(thread: impl Into<String>, runtime: Handle) -> Self {
        Self {
            pulse: Pulse::new(thread),
            runtime,
            is_asked: Arc::default(),
        }
    }

    /// Has it beat as soon as it gets to it. While it does not, asking again adds nothing.
    pub fn ask(&self) {
        if self.is_asked.swap(true, Ordering::AcqRel) {
            return;
        }
        let (pulse, is_asked) = (self.pulse.clone(), Arc::clone(&self.is_asked));
        self.runtime.spawn(async move {
            pulse.beat();
            is_asked.store(false, Ordering::Release);
        });
    }
}
