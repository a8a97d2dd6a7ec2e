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

use super::{
    HashKey, Options,
    budget::Budget,
    connection::ConnectionState,
    counter::Counter,
    failure,
    filling::{Filling, lock},
    session::ClientAddresses,
};
use crate::{
    capture::{Capture, ConnectionId, Moment, Queue},
    catalog::Live,
    memory::Use,
    pulse::Pulse,
};

/// How long an auditor sleeps at most: an idle proxy costs nothing, and one that is not busy is audited many requests at a time, with what
/// they all need at hand.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// How long it sleeps at least, where much comes: the queue does not fill meanwhile, and long rows, of which some megabytes pass in this time,
/// are read into memory that is still in a processor's cache.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// Bytes after a nap that are so many that the next one is shorter, and so few that it is longer: as much as stays in a processor's cache.
const MANY: usize = 1 << 20;
const FEW: usize = 256 << 10;

/// Time between two looks for connections that have ended, and for requests that wait for long.
const SWEEP: Duration = Duration::from_millis(500);

/// How many captures an auditor takes before it lets others have the window.
const BATCH: usize = 32;

/// How long an auditor works without a break, and the break, where little waits. On a machine with few processors somebody may be
/// waiting for the one that it is on, and the kernel lets it work on for milliseconds.
const TURN: Duration = Duration::from_micros(150);
const BREAK: Duration = Duration::from_micros(50);

/// The connections, and what is counted of them.
pub(super) struct Auditor {
    line: usize,
    queue: Arc<Queue>,
    window: Arc<Mutex<Filling>>,
    /// Beats each time around, and for each batch of captures.
    pulse: Pulse,
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
    /// The one that empties `queue` into `window`.
    pub(super) fn new(
        queue: Arc<Queue>,
        window: Arc<Mutex<Filling>>,
        pulse: Pulse,
        live: &Arc<Live>,
        key: HashKey,
        options: &Options,
    ) -> Self {
        Self {
            line: 0,
            queue,
            window,
            pulse,
            connections: FxHashMap::default(),
            counter: Counter::new(Arc::clone(live), key, options.watch.clone()),
            budget: Budget::of(live.memory().part(Use::Connections)),
            shown: options.client_addresses,
            at_hand: None,
            ended: 0,
        }
    }

    /// Works until `stop`. A panic costs the connection at hand its place and the requests that were in flight on it.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        let mut said = BTreeSet::new();
        while let Err(failure) = failure::guard(|| self.work(stop)) {
            failure.say(&mut said);
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
        let states = self.connections.values();
        let (known, waiting) = states.fold((self.ended, 0), |(known, waiting), state| {
            (known + state.known(), waiting + state.waiting())
        });
        let waiting = waiting + self.counter.deferred.len();
        let mut filling = lock(&self.window);
        self.counter.begin_anew(&mut filling);
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
            self.pulse.beat();
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
                self.counter.end(&mut lock(&self.window));
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
        for waiting in self.counter.take_deferred(now) {
            self.counter.count_again(&mut lock(&self.window), waiting, now);
        }
    }

    /// Counts the captures that wait now, not those that come meanwhile: an auditor that is behind has other things to do, too.
    fn drain_present(&mut self) {
        let mut left = self.queue.waiting(self.line);
        let mut turn_began = self.counter.clock.now();
        while left > 0 {
            let taken = self.drain();
            if taken < BATCH {
                return;
            }
            left = left.saturating_sub(taken);
            self.give_way(&mut turn_began);
        }
    }

    /// Makes a break if it is time for one and little waits: where much does, the kernel shares the processor out well enough.
    fn give_way(&self, turn_began: &mut Moment) {
        let now = || self.counter.clock.now();
        if now().since(*turn_began) >= TURN && self.queue.waiting_bytes(self.line) < MANY {
            thread::sleep(BREAK);
            *turn_began = now();
        }
    }

    /// Counts up to [`BATCH`] captures; how many there were.
    fn drain(&mut self) -> usize {
        self.pulse.beat();
        let (window, queue) = (Arc::clone(&self.window), Arc::clone(&self.queue));
        let mut window = lock(&window);
        let taken = queue.take(self.line, BATCH, |capture| self.take(capture, &mut window));
        self.counter.settle(&mut window);
        self.at_hand = None;
        taken
    }

    #[inline]
    fn take(&mut self, capture: Capture, filling: &mut Filling) {
        let id = capture.connection.id;
        self.at_hand = Some(id);
        let state = match self.connections.get_mut(&id) {
            Some(state) => state,
            None => self.connections.entry(id).or_insert_with(|| {
                ConnectionState::new(Arc::clone(&capture.connection), self.budget.clone(), self.shown)
            }),
        };
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
        self.counter.settle(&mut window);
    }
}
