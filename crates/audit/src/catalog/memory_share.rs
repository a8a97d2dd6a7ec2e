//! What one holder has of a part that several share.

use std::sync::atomic::{AtomicUsize, Ordering};

use cqlens_capture::memory::Part;

/// One holder's bytes; they are given back when it is dropped.
#[derive(Debug)]
pub(super) struct MemoryShare {
    part: Part,
    limit: usize,
    bytes: AtomicUsize,
}

impl MemoryShare {
    /// At most so many eighths of a part.
    pub(super) fn of(part: Part, eighths: usize) -> Self {
        Self {
            limit: part.limit() / 8 * eighths,
            part,
            bytes: AtomicUsize::new(0),
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes().saturating_add(bytes) <= self.limit
    }

    /// How many bytes more there is room for.
    pub(super) fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes())
    }

    pub(super) fn take(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.part.take(bytes);
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.part.give_back(bytes);
    }

    /// So many bytes, instead of those before.
    pub(super) fn set(&self, bytes: usize) {
        self.part.take(bytes);
        self.part.give_back(self.bytes.swap(bytes, Ordering::Relaxed));
    }

    /// Counts something for which there was no room.
    pub(super) fn count_evicted(&self) {
        self.part.count_evicted(1);
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.part.give_back(self.bytes());
    }
}
