//! Which requests are sources: those that an operation may begin with, and whose follow-ups are looked for.
//!
//! Decided by counts and by the traffic's own seconds alone, so the same traffic has the same sources on every machine, at any
//! load, live and from a capture. A source is followed to its end, whatever comes after it.

use rustc_hash::FxHashMap;

use super::copies::WAITS;
use cqlens_window::PatternId;

/// How many sources are sampled: where there are more in a second, the first ones, and a part for each statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLimit {
    /// Requests of a second that may begin an operation by what is sent just after them: walks, copies, repeated reads.
    pub requests: u32,
    /// Cells of the rows of a second that are remembered, about.
    pub cells: usize,
}

impl SourceLimit {
    /// All requests, and as many cells as 12 MiB hold: for tests of applications, which are no load.
    pub const ALL: Self = Self {
        requests: u32::MAX,
        cells: 1 << 16,
    };

    /// Nothing is looked for.
    pub const NONE: Self = Self {
        requests: 0,
        cells: 0,
    };

    /// So many reads of a second, of four cells each, and ten requests for each of those.
    pub fn of(sources: u32) -> Self {
        let Self { requests, cells } = Self::ALL;
        Self {
            requests: sources.saturating_mul(10).min(requests),
            cells: (sources as usize).saturating_mul(4).min(cells),
        }
    }
}

impl Default for SourceLimit {
    fn default() -> Self {
        Self::of(1_024)
    }
}

/// The sources of the current second.
#[derive(Debug)]
pub(super) struct Sources {
    limit: SourceLimit,
    /// When the second ends that is looked at, in nanoseconds: one of the traffic's.
    second_ends: i64,
    /// Requests of it that may have begun something.
    begun: u32,
    /// When the last of those came, in nanoseconds.
    last_begun: i64,
    is_ended: bool,
    rows: RowSources,
}

/// How a request is compared with those just before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// It may begin an operation.
    First,
    /// It may go on with one.
    Next,
    /// What has not ended by this time, in nanoseconds, is not seen to its end. Not compared.
    Ends(i64),
    /// Not compared.
    Away,
}

impl Sources {
    pub(super) fn new(limit: SourceLimit) -> Self {
        Self {
            limit,
            second_ends: i64::MIN,
            begun: 0,
            last_begun: 0,
            is_ended: false,
            rows: RowSources::default(),
        }
    }

    /// How a request of this time is compared, in nanoseconds.
    #[inline]
    pub(super) fn look(&mut self, at: i64) -> Look {
        // Of requests that are answered late some come after those of the next second.
        if at >= self.second_ends {
            self.begin_second(at);
        }
        if self.begun < self.limit.requests {
            self.begun += 1;
            self.last_begun = self.last_begun.max(at);
            return Look::First;
        }
        // As long as a write waits for its copy.
        let end = self.last_begun.saturating_add(WAITS);
        if at <= end {
            Look::Next
        } else if self.is_ended {
            Look::Away
        } else {
            self.is_ended = true;
            Look::Ends(end)
        }
    }

    #[cold]
    fn begin_second(&mut self, at: i64) {
        self.second_ends = (at / SECOND).saturating_add(1).saturating_mul(SECOND);
        self.begun = 0;
        self.is_ended = false;
        self.rows.begin_second();
    }

    /// Whether a read of `pattern` with so many cells is a source.
    #[inline]
    pub(super) fn takes_rows(&mut self, pattern: PatternId, cells: usize) -> bool {
        self.rows.takes(pattern, cells, self.limit.cells)
    }

    /// A read that was taken had more cells than its rows have columns.
    pub(super) fn add(&mut self, cells: usize) {
        self.rows.used += cells;
    }

    /// Reads with rows that were no sources since they were counted last, by pattern.
    pub(super) fn take_passed_over(&mut self) -> impl Iterator<Item = (PatternId, u64)> {
        let patterns = self.rows.patterns.iter_mut();
        patterns.filter_map(|(pattern, of)| match std::mem::take(&mut of.passed_over) {
            0 => None,
            passed_over => Some((*pattern, passed_over)),
        })
    }

    /// The same, for the statements beyond those that are counted one by one.
    pub(super) fn take_passed_over_of_others(&mut self) -> u64 {
        std::mem::take(&mut self.rows.of_others)
    }
}

/// Reads whose rows are remembered: of the cells of a second half go to those that come first, and half in equal parts to
/// all statements. So no statement that has most of the rows keeps the others out, and each has one read at least.
#[derive(Debug, Default)]
struct RowSources {
    /// Cells of this second.
    used: usize,
    patterns: FxHashMap<PatternId, OfPattern>,
    /// Reads that were no sources, of statements beyond [`RowSources::MOST`].
    of_others: u64,
    /// Statements that read in this second, and in the one before.
    reading: usize,
    before: usize,
    second: u64,
}

#[derive(Debug, Default)]
struct OfPattern {
    /// The second in which it read last.
    second: u64,
    /// Cells of it that are a part of the second half.
    used: usize,
    passed_over: u64,
}

impl RowSources {
    /// Statements that are counted one by one.
    const MOST: usize = 4_096;

    fn begin_second(&mut self) {
        self.before = self.reading;
        self.reading = 0;
        self.used = 0;
        self.second += 1;
        // Texts that are always new: what they have not been counted for is the least.
        if self.patterns.len() >= Self::MOST {
            let second = self.second;
            self.patterns
                .retain(|_, of| of.passed_over > 0 || second - of.second < 10);
        }
    }

    fn takes(&mut self, pattern: PatternId, cells: usize, limit: usize) -> bool {
        if limit == 0 {
            return false;
        }
        if self.patterns.len() >= Self::MOST && !self.patterns.contains_key(&pattern) {
            self.of_others += 1;
            return false;
        }
        let of = self.patterns.entry(pattern).or_default();
        if of.second != self.second {
            of.second = self.second;
            of.used = 0;
            self.reading += 1;
        }
        let half = limit / 2;
        if self.used < half {
            self.used += cells;
        } else if of.used * self.before.max(self.reading).max(1) < half {
            of.used += cells.max(1);
        } else {
            of.passed_over += 1;
            return false;
        }
        true
    }
}

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_in_a_part_of_a_second_is_followed_to_its_end() {
        let limit = SourceLimit::default();
        let mut sources = Sources::new(limit);
        // 100,000 a second, for two seconds.
        let looks: Vec<Look> = (0..200_000)
            .map(|at| sources.look(5 * SECOND + at * 10_000))
            .collect();
        let count =
            |looks: &[Look], wanted: &dyn Fn(&Look) -> bool| looks.iter().filter(|look| wanted(look)).count();
        for second in looks.chunks(100_000) {
            assert_eq!(
                count(second, &|look| *look == Look::First),
                limit.requests as usize
            );
            assert_eq!(count(second, &|look| *look == Look::Next), 10_000);
            assert_eq!(count(second, &|look| matches!(look, Look::Ends(_))), 1);
        }
        let mut sources = Sources::new(limit);
        let few = (0..10_000).map(|at| sources.look(5 * SECOND + at * 200_000));
        assert!(few.into_iter().all(|look| look == Look::First));
    }

    #[test]
    fn nothing_begins_where_nothing_is_looked_for() {
        let mut sources = Sources::new(SourceLimit::NONE);
        let looks = [0, 1, 2 * SECOND].map(|at| sources.look(5 * SECOND + at));
        let is_away = |look: &Look| matches!(look, Look::Ends(_) | Look::Away);
        assert!(looks.iter().all(is_away), "{looks:?}");
        assert!(!sources.takes_rows(PatternId(1), 1));
    }

    #[test]
    fn a_number_of_sources_is_a_limit_up_to_that_of_all() {
        let of = |sources| {
            let SourceLimit { requests, cells } = SourceLimit::of(sources);
            (requests, cells)
        };
        assert_eq!(of(0), (0, 0));
        assert_eq!(of(1), (10, 4));
        assert_eq!(of(u32::MAX), (u32::MAX, 1 << 16));
        assert_eq!(SourceLimit::of(0), SourceLimit::NONE);
    }

    /// The cells that are remembered of reads of ten cells by each pattern, in turns of so many each, in each second.
    fn remembered<const N: usize>(turns: [usize; N], seconds: i64) -> [usize; N] {
        let mut sources = Sources::new(SourceLimit::of(1_000));
        let mut taken = [0; N];
        for second in 1..=seconds {
            sources.look(second * SECOND);
            taken = [0; N];
            for (pattern, (turns, taken)) in (1_u64..).zip(turns.iter().zip(&mut taken)) {
                let takes = (0..*turns).filter(|_| sources.takes_rows(PatternId(pattern), 10));
                *taken = takes.count() * 10;
            }
        }
        taken
    }

    #[test]
    fn all_cells_are_remembered_as_long_as_they_are_few() {
        assert_eq!(remembered([100, 90], 1), [1_000, 900]);
    }

    #[test]
    fn a_busy_statement_leaves_a_part_to_the_others() {
        assert_eq!(remembered([10_000, 10, 10], 2), [2_000 + 670, 100, 100]);
        let [busy, other] = remembered([10_000, 10_000], 2);
        assert_eq!((busy, other), (3_000, 1_000));
    }

    #[test]
    fn a_statement_that_comes_last_has_a_read_whatever_the_others_took() {
        let mut turns = [100; 600];
        turns[599] = 1;
        assert_eq!(remembered(turns, 3)[599], 10);
    }

    #[test]
    fn elements_of_collections_count() {
        let mut sources = Sources::new(SourceLimit::of(1_000));
        let mut taken = 0;
        for _ in 0..10_000 {
            if sources.takes_rows(PatternId(1), 10) {
                sources.add(90);
                taken += 1;
            }
        }
        assert!((200..=260).contains(&taken), "{taken}, not a tenth of it");
    }

    #[test]
    fn what_is_no_source_is_counted_once() {
        let mut sources = Sources::new(SourceLimit::of(1));
        let taken = (0..100).filter(|_| sources.takes_rows(PatternId(1), 1)).count() as u64;
        let passed_over: Vec<_> = sources.take_passed_over().collect();
        assert_eq!(passed_over, [(PatternId(1), 100 - taken)]);
        assert_eq!(sources.take_passed_over().count(), 0);
    }

    #[test]
    fn ever_new_statements_take_no_memory() {
        let mut sources = Sources::new(SourceLimit::default());
        for at in 0..100_000 {
            sources.look(at * SECOND / 10_000);
            sources.takes_rows(PatternId(at.unsigned_abs()), 1);
        }
        assert!(sources.rows.patterns.len() <= RowSources::MOST);
        // All that were not remembered are counted, those of too many statements among them.
        let mut sources = Sources::new(SourceLimit::default());
        sources.look(5 * SECOND);
        let taken = (0..100_000).filter(|pattern| sources.takes_rows(PatternId(*pattern), 1));
        let taken = taken.count() as u64;
        let of_each: u64 = sources.take_passed_over().map(|(_, reads)| reads).sum();
        assert_eq!(of_each + sources.take_passed_over_of_others() + taken, 100_000);
    }
}
