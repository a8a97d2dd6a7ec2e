//! Says at once what happens for the first time, and then every few seconds how often it has happened since.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::timers::sleep;

/// How often something that goes on happening is spoken of.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// Keeps the log readable while the same thing happens thousands of times a second.
#[derive(Debug, Clone, Default)]
pub(super) struct Throttle(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Somebody counts, and speaks when the interval is over.
    counting: bool,
    /// What has happened in this interval without having been said.
    unsaid: u64,
}

impl Throttle {
    /// Whether what has just happened is to be said now. Otherwise `later` says how often it has happened, when the interval is
    /// over.
    pub(super) fn is_new(&self, later: impl Fn(u64) + Send + 'static) -> bool {
        let is_new = self.state().happens();
        if is_new {
            tokio::spawn(self.clone().count(later));
        }
        is_new
    }

    async fn count(self, later: impl Fn(u64)) {
        loop {
            sleep(INTERVAL).await;
            let unsaid = self.state().interval_is_over();
            match unsaid {
                Some(count) => later(count),
                None => return,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds it can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether this is the first time.
    fn happens(&mut self) -> bool {
        if self.counting {
            self.unsaid += 1;
            return false;
        }
        self.counting = true;
        true
    }

    /// What has happened since; none ends the counting.
    fn interval_is_over(&mut self) -> Option<u64> {
        let unsaid = std::mem::take(&mut self.unsaid);
        self.counting = unsaid > 0;
        self.counting.then_some(unsaid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_at_once_and_the_others_are_counted() {
        let mut state = State::default();
        assert!(state.happens());
        assert!(!state.happens());
        assert!(!state.happens());
        assert_eq!(state.interval_is_over(), Some(2));
        // Still going on: counted for another interval.
        assert!(!state.happens());
        assert_eq!(state.interval_is_over(), Some(1));
        // A whole interval of quiet: the next one is new.
        assert_eq!(state.interval_is_over(), None);
        assert!(state.happens());
    }
}
