//! How much of a processor looking for what belongs together may take, and the limits that keep it within that.
//!
//! Of the calls a sample is timed, by its caller's clock. Once a second the share of the time is compared with the
//! budget: above it the limits fall to what fits, at once; below it they rise in small steps, where they have left
//! something out. Without a budget the limits are fixed: the report of a capture does not depend on the machine.

use super::attention::Relating;

/// Limits as a part of those that are the default, in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level(u32);

impl Level {
    /// 500 requests and about 200 cells a second: a machine too slow for that has other troubles.
    const LEAST: u32 = 5;

    /// 40,000 requests and about 16,000 cells a second, whose values take 1.5 MiB.
    const MOST: u32 = 400;

    /// What it rises by in a second.
    const STEP: u32 = 10;

    /// It rises while less than this part of the budget is used.
    const ROOM: f64 = 0.9;

    const DEFAULT: Self = Self(100);

    /// What memory is kept for.
    pub(super) const MOST_OF_ALL: Self = Self(Self::MOST);

    /// The level after a second in which so large a `share` of the time was used of a `budget`, and limits have left
    /// something out or not.
    fn after(self, share: f64, budget: f64, was_limited: bool) -> Self {
        let Self(level) = self;
        let next = if share > budget {
            // One second may be like no other: at most to the half.
            let fits = (budget / share).max(0.5);
            (1..=level)
                .rev()
                .find(|&lower| f64::from(lower) <= f64::from(level) * fits)
                .unwrap_or(0)
        } else if was_limited && share < Self::ROOM * budget {
            level + Self::STEP
        } else {
            level
        };
        Self(next.clamp(Self::LEAST, Self::MOST))
    }

    /// The limits of `relating` at this level.
    pub(super) fn of(self, relating: Relating) -> Relating {
        let Self(level) = self;
        Relating {
            requests: relating.requests.saturating_mul(level) / 100,
            cells: relating.cells.saturating_mul(level as usize) / 100,
            ..relating
        }
    }
}

/// What is spent of a budget.
#[derive(Debug)]
pub(super) struct Spending {
    /// The part of a processor that may be used.
    budget: f64,
    level: Level,
    /// Calls until the next one that is timed.
    calls_left: u32,
    /// Picks those calls.
    state: u32,
    /// When the second began; none before the first call that was timed.
    began: Option<i64>,
    /// What the timed calls of this second took, in nanoseconds.
    timed: i64,
}

/// One call in so many is timed.
const ONE_IN: u32 = 64;

/// What takes longer was interrupted; in nanoseconds.
const LONGEST: i64 = 250_000;

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;

impl Spending {
    /// Nothing spent yet of a budget that is a part of a processor.
    pub(super) fn of(budget: f64) -> Self {
        Self {
            budget,
            level: Level::DEFAULT,
            calls_left: ONE_IN,
            state: 1,
            began: None,
            timed: 0,
        }
    }

    /// Whether the next call is timed.
    #[inline]
    pub(super) fn times_next(&mut self) -> bool {
        self.calls_left -= 1;
        if self.calls_left > 0 {
            return false;
        }
        // Calls come in turns: 64 one after the other must not always be the same one. From 1 to 127, 64 on the
        // average (a linear congruential generator, of which the upper bits are good).
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.calls_left = 1 + (self.state >> 16) % (2 * ONE_IN - 1);
        true
    }

    /// What all calls take for which this one was timed, in nanoseconds.
    pub(super) fn of_all(began: i64, ended: i64) -> u64 {
        Self::timed(began, ended).unsigned_abs() * u64::from(ONE_IN)
    }

    fn timed(began: i64, ended: i64) -> i64 {
        ended.saturating_sub(began).clamp(0, LONGEST)
    }

    /// A timed call took from `began` to `ended`, in nanoseconds; whether limits have left something out this second.
    /// The new level at the end of a second.
    pub(super) fn took(&mut self, began: i64, ended: i64, was_limited: bool) -> Option<Level> {
        self.timed += Self::timed(began, ended);
        let second_began = *self.began.get_or_insert(began);
        let passed = ended.saturating_sub(second_began);
        if passed < SECOND {
            return None;
        }
        let share = self.timed as f64 * f64::from(ONE_IN) / passed as f64;
        self.level = self.level.after(share, self.budget, was_limited);
        self.began = Some(ended);
        self.timed = 0;
        Some(self.level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: f64 = 0.03;

    /// The levels of so many seconds, of traffic that would use this share of the time at 100 %.
    fn levels(begin: Level, share: f64, seconds: usize) -> Vec<u32> {
        let mut level = begin;
        let next = || {
            level = level.after(share * f64::from(level.0) / 100.0, BUDGET, true);
            level.0
        };
        std::iter::repeat_with(next).take(seconds).collect()
    }

    #[test]
    fn it_comes_to_what_the_budget_allows_and_stays_there() {
        for (share, fits) in [(0.06, 50), (0.3, 10), (0.02, 150)] {
            let levels = levels(Level::DEFAULT, share, 60);
            let settled = &levels[30..];
            assert!(
                settled
                    .iter()
                    .all(|level| (fits * 8 / 10..=fits + Level::STEP).contains(level)),
                "{fits}: {settled:?}"
            );
        }
    }

    #[test]
    fn it_stays_within_its_bounds() {
        assert_eq!(levels(Level::DEFAULT, 100.0, 60).last(), Some(&Level::LEAST));
        assert_eq!(levels(Level::DEFAULT, 0.000_1, 60).last(), Some(&Level::MOST));
        let nothing_left_out = Level::DEFAULT.after(0.0, BUDGET, false);
        assert_eq!(nothing_left_out, Level::DEFAULT, "more would change nothing");
    }

    #[test]
    fn it_falls_at_once_and_recovers() {
        let high = levels(Level::DEFAULT, 0.6, 3);
        assert_eq!(high, [50, 25, 12]);
        let recovered = levels(Level(12), 0.01, 10);
        assert_eq!(recovered.first(), Some(&22));
        assert_eq!(recovered.last(), Some(&112));
    }

    #[test]
    fn the_share_of_the_time_is_that_of_the_calls_which_were_timed() {
        let mut spending = Spending::of(BUDGET);
        let calls = 200_000;
        let timed = (0..calls).filter(|_| spending.times_next()).count();
        let mean = f64::from(calls) / timed as f64;
        assert!((60.0..68.0).contains(&mean), "{mean}");

        let mut spending = Spending::of(BUDGET);
        let mut first = None;
        // 100,000 calls a second, of which each takes 600 ns: 6 % of the time.
        for call in 0..110_000_i64 {
            let began = SECOND + call * 10_000;
            if spending.times_next() && first.is_none() {
                first = spending.took(began, began + 600, true);
            }
        }
        assert!(
            first.is_some_and(|Level(level)| (46..=54).contains(&level)),
            "{first:?}"
        );
        assert_eq!(Spending::of_all(SECOND, SECOND + 600), 64 * 600);
    }

    #[test]
    fn a_call_that_was_interrupted_counts_as_a_long_one() {
        let mut spending = Spending::of(BUDGET);
        assert_eq!(spending.took(SECOND, SECOND + 1_000, true), None);
        let level = spending.took(2 * SECOND, 2 * SECOND + 50_000_000, true);
        assert_eq!(level, Some(Level(110)), "one of 50 ms would be 3 s");
    }

    #[test]
    fn limits_are_a_part_of_the_default() {
        let at = |level| {
            let Relating { requests, cells, .. } = Level(level).of(Relating::default());
            (requests, cells)
        };
        assert_eq!(at(100), (10_000, 4_096));
        assert_eq!(at(Level::LEAST), (500, 204));
        assert_eq!(at(Level::MOST), (40_000, 16_384));
    }
}
