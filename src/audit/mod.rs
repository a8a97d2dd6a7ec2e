//! From captures to windows: each auditor takes what waits in its line, matches requests with responses, and counts.
//!
//! Auditors are threads of their own that the data path neither waits for nor wakes. What they cannot keep up with is
//! left out by the queue, and counted.

mod analysis;
mod bounded;
mod budget;
mod cells;
mod clients;
mod connection;
mod deferred;
mod exchange;
mod failure;
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
mod repeats;
mod row_keys;
mod sample;
mod session;
mod sweeps;
#[cfg(test)]
mod testing;
mod told;
mod warning;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use analysis::Analyses;
use budget::Budget;
pub use cells::{Cells, Use};
use clients::ClientCounts;
use connection::ConnectionState;
use cqlens_proto::envelope::Envelope;
use deferred::{Deferred, Waiting};
use exchange::{Exchange, Interpreter};
pub use footprint::{Count, Footprint, Key, Keys, Pushed};
pub use identity::Identity;
use jiff::Timestamp;
pub use key_hash::{HashKey, HashKeyError};
use load::{Holders, NodeCounts};
pub use once::Once;
use pair::{Found, Missing, Pair};
use record::Recorder;
pub use repeats::{Ending, Repeat, Repeats};
use row_keys::RowKeys;
use rustc_hash::FxHashMap;
pub use sample::Sample;
use sample::Sampler;
pub use session::ClientAddresses;
use session::Session;
use tokio::sync::mpsc::Receiver;
pub use told::Told;

use crate::{
    capture::{Capture, Clock, ConnectionId, Dropped, Moment, Queue},
    catalog::Live,
    window::{Coverage, NodeReads, TableName, Window},
};

/// How long an auditor sleeps at most: an idle proxy costs nothing, and one that is not busy is audited many requests at a time, with what
/// they all need at hand.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// How long it sleeps at least, where much comes: the queue does not fill meanwhile.
const SHORTEST_NAP: Duration = Duration::from_millis(5);

/// Bytes after a nap that are so many that the next one is shorter, and so few that it is longer: as much as stays in a processor's cache.
const MANY: usize = 1 << 20;
const FEW: usize = 256 << 10;

/// Time between two looks for connections that have ended, and for requests that wait for long.
const SWEEP: Duration = Duration::from_millis(500);

/// How many captures an auditor takes before it lets others have the window.
const BATCH: usize = 256;

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
            let window = Arc::new(Mutex::new(Filling::new(now, source)));
            let auditor = Auditor {
                line,
                queue: Arc::clone(&audit.queue),
                window: Arc::clone(&window),
                connections: FxHashMap::default(),
                counter: Counter::new(Arc::clone(live), key, options.watch.clone()),
                budget: Budget::default(),
                shown: options.client_addresses,
                at_hand: None,
                ended: 0,
            };
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

/// The window that an auditor fills, and what of it has its names only when it is taken.
#[derive(Debug)]
struct Filling {
    window: Window,
    nodes: NodeCounts,
    clients: ClientCounts,
    /// Requests that are counted in windows that were taken.
    taken: u64,
    /// Where reads are sampled.
    sampler: Option<Sampler>,
    /// What nodes have told of their reads since the window began.
    node_reads: BTreeMap<TableName, NodeReads>,
}

impl Filling {
    fn new(now: Timestamp, source: &str) -> Self {
        Self {
            window: Window::new(now, source),
            nodes: NodeCounts::default(),
            clients: ClientCounts::default(),
            taken: 0,
            sampler: None,
            node_reads: BTreeMap::new(),
        }
    }

    /// All requests that have been counted.
    fn counted(&self) -> u64 {
        let coverage = &self.window.coverage;
        self.taken + coverage.audited + coverage.dropped + coverage.undecoded
    }

    /// The window so far; the next one begins at `now`.
    fn take(&mut self, now: Timestamp, source: &str) -> Window {
        self.nodes.pour(&mut self.window.load);
        self.clients.pour(&mut self.window);
        // Of tables that nobody reads here there is nothing to say.
        for (name, told) in std::mem::take(&mut self.node_reads) {
            if let Some(table) = self.window.tables.get_mut(&name) {
                table.node_reads = Some(told);
            }
        }
        self.taken = self.counted();
        std::mem::replace(&mut self.window, Window::new(now, source))
    }
}

/// One thread's share of the connections.
struct Auditor {
    line: usize,
    queue: Arc<Queue>,
    window: Arc<Mutex<Filling>>,
    connections: FxHashMap<ConnectionId, ConnectionState>,
    counter: Counter,
    /// For what is kept of connections.
    budget: Budget,
    /// How much of their addresses is shown.
    shown: ClientAddresses,
    /// The connection of which something is being looked at.
    at_hand: Option<ConnectionId>,
    /// Requests of connections that have ended.
    ended: u64,
}

impl Auditor {
    /// Works until `stop`. A panic costs the connection at hand its place and the requests that were in flight on it.
    fn run(mut self, stop: &AtomicBool) {
        let mut said = BTreeSet::new();
        while let Err(failure) = failure::guard(|| self.work(stop)) {
            failure.say(self.line, &mut said);
            self.recover();
        }
    }

    /// Goes on without what a panic may have left half-done: the state of the connection at hand, and all that exchanges are
    /// compared with. What was being looked at is not looked at again.
    fn recover(&mut self) {
        if let Some(id) = self.at_hand.take()
            && let Some(state) = self.connections.remove(&id)
        {
            self.connections.insert(id, state.afresh());
        }
        self.counter.begin_anew();
        let states = self.connections.values();
        let (known, waiting) = states.fold((self.ended, 0), |(known, waiting), state| {
            (known + state.known(), waiting + state.waiting())
        });
        let waiting = waiting + self.counter.deferred.len();
        let mut filling = lock(&self.window);
        // What is known of and neither waits nor is counted was lost with the panic.
        let lost = known.saturating_sub(filling.counted() + waiting as u64);
        let coverage = &mut filling.window.coverage;
        coverage.auditor_failures += 1;
        coverage.undecoded += lost;
    }

    fn work(&mut self, stop: &AtomicBool) {
        let mut swept = self.counter.clock.now();
        let mut nap = SHORTEST_NAP;
        loop {
            // Read before the line is emptied: what was captured before the end is counted.
            let last = stop.load(Ordering::Acquire);
            let bytes = self.queue.waiting_bytes(self.line);
            self.drain_present();
            let now = self.counter.clock.now();
            if last || now.since(swept) >= SWEEP {
                swept = now;
                self.end_closed(last);
                self.connections.values_mut().for_each(ConnectionState::detach);
            }
            self.count_deferred();
            if last && self.counter.deferred.is_empty() {
                self.counter.recorder.end(&mut lock(&self.window).window);
                return;
            }
            nap = match bytes {
                MANY.. => (nap / 2).max(SHORTEST_NAP),
                FEW.. => nap,
                _ => (nap * 2).min(LONGEST_NAP),
            };
            if self.queue.waiting_bytes(self.line) < MANY {
                thread::sleep(nap);
            }
        }
    }

    /// Looks again at what was not clear before.
    fn count_deferred(&mut self) {
        let now = self.counter.clock.now();
        for waiting in self.counter.deferred.take(now) {
            self.counter.count_again(&mut lock(&self.window), waiting, now);
        }
    }

    /// Counts the captures that wait now, not those that come meanwhile: an auditor that is behind has other things to do, too.
    fn drain_present(&mut self) {
        let mut left = self.queue.waiting(self.line);
        while left > 0 {
            let taken = self.drain();
            left = if taken == BATCH {
                left.saturating_sub(taken)
            } else {
                0
            };
        }
    }

    /// Counts up to [`BATCH`] captures; how many there were.
    fn drain(&mut self) -> usize {
        let window = Arc::clone(&self.window);
        let mut window = lock(&window);
        let mut taken = 0;
        while taken < BATCH
            && let Some(capture) = self.queue.pop(self.line)
        {
            self.take(capture, &mut window);
            taken += 1;
        }
        self.at_hand = None;
        taken
    }

    fn take(&mut self, capture: Capture, filling: &mut Filling) {
        let connection = Arc::clone(&capture.connection);
        self.at_hand = Some(connection.id);
        let state = self
            .connections
            .entry(connection.id)
            .or_insert_with(|| ConnectionState::new(connection, self.budget.clone(), self.shown));
        let counter = &mut self.counter;
        state.take(capture, |session, found| counter.count(filling, session, found));
    }

    /// Forgets connections that are closed and whose captures have all been taken.
    fn end_closed(&mut self, all: bool) {
        // Closed is read before the line is found empty, so that nothing of the connection can still be in it.
        let ended: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, state)| all || state.is_closed())
            .map(|(id, _)| *id)
            .collect();
        if ended.is_empty() {
            return;
        }
        self.drain_present();
        let window = Arc::clone(&self.window);
        let mut window = lock(&window);
        for id in ended {
            if let Some(mut state) = self.connections.remove(&id) {
                let counter = &mut self.counter;
                let missing = state.missing_at_end();
                self.ended += state.known();
                state.end(missing, |session, found| {
                    counter.count(&mut window, session, found)
                });
            }
        }
    }
}

/// Adds what is found on connections to windows.
struct Counter {
    live: Arc<Live>,
    watch: Watch,
    /// For what waits; exchanges have the data path's times.
    clock: Clock,
    interpreter: Interpreter,
    recorder: Recorder,
    deferred: Deferred,
}

impl Counter {
    fn new(live: Arc<Live>, key: HashKey, watch: Watch) -> Self {
        Self {
            clock: Clock::start(),
            interpreter: Interpreter {
                key,
                analyses: Analyses::new(Arc::clone(&live)),
                keys: Keys::new(),
                cells: Cells::new(key),
                row_keys: RowKeys::new(Arc::clone(&live), key),
                holders: Holders::new(Arc::clone(&live)),
            },
            recorder: Recorder::new(key),
            deferred: Deferred::default(),
            live,
            watch,
        }
    }

    /// Forgets everything but the exchanges that wait.
    fn begin_anew(&mut self) {
        let fresh = Self::new(Arc::clone(&self.live), self.interpreter.key, self.watch.clone());
        let before = std::mem::replace(self, fresh);
        self.deferred = before.deferred;
        // They wait since a moment of that clock.
        self.clock = before.clock;
    }

    fn count(&mut self, filling: &mut Filling, session: &mut Session, found: Found) {
        let window = &mut filling.window;
        match found {
            Found::Pair(pair) => self.count_pair(filling, session, pair),
            Found::UndecodedRequest => window.coverage.undecoded += 1,
            Found::Dropped(missing) => count_missing(&mut window.coverage, &missing),
            Found::LostResponse => window.coverage.responses_lost += 1,
        }
    }

    /// Counts a pair, or puts it off where the catalog will know more in a moment.
    fn count_pair(&mut self, filling: &mut Filling, session: &mut Session, pair: Pair) {
        self.watch.see(&pair.request);
        let unclear = self.count_if(filling, session, &pair, |exchange, live| {
            !(live.is_followed() && deferred::may_become_clear(exchange))
        });
        if unclear && let Err(pair) = self.deferred.push(session, pair, self.clock.now()) {
            self.count_if(filling, session, &pair, |_, _| true);
        }
    }

    fn count_again(&mut self, filling: &mut Filling, mut waiting: Waiting, now: Moment) {
        let due = waiting.is_due(now);
        let unclear = self.count_if(filling, &mut waiting.session, &waiting.pair, |exchange, _| {
            due || !deferred::may_become_clear(exchange)
        });
        if unclear {
            self.deferred.keep(waiting);
        }
    }

    /// Counts the exchange if `is_clear` says so, and whether it was not.
    fn count_if(
        &mut self,
        filling: &mut Filling,
        session: &mut Session,
        pair: &Pair,
        is_clear: impl FnOnce(&Exchange<'_>, &Live) -> bool,
    ) -> bool {
        let interpreter = &mut self.interpreter;
        match interpreter.interpret(session, pair) {
            Ok(mut exchange) if is_clear(&exchange, &self.live) => {
                let Filling {
                    window,
                    nodes,
                    clients,
                    sampler,
                    ..
                } = filling;
                let (keys, holders) = (&interpreter.keys, &mut interpreter.holders);
                exchange.routed = nodes.count(&mut window.load, &exchange, keys, holders);
                self.recorder.record(
                    window,
                    &exchange,
                    &interpreter.keys,
                    interpreter.row_keys.hashes(),
                );
                clients.count(window, &exchange);
                if !exchange.refused {
                    interpreter.cells.count(window);
                }
                if let Some(sampler) = sampler {
                    let now = exchange.at;
                    if let Some(analysis) = sampler.prefers(&exchange) {
                        sampler.take(analysis, &pair.request, session, &self.live);
                    }
                    sampler.hand_over(now);
                }
            }
            Ok(_unclear) => return true,
            Err(error) => {
                tracing::debug!(%error, "a request could not be decoded");
                filling.window.coverage.undecoded += 1;
            }
        }
        false
    }
}

fn count_missing(coverage: &mut Coverage, missing: &Missing) {
    coverage.dropped += missing.requests;
    for (opcode, count) in missing.opcodes.iter().filter(|(_, count)| *count > 0) {
        let name = opcode.name().unwrap_or("other").to_owned();
        *coverage.dropped_by_opcode.entry(name).or_default() += u64::from(count);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counters are additions: after a panic the window lacks one exchange at most.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
