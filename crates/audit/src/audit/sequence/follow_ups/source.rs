//! A source, and what follows it, until both are counted.

use super::{FOLLOWED_FOR, KeyedRequest, Nanoseconds, ReadRows};
use crate::audit::sequence::{
    NEXT_STEP, SOON, places::Place, recent_requests::Asker, result_columns::Columns,
};
use cqlens_window::{FollowedReads, PairRoom, PatternId, Sequences};

/// Patterns among the follow-ups of one source that are counted each.
const MOST_LINKS: usize = 16;

/// A read whose rows are remembered.
#[derive(Debug)]
pub(super) struct Source {
    pattern: PatternId,
    /// A hash of the values that the read was executed with.
    pub(super) asked: u64,
    pub(super) columns: Columns,
    pub(super) rows: u64,
    /// Cells of its rows that are remembered.
    pub(super) cells: usize,
    /// Different values among them.
    pub(super) values: u64,
    /// Values of another execution that are not among its own, and are compared with.
    pub(super) controls: u64,
    /// Rows, and elements in them, in their order.
    pub(super) positions: usize,
    pub(super) answered_at: Nanoseconds,
    /// When the last of its pages or of its follow-ups was answered.
    pub(super) active_until: Nanoseconds,
    /// When the last of its follow-ups was answered.
    followed_until: Nanoseconds,
    /// When its request came.
    asked_at: Nanoseconds,
    /// The number of the source that the operation began with, if it did not begin with this one.
    pub(super) begins_with: Option<u32>,
    /// When the last of what follows it was answered, follow-ups of follow-ups among them.
    pub(super) operates_until: Nanoseconds,
    /// Values of its rows that were asked for before its answer: by which pattern, and how long before.
    pub(super) before: Vec<(Asker, Nanoseconds)>,
    /// Values of the other execution that were asked for, by which pattern.
    by_control: Vec<(PatternId, u64)>,
    links: Vec<FollowUps>,
}

/// What follows a source, by pattern.
#[derive(Debug)]
struct FollowUps {
    pattern: PatternId,
    keys: u64,
    requests: u64,
    lists: u64,
    /// Keys of lists, and how many of them are values of the source or of one beside it.
    listed: u64,
    listed_found: u64,
    overlapping: u64,
    /// When the first one was sent.
    began_at: Nanoseconds,
    /// Whether it began later than a program goes on.
    is_late: bool,
    values: Vec<u64>,
    /// Column of the rows, column of the key, keys.
    columns: Vec<(u8, Box<str>, u64)>,
    /// The row and the time of the request that followed last.
    last: Option<(u16, Nanoseconds)>,
    /// Follow-ups that were compared with the one before them, and those that came in the order of the rows.
    compared: u64,
    in_order: u64,
}

/// The keys of a request that follows a source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FollowingKeys {
    pub(super) all: u64,
    /// Those that are values of the source.
    pub(super) found: u64,
}

impl Source {
    /// A source of which no rows are remembered yet; the operation began with that of this number, or with itself.
    pub(super) fn new(read: &ReadRows<'_>, columns: Columns, begins_with: Option<u32>) -> Self {
        Self {
            pattern: read.pattern,
            asked: read.asked_for(),
            columns,
            rows: 0,
            cells: 0,
            values: 0,
            controls: 0,
            positions: 0,
            answered_at: read.answered_at,
            active_until: read.answered_at,
            followed_until: read.answered_at,
            asked_at: read.asked_at,
            begins_with,
            operates_until: read.answered_at,
            before: Vec::new(),
            by_control: Vec::new(),
            links: Vec::new(),
        }
    }

    pub(super) fn is_followed_by(&self, request: KeyedRequest) -> bool {
        self.is_followed_within(SOON, request)
    }

    fn is_followed_within(&self, limit: Nanoseconds, request: KeyedRequest) -> bool {
        let is_in_time = request.at.saturating_sub(self.answered_at) < FOLLOWED_FOR;
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

    /// Whether a request may be the first of its pattern that follows, by a program that has waited: for a thread, for other
    /// work, for a queue.
    pub(super) fn begins_late(&self, request: KeyedRequest) -> bool {
        // All keys of a list begin together.
        let has_begun = |link: &FollowUps| link.pattern == request.pattern && link.began_at != request.at;
        !self.links.iter().any(has_begun) && self.is_followed_within(FOLLOWED_FOR, request)
    }

    /// Whether this and another one may be steps of one operation, whose rows are merged or intersected before anything
    /// follows them: they ask for something else, one soon after the other.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let (first, second) = match self.asked_at <= other.asked_at {
            true => (self, other),
            false => (other, self),
        };
        self.asked != other.asked && second.asked_at.saturating_sub(first.answered_at) <= SOON
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
    fn link(&mut self, request: KeyedRequest) -> Option<&mut FollowUps> {
        let place = self.links.iter().position(|link| link.pattern == request.pattern);
        let place = match place {
            None if self.links.len() >= MOST_LINKS => return None,
            None => {
                let is_late = !self.is_followed_by(request);
                self.links.push(FollowUps::of(request, is_late));
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

    /// Counts a key that follows. Where the source was chosen by its row, it says nothing of the order.
    pub(super) fn count_key(
        &mut self,
        request: KeyedRequest,
        (value, column): (u64, &str),
        place: Place,
        is_chosen_by_row: bool,
    ) {
        let Some(link) = self.link(request) else {
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

    /// Counts a request that follows, whose keys are counted or have been before.
    pub(super) fn count_request(&mut self, request: KeyedRequest, following: FollowingKeys) {
        let is_overlapping = request.at < self.followed_until;
        self.followed_until = self.followed_until.max(request.answered_at);
        self.active_until = self.active_until.max(request.answered_at);
        let Some(link) = self.link(request) else {
            return;
        };
        link.requests += 1;
        if following.all > 1 {
            link.lists += 1;
            link.listed += following.all;
            link.listed_found += following.found;
        }
        link.overlapping += u64::from(is_overlapping);
    }

    /// Whether a request of `pattern` has followed it, and another one comes soon after.
    pub(super) fn is_being_followed_by(&self, request: KeyedRequest) -> bool {
        self.links.iter().any(|link| link.pattern == request.pattern) && self.is_followed_by(request)
    }

    /// Counts a value of another execution that `pattern` asks for while this one may be followed.
    pub(super) fn count_control(&mut self, pattern: PatternId) {
        let has_room = self.by_control.len() < MOST_LINKS;
        match self.by_control.iter_mut().find(|(asker, _)| *asker == pattern) {
            Some((_, times)) => *times += 1,
            None if has_room => self.by_control.push((pattern, 1)),
            None => {}
        }
    }

    /// Counts the source, and what followed it, in a window.
    pub(super) fn count(mut self, sequences: &mut Sequences, room: &mut PairRoom) {
        let followed = &sequences.followed;
        if followed.len() >= Sequences::MOST && !followed.contains_key(&self.pattern) {
            return;
        }
        if followed.is_empty() {
            room.begin();
        }
        let rows = self.rows;
        self.links.retain(|link| !link.is_a_choice(rows));
        let is_followed = !self.links.is_empty();
        // What is new and has no room is left out.
        let known = followed.get(&self.pattern).map(|reads| &reads.links);
        self.links.retain(|link| {
            known.is_some_and(|links| links.contains_key(&link.pattern)) || room.takes(|| sequences.links())
        });
        let reads = sequences.followed.entry(self.pattern).or_default();
        reads.reads += 1;
        reads.rows += self.rows;
        self.count_controls(reads);
        if is_followed {
            self.count_links(reads);
        }
    }

    /// Counts what came by the values of another execution, for as many values as this one has.
    fn count_controls(&self, reads: &mut FollowedReads) {
        if self.controls == 0 {
            return;
        }
        reads.controlled += 1;
        for (pattern, times) in &self.by_control {
            // What never follows has no link, and needs none.
            if let Some(link) = reads.links.get_mut(pattern) {
                link.by_control += (times * self.values).div_ceil(self.controls);
            }
        }
    }

    /// Counts what followed the source.
    fn count_links(self, reads: &mut FollowedReads) {
        let operation = self.operates_until.saturating_sub(self.asked_at);
        let micros = u64::try_from(operation / 1_000).unwrap_or(0);
        reads.operation_us.record(micros);
        for follow_ups in self.links {
            let elapsed = self.followed_until.saturating_sub(self.answered_at);
            // A program that has waited before it goes on asks for several keys in the time after that.
            let waited = match follow_ups.is_late && follow_ups.keys > 1 {
                true => follow_ups.began_at.saturating_sub(self.answered_at),
                false => 0,
            };
            let followed_for = elapsed - waited;
            let link = reads.links.entry(follow_ups.pattern).or_default();
            let before = self.before.iter();
            let by_chance =
                before.filter(|(asker, ago)| asker.is(follow_ups.pattern) && *ago <= followed_for);
            link.by_chance += by_chance.count() as u64;
            link.compared += follow_ups.compared;
            link.in_order += follow_ups.in_order;
            link.keys.record(follow_ups.keys);
            link.rows += self.rows;
            link.requests += follow_ups.requests;
            link.lists += follow_ups.lists;
            link.listed += follow_ups.listed;
            link.listed_found += follow_ups.listed_found;
            link.late += u64::from(follow_ups.is_late);
            link.overlapping += follow_ups.overlapping;
            link.elapsed_us
                .record(u64::try_from(elapsed / 1_000).unwrap_or(0));
            let values = follow_ups.values.iter();
            values.for_each(|&value| link.values.insert(value));
            for (from, to, keys) in follow_ups.columns {
                let from = self.columns.get(usize::from(from));
                let from = from.map_or("", |column| &column.name);
                let keys_of = link.columns.entry(from.to_owned()).or_default();
                *keys_of.entry(to.into()).or_default() += keys;
            }
        }
    }
}

impl FollowUps {
    fn of(request: KeyedRequest, is_late: bool) -> Self {
        Self {
            pattern: request.pattern,
            keys: 0,
            requests: 0,
            lists: 0,
            listed: 0,
            listed_found: 0,
            overlapping: 0,
            began_at: request.at,
            is_late,
            values: Vec::new(),
            columns: Vec::new(),
            last: None,
            compared: 0,
            in_order: 0,
        }
    }

    /// Whether one of several rows was chosen and asked for later than a program goes on: people do that, and chance does.
    fn is_a_choice(&self, rows: u64) -> bool {
        self.is_late && self.keys == 1 && rows > 1
    }
}
