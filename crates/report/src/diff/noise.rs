//! What of a difference between two windows may be chance.
//!
//! A figure has changed where it differs by more than chance explains *and* by enough to matter. The second
//! is needed because requests come in bursts: over millions of them, chance alone explains next to nothing.

/// Standard deviations that chance does not reach: once in 1,000 comparisons of like with like.
const DEVIATIONS: f64 = 3.29;

/// Figures closer to each other than this factor are the same to a reader.
const WORTH_SAYING: f64 = 1.25;

/// A statement that was expected so often and not seen is gone: chance explains one in 150.
const EXPECTED: f64 = 5.0;

/// Something that was counted, and how long one looked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) times: u64,
    pub(super) seconds: f64,
}

impl Counted {
    /// Times a second; 0 without observed time.
    pub(super) fn rate(self) -> f64 {
        match self.seconds > 0.0 {
            true => self.times as f64 / self.seconds,
            false => 0.0,
        }
    }

    /// Whether it would have been seen in `seconds`, had it come at the same rate.
    pub(super) fn would_be_seen_in(self, seconds: f64) -> bool {
        self.rate() * seconds >= EXPECTED
    }
}

/// Whether two rates differ: the counts are compared with how they would divide over the time of both.
pub(super) fn rate_differs(before: Counted, after: Counted) -> bool {
    let both = (before.times + after.times) as f64;
    let share = after.seconds / (before.seconds + after.seconds);
    if both < EXPECTED || !(share > 0.0 && share < 1.0) {
        return false;
    }
    let deviation = (both * share * (1.0 - share)).sqrt();
    let is_beyond_chance = (after.times as f64 - both * share).abs() > DEVIATIONS * deviation;
    is_beyond_chance && is_worth_saying(before.rate(), after.rate())
}

/// Whether two shares of counts differ, such as errors among executions: (part, whole).
pub(super) fn share_differs(before: (u64, u64), after: (u64, u64)) -> bool {
    let [before, after] = [before, after].map(|(part, whole)| (part as f64, whole as f64));
    if before.1 == 0.0 || after.1 == 0.0 {
        return false;
    }
    let together = (before.0 + after.0) / (before.1 + after.1);
    let deviation = (together * (1.0 - together) * (1.0 / before.1 + 1.0 / after.1)).sqrt();
    let (share_before, share_after) = (before.0 / before.1, after.0 / after.1);
    let is_beyond_chance = (share_after - share_before).abs() > DEVIATIONS * deviation;
    deviation > 0.0 && is_beyond_chance && is_worth_saying(share_before, share_after)
}

/// A quantile, and the values between which it lies 99 times of 100.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    pub(super) value: u64,
    pub(super) between: [u64; 2],
}

/// Whether two quantiles differ: they lie in intervals that have nothing in common.
pub(super) fn quantile_differs(before: Estimate, after: Estimate) -> bool {
    let are_apart = before.between[1] < after.between[0] || after.between[1] < before.between[0];
    are_apart && is_worth_saying(before.value as f64, after.value as f64)
}

fn is_worth_saying(before: f64, after: f64) -> bool {
    let (less, more) = (before.min(after), before.max(after));
    more > less * WORTH_SAYING
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(times: u64, seconds: f64) -> Counted {
        Counted { times, seconds }
    }

    #[test]
    fn a_rate_differs_where_chance_and_bursts_do_not_explain_it() {
        // Ten and eighteen in an hour each: chance. A thousand and eighteen hundred: none.
        assert!(!rate_differs(counted(10, 3_600.0), counted(18, 3_600.0)));
        assert!(rate_differs(counted(1_000, 3_600.0), counted(1_800, 3_600.0)));
        // Far beyond chance, and the same to a reader.
        assert!(!rate_differs(
            counted(1_000_000, 3_600.0),
            counted(1_200_000, 3_600.0)
        ));
        // The same rate over another time.
        assert!(!rate_differs(counted(7_000, 604_800.0), counted(1_000, 86_400.0)));
        assert!(!rate_differs(counted(0, 0.0), counted(1_000, 60.0)));
    }

    #[test]
    fn windows_of_the_same_traffic_rarely_differ() {
        // Poisson by summing 1,000 rare coins a window; a linear congruential generator draws the same ones
        // each time.
        let mut state = 12_345_u64;
        let mut coin = |one_in: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33).is_multiple_of(one_in)
        };
        let mut differing = 0;
        for _ in 0..2_000 {
            let [before, after] = [(); 2].map(|()| (0..1_000).filter(|_| coin(20)).count() as u64);
            differing += u32::from(rate_differs(counted(before, 60.0), counted(after, 60.0)));
        }
        assert!(
            differing <= 8,
            "{differing} of 2,000 comparisons of like with like"
        );
    }

    #[test]
    fn what_is_rare_need_not_be_gone() {
        assert!(!counted(3, 3_600.0).would_be_seen_in(3_600.0));
        assert!(counted(3, 3_600.0).would_be_seen_in(6_000.0));
        assert!(!counted(3, 0.0).would_be_seen_in(6_000.0));
    }

    #[test]
    fn a_share_differs_where_both_are_made_of_enough() {
        assert!(!share_differs((1, 100), (3, 100)));
        assert!(share_differs((100, 10_000), (300, 10_000)));
        assert!(!share_differs((0, 10_000), (0, 10_000)));
        assert!(!share_differs((0, 0), (300, 10_000)));
    }

    #[test]
    fn a_quantile_differs_where_the_intervals_are_apart() {
        let estimate = |value, low, high| Estimate {
            value,
            between: [low, high],
        };
        assert!(!quantile_differs(
            estimate(900, 700, 1_600),
            estimate(1_500, 1_200, 4_000)
        ));
        assert!(quantile_differs(
            estimate(900, 850, 990),
            estimate(1_500, 1_200, 1_800)
        ));
        assert!(!quantile_differs(
            estimate(900, 890, 910),
            estimate(1_000, 990, 1_010)
        ));
    }
}
