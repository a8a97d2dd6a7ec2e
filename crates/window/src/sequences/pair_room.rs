//! Whether a window has room for another pair of statements.

use super::Sequences;

/// Knows how many more pairs there is room for, without counting them for each.
///
/// They are counted again once as many have come as there was room for, or as many were refused as there is room for at
/// most: ever new pairs cost no more than few do.
#[derive(Debug, Default)]
pub struct PairRoom {
    /// Pairs that may come before those that are there are counted again.
    left: usize,
    is_full: bool,
}

impl PairRoom {
    /// A window begins, without pairs.
    pub fn begin(&mut self) {
        *self = Self::default();
    }

    /// Whether there is room for a new pair beside those that are there, as many as `count` says.
    pub fn takes(&mut self, count: impl FnOnce() -> usize) -> bool {
        if self.left == 0 {
            let room = Sequences::MOST_LINKS.saturating_sub(count());
            self.is_full = room == 0;
            self.left = match self.is_full {
                true => Sequences::MOST_LINKS,
                false => room,
            };
        }
        self.left -= 1;
        !self.is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_once_for_many_that_come() {
        let (mut room, mut pairs, mut counts) = (PairRoom::default(), 0, 0);
        let mut take = |pairs: &mut usize, room: &mut PairRoom| {
            let takes = room.takes(|| {
                counts += 1;
                *pairs
            });
            *pairs += usize::from(takes);
        };
        (0..100_000).for_each(|_| take(&mut pairs, &mut room));
        assert_eq!(pairs, Sequences::MOST_LINKS);
        // A pattern has left the window.
        pairs -= 10;
        (0..2_000).for_each(|_| take(&mut pairs, &mut room));
        assert_eq!(pairs, Sequences::MOST_LINKS);
        pairs = 0;
        room.begin();
        (0..5).for_each(|_| take(&mut pairs, &mut room));
        assert_eq!(pairs, 5);
        assert!(counts <= 105, "{counts}");
    }
}
