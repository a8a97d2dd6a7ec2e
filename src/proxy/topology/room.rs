//! How much memory answers may take that are held, on all connections together.
//!
//! One answer is bounded by [`MAX_HELD`](super::walk::MAX_HELD), but any number of connections may have one. Room is taken when an answer
//! is announced, and given back when it has been written or its connection has ended.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// What answers that are held may take together, in bytes: some hundreds of a cluster with a thousand nodes at once, four of the longest.
const MAX_HELD_TOGETHER: usize = 256 << 20;

/// How often an answer is in memory, at most: in its segments, as their payload, as it is read, as it is written.
const COPIES: usize = 4;

/// Room for answers. Clones are the same one.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<Left>);

#[derive(Debug)]
struct Left {
    bytes: AtomicUsize,
    was_full: AtomicBool,
}

/// Room that is taken; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Taken {
    room: Room,
    bytes: usize,
}

impl Room {
    pub(super) fn of(bytes: usize) -> Self {
        Self(Arc::new(Left {
            bytes: AtomicUsize::new(bytes),
            was_full: AtomicBool::new(false),
        }))
    }

    /// Room for an answer of this length; none if there is too little left, of which the log tells the first time.
    pub(super) fn take(&self, length: usize) -> Option<Taken> {
        let bytes = length.saturating_mul(COPIES);
        let left = |left: usize| left.checked_sub(bytes);
        let taken = self
            .0
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        if taken.is_ok() {
            let room = self.clone();
            return Some(Taken { room, bytes });
        }
        if !self.0.was_full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                length,
                most = MAX_HELD_TOGETHER,
                "too many answers about nodes are under way at once to hold one more: clients get errors in place of some"
            );
        }
        None
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::of(MAX_HELD_TOGETHER)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.0.bytes.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let room = Room::of(COPIES * 10);
        let first = room.take(6).unwrap();
        assert!(room.take(5).is_none());
        let second = room.take(4).unwrap();
        assert!(room.take(1).is_none() && room.take(0).is_some());
        drop(first);
        assert!(room.take(7).is_none() && room.take(6).is_some());
        drop(second);
        assert!(room.take(usize::MAX).is_none() && room.take(10).is_some());
    }
}
