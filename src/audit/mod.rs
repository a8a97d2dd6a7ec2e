//! From captures to windows: each auditor takes what waits in its line, matches requests with responses, and counts.
//!
//! Auditors are threads of their own that the data path neither waits for nor wakes. What they cannot keep up with is
//! left out by the queue, and counted.

mod analysis;
mod auditor;
mod bounded;
mod budget;
mod by_table;
mod cells;
mod clients;
mod connection;
mod counter;
mod deferred;
mod exchange;
mod failure;
mod filling;
mod footprint;
mod identity;
mod in_flight;
mod key_hash;
mod load;
mod once;
mod pair;
pub mod plan;
mod reads;
mod record;
mod refusals;
mod repeats;
mod row_keys;
mod sample;
mod session;
mod sweeps;
mod tables;
#[cfg(test)]
mod testing;
mod told;
mod warning;

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use auditor::Auditor;
pub use cells::{Cells, Use};
use cqlens_proto::envelope::Envelope;
pub use filling::WindowUsage;
use filling::{Filling, lock};
pub use footprint::{Count, Footprint, Key, Keys, Pushed};
pub use identity::Identity;
use jiff::Timestamp;
pub use key_hash::{HashKey, HashKeyError};
pub use once::Once;
pub use repeats::{Ending, Repeat, Repeats};
pub use sample::Sample;
use sample::Sampler;
pub use session::ClientAddresses;
pub use tables::Tables;
use tokio::sync::mpsc::Receiver;
pub use told::Told;

use crate::{
    capture::{Dropped, Queue},
    catalog::Live,
    window::{Limits, Window},
};

/// Sees each request before it is counted: for those who show traffic, and for tests. Runs in the auditor's thread, so what it
/// takes the audit takes longer; a panic in it is a failure of the auditor.
#[derive(Clone, Default)]
pub struct Watch(Option<Arc<See>>);

type See = dyn Fn(&Envelope) + Send + Sync;

impl Watch {
    /// Calls `see` for every request, in the order in which they are counted.
    pub fn new(see: impl Fn(&Envelope) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(see)))
    }

    fn see(&self, request: &Envelope) {
        if let Some(see) = &self.0 {
            see(request);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.0.is_some() {
            "Watch(_)"
        } else {
            "Watch(nobody)"
        };
        formatter.write_str(state)
    }
}

/// What may be otherwise than by default.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Who sees the requests.
    pub watch: Watch,
    /// How much of clients' addresses stands in windows and reports.
    pub client_addresses: ClientAddresses,
    /// How much the window that is being filled holds.
    pub limits: Limits,
}

/// The auditors of a process.
#[derive(Debug)]
pub struct Audit {
    queue: Arc<Queue>,
    windows: Vec<Arc<Mutex<Filling>>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    source: String,
}

impl Audit {
    /// Starts one auditor for each line of `queue`. `source` names the proxy or capture in windows.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(
        queue: Arc<Queue>,
        live: &Arc<Live>,
        key: HashKey,
        source: &str,
        now: Timestamp,
    ) -> std::io::Result<Self> {
        Self::start_with(queue, live, key, source, now, &Options::default())
    }

    /// The same with somebody who sees the requests, and with names of clients as configured.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start_with(
        queue: Arc<Queue>,
        live: &Arc<Live>,
        key: HashKey,
        source: &str,
        now: Timestamp,
        options: &Options,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut audit = Self {
            queue,
            windows: Vec::new(),
            threads: Vec::new(),
            stop,
            source: source.to_owned(),
        };
        for line in 0..audit.queue.auditors() {
            let window = Arc::new(Mutex::new(Filling::new(now, source, options.limits)));
            let queue = Arc::clone(&audit.queue);
            let auditor = Auditor::new(line, queue, Arc::clone(&window), live, key, options);
            let stop = Arc::clone(&audit.stop);
            let thread = thread::Builder::new()
                .name(format!("audit-{line}"))
                .spawn(move || auditor.run(&stop))?;
            audit.threads.push(thread);
            audit.windows.push(window);
        }
        Ok(audit)
    }

    /// Hands one of the reads that pass over each time that `every` has gone by, for somebody who asks it again, with tracing, and counts
    /// what comes of it with [`Told`].
    pub fn sample(&self, every: Duration) -> Option<Receiver<Sample>> {
        // The others' reads have no turn: one auditor sees enough.
        let window = self.windows.first()?;
        let (sampler, samples) = Sampler::new(every);
        lock(window).sampler = Some(sampler);
        Some(samples)
    }

    /// Where it is counted what the server tells beside its answers; none where there is no auditor.
    pub fn told(&self) -> Option<Told> {
        self.windows.first().map(|window| Told(Arc::clone(window)))
    }

    /// How full the windows are that are being filled, one for each auditor.
    pub fn usage(&self) -> Vec<Arc<WindowUsage>> {
        let windows = self.windows.iter();
        windows.map(|window| Arc::clone(&lock(window).usage)).collect()
    }

    /// Names the windows that begin from now on after `source`.
    pub fn rename(&mut self, source: &str) {
        source.clone_into(&mut self.source);
    }

    /// Ends the window that is being filled at `now` and begins the next one.
    pub fn take_window(&self, now: Timestamp) -> Window {
        let taken = self
            .windows
            .iter()
            .map(|window| lock(window).take(now, &self.source));
        let mut window = merge(taken).unwrap_or_else(|| Window::new(now, &self.source));
        count_dropped(&mut window, self.queue.take_dropped());
        window.close(now);
        window
    }

    /// Waits until everything that was captured is counted, ends the auditors, and gives the last window.
    pub fn stop(mut self, now: Timestamp) -> Window {
        self.end(now)
    }

    /// The same for those who keep the audit; it counts nothing more.
    pub fn end(&mut self, now: Timestamp) -> Window {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(
                    "an auditor has failed; the last window holds what it had counted until then"
                );
            }
        }
        self.take_window(now)
    }
}

/// The auditors' windows of one span of time, as one.
fn merge(windows: impl Iterator<Item = Window>) -> Option<Window> {
    windows.reduce(|mut all, window| {
        all.merge(&window);
        all
    })
}

fn count_dropped(window: &mut Window, dropped: Dropped) {
    let coverage = &mut window.coverage;
    coverage.dropped_bytes += dropped.bytes;
    for (reason, connections) in dropped.opaque {
        *coverage.opaque_connections.entry(reason.to_owned()).or_default() += connections;
    }
    for (reason, connections) in dropped.tls_failures {
        *coverage.tls_failures.entry(reason.to_owned()).or_default() += connections;
    }
    for (reason, connections) in dropped.refused {
        *coverage.refused_connections.entry(reason.to_owned()).or_default() += connections;
    }
    coverage.requests = coverage.audited + coverage.dropped + coverage.undecoded;
}
