//! From captures to windows: each auditor takes what waits in its line, matches requests with responses, and counts.
//!
//! Auditors are threads of their own that the data path neither waits for nor wakes. What they cannot keep up with is
//! left out by the queue, and counted.

mod analysis;
mod auditor;
mod bounded;
mod budget;
mod by_table;
pub mod cells;
mod clients;
mod connection;
mod counter;
mod deferred;
mod exchange;
pub mod failure;
mod filling;
mod identity;
mod in_flight;
mod key_hash;
mod load;
mod node_figures;
mod once;
mod pair;
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
#[cfg(test)]
mod too_long;
mod warning;

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
use cqlens_proto::envelope::Envelope;
use filling::{Filling, lock};
pub use identity::Identity;
use jiff::Timestamp;
pub use key_hash::{HashKey, HashKeyError};
pub use node_figures::{Histogram, ReadHistograms, TraceEvent};
pub use once::Once;
use parking_lot::Mutex;
pub use repeats::{Ending, Repeat, Repeats};
pub use sample::Sample;
use sample::Sampler;
pub use session::ClientAddresses;
pub use tables::Tables;
use tokio::sync::mpsc::Receiver;
pub use told::Told;

use crate::{
    capture::{Clock, Dropped, Queue},
    catalog::Live,
    memory::{self, Memory},
    pulse::Pulse,
    window::{Limits, Window},
};

/// Sees each request before it is counted, or the head of one that is too long to be kept: for those who show traffic, and for tests. Runs in the auditor's thread, so what it
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
    auditors: Vec<Working>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stop: Arc<AtomicBool>,
    source: Mutex<String>,
    memory: Memory,
}

/// What an auditor shares with others.
#[derive(Debug)]
struct Working {
    window: Arc<Mutex<Filling>>,
    pulse: Pulse,
}

/// What auditors have counted, as far as they gave it up in time.
#[derive(Debug)]
pub struct Taken {
    /// One window of all that did; none where there is no such auditor.
    pub window: Option<Window>,
    /// Auditors that go on filling theirs: it is taken the next time.
    pub withheld: usize,
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
        let memory = live.memory().clone();
        let (mut auditors, mut threads) = (Vec::new(), Vec::new());
        for line in 0..queue.auditors() {
            let name = format!("audit-{line}");
            let window = Arc::new(Mutex::new(Filling::new(
                now,
                source,
                options.limits,
                memory.part(memory::Use::Window),
            )));
            let pulse = Pulse::new(&name);
            let own = (Arc::clone(&queue), Arc::clone(&window), pulse.clone());
            let auditor = Auditor::new(line, own.0, own.1, own.2, live, key, options);
            let stop = Arc::clone(&stop);
            let thread = thread::Builder::new()
                .name(name)
                .spawn(move || auditor.run(&stop))?;
            threads.push(thread);
            auditors.push(Working { window, pulse });
        }
        Ok(Self {
            queue,
            auditors,
            threads: Mutex::new(threads),
            stop,
            source: Mutex::new(source.to_owned()),
            memory,
        })
    }

    /// The auditors' signs of life.
    pub fn pulses(&self) -> impl Iterator<Item = &Pulse> {
        self.auditors.iter().map(|auditor| &auditor.pulse)
    }

    /// Hands one of the reads that pass over each time that `every` has gone by, for somebody who asks it again, with tracing, and counts
    /// what comes of it with [`Told`]. None where the auditor that would choose them is stuck.
    pub fn sample(&self, every: Duration) -> Option<Receiver<Sample>> {
        // The others' reads have no turn: one auditor sees enough.
        let mut window = self.auditors.first()?.window.try_lock_for(MOMENT)?;
        let (sampler, samples) = Sampler::new(every);
        window.sampler = Some(sampler);
        Some(samples)
    }

    /// Where it is counted what the server tells beside its answers; none where there is no auditor.
    pub fn told(&self) -> Option<Told> {
        self.auditors
            .first()
            .map(|auditor| Told(Arc::clone(&auditor.window)))
    }

    /// Names the windows that begin from now on after `source`.
    pub fn rename(&self, source: &str) {
        source.clone_into(&mut self.source.lock());
    }

    /// Ends the window that is being filled at `now` and begins the next one. Waits for auditors, however long they take.
    pub fn take_window(&self, now: Timestamp) -> Window {
        let taken = self.auditors.iter().map(|auditor| lock(&auditor.window));
        let taken = taken.map(|mut filling| filling.take(now, &self.source.lock()));
        let window = merge(taken).unwrap_or_else(|| Window::new(now, &self.source.lock()));
        self.close(window, now)
    }

    /// The same, without waiting for any auditor for longer than `patience`.
    pub fn take_window_within(&self, now: Timestamp, patience: Duration) -> Taken {
        let mut withheld = 0;
        let taken = self.auditors.iter().filter_map(|auditor| {
            let filling = auditor.window.try_lock_for(patience);
            withheld += usize::from(filling.is_none());
            Some(filling?.take(now, &self.source.lock()))
        });
        let window = merge(taken).map(|window| self.close(window, now));
        Taken { window, withheld }
    }

    fn close(&self, mut window: Window, now: Timestamp) -> Window {
        count_dropped(&mut window, self.queue.take_dropped());
        for (part, count) in self.memory.take_evicted() {
            *window.coverage.evicted.entry(part).or_default() += count;
        }
        window.close(now);
        window
    }

    /// Waits until everything that was captured is counted, ends the auditors, and gives the last window. The audit counts nothing more.
    pub fn stop(&self, now: Timestamp) -> Window {
        self.end_auditors(Duration::MAX);
        self.take_window(now)
    }

    /// The same, waiting no longer than `patience`: what waits to be counted then is left out, and said in the window.
    pub fn stop_within(&self, now: Timestamp, patience: Duration) -> Taken {
        let has_ended = self.end_auditors(patience);
        let mut taken = self.take_window_within(now, MOMENT);
        let left = self.queue.backlog();
        if let (Some(window), false) = (&mut taken.window, has_ended) {
            window.coverage.dropped_bytes += left.bytes as u64;
            window.coverage.notices.insert(format!(
                "cqlens was stopped before everything was audited: {} bytes of traffic were waiting.",
                left.bytes
            ));
        }
        taken
    }

    /// Ends the auditors; false where one of them still works after `patience`. It is left to itself then.
    fn end_auditors(&self, patience: Duration) -> bool {
        self.stop.store(true, Ordering::Release);
        let mut threads = self.threads.lock();
        let clock = Clock::start();
        let begun = clock.now();
        while threads.iter().any(|thread| !thread.is_finished()) {
            if clock.now().since(begun) >= patience {
                threads.clear();
                return false;
            }
            thread::sleep(LOOK);
        }
        for thread in threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(
                    "an auditor has failed; the last window holds what it had counted until then"
                );
            }
        }
        true
    }
}

/// An auditor lets others have its window after each few captures, which takes it less than this, unless it is stuck.
const MOMENT: Duration = Duration::from_millis(500);

/// How often it is looked whether auditors have ended.
const LOOK: Duration = Duration::from_millis(1);

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
