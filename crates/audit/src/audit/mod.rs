//! From captures to windows: the auditor takes what waits in the queue, matches requests with responses, and
//! counts.
//!
//! The way of a request, in the order of the folders:
//!
//! - `connection`: chunks become envelopes, requests find their responses; what is missing is accounted for
//!   (`gaps`).
//! - `statement`: what is executed is analysed once, and has small numbers (`ids`) that all counters index
//!   by.
//! - `exchange`: request, answer and analysis become one plain value (`builder`).
//! - `effects`: what the exchange changes for those that follow. The only writer of session and catalog.
//! - `count`: recorders read the exchange and add to the window, by id; names get into it when it is taken.
//! - `sequence`: what exchanges have to do with those before them, by the values that they share.
//!
//! `pipeline` is that way, `auditor` the thread that goes it. What must add up: `connection::gaps` for the
//! requests of a connection, [`Coverage::check`](cqlens_window::Coverage::check) for every window.
//!
//! There is one auditor in a process, a thread of its own that the data path neither waits for nor wakes.
//! With several, counts of distinct values would only be exact until their windows are merged, and what one
//! client does over all its connections (retries, the pages of a read, the ranges of a full scan) could not
//! be related. What the auditor cannot keep up with the queue leaves out and counts.

mod auditor;
#[cfg(test)]
mod beside_statements;
mod connection;
mod count;
mod effects;
mod exchange;
pub mod failure;
mod key_hash;
mod node_figures;
pub mod observe;
mod once;
mod open_window;
mod pipeline;
#[cfg(test)]
mod random_traffic;
mod sequence;
mod server_stats;
#[cfg(test)]
mod shapes;
mod statement;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod too_long;
mod trace_sample;
#[cfg(test)]
mod transactions;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use auditor::Auditor;
pub use connection::session::ClientAddresses;
pub use count::cells;
pub use count::repeated_values::RepeatedColumns;
pub use count::retries::{Ending, Repeat, RetryDetector};
pub use count::tables::Tables;
use cqlens_proto::envelope::Envelope;
pub use exchange::request_key::RequestKey;
use jiff::Timestamp;
pub use key_hash::{HashKey, HashKeyError};
pub use node_figures::{Histogram, ReadHistograms, TraceEvent};
use observe::Observer;
pub use once::Once;
use open_window::{OpenWindow, lock};
use parking_lot::Mutex;
pub use sequence::SourceLimit;
pub use server_stats::ServerStats;
use tokio::sync::mpsc::Receiver;
pub use trace_sample::TraceSample;
use trace_sample::TraceSampler;

use crate::catalog::Live;
use cqlens_capture::{
    AuditorQueue, Clock, Dropped,
    memory::{self, Memory},
    priority::{CanWait, yield_to_clients},
    pulse::Pulse,
};
use cqlens_window::{Limits, LongestDisagreement, Window};

/// Sees each request before it is counted, or the head of one that is too long to be kept: for commands that
/// show traffic, and for tests. It runs in the auditor's thread: its time is the audit's, and its panic is a
/// failure of the auditor.
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
            "Watch(none)"
        };
        formatter.write_str(state)
    }
}

/// What may be otherwise than by default.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Who sees the requests.
    pub watch: Watch,
    /// Who sees the exchanges.
    pub observer: Observer,
    /// How much of clients' addresses stands in windows and reports.
    pub client_addresses: ClientAddresses,
    /// How much the window that is being filled holds.
    pub limits: Limits,
    /// How many sources of operations are sampled.
    pub sources: SourceLimit,
}

/// The audit of a process: its auditor, and the window that the auditor fills.
#[derive(Debug)]
pub struct Audit {
    queue: AuditorQueue,
    window: Arc<Mutex<OpenWindow>>,
    pulse: Pulse,
    /// None once the auditor has ended, or was left to itself.
    thread: Mutex<Option<JoinHandle<()>>>,
    stop: Arc<AtomicBool>,
    source: Mutex<String>,
    live: Arc<Live>,
    memory: Memory,
}

impl Audit {
    /// Starts the auditor of what comes through `queue`. `source` names the proxy or capture in windows.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        queue: impl Into<AuditorQueue>,
        live: &Arc<Live>,
        key: HashKey,
        source: &str,
        now: Timestamp,
    ) -> std::io::Result<Self> {
        Self::start_with(queue, live, key, source, now, &Options::default())
    }

    /// The same with `options`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start_with(
        queue: impl Into<AuditorQueue>,
        live: &Arc<Live>,
        key: HashKey,
        source: &str,
        now: Timestamp,
        options: &Options,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let memory = live.memory().clone();
        let window = OpenWindow::new(now, source, options.limits, memory.part(memory::Use::Window));
        let window = Arc::new(Mutex::new(window));
        let pulse = Pulse::new(THREAD);
        let queue = queue.into();
        let own = (queue.clone(), Arc::clone(&window), pulse.clone());
        let auditor = Auditor::new(own.0, own.1, own.2, live, key, options);
        let until = Arc::clone(&stop);
        let is_live = matches!(queue, AuditorQueue::Live(_));
        let thread = thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            if is_live {
                yield_to_clients(CanWait::Audit);
            }
            auditor.run(&until);
        })?;
        Ok(Self {
            queue,
            window,
            pulse,
            thread: Mutex::new(Some(thread)),
            stop,
            source: Mutex::new(source.to_owned()),
            live: Arc::clone(live),
            memory,
        })
    }

    /// The auditor's sign of life.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Hands over one of the reads that pass each time that `every` has gone by, for a caller that sends it
    /// again, with tracing, and counts the result with [`ServerStats`]. None where the auditor is stuck.
    pub fn sample(&self, every: Duration) -> Option<Receiver<TraceSample>> {
        let mut window = self.window.try_lock_for(MOMENT)?;
        let (sampler, samples) = TraceSampler::new(every);
        window.sampler = Some(sampler);
        Some(samples)
    }

    /// Takes what the server says of reads beside its answers.
    pub fn server_stats(&self) -> ServerStats {
        ServerStats(Arc::clone(&self.window))
    }

    /// Names the windows that begin from now on after `source`.
    pub fn rename(&self, source: &str) {
        source.clone_into(&mut self.source.lock());
    }

    /// Ends the window that is being filled at `now` and begins the next one. Waits for the auditor, however
    /// long it takes.
    pub fn take_window(&self, now: Timestamp) -> Window {
        let window = lock(&self.window).take(now, &self.source.lock());
        self.close(window, now)
    }

    /// The same, without waiting for the auditor for longer than `patience`: none where it goes on open its
    /// window, which is taken the next time.
    pub fn take_window_within(&self, now: Timestamp, patience: Duration) -> Option<Window> {
        let mut open = self.window.try_lock_for(patience)?;
        let window = open.take(now, &self.source.lock());
        drop(open);
        Some(self.close(window, now))
    }

    fn close(&self, mut window: Window, now: Timestamp) -> Window {
        count_dropped(&mut window, self.queue.take_dropped());
        for (part, count) in self.memory.take_evicted() {
            *window.coverage.evicted.entry(part).or_default() += count;
        }
        let disagreement = self.live.take_schema_disagreement();
        window.schema_disagreement = disagreement.map(|disagreement| LongestDisagreement {
            seconds: disagreement.duration.as_secs(),
            versions: disagreement.versions,
        });
        window.close(now);
        debug_assert_eq!(window.coverage.check(), Ok(()), "every window adds up");
        window
    }

    /// Waits until everything that was captured is counted, ends the auditor, and gives the last window. The
    /// audit counts nothing more.
    pub fn stop(&self, now: Timestamp) -> Window {
        self.end_auditor(Duration::MAX);
        self.take_window(now)
    }

    /// The same, waiting no longer than `patience`: what waits to be counted then is left out, and said in
    /// the window.
    pub fn stop_within(&self, now: Timestamp, patience: Duration) -> Option<Window> {
        let has_ended = self.end_auditor(patience);
        let mut window = self.take_window_within(now, MOMENT);
        let left = self.queue.backlog();
        if let (Some(window), false) = (&mut window, has_ended) {
            window.coverage.dropped_bytes += left.bytes as u64;
            window.coverage.notices.insert(format!(
                "cqlens was stopped before everything was audited: {} bytes of traffic were waiting.",
                left.bytes
            ));
        }
        window
    }

    /// Ends the auditor; false where it still works after `patience`. It is left to itself then.
    fn end_auditor(&self, patience: Duration) -> bool {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.lock().take() else {
            return true;
        };
        let clock = Clock::start();
        let begun = clock.now();
        while !thread.is_finished() {
            if clock.now().since(begun) >= patience {
                return false;
            }
            thread::sleep(CHECK_EVERY);
        }
        if thread.join().is_err() {
            tracing::error!("the auditor has failed; the last window holds what it had counted until then");
        }
        true
    }
}

/// The name of the auditor's thread.
const THREAD: &str = "audit";

/// The auditor unlocks its window after each few captures, which takes it less than this, unless it is stuck.
const MOMENT: Duration = Duration::from_millis(500);

/// How often [`Audit::stop`] checks whether the auditor has ended.
const CHECK_EVERY: Duration = Duration::from_millis(1);

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
