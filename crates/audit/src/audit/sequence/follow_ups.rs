//! What a client reads or writes by the values of the rows that it has just read.
//!
//! Of a sample of the reads with rows, the sources, the values of their cells are remembered for some seconds. A request of
//! the same actor whose partition key has such a value follows the source, if it comes soon after the source's answer or
//! after that of another follow-up: a program that joins loses no time. Where it hands the rows to another thread, or waits, the
//! first follow-up may come later. The values that the source was executed with are left out: two reads by the same key are no
//! join.
//!
//! Values come back by chance as well, popular ones often, and those of few that there are. What comes by chance comes as
//! often before a source as after it, and by the values of another execution as often as by its own: both are counted. And
//! a program that joins goes from row to row: whether follow-ups come in the order of the rows is counted, too.

mod controls;
mod putting;
mod source;

use std::{cmp::Reverse, collections::VecDeque};

use cqlens_proto::message::Rows;

use super::{
    pages::Pages,
    places::{Place, Places},
    recent_requests::RecentRequests,
    result_columns::Columns,
    values::{KeyColumn, KeyValue, of_actor},
};
use crate::audit::HashKey;
use controls::Controls;
use cqlens_window::{PairRoom, PatternId, Window};
use putting::Putting;
use source::{FollowingKeys, Source};

/// Nanoseconds.
type Nanoseconds = i64;

const MILLISECOND: Nanoseconds = 1_000_000;

/// How long a source is remembered, and can be followed.
const FOLLOWED_FOR: Nanoseconds = 5_000 * MILLISECOND;

/// Sources that are remembered for each 4,096 cells of a second: more than follow each other in [`FOLLOWED_FOR`], unless all of them
/// have one cell.
const MOST_SOURCES: usize = 1 << 13;

/// Cells of one source that are remembered.
const MOST_CELLS: usize = 4_096;

/// Keys of one request that decide which source it follows.
const MOST_COMPARED: usize = 16;

/// Finds the follow-ups of sources.
#[derive(Debug)]
pub(super) struct FollowUpFinder {
    places: Places,
    recent: RecentRequests,
    controls: Controls,
    /// By age; the first one has the number `oldest`.
    sources: VecDeque<Source>,
    oldest: u32,
    /// Cells of a second, about.
    cells: usize,
    room: PairRoom,
    pages: Pages,
    /// The values of a source that are kept as those of another execution.
    values: Vec<u64>,
}

/// A read with rows, or a page of it.
pub(super) struct ReadRows<'r> {
    pub(super) pattern: PatternId,
    pub(super) actor: u64,
    pub(super) asked_at: Nanoseconds,
    pub(super) answered_at: Nanoseconds,
    /// The number of the source that it follows itself.
    pub(super) follows: Option<u32>,
    /// The page that it is, of one actor; none for the first one.
    pub(super) page: Option<u64>,
    /// The page that it offers.
    pub(super) next_page: Option<u64>,
    pub(super) rows: &'r Rows<'r>,
    /// Hashes of the values that the read was executed with.
    pub(super) asked: &'r [u64],
}

impl ReadRows<'_> {
    /// One hash of the values that the read was executed with, in their order.
    fn asked_for(&self) -> u64 {
        let asked = self.asked.iter();
        asked.fold(0, |all, value| of_actor(all.rotate_left(5), *value))
    }
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
    /// Nothing seen yet; so many cells are remembered of the reads of a second, about.
    pub(super) fn new(cells: usize) -> Self {
        Self {
            // Three times as many as are put in while sources are remembered.
            places: Places::new(cells.max(16).ilog2() + 1),
            recent: RecentRequests::new(),
            controls: Controls::new(),
            sources: VecDeque::new(),
            oldest: 1,
            cells,
            room: PairRoom::default(),
            pages: Pages::new(),
            values: Vec::new(),
        }
    }

    /// Whether there is nothing that anything could follow.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Remembers the values of a source's rows, and gives how many cells those are.
    pub(super) fn remember(
        &mut self,
        key: HashKey,
        read: &ReadRows<'_>,
        columns: Columns,
        window: &mut Window,
    ) -> usize {
        self.forget_old(read.answered_at, window);
        let Some(number) = self.next_number() else {
            self.end(window);
            *self = Self::new(self.cells);
            return 0;
        };
        let begins_with = read.follows.map(|number| self.beginning_of(number));
        self.sources.push_back(Source::new(read, columns, begins_with));
        let put = self.add_rows(key, read, number, window);
        self.compare_with_another(read, number);
        put
    }

    /// Remembers the values of another page of a source: what follows it follows that source. Gives how many cells those
    /// are.
    pub(super) fn remember_page(&mut self, key: HashKey, read: &ReadRows<'_>, window: &mut Window) -> usize {
        self.forget_old(read.answered_at, window);
        let number = read.page.and_then(|page| self.pages.take(page));
        match number.filter(|number| *number >= self.oldest) {
            Some(number) => self.add_rows(key, read, number, window),
            None => 0,
        }
    }

    fn add_rows(&mut self, key: HashKey, read: &ReadRows<'_>, number: u32, window: &mut Window) -> usize {
        let (oldest, next_page) = (self.oldest, read.next_page);
        let index = number.checked_sub(oldest).map(|at| at as usize);
        let Some(source) = index.and_then(|at| self.sources.get_mut(at)) else {
            return 0;
        };
        let room = MOST_CELLS - source.cells.min(MOST_CELLS);
        self.values.clear();
        let mut putting = Putting {
            places: &mut self.places,
            recent: &self.recent,
            key,
            read,
            place: (number, oldest),
            answered_at: source.answered_at,
            position: &mut source.positions,
            room,
            before: &mut source.before,
            values: &mut self.values,
            put: 0,
            forgotten: 0,
        };
        putting.put_rows(&source.columns);
        let cells = room - putting.room;
        window.coverage.row_values_forgotten += putting.forgotten;
        source.values += putting.put;
        source.cells += cells;
        source.rows += read.rows.len() as u64;
        source.active_until = source.active_until.max(read.answered_at);
        if let Some(page) = next_page {
            self.pages.offer(page, number);
        }
        cells
    }

    /// Puts in what another execution of the same statement has and this one has not: what comes by chance asks for that as
    /// often.
    fn compare_with_another(&mut self, read: &ReadRows<'_>, number: u32) {
        let (statement, asked) = (of_actor(read.pattern.0, read.actor), read.asked_for());
        let control = self.controls.of(statement, asked);
        let put = control.iter().filter(|hash| {
            let put = self.places.put(**hash, number, Place::CONTROL, self.oldest);
            put != super::places::Put::Known
        });
        let put = put.count() as u64;
        self.controls.keep(statement, asked, &self.values);
        if let Some(source) = self.source_mut(number) {
            source.controls = put;
        }
    }

    /// Takes a request to the source that its keys are from, and gives the number of that.
    pub(super) fn follow(&mut self, request: KeyedRequest, keys: KeyValues<'_>) -> Option<u32> {
        self.follow_from(request, keys, None)
    }

    /// Takes a request of several keys to the one source that most of them are from: single ones may be in others as well.
    pub(super) fn follow_list(&mut self, request: KeyedRequest, keys: KeyValues<'_>) -> Option<u32> {
        let source = self.source_of_most(request, keys.0);
        self.follow_from(request, keys, source)
    }

    fn follow_from(
        &mut self,
        request: KeyedRequest,
        (values, columns): KeyValues<'_>,
        source: Option<u32>,
    ) -> Option<u32> {
        let mut following = Following {
            source,
            ..Following::default()
        };
        for value in values {
            self.recent.note(value.hash, request);
            // A key that has followed a source does not follow it again by another of its columns.
            if following.key != Some(value.key) {
                self.follow_by(request, (value, columns), &mut following);
            }
        }
        let Some(number) = following.source.filter(|_| following.keys > 0) else {
            if following.is_known {
                self.follow_again(request, values);
            }
            return None;
        };
        let keys = FollowingKeys {
            all: values.last().map_or(0, |last| last.key as u64 + 1),
            found: following.found,
        };
        self.source_mut(number)?.count_request(request, keys);
        for number in following.beside {
            if let Some(source) = self.source_mut(number) {
                source.count_request(request, keys);
            }
        }
        for number in [number, self.beginning_of(number)] {
            if let Some(source) = self.source_mut(number) {
                source.operates_until = source.operates_until.max(request.answered_at);
            }
        }
        Some(number)
    }

    /// The source that most of the first keys are from, those that are followed without a delay first; of several such the
    /// latest.
    fn source_of_most(&mut self, request: KeyedRequest, values: &[KeyValue]) -> Option<u32> {
        let (oldest, sources) = (self.oldest, &self.sources);
        let mut found: Vec<(bool, u32, usize)> = Vec::new();
        for value in values.iter().take(MOST_COMPARED) {
            for place in self.places.of(value.hash).filter(|place| !place.is_control()) {
                let index = place.read.checked_sub(oldest).map(|at| at as usize);
                let Some(source) = index.and_then(|at| sources.get(at)) else {
                    continue;
                };
                let is_soon = source.is_followed_by(request);
                if !source.is_free(place, request.pattern) || !(is_soon || source.begins_late(request)) {
                    continue;
                }
                match found.iter_mut().find(|(_, number, _)| *number == place.read) {
                    Some((_, _, keys)) => *keys += 1,
                    None => found.push((is_soon, place.read, 1)),
                }
            }
        }
        let most = found
            .into_iter()
            .max_by_key(|&(is_soon, number, keys)| (is_soon, keys, number));
        most.map(|(_, number, _)| number)
    }

    /// The source that the operation of this one began with.
    fn beginning_of(&self, number: u32) -> u32 {
        let at = number.checked_sub(self.oldest).map(|at| at as usize);
        let source = at.and_then(|at| self.sources.get(at));
        source.and_then(|source| source.begins_with).unwrap_or(number)
    }

    fn follow_by(
        &mut self,
        request: KeyedRequest,
        (value, columns): (&KeyValue, &[KeyColumn]),
        following: &mut Following,
    ) {
        let (oldest, sources) = (self.oldest, &mut self.sources);
        let index = |number: u32| number.checked_sub(oldest).map(|at| at as usize);
        // Where several users have read the same, the value follows the source of which its row is the next one, and of
        // several such the latest: programs go on at once, from row to row. Each value follows each source once in each
        // pattern, whichever user sent it. The keys of one request follow one source.
        let mut followed = None;
        let (mut sources_with_value, mut is_chosen_by_row, mut is_found) = (0, false, false);
        for place in self.places.of(value.hash) {
            following.is_known = true;
            let source = index(place.read).and_then(|at| sources.get(at));
            let Some(source) = source.filter(|_| !place.is_control()) else {
                continue;
            };
            if following.source.is_some_and(|number| number != place.read) {
                continue;
            }
            is_found |= following.source.is_some();
            if !source.is_free(place, request.pattern) {
                continue;
            }
            let is_soon = source.is_followed_by(request);
            let is_on_time = is_soon || source.goes_on(request, place.row);
            if is_on_time || source.begins_late(request) {
                sources_with_value += 1;
                is_chosen_by_row |= !is_soon || sources_with_value > 1;
                let rows = is_on_time.then(|| Reverse(source.rows_until(request.pattern, place.row)));
                followed = followed.max(Some((is_on_time, rows, place.read)));
            }
        }
        following.found += u64::from(is_found);
        let Some((_, _, number)) = followed else { return };
        let column = columns.get(value.column).map_or("", |column| &column.name);
        let place = self
            .places
            .of(value.hash)
            .find(|place| place.read == number && !place.is_control());
        if let (Some(place), Some(source)) = (place, index(number).and_then(|at| sources.get_mut(at))) {
            place.followed |= source.bit(request.pattern);
            source.count_key(request, (value.hash, column), *place, is_chosen_by_row);
            following.found += u64::from(!is_found);
            following.source = Some(number);
            following.keys += 1;
            following.key = Some(value.key);
        }
        self.follow_beside(request, (value.hash, column), following);
    }

    /// Takes a value that follows a source to those beside it that have it as well.
    fn follow_beside(
        &mut self,
        request: KeyedRequest,
        (value, column): (u64, &str),
        following: &mut Following,
    ) {
        let (oldest, sources) = (self.oldest, &mut self.sources);
        let index = |number: u32| number.checked_sub(oldest).map(|at| at as usize);
        let Some(number) = following.source else { return };
        for place in self.places.of(value).filter(|place| !place.is_control()) {
            let pair = index(number).zip(index(place.read));
            let Some((first, beside)) = pair.filter(|(first, beside)| first != beside) else {
                continue;
            };
            let are_beside = match (sources.get(first), sources.get(beside)) {
                (Some(first), Some(beside)) => {
                    beside.is_beside(first)
                        && beside.is_followed_by(request)
                        && beside.is_free(place, request.pattern)
                }
                _ => false,
            };
            if are_beside && let Some(source) = sources.get_mut(beside) {
                place.followed |= source.bit(request.pattern);
                source.count_key(request, (value, column), *place, true);
                if !following.beside.contains(&place.read) {
                    following.beside.push(place.read);
                }
            }
        }
    }

    /// Takes a request that follows nothing to the source of which it asks for a value once more; else to those that are
    /// compared with such values.
    fn follow_again(&mut self, request: KeyedRequest, values: &[KeyValue]) {
        for value in values {
            let (oldest, sources) = (self.oldest, &mut self.sources);
            let mut again = None;
            for place in self.places.of(value.hash) {
                let index = place.read.checked_sub(oldest).map(|at| at as usize);
                let Some(source) = index.and_then(|at| sources.get_mut(at)) else {
                    continue;
                };
                if !place.is_control() && source.is_being_followed_by(request) {
                    again = again.max(Some(place.read));
                } else if place.is_control() && source.is_followed_by(request) {
                    source.count_control(request.pattern);
                }
            }
            if let Some(source) = again.and_then(|number| self.source_mut(number)) {
                return source.count_request(request, FollowingKeys::default());
            }
        }
    }

    /// Counts the sources that nothing follows any more.
    fn forget_old(&mut self, now: Nanoseconds, window: &mut Window) {
        let most = MOST_SOURCES * self.cells.div_ceil(MOST_CELLS);
        while let Some(source) = self.sources.front()
            && (now.saturating_sub(source.answered_at) > FOLLOWED_FOR || self.sources.len() >= most)
        {
            if let Some(source) = self.sources.pop_front() {
                self.oldest += 1;
                source.count(&mut window.sequences, &mut self.room);
            }
        }
    }

    /// Counts all sources, of which nothing more is seen.
    pub(super) fn end(&mut self, window: &mut Window) {
        self.oldest += u32::try_from(self.sources.len()).unwrap_or(0);
        for source in self.sources.drain(..) {
            source.count(&mut window.sequences, &mut self.room);
        }
    }

    /// None once numbers are used up.
    fn next_number(&self) -> Option<u32> {
        let sources = u32::try_from(self.sources.len()).ok()?;
        self.oldest.checked_add(sources)
    }

    fn source_mut(&mut self, number: u32) -> Option<&mut Source> {
        let at = number.checked_sub(self.oldest)?;
        self.sources.get_mut(at as usize)
    }
}

/// A request on its way to a source.
#[derive(Debug, Default)]
struct Following {
    source: Option<u32>,
    /// Whether one of its values is remembered.
    is_known: bool,
    /// Those of its operation that have the same values.
    beside: Vec<u32>,
    /// Keys that follow.
    keys: u64,
    /// Keys that are values of the source, whether they have followed it before or not.
    found: u64,
    /// The last key that followed.
    key: Option<usize>,
}

#[cfg(test)]
mod tests;
