//! Reads that cqlens sends again, with tracing: what a read passes on its way, only the server knows.
//!
//! The client's own request is never touched. Of the reads that pass between two samples, the one is taken
//! whose pattern was taken least, so that seldom reads have their turn too.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use cqlens_proto::{
    envelope::Envelope,
    message::{Consistency, Extensions, Query, QueryParameters, Request},
};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;

use crate::audit::{
    connection::{event::RawExchange, session::Session},
    exchange::{Exchange, outcome::Outcome},
    statement::analysis::Analysis,
};
use crate::catalog::Live;
use cqlens_capture::Moment;
use cqlens_cql::plan::{Flag, StatementKind};
use cqlens_window::PatternId;

/// A read as a client has sent it, values included: never shown, never kept for longer than until it was sent
/// again.
#[derive(Clone)]
pub struct TraceSample {
    analysis: Arc<Analysis>,
    request: Envelope,
    extensions: Extensions,
    /// The text of a prepared statement; a QUERY has its own.
    text: Option<Arc<str>>,
    keyspace: Option<Arc<str>>,
}

/// Longer requests are not taken.
const MAX_REQUEST: usize = 64 << 10;

/// Rows of the page where the client wanted more, or all.
const MAX_PAGE: i32 = 5_000;

impl TraceSample {
    /// The keyspace of unqualified names.
    pub fn keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref()
    }

    /// The first page of the same read with the same values and consistency level; none for what cannot be
    /// sent like this.
    pub fn query(&self) -> Option<Query<'_>> {
        let request = Request::decode(&self.request, self.extensions).ok()?.message;
        let (query, asked) = match request {
            Request::Query(query) => (query.query, query.parameters),
            Request::Execute(execute) => (self.text.as_deref()?, execute.parameters),
            _ => return None,
        };
        let page_size = asked.page_size.filter(|size| (1..=MAX_PAGE).contains(size));
        let parameters = QueryParameters {
            values: asked.values,
            page_size: Some(page_size.unwrap_or(MAX_PAGE)),
            ..QueryParameters::new(asked.consistency)
        };
        Some(Query { query, parameters })
    }
}

impl fmt::Debug for TraceSample {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TraceSample({})", self.analysis.id)
    }
}

/// Chooses.
#[derive(Debug)]
pub(crate) struct TraceSampler {
    every: Duration,
    /// When the last one was handed over.
    since: Option<Moment>,
    next: Option<TraceSample>,
    /// How often a pattern was taken. Bounded: begins anew when it is full.
    taken: FxHashMap<PatternId, u64>,
    out: mpsc::Sender<TraceSample>,
}

/// Patterns whose turns are counted.
const MAX_TAKEN: usize = 20_000;

/// Samples that wait to be sent again; while they do, nothing more is taken.
const MAX_WAITING: usize = 4;

impl TraceSampler {
    /// Hands a read over each time that `every` has passed and there is one.
    pub(crate) fn new(every: Duration) -> (Self, mpsc::Receiver<TraceSample>) {
        let (out, samples) = mpsc::channel(MAX_WAITING);
        let sampler = Self {
            every,
            since: None,
            next: None,
            taken: FxHashMap::default(),
            out,
        };
        (sampler, samples)
    }

    /// The statement of an exchange that comes before the one that would be taken so far.
    pub(crate) fn prefers(&self, exchange: &Exchange<'_>) -> Option<Arc<Analysis>> {
        let analysis = repeatable(exchange).filter(|_| !self.out.is_closed())?;
        let times = |id| self.taken.get(&id).copied().unwrap_or(0);
        let is_better = |next: &TraceSample| times(analysis.id) < times(next.analysis.id);
        self.next
            .as_ref()
            .is_none_or(is_better)
            .then(|| Arc::clone(analysis))
    }

    /// Takes a read that was preferred.
    pub(crate) fn take(
        &mut self,
        analysis: Arc<Analysis>,
        raw: &RawExchange,
        session: &Session,
        live: &Live,
    ) {
        let request = &raw.request;
        let Ok(decoded) = Request::decode(request, session.extensions) else {
            return;
        };
        let (text, keyspace) = match &decoded.message {
            Request::Query(query) => {
                let keyspace = query
                    .parameters
                    .keyspace
                    .or_else(|| session.keyspace_after(raw.keyspace_changes));
                (None, keyspace.map(Arc::from))
            }
            Request::Execute(execute) => {
                let Some(statement) = live.prepared.get(execute.id.0) else {
                    return;
                };
                (Some(Arc::clone(&statement.cql)), statement.keyspace.clone())
            }
            _ => return,
        };
        if request.body.len() > MAX_REQUEST {
            return;
        }
        self.next = Some(TraceSample {
            analysis,
            // The data path's memory is not kept.
            request: Envelope {
                header: request.header,
                body: Bytes::copy_from_slice(&request.body),
            },
            extensions: session.extensions,
            text,
            keyspace,
        });
    }

    /// Hands over what was taken, if it is time.
    pub(crate) fn hand_over(&mut self, now: Moment) {
        if self.since.is_some_and(|since| now.since(since) < self.every) {
            return;
        }
        let Some(sample) = self.next.take() else { return };
        let id = sample.analysis.id;
        if self.out.try_send(sample).is_ok() {
            if self.taken.len() >= MAX_TAKEN {
                self.taken.clear();
            }
            *self.taken.entry(id).or_default() += 1;
        }
        self.since = Some(now);
    }
}

/// The statement, if it may be sent again: a read of a client's own tables that was answered, without what
/// writes (the paxos rounds of serial reads), from its beginning.
fn repeatable<'e>(exchange: &'e Exchange<'_>) -> Option<&'e Arc<Analysis>> {
    let execution = exchange.execution?;
    let analysis = &execution.analysis;
    let is_serial = matches!(
        execution.consistency,
        None | Some(Consistency::Serial | Consistency::LocalSerial)
    );
    let may = analysis.head.kind == StatementKind::Select
        && !analysis.head.system
        && !analysis.flags.contains(&Flag::Lwt)
        && !is_serial
        && execution.first_page
        && matches!(exchange.outcome, Outcome::Rows { .. });
    may.then_some(analysis)
}

impl TraceSample {
    /// Its statement.
    pub(crate) fn analysis(&self) -> &Analysis {
        &self.analysis
    }
}
