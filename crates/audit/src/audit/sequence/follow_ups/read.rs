//! A read whose rows are remembered, and what follows it, until both are counted.

use super::{KeyedRequest, Nanoseconds, REMEMBERED, ReadRows};
use crate::audit::sequence::{
    NEXT_STEP, SOON, places::Place, recent_requests::Asker, result_columns::Columns,
};
use cqlens_window::{FollowedReads, PatternId, Sequences};

/// Patterns among the follow-ups of one read that are counted each.
const MOST_LINKS: usize = 16;

/// A read whose rows are remembered.
#[derive(Debug)]
pub(super) struct Read {
    pattern: PatternId,
    pub(super) columns: Columns,
    pub(super) rows: u64,
    /// Cells of its rows that are remembered.
    pub(super) cells: usize,
    /// Rows, and elements in them, in their order.
    pub(super) positions: usize,
    pub(super) answered_at: Nanoseconds,
    /// When the last of its pages or of its followers was answered.
    pub(super) active_until: Nanoseconds,
    /// When the last of its followers was answered.
    followed_until: Nanoseconds,
    /// When its request came.
    asked_at: Nanoseconds,
    /// The number of the read that the operation began with, if it did not begin with this one.
    pub(super) begins_with: Option<u32>,
    /// When the last of what follows it was answered, followers of followers among them.
    pub(super) operates_until: Nanoseconds,
    /// Values of its rows that were asked for before its answer: by which pattern, and how long before.
    pub(super) before: Vec<(Asker, Nanoseconds)>,
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

impl Read {
    /// A read of which no rows are remembered yet; the operation began with the read of that number, or with this one.
    pub(super) fn new(read: &ReadRows<'_>, columns: Columns, begins_with: Option<u32>) -> Self {
        Self {
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
        }
    }

    pub(super) fn is_followed_by(&self, request: KeyedRequest) -> bool {
        self.is_followed_within(SOON, request)
    }

    fn is_followed_within(&self, limit: Nanoseconds, request: KeyedRequest) -> bool {
        let is_in_time = request.at.saturating_sub(self.answered_at) < REMEMBERED;
        let is_soon = request.at.saturating_sub(self.active_until) <= limit;
        request.at >= self.answered_at && is_in_time && is_soon
    }

    /// Whether a request by the value of `row` is the next step of a program that goes from row to row, and leaves out one at
    /// most.
    pub(super) fn goes_on(&self, request: KeyedRequest, row: u16) -> bool {
        let has_begun = self.links.iter().any(|link| link.pattern == request.pattern);
        let is_next = (1..=2).contains(&self.rows_until(request.pattern, row));
        has_begun && is_next && self.is_followed_within(NEXT_STEP, request)
    }

    /// Whether no request of `pattern` has followed the value at `place` yet.
    pub(super) fn is_free(&self, place: &Place, pattern: PatternId) -> bool {
        place.followed & self.bit(pattern) == 0
    }

    /// The bit of `pattern` in places, whether it follows already or would be the next that does.
    pub(super) fn bit(&self, pattern: PatternId) -> u8 {
        let place = self.links.iter().position(|link| link.pattern == pattern);
        1 << place.unwrap_or(self.links.len()).min(7)
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

    /// How many rows `row` comes after the one whose value `pattern` asked for last; the most there may be where it
    /// comes before that one.
    pub(super) fn rows_until(&self, pattern: PatternId, row: u16) -> u16 {
        let link = self.links.iter().find(|link| link.pattern == pattern);
        match link.and_then(|link| link.last) {
            Some((last, _)) => row.checked_sub(last).unwrap_or(u16::MAX),
            None => row.saturating_add(1),
        }
    }

    /// Counts a key that follows. Where the read was chosen by its row, it says nothing of the order.
    pub(super) fn count_key(
        &mut self,
        request: KeyedRequest,
        (value, column): (u64, &str),
        place: Place,
        is_chosen_by_row: bool,
    ) {
        let Some(link) = self.link(request.pattern) else {
            return;
        };
        link.keys += 1;
        link.values.push(value);
        if let Some((row, at)) = link.last
            && at != request.at
            && !is_chosen_by_row
        {
            link.compared += 1;
            link.in_order += u64::from((at < request.at) == (row <= place.row));
        }
        link.last = Some((place.row, request.at));
        let mut columns = link.columns.iter_mut();
        match columns.find(|(from, to, _)| *from == place.column && **to == *column) {
            Some((_, _, keys)) => *keys += 1,
            None => link.columns.push((place.column, column.into(), 1)),
        }
    }

    pub(super) fn count_request(&mut self, request: KeyedRequest, keys: u64) {
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
    pub(super) fn count(self, sequences: &mut Sequences) {
        let followed = &sequences.followed;
        if followed.len() >= Sequences::MOST && !followed.contains_key(&self.pattern) {
            return;
        }
        let is_full = !self.links.is_empty() && !self.has_room(sequences);
        let reads = sequences.followed.entry(self.pattern).or_default();
        reads.reads += 1;
        reads.rows += self.rows;
        if !self.links.is_empty() {
            self.count_links(reads, is_full);
        }
    }

    /// Whether there is room for what has followed it and nothing of its pattern before.
    fn has_room(&self, sequences: &Sequences) -> bool {
        let known = sequences.followed.get(&self.pattern).map(|reads| &reads.links);
        let is_new = |link: &&Follower| known.is_none_or(|links| !links.contains_key(&link.pattern));
        let new = self.links.iter().filter(is_new).count();
        new == 0 || sequences.links() + new <= Sequences::MOST_LINKS
    }

    /// Counts what followed the read, as far as there is room.
    fn count_links(self, reads: &mut FollowedReads, is_full: bool) {
        let followed_for = self.followed_until.saturating_sub(self.answered_at);
        let operation = self.operates_until.saturating_sub(self.asked_at);
        let micros = u64::try_from(operation / 1_000).unwrap_or(0);
        reads.operation_us.record(micros);
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
