//! Keeps the log readable while the same thing happens thousands of times a second: the first line is logged
//! at once, then a count every few seconds.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::runtime::Handle;

use crate::timers::sleep;

/// How often the count is logged while something goes on happening.
pub(crate) const INTERVAL: Duration = Duration::from_secs(10);

/// One kind of message. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Throttle(Arc<Mutex<ThrottleState>>);

#[derive(Debug)]
struct ThrottleState {
    /// How many are logged before the others are only counted.
    most: u64,
    /// A task is waiting for the end of the interval.
    counting: bool,
    logged: u64,
    /// Happened in this interval without being logged.
    suppressed: u64,
}

impl Default for ThrottleState {
    fn default() -> Self {
        Self {
            most: 1,
            counting: false,
            logged: 0,
            suppressed: 0,
        }
    }
}

impl Throttle {
    /// Lets the first few through, where one kind of message has different causes.
    pub fn with_first(most: u64) -> Self {
        Self(Arc::new(Mutex::new(ThrottleState {
            most,
            ..ThrottleState::default()
        })))
    }

    /// Whether the caller is to log what has just happened. If not, `later` logs the count
    /// at the end of the interval.
    pub fn is_new(&self, later: impl Fn(u64) + Send + 'static) -> bool {
        let Ok(runtime) = Handle::try_current() else {
            // Without a runtime, no task could wait for the end of an interval.
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
            let suppressed = self.state().interval_is_over();
            match suppressed {
                Some(count) => later(count),
                None => return,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, ThrottleState> {
        // Nothing that holds it can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThrottleState {
    /// Whether to log this, and whether an interval begins with it.
    fn happens(&mut self) -> (bool, bool) {
        let begins = !std::mem::replace(&mut self.counting, true);
        let is_new = self.logged < self.most;
        if is_new {
            self.logged += 1;
        } else {
            self.suppressed += 1;
        }
        (is_new, begins)
    }

    /// What was suppressed in the interval; none if nothing was, which ends the counting.
    fn interval_is_over(&mut self) -> Option<u64> {
        let suppressed = std::mem::take(&mut self.suppressed);
        if suppressed == 0 {
            self.counting = false;
            self.logged = 0;
            return None;
        }
        Some(suppressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGGED: (bool, bool) = (true, false);
    const COUNTED: (bool, bool) = (false, false);

    #[test]
    fn the_first_is_said_at_once_and_the_others_are_counted() {
        let mut state = ThrottleState::default();
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
        let mut state = ThrottleState {
            most: 2,
            ..ThrottleState::default()
        };
        assert_eq!(state.happens(), (true, true));
        assert_eq!(state.happens(), LOGGED);
        assert_eq!(state.happens(), COUNTED);
        assert_eq!(state.interval_is_over(), Some(1));
        assert_eq!(state.interval_is_over(), None);
        assert_eq!(state.happens(), (true, true));
    }
}
