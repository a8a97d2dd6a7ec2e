//! Finds statements that belong together: what one operation of an application sends.
//!
//! Sees the exchanges of all connections, since drivers spread one operation over several, and tells operations apart
//! by who sends them ([`Session::actor`](crate::audit::connection::session::Session::actor)) and by the values that
//! they share. Values are keyed hashes here; none of them stays. Everything has a limit: what is looked at is a sample
//! where there is more, and what is counted says of how many.

mod attention;
mod batched_copies;
mod buckets;
mod budget;
mod bursts;
mod copies;
mod flows;
mod follow_ups;
mod inside;
mod pages;
mod places;
mod recent;
mod recent_requests;
mod repeats;
pub(crate) mod result_columns;
mod rewrites;
mod sampling;
mod values;
mod walks;

use std::sync::Arc;

use cqlens_proto::message::{Batch, QueryParameters, Request, Rows, Value};
use rustc_hash::FxHashMap;

use crate::{
    audit::{
        HashKey, RequestKey,
        exchange::{DecodedExchange, Exchange, Execution, NamedKeys, outcome::Outcome},
        statement::analysis::NamedTable,
    },
    catalog::Live,
};
use cqlens_capture::{Clock, Moment};
use cqlens_cql::{footprint::PartitionClass, plan::StatementKind};
use cqlens_window::{PatternId, Sequences, Window};

use attention::{Attention, Look};

pub use attention::Relating;

use budget::{RelatingLevel, Spending};
use bursts::BurstFinder;
use copies::{CopyFinder, NewWrite};
use flows::Flows;
use follow_ups::{FollowUpFinder, KeyedRequest, ReadRows};
use repeats::{PartitionWrites, RepeatFinder, SameRead};
use result_columns::ResultColumns;
use rewrites::RewriteFinder;
use values::{KeyColumns, KeyValue, of_actor};
use walks::{NewRead, WalkFinder};

/// A request that comes later than this after what it may go on from, in nanoseconds, does not go on from it. Programs go
/// on at once; people take longer, and what comes later comes by chance ever more often.
const SOON: i64 = 50_000_000;

/// The same for a request that is just the next step of an operation: it hardly comes by chance, and a program that waits for a
/// processor, or for its garbage collector, is no less a program.
const NEXT_STEP: i64 = 5 * SOON;

/// Adds what belongs together to windows.
#[derive(Debug)]
pub(crate) struct SequenceRecorder {
    live: Arc<Live>,
    key: HashKey,
    key_columns: KeyColumns,
    /// The limits that levels are a part of.
    relating: Relating,
    /// None where limits are fixed.
    spending: Option<Spending>,
    /// Whether something was left out since limits were set.
    was_limited: bool,
    attention: Attention,
    follow_ups: FollowUpFinder,
    walks: WalkFinder,
    copies: CopyFinder,
    rewrites: RewriteFinder,
    writes: PartitionWrites,
    flows: Flows,
    repeats: RepeatFinder,
    bursts: BurstFinder,
    /// Requests that may have begun an operation, not yet counted in the window.
    requests: FxHashMap<PatternId, u64>,
    /// The values in the keys of a request, of the last of its tables.
    key_values: Vec<KeyValue>,
    /// What a read was asked by, or what a write writes.
    asked: Vec<u64>,
}

impl SequenceRecorder {
    /// Nothing seen yet.
    pub(crate) fn new(live: &Arc<Live>, key: HashKey, relating: Relating, clock: Clock) -> Self {
        let most = match relating.budget {
            Some(_) => RelatingLevel::MOST_OF_ALL.of(relating),
            None => relating,
        };
        let spending = relating.budget.map(|budget| Spending::of(budget, clock.takes()));
        let limits = spending
            .as_ref()
            .map_or(relating, |spending| spending.limits(relating));
        let mut follow_ups = FollowUpFinder::new(most.cells);
        follow_ups.limit(limits.cells);
        Self {
            live: Arc::clone(live),
            key,
            key_columns: KeyColumns::default(),
            relating,
            spending,
            was_limited: false,
            attention: Attention::new(limits.requests),
            follow_ups,
            walks: WalkFinder::new(),
            copies: CopyFinder::new(),
            rewrites: RewriteFinder::new(),
            writes: PartitionWrites::new(),
            flows: Flows::new(),
            repeats: RepeatFinder::new(),
            bursts: BurstFinder::new(),
            requests: FxHashMap::default(),
            key_values: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// Ids of tables mean others from now on.
    #[cold]
    pub(crate) fn forget_ids(&mut self) {
        self.key_columns.forget_ids();
        self.rewrites.forget();
        self.writes.forget();
    }

    /// Counts what is left of what was found so far, before the window is taken.
    pub(crate) fn settle(&mut self, window: &mut Window) {
        let sequences = &mut window.sequences;
        for (pattern, requests) in self.requests.drain() {
            if sequences.requests.len() < Sequences::MOST || sequences.requests.contains_key(&pattern) {
                sequences.count_requests(pattern, requests);
            }
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, window: &mut Window) {
        self.settle(window);
        self.follow_ups.end(window);
        self.walks.end(window);
        self.copies.end(window);
    }

    /// Whether the caller is to time the next [`Self::record`]: one in some, where the limits are kept to a budget.
    #[inline]
    pub(crate) fn times_next(&mut self) -> bool {
        self.spending.as_mut().is_some_and(Spending::times_next)
    }

    /// What was to be timed took from `began` to `ended`.
    pub(crate) fn took(&mut self, began: Moment, ended: Moment, window: &mut Window) {
        let (began, ended) = (began.unix_nanoseconds(), ended.unix_nanoseconds());
        if let Some(spending) = &mut self.spending {
            window.coverage.relating_us += spending.took(began, ended) / 1_000;
        }
    }

    /// Sets the limits of the second that begins with a request, so many after the one before it.
    #[cold]
    fn begin_second(&mut self, passed: u64) {
        let was_limited = std::mem::take(&mut self.was_limited);
        if let Some(spending) = &mut self.spending {
            spending.passed(passed, was_limited);
            let Relating { requests, cells, .. } = spending.limits(self.relating);
            self.attention.limit(requests);
            self.follow_ups.limit(cells);
        }
    }

    /// Takes an exchange of `actor`, whose `keys` are the partitions that it names, to what came before it.
    #[inline]
    pub(crate) fn record(
        &mut self,
        window: &mut Window,
        exchange: &Exchange<'_>,
        decoded: DecodedExchange<'_>,
        keys: NamedKeys<'_>,
        actor: u64,
        columns: &ResultColumns,
    ) {
        let Some(execution) = exchange.execution else {
            return;
        };
        let Some(answered_at) = exchange.answered_at else {
            return;
        };
        if execution.analysis.head.system || !execution.analysis.touches_partitions {
            return;
        }
        let at = exchange.at.unix_nanoseconds();
        if let Some(passed) = self.attention.begins(at) {
            self.begin_second(passed);
        }
        let is_first = match self.attention.look(at) {
            Look::First => true,
            Look::Next => false,
            Look::Ends(end) => return self.end_at(end, window),
            Look::Away => {
                self.was_limited = true;
                window.coverage.not_related += 1;
                return;
            }
        };
        let request = KeyedRequest {
            pattern: execution.analysis.id,
            at,
            answered_at: answered_at.unix_nanoseconds(),
        };
        let seen = Seen {
            request,
            exchange,
            execution,
            decoded,
            keys,
            actor,
            is_first,
        };
        self.relate(window, &seen, columns);
    }

    /// Takes an exchange to what came before it.
    fn relate(&mut self, window: &mut Window, seen: &Seen<'_>, columns: &ResultColumns) {
        let kind = seen.execution.analysis.head.kind;
        if seen.is_first {
            self.count_request(seen.request.pattern);
        }
        // A copy that was refused is missing.
        if kind.is_write() {
            self.copy(window, seen);
        }
        if let (Request::Batch(batch), true) = (seen.decoded.request, seen.is_first) {
            self.copy_in_batch(window, seen, batch);
        }
        if seen.exchange.refused {
            return;
        }
        let partition = self.only_partition(seen);
        self.change(seen);
        self.rewrite(window, seen, partition);
        let follows = self.follow(seen);
        if !kind.is_read() {
            return;
        }
        if let Outcome::Rows { count, .. } = seen.exchange.outcome
            && seen.execution.first_page
            && let [table] = &seen.execution.analysis.tables[..]
        {
            self.walk(window, seen, table, count);
            self.repeat(window, seen, partition);
        }
        if let Some(rows) = seen.decoded.answer.rows
            && is_followed(seen.execution, rows)
        {
            match seen.execution.first_page {
                true if self.samples(seen, rows) => self.remember(window, seen, (rows, follows), columns),
                true => Self::pass_over(window, seen),
                false => self.remember(window, seen, (rows, None), columns),
            }
        }
    }

    /// Statements beyond those that a window tells apart are not counted: ever new texts take no memory.
    #[inline]
    fn count_request(&mut self, pattern: PatternId) {
        let has_room = self.requests.len() < Sequences::MOST;
        if let Some(requests) = self.requests.get_mut(&pattern) {
            *requests += 1;
        } else if has_room {
            self.requests.insert(pattern, 1);
        }
    }

    /// Counts a read whose rows are not remembered.
    fn pass_over(window: &mut Window, seen: &Seen<'_>) {
        window.coverage.reads_not_followed += 1;
        if seen.is_first {
            window.sequences.pass_over(seen.request.pattern);
        }
    }

    /// Whether the rows of a read are remembered.
    fn samples(&mut self, seen: &Seen<'_>, rows: &Rows<'_>) -> bool {
        let read = (seen.request.pattern, seen.actor);
        let samples = seen.is_first
            && self
                .follow_ups
                .samples(read, seen.request.answered_at, cells(rows));
        self.was_limited |= !samples;
        samples
    }

    #[cold]
    fn end_at(&mut self, end: i64, window: &mut Window) {
        window.coverage.not_related += 1;
        self.follow_ups.end_at(end, window);
        self.walks.end_at(end, window);
        self.copies.end_at(end, window);
        self.bursts.end_at(end, &self.flows, window);
    }

    /// Hashes the keys of a request, takes them to the read whose rows they are from, and gives the number of that.
    fn follow(&mut self, seen: &Seen<'_>) -> Option<u32> {
        let may_follow = seen.execution.first_page && !self.follow_ups.is_empty();
        let mut follows = None;
        for table in &seen.execution.analysis.tables {
            let columns = self.key_columns.of(table.id, &table.name, &self.live);
            let keys = seen.keys.iter().filter(|(id, _)| *id == table.id);
            let keys = keys.map(|(_, key)| key.bytes);
            values::hash_keys(&mut self.key_values, (self.key, seen.actor), keys, columns.len());
            if !may_follow {
                continue;
            }
            let keys = (&self.key_values[..], &columns[..]);
            let followed = match seen.keys.len() {
                1 => self.follow_ups.follow(seen.request, keys),
                _ => self.follow_ups.follow_list(seen.request, keys),
            };
            follows = followed.or(follows);
        }
        follows
    }

    /// Takes a write to those of the same values.
    fn copy(&mut self, window: &mut Window, seen: &Seen<'_>) {
        let tables = &seen.execution.analysis.tables[..];
        let (Some(parameters), [table]) = (seen.decoded.request.parameters(), tables) else {
            return;
        };
        self.asked.clear();
        self.ask(parameters, seen.actor);
        self.asked.sort_unstable();
        self.asked.dedup();
        let write = NewWrite {
            request: seen.request,
            table: table.id.index() as u64,
            values: &self.asked,
            succeeded: seen.exchange.outcome.is_answer(),
        };
        self.copies.note(&write, seen.is_first, window);
    }

    /// Looks for copies among the statements of a batch.
    fn copy_in_batch(&self, window: &mut Window, seen: &Seen<'_>, batch: &Batch<'_>) {
        let (key, actor) = (self.key, seen.actor);
        let tables = seen.execution.analysis.tables.len();
        let are_copies = batched_copies::are_copies(batch, tables, |value| values::hash(key, actor, value));
        if let Some(are_copies) = are_copies {
            let succeeded = seen.exchange.outcome.is_answer();
            window
                .sequences
                .note_batch(seen.request.pattern, are_copies, succeeded);
        }
    }

    /// Notes the partitions that a request writes.
    fn change(&mut self, seen: &Seen<'_>) {
        if !seen.execution.analysis.head.kind.is_read() {
            for (table, key) in seen.keys.iter() {
                let partition = values::key_hash(self.key, (seen.actor, table.index()), key.bytes);
                self.writes.write(partition);
            }
        }
    }

    /// Takes a read or write of one partition to what the other one is of it.
    fn rewrite(&mut self, window: &mut Window, seen: &Seen<'_>, partition: Option<u64>) {
        let Some(key) = partition.filter(|_| seen.execution.first_page) else {
            return;
        };
        let was_read = seen.is_first && matches!(seen.exchange.outcome, Outcome::Rows { .. });
        match seen.execution.analysis.head.kind {
            StatementKind::Select if was_read => self.rewrites.read(key, seen.request),
            StatementKind::Insert | StatementKind::Update => self.rewrites.write(key, seen.request, window),
            _ => {}
        }
    }

    /// Takes a read to those of the same.
    fn repeat(&mut self, window: &mut Window, seen: &Seen<'_>, partition: Option<u64>) {
        let Some(request_key) = seen.exchange.request_key else {
            return;
        };
        let key = of_actor(request_key.page(), seen.actor);
        let writes = partition.map_or(0, |partition| self.writes.so_far(partition));
        let read = SameRead {
            key,
            unchanged: key ^ writes.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let pattern = of_actor(seen.request.pattern.0, seen.actor);
        let flow = self.flows.read(pattern, seen.request.at, seen.is_first);
        let request = (seen.request, seen.is_first);
        self.bursts
            .note((read, pattern), request, (flow, &self.flows), window);
        if seen.is_first {
            self.repeats.note(read, flow.number, seen.request, window);
        }
    }

    /// The partition of a request to one partition of one table.
    fn only_partition(&self, seen: &Seen<'_>) -> Option<u64> {
        let ([table], 1) = (&seen.execution.analysis.tables[..], seen.keys.len()) else {
            return None;
        };
        let (_, key) = seen.keys.iter().next()?;
        Some(values::key_hash(
            self.key,
            (seen.actor, table.id.index()),
            key.bytes,
        ))
    }

    /// Takes a read of partitions of `table` to those of the same key in other partitions.
    fn walk(&mut self, window: &mut Window, seen: &Seen<'_>, table: &NamedTable, rows: u64) {
        let columns = self.key_columns.of(table.id, &table.name, &self.live);
        let keys = seen.keys.iter().map(|(_, key)| key.bytes);
        let read = NewRead {
            request: seen.request,
            columns,
            rows,
            limit: &|| limit(seen),
            is_first: seen.is_first,
        };
        self.walks.note((self.key, seen.actor), &read, keys, window);
    }

    /// Remembers the rows of a read, which follows the read with that number.
    fn remember(
        &mut self,
        window: &mut Window,
        seen: &Seen<'_>,
        (rows, follows): (&Rows<'_>, Option<u32>),
        columns: &ResultColumns,
    ) {
        self.asked.clear();
        // A key that the text names is no bound value. The table of a read is its only one.
        let keys = self.key_values.iter().take(Self::MOST_ASKED);
        self.asked.extend(keys.map(|value| value.hash));
        if let Some(parameters) = seen.decoded.request.parameters() {
            self.ask(parameters, seen.actor);
        }
        let of_actor = |page: u64| of_actor(page, seen.actor);
        let page = seen.exchange.request_key.map(RequestKey::page);
        let read = ReadRows {
            pattern: seen.request.pattern,
            actor: seen.actor,
            asked_at: seen.request.at,
            answered_at: seen.request.answered_at,
            follows,
            page: page.map(of_actor).filter(|_| !seen.execution.first_page),
            next_page: seen.exchange.next_page.map(of_actor),
            rows,
            asked: &self.asked,
        };
        if !seen.execution.first_page {
            return self.follow_ups.remember_page(self.key, &read, window);
        }
        let columns = columns.of(seen.decoded.request, rows);
        self.follow_ups.remember(self.key, &read, columns, window);
    }

    /// Adds the values that a request binds to those that are asked.
    fn ask(&mut self, parameters: &QueryParameters<'_>, actor: u64) {
        let key = self.key;
        let bound = parameters.values.iter().take(Self::MOST_ASKED);
        let hashes = bound.filter_map(|(_, value)| match value {
            Value::Bytes(bytes) => values::hash(key, actor, bytes),
            _ => None,
        });
        self.asked.extend(hashes);
    }

    /// Values that a request has, beyond which a list is no key of a row any more.
    const MOST_ASKED: usize = 256;
}

/// An exchange that is looked at.
struct Seen<'e> {
    request: KeyedRequest,
    exchange: &'e Exchange<'e>,
    execution: &'e Execution,
    decoded: DecodedExchange<'e>,
    keys: NamedKeys<'e>,
    actor: u64,
    /// Whether it may begin something.
    is_first: bool,
}

/// Whether a program may go on with the rows of a read: not where pieces of the ring are read, one after the other.
#[inline]
fn is_followed(execution: &Execution, rows: &Rows<'_>) -> bool {
    !rows.is_empty() && execution.footprint.class() != PartitionClass::TokenRange
}

/// Rows that a read wants at most, where its text or what is bound says so.
fn limit(seen: &Seen<'_>) -> Option<u64> {
    let plan = seen.execution.analysis.plan.as_ref()?;
    let values = seen.execution.values(seen.decoded.request);
    u64::try_from(plan.limits(values.as_ref()).ok()?.limit?).ok()
}

fn cells(rows: &Rows<'_>) -> usize {
    rows.len().saturating_mul(rows.metadata.column_count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn ever_new_statements_take_no_memory() {
        let mut recorder = SequenceRecorder::new(
            &Arc::new(Live::default()),
            HashKey::random(),
            Relating::default(),
            Clock::start(),
        );
        let most = Sequences::MOST as u64;
        (0..2 * most).for_each(|id| recorder.count_request(PatternId(id)));
        recorder.count_request(PatternId(0));
        assert_eq!(recorder.requests.len(), Sequences::MOST);
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "test");
        recorder.settle(&mut window);
        assert_eq!(window.sequences.requests[&PatternId(0)], 2);
        assert!(recorder.requests.is_empty());
    }
}
