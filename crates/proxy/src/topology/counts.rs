//! What rewriting has done, and what it could not do, on all connections together.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::throttle::Throttle;

/// What rewriting has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Answers and events in which addresses were replaced.
    pub rewritten: u64,
    /// Rows of nodes that had no listener in time.
    pub rows_left_out: u64,
    /// Events about nodes that had no listener in time.
    pub events_left_out: u64,
    /// Answers that may show the address of a node, in a form that is not rewritten.
    pub may_have_leaked: u64,
    /// Answers in whose place clients got an error: too long to be rewritten, or not to be read.
    pub refused: u64,
}

/// [`Counts`] that all connections add to.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) rewritten: AtomicU64,
    pub(super) rows_left_out: AtomicU64,
    pub(super) events_left_out: AtomicU64,
    pub(super) may_have_leaked: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Of what the log says of nodes that have no listener in time.
    pub(super) node_missing: Throttle,
    /// Of what it says of their events.
    pub(super) event_left_out: Throttle,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            rewritten: AtomicU64::default(),
            rows_left_out: AtomicU64::default(),
            events_left_out: AtomicU64::default(),
            may_have_leaked: AtomicU64::default(),
            refused: AtomicU64::default(),
            node_missing: Throttle::with_first(NODES),
            event_left_out: Throttle::with_first(NODES),
        }
    }
}

/// The log names some nodes before it only counts them.
const NODES: u64 = 16;

impl Counters {
    pub(super) fn read(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            rewritten: of(&self.rewritten),
            rows_left_out: of(&self.rows_left_out),
            events_left_out: of(&self.events_left_out),
            may_have_leaked: of(&self.may_have_leaked),
            refused: of(&self.refused),
        }
    }

    /// Adds to one of them; true for the first that it counts, of which the log tells.
    pub(super) fn add(counter: &AtomicU64, more: usize) -> bool {
        counter.fetch_add(more as u64, Ordering::Relaxed) == 0
    }
}
