//! The window that is being filled.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use crate::audit::{
    count::{
        clients::ClientCounts, nodes::NodeCounts, open_connections::OpenConnections, refusals::Refusals,
        tables::Tables,
    },
    trace_sample::TraceSampler,
};
use cqlens_capture::memory::Part;
use cqlens_cql::schema::TableName;
use cqlens_window::{Limits, NodeReads, Window};

/// The window that an auditor fills, and what of it has its names only when it is taken.
#[derive(Debug)]
pub(crate) struct OpenWindow {
    pub(crate) window: Window,
    pub(crate) nodes: NodeCounts,
    pub(crate) clients: ClientCounts,
    pub(crate) tables: Tables,
    /// Stays from window to window.
    pub(crate) connections: OpenConnections,
    pub(crate) refusals: Refusals,
    /// Requests that are counted in windows that were taken.
    taken: u64,
    /// What the window takes up counts there.
    memory: Part,
    /// Bytes of it that are counted in `memory`, and patterns and tables that had no room.
    published: (usize, u64),
    /// Where reads are sampled.
    pub(crate) sampler: Option<TraceSampler>,
    /// The nodes' own figures of their reads since the window began.
    pub(crate) node_reads: BTreeMap<TableName, NodeReads>,
}

impl OpenWindow {
    pub(crate) fn new(now: Timestamp, source: &str, limits: Limits, memory: Part) -> Self {
        Self {
            window: Window::new(now, source).with_limits(limits),
            nodes: NodeCounts::default(),
            clients: ClientCounts::default(),
            tables: Tables::default(),
            connections: OpenConnections::default(),
            refusals: Refusals::default(),
            taken: 0,
            memory,
            published: (0, 0),
            sampler: None,
            node_reads: BTreeMap::new(),
        }
    }

    /// All requests that have been counted.
    pub(crate) fn counted(&self) -> u64 {
        let coverage = &self.window.coverage;
        self.taken + coverage.audited + coverage.dropped + coverage.undecoded
    }

    /// Makes room in the window, if there is none for another exchange.
    #[inline]
    pub(crate) fn keep_room(&mut self) {
        if self.window.is_full() || self.tables.is_full() {
            self.make_room();
        }
    }

    /// Ids of statements and tables mean others from now on.
    #[cold]
    pub(crate) fn forget_ids(&mut self) {
        self.clients.flush_into(&mut self.window);
        self.tables.forget_ids();
    }

    /// What waits to be named belongs to patterns that are still there.
    #[cold]
    fn make_room(&mut self) {
        self.clients.flush_into(&mut self.window);
        self.tables.flush_into(&mut self.window);
        self.window.make_room();
    }

    /// Counts what the window takes up now, and what had no room in it.
    pub(crate) fn publish(&mut self) {
        let coverage = &self.window.coverage;
        let evicted = coverage.patterns_evicted + coverage.tables_evicted;
        let bytes = usize::try_from(self.window.bytes()).unwrap_or(usize::MAX);
        let (bytes_before, evicted_before) = std::mem::replace(&mut self.published, (bytes, evicted));
        self.memory.take(bytes);
        self.memory.give_back(bytes_before);
        self.memory.count_evicted(evicted.saturating_sub(evicted_before));
    }

    /// The window so far; the next one begins at `now`.
    pub(crate) fn take(&mut self, now: Timestamp, source: &str) -> Window {
        self.nodes.flush_into(&mut self.window.load);
        self.clients.flush_into(&mut self.window);
        self.tables.flush_into(&mut self.window);
        self.window.make_room();
        self.refusals.tell(&mut self.window.coverage);
        // Only of tables that are read here.
        for (name, told) in std::mem::take(&mut self.node_reads) {
            if let Some(table) = self.window.tables.get_mut(&name) {
                table.node_reads = Some(told);
            }
        }
        self.taken = self.counted();
        self.publish();
        let mut next = Window::new(now, source).with_limits(self.window.limits());
        self.connections.note_in(&mut next);
        let window = std::mem::replace(&mut self.window, next);
        self.published.1 = 0;
        self.publish();
        window
    }
}

/// A window, also after a panic of its auditor: counters are additions, so the window lacks one exchange at
/// most.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
