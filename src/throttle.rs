//! Keeps the log readable while the same thing happens thousands of times a second: says the first of it at once, and then every few
//! seconds how often it has happened since.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::runtime::Handle;

use crate::timers::sleep;

/// How often something that goes on happening is spoken of.
pub(crate) const INTERVAL: Duration = Duration::from_secs(10);

/// One kind of message. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Throttle(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// How many are said before the others are only counted.
    most: u64,
    /// A task counts, and speaks when the interval is over.
    counting: bool,
    said: u64,
    /// What has happened in this interval without having been said.
    unsaid: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            most: 1,
            counting: false,
            said: 0,
            unsaid: 0,
        }
    }
}

impl Throttle {
    /// Says the first few, where one kind of message has different causes.
    pub(crate) fn of_first(most: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            most,
            ..State::default()
        })))
    }

    /// Whether what has just happened is to be said now. Otherwise `later` says how often it has happened, when the interval is
    /// over.
    pub(crate) fn is_new(&self, later: impl Fn(u64) + Send + 'static) -> bool {
        let Ok(runtime) = Handle::try_current() else {
            // Nothing could tell when an interval is over.
            return true;
        };
        let (is_new, begins) = self.state().happens();
        if begins {
            runtime.spawn(self.clone().count(later));
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
    /// Whether this is to be said, and whether counting begins with it.
    fn happens(&mut self) -> (bool, bool) {
        let begins = !std::mem::replace(&mut self.counting, true);
        let is_new = self.said < self.most;
        if is_new {
            self.said += 1;
        } else {
            self.unsaid += 1;
        }
        (is_new, begins)
    }

    /// What has happened since without being said; none ends the counting.
    fn interval_is_over(&mut self) -> Option<u64> {
        let unsaid = std::mem::take(&mut self.unsaid);
        if unsaid == 0 {
            self.counting = false;
            self.said = 0;
            return None;
        }
        Some(unsaid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: (bool, bool) = (true, false);
    const COUNTED: (bool, bool) = (false, false);

    #[test]
    fn the_first_is_said_at_once_and_the_others_are_counted() {
        let mut state = State::default();
        assert_eq!(state.happens(), (true, true));
        assert_eq!(state.happens(), COUNTED);
        assert_eq!(state.happens(), COUNTED);
        assert_eq!(state.interval_is_over(), Some(2));
        // Still going on: counted for another interval.
        assert_eq!(state.happens(), COUNTED);
        assert_eq!(state.interval_is_over(), Some(1));
        // A whole interval of quiet: the next one is new.
        assert_eq!(state.interval_is_over(), None);
        assert_eq!(state.happens(), (true, true));
    }

    #[test]
    fn a_few_may_be_said_before() {
        let mut state = State {
            most: 2,
            ..State::default()
        };
        assert_eq!(state.happens(), (true, true));
        assert_eq!(state.happens(), SAID);
        assert_eq!(state.happens(), COUNTED);
        assert_eq!(state.interval_is_over(), Some(1));
        assert_eq!(state.interval_is_over(), None);
        assert_eq!(state.happens(), (true, true));
    }
}
