//! The queue as the auditor sees it, whichever traffic comes through it.

use std::{sync::Arc, thread, time::Duration};

use super::{Backlog, Capture, Dropped, Queue, ReplayQueue};

/// What the auditor empties.
#[derive(Debug, Clone)]
pub enum AuditorQueue {
    /// Live traffic, of which chunks may have been left out.
    Live(Arc<Queue>),
    /// Recorded traffic.
    Replay(Arc<ReplayQueue>),
}

impl From<Arc<Queue>> for AuditorQueue {
    fn from(queue: Arc<Queue>) -> Self {
        Self::Live(queue)
    }
}

impl From<Arc<ReplayQueue>> for AuditorQueue {
    fn from(queue: Arc<ReplayQueue>) -> Self {
        Self::Replay(queue)
    }
}

impl AuditorQueue {
    /// Takes up to `most` captures, oldest first, and returns how many there were: fewer only where no more
    /// wait.
    #[inline]
    pub fn take(&self, most: usize, each: impl FnMut(Capture)) -> usize {
        match self {
            Self::Live(queue) => queue.take(most, each),
            Self::Replay(queue) => queue.take(most, each),
        }
    }

    /// Sleeps: nothing wakes the auditor of live traffic, and who waits for it that of recorded traffic.
    pub fn sleep(&self, longest: Duration) {
        match self {
            Self::Live(_) => thread::sleep(longest),
            Self::Replay(queue) => queue.sleep(longest),
        }
    }

    /// How many captures wait.
    pub fn waiting(&self) -> usize {
        match self {
            Self::Live(queue) => queue.waiting(),
            Self::Replay(queue) => queue.waiting(),
        }
    }

    /// How many bytes wait, each capture with what it takes to hold it.
    pub fn waiting_bytes(&self) -> usize {
        match self {
            Self::Live(queue) => queue.waiting_bytes(),
            Self::Replay(queue) => queue.waiting_bytes(),
        }
    }

    /// How much waits now.
    pub fn backlog(&self) -> Backlog {
        match self {
            Self::Live(queue) => queue.backlog(),
            Self::Replay(queue) => queue.backlog(),
        }
    }

    /// What was left out since the last call.
    pub fn take_dropped(&self) -> Dropped {
        match self {
            Self::Live(queue) => queue.take_dropped(),
            Self::Replay(_) => Dropped::default(),
        }
    }
}
