//! Puts the pages of one read together.
//!
//! A page is found by what the answer before it offered: the keyed hash of its paging state, of the statement
//! and of the values ([`super::RequestKey`]). Neither the connection nor the host matters, since a driver may
//! fetch each page from another node, and an application may hand the state to its own client and continue
//! anywhere. Reads of the same thing at the same time have the same paging states and share one place here;
//! each of them is counted when it ends.

use std::time::Duration;

use crate::audit::{count::bounded::BoundedMap, exchange::scanned_keys::PageKeys};
use cqlens_capture::Moment;
use cqlens_window::{Paging, Pattern, PatternId, Window};

/// A read, as far as its pages have come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Pages so far.
    pages: u64,
    /// Rows so far.
    pub(crate) rows: u64,
    /// Bytes of its responses so far.
    pub(crate) bytes: u64,
    /// Different partitions in the rows so far, at least.
    partitions: Option<u64>,
    /// The partition of the last row: the next page may go on with it.
    last_key: Option<u64>,
    /// The beginning was not seen: the sums are not those of a whole read.
    is_part: bool,
}

/// One answer of a read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Page {
    /// Its rows.
    pub(crate) rows: u64,
    /// The bytes of the response.
    pub(crate) bytes: u64,
    /// What its rows say of partitions; none where the read names its partitions, or the rows do not show
    /// them.
    pub(crate) keys: Option<PageKeys>,
}

/// Reads that wait for their next page, and those that have got it.
#[derive(Debug)]
pub(crate) struct OpenReads {
    waiting: BoundedMap<OpenRead>,
    /// Pages that were fetched not long ago: another read of the same thing, or a retry, may fetch them too.
    fetched: BoundedMap<OpenRead>,
}

#[derive(Debug, Clone)]
struct OpenRead {
    progress: Progress,
    pattern: PatternId,
    since: Moment,
}

/// Reads that may wait for their next page at a time, at about 100 bytes each.
const MAX_WAITING: usize = 16_384;

/// Pages that are remembered after they were fetched.
const MAX_FETCHED: usize = 2_048;

/// A read whose next page has not been fetched for so long is taken for finished.
const ABANDONED_AFTER: Duration = Duration::from_mins(10);

impl Default for OpenReads {
    fn default() -> Self {
        Self {
            waiting: BoundedMap::new(MAX_WAITING),
            fetched: BoundedMap::new(MAX_FETCHED),
        }
    }
}

impl OpenReads {
    /// Where the read stands whose page `page` is; none if the page before it was not seen.
    pub(crate) fn progress(&self, page: u64) -> Option<Progress> {
        let known = self.waiting.get(page).or_else(|| self.fetched.get(page));
        known.map(|read| read.progress)
    }

    /// The page was answered: its read does not wait for it any more.
    pub(crate) fn fetch(&mut self, page: u64) {
        if let Some(read) = self.waiting.remove(page) {
            self.fetched.insert(page, read);
        }
    }

    /// A read waits for its next page.
    #[inline(never)]
    pub(crate) fn wait(
        &mut self,
        next_page: u64,
        progress: Progress,
        pattern: PatternId,
        at: Moment,
        window: &mut Window,
    ) {
        while let Some(read) = self
            .waiting
            .pop_oldest_if(|read| at.since(read.since) >= ABANDONED_AFTER)
        {
            abandon(&read, window);
        }
        let waiting = OpenRead {
            progress,
            pattern,
            since: at,
        };
        self.waiting.remove(next_page);
        let forgotten = self.waiting.insert(next_page, waiting);
        window.coverage.reads_forgotten += u64::from(forgotten.is_some());
    }

    /// Nothing more will be fetched.
    pub(crate) fn end(&mut self, window: &mut Window) {
        while let Some(read) = self.waiting.pop_oldest_if(|_| true) {
            abandon(&read, window);
        }
    }
}

/// Counts a read whose next page no client fetches in its pattern. Without executions in `window` there is no
/// pattern to count it in.
fn abandon(read: &OpenRead, window: &mut Window) {
    let Some(pattern) = window.counted_pattern(read.pattern) else {
        window.coverage.reads_forgotten += 1;
        return;
    };
    if !read.progress.is_part {
        pattern.paging.abandoned += 1;
    }
    read.progress.record(pattern);
}

impl Progress {
    /// A read whose beginning was not seen.
    pub(crate) fn of_part() -> Self {
        Self {
            is_part: true,
            ..Self::default()
        }
    }

    /// With one more page.
    pub(crate) fn and(self, page: Page) -> Self {
        let (partitions, last_key) = match page.keys {
            None => (self.partitions, self.last_key),
            Some(keys) => {
                let before = self.partitions.unwrap_or(0);
                let goes_on = u64::from(self.last_key == Some(keys.first));
                let partitions = if keys.in_ring_order {
                    before + keys.distinct - goes_on.min(keys.distinct)
                } else {
                    before.max(keys.distinct)
                };
                (Some(partitions), Some(keys.last))
            }
        };
        Self {
            pages: self.pages + 1,
            rows: self.rows + page.rows,
            bytes: self.bytes + page.bytes,
            partitions,
            last_key,
            is_part: self.is_part,
        }
    }

    /// The read has ended.
    pub(crate) fn record(&self, pattern: &mut Pattern) {
        if self.is_part {
            return;
        }
        let Paging { rows, pages, .. } = &mut pattern.paging;
        rows.record(self.rows);
        pages.record(self.pages);
        if let Some(partitions) = self.partitions {
            pattern.scanned.partitions.record(partitions);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use cqlens_cql::plan::StatementKind;
    use cqlens_window::PatternHead;

    fn keys(distinct: u64, first: u64, last: u64, in_ring_order: bool) -> Page {
        Page {
            rows: 10,
            bytes: 100,
            keys: Some(PageKeys {
                distinct,
                first,
                last,
                in_ring_order,
            }),
        }
    }

    #[test]
    fn a_partition_that_goes_on_in_the_next_page_counts_once() {
        let read = Progress::default()
            .and(keys(3, 1, 3, true))
            .and(keys(2, 3, 4, true));
        assert_eq!((read.pages, read.rows, read.partitions), (2, 20, Some(4)));
        let read = read.and(keys(1, 4, 4, true)).and(Page::default());
        assert_eq!((read.pages, read.rows, read.partitions), (4, 30, Some(4)));
        let read = read.and(keys(1, 5, 5, true));
        assert_eq!(read.partitions, Some(5));
    }

    #[test]
    fn an_abandoned_read_counts_where_its_statement_is_executed_and_makes_no_pattern() {
        let mut window = Window::new(jiff::Timestamp::UNIX_EPOCH, "test");
        let mut reads = OpenReads::default();
        let begun = Moment::from_unix_nanoseconds(0);
        let read = Progress::default().and(Page::default());
        reads.wait(1, read, PatternId(7), begun, &mut window);
        let later = begun.after(ABANDONED_AFTER);
        reads.wait(2, read, PatternId(8), later, &mut window);
        assert!(window.patterns.is_empty());
        assert_eq!(window.coverage.reads_forgotten, 1);
        let head = PatternHead {
            kind: StatementKind::Select,
            keyspace: None,
            table: None,
            cql: "SELECT".to_owned(),
            system: false,
        };
        window.pattern_mut(PatternId(8), "SELECT", || (head, BTreeSet::new()));
        reads.end(&mut window);
        assert_eq!(window.patterns[&PatternId(8)].paging.abandoned, 1);
        assert_eq!(window.coverage.reads_forgotten, 1);
    }

    #[test]
    fn partitions_that_may_come_again_are_not_added_up() {
        let read = Progress::default()
            .and(keys(3, 1, 3, false))
            .and(keys(2, 1, 2, false));
        assert_eq!(read.partitions, Some(3));
    }
}
