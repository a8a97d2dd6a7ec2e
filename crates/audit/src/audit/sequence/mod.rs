//! Finds statements that belong together: what one operation of an application sends.
//!
//! Sees the exchanges of all connections, since drivers spread one operation over several, and tells operations apart
//! by who sends them ([`Session::actor`](crate::audit::connection::session::Session::actor)) and by the values that
//! they share. Values are keyed hashes here; none of them stays. Everything has a limit: what is looked at is a sample
//! where there is more, and what is counted says of how many.

mod batched_copies;
mod buckets;
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
mod sources;
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
use cqlens_cql::{footprint::PartitionClass, plan::StatementKind};
use cqlens_window::{PatternId, Sequences, Window};

pub use sources::SourceLimit;

use bursts::BurstFinder;
use copies::{CopyFinder, NewWrite};
use flows::Flows;
use follow_ups::{FollowUpFinder, KeyedRequest, ReadRows};
use repeats::{PartitionWrites, RepeatFinder, SameRead};
use result_columns::ResultColumns;
use rewrites::RewriteFinder;
use sources::{Look, Sources};
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
    /// Whether operations are looked for.
    is_on: bool,
    sources: Sources,
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
    pub(crate) fn new(live: &Arc<Live>, key: HashKey, limit: SourceLimit) -> Self {
        Self {
            live: Arc::clone(live),
            key,
            key_columns: KeyColumns::default(),
            is_on: limit != SourceLimit::NONE,
            sources: Sources::new(limit),
            follow_ups: FollowUpFinder::new(limit.cells),
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
        for (pattern, reads) in self.sources.take_passed_over() {
            sequences.pass_over(pattern, reads);
            window.coverage.reads_not_followed += reads;
        }
        window.coverage.reads_not_followed += self.sources.take_passed_over_of_others();
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, window: &mut Window) {
        self.settle(window);
        self.follow_ups.end(window);
        self.walks.end(window);
        self.copies.end(window);
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
        let Some(execution) = exchange.execution.filter(|_| self.is_on) else {
            return;
        };
        let Some(answered_at) = exchange.answered_at else {
            return;
        };
        if execution.analysis.head.system || !execution.analysis.touches_partitions {
            return;
        }
        let request = KeyedRequest {
            pattern: execution.analysis.id,
            at: exchange.at.unix_nanoseconds(),
            answered_at: answered_at.unix_nanoseconds(),
        };
        let look = self.sources.look(request.at);
        let seen = Seen {
            request,
            exchange,
            execution,
            decoded,
            keys,
            actor,
            is_first: look == Look::First,
        };
        match look {
            Look::First | Look::Next => self.compare(window, &seen),
            Look::Ends(end) => self.end_at(end, window),
            Look::Away => window.coverage.not_related += 1,
        }
        if !exchange.refused {
            self.follow_and_remember(window, &seen, columns);
        }
    }

    /// Compares an exchange with those just before it.
    fn compare(&mut self, window: &mut Window, seen: &Seen<'_>) {
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
        if kind.is_read()
            && let Outcome::Rows { count, .. } = seen.exchange.outcome
            && seen.execution.first_page
            && let [table] = &seen.execution.analysis.tables[..]
        {
            self.walk(window, seen, table, count);
            self.repeat(window, seen, partition);
        }
    }

    /// Takes an exchange to the sources that it follows, and remembers its rows where it is one.
    fn follow_and_remember(&mut self, window: &mut Window, seen: &Seen<'_>, columns: &ResultColumns) {
        let follows = self.follow(seen);
        let Some(rows) = seen
            .decoded
            .answer
            .rows
            .filter(|rows| is_followed(seen.execution, rows))
        else {
            return;
        };
        if !seen.execution.first_page {
            self.remember(window, seen, (rows, None), columns);
        } else if self.sources.takes_rows(seen.request.pattern, cells(rows)) {
            self.remember(window, seen, (rows, follows), columns);
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

    #[cold]
    fn end_at(&mut self, end: i64, window: &mut Window) {
        window.coverage.not_related += 1;
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
        let remembered = match seen.execution.first_page {
            true => {
                let columns = columns.of(seen.decoded.request, rows);
                self.follow_ups.remember(self.key, &read, columns, window)
            }
            false => self.follow_ups.remember_page(self.key, &read, window),
        };
        // Further pages, and elements of collections.
        let counted = if seen.execution.first_page { cells(rows) } else { 0 };
        self.sources.add(remembered.saturating_sub(counted));
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
            SourceLimit::default(),
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
