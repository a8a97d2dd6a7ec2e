//! The window that is being filled.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::Timestamp;

use super::{clients::ClientCounts, load::NodeCounts, refusals::Refusals, sample::Sampler, tables::Tables};
use crate::window::{Limits, NodeReads, TableName, Window};

/// The window that an auditor fills, and what of it has its names only when it is taken.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) window: Window,
    pub(super) nodes: NodeCounts,
    pub(super) clients: ClientCounts,
    pub(super) tables: Tables,
    pub(super) refusals: Refusals,
    /// Requests that are counted in windows that were taken.
    taken: u64,
    pub(super) usage: Arc<WindowUsage>,
    /// Patterns and tables that had no room in windows that were taken.
    evicted: u64,
    /// Where reads are sampled.
    pub(super) sampler: Option<Sampler>,
    /// What nodes have told of their reads since the window began.
    pub(super) node_reads: BTreeMap<TableName, NodeReads>,
}

impl Filling {
    pub(super) fn new(now: Timestamp, source: &str, limits: Limits) -> Self {
        Self {
            window: Window::new(now, source).with_limits(limits),
            nodes: NodeCounts::default(),
            clients: ClientCounts::default(),
            tables: Tables::default(),
            refusals: Refusals::default(),
            taken: 0,
            usage: Arc::default(),
            evicted: 0,
            sampler: None,
            node_reads: BTreeMap::new(),
        }
    }

    /// All requests that have been counted.
    pub(super) fn counted(&self) -> u64 {
        let coverage = &self.window.coverage;
        self.taken + coverage.audited + coverage.dropped + coverage.undecoded
    }

    /// Makes room in the window, if there is none for another exchange.
    #[inline]
    pub(super) fn keep_room(&mut self) {
        if self.window.is_full() || self.tables.is_full() {
            self.make_room();
        }
    }

    /// What waits to be named belongs to patterns that are still there.
    #[cold]
    fn make_room(&mut self) {
        self.clients.pour(&mut self.window);
        self.tables.pour(&mut self.window);
        self.window.make_room();
    }

    /// Tells how full the window is.
    pub(super) fn publish(&self) {
        let coverage = &self.window.coverage;
        let evicted = self.evicted + coverage.patterns_evicted + coverage.tables_evicted;
        self.usage.bytes.store(self.window.bytes(), Ordering::Relaxed);
        self.usage.evicted.store(evicted, Ordering::Relaxed);
    }

    /// The window so far; the next one begins at `now`.
    pub(super) fn take(&mut self, now: Timestamp, source: &str) -> Window {
        self.nodes.pour(&mut self.window.load);
        self.clients.pour(&mut self.window);
        self.tables.pour(&mut self.window);
        self.window.make_room();
        self.refusals.tell(&mut self.window.coverage);
        // Of tables that nobody reads here there is nothing to say.
        for (name, told) in std::mem::take(&mut self.node_reads) {
            if let Some(table) = self.window.tables.get_mut(&name) {
                table.node_reads = Some(told);
            }
        }
        self.taken = self.counted();
        let coverage = &self.window.coverage;
        self.evicted += coverage.patterns_evicted + coverage.tables_evicted;
        let next = Window::new(now, source).with_limits(self.window.limits());
        let window = std::mem::replace(&mut self.window, next);
        self.publish();
        window
    }
}

/// How full the window is that is being filled, for those who must not wait for it.
#[derive(Debug, Default)]
pub struct WindowUsage {
    bytes: AtomicU64,
    evicted: AtomicU64,
}

impl WindowUsage {
    /// Bytes that it takes up.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Patterns and tables that had no room, in all windows.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}

/// A window, also after a panic of whoever held it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counters are additions: after a panic the window lacks one exchange at most.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
