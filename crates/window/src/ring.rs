//! Which part of the token ring has been read.

use serde::{Deserialize, Serialize};

use super::sketch::meter;

/// A part of the token ring, in 4,096 cells.
///
/// The ends of a range are rounded to the nearest cell, so that ranges that share an end leave no gap between
/// them, however narrow they are. Each end of a connected stretch is off by at most 1/8,192 of the ring. What
/// is covered does not depend on the order in which ranges came or parts were merged. 512 bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stretches", into = "Vec<(u16, u16)>")]
pub struct RingCover {
    /// A bit for each cell; empty where nothing is covered.
    words: Vec<u64>,
}

/// Cells of a ring. Part of the snapshot format.
const CELLS: u16 = 4_096;

const WORDS: usize = CELLS as usize / 64;

impl RingCover {
    /// Covers the tokens above `after`, up to and with `up_to`. Says how many cells the range has, and how
    /// many of them were not covered before.
    pub fn insert(&mut self, after: i64, up_to: i64) -> (u16, u16) {
        let (from, to) = (cell(after), cell(up_to));
        self.insert_cells(from, to)
    }

    fn insert_cells(&mut self, from: u16, to: u16) -> (u16, u16) {
        if from >= to {
            return (0, 0);
        }
        if self.words.is_empty() {
            meter::grow(WORDS * size_of::<u64>());
        }
        self.words.resize(WORDS, 0);
        let mut new = 0;
        let mut first = from;
        while first < to {
            // The cells of one word.
            let end = to.min((first / 64 + 1) * 64);
            let bits = (u64::MAX >> (64 - (end - first))) << (first % 64);
            if let Some(word) = self.words.get_mut(usize::from(first / 64)) {
                new += (bits & !*word).count_ones();
                *word |= bits;
            }
            first = end;
        }
        // There are 4,096 cells.
        (to - from, u16::try_from(new).unwrap_or(CELLS))
    }

    /// Adds what `other` covers.
    pub fn merge(&mut self, other: &Self) {
        if other.words.is_empty() {
            return;
        }
        self.words.resize(WORDS, 0);
        for (mine, its) in self.words.iter_mut().zip(&other.words) {
            *mine |= its;
        }
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Covers nothing any more.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Whether nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The covered part of the ring, 0.0 to 1.0.
    pub fn share(&self) -> f64 {
        let covered: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        f64::from(covered) / f64::from(CELLS)
    }

    fn has(&self, cell: u16) -> bool {
        let word = self.words.get(usize::from(cell / 64));
        word.is_some_and(|word| word & (1 << (cell % 64)) != 0)
    }
}

/// The cell that begins nearest to a token: 0 to [`CELLS`].
fn cell(token: i64) -> u16 {
    // From the ring's start; the shift divides by the ring's length.
    let position = (i128::from(token) - i128::from(i64::MIN)).cast_unsigned();
    let cell = (position * u128::from(CELLS) + (1 << 63)) >> 64;
    u16::try_from(cell).unwrap_or(CELLS)
}

/// The covered stretches: (first cell, the cell after the last one).
impl From<RingCover> for Vec<(u16, u16)> {
    fn from(cover: RingCover) -> Self {
        let mut stretches: Self = Vec::new();
        for cell in (0..CELLS).filter(|&cell| cover.has(cell)) {
            match stretches.last_mut() {
                Some((_, end)) if *end == cell => *end += 1,
                _ => stretches.push((cell, cell + 1)),
            }
        }
        stretches
    }
}

/// What is stored.
#[derive(Deserialize)]
struct Stretches(#[serde(deserialize_with = "meter::list")] Vec<(u16, u16)>);

/// Every other cell is a stretch.
const MOST_STRETCHES: usize = CELLS as usize / 2;

impl TryFrom<Stretches> for RingCover {
    type Error = &'static str;

    fn try_from(Stretches(stretches): Stretches) -> Result<Self, Self::Error> {
        if stretches.len() > MOST_STRETCHES {
            return Err("more stretches than the ring has");
        }
        let mut cover = Self::default();
        for (from, to) in stretches {
            if from >= to || to > CELLS {
                return Err("a stretch of the ring that is none");
            }
            cover.insert_cells(from, to);
        }
        Ok(cover)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn of(ranges: &[(i64, i64)]) -> RingCover {
        let mut cover = RingCover::default();
        for &(after, up_to) in ranges {
            cover.insert(after, up_to);
        }
        cover
    }

    #[test]
    fn halves_and_the_whole_ring_are_what_they_are() {
        assert!((of(&[(0, i64::MAX)]).share() - 0.5).abs() < 1e-9);
        assert!((of(&[(i64::MIN, 0), (0, i64::MAX)]).share() - 1.0).abs() < 1e-9);
        assert!((of(&[(0, i64::MAX), (1 << 40, i64::MAX)]).share() - 0.5).abs() < 1e-9);
        assert_eq!(of(&[(5, 5), (7, 3)]), RingCover::default());
    }

    #[test]
    fn what_was_covered_before_is_not_new() {
        let mut cover = RingCover::default();
        assert_eq!(cover.insert(i64::MIN, 0), (2_048, 2_048));
        assert_eq!(cover.insert(i64::MIN, i64::MAX), (4_096, 2_048));
        assert_eq!(cover.insert(i64::MIN, 0), (2_048, 0));
    }

    #[test]
    fn a_stored_cover_comes_back_and_a_damaged_one_is_refused() {
        let cover = of(&[(i64::MIN, -(1 << 62)), (0, 1 << 60)]);
        let text = serde_json::to_string(&cover).unwrap();
        assert_eq!(text, "[[0,1024],[2048,2304]]");
        assert_eq!(serde_json::from_str::<RingCover>(&text).unwrap(), cover);
        assert!(serde_json::from_str::<RingCover>("[[0,4097]]").is_err());
        assert!(serde_json::from_str::<RingCover>("[[7,7]]").is_err());
    }

    proptest! {
        /// However finely and in whatever order the ring is cut.
        #[test]
        fn ranges_that_share_their_ends_cover_the_ring(mut cuts in vec(any::<i64>(), 0..3_000), turn in any::<prop::sample::Index>()) {
            cuts.sort_unstable();
            let starts = std::iter::once(i64::MIN).chain(cuts.iter().copied());
            let ends = cuts.iter().copied().chain(std::iter::once(i64::MAX));
            let mut ranges: Vec<_> = starts.zip(ends).collect();
            let middle = turn.index(ranges.len());
            ranges.rotate_left(middle);
            let whole = of(&ranges);
            prop_assert!((whole.share() - 1.0).abs() < 1e-9);
            let (mut left, right) = (of(&ranges[..middle]), of(&ranges[middle..]));
            left.merge(&right);
            prop_assert_eq!(left, whole);
        }

        #[test]
        fn one_range_is_off_by_a_cell_at_most(a in any::<i64>(), b in any::<i64>()) {
            let (after, up_to) = (a.min(b), a.max(b));
            let exact = (i128::from(up_to) - i128::from(after)) as f64 / 2f64.powi(64);
            prop_assert!((of(&[(after, up_to)]).share() - exact).abs() <= 1.0 / f64::from(CELLS));
        }
    }
}
