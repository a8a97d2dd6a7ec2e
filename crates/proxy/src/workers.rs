//! The threads that connections run on: each has a runtime of its own, and a
//! connection never leaves its thread.
//!
//! A runtime that can move tasks between threads pays for it at every wake-up, even if it moves none.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

use crate::timers;
use cqlens_capture::pulse::Runner;

/// Threads for connections. Clones are the same threads, which end when the last clone is dropped, together
/// with the connections on them.
#[derive(Debug, Clone)]
pub struct Workers {
    workers: Arc<[Worker]>,
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    /// The thread, and what ends it when it is dropped.
    running: Option<(oneshot::Sender<()>, thread::JoinHandle<()>)>,
}

impl Workers {
    /// Starts `threads` threads, at least one. They use the timers of the runtime that this is called in.
    ///
    /// # Errors
    /// A thread or runtime that cannot be had.
    pub fn start(threads: usize) -> io::Result<Self> {
        let workers = (0..threads.max(1))
            .map(Worker::start)
            .collect::<io::Result<_>>()?;
        Ok(Self { workers })
    }

    /// As many threads as this process may use processors.
    ///
    /// # Errors
    /// A thread or runtime that cannot be had.
    pub fn for_each_processor() -> io::Result<Self> {
        Self::start(thread::available_parallelism().map_or(1, usize::from))
    }

    /// How many threads they are.
    pub fn count(&self) -> usize {
        self.workers.len()
    }

    /// The threads, for the watchdog. This does not keep them running.
    pub fn runners(&self) -> Vec<Runner> {
        let runner = |(number, worker): (usize, &Worker)| Runner::new(name(number), worker.runtime.clone());
        self.workers.iter().enumerate().map(runner).collect()
    }

    /// Runs a connection on the thread that has the fewest; it holds its [`WorkerSlot`] until it ends.
    ///
    /// `connection` takes the slot into its own future. A wrapper here would cost memory for each idle
    /// connection: a future that awaits another is as large as both.
    pub(super) fn spawn<C>(&self, connection: impl FnOnce(WorkerSlot) -> C)
    where
        C: Future<Output = ()> + Send + 'static,
    {
        let least = self
            .workers
            .iter()
            .min_by_key(|worker| worker.connections.load(Ordering::Relaxed));
        if let Some(worker) = least {
            worker
                .runtime
                .spawn(connection(WorkerSlot::take(&worker.connections)));
        }
    }
}

impl Worker {
    fn start(number: usize) -> io::Result<Self> {
        // Without timers, waiting for sockets is cheaper.
        let timers = Handle::current();
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let handle = runtime.handle().clone();
        let (running, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name(name(number)).spawn(move || {
            timers::use_runtime(timers);
            // Nothing is ever sent: the sender goes away when the thread is to end.
            let _ = runtime.block_on(stopped);
            // A name that is being looked up would block an orderly shutdown.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            runtime: handle,
            connections: Arc::default(),
            running: Some((running, thread)),
        })
    }
}

impl Drop for Worker {
    /// Waits for the thread: its connections have timers of the runtime that goes on here.
    fn drop(&mut self) {
        if let Some((running, thread)) = self.running.take() {
            drop(running);
            let _ = thread.join();
        }
    }
}

fn name(number: usize) -> String {
    format!("wire-{number}")
}

/// Counts a connection on its thread until it ends, in whatever way.
pub(super) struct WorkerSlot(Arc<AtomicUsize>);

impl WorkerSlot {
    fn take(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connections))
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
