//! Time as the audit sees it: nanoseconds that never go backwards.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// A point in time: nanoseconds since the Unix epoch.
///
/// Differences are durations on the monotonic clock; the epoch was read once, so that a jump of the wall
/// clock changes no latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

impl Moment {
    /// The moment `nanoseconds` after the Unix epoch.
    pub const fn from_unix_nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the Unix epoch.
    pub fn unix_nanoseconds(self) -> i64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it was later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The moment a while later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let nanoseconds = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(nanoseconds))
    }

    /// The moment as a wall-clock time.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_nanosecond(i128::from(self.0)).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

impl From<Timestamp> for Moment {
    fn from(timestamp: Timestamp) -> Self {
        Self(i64::try_from(timestamp.as_nanosecond()).unwrap_or(i64::MAX))
    }
}

/// Reads the time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    epoch: i64,
}

impl Clock {
    /// A clock that agrees with the wall clock now and then runs evenly.
    pub fn start() -> Self {
        let epoch = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(0);
        Self {
            started: Instant::now(),
            epoch,
        }
    }

    /// Now.
    pub fn now(&self) -> Moment {
        let elapsed = i64::try_from(self.started.elapsed().as_nanos()).unwrap_or(i64::MAX);
        Moment(self.epoch.saturating_add(elapsed))
    }

    /// What it takes to read it, in nanoseconds: from 20 to some hundreds on a virtual machine.
    pub fn takes(&self) -> i64 {
        let reading = || {
            self.now()
                .unix_nanoseconds()
                .abs_diff(self.now().unix_nanoseconds())
        };
        // The least: whatever is more was interrupted.
        let least = (0..16).map(|_| reading()).min();
        least.map_or(0, |least| least.cast_signed())
    }
}
