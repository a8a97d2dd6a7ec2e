//! When windows begin and end: wall-clock times that never go backwards.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Interval, interval_at};

/// Ticks at the end of each window.
pub(super) fn window_ends(window: Duration) -> Interval {
    interval_at(tokio::time::Instant::now() + window, window)
}

/// Follows the wall clock if it is set forward and stays there. If it is set back, times go on evenly: windows would
/// overlap otherwise, and their snapshots would have the same name. So one that is ahead for a moment must not be
/// followed: all windows from then on would be dated ahead.
#[derive(Debug)]
pub(super) struct WindowClock {
    time: Timestamp,
    at: Instant,
    is_ahead: bool,
    /// When the wall clock was first seen to be ahead, if it still is.
    forward_since: Option<Instant>,
}

impl WindowClock {
    /// A clock that shows `wall` at `now` of the monotonic clock.
    pub(super) fn start(wall: Timestamp, now: Instant) -> Self {
        Self {
            time: wall,
            at: now,
            is_ahead: false,
            forward_since: None,
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
        self.time = match self.is_followed(wall.duration_since(even), now) {
            true => wall.max(even),
            false => even,
        };
        let is_ahead = even.duration_since(wall) > TOLERANCE;
        if is_ahead && !self.is_ahead {
            tracing::warn!(%wall, %even, "\
                the wall clock was set back: windows continue from the earlier time until a restart");
        }
        self.is_ahead = is_ahead;
        passed
    }

    /// Whether a wall clock that is ahead by so much has been for long enough.
    fn is_followed(&mut self, ahead: SignedDuration, now: Instant) -> bool {
        if ahead <= TOLERANCE {
            self.forward_since = None;
            return true;
        }
        let since = *self.forward_since.get_or_insert(now);
        now.saturating_duration_since(since) >= MOMENT
    }
}

/// A wall clock that is set forward is followed after this time.
const MOMENT: Duration = Duration::from_secs(60);

/// Clocks that are kept in step differ by less.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(1);

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
            wall += SignedDuration::from_mins(set);
            assert_eq!(clock.advance(wall, real), minute);
            assert!(clock.time() >= before + minute, "{} after {before}", clock.time());
            before = clock.time();
        }
        assert_eq!(clock.time(), wall, "ahead at last, it follows again");
    }

    #[test]
    fn a_wall_clock_that_is_ahead_for_a_moment_is_not_followed() {
        let start: Timestamp = "2026-11-21T06:00:00Z".parse().unwrap();
        let mut clock = WindowClock::start(start, Instant::now());
        let (begun, hour) = (clock.at, SignedDuration::from_hours(1));
        let mut shown = |seconds: u64, ahead: SignedDuration| {
            let passed = Duration::from_secs(seconds);
            clock.advance(start + passed + ahead, begun + passed);
            clock.time().duration_since(start + passed)
        };
        let none = SignedDuration::ZERO;
        assert_eq!(shown(10, none), none);
        assert_eq!([shown(20, hour), shown(70, hour), shown(75, none)], [none; 3]);
        // Again, and this time it stays.
        assert_eq!([shown(80, hour), shown(130, hour)], [none; 2]);
        assert_eq!([shown(140, hour), shown(150, hour)], [hour; 2]);
    }
}
