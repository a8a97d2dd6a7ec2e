//! What of a window falls into which point.

use cqlens_window::{Interval, Observed};
use jiff::Timestamp;

use super::grid::Grid;

/// The time of a window in which any source watched: its counts are taken to be even over it.
pub(super) struct Spread {
    /// Milliseconds, in order.
    intervals: Vec<(i64, i64)>,
    watched: i64,
}

/// A part of a window: from so much of its time up to so much.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    from: i64,
    to: i64,
    of: i64,
}

impl Spread {
    /// None where nobody watched.
    pub(super) fn of(observed: &Observed) -> Option<Self> {
        Self::of_intervals(&observed.union())
    }

    /// Of intervals in order, apart from each other.
    pub(super) fn of_intervals(intervals: &[Interval]) -> Option<Self> {
        let milliseconds = |one: Interval| (one.start.as_millisecond(), one.end.as_millisecond());
        let intervals: Vec<_> = intervals
            .iter()
            .copied()
            .map(milliseconds)
            .filter(|(start, end)| start < end)
            .collect();
        let watched = intervals.iter().map(|(start, end)| end - start).sum();
        (watched > 0).then_some(Self { intervals, watched })
    }

    pub(super) fn first(&self) -> Timestamp {
        self.intervals
            .first()
            .map_or(Timestamp::UNIX_EPOCH, |first| time(first.0))
    }

    /// The last moment within it.
    pub(super) fn last(&self) -> Timestamp {
        self.intervals
            .last()
            .map_or(Timestamp::UNIX_EPOCH, |last| time(last.1 - 1))
    }

    /// Seconds in which any source watched.
    pub(super) fn length(&self) -> f64 {
        self.watched as f64 / 1_000.0
    }

    /// The points with their shares, in order. There are at most [`super::grid::MOST_POINTS`], as long as the grid
    /// has been made for it.
    pub(super) fn over(&self, grid: &Grid) -> Vec<(i64, Share)> {
        let mut shares: Vec<(i64, Share)> = Vec::new();
        let mut before = 0;
        for &(start, end) in &self.intervals {
            for at in grid.place(start)..=grid.place(end - 1) {
                let to = before + end.min(grid.start(at + 1)) - start;
                match shares.last_mut() {
                    Some((last, share)) if *last == at => share.to = to,
                    last => {
                        let from = last.map_or(0, |(_, share)| share.to);
                        shares.push((
                            at,
                            Share {
                                from,
                                to,
                                of: self.watched,
                            },
                        ));
                    }
                }
            }
            before += end - start;
        }
        shares
    }
}

impl Share {
    pub(super) fn milliseconds(self) -> i64 {
        self.to - self.from
    }

    /// That part of a count. Adjoining parts add up to the part of both, whatever the rounding: so a window that is
    /// added before points are joined counts like one that is added afterwards.
    pub(super) fn of(self, count: u64) -> u64 {
        difference(self.until(count))
    }

    /// That part of a sum over so many, in proportion to how many of them fall into it: their mean is the same in
    /// each part.
    pub(super) fn with(self, sum: u64, count: u64) -> u64 {
        let of_sum = |many: u128| u128::from(sum) * many / u128::from(count.max(1));
        difference(self.until(count).map(of_sum))
    }

    fn until(self, count: u64) -> [u128; 2] {
        [self.from, self.to].map(|until| {
            let [until, of] = [until, self.of].map(|time| u128::from(time.unsigned_abs()));
            u128::from(count) * until / of.max(1)
        })
    }
}

fn difference([from, to]: [u128; 2]) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(u64::MAX)
}

pub(super) fn time(millisecond: i64) -> Timestamp {
    Timestamp::from_millisecond(millisecond).unwrap_or(Timestamp::MAX)
}
