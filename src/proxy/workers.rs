//! The threads that connections live on: each has a runtime of its own, and a connection never leaves its thread.
//!
//! A runtime that moves tasks between threads pays for it at every wake-up, also where there is nothing to move.

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

/// Threads for connections; they end when this is dropped, and what still runs on them with them.
#[derive(Debug)]
pub struct Workers {
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    /// Ends the thread when it is dropped.
    _running: oneshot::Sender<()>,
}

impl Workers {
    /// Starts `threads` threads, at least one.
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

    /// Runs `connection` on the thread that has the fewest.
    pub(super) fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let least = self
            .workers
            .iter()
            .min_by_key(|worker| worker.connections.load(Ordering::Relaxed));
        if let Some(worker) = least {
            let place = Place::take(&worker.connections);
            worker.runtime.spawn(async move {
                connection.await;
                drop(place);
            });
        }
    }
}

impl Worker {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, stopped) = oneshot::channel();
        thread::Builder::new()
            .name(format!("wire-{number}"))
            .spawn(move || {
                // Nothing is ever sent: the sender goes away when the thread is to end.
                let _ = runtime.block_on(stopped);
            })?;
        Ok(Self {
            runtime: handle,
            connections: Arc::default(),
            _running: running,
        })
    }
}

/// Counts a connection for as long as it lives, however it ends.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connections))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
