//! Results in pages: compared at their end, as one, where the pages of two clusters end elsewhere.

use std::collections::{HashMap, VecDeque};

use cqlens_capture::memory::Part;

use super::{DifferenceKind, ExcludedColumns, NotCompared, Terms, Verdict, compare};
use crate::{
    budget::{Share, separate},
    digest::{ResponseDigest, RowsDigest},
    exchange::Page,
};

/// Reads of several pages that have not come to their end.
#[derive(Debug)]
pub struct WholeReads {
    /// By the number of the exchange that gave the last page.
    reads: HashMap<u64, Read>,
    order: VecDeque<u64>,
    share: Share,
}

impl Default for WholeReads {
    fn default() -> Self {
        Self::within(&separate())
    }
}

#[derive(Debug)]
struct Read {
    expected: RowsDigest,
    actual: RowsDigest,
    /// Whether every page so far had as many rows on both sides.
    has_same_borders: bool,
    /// What was found first in a page, while borders were the same.
    found: Option<Verdict>,
}

/// What a page means for its read.
#[derive(Debug, Clone, PartialEq)]
pub enum PageStep {
    /// More pages follow.
    GoesOn,
    /// The result has only one page, or it cannot be said of which read it is.
    Single(Verdict),
    /// The read is at its end.
    Ended {
        /// What was found.
        verdict: Verdict,
        /// The sum of the first cluster's pages.
        expected: RowsDigest,
        /// The sum of the other's.
        actual: RowsDigest,
    },
    /// The first cluster is at its end and the other is not: the rest has to be read, to be compared with this.
    AskWhole(RowsDigest),
}

impl WholeReads {
    /// Clients forget to read on; more than these are given up.
    const MOST: usize = 10_000;

    /// None yet, in a part of the budget.
    pub fn within(part: &Part) -> Self {
        Self {
            reads: HashMap::new(),
            order: VecDeque::new(),
            share: Share::of(part, 8),
        }
    }

    /// Adds a page of both clusters; the other one may have ended before (`None`).
    pub fn page(
        &mut self,
        (number, page): (u64, Page),
        expected: &RowsDigest,
        actual: Option<&RowsDigest>,
        terms: &Terms,
        excluded: &ExcludedColumns,
    ) -> PageStep {
        let empty = RowsDigest::default();
        let is_over = actual.is_none();
        let actual = actual.unwrap_or(&empty);
        let is_first = page == Page::First;
        let has_same_borders = expected.count == actual.count && !is_over;
        let verdict = |expected: &RowsDigest, actual: &RowsDigest, terms: &Terms| {
            let rows = |digest: &RowsDigest| ResponseDigest::Rows(digest.clone());
            compare(&rows(expected), &rows(actual), terms, excluded)
        };
        if is_first && !expected.has_more && !actual.has_more {
            return PageStep::Single(verdict(expected, actual, terms));
        }
        let before = match page {
            Page::First => Some(Read::new()),
            Page::After(before) => self.take(before),
            Page::Unknown => None,
        };
        let Some(mut read) = before else {
            // The pages before it are not known.
            return PageStep::Single(Verdict::NotCompared(NotCompared::UnfinishedRead));
        };
        read.has_same_borders &= has_same_borders;
        if read.has_same_borders && read.found.is_none() {
            let of_page = verdict(expected, actual, terms);
            read.found = (of_page != Verdict::Equal).then_some(of_page);
        }
        add(&mut read.expected, expected);
        add(&mut read.actual, actual);
        if expected.has_more {
            self.keep(number, read);
            return PageStep::GoesOn;
        }
        if actual.has_more {
            return PageStep::AskWhole(read.expected);
        }
        PageStep::Ended {
            verdict: read.end(terms, verdict),
            expected: read.expected,
            actual: read.actual,
        }
    }

    fn keep(&mut self, number: u64, read: Read) {
        if self.take(number).is_none() {
            self.order.push_back(number);
        }
        self.share.take(read.weight());
        self.reads.insert(number, read);
        while (self.order.len() > Self::MOST || self.share.is_over())
            && let Some(oldest) = self.order.pop_front()
        {
            let evicted = self.take(oldest);
            self.share.count_evicted(usize::from(evicted.is_some()));
        }
    }

    fn take(&mut self, number: u64) -> Option<Read> {
        let read = self.reads.remove(&number)?;
        self.share.give_back(read.weight());
        Some(read)
    }
}

impl Read {
    fn new() -> Self {
        Self {
            expected: RowsDigest::default(),
            actual: RowsDigest::default(),
            has_same_borders: true,
            found: None,
        }
    }

    fn weight(&self) -> usize {
        self.expected.weight() + self.actual.weight()
    }

    fn end(&self, terms: &Terms, verdict: impl Fn(&RowsDigest, &RowsDigest, &Terms) -> Verdict) -> Verdict {
        match &self.found {
            // The order inside pages is known only where they have the same borders.
            Some(Verdict::Differs(difference))
                if difference.kind == DifferenceKind::Order && !self.has_same_borders =>
            {
                Verdict::Equal
            }
            Some(found) if self.has_same_borders => found.clone(),
            _ if self.has_same_borders => Verdict::Equal,
            _ => verdict(&self.expected, &self.actual, &unordered(terms)),
        }
    }
}

/// The digest of several pages knows no order.
pub(crate) fn unordered(terms: &Terms) -> Terms {
    Terms {
        is_ordered: false,
        ..terms.clone()
    }
}

fn add(sum: &mut RowsDigest, page: &RowsDigest) {
    if sum.column_types.is_none() {
        sum.column_types.clone_from(&page.column_types);
    }
    if sum.columns.is_empty() {
        sum.columns = vec![0; page.columns.len()];
    }
    sum.count += page.count;
    sum.unordered = sum.unordered.wrapping_add(page.unordered);
    sum.ordered ^= page.ordered.rotate_left(7);
    sum.has_more = page.has_more;
    for (sum, column) in sum.columns.iter_mut().zip(&page.columns) {
        *sum = sum.wrapping_add(*column);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Unstable;

    const TERMS: Terms = Terms {
        is_ordered: true,
        unstable: Unstable::NOTHING,
    };

    /// A page of the rows of these numbers.
    fn page(rows: &[u128], has_more: bool) -> RowsDigest {
        let ordered = rows
            .iter()
            .fold(0, |digest: u128, row| digest.wrapping_mul(31).wrapping_add(*row));
        RowsDigest {
            count: rows.len() as u64,
            ordered,
            unordered: rows.iter().sum(),
            columns: vec![rows.iter().sum()],
            column_types: None,
            has_more,
        }
    }

    fn read(pages: &[(RowsDigest, Option<RowsDigest>)]) -> PageStep {
        let mut reads = WholeReads::default();
        let mut last = PageStep::GoesOn;
        for (number, (expected, actual)) in (1..).zip(pages) {
            assert_eq!(last, PageStep::GoesOn);
            let page = if number == 1 {
                Page::First
            } else {
                Page::After(number - 1)
            };
            last = reads.page(
                (number, page),
                expected,
                actual.as_ref(),
                &TERMS,
                &ExcludedColumns::new(),
            );
        }
        last
    }

    fn verdict(step: PageStep) -> Verdict {
        match step {
            PageStep::Ended { verdict, .. } => verdict,
            step => unreachable!("{step:?}"),
        }
    }

    fn kind(verdict: Verdict) -> DifferenceKind {
        match verdict {
            Verdict::Differs(difference) => difference.kind,
            verdict => unreachable!("{verdict:?}"),
        }
    }

    #[test]
    fn pages_that_end_elsewhere_are_compared_as_one() {
        let step = read(&[
            (page(&[1, 2], true), Some(page(&[1], true))),
            (page(&[3, 4], false), Some(page(&[2, 3, 4], false))),
        ]);
        assert_eq!(verdict(step), Verdict::Equal);
        let step = read(&[
            (page(&[1, 2], true), Some(page(&[1], true))),
            (page(&[3, 4], false), Some(page(&[2, 3], false))),
        ]);
        assert_eq!(kind(verdict(step)), DifferenceKind::RowCount);
    }

    #[test]
    fn the_other_cluster_may_end_before_or_after() {
        let step = read(&[
            (page(&[1, 2], true), Some(page(&[1, 2], false))),
            (page(&[], false), None),
        ]);
        assert_eq!(
            verdict(step),
            Verdict::Equal,
            "an empty last page is no difference"
        );
        let step = read(&[(page(&[1, 2], false), Some(page(&[1, 2], true)))]);
        assert!(matches!(step, PageStep::AskWhole(_)));
    }

    #[test]
    fn a_page_in_another_order_is_found_where_borders_are_the_same() {
        let step = read(&[
            (page(&[1, 2], true), Some(page(&[2, 1], true))),
            (page(&[3], false), Some(page(&[3], false))),
        ]);
        assert_eq!(kind(verdict(step)), DifferenceKind::Order);
    }
}
