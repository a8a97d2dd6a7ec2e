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

use std::collections::VecDeque;

use cqlens_proto::message::Rows;

use super::{
    SOON,
    inside::More,
    lately_asked::{Asker, LatelyAsked},
    pages::Pages,
    places::{Place, Places, Put},
    result_columns::Columns,
    sampling::Sampling,
    values,
};
use crate::{
    audit::HashKey,
    window::{PatternId, Sequences, Window},
};

/// Nanoseconds.
type Nanoseconds = i64;

const MILLISECOND: Nanoseconds = 1_000_000;

/// How long a read is remembered, and can be followed.
const REMEMBERED: Nanoseconds = 2_000 * MILLISECOND;

/// Reads that are remembered, whatever the times of a capture say.
const MOST_READS: usize = 1 << 15;

/// Cells of one read that are remembered.
const MOST_CELLS: usize = 4_096;

/// Keys of one request that are looked at.
const MOST_KEYS: usize = 1_024;

/// Patterns that followers of one read are told apart by.
const MOST_LINKS: usize = 16;

/// Finds the followers of reads.
#[derive(Debug)]
pub(super) struct FollowUps {
    places: Places,
    lately: LatelyAsked,
    /// By age; the first one has the number `oldest`.
    reads: VecDeque<Read>,
    oldest: u32,
    /// Cells of a second at most, whatever the limit is now.
    most_cells: usize,
    sampling: Sampling,
    pages: Pages,
}

/// A read whose rows are remembered.
#[derive(Debug)]
struct Read {
    pattern: PatternId,
    columns: Columns,
    rows: u64,
    /// Cells of its rows that are remembered.
    cells: usize,
    /// Rows, and elements in them, in their order.
    positions: usize,
    answered_at: Nanoseconds,
    /// When the last of its pages or of its followers was answered.
    active_until: Nanoseconds,
    /// When the last of its followers was answered.
    followed_until: Nanoseconds,
    /// When its request came.
    asked_at: Nanoseconds,
    /// The number of the read that the operation began with, if it did not begin with this one.
    begins_with: Option<u32>,
    /// When the last of what follows it was answered, followers of followers among them.
    operates_until: Nanoseconds,
    /// Values of its rows that were asked for before its answer: by which pattern, and how long before.
    before: Vec<(Asker, Nanoseconds)>,
    links: Vec<Follower>,
}

/// What follows a read, by pattern.
#[derive(Debug)]
struct Follower {
    pattern: PatternId,
    keys: u64,
    requests: u64,
    lists: u64,
    overlapping: u64,
    values: Vec<u64>,
    /// Column of the rows, column of the key, keys.
    columns: Vec<(u8, Box<str>, u64)>,
    /// The row and the time of the request that followed last.
    last: Option<(u16, Nanoseconds)>,
    /// Followers that were compared with the one before them, and those that came in the order of the rows.
    compared: u64,
    in_order: u64,
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

/// A value in a key: of which key of its request, in which column.
pub(super) struct KeyValue<'c> {
    pub(super) key: usize,
    pub(super) hash: u64,
    pub(super) column: &'c str,
}

impl FollowUps {
    /// Nothing seen yet; so many cells at most are remembered of the reads of a second.
    pub(super) fn new(most_cells: usize) -> Self {
        Self {
            // Four times as many as are put in while reads are remembered.
            places: Places::new(most_cells.max(16).ilog2()),
            lately: LatelyAsked::new(),
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
        self.reads.push_back(Read {
            pattern: read.pattern,
            columns,
            rows: 0,
            cells: 0,
            positions: 0,
            answered_at: read.answered_at,
            active_until: read.answered_at,
            followed_until: read.answered_at,
            asked_at: read.asked_at,
            begins_with,
            operates_until: read.answered_at,
            before: Vec::new(),
            links: Vec::new(),
        });
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
        let mut putting = Putting {
            places: &mut self.places,
            lately: &self.lately,
            key,
            read,
            place: (number, oldest),
            answered_at: remembered.answered_at,
            position: remembered.positions,
            room: MOST_CELLS - remembered.cells.min(MOST_CELLS),
            before: Vec::new(),
            forgotten: 0,
        };
        putting.put_rows(&remembered.columns);
        let room = putting.room;
        let put = MOST_CELLS - remembered.cells.min(MOST_CELLS) - room;
        let of_rows = read.rows.len() * read.rows.metadata.column_count;
        self.sampling.add(put.saturating_sub(of_rows));
        window.coverage.row_values_forgotten += putting.forgotten;
        remembered.positions = putting.position;
        remembered.before.append(&mut putting.before);
        remembered.cells += put;
        remembered.rows += read.rows.len() as u64;
        remembered.active_until = remembered.active_until.max(read.answered_at);
        if let Some(page) = next_page {
            self.pages.offer(page, number);
        }
    }

    /// Takes a request to the read that its keys are from, and gives the number of that.
    pub(super) fn follow<'c>(
        &mut self,
        request: KeyedRequest,
        keys: impl Iterator<Item = KeyValue<'c>>,
    ) -> Option<u32> {
        let mut counted = Counted::default();
        for value in keys {
            self.lately.note(value.hash, request);
            // A key that has followed a read does not follow it again by another of its columns.
            if value.key < MOST_KEYS && counted.key != Some(value.key) {
                self.follow_by(request, &value, &mut counted);
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

    /// The read that the operation of this one began with.
    fn beginning_of(&self, number: u32) -> u32 {
        let at = number.checked_sub(self.oldest).map(|at| at as usize);
        let read = at.and_then(|at| self.reads.get(at));
        read.and_then(|read| read.begins_with).unwrap_or(number)
    }

    fn follow_by(&mut self, request: KeyedRequest, value: &KeyValue<'_>, counted: &mut Counted) {
        let (oldest, reads) = (self.oldest, &mut self.reads);
        let index = |number: u32| number.checked_sub(oldest).map(|at| at as usize);
        // Of several reads with the value the latest one: programs go on at once. Where several users have read the
        // same, each value follows each of their reads once, whoever it was. The keys of one request follow one read.
        let mut followed = None;
        for place in self.places.of(value.hash) {
            let Some(read) = index(place.read).and_then(|at| reads.get_mut(at)) else {
                continue;
            };
            let is_of_this = counted.read.is_none_or(|number| number == place.read);
            if is_of_this && !place.followed && read.is_followed_by(request) {
                followed = followed.max(Some(place.read));
            }
        }
        let Some(number) = followed else { return };
        let place = self.places.of(value.hash).find(|place| place.read == number);
        if let (Some(place), Some(read)) = (place, index(number).and_then(|at| reads.get_mut(at))) {
            place.followed = true;
            read.count_key(request, value, *place);
            *counted = Counted {
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

/// The rows of a read on their way into places.
struct Putting<'r> {
    places: &'r mut Places,
    lately: &'r LatelyAsked,
    key: HashKey,
    read: &'r ReadRows<'r>,
    /// The number of the read, and that of the oldest one.
    place: (u32, u32),
    answered_at: Nanoseconds,
    position: usize,
    /// Cells that may be put in.
    room: usize,
    /// Requests for the same values before the read was answered.
    before: Vec<(Asker, Nanoseconds)>,
    forgotten: u64,
}

impl Putting<'_> {
    /// Puts cells in, and what is inside them, as long as there is room.
    fn put_rows(&mut self, columns: &Columns) {
        for row in self.read.rows.iter().map_while(Result::ok) {
            for (at, cell) in row.iter().enumerate().take(usize::from(u8::MAX)) {
                if self.room == 0 {
                    return;
                }
                self.room -= 1;
                let Some(cell) = cell else { continue };
                let column = u8::try_from(at).unwrap_or(u8::MAX);
                self.put(cell, column);
                if let Some(of) = columns.get(at) {
                    let _ = of
                        .inside
                        .visit(cell, &mut |element| self.put_element(element, column));
                }
            }
            self.position += 1;
        }
    }

    fn put_element(&mut self, element: &[u8], column: u8) -> More {
        if self.room == 0 {
            return More::Break(());
        }
        self.room -= 1;
        self.position += 1;
        self.put(element, column);
        More::Continue(())
    }

    fn put(&mut self, value: &[u8], column: u8) {
        let hash = values::hash(self.key, self.read.actor, value);
        let Some(hash) = hash.filter(|hash| !self.read.asked.contains(hash)) else {
            return;
        };
        let (number, oldest) = self.place;
        let position = u16::try_from(self.position).unwrap_or(u16::MAX);
        let put = self.places.put(hash, number, (position, column), oldest);
        self.forgotten += u64::from(put == Put::InsteadOfAnother);
        if put != Put::Known {
            self.before.extend(self.lately.before(hash, self.answered_at));
        }
    }
}

/// What of a request was counted.
#[derive(Debug, Default)]
struct Counted {
    read: Option<u32>,
    keys: u64,
    key: Option<usize>,
}

impl Read {
    fn is_followed_by(&self, request: KeyedRequest) -> bool {
        let is_in_time = request.at.saturating_sub(self.answered_at) < REMEMBERED;
        let is_soon = request.at.saturating_sub(self.active_until) <= SOON;
        request.at >= self.answered_at && is_in_time && is_soon
    }

    /// What of `pattern` follows; none where too many do.
    fn link(&mut self, pattern: PatternId) -> Option<&mut Follower> {
        let place = self.links.iter().position(|link| link.pattern == pattern);
        let place = match place {
            None if self.links.len() >= MOST_LINKS => return None,
            None => {
                self.links.push(Follower::of(pattern));
                self.links.len() - 1
            }
            Some(place) => place,
        };
        self.links.get_mut(place)
    }

    fn count_key(&mut self, request: KeyedRequest, value: &KeyValue<'_>, place: Place) {
        let Some(link) = self.link(request.pattern) else {
            return;
        };
        link.keys += 1;
        link.values.push(value.hash);
        if let Some((row, at)) = link.last
            && at != request.at
        {
            link.compared += 1;
            link.in_order += u64::from((at < request.at) == (row <= place.row));
        }
        link.last = Some((place.row, request.at));
        let mut columns = link.columns.iter_mut();
        match columns.find(|(from, to, _)| *from == place.column && **to == *value.column) {
            Some((_, _, keys)) => *keys += 1,
            None => link.columns.push((place.column, value.column.into(), 1)),
        }
    }

    fn count_request(&mut self, request: KeyedRequest, keys: u64) {
        let is_overlapping = request.at < self.followed_until;
        self.followed_until = self.followed_until.max(request.answered_at);
        self.active_until = self.active_until.max(request.answered_at);
        let Some(link) = self.link(request.pattern) else {
            return;
        };
        link.requests += 1;
        link.lists += u64::from(keys > 1);
        link.overlapping += u64::from(is_overlapping);
    }

    /// Counts the read, and what followed it, in a window.
    fn count(self, sequences: &mut Sequences) {
        let followed = &sequences.followed;
        if followed.len() >= Sequences::MOST && !followed.contains_key(&self.pattern) {
            return;
        }
        let known = followed.get(&self.pattern).map(|reads| &reads.links);
        let is_new = |link: &&Follower| known.is_none_or(|links| !links.contains_key(&link.pattern));
        let new = self.links.iter().filter(is_new).count();
        let is_full = new > 0 && sequences.links() + new > Sequences::MOST_LINKS;
        let followed = &mut sequences.followed;
        let reads = followed.entry(self.pattern).or_default();
        reads.reads += 1;
        reads.rows += self.rows;
        let followed_for = self.followed_until.saturating_sub(self.answered_at);
        if !self.links.is_empty() {
            let operation = self.operates_until.saturating_sub(self.asked_at);
            let micros = u64::try_from(operation / 1_000).unwrap_or(0);
            reads.operation_us.record(micros);
        }
        for follower in self.links {
            if is_full && !reads.links.contains_key(&follower.pattern) {
                continue;
            }
            let link = reads.links.entry(follower.pattern).or_default();
            let before = self.before.iter();
            let by_chance = before.filter(|(asker, ago)| asker.is(follower.pattern) && *ago <= followed_for);
            link.by_chance += by_chance.count() as u64;
            link.compared += follower.compared;
            link.in_order += follower.in_order;
            link.keys.record(follower.keys);
            link.rows += self.rows;
            link.requests += follower.requests;
            link.lists += follower.lists;
            link.overlapping += follower.overlapping;
            link.elapsed_us
                .record(u64::try_from(followed_for / 1_000).unwrap_or(0));
            follower
                .values
                .iter()
                .for_each(|&value| link.values.insert(value));
            for (from, to, keys) in follower.columns {
                let from = self
                    .columns
                    .get(usize::from(from))
                    .map_or("", |column| &column.name);
                let keys_of = link.columns.entry(from.to_owned()).or_default();
                *keys_of.entry(to.into()).or_default() += keys;
            }
        }
    }
}

impl Follower {
    fn of(pattern: PatternId) -> Self {
        Self {
            pattern,
            keys: 0,
            requests: 0,
            lists: 0,
            overlapping: 0,
            values: Vec::new(),
            columns: Vec::new(),
            last: None,
            compared: 0,
            in_order: 0,
        }
    }
}

#[cfg(test)]
mod tests;
