//! A token bucket for connections: it holds those of one second, and fills evenly.

use std::{num::NonZeroU32, time::Duration};

use tokio::time::Instant;

/// The tokens that were taken in the last second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RateBucket {
    /// When it is full again.
    full_at: Option<Instant>,
}

/// What a full bucket holds is the rate times this.
const BURST: Duration = Duration::from_secs(1);

impl RateBucket {
    /// How long to wait for the next connection.
    pub(super) fn wait(&self, rate: NonZeroU32, now: Instant) -> Duration {
        (self.lacks(now) + interval(rate)).saturating_sub(BURST)
    }

    /// Takes one connection, whether there is one or not.
    pub(super) fn take(&mut self, rate: NonZeroU32, now: Instant) {
        self.full_at = Some(now + self.lacks(now) + interval(rate));
    }

    /// Whether it is as good as a new one.
    pub(super) fn is_full(&self, now: impl FnOnce() -> Instant) -> bool {
        self.full_at.is_none_or(|at| at <= now())
    }

    fn lacks(&self, now: Instant) -> Duration {
        self.full_at
            .map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
    }
}

fn interval(rate: NonZeroU32) -> Duration {
    BURST / rate.get()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_second_may_come_at_once_and_then_the_rate_holds() {
        let (rate, begun) = (NonZeroU32::new(10).unwrap(), Instant::now());
        let mut bucket = RateBucket::default();
        let mut now = begun;
        let mut taken = Vec::new();
        while now < begun + Duration::from_secs(5) {
            if bucket.wait(rate, now).is_zero() {
                bucket.take(rate, now);
                taken.push(now - begun);
            } else {
                now += bucket.wait(rate, now);
            }
        }
        assert_eq!(taken.iter().filter(|at| at.is_zero()).count(), 10);
        assert_eq!(taken.len(), 10 + 49, "{taken:?}");
        assert!(!bucket.is_full(|| now) && bucket.is_full(|| now + BURST));
        assert!(RateBucket::default().is_full(|| unreachable!()));
    }
}
