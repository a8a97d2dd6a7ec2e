//! The timestamps that clients give their writes.

use serde::{Deserialize, Serialize};

use super::counts::raise;

/// Writes by the timestamp that decides which of two values stays, as far as the client gives it: with the
/// request, as most drivers do, or by `USING TIMESTAMP`. Compared with the clock of who watches, when the request
/// passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriteTimes {
    /// Executions with a timestamp of `USING TIMESTAMP`.
    pub stated: u64,
    /// Executions whose timestamp was more than [`WriteTimes::TOLERATED_US`] ahead.
    pub ahead: u64,
    /// How far the one was ahead that was so most, in microseconds; 0 if none was.
    pub most_ahead_us: u64,
    /// Executions whose timestamp cannot be microseconds: seconds, milliseconds or nanoseconds.
    pub other_units: u64,
    /// Executions whose timestamp was more than [`WriteTimes::BEHIND_US`] behind.
    pub behind: u64,
    /// Those of them that were a day behind.
    pub day_behind: u64,
    /// How far the one was behind that was so most, in microseconds; 0 if none was.
    pub most_behind_us: u64,
}

impl WriteTimes {
    /// Clocks differ, and a driver never gives the same microsecond twice.
    pub const TOLERATED_US: i64 = 1_000_000;

    /// An hour: no clock, and no write that waits or is sent again, is so late.
    pub const BEHIND_US: i64 = 3_600_000_000;

    const DAY_US: u64 = 86_400_000_000;

    /// Counts a write at `now`; both in microseconds since 1970.
    #[inline]
    pub fn count(&mut self, timestamp: i64, now: i64) {
        let earliest = now.saturating_sub(Self::BEHIND_US);
        if timestamp <= now.saturating_add(Self::TOLERATED_US) && timestamp >= earliest {
            return;
        }
        self.count_odd(timestamp, now);
    }

    /// Counts a write whose timestamp stands in its text, which nobody has executed: only its unit shows.
    pub fn count_text(&mut self, timestamp: i64) {
        self.stated += 1;
        self.other_units += u64::from(is_other_unit(timestamp));
    }

    #[cold]
    fn count_odd(&mut self, timestamp: i64, now: i64) {
        if is_other_unit(timestamp) {
            self.other_units += 1;
        } else if timestamp > now {
            self.ahead += 1;
            self.most_ahead_us = self.most_ahead_us.max(timestamp.abs_diff(now));
        } else if timestamp >= EARLIEST_US {
            let behind = timestamp.abs_diff(now);
            self.behind += 1;
            self.day_behind += u64::from(behind >= Self::DAY_US);
            self.most_behind_us = self.most_behind_us.max(behind);
        }
    }

    /// Adds the writes of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        raise(&mut self.stated, other.stated);
        raise(&mut self.ahead, other.ahead);
        self.most_ahead_us = self.most_ahead_us.max(other.most_ahead_us);
        raise(&mut self.other_units, other.other_units);
        raise(&mut self.behind, other.behind);
        raise(&mut self.day_behind, other.day_behind);
        self.most_behind_us = self.most_behind_us.max(other.most_behind_us);
    }
}

/// Whether it cannot be microseconds.
fn is_other_unit(timestamp: i64) -> bool {
    (1..EARLIEST_US).contains(&timestamp) || timestamp >= LATEST_US
}

/// 1973 in microseconds. In milliseconds that is the year 5138; a smaller number is of another unit.
const EARLIEST_US: i64 = 100_000_000_000_000;

/// The year 5138 in microseconds: nanoseconds since 1973.
const LATEST_US: i64 = 100_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_shows_in_the_size() {
        let now = 1_795_000_000_000_000;
        let mut times = WriteTimes::default();
        for timestamp in [now, now - 3_600_000_000, now + 1_000_000, 0, -1] {
            times.count(timestamp, now);
        }
        assert_eq!(times, WriteTimes::default());
        times.count(now + 60_000_000, now);
        for other in [now / 1_000_000, now / 1_000, now * 1_000] {
            times.count(other, now);
        }
        assert_eq!(
            (times.ahead, times.most_ahead_us, times.other_units),
            (1, 60_000_000, 3)
        );
        assert_eq!(times.behind, 0);
    }

    #[test]
    fn of_a_text_the_unit_counts_alone() {
        let mut times = WriteTimes::default();
        [1_700_000_000_000, 1_700_000_000_000_000, 4_000_000_000_000_000, 0]
            .into_iter()
            .for_each(|timestamp| times.count_text(timestamp));
        assert_eq!((times.stated, times.other_units, times.ahead), (4, 1, 0));
    }

    #[test]
    fn the_past_is_counted_from_an_hour_on_and_merges() {
        let now = 1_795_000_000_000_000;
        let counted = |behind: &[i64]| {
            let mut times = WriteTimes::default();
            behind.iter().for_each(|behind| times.count(now - behind, now));
            times
        };
        const HOUR: i64 = 3_600_000_000;
        let times = counted(&[HOUR, HOUR + 1, 24 * HOUR, 900 * HOUR]);
        let figures = (times.behind, times.day_behind, times.most_behind_us);
        assert_eq!(figures, (3, 2, 900 * 3_600_000_000));
        let mut merged = counted(&[900 * HOUR]);
        merged.merge(&counted(&[HOUR, HOUR + 1, 24 * HOUR]));
        assert_eq!(merged, times);
    }
}
