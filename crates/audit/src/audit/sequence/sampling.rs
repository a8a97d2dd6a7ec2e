//! Which reads are remembered, where there are too many.

use std::{collections::hash_map::Entry, hash::Hash};

use rustc_hash::FxHashMap;

use cqlens_window::PatternId;

/// Which reads are remembered: of the cells of a second half go to the reads that come first, a quarter in equal parts to
/// all patterns, and a quarter in equal parts to all actors. So neither a statement nor an application that has
/// most of the rows keeps the others out.
#[derive(Debug)]
pub(super) struct Sampling {
    /// Of a second.
    cells: usize,
    second: i64,
    /// Cells of this second that went to the first reads.
    used: usize,
    by_pattern: Shares<PatternId>,
    by_actor: Shares<u64>,
}

impl Sampling {
    pub(super) fn new(cells: usize) -> Self {
        Self {
            cells,
            second: 0,
            used: 0,
            by_pattern: Shares::default(),
            by_actor: Shares::default(),
        }
    }

    /// So many cells are remembered of each second from now on.
    pub(super) fn limit(&mut self, cells: usize) {
        self.cells = cells;
    }

    /// Whether a read of `pattern` by `actor`, answered at this time in nanoseconds, is remembered with so many cells.
    pub(super) fn takes(&mut self, (pattern, actor): (PatternId, u64), at: i64, cells: usize) -> bool {
        let second = at / 1_000_000_000;
        if self.second != second {
            self.second = second;
            self.used = 0;
            self.by_pattern.begin();
            self.by_actor.begin();
        }
        let quarter = self.cells / 4;
        let parts = (self.by_pattern.of(pattern), self.by_actor.of(actor));
        let (Some((of_pattern, patterns)), Some((of_actor, actors))) = parts else {
            return false;
        };
        let used = if self.used < self.cells / 2 {
            &mut self.used
        } else if *of_pattern < quarter / patterns {
            of_pattern
        } else if *of_actor < quarter / actors {
            of_actor
        } else {
            return false;
        };
        *used += cells;
        true
    }

    /// A read that was taken had more cells than its rows have columns.
    pub(super) fn add(&mut self, cells: usize) {
        self.used += cells;
    }
}

/// What each of them has used of its part in a second.
#[derive(Debug)]
struct Shares<K> {
    used: FxHashMap<K, usize>,
    /// How many there were in the second before.
    before: usize,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self {
            used: FxHashMap::default(),
            before: 0,
        }
    }
}

impl<K: Eq + Hash> Shares<K> {
    /// More in a second are not remembered.
    const MOST: usize = 4_096;

    fn begin(&mut self) {
        self.before = self.used.len();
        self.used.clear();
    }

    /// What this one has used, and among how many it is shared; none where there are too many.
    fn of(&mut self, key: K) -> Option<(&mut usize, usize)> {
        let known = self.used.len();
        match self.used.entry(key) {
            Entry::Occupied(used) => Some((used.into_mut(), self.before.max(known))),
            Entry::Vacant(new) if known < Self::MOST => Some((new.insert(0), self.before.max(known + 1))),
            Entry::Vacant(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// The cells that are remembered of reads of ten cells, by pattern and actor, in turn.
    fn remembered<const N: usize>(reads: [(u64, u64); N], rounds: usize) -> [usize; N] {
        let mut sampling = Sampling::new(4_000);
        let mut taken = [0; N];
        for _ in 0..rounds {
            for ((pattern, actor), taken) in reads.iter().zip(&mut taken) {
                *taken += 10 * usize::from(sampling.takes((PatternId(*pattern), *actor), SECOND, 10));
            }
        }
        taken
    }

    #[test]
    fn all_cells_are_remembered_as_long_as_they_are_few() {
        assert_eq!(remembered([(1, 1), (2, 2)], 100), [1_000, 1_000]);
    }

    #[test]
    fn of_more_than_there_is_room_for_each_has_a_part() {
        let [one, other] = remembered([(1, 1), (2, 2)], 10_000);
        assert_eq!(one, other);
        assert!((3_500..=4_100).contains(&(one + other)), "{one} and {other}");
    }

    #[test]
    fn elements_of_collections_count() {
        let mut sampling = Sampling::new(4_000);
        let mut taken = 0;
        for _ in 0..10_000 {
            if sampling.takes((PatternId(1), 1), SECOND, 10) {
                sampling.add(90);
                taken += 1;
            }
        }
        assert!((200..=260).contains(&taken), "{taken}, not a tenth of it");
    }

    #[test]
    fn a_busy_actor_leaves_a_part_to_the_others() {
        let mut sampling = Sampling::new(4_000);
        for second in 1..=3 {
            let at = second * SECOND;
            let busy = (0..10_000)
                .filter(|_| sampling.takes((PatternId(1), 1), at, 10))
                .count();
            let other = (0..100)
                .filter(|_| sampling.takes((PatternId(1), 2), at, 10))
                .count();
            assert!(second == 1 || busy <= 350, "{busy}");
            assert!(other >= 50, "{other}");
        }
    }

    #[test]
    fn a_busy_statement_leaves_a_part_to_the_others() {
        let mut sampling = Sampling::new(4_000);
        for second in 1..=3 {
            let at = second * SECOND;
            let busy = (0..10_000)
                .filter(|_| sampling.takes((PatternId(1), 1), at, 10))
                .count();
            let other = (0..100)
                .filter(|_| sampling.takes((PatternId(2), 1), at, 10))
                .count();
            assert!(second == 1 || busy <= 350, "{busy}");
            assert!(other >= 50, "{other}");
        }
    }
}
