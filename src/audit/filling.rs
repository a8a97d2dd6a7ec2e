//! The window that is being filled.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use super::{clients::ClientCounts, load::NodeCounts, sample::Sampler, tables::Tables};
use crate::window::{NodeReads, TableName, Window};

/// The window that an auditor fills, and what of it has its names only when it is taken.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) window: Window,
    pub(super) nodes: NodeCounts,
    pub(super) clients: ClientCounts,
    pub(super) tables: Tables,
    /// Requests that are counted in windows that were taken.
    taken: u64,
    /// Where reads are sampled.
    pub(super) sampler: Option<Sampler>,
    /// What nodes have told of their reads since the window began.
    pub(super) node_reads: BTreeMap<TableName, NodeReads>,
}

impl Filling {
    pub(super) fn new(now: Timestamp, source: &str) -> Self {
        Self {
            window: Window::new(now, source),
            nodes: NodeCounts::default(),
            clients: ClientCounts::default(),
            tables: Tables::default(),
            taken: 0,
            sampler: None,
            node_reads: BTreeMap::new(),
        }
    }

    /// All requests that have been counted.
    pub(super) fn counted(&self) -> u64 {
        let coverage = &self.window.coverage;
        self.taken + coverage.audited + coverage.dropped + coverage.undecoded
    }

    /// The window so far; the next one begins at `now`.
    pub(super) fn take(&mut self, now: Timestamp, source: &str) -> Window {
        self.nodes.pour(&mut self.window.load);
        self.clients.pour(&mut self.window);
        self.tables.pour(&mut self.window);
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

/// A window, also after a panic of its auditor: counters are additions, so the window lacks one exchange at most.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
