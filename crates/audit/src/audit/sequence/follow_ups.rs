//! What a client reads or writes by the values of the rows that it has just read.
//!
//! Of a sample of the reads with rows, the values of their cells are remembered for some seconds. A request of the
//! same actor whose partition key has such a value follows the read, if it comes soon after the read's answer or
//! after that of another follower: a program that joins loses no time. Values that the read itself was asked by
//! are left out: what is read by the same key is no join.
//!
//! Values come back by chance as well, popular ones often, and those of few that there are. What comes by chance comes as
//! often before a read as after it: so what was asked for in as much time before the answer is counted as well. And
//! a program that joins goes from row to row: whether followers come in the order of the rows is counted, too.

mod putting;
mod read;

use std::{cmp::Reverse, collections::VecDeque};

use cqlens_proto::message::Rows;

use super::{
    SOON,
    pages::Pages,
    places::Places,
    recent_requests::RecentRequests,
    result_columns::Columns,
    sampling::Sampling,
    values::{KeyColumn, KeyValue},
};
use crate::audit::HashKey;
use cqlens_window::{PatternId, Window};
use putting::Putting;
use read::Read;

/// Nanoseconds.
type Nanoseconds = i64;

const MILLISECOND: Nanoseconds = 1_000_000;

/// How long a read is remembered, and can be followed.
const REMEMBERED: Nanoseconds = 2_000 * MILLISECOND;

/// Reads that are remembered, whatever the times of a capture say.
const MOST_READS: usize = 1 << 15;

/// Cells of one read that are remembered.
const MOST_CELLS: usize = 4_096;

/// Keys of one request that decide which read it follows.
const MOST_COMPARED: usize = 16;

/// Finds the followers of reads.
#[derive(Debug)]
pub(super) struct FollowUpFinder {
    places: Places,
    recent: RecentRequests,
    /// By age; the first one has the number `oldest`.
    reads: VecDeque<Read>,
    oldest: u32,
    /// Cells of a second at most, whatever the limit is now.
    most_cells: usize,
    sampling: Sampling,
    pages: Pages,
}

/// A read with rows, or a page of it.
pub(super) struct ReadRows<'r> {
    pub(super) pattern: PatternId,
    pub(super) actor: u64,
    pub(super) asked_at: Nanoseconds,
    pub(super) answered_at: Nanoseconds,
    /// The number of the read that it follows itself.
    pub(super) follows: Option<u32>,
    /// The page that it is, of one actor; none for the first one.
    pub(super) page: Option<u64>,
    /// The page that it offers.
    pub(super) next_page: Option<u64>,
    pub(super) rows: &'r Rows<'r>,
    /// Hashes of what it was asked by.
    pub(super) asked: &'r [u64],
}

/// A request with keys.
#[derive(Clone, Copy)]
pub(super) struct KeyedRequest {
    pub(super) pattern: PatternId,
    pub(super) at: Nanoseconds,
    pub(super) answered_at: Nanoseconds,
}

/// The values in the keys of a request, and the columns of their table's key.
pub(super) type KeyValues<'k> = (&'k [KeyValue], &'k [KeyColumn]);

impl FollowUpFinder {
    /// Nothing seen yet; so many cells at most are remembered of the reads of a second.
    pub(super) fn new(most_cells: usize) -> Self {
        Self {
            // Four times as many as are put in while reads are remembered.
            places: Places::new(most_cells.max(16).ilog2()),
            recent: RecentRequests::new(),
            reads: VecDeque::new(),
            oldest: 1,
            most_cells,
            sampling: Sampling::new(most_cells),
            pages: Pages::new(),
        }
    }

    /// Whether there is nothing that anything could follow.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// So many cells are remembered of each second from now on.
    pub(super) fn limit(&mut self, cells: usize) {
        self.sampling.limit(cells.min(self.most_cells));
    }

    /// Whether the next read of a pattern by an actor, answered at this time, is remembered with so many cells.
    #[inline]
    pub(super) fn samples(&mut self, read: (PatternId, u64), at: Nanoseconds, cells: usize) -> bool {
        self.sampling.takes(read, at, cells.min(MOST_CELLS))
    }

    /// Remembers the values of a read's rows.
    pub(super) fn remember(
        &mut self,
        key: HashKey,
        read: &ReadRows<'_>,
        columns: Columns,
        window: &mut Window,
    ) {
        self.forget_old(read.answered_at, window);
        let Some(number) = self.next_number() else {
            self.end(window);
            *self = Self {
                sampling: std::mem::replace(&mut self.sampling, Sampling::new(0)),
                ..Self::new(self.most_cells)
            };
            return;
        };
        let begins_with = read.follows.map(|number| self.beginning_of(number));
        self.reads.push_back(Read::new(read, columns, begins_with));
        self.add_rows(key, read, number, window);
    }

    /// Remembers the values of another page of a read that is remembered: what follows it follows that read.
    pub(super) fn remember_page(&mut self, key: HashKey, read: &ReadRows<'_>, window: &mut Window) {
        self.forget_old(read.answered_at, window);
        let number = read.page.and_then(|page| self.pages.take(page));
        if let Some(number) = number.filter(|number| *number >= self.oldest) {
            self.add_rows(key, read, number, window);
        }
    }

    fn add_rows(&mut self, key: HashKey, read: &ReadRows<'_>, number: u32, window: &mut Window) {
        let (oldest, next_page) = (self.oldest, read.next_page);
        let index = number.checked_sub(oldest).map(|at| at as usize);
        let Some(remembered) = index.and_then(|at| self.reads.get_mut(at)) else {
            return;
        };
        let room = MOST_CELLS - remembered.cells.min(MOST_CELLS);
        let mut putting = Putting {
            places: &mut self.places,
            recent: &self.recent,
            key,
            read,
            place: (number, oldest),
            answered_at: remembered.answered_at,
            position: &mut remembered.positions,
            room,
            before: &mut remembered.before,
            forgotten: 0,
        };
        putting.put_rows(&remembered.columns);
        let put = room - putting.room;
        let of_rows = read.rows.len() * read.rows.metadata.column_count;
        self.sampling.add(put.saturating_sub(of_rows));
        window.coverage.row_values_forgotten += putting.forgotten;
        remembered.cells += put;
        remembered.rows += read.rows.len() as u64;
        remembered.active_until = remembered.active_until.max(read.answered_at);
        if let Some(page) = next_page {
            self.pages.offer(page, number);
        }
    }

    /// Takes a request to the read that its keys are from, and gives the number of that.
    pub(super) fn follow(&mut self, request: KeyedRequest, keys: KeyValues<'_>) -> Option<u32> {
        self.follow_from(request, keys, None)
    }

    /// Takes a request of several keys to the one read that most of them are from: single ones may be in others as well.
    pub(super) fn follow_list(&mut self, request: KeyedRequest, keys: KeyValues<'_>) -> Option<u32> {
        let read = self.read_of_most(request, keys.0);
        self.follow_from(request, keys, read)
    }

    fn follow_from(
        &mut self,
        request: KeyedRequest,
        (values, columns): KeyValues<'_>,
        read: Option<u32>,
    ) -> Option<u32> {
        let mut counted = CountedRequest {
            read,
            ..CountedRequest::default()
        };
        for value in values {
            self.recent.note(value.hash, request);
            // A key that has followed a read does not follow it again by another of its columns.
            if counted.key != Some(value.key) {
                self.follow_by(request, (value, columns), &mut counted);
            }
        }
        let number = counted.read?;
        self.read_mut(number)?.count_request(request, counted.keys);
        for number in [number, self.beginning_of(number)] {
            if let Some(read) = self.read_mut(number) {
                read.operates_until = read.operates_until.max(request.answered_at);
            }
        }
        Some(number)
    }

    /// The read that most of the first keys are from; of several such the latest.
    fn read_of_most(&mut self, request: KeyedRequest, values: &[KeyValue]) -> Option<u32> {
        let (oldest, reads) = (self.oldest, &self.reads);
        let mut found: Vec<(u32, usize)> = Vec::new();
        for value in values.iter().take(MOST_COMPARED) {
            for place in self.places.of(value.hash) {
                let index = place.read.checked_sub(oldest).map(|at| at as usize);
                let read = index.and_then(|at| reads.get(at));
                let follows =
                    |read: &Read| read.is_free(place, request.pattern) && read.is_followed_by(request);
                if !read.is_some_and(follows) {
                    continue;
                }
                match found.iter_mut().find(|(number, _)| *number == place.read) {
                    Some((_, keys)) => *keys += 1,
                    None => found.push((place.read, 1)),
                }
            }
        }
        let most = found.into_iter().max_by_key(|&(number, keys)| (keys, number));
        most.map(|(number, _)| number)
    }

    /// The read that the operation of this one began with.
    fn beginning_of(&self, number: u32) -> u32 {
        let at = number.checked_sub(self.oldest).map(|at| at as usize);
        let read = at.and_then(|at| self.reads.get(at));
        read.and_then(|read| read.begins_with).unwrap_or(number)
    }

    fn follow_by(
        &mut self,
        request: KeyedRequest,
        (value, columns): (&KeyValue, &[KeyColumn]),
        counted: &mut CountedRequest,
    ) {
        let (oldest, reads) = (self.oldest, &mut self.reads);
        let index = |number: u32| number.checked_sub(oldest).map(|at| at as usize);
        // Where several users have read the same, the value follows the read of which its row is the next one, and of
        // several such the latest: programs go on at once, from row to row. Each value follows each read once in each
        // pattern, whichever user sent it. The keys of one request follow one read.
        let mut followed = None;
        let (mut reads_with_value, mut is_chosen_by_row) = (0, false);
        for place in self.places.of(value.hash) {
            let Some(read) = index(place.read).and_then(|at| reads.get_mut(at)) else {
                continue;
            };
            let is_of_this = counted.read.is_none_or(|number| number == place.read);
            let is_soon = read.is_followed_by(request);
            let follows = is_soon || read.goes_on(request, place.row);
            if is_of_this && follows && read.is_free(place, request.pattern) {
                reads_with_value += 1;
                is_chosen_by_row |= !is_soon || reads_with_value > 1;
                let rank = (Reverse(read.rows_until(request.pattern, place.row)), place.read);
                followed = followed.max(Some(rank));
            }
        }
        let Some((_, number)) = followed else { return };
        let place = self.places.of(value.hash).find(|place| place.read == number);
        if let (Some(place), Some(read)) = (place, index(number).and_then(|at| reads.get_mut(at))) {
            place.followed |= read.bit(request.pattern);
            let column = columns.get(value.column).map_or("", |column| &column.name);
            read.count_key(request, (value.hash, column), *place, is_chosen_by_row);
            *counted = CountedRequest {
                read: Some(number),
                keys: counted.keys + 1,
                key: Some(value.key),
            };
        }
    }

    /// Counts the reads that nothing follows any more.
    fn forget_old(&mut self, now: Nanoseconds, window: &mut Window) {
        while let Some(read) = self.reads.front()
            && (now.saturating_sub(read.answered_at) > REMEMBERED || self.reads.len() >= MOST_READS)
        {
            if let Some(read) = self.reads.pop_front() {
                self.oldest += 1;
                read.count(&mut window.sequences);
            }
        }
    }

    /// Nothing is seen after this time: what may be followed later is not counted.
    pub(super) fn end_at(&mut self, end: Nanoseconds, window: &mut Window) {
        self.oldest += u32::try_from(self.reads.len()).unwrap_or(0);
        for read in self.reads.drain(..) {
            if read.active_until.saturating_add(SOON) <= end {
                read.count(&mut window.sequences);
            }
        }
    }

    /// Counts all reads, of which nothing more is seen.
    pub(super) fn end(&mut self, window: &mut Window) {
        self.oldest += u32::try_from(self.reads.len()).unwrap_or(0);
        for read in self.reads.drain(..) {
            read.count(&mut window.sequences);
        }
    }

    /// None once numbers are used up.
    fn next_number(&self) -> Option<u32> {
        let reads = u32::try_from(self.reads.len()).ok()?;
        self.oldest.checked_add(reads)
    }

    fn read_mut(&mut self, number: u32) -> Option<&mut Read> {
        let at = number.checked_sub(self.oldest)?;
        self.reads.get_mut(at as usize)
    }
}

/// What of a request was counted.
#[derive(Debug, Default)]
struct CountedRequest {
    read: Option<u32>,
    keys: u64,
    key: Option<usize>,
}

#[cfg(test)]
mod tests;
