//! Bounds the memory of held responses, on all connections together.
//!
//! One response is bounded by [`MAX_HELD`], but any number of connections may have one. Its bytes are taken
//! from the budget when its header has come, and given back when it has been written or its connection has
//! ended.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// The longest body that is held, in bytes, as on the wire and decompressed: what ten thousand nodes have in
/// `system.peers`.
pub(super) const MAX_HELD: usize = 16 << 20;

/// The budget in bytes: some hundreds of responses of a cluster with a thousand nodes at once, or four of the
/// longest.
const MAX_HELD_TOGETHER: usize = 256 << 20;

/// How often a response is in memory, at most: in its segments, as their payload, as it is read, as it is
/// written.
const COPIES: usize = 4;

/// Memory for held responses. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct HoldBudget(Arc<Left>);

#[derive(Debug)]
struct Left {
    bytes: AtomicUsize,
    was_full: AtomicBool,
}

/// A part of the budget; dropping it gives it back.
#[derive(Debug)]
pub(super) struct HeldBytes {
    budget: HoldBudget,
    bytes: usize,
}

impl HoldBudget {
    pub(super) fn of(bytes: usize) -> Self {
        Self(Arc::new(Left {
            bytes: AtomicUsize::new(bytes),
            was_full: AtomicBool::new(false),
        }))
    }

    /// The part for a response of this length; none if too little is left, which is logged the first time.
    pub(super) fn take(&self, length: usize) -> Option<HeldBytes> {
        let bytes = length.saturating_mul(COPIES);
        let left = |left: usize| left.checked_sub(bytes);
        let taken = self
            .0
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        if taken.is_ok() {
            let budget = self.clone();
            return Some(HeldBytes { budget, bytes });
        }
        if !self.0.was_full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                length,
                most = MAX_HELD_TOGETHER,
                "too many responses about nodes are pending to hold another one: clients get errors \
                    instead of some"
            );
        }
        None
    }
}

impl Default for HoldBudget {
    fn default() -> Self {
        Self::of(MAX_HELD_TOGETHER)
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.budget.0.bytes.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = HoldBudget::of(COPIES * 10);
        let first = budget.take(6).unwrap();
        assert!(budget.take(5).is_none());
        let second = budget.take(4).unwrap();
        assert!(budget.take(1).is_none() && budget.take(0).is_some());
        drop(first);
        assert!(budget.take(7).is_none() && budget.take(6).is_some());
        drop(second);
        assert!(budget.take(usize::MAX).is_none() && budget.take(10).is_some());
    }
}
