//! Which read a page belongs to: pages of one read are one operation.

use crate::audit::count::bounded::BoundedMap;

/// Pages that are offered, and the reads that they belong to.
#[derive(Debug)]
pub(super) struct Pages(BoundedMap<Vec<u32>>);

impl Pages {
    /// Pages that are waited for at the same time.
    const MOST: usize = 4_096;

    /// Reads of one actor that wait for the same page. Of users who read the same at the same time any one goes on: their
    /// rows are the same.
    const MOST_READS: usize = 8;

    pub(super) fn new() -> Self {
        Self(BoundedMap::new(Self::MOST))
    }

    /// The read with this number goes on with `page`, should anybody ask for it.
    pub(super) fn offer(&mut self, page: u64, read: u32) {
        let (reads, _) = self.0.entry(page, Vec::new);
        if reads.len() == Self::MOST_READS {
            reads.remove(0);
        }
        reads.push(read);
    }

    /// The read that `page` belongs to: of several the latest one.
    pub(super) fn take(&mut self, page: u64) -> Option<u32> {
        let reads = self.0.get_mut(page)?;
        let read = reads.pop();
        if reads.is_empty() {
            self.0.remove(page);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_goes_on_once() {
        let mut pages = Pages::new();
        pages.offer(7, 1);
        pages.offer(7, 2);
        pages.offer(8, 3);
        assert_eq!(
            [7, 7, 7, 8].map(|page| pages.take(page)),
            [Some(2), Some(1), None, Some(3)]
        );
    }

    #[test]
    fn of_more_reads_than_are_kept_the_oldest_is_forgotten() {
        let mut pages = Pages::new();
        (0..100).for_each(|read| pages.offer(7, read));
        let kept: Vec<_> = std::iter::from_fn(|| pages.take(7)).collect();
        assert_eq!(kept, [99, 98, 97, 96, 95, 94, 93, 92]);
    }
}
