//! Which requests are looked at: all, as long as there are not too many.

use super::copies::WAITS;

/// How much is looked at for what belongs together: where there is more in a second, a sample of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relating {
    /// Requests of a second that may begin something.
    pub requests: u32,
    /// Cells of the rows of a second that are remembered, about.
    pub cells: usize,
    /// The part of a processor that this may take: both limits fall to a twentieth and rise to the fourfold to keep to it, and
    /// where a twentieth is too much, nothing begins in some of the seconds; in one of a minute it does.
    /// None: they stay as they are, so that the same traffic always gives the same.
    pub budget: Option<f64>,
}

impl Relating {
    /// All requests, and as many cells as 6 MiB hold: for tests of applications, which are no load.
    pub const ALL: Self = Self {
        requests: u32::MAX,
        cells: 1 << 16,
        budget: None,
    };

    /// Nothing is looked for.
    pub const NONE: Self = Self {
        requests: 0,
        cells: 0,
        budget: None,
    };
}

/// Takes about a hundredth of a processor.
impl Default for Relating {
    fn default() -> Self {
        Self {
            requests: 10_000,
            cells: 4_096,
            budget: None,
        }
    }
}

/// How much of the traffic is looked at: of each second the first [`Relating::requests`] may begin
/// something; for [`Attention::AFTER`] then, all others are looked at that may go on with it.
#[derive(Debug)]
pub(super) struct Attention {
    /// In each second.
    requests: u32,
    /// When the second ends that is looked at, in nanoseconds: one of the clock's.
    second_ends: i64,
    looked_at: u32,
    /// When the last one came that may have begun something, in nanoseconds.
    last_first: i64,
    is_ended: bool,
}

/// How a request is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// It may begin something.
    First,
    /// It may go on with something.
    Next,
    /// What has not ended by this time, in nanoseconds, is not seen to its end. Not looked at.
    Ends(i64),
    /// Not looked at.
    Away,
}

impl Attention {
    /// Nothing looked at yet.
    pub(super) fn new(requests: u32) -> Self {
        Self {
            requests,
            second_ends: 0,
            looked_at: 0,
            last_first: 0,
            is_ended: false,
        }
    }

    /// How many seconds have begun with a request of this time, in nanoseconds, if any: the limits of the last one may
    /// be set before it is looked at.
    #[inline]
    pub(super) fn begins(&self, at: i64) -> Option<u64> {
        let beyond = u64::try_from(at.saturating_sub(self.second_ends)).ok()?;
        Some(1 + beyond / SECOND.unsigned_abs())
    }

    /// So many requests of a second may begin something from now on. What has begun is followed to its end.
    pub(super) fn limit(&mut self, requests: u32) {
        self.requests = requests;
    }

    /// As long as a write waits for its copy, which is longer than a read for what follows it; in nanoseconds.
    const AFTER: i64 = WAITS;

    /// How a request of this time is looked at, in nanoseconds.
    #[inline]
    pub(super) fn look(&mut self, at: i64) -> Look {
        // Of requests that are answered late some come after those of the next second.
        if at >= self.second_ends {
            self.second_ends = (at / SECOND).saturating_add(1).saturating_mul(SECOND);
            self.looked_at = 0;
            self.is_ended = false;
        }
        if self.looked_at < self.requests {
            self.looked_at += 1;
            self.last_first = self.last_first.max(at);
            return Look::First;
        }
        let end = self.last_first.saturating_add(Self::AFTER);
        if at <= end {
            Look::Next
        } else if self.is_ended {
            Look::Away
        } else {
            self.is_ended = true;
            Look::Ends(end)
        }
    }
}

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_in_a_part_of_a_second_is_followed_to_its_end() {
        let mut attention = Attention::new(Relating::default().requests);
        // 100,000 a second, for two seconds.
        let looks: Vec<Look> = (0..200_000)
            .map(|at| attention.look(5_000_000_000 + at * 10_000))
            .collect();
        let count =
            |looks: &[Look], wanted: &dyn Fn(&Look) -> bool| looks.iter().filter(|look| wanted(look)).count();
        for second in looks.chunks(100_000) {
            assert_eq!(count(second, &|look| *look == Look::First), 10_000);
            assert_eq!(count(second, &|look| *look == Look::Next), 10_000);
            assert_eq!(count(second, &|look| matches!(look, Look::Ends(_))), 1);
        }
        let mut attention = Attention::new(Relating::default().requests);
        let few = (0..10_000).map(|at| attention.look(5_000_000_000 + at * 200_000));
        assert!(few.into_iter().all(|look| look == Look::First));
    }

    #[test]
    fn a_limit_is_set_where_a_second_begins() {
        let mut attention = Attention::new(2);
        let at = |nanosecond: i64| 5 * SECOND + nanosecond;
        assert!(attention.begins(at(0)).is_some());
        let looks = [0, 1, 2].map(|nanosecond| attention.look(at(nanosecond)));
        assert_eq!(looks, [Look::First, Look::First, Look::Next]);
        assert_eq!(attention.begins(at(3)), None);
        assert_eq!(attention.begins(at(2 * SECOND)), Some(2));
        assert_eq!(attention.begins(at(-1)), None, "a late one");
        attention.limit(3);
        let looks = [0, 1, 2, 3].map(|nanosecond| attention.look(at(2 * SECOND + nanosecond)));
        assert_eq!(looks, [Look::First, Look::First, Look::First, Look::Next]);
    }

    #[test]
    fn nothing_begins_where_nothing_is_looked_for() {
        let mut attention = Attention::new(Relating::NONE.requests);
        let looks = [0, 1, 2_000_000_000].map(|at: i64| attention.look(5_000_000_000 + at));
        assert!(
            looks
                .iter()
                .all(|look| matches!(look, Look::Ends(_) | Look::Away)),
            "{looks:?}"
        );
    }
}
