//! When windows begin and end: by the wall clock, but for moments in which it is set wrongly.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Interval, interval_at};

/// Ticks at the end of each window.
pub(super) fn window_ends(window: Duration) -> Interval {
    interval_at(tokio::time::Instant::now() + window, window)
}

/// Follows the wall clock if it is set forward or back and stays there: one that is wrong for a moment dates no window, and one that
/// was wrong for longer dates those of that time alone. Until then times go on evenly. Only where it is set back a window begins before
/// the one that was before it ends.
#[derive(Debug)]
pub(super) struct WindowClock {
    time: Timestamp,
    at: Instant,
    /// When the wall clock was first seen to be set, and which way, if it still is.
    set: Option<(WallClock, Instant)>,
    /// Milliseconds at which windows began, in the names of their snapshots: after the clock was set back, it shows them again.
    begun: BTreeSet<i64>,
}

/// How a wall clock differs from one that goes on evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WallClock {
    Ahead,
    Behind,
}

impl WindowClock {
    /// A clock that shows `wall` at `now` of the monotonic clock.
    pub(super) fn start(wall: Timestamp, now: Instant) -> Self {
        Self {
            time: wall,
            at: now,
            set: None,
            begun: BTreeSet::from([wall.as_millisecond()]),
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
        let time = match WallClock::of(wall.duration_since(even)) {
            // What differs so little never goes back.
            None => {
                self.set = None;
                wall.max(even)
            }
            Some(way) if self.is_followed(way, now) => {
                self.set = None;
                tracing::warn!(%wall, %even, "the wall clock was set a minute ago or longer: windows follow it from now on");
                wall
            }
            Some(_) => even,
        };
        self.time = self.unused(time);
        passed
    }

    /// The first millisecond from `time` on at which no window began.
    fn unused(&mut self, mut time: Timestamp) -> Timestamp {
        while !self.begun.insert(time.as_millisecond()) {
            let Ok(later) = time.checked_add(MILLISECOND) else {
                break;
            };
            time = later;
        }
        if self.begun.len() > MOST_BEGUN {
            self.begun.pop_first();
        }
        time
    }

    /// Whether a wall clock that was set has stayed so for long enough.
    fn is_followed(&mut self, way: WallClock, now: Instant) -> bool {
        let since = match self.set {
            Some((before, since)) if before == way => since,
            _ => now,
        };
        self.set = Some((way, since));
        now.saturating_duration_since(since) >= MOMENT
    }
}

impl WallClock {
    /// None if it is as it should be.
    fn of(ahead: SignedDuration) -> Option<Self> {
        match ahead.abs() <= TOLERANCE {
            true => None,
            false if ahead.is_positive() => Some(Self::Ahead),
            false => Some(Self::Behind),
        }
    }
}

/// A week of windows of a minute.
const MOST_BEGUN: usize = 10_080;

const MILLISECOND: SignedDuration = SignedDuration::from_millis(1);

/// A wall clock that is set is followed after this time.
const MOMENT: Duration = Duration::from_secs(60);

/// Clocks that are kept in step differ by less.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_has_passed_is_told_whatever_the_wall_clock_does() {
        let start: Timestamp = "2026-11-21T06:00:00Z".parse().unwrap();
        let mut clock = WindowClock::start(start, Instant::now());
        let (mut real, mut wall) = (clock.at, start);
        // Minutes by which the wall clock is set in each minute.
        for set in [0_i64, 0, 60, 0, -120, 0, 0, -1, 300, 0] {
            let minute = Duration::from_secs(60);
            real += minute;
            wall += minute;
            wall += SignedDuration::from_mins(set);
            assert_eq!(clock.advance(wall, real), minute);
        }
        assert_eq!(clock.time(), wall, "it follows at last");
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

    /// How far ahead of the true time windows are dated, at each of these seconds while the wall clock is ahead by so much.
    fn ahead(wall: &[(u64, SignedDuration)]) -> Vec<SignedDuration> {
        let start: Timestamp = "2026-11-21T06:00:00Z".parse().unwrap();
        let mut clock = WindowClock::start(start, Instant::now());
        let begun = clock.at;
        let ahead = wall.iter().map(|&(seconds, ahead)| {
            let passed = Duration::from_secs(seconds);
            clock.advance(start + passed + ahead, begun + passed);
            clock.time().duration_since(start + passed)
        });
        ahead.collect()
    }

    #[test]
    fn windows_are_dated_right_after_a_clock_that_was_ahead_or_behind_for_long() {
        let none = SignedDuration::ZERO;
        for set in [
            SignedDuration::from_hours(1),
            SignedDuration::from_hours(24),
            SignedDuration::from_hours(-24),
            // Of a machine that has lost its time.
            SignedDuration::from_hours(-24 * 365 * 50),
        ] {
            // For ten minutes, in windows of one.
            let wrong = (10..20).map(|minute| (minute * 60, set));
            let right = (20..30).map(|minute| (minute * 60, none));
            let found = ahead(&wrong.chain(right).collect::<Vec<_>>());
            assert_eq!(found[..3], [none, set, set]);
            assert_eq!(found[9..13], [set, set, none, none]);
            assert!(found[13..].iter().all(|ahead| *ahead == none));
        }
    }

    #[test]
    fn no_two_windows_begin_in_the_same_millisecond_after_a_clock_was_set_back() {
        let wrong = (1..20).map(|minute| (minute * 60, SignedDuration::from_mins(5)));
        let right = (20..60).map(|minute| (minute * 60, SignedDuration::ZERO));
        let wall: Vec<_> = wrong.chain(right).collect();
        let found = ahead(&wall);
        let shown = wall.iter().zip(&found);
        let shown = shown.map(|((seconds, _), ahead)| SignedDuration::from_secs(*seconds as i64) + *ahead);
        let milliseconds: BTreeSet<_> = shown.map(|shown| shown.as_millis()).collect();
        assert_eq!(milliseconds.len(), wall.len());
        assert_eq!(found.last().unwrap().as_secs(), 0);
    }

    #[test]
    fn a_wall_clock_that_goes_to_and_fro_is_not_followed() {
        let hour = SignedDuration::from_hours(1);
        let to_and_fro = (1..100).map(|turn| (turn * 50, if turn % 2 == 0 { hour } else { -hour }));
        let found = ahead(&to_and_fro.collect::<Vec<_>>());
        assert!(found.iter().all(|ahead| ahead.is_zero()), "{found:?}");
    }
}
