//! Directions whose packets were stamped by different clocks: two sensors, two hosts.
//!
//! An acknowledgment is stamped after what it acknowledges, whatever it carries. Where one comes earlier, and its bytes come
//! later all the same, the clock of its direction is behind by at least that long.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use cqlens_capture::Moment;
use cqlens_proto::envelope::Direction;

/// How long to wait for bytes of the other direction that were acknowledged, in all connections: long until it is known how far
/// apart the clocks of a capture are, since what comes later cannot be put in its place any more.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Nanoseconds of the longest wait that was not in vain.
    longest: AtomicU64,
    /// Waits that were in vain.
    in_vain: AtomicU64,
}

impl Patience {
    /// The capture has these bytes a little later, or not at all.
    const SHORT: Duration = Duration::from_millis(20);

    /// Clocks that are further apart belong to hosts without NTP.
    const LONG: Duration = Duration::from_secs(1);

    /// So many waits in vain are a capture that lacks packets.
    const ENOUGH: u64 = 64;

    pub(super) fn now(&self) -> Duration {
        if self.in_vain.load(Ordering::Relaxed) < Self::ENOUGH {
            return Self::LONG;
        }
        let longest = Duration::from_nanos(self.longest.load(Ordering::Relaxed));
        (2 * longest).clamp(Self::SHORT, Self::LONG)
    }

    /// What was waited for has not come.
    pub(super) fn was_in_vain(&self) {
        self.in_vain.fetch_add(1, Ordering::Relaxed);
    }

    /// It has come, so much later.
    fn paid_off(&self, late: Duration) {
        let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.longest.fetch_max(late, Ordering::Relaxed);
    }
}

/// How far apart the clocks of one connection are.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    responses: Early,
    requests: Early,
}

impl Clocks {
    /// A segment of `direction`, stamped at `acknowledged_at`, has acknowledged bytes that were stamped later, at `at`.
    pub(super) fn note(
        &mut self,
        direction: Direction,
        acknowledged_at: Moment,
        at: Moment,
        patience: &Patience,
    ) {
        let early = at.since(acknowledged_at);
        patience.paid_off(early);
        match direction {
            Direction::Request => self.requests.note(early, at),
            Direction::Response => self.responses.note(early, at),
        }
    }

    /// Nanoseconds by which responses are stamped too early; below 0, too late.
    pub(super) fn shift(&self) -> i64 {
        let nanoseconds = |early: &Early| i64::try_from(early.by().as_nanos()).unwrap_or(0);
        nanoseconds(&self.responses) - nanoseconds(&self.requests)
    }
}

/// By how much acknowledgments of one direction were too early: what three of them say within a minute. One alone may be of a
/// packet that was sent again although it had arrived, or that a network card has handed over late.
#[derive(Debug, Default)]
struct Early {
    /// The largest ones, the largest first.
    largest: [Duration; 3],
    since: Option<Moment>,
}

impl Early {
    /// Packets of one clock are that much out of order.
    const NOISE: Duration = Duration::from_millis(1);

    const WITHIN: Duration = Duration::from_secs(60);

    fn note(&mut self, early: Duration, at: Moment) {
        if early < Self::NOISE {
            return;
        }
        let since = *self.since.get_or_insert(at);
        if self.by().is_zero() && at.since(since) > Self::WITHIN {
            *self = Self {
                since: Some(at),
                ..Self::default()
            };
        }
        let [first, second, third] = &mut self.largest;
        if early > *third {
            *third = early;
        }
        if *third > *second {
            std::mem::swap(second, third);
        }
        if *second > *first {
            std::mem::swap(first, second);
        }
    }

    fn by(&self) -> Duration {
        let [.., third] = self.largest;
        third
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(milliseconds: i64) -> Moment {
        Moment::from_unix_nanoseconds(milliseconds * 1_000_000)
    }

    #[test]
    fn three_acknowledgments_tell_how_far_apart_clocks_are() {
        let (patience, mut clocks) = (Patience::default(), Clocks::default());
        let mut note = |direction, at: i64, early: i64| {
            clocks.note(direction, after(at - early), after(at), &patience);
            clocks.shift() / 1_000_000
        };
        assert_eq!(note(Direction::Response, 1_000, 200), 0, "sent again");
        assert_eq!(note(Direction::Response, 1_010, 48), 0);
        assert_eq!(note(Direction::Response, 1_020, 0), 0, "out of order");
        assert_eq!(note(Direction::Response, 1_030, 50), 48);
        assert_eq!(note(Direction::Response, 1_040, 49), 49);
        let mut late = Clocks::default();
        for _ in 0..3 {
            late.note(Direction::Request, after(0), after(30), &patience);
        }
        assert_eq!(late.shift(), -30_000_000);
        let mut rare = Clocks::default();
        for minute in 0..10 {
            rare.note(
                Direction::Response,
                after(minute * 61_000),
                after(minute * 61_000 + 200),
                &patience,
            );
        }
        assert_eq!(rare.shift(), 0);
    }

    #[test]
    fn patience_is_as_long_as_it_has_paid_off() {
        let patience = Patience::default();
        assert_eq!(patience.now(), Patience::LONG);
        (0..Patience::ENOUGH).for_each(|_| patience.was_in_vain());
        assert_eq!(patience.now(), Patience::SHORT);
        patience.paid_off(Duration::from_millis(300));
        assert_eq!(patience.now(), Duration::from_millis(600));
        patience.paid_off(Duration::from_secs(3));
        assert_eq!(patience.now(), Patience::LONG);
    }
}
