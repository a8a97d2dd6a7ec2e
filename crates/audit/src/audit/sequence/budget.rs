//! How much of a processor looking for what belongs together may take, and the limits that keep it within that.
//!
//! Of the calls a sample is timed, by its caller's clock. With each second of the traffic the share of the time is
//! compared with the budget: above it the limits fall to what fits, at once; below it they rise in small steps, where
//! they have left something out. What was spent beyond the budget is paid back: nothing begins in the next seconds, until
//! the budget has made up for it. So a budget holds that is too small even for the lowest limits: few requests begin
//! something there, but all that come in the tenth of a second after them are looked at.
//! Without a budget the limits are fixed: the report of a capture does not depend on the machine.

use super::attention::Relating;

/// Limits as a part of those that are the default, in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RelatingLevel(u32);

impl RelatingLevel {
    /// 500 requests and about 200 cells a second: a machine too slow for that has other troubles.
    const LEAST: u32 = 5;

    /// 40,000 requests and about 16,000 cells a second, whose values take 1.5 MiB.
    const MOST: u32 = 400;

    /// What it rises by in a second.
    const STEP: u32 = 10;

    /// It rises while less than this part of the budget is used.
    const ROOM: f64 = 0.9;

    const DEFAULT: Self = Self(100);

    /// The budget for which the default is meant: what needs more of it falls, and what needs less rises.
    const BUDGET_OF_DEFAULT: f64 = 0.01;

    /// What memory is kept for.
    pub(super) const MOST_OF_ALL: Self = Self(Self::MOST);

    /// Where a budget begins: a small one would pay for long for the first second at the default.
    fn for_budget(budget: f64) -> Self {
        let part = (budget / Self::BUDGET_OF_DEFAULT).min(1.0);
        let Self(most) = Self::DEFAULT;
        Self(Self::DEFAULT.highest_within(most, part).max(Self::LEAST))
    }

    /// The level after a second in which so large a `share` of the time was used of a `budget`, and limits have left
    /// something out or not.
    fn after(self, share: f64, budget: f64, was_limited: bool) -> Self {
        let Self(level) = self;
        let next = if share > budget {
            // One second may be like no other: at most to the half.
            self.highest_within(level, (budget / share).max(0.5))
        } else if was_limited && share < Self::ROOM * budget {
            // Of a low level a step is a large part.
            self.highest_within(level + Self::STEP, budget / share)
        } else {
            level
        };
        Self(next.clamp(Self::LEAST, Self::MOST))
    }

    /// The highest level up to `most` that is so many times this one, at most.
    fn highest_within(self, most: u32, times: f64) -> u32 {
        let fits = f64::from(self.0) * times;
        (1..=most)
            .rev()
            .find(|&level| f64::from(level) <= fits)
            .unwrap_or(0)
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
    /// What it takes to read the clock, in nanoseconds: only calls that are timed do.
    clock: i64,
    level: RelatingLevel,
    /// Calls until the next one that is timed.
    calls_left: u32,
    /// Picks those calls.
    state: u32,
    /// What the timed calls of this second took, in nanoseconds.
    timed: i64,
    /// What earlier seconds have left of the budget, in nanoseconds; what is owed if below nothing.
    left: f64,
    /// Seconds in a row in which nothing begins, so that what is owed is paid; this one among them.
    paid: u64,
}

/// One call in so many is timed.
const ONE_IN: u32 = 64;

/// What takes longer was interrupted; in nanoseconds.
const LONGEST: i64 = 250_000;

/// In nanoseconds.
const SECOND: f64 = 1e9;

/// What is owed is paid for so many seconds at most, one after the other: one second in a minute is looked at, whatever
/// it takes.
const MOST_PAID: u64 = 59;

impl Spending {
    /// Nothing spent yet of a budget that is a part of a processor, with a clock that takes so many nanoseconds to read.
    pub(super) fn of(budget: f64, clock: i64) -> Self {
        Self {
            budget,
            clock,
            level: RelatingLevel::for_budget(budget),
            calls_left: ONE_IN,
            state: 1,
            timed: 0,
            left: 0.0,
            paid: 0,
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

    /// A timed call took from `began` to `ended`, in nanoseconds. What all calls take for which it was timed, likewise.
    pub(super) fn took(&mut self, began: i64, ended: i64) -> u64 {
        let took = ended.saturating_sub(began).saturating_sub(self.clock);
        let timed = took.clamp(0, LONGEST);
        self.timed += timed;
        timed.unsigned_abs() * u64::from(ONE_IN)
    }

    /// So many seconds have passed, and limits have left something out in them or not.
    pub(super) fn passed(&mut self, seconds: u64, was_limited: bool) {
        let seconds = seconds.max(1) as f64;
        let used = std::mem::take(&mut self.timed) as f64 * f64::from(ONE_IN);
        if self.paid == 0 {
            let share = used / (seconds * SECOND);
            self.level = self.level.after(share, self.budget, was_limited);
        }
        // Quiet times are no reason to take much more later.
        let a_second = self.budget * SECOND;
        let left = self.left + a_second * seconds - used;
        self.left = left.clamp(-(MOST_PAID as f64) * a_second, a_second);
        self.paid = match self.left < 0.0 && self.paid < MOST_PAID {
            true => self.paid + 1,
            false => 0,
        };
    }

    /// The limits of the second that begins, of those that are the default.
    pub(super) fn limits(&self, relating: Relating) -> Relating {
        let limits = self.level.of(relating);
        let requests = if self.paid > 0 { 0 } else { limits.requests };
        Relating { requests, ..limits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::sequence::attention::{Attention, Look};

    const BUDGET: f64 = 0.03;

    /// In nanoseconds.
    const CLOCK: i64 = 20;

    /// The levels of so many seconds, of traffic that would use this share of the time at 100 %.
    fn levels(begin: RelatingLevel, share: f64, seconds: usize) -> Vec<u32> {
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
            let levels = levels(RelatingLevel::DEFAULT, share, 60);
            let settled = &levels[30..];
            assert!(
                settled
                    .iter()
                    .all(|level| (fits * 8 / 10..=fits + RelatingLevel::STEP).contains(level)),
                "{fits}: {settled:?}"
            );
        }
    }

    #[test]
    fn it_stays_within_its_bounds() {
        assert_eq!(
            levels(RelatingLevel::DEFAULT, 100.0, 60).last(),
            Some(&RelatingLevel::LEAST)
        );
        assert_eq!(
            levels(RelatingLevel::DEFAULT, 0.000_1, 60).last(),
            Some(&RelatingLevel::MOST)
        );
        let nothing_left_out = RelatingLevel::DEFAULT.after(0.0, BUDGET, false);
        assert_eq!(
            nothing_left_out,
            RelatingLevel::DEFAULT,
            "more would change nothing"
        );
    }

    #[test]
    fn it_falls_at_once_and_recovers() {
        let high = levels(RelatingLevel::DEFAULT, 0.6, 3);
        assert_eq!(high, [50, 25, 12]);
        let recovered = levels(RelatingLevel(12), 0.01, 10);
        assert_eq!(recovered.first(), Some(&22));
        assert_eq!(recovered.last(), Some(&112));
    }

    #[test]
    fn it_rises_to_what_fits_at_most() {
        let of_budget = |share: f64| RelatingLevel(5).after(share * BUDGET, BUDGET, true);
        assert_eq!(of_budget(0.1), RelatingLevel(15), "a step");
        assert_eq!(
            of_budget(0.6),
            RelatingLevel(8),
            "fifteen would take almost two times the budget"
        );
        assert_eq!(of_budget(0.9), RelatingLevel(5));
    }

    #[test]
    fn a_small_budget_begins_with_a_part_of_the_default() {
        let levels = [0.5, 0.01, 0.003, 0.000_1].map(|budget| RelatingLevel::for_budget(budget).0);
        assert_eq!(levels, [100, 100, 30, RelatingLevel::LEAST]);
    }

    #[test]
    fn the_share_of_the_time_is_that_of_the_calls_which_were_timed() {
        let mut spending = Spending::of(BUDGET, CLOCK);
        let calls = 200_000;
        let timed = (0..calls).filter(|_| spending.times_next()).count();
        let mean = f64::from(calls) / timed as f64;
        assert!((60.0..68.0).contains(&mean), "{mean}");

        let mut spending = Spending::of(BUDGET, CLOCK);
        // 100,000 calls in a second, of which each takes 600 ns: 6 % of the time.
        for _ in 0..100_000 {
            if spending.times_next() {
                spending.took(7_000, 7_600 + CLOCK);
            }
        }
        spending.passed(1, true);
        assert!((46..=54).contains(&spending.level.0), "{:?}", spending.level);
        assert_eq!(spending.took(7_000, 7_600 + CLOCK), 64 * 600);
        assert_eq!(spending.took(7_000, 7_010), 0, "the clock");
    }

    #[test]
    fn a_call_that_was_interrupted_counts_as_a_long_one() {
        let mut spending = Spending::of(BUDGET, CLOCK);
        spending.took(0, 50_000_000);
        spending.passed(1, true);
        assert_eq!(spending.level, RelatingLevel(110), "one of 50 ms would be 3 s");
    }

    /// What requests take that begin something, that may go on with it, and that are not looked at, in nanoseconds.
    const TAKES: [i64; 3] = [1_500, 750, 15];

    /// The part of a processor that is used in so many seconds, with so many requests in each.
    fn used(budget: f64, requests: i64, seconds: i64) -> f64 {
        const LENGTH: i64 = 1_000_000_000;
        let relating = Relating::default();
        let mut spending = Spending::of(budget, CLOCK);
        let mut attention = Attention::new(spending.limits(relating).requests);
        let (mut clock, mut was_limited, mut used) = (0, false, 0);
        for request in 0..requests * seconds {
            let at = LENGTH + request * (LENGTH / requests);
            let is_timed = spending.times_next();
            let began = clock;
            if let Some(passed) = attention.begins(at) {
                spending.passed(passed, std::mem::take(&mut was_limited));
                attention.limit(spending.limits(relating).requests);
            }
            let look = attention.look(at);
            was_limited |= look == Look::Away;
            let [first, next, away] = TAKES;
            let takes = match look {
                Look::First => first,
                Look::Next => next,
                Look::Away | Look::Ends(_) => away,
            };
            used += takes;
            clock += takes;
            if is_timed {
                clock += CLOCK;
                spending.took(began, clock);
            }
        }
        used as f64 / (seconds * LENGTH) as f64
    }

    #[test]
    fn small_budgets_hold_within_seconds_whatever_a_second_takes_at_the_lowest_level() {
        // At the lowest level a second with 100,000 requests takes 1.0 % of a processor.
        for (budget, requests) in [(0.03, 100_000), (0.01, 100_000), (0.01, 20_000), (0.005, 100_000)] {
            let used = used(budget, requests, 12);
            assert!(used <= 1.1 * budget, "{budget} for {requests}: {used}");
            assert!(used >= 0.4 * budget, "{budget} for {requests}: {used}");
        }
        let in_a_minute = used(0.003, 100_000, 60);
        assert!(in_a_minute <= 1.1 * 0.003, "{in_a_minute}");
    }

    #[test]
    fn a_second_in_a_minute_is_looked_at_whatever_it_takes() {
        // Those requests alone that are not looked at take 0.15 %.
        let used = used(0.000_1, 100_000, 122);
        let at_the_lowest = (500.0 * 1_500.0 + 10_000.0 * 750.0) / 1e9;
        let looked_at = (used - 0.001_5) * 122.0 / at_the_lowest;
        assert!((1.9..=3.1).contains(&looked_at), "{looked_at} seconds");
    }

    #[test]
    fn limits_are_a_part_of_the_default() {
        let at = |level| {
            let Relating { requests, cells, .. } = RelatingLevel(level).of(Relating::default());
            (requests, cells)
        };
        assert_eq!(at(100), (10_000, 4_096));
        assert_eq!(at(RelatingLevel::LEAST), (500, 204));
        assert_eq!(at(RelatingLevel::MOST), (40_000, 16_384));
    }
}
