//! The auditor's thread: takes what waits in the queue, sleeps, and goes on after a panic.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::audit::{
    HashKey, Options,
    connection::{ConnectionState, budget::Budget, session::ClientAddresses},
    failure,
    open_window::{OpenWindow, lock},
    pipeline::Pipeline,
};
use crate::catalog::Live;
use cqlens_capture::{AuditorQueue, Capture, ConnectionId, Moment, memory::Use, pulse::Pulse};

/// How long the auditor sleeps at most: an idle proxy costs nothing, and one that is not busy is audited many
/// requests at a time, while what they all need is in the processor's cache.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// How long it sleeps at least, where much comes: the queue does not fill meanwhile, and long rows, of which
/// some megabytes pass in this time, are read into memory that is still in a processor's cache.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// From so many bytes after a sleep the next one is shorter, below so few it is longer: as much as stays in a
/// processor's cache.
const MANY: usize = 1 << 20;
const FEW: usize = 256 << 10;

/// How often connections are checked for having ended, and for requests that wait for long.
const CHECK_CONNECTIONS_EVERY: Duration = Duration::from_millis(500);

/// How many captures the auditor takes before it unlocks the window.
const BATCH: usize = 32;

/// How long the auditor works without a pause, and the pause, where little waits. On a machine with few
/// processors a forwarding thread may be waiting for the one that the auditor is on, and the kernel lets the
/// auditor work on for milliseconds.
const QUANTUM: Duration = Duration::from_micros(150);
const PAUSE: Duration = Duration::from_micros(50);

/// The connections, and what is counted of them.
pub(crate) struct Auditor {
    queue: AuditorQueue,
    window: Arc<Mutex<OpenWindow>>,
    /// Beats each time around, and for each batch of captures.
    pulse: Pulse,
    connections: FxHashMap<ConnectionId, ConnectionState>,
    pipeline: Pipeline,
    /// For what is kept of connections.
    budget: Budget,
    /// How much of their addresses is shown.
    shown: ClientAddresses,
    /// The connection whose capture is being taken.
    at_hand: Option<ConnectionId>,
    /// Requests of connections that have ended.
    ended: u64,
}

impl Auditor {
    /// The one that empties `queue` into `window`.
    pub(crate) fn new(
        queue: AuditorQueue,
        window: Arc<Mutex<OpenWindow>>,
        pulse: Pulse,
        live: &Arc<Live>,
        key: HashKey,
        options: &Options,
    ) -> Self {
        Self {
            queue,
            window,
            pulse,
            connections: FxHashMap::default(),
            pipeline: Pipeline::new(
                Arc::clone(live),
                key,
                options.watch.clone(),
                options.observer.clone(),
                options.sources,
            ),
            budget: Budget::of(live.memory().part(Use::Connections)),
            shown: options.client_addresses,
            at_hand: None,
            ended: 0,
        }
    }

    /// Works until `stop`. A panic costs the connection at hand its place and the requests that were in
    /// flight on it.
    pub(crate) fn run(mut self, stop: &AtomicBool) {
        let mut said = BTreeSet::new();
        while let Err(failure) = failure::guard(|| self.work(stop)) {
            failure.say(&mut said);
            self.recover();
        }
    }

    /// Goes on without what a panic may have left half-done: the state of the connection at hand, and all
    /// that exchanges are compared with. The capture that was being taken is not taken again.
    fn recover(&mut self) {
        if let Some(id) = self.at_hand.take()
            && let Some(state) = self.connections.remove(&id)
        {
            self.connections.insert(id, state.afresh());
        }
        let states = self.connections.values();
        let (known, waiting) = states.fold((self.ended, 0), |(known, waiting), state| {
            (known + state.known(), waiting + state.waiting())
        });
        let waiting = waiting + self.pipeline.deferred.len();
        let mut open = lock(&self.window);
        self.pipeline.begin_anew(&mut open);
        // What is known of and neither waits nor is counted was lost with the panic.
        let lost = known.saturating_sub(open.counted() + waiting as u64);
        let coverage = &mut open.window.coverage;
        coverage.auditor_failures += 1;
        coverage.undecoded += lost;
    }

    fn work(&mut self, stop: &AtomicBool) {
        let mut checked = self.pipeline.clock.now();
        let mut sleep = SHORTEST_SLEEP;
        loop {
            // Read before the queue is emptied: what was captured before the end is counted.
            let last = stop.load(Ordering::Acquire);
            self.pulse.beat();
            let bytes = self.queue.waiting_bytes();
            self.drain_present();
            let now = self.pipeline.clock.now();
            if last || now.since(checked) >= CHECK_CONNECTIONS_EVERY {
                checked = now;
                self.end_closed(last);
                self.connections.values_mut().for_each(ConnectionState::detach);
            }
            self.count_deferred();
            if last && self.pipeline.deferred.is_empty() {
                self.pipeline.end(&mut lock(&self.window));
                return;
            }
            sleep = match bytes {
                MANY.. => (sleep / 2).max(SHORTEST_SLEEP),
                FEW.. => sleep,
                _ => (sleep * 2).min(LONGEST_SLEEP),
            };
            if self.queue.waiting_bytes() < MANY {
                self.queue.sleep(sleep);
            }
        }
    }

    /// Counts what was not clear before, if it is now.
    fn count_deferred(&mut self) {
        let now = self.pipeline.clock.now();
        for waiting in self.pipeline.take_deferred(now) {
            self.pipeline.count_again(&mut lock(&self.window), waiting, now);
        }
    }

    /// Counts the captures that wait now, not those that come meanwhile: an auditor that is behind has other
    /// work, too.
    fn drain_present(&mut self) {
        let mut left = self.queue.waiting();
        let mut began = self.pipeline.clock.now();
        while left > 0 {
            let taken = self.drain();
            if taken < BATCH {
                return;
            }
            left = left.saturating_sub(taken);
            self.pause_if_due(&mut began);
        }
    }

    /// Pauses if it is time for that and little waits: where much does, the kernel shares the processor out
    /// well enough.
    fn pause_if_due(&self, began: &mut Moment) {
        let now = || self.pipeline.clock.now();
        if now().since(*began) >= QUANTUM && self.queue.waiting_bytes() < MANY {
            thread::sleep(PAUSE);
            *began = now();
        }
    }

    /// Counts up to [`BATCH`] captures; how many there were.
    fn drain(&mut self) -> usize {
        self.pulse.beat();
        let (window, queue) = (Arc::clone(&self.window), self.queue.clone());
        let mut window = lock(&window);
        let taken = queue.take(BATCH, |capture| self.take(capture, &mut window));
        self.pipeline.settle(&mut window);
        self.at_hand = None;
        taken
    }

    #[inline]
    fn take(&mut self, capture: Capture, open: &mut OpenWindow) {
        let id = capture.connection.id;
        self.at_hand = Some(id);
        let state = match self.connections.get_mut(&id) {
            Some(state) => state,
            None => self.connections.entry(id).or_insert_with(|| {
                ConnectionState::new(Arc::clone(&capture.connection), self.budget.clone(), self.shown)
            }),
        };
        let pipeline = &mut self.pipeline;
        state.take(capture, |session, found| pipeline.count(open, session, found));
    }

    /// Forgets connections that are closed and whose captures have all been taken.
    fn end_closed(&mut self, all: bool) {
        // Closed is read before the queue is found empty, so that nothing of the connection can still be in
        // it.
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
                let pipeline = &mut self.pipeline;
                let missing = state.missing_at_end();
                self.ended += state.known();
                state.end(missing, |session, found| {
                    pipeline.count(&mut window, session, found)
                });
            }
        }
        self.pipeline.settle(&mut window);
    }
}
