//! One request matched with its response, and what it means. Plain data:
//! [`ExchangeBuilder`](crate::audit::exchange::builder::ExchangeBuilder) makes it, everything that counts
//! reads it.

pub(crate) mod answer;
pub(crate) mod builder;
pub(crate) mod deferred;
pub(crate) mod outcome;
pub(crate) mod replicas;
pub(crate) mod request_key;
pub(crate) mod scanned_keys;
pub(crate) mod warning;
mod written;

use std::sync::Arc;

use cqlens_proto::message::{Consistency, Request, SerialConsistency, Values, ValuesBuf};

use crate::audit::{
    RequestKey,
    connection::event::RawExchange,
    exchange::{
        answer::Answer,
        outcome::{Outcome, could_not_run, is_all_or_nothing},
        scanned_keys::ScannedRows,
        warning::{TombstoneText, Warning},
    },
    statement::{
        analysis::{Analysis, NamedTable},
        ids::{ClientId, Ids, TableId},
    },
};
use cqlens_capture::Moment;
use cqlens_cql::footprint::{Count, Footprint, Key, Keys};
use cqlens_cql::{footprint::PartitionClass, plan::Flag};
use cqlens_window::PatternId;

/// A request with its response, both decoded: what effects and exchanges are made of.
#[derive(Clone, Copy)]
pub(crate) struct DecodedExchange<'a> {
    pub(crate) raw: &'a RawExchange,
    pub(crate) request: &'a Request<'a>,
    pub(crate) answer: &'a Answer<'a>,
}

/// What a request with its response means.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    /// When the request's last byte came.
    pub(crate) at: Moment,
    /// When the response's first byte came, not before the request; none without a response, or where their times
    /// are not known.
    pub(crate) answered_at: Option<Moment>,
    /// The client that sent the request.
    pub(crate) client: ClientId,
    /// Its name.
    pub(crate) client_name: &'a Arc<str>,
    /// Its host: see [`Session::host`](crate::audit::connection::session::Session::host).
    pub(crate) host: u64,
    /// The node that the request was sent to, by its place in the cluster; none where it is not known.
    pub(crate) coordinator: Option<u16>,
    /// The connection ended before there was an answer.
    pub(crate) cut_off: bool,
    /// The pattern of the statement that was prepared.
    pub(crate) prepared: Option<PatternId>,
    /// What was executed; none for requests that execute nothing (OPTIONS, PREPARE, …).
    pub(crate) execution: Option<&'a Execution>,
    /// The same for requests of the same thing; none where nothing was executed.
    pub(crate) request_key: Option<RequestKey>,
    /// The page that the answer offers, as the key of the request for it has it.
    pub(crate) next_page: Option<u64>,
    /// The tokens that a read covers, where it says so: above the first one, up to and with the second one.
    pub(crate) token_range: Option<(i64, i64)>,
    /// What the rows of a scan show of its partitions.
    pub(crate) scanned_rows: Option<ScannedRows>,
    /// How it ended.
    pub(crate) outcome: Outcome,
    /// The server refused it before it touched any partition.
    pub(crate) refused: bool,
    /// Warnings in the response.
    pub(crate) warnings: u64,
    /// What warnings and errors say; most say nothing, and one pointer for it is moved about faster than lists.
    pub(crate) messages: Option<Box<ServerMessages>>,
    /// Whether the client asked for a trace of it.
    pub(crate) traced: bool,
    /// Whether it had a condition that did not hold.
    pub(crate) not_applied: bool,
    /// Size of the request's envelope, uncompressed.
    pub(crate) request_bytes: u64,
    /// Size of the response's envelope, uncompressed.
    pub(crate) response_bytes: Option<u64>,
}

impl Exchange<'_> {
    /// From the request's last byte to the response's first, in microseconds.
    #[inline]
    pub(crate) fn latency_us(&self) -> Option<u64> {
        let (from, to) = (self.at.unix_nanoseconds(), self.answered_at?.unix_nanoseconds());
        Some(to.saturating_sub(from).unsigned_abs() / 1_000)
    }

    /// Whether the server has run a statement of an application, which says that the client may do something.
    pub(crate) fn is_granted(&self) -> bool {
        let is_of_application = |execution: &Execution| !execution.analysis.head.system;
        self.outcome.is_answer() && self.execution.is_some_and(is_of_application)
    }

    /// Whether the answer shows that the server ran it.
    pub(crate) fn is_confirmed(&self) -> bool {
        !self.refused && !matches!(self.outcome, Outcome::Unanswered | Outcome::Failed)
    }

    /// What was executed, if it is of a kind that touches partitions and was not refused before it did.
    #[inline]
    pub(crate) fn touching(&self) -> Option<&Execution> {
        self.execution
            .filter(|execution| !self.refused && execution.analysis.touches_partitions)
    }
}

/// What warnings and errors say.
#[derive(Debug)]
pub(crate) struct ServerMessages {
    /// Warnings, those of tombstones left out.
    pub(crate) warnings: Vec<Warning>,
    /// What is said of tombstones.
    pub(crate) tombstones: Vec<TombstoneText>,
}

/// What was executed.
#[derive(Debug)]
pub(crate) struct Execution {
    /// What is the same for all executions.
    pub(crate) analysis: Arc<Analysis>,
    /// The partitions that this one touches.
    pub(crate) footprint: Footprint,
    /// Whether a prepared statement was executed.
    pub(crate) prepared: bool,
    /// The consistency level.
    pub(crate) consistency: Option<Consistency>,
    /// The consistency level of the consensus, should the statement have a condition; none where the request
    /// leaves it to the server, which takes SERIAL.
    pub(crate) serial_consistency: Option<SerialConsistency>,
    /// Not a later page of a paged read.
    pub(crate) first_page: bool,
    /// The timestamp that the client gives the write, in microseconds since 1970.
    pub(crate) timestamp: Option<i64>,
    /// The rows that an answer holds at most; none where no pages are asked for.
    pub(crate) page_size: Option<PageSize>,
    /// What few executions have.
    pub(crate) rare: Option<Box<RareFacts>>,
    /// Of a BATCH message, how many statements name each of the tables of `analysis`; empty for others.
    pub(crate) batched: Vec<u32>,
}

/// What few executions have: one pointer for it is moved about faster than all of them.
#[derive(Debug, Default)]
pub(crate) struct RareFacts {
    /// Which of the first 64 values of an INSERT or UPDATE are null: a bit for each, the lowest for the first.
    pub(crate) nulls: u64,
    /// The same of the statements of a batch that bind any.
    pub(crate) batched_nulls: Vec<StatementNulls>,
    /// The columns that an `INSERT … JSON` sets to null, most of them by not naming them.
    pub(crate) json_nulls: Vec<Box<str>>,
    /// Bytes of the largest value that an INSERT or UPDATE binds, where that is large.
    pub(crate) large_value: Option<u64>,
    /// Elements of the largest collection that an INSERT or UPDATE binds as a whole, where those are many.
    pub(crate) collection_items: Option<u64>,
    /// Which partitions a transaction reads, and which it writes.
    pub(crate) transaction: Option<TransactionKeys>,
    /// Values of clustering columns that a read lists; 0 without a list.
    pub(crate) listed_rows: u64,
    /// The constants of a text that has its plan in common with others of its shape.
    pub(crate) constants: Option<ValuesBuf>,
}

impl RareFacts {
    /// Whether values that are bound, or a document, set columns to null.
    pub(crate) fn writes_nulls(&self) -> bool {
        self.nulls != 0 || !self.batched_nulls.is_empty() || !self.json_nulls.is_empty()
    }
}

/// The partitions of one execution of a transaction: some may be both read and written.
#[derive(Debug, Default)]
pub(crate) struct TransactionKeys {
    pub(crate) read: Keys,
    pub(crate) written: Keys,
}

/// A statement of a batch, and which of its first 64 values are null.
pub(crate) type StatementNulls = (Arc<Analysis>, u64);

/// How much a client asks for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageSize {
    Rows(u64),
    /// DSE: as many rows as fit in a number of bytes.
    Bytes,
}

/// A page of so many bytes on the wire may have ended because of its size: ScyllaDB ends one at a megabyte,
/// and compression may make a tenth of that.
const PAGE_BYTES: u64 = 64 << 10;

impl Execution {
    /// What is bound to the plan: the values of the request, or the constants of its text.
    pub(crate) fn values<'v>(&'v self, request: &'v Request<'_>) -> Option<Values<'v>> {
        let constants = self.rare.as_ref().and_then(|rare| rare.constants.as_ref());
        match constants {
            Some(constants) => Some(constants.values()),
            None => request.parameters().map(|parameters| parameters.values),
        }
    }

    /// Whether it writes nothing: a read, or a transaction of reads.
    pub(crate) fn only_reads(&self) -> bool {
        let facts = self.analysis.plan.as_ref().map(cqlens_cql::plan::Plan::facts);
        let transaction = facts.and_then(|facts| facts.transaction);
        self.analysis.head.kind.is_read() || transaction.is_some_and(|parts| parts.updates == 0)
    }

    /// The tables that it names, and how many of its statements do.
    #[inline]
    pub(crate) fn tables(&self) -> impl Iterator<Item = (&NamedTable, u32)> {
        let tables = self.analysis.tables.iter().enumerate();
        tables.map(|(place, table)| {
            (
                table,
                self.batched.get(place).copied().unwrap_or(table.statements),
            )
        })
    }

    /// Whether an answer that does not say so by itself means that this has touched nothing.
    pub(crate) fn is_refused_by(&self, outcome: Outcome) -> bool {
        (outcome.is_server_error() && could_not_run(&self.footprint))
            || (outcome.is_turned_away() && self.is_all_or_nothing())
    }

    /// Whether it is known to touch one partition at most: then an answer says nothing more of which ones.
    #[inline]
    pub(crate) fn is_of_one(&self) -> bool {
        matches!(self.footprint.count, Count::Exact(0 | 1))
    }

    /// Whether it goes over the ring, of tables that are not the server's own.
    pub(crate) fn is_scan(&self) -> bool {
        let class = self.footprint.class();
        !self.analysis.head.system
            && matches!(
                class,
                PartitionClass::Scan | PartitionClass::TokenRange | PartitionClass::Index
            )
    }

    /// Whether an answer of `rows` rows and `bytes` bytes, with more to come, has fewer rows than its page
    /// had room for, and nothing else ends a page early but what was deleted.
    pub(crate) fn ends_short(&self, rows: u64, bytes: u64) -> bool {
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
pub(crate) struct KeyBuffer {
    pub(crate) keys: Keys,
    /// Of each key.
    tables: Vec<TableId>,
}

impl KeyBuffer {
    /// Forgets all keys and keeps the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.tables.clear();
    }

    /// Finds the ids of the keys' tables, which are the `tables` of their statement.
    #[inline]
    pub(crate) fn name_tables(&mut self, tables: &[NamedTable], ids: &mut Ids) {
        match tables {
            [only] => self.tables.resize(self.keys.len(), only.id),
            _ => self
                .tables
                .extend(self.keys.iter().map(|key| ids.table(key.table))),
        }
    }

    /// The keys with their tables.
    #[inline]
    pub(crate) fn named(&self) -> NamedKeys<'_> {
        NamedKeys(self)
    }
}

/// The keys of a [`KeyBuffer`], to be counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedKeys<'k>(&'k KeyBuffer);

impl<'k> NamedKeys<'k> {
    /// How many there are.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.0.keys.len()
    }

    /// Each with the id of its table, in the order of their first appearance.
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = (TableId, Key<'k>)> + Clone {
        self.0.tables.iter().copied().zip(self.0.keys.iter())
    }
}
