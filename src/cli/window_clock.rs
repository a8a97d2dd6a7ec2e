//! When windows begin and end: wall-clock times that never go backwards.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::time::{Interval, interval_at};

/// Ticks at the end of each window.
pub(super) fn window_ends(window: Duration) -> Interval {
    interval_at(tokio::time::Instant::now() + window, window)
}

/// Follows the wall clock where it is set forward. Where it is set back, times go on evenly: windows would
/// overlap otherwise, and their snapshots would have the same name.
#[derive(Debug)]
pub(super) struct WindowClock {
    time: Timestamp,
    at: Instant,
    is_ahead: bool,
}

impl WindowClock {
    /// A clock that shows `wall` at `now` of the monotonic clock.
    pub(super) fn start(wall: Timestamp, now: Instant) -> Self {
        Self {
            time: wall,
            at: now,
            is_ahead: false,
        }
    }

    /// What it shows.
    pub(super) fn time(&self) -> Timestamp {
        self.time
    }

    /// Moves on; how much time has really passed.
    pub(super) fn advance(&mut self, wall: Timestamp, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.at);
        let even = self.time.checked_add(passed).unwrap_or(Timestamp::MAX);
        self.at = now;
        self.time = wall.max(even);
        let is_ahead = even.duration_since(wall) > TOLERANCE;
        if is_ahead && !self.is_ahead {
            tracing::warn!(%wall, %even, "\
                the wall clock was set back: windows continue from the earlier time until a restart");
        }
        self.is_ahead = is_ahead;
        passed
    }
}

/// Clocks that are kept in step differ by less.
const TOLERANCE: jiff::SignedDuration = jiff::SignedDuration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_never_go_back_and_what_has_passed_is_told_whatever_the_wall_clock_does() {
        let start: Timestamp = "2026-11-21T06:00:00Z".parse().unwrap();
        let mut clock = WindowClock::start(start, Instant::now());
        let mut real = clock.at;
        // Minutes by which the wall clock is set in each minute.
        let mut wall = start;
        let mut before = start;
        for set in [0_i64, 0, 60, 0, -120, 0, 0, -1, 300, 0] {
            let minute = Duration::from_secs(60);
            real += minute;
            wall += minute;
            wall += jiff::SignedDuration::from_mins(set);
            assert_eq!(clock.advance(wall, real), minute);
            assert!(clock.time() >= before + minute, "{} after {before}", clock.time());
            assert!(clock.time() >= wall);
            before = clock.time();
        }
        assert_eq!(clock.time(), wall, "ahead at last, it follows again");
    }
}
