//! Counts exchanges in a window: each recorder reads the exchange and adds to what it counts, by id where it
//! can.

pub(crate) mod bounded;
pub mod cells;
pub(crate) mod clients;
pub(crate) mod coverage;
pub(crate) mod nodes;
pub(crate) mod open_connections;
pub(crate) mod paging;
pub(crate) mod pattern;
pub(crate) mod refusals;
pub(crate) mod repeated_values;
pub(crate) mod retries;
pub(crate) mod ring_scans;
pub(crate) mod tables;
pub(crate) mod traffic;

use cqlens_proto::message::ErrorCode;

use crate::audit::{
    Ending, HashKey, Repeat, RequestKey, RetryDetector,
    count::{
        coverage::cover,
        paging::{OpenReads, Page, Progress},
        pattern::record_pattern,
        retries::Request,
        ring_scans::FullRingScans,
        tables::Tables,
        traffic::{Hashing, has_tables, record_tables},
    },
    exchange::{
        Exchange, Execution, NamedKeys,
        outcome::{Outcome, is_all_or_nothing},
    },
};
use cqlens_window::{Pattern, PatternId, RetryCause, Routed, Window};

/// Adds exchanges to windows, and remembers of them what the next ones are compared with.
///
/// Sees the exchanges of all connections: a driver retries, or fetches the next page, on another one.
/// Everything in it has a limit; what is forgotten because of it is in the window's coverage.
#[derive(Debug)]
pub(crate) struct WindowRecorder {
    hashing: Hashing,
    retries: RetryDetector,
    /// What is not compared yet.
    uncompared: Vec<Uncompared>,
    reads: OpenReads,
    ring_scans: FullRingScans,
}

impl WindowRecorder {
    /// Nothing recorded yet.
    pub(crate) fn new(key: HashKey) -> Self {
        Self {
            hashing: Hashing::new(key),
            retries: RetryDetector::default(),
            uncompared: Vec::with_capacity(Self::TOGETHER),
            reads: OpenReads::default(),
            ring_scans: FullRingScans::default(),
        }
    }

    /// How many requests are compared with earlier ones together: what those are is anywhere in memory, and
    /// it takes no longer to fetch it for some than for one.
    const TOGETHER: usize = 32;

    /// Adds `exchange` to `window` and its `tables`; `routed` says whether it was sent to a replica, `keys`
    /// are the partitions that it named, `seen` those in its rows.
    pub(crate) fn record(
        &mut self,
        window: &mut Window,
        tables: &mut Tables,
        exchange: &Exchange<'_>,
        routed: Option<Routed>,
        keys: NamedKeys<'_>,
        seen: &[u64],
    ) {
        window.coverage.audited += 1;
        if matches!(exchange.outcome, Outcome::Unanswered) {
            window.coverage.unanswered += 1;
        }
        window.coverage.rows_unknown += u64::from(exchange.outcome == Outcome::Unread);
        let Some(execution) = exchange.execution else {
            count_prepared(window, exchange);
            return;
        };
        let analysis = &execution.analysis;
        cover(&mut window.coverage, exchange, execution);
        let head = || (analysis.head.clone(), analysis.flags.clone());
        let pattern = window.pattern_mut(analysis.id, &analysis.head.cql, head);
        record_pattern(pattern, exchange, routed, execution);
        let progress = exchange
            .request_key
            .and_then(|request_key| self.read_on(pattern, exchange, execution, request_key, seen));
        if let Some((page, progress)) = exchange.next_page.zip(progress) {
            self.reads.wait(page, progress, analysis.id, exchange.at, window);
        }
        if !analysis.head.system && has_tables(exchange, analysis) {
            record_tables(tables, exchange, execution, keys, progress, &mut self.hashing);
        }
        if let Some(request_key) = exchange.request_key {
            self.compare_later(window, exchange, execution, request_key);
        }
    }

    /// Has a request compared with others like it: together with the next ones, but for one that has read a
    /// part of the ring.
    fn compare_later(
        &mut self,
        window: &mut Window,
        exchange: &Exchange<'_>,
        execution: &Execution,
        request_key: RequestKey,
    ) {
        let request = Request::new(request_key, exchange.host, exchange.at, ending(exchange));
        let uncompared = request.map(|request| Uncompared::new(request, exchange, execution));
        // What failed is read again.
        let is_part = execution.first_page && matches!(exchange.outcome, Outcome::Rows { .. });
        if let (Some(range), true) = (exchange.token_range, is_part) {
            self.compare_part(window, (execution.analysis.id, exchange.host), range, uncompared);
        } else if let Some(uncompared) = uncompared {
            self.uncompared.push(uncompared);
            if self.uncompared.len() >= Self::TOGETHER {
                self.settle(window);
            }
        }
    }

    /// Compares a read of a part of the ring at once, and notes the part.
    #[cold]
    fn compare_part(
        &mut self,
        window: &mut Window,
        (pattern, host): (PatternId, u64),
        range: (i64, i64),
        uncompared: Option<Uncompared>,
    ) {
        self.settle(window);
        let repeat = uncompared.and_then(|uncompared| self.compare(window, &uncompared));
        // What was in flight already is counted already.
        if repeat != Some(Repeat::InFlight) {
            self.ring_scans.note(pattern, host, range, window);
        }
    }

    /// Compares what is not compared yet: before `window`, which has everything else of it, is taken.
    pub(crate) fn settle(&mut self, window: &mut Window) {
        let mut uncompared = std::mem::take(&mut self.uncompared);
        self.retries
            .fetch(uncompared.iter().map(|uncompared| &uncompared.request));
        for uncompared in &uncompared {
            self.compare(window, uncompared);
        }
        uncompared.clear();
        self.uncompared = uncompared;
        window.coverage.retries_forgotten += self.retries.take_forgotten();
    }

    /// Ids of tables mean others from now on.
    pub(crate) fn forget_ids(&mut self) {
        self.hashing.forget_ids();
    }

    /// Nothing more comes: reads that wait for their next page are abandoned.
    pub(crate) fn end(&mut self, window: &mut Window) {
        self.reads.end(window);
    }

    /// Recognises a request that has come before.
    ///
    /// Part of its callers: a call costs a sixth of it.
    #[inline(always)]
    fn compare(&mut self, window: &mut Window, uncompared: &Uncompared) -> Option<Repeat> {
        // Most are not: their pattern is not looked up again.
        let repeat = self.retries.compare(&uncompared.request)?;
        if let Some(pattern) = window.patterns.get_mut(&uncompared.pattern) {
            uncompared.count(repeat, pattern);
        }
        Some(repeat)
    }

    /// Puts a page to its read, and says where that stands now.
    fn read_on(
        &mut self,
        pattern: &mut Pattern,
        exchange: &Exchange<'_>,
        execution: &Execution,
        request_key: RequestKey,
        seen: &[u64],
    ) -> Option<Progress> {
        let Outcome::Rows { count: rows, .. } = exchange.outcome else {
            return None;
        };
        if !execution.analysis.head.kind.is_read() {
            return None;
        }
        let mut page = Page {
            rows,
            bytes: exchange.response_bytes.unwrap_or(0),
            keys: None,
        };
        if let Some(found) = &exchange.scanned_rows {
            page.keys = found.keys;
            let scanned = &mut pattern.scanned;
            scanned.rows += found.rows;
            scanned.rows_left_out += found.left_out;
            scanned.answers_without_keys += u64::from(found.without_keys);
            seen.iter().for_each(|&hash| scanned.see(hash));
        }
        let before = if execution.first_page {
            Some(Progress::default())
        } else {
            self.reads.progress(request_key.page())
        };
        if before.is_none() {
            pattern.paging.unlinked += 1;
        }
        let progress = before.unwrap_or_else(Progress::of_part).and(page);
        if !execution.first_page {
            self.reads.fetch(request_key.page());
        }
        if exchange.next_page.is_none() {
            progress.record(pattern);
        }
        Some(progress)
    }
}

/// A request that is in its window and not yet compared with those before it, and what of it matters if it is
/// one of them again.
#[derive(Debug)]
struct Uncompared {
    request: Request,
    pattern: PatternId,
    is_logical_read: bool,
    /// As a read, which has no conditions: of no others does it matter.
    is_all_or_nothing: bool,
}

impl Uncompared {
    fn new(request: Request, exchange: &Exchange<'_>, execution: &Execution) -> Self {
        Self {
            request,
            pattern: execution.analysis.id,
            is_logical_read: is_logical_read(exchange, execution),
            is_all_or_nothing: is_all_or_nothing(&execution.footprint, false),
        }
    }

    /// Counts what it was to one before it.
    fn count(&self, repeat: Repeat, pattern: &mut Pattern) {
        match repeat {
            Repeat::InFlight => pattern.repeats.in_flight += 1,
            Repeat::Retry(cause) => {
                *pattern.repeats.retries.entry(cause).or_default() += 1;
                // What the server refused was no read yet.
                let first_was_refused = match cause {
                    RetryCause::Unprepared => true,
                    RetryCause::Unavailable | RetryCause::Overloaded | RetryCause::Bootstrapping => {
                        self.is_all_or_nothing
                    }
                    _ => false,
                };
                let counted_twice = !first_was_refused && self.is_logical_read;
                pattern.logical_reads -= u64::from(counted_twice && pattern.logical_reads > 0);
            }
        }
    }
}

/// Whether this is a read, and not a later page of one.
fn is_logical_read(exchange: &Exchange<'_>, execution: &Execution) -> bool {
    execution.analysis.head.kind.is_read() && execution.first_page && !exchange.refused
}

/// Only of patterns that are there already: what they are is decided by what is known of the schema at their
/// first execution.
fn count_prepared(window: &mut Window, exchange: &Exchange<'_>) {
    if let Some(pattern) = exchange.prepared.and_then(|id| window.patterns.get_mut(&id)) {
        pattern.prepared_again += 1;
    }
}

/// How an exchange ended, for those who may try again.
fn ending(exchange: &Exchange<'_>) -> Ending {
    match (exchange.outcome, exchange.answered_at) {
        (Outcome::Error { code, .. }, Some(at)) => {
            retry_cause(code).map_or(Ending::Answered(at), |cause| Ending::Failed(at, cause))
        }
        (Outcome::Unanswered, None) if exchange.cut_off => Ending::CutOff,
        (_, Some(at)) => Ending::Answered(at),
        (_, None) => Ending::Unknown,
    }
}

/// Errors after which the drivers' default policies send a request again, or may.
fn retry_cause(code: u32) -> Option<RetryCause> {
    const CAUSES: &[(ErrorCode, RetryCause)] = &[
        (ErrorCode::READ_TIMEOUT, RetryCause::ReadTimeout),
        (ErrorCode::WRITE_TIMEOUT, RetryCause::WriteTimeout),
        (ErrorCode::UNAVAILABLE, RetryCause::Unavailable),
        (ErrorCode::OVERLOADED, RetryCause::Overloaded),
        (ErrorCode::IS_BOOTSTRAPPING, RetryCause::Bootstrapping),
        (ErrorCode::TRUNCATE_ERROR, RetryCause::TruncateError),
        (ErrorCode::SERVER_ERROR, RetryCause::ServerError),
        (ErrorCode::UNPREPARED, RetryCause::Unprepared),
    ];
    let known = CAUSES
        .iter()
        .find(|(known, _)| u32::try_from(known.0) == Ok(code));
    known.map(|&(_, cause)| cause)
}
