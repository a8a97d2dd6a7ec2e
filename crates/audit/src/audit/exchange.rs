//! One request matched with its response, and what it means. Plain data: [`ExchangeBuilder`](super::builder::ExchangeBuilder) makes
//! it, everything that counts reads it.

use std::{sync::Arc, time::Duration};

use cqlens_proto::message::{Consistency, Request};

use super::{
    RequestKey,
    analysis::{Analysis, NamedTable},
    answer::Answer,
    ids::{ClientId, Ids, TableId},
    outcome::{Outcome, could_not_run, is_all_or_nothing},
    pair::RawExchange,
    row_keys::ScannedRows,
    warning::TombstoneText,
};
use crate::{
    capture::Moment,
    window::{PatternId, Routed},
};
use cqlens_cql::footprint::{Count, Footprint, Key, Keys};
use cqlens_cql::{footprint::PartitionClass, plan::Flag};

/// A request with its response, both decoded.
#[derive(Clone, Copy)]
pub(super) struct DecodedExchange<'a> {
    pub(super) raw: &'a RawExchange,
    pub(super) request: &'a Request<'a>,
    pub(super) answer: &'a Answer<'a>,
}

/// What a request with its response means.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    /// When the request's last byte came.
    pub(super) at: Moment,
    /// From the request's last byte to the response's first; none without a response, or where their times are not known.
    pub(super) latency: Option<Duration>,
    /// The client that sent the request.
    pub(super) client: ClientId,
    /// Its name.
    pub(super) client_name: &'a Arc<str>,
    /// Its host: see [`Session::host`](super::session::Session::host).
    pub(super) host: u64,
    /// The node that the request was sent to, by its place in the cluster; none where it is not known.
    pub(super) coordinator: Option<u16>,
    /// Whether that node holds the partition; none unless there is only one.
    pub(super) routed: Option<Routed>,
    /// The connection ended before there was an answer.
    pub(super) cut_off: bool,
    /// The pattern of the statement that was prepared.
    pub(super) prepared: Option<PatternId>,
    /// What was executed; none for requests that execute nothing (OPTIONS, PREPARE, …).
    pub(super) execution: Option<&'a Execution>,
    /// The same for requests of the same thing; none where nothing was executed.
    pub(super) request_key: Option<RequestKey>,
    /// The page that the answer offers, as the key of the request for it has it.
    pub(super) next_page: Option<u64>,
    /// The tokens that a read covers, where it says so: above the first one, up to and with the second one.
    pub(super) token_range: Option<(i64, i64)>,
    /// What the rows of a scan show of its partitions.
    pub(super) scanned_rows: Option<ScannedRows>,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// The server refused it before it touched any partition.
    pub(super) refused: bool,
    /// Warnings in the response.
    pub(super) warnings: u64,
    /// What warnings and errors say of tombstones.
    pub(super) tombstones: Vec<TombstoneText>,
    /// Size of the request's envelope, uncompressed.
    pub(super) request_bytes: u64,
    /// Size of the response's envelope, uncompressed.
    pub(super) response_bytes: Option<u64>,
}

impl Exchange<'_> {
    /// Whether the server has run a statement of an application, which says that the client may do something.
    pub(super) fn is_granted(&self) -> bool {
        let is_of_application = |execution: &Execution| !execution.analysis.head.system;
        self.outcome.is_answer() && self.execution.is_some_and(is_of_application)
    }

    /// Whether the answer shows that the server ran it.
    pub(super) fn is_confirmed(&self) -> bool {
        !self.refused && !matches!(self.outcome, Outcome::Unanswered | Outcome::Failed)
    }

    /// What was executed, if it is of a kind that touches partitions and was not refused before it did.
    #[inline]
    pub(super) fn touching(&self) -> Option<&Execution> {
        self.execution
            .filter(|execution| !self.refused && execution.analysis.touches_partitions)
    }
}

/// What was executed.
#[derive(Debug)]
pub(super) struct Execution {
    /// What is the same for all executions.
    pub(super) analysis: Arc<Analysis>,
    /// The partitions that this one touches.
    pub(super) footprint: Footprint,
    /// Whether a prepared statement was executed.
    pub(super) prepared: bool,
    /// The consistency level.
    pub(super) consistency: Option<Consistency>,
    /// Not a later page of a paged read.
    pub(super) first_page: bool,
    /// Which of the first 64 values are null, in INSERTs and UPDATEs: a bit for each, the lowest for the first.
    pub(super) nulls: u64,
    /// The rows that an answer holds at most; none where no pages are asked for.
    pub(super) page_size: Option<PageSize>,
    /// Of a BATCH message, how many statements name each of the tables of `analysis`; empty for others.
    pub(super) batched: Vec<u32>,
}

/// How much a client asks for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageSize {
    Rows(u64),
    /// DSE: as many rows as fit in a number of bytes.
    Bytes,
}

/// A page of so many bytes on the wire may have ended because of its size: ScyllaDB ends one at a megabyte, and compression may make a
/// tenth of that.
const PAGE_BYTES: u64 = 64 << 10;

impl Execution {
    /// The tables that it names, and how many of its statements do.
    #[inline]
    pub(super) fn tables(&self) -> impl Iterator<Item = (&NamedTable, u32)> {
        let tables = self.analysis.tables.iter().enumerate();
        tables.map(|(place, table)| {
            (
                table,
                self.batched.get(place).copied().unwrap_or(table.statements),
            )
        })
    }

    /// Whether an answer that does not say so by itself means that this has touched nothing.
    pub(super) fn is_refused_by(&self, outcome: Outcome) -> bool {
        (outcome.is_server_error() && could_not_run(&self.footprint))
            || (outcome.is_turned_away() && self.is_all_or_nothing())
    }

    /// Whether it is known to touch one partition at most: then an answer says nothing more of which ones.
    #[inline]
    pub(super) fn is_of_one(&self) -> bool {
        matches!(self.footprint.count, Count::Exact(0 | 1))
    }

    /// Whether it goes over the ring, of tables that are not the server's own.
    pub(super) fn is_scan(&self) -> bool {
        let class = self.footprint.class();
        !self.analysis.head.system
            && matches!(
                class,
                PartitionClass::Scan | PartitionClass::TokenRange | PartitionClass::Index
            )
    }

    /// Whether an answer of `rows` rows and `bytes` bytes, with more to come, has fewer rows than its page had room for, and
    /// nothing else ends a page early but what was deleted.
    pub(super) fn ends_short(&self, rows: u64, bytes: u64) -> bool {
        let plan = self.analysis.plan.as_ref();
        bytes < PAGE_BYTES
            && matches!(self.page_size, Some(PageSize::Rows(size)) if rows < size)
            && plan.is_some_and(|plan| plan.facts().fills_pages())
    }

    /// Whether it has touched nothing where the coordinator could not ask the replicas of a partition.
    fn is_all_or_nothing(&self) -> bool {
        is_all_or_nothing(&self.footprint, self.analysis.flags.contains(&Flag::Lwt))
    }
}

/// The partitions that an execution names, with the ids of their tables. A buffer that its owner reuses.
#[derive(Debug, Default)]
pub(super) struct KeyBuffer {
    pub(super) keys: Keys,
    /// Of each key, or one for all.
    tables: Vec<TableId>,
}

impl KeyBuffer {
    /// Forgets all keys and keeps the memory.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.tables.clear();
    }

    /// Finds the ids of the keys' tables, which are the `tables` of their statement.
    #[inline]
    pub(super) fn name_tables(&mut self, tables: &[NamedTable], ids: &mut Ids) {
        match tables {
            [only] => self.tables.push(only.id),
            _ => self
                .tables
                .extend(self.keys.iter().map(|key| ids.table(key.table))),
        }
    }

    /// The keys with their tables.
    #[inline]
    pub(super) fn named(&self) -> NamedKeys<'_> {
        NamedKeys(self)
    }
}

/// The keys of a [`KeyBuffer`], to be counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedKeys<'k>(&'k KeyBuffer);

impl<'k> NamedKeys<'k> {
    /// Each with the id of its table, in the order of their first appearance.
    #[inline]
    pub(super) fn iter(self) -> impl Iterator<Item = (TableId, Key<'k>)> {
        let Self(KeyBuffer { keys, tables }) = self;
        let last = tables.len().saturating_sub(1);
        keys.iter()
            .enumerate()
            .filter_map(move |(place, key)| Some((*tables.get(place.min(last))?, key)))
    }
}
