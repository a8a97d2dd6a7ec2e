//! What a rehearsal keeps in memory, counted in bytes of one part of the process's budget: texts, requests, responses and
//! paging states come from clients, from recordings and from another cluster, none of which has a limit of its own.

use std::sync::atomic::{AtomicUsize, Ordering};

use cqlens_capture::memory::Part;

/// The part of a process that has no budget for it, such as a replay.
pub fn separate() -> Part {
    Part::new("rehearsal", 512 << 20)
}

/// What one holder keeps: at most a fraction of the part, and no more than there is room for beside the others.
#[derive(Debug)]
pub(crate) struct Share {
    part: Part,
    limit: usize,
    used: AtomicUsize,
}

impl Share {
    /// At most one of so many equal pieces of the part.
    pub(crate) fn of(part: &Part, pieces: usize) -> Self {
        Self {
            part: part.clone(),
            limit: part.limit() / pieces,
            used: AtomicUsize::new(0),
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether more is kept than may be.
    pub(crate) fn is_over(&self) -> bool {
        self.used() > self.limit || self.part.used() > self.part.limit()
    }

    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) <= self.limit && self.part.has_room_for(bytes)
    }

    pub(crate) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.part.take(bytes);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.part.give_back(bytes);
    }

    /// Counts so many bytes if there is room for them, and what is left out otherwise; whether there was.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        self.take(bytes);
        let fits = !self.is_over();
        if !fits {
            self.give_back(bytes);
            self.count_evicted(1);
        }
        fits
    }

    pub(crate) fn count_evicted(&self, count: usize) {
        self.part.count_evicted(count as u64);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.part.give_back(self.used());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_keep_no_more_than_their_share_and_together_no_more_than_the_part() {
        let part = Part::new("rehearsal", 100);
        let (one, other) = (Share::of(&part, 2), Share::of(&part, 1));
        assert!(one.try_take(50) && !one.try_take(1));
        assert!(other.try_take(50) && !other.try_take(1));
        assert_eq!((part.used(), part.evicted()), (100, 2));
        drop(one);
        assert!(other.try_take(50));
        drop(other);
        assert_eq!(part.used(), 0);
    }
}
