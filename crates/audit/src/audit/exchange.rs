//! One request matched with its response, and what it means.

use std::{borrow::Cow, sync::Arc, time::Duration};

use cqlens_cql::syntax::cut_name;
use cqlens_proto::{
    envelope::{Envelope, HEADER_LEN, Opcode},
    error::DecodeError,
    message::{
        Consistency, Decoded, ErrorCode, ErrorDetails, ErrorMessage, Extensions, Failures, QueryParameters,
        QueryResult, Request, Response, Rows, Value, Values,
    },
};

use super::{
    HashKey, Identity,
    analysis::{Analyses, Analysis},
    load::Holders,
    pair::{Pair, Received},
    reads::is_scan,
    row_keys::{Looked, RowKeys},
    session::Session,
    warning::{self, TombstoneText},
};
use crate::{
    capture::Moment,
    catalog::{Live, PreparedStatement},
    window::Routed,
};
use cqlens_cql::{
    cells::Cells,
    footprint::{Count, Footprint, Keys},
};
use cqlens_cql::{
    footprint::{PartitionClass, Reason},
    plan::{Flag, Markers, StatementKind},
};

/// A request with its response.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    /// When the request's last byte came.
    pub(super) at: Moment,
    /// From the request's last byte to the response's first; none without a response, or where their times are not known.
    pub(super) latency: Option<Duration>,
    /// Who asked.
    pub(super) client: &'a Arc<str>,
    /// From where: see [`Session::host`].
    pub(super) host: u64,
    /// The node that was asked, by its place in the cluster; none where it is not known.
    pub(super) coordinator: Option<u16>,
    /// Whether that node holds the partition, where there is only one; found out when the exchange is counted.
    pub(super) routed: Option<Routed>,
    /// The connection ended before there was an answer.
    pub(super) cut_off: bool,
    /// The statement that was prepared.
    pub(super) prepared: Option<Arc<Analysis>>,
    /// What was executed; none for requests that execute nothing (OPTIONS, PREPARE, …).
    pub(super) execution: Option<Execution>,
    /// What was asked for; none where nothing was executed.
    pub(super) identity: Option<Identity>,
    /// The page that the answer offers, as the identity of the request for it has it.
    pub(super) next_page: Option<u64>,
    /// The tokens that a read covers, where it says so: above the first one, up to and with the second one.
    pub(super) token_range: Option<(i64, i64)>,
    /// What the rows of a scan show of its partitions.
    pub(super) looked: Option<Looked>,
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
        let execution = self.execution.as_ref();
        self.outcome.is_answer() && execution.is_some_and(|execution| !execution.analysis.head.system)
    }

    /// Whether the answer shows that the server ran it.
    pub(super) fn is_confirmed(&self) -> bool {
        !self.refused && !matches!(self.outcome, Outcome::Unanswered | Outcome::Failed)
    }

    /// What was executed, if it is of a kind that touches partitions and was not refused before it did.
    pub(super) fn touching(&self) -> Option<&Execution> {
        let execution = self.execution.as_ref();
        execution.filter(|execution| !self.refused && execution.analysis.touches_partitions())
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
}

/// A page of so many bytes on the wire may have ended because of its size: ScyllaDB ends one at a megabyte, and compression may make a
/// tenth of that.
const PAGE_BYTES: u64 = 64 << 10;

impl Execution {
    /// Whether an answer that does not say so by itself means that this has touched nothing.
    fn is_refused_by(&self, outcome: Outcome) -> bool {
        (outcome.is_server_error() && could_not_run(&self.footprint))
            || (outcome.is_turned_away() && self.is_all_or_nothing())
    }

    /// Whether it is known to touch one partition at most: then an answer tells nothing more of which ones.
    #[inline]
    fn is_of_one(&self) -> bool {
        matches!(self.footprint.count, Count::Exact(0 | 1))
    }

    /// Whether it goes over the ring, of tables that are not the server's own.
    fn is_scan(&self) -> bool {
        is_scan(self.footprint.class()) && !self.analysis.head.system
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

/// How much a client asks for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageSize {
    Rows(u64),
    /// DSE: as many rows as fit in a number of bytes.
    Bytes,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Without rows.
    Done,
    /// With rows.
    Rows {
        /// How many.
        count: u64,
        /// Whether another page follows.
        more: bool,
    },
    /// With an error.
    Error {
        /// The protocol's code.
        code: u32,
        /// Whether a replica gave up because of tombstones.
        too_many_tombstones: bool,
    },
    /// With an error of which nothing is known but that it was one.
    Failed,
    /// With a result that is too long to be kept, and whose head does not tell its rows.
    Unread,
    /// The connection ended first, or the response was lost to the audit.
    Unanswered,
}

impl Outcome {
    /// Whether the server has done what it was asked for.
    fn is_answer(self) -> bool {
        matches!(self, Self::Done | Self::Rows { .. } | Self::Unread)
    }

    /// Whether the server refused the statement before it touched any partition: codes 0x2000 and above (syntax,
    /// unauthorized, invalid, unprepared, …), and those below 0x1000 (protocol error, bad credentials) but 0: see
    /// [`Self::is_server_error`].
    pub(super) fn is_refused(self) -> bool {
        matches!(self, Self::Error { code: 1.., .. }) && !self.is_while_running()
    }

    /// What goes wrong where replicas are asked: unavailable, timeouts, failures, ….
    fn is_while_running(self) -> bool {
        matches!(
            self,
            Self::Error {
                code: 0x1000..0x2000,
                ..
            }
        )
    }

    /// The coordinator has not asked the replicas of a partition: unavailable, overloaded, bootstrapping. Where a request
    /// names several, it may have asked those of others before.
    fn is_turned_away(self) -> bool {
        matches!(
            self,
            Self::Error {
                code: 0x1000..=0x1002,
                ..
            }
        )
    }

    /// The server has failed, and only its log says how far it had come.
    fn is_server_error(self) -> bool {
        matches!(self, Self::Error { code: 0, .. })
    }
}

/// What interpreting needs besides the pair itself.
pub(super) struct Interpreter {
    /// The operator's key of all hashes.
    pub(super) key: HashKey,
    /// Text and prepared statements, analysed under the schema in force.
    pub(super) analyses: Analyses,
    /// Filled with the partitions that the execution names.
    pub(super) keys: Keys,
    /// Filled with what the execution tells of rows and of columns that have an index.
    pub(super) cells: Cells,
    /// Filled with the partitions that the rows of a scan show.
    pub(super) row_keys: RowKeys,
    /// Where partitions are.
    pub(super) holders: Holders,
}

/// What an exchange changes for those that follow: USE, PREPARE, definitions, rows of the schema. It changes that once, however often it is
/// interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effects {
    Apply,
    /// An earlier look at the exchange has applied them.
    Applied,
}

impl Interpreter {
    /// Nothing interpreted yet.
    pub(super) fn new(live: &Arc<Live>, key: HashKey) -> Self {
        Self {
            key,
            analyses: Analyses::new(Arc::clone(live)),
            keys: Keys::new(),
            cells: Cells::new(key.hasher()),
            row_keys: RowKeys::new(Arc::clone(live), key),
            holders: Holders::new(Arc::clone(live)),
        }
    }

    /// Says what `pair` means, whose request is decoded, and lets the session and the catalog follow (USE, PREPARE, DDL). A response that
    /// does not decode is none.
    #[inline]
    pub(super) fn interpret<'s>(
        &mut self,
        session: &'s mut Session,
        pair: &Pair,
        request: &Request<'_>,
        effects: Effects,
    ) -> Exchange<'s> {
        self.keys.clear();
        self.cells.clear();
        self.holders.refresh();
        let execution = match pair.is_request_cut() {
            false => self.execution(request, pair, session),
            true => self.execution_of_head(pair, session),
        };
        if let Some((Received::Whole(response), at)) = &pair.response
            && let Some(rows) = Response::plain_rows(response)
        {
            let answer = Answer::of_rows(&rows, size(response.body.len()), *at);
            return self.conclude(session, pair, request, effects, execution, &answer);
        }
        self.interpret_any(session, pair, request, effects, execution)
    }

    /// With an answer of any kind, or none.
    #[inline(never)]
    fn interpret_any<'s>(
        &mut self,
        session: &'s mut Session,
        pair: &Pair,
        request: &Request<'_>,
        effects: Effects,
        execution: Option<Execution>,
    ) -> Exchange<'s> {
        let Some((response, at)) = &pair.response else {
            return self.conclude(session, pair, request, effects, execution, &Answer::NONE);
        };
        let rows_are_read = execution
            .as_ref()
            .is_some_and(|execution| shows_schema(session, execution) || execution.is_scan());
        let readable = readable(response, session.extensions, rows_are_read);
        let decoded = match response {
            Received::Head(head) => Response::decode_head(&head.envelope, head.body_len, session.extensions),
            Received::Whole(_) | Received::Long(_) => Response::decode(&readable, session.extensions),
        };
        let mut answer = Answer::of(&readable, &decoded, size(response.body_len()), *at);
        if decoded.is_err() && is_result_head(response) {
            answer.outcome = Outcome::Unread;
        }
        self.conclude(session, pair, request, effects, execution, &answer)
    }

    /// What a request means with its answer.
    #[inline(always)]
    fn conclude<'s>(
        &mut self,
        session: &'s mut Session,
        pair: &Pair,
        request: &Request<'_>,
        effects: Effects,
        mut execution: Option<Execution>,
        answer: &Answer<'_>,
    ) -> Exchange<'s> {
        let outcome = answer.outcome;
        let (mut refused, mut identity, mut is_of_one) = (false, None, false);
        if let Some(execution) = &mut execution {
            is_of_one = execution.is_of_one();
            if !outcome.is_answer() || !is_of_one {
                refused = outcome.is_refused() || execution.is_refused_by(outcome);
                if outcome.is_answer() && execution.footprint.reason() == Some(Reason::PreparedIdUnknown) {
                    self.analyses.want_unknown(request);
                }
                if !refused {
                    self.narrow(execution, outcome);
                }
            }
            // What drivers and tools read for themselves is repeated all the time.
            let analysis = &execution.analysis;
            if !analysis.head.system && !pair.is_request_cut() {
                identity = Identity::of(self.key, analysis.id, request);
            }
        } else if !outcome.is_answer() {
            refused = outcome.is_refused();
        }
        let (mut next_page, mut looked, mut prepared, mut token_range) = (None, None, None, None);
        if let Some(rows) = answer.rows {
            // Of the rows of a head some are missing.
            let is_whole = !matches!(pair.response, Some((Received::Head(_), _)));
            if let (Some(execution), true) = (&execution, is_whole) {
                if effects == Effects::Apply && shows_schema(session, execution) {
                    self.analyses.see_rows(rows);
                }
                if !is_of_one {
                    looked = self.look(request, execution, rows);
                }
            }
            if let (Some(identity), Some(state)) = (identity, rows.metadata.paging_state) {
                next_page = Some(identity.following(self.key, state));
            }
        } else if let Some(response) = answer.message {
            if effects == Effects::Apply && (!pair.is_request_cut() || is_keyspace(response)) {
                self.follow(request, pair, response, session);
            }
            if let (Request::Prepare(_), Response::Result(QueryResult::Prepared(answer))) =
                (request, response)
            {
                prepared = Some(self.analyses.of_prepared(answer.id.0));
            }
        }
        if let (Some(execution), false) = (&execution, is_of_one) {
            token_range = self::token_range(request, execution);
        }
        Exchange {
            at: pair.requested_at,
            latency: answer.at.map(|at| at.since(pair.requested_at)),
            client: &session.client,
            host: session.host,
            coordinator: session.coordinator.node(&self.holders),
            routed: None,
            cut_off: pair.cut_off,
            prepared,
            execution,
            identity,
            next_page,
            token_range,
            looked,
            outcome,
            refused,
            warnings: answer.warnings.len() as u64,
            tombstones: answer.tombstones(),
            request_bytes: size(pair.request_len),
            response_bytes: answer.bytes,
        }
    }

    /// Takes into account what the answer says of the partitions that were touched.
    fn narrow(&mut self, execution: &mut Execution, outcome: Outcome) {
        if !outcome.is_answer()
            && let Some(reason) = says_not_how_far(outcome, &execution.footprint)
        {
            execution.footprint = Footprint::unknown(reason);
            self.keys.clear();
        }
        // All pages of a read of one partition are of that one.
        if execution.footprint.class() != PartitionClass::Multi {
            return;
        }
        let more = matches!(outcome, Outcome::Rows { more: true, .. });
        let plan = execution.analysis.plan.as_ref();
        // The server itself reads pages of partitions then, and sees after each page whether it needs another.
        let ends_early = plan.is_some_and(|plan| plan.facts().limits_groups());
        execution.footprint = execution
            .footprint
            .of_page(execution.first_page, more || ends_early);
        if matches!(execution.footprint.count, Count::Page { first: false, .. }) {
            // In which of them it goes on only the server knows.
            self.keys.clear();
        }
    }

    #[inline]
    fn execution(&mut self, request: &Request<'_>, pair: &Pair, session: &Session) -> Option<Execution> {
        let (analysis, parameters, prepared) = match request {
            Request::Execute(execute) => {
                let analysis = self.analyses.of_prepared(execute.id.0);
                (analysis, &execute.parameters, true)
            }
            Request::Query(query) => {
                let keyspace = keyspace_of(query.parameters.keyspace, pair, session);
                let analysis = self.analyses.of_text(query.query, keyspace.as_deref());
                (analysis, &query.parameters, false)
            }
            Request::Batch(batch) => {
                let keyspace = keyspace_of(batch.keyspace, pair, session);
                let (keys, cells) = (&mut self.keys, &mut self.cells);
                return Some(self.analyses.batch(batch, keyspace.as_deref(), keys, cells));
            }
            _ => return None,
        };
        Some(self.bind(analysis, parameters, prepared))
    }

    /// What is executed by a request of which only the head is there. Values that are missing may be those of the partition key.
    #[cold]
    fn execution_of_head(&mut self, pair: &Pair, session: &Session) -> Option<Execution> {
        let head = Request::decode_head(&pair.request, session.extensions).ok()?;
        let keyspace = match head.may_name_keyspace {
            true => None,
            false => keyspace_of(None, pair, session),
        };
        let keyspace = keyspace.as_deref();
        let mut execution = match &head.message {
            Request::Query(query) => {
                let analysis = match head.is_text_whole {
                    true => self.analyses.of_text(query.query, keyspace),
                    false => self.analyses.of_cut_text(query.query),
                };
                self.bind(analysis, &query.parameters, false)
            }
            Request::Batch(batch) => {
                let (keys, cells) = (&mut self.keys, &mut self.cells);
                self.analyses.batch(batch, keyspace, keys, cells)
            }
            message => self.execution(message, pair, session)?,
        };
        self.cells.clear();
        // Behind a text, and behind the statements of a batch.
        let is_batch = matches!(head.message, Request::Batch(_));
        execution.consistency = execution.consistency.filter(|_| head.is_text_whole && !is_batch);
        let count = execution.footprint.count;
        let is_missing = match count {
            Count::Unknown(reason) => matches!(reason, Reason::Unbound | Reason::ValueUndecodable),
            // Others may follow.
            _ => is_batch,
        };
        if is_missing {
            execution.footprint = Footprint::unknown(Reason::RequestCut);
            self.keys.clear();
        }
        Some(execution)
    }

    /// The partitions in the rows of a scan of one table.
    fn look(&mut self, request: &Request<'_>, execution: &Execution, rows: &Rows<'_>) -> Option<Looked> {
        if !execution.is_scan() {
            return None;
        }
        let analysis = &execution.analysis;
        let (table, _) = analysis.tables.first()?;
        let id = match request {
            Request::Execute(execute) => Some(execute.id),
            _ => None,
        };
        // An index may order by something else, such as the distance to a vector.
        let in_ring_order = execution.footprint.class() != PartitionClass::Index;
        Some(
            self.row_keys
                .look(table, &analysis.head.cql, id, rows, in_ring_order),
        )
    }

    #[inline]
    fn bind(
        &mut self,
        analysis: Arc<Analysis>,
        parameters: &QueryParameters<'_>,
        prepared: bool,
    ) -> Execution {
        let footprint = match &analysis.plan {
            Some(plan) => plan.footprint(&parameters.values, &mut self.keys),
            None => Footprint::unknown(analysis.unknown.unwrap_or(Reason::StatementUnknown)),
        };
        // A later page asks for nothing else than the first one.
        if parameters.paging_state.is_none() {
            analysis.note_cells(&parameters.values, &mut self.cells);
        }
        let nulls = match analysis.head.kind {
            StatementKind::Insert | StatementKind::Update => nulls(&parameters.values),
            _ => 0,
        };
        Execution {
            analysis,
            footprint,
            nulls,
            prepared,
            consistency: Some(parameters.consistency),
            first_page: parameters.paging_state.is_none(),
            page_size: page_size(parameters),
        }
    }

    /// What a response changes for the statements that follow.
    fn follow(&mut self, request: &Request<'_>, pair: &Pair, response: &Response<'_>, session: &mut Session) {
        match (request, response) {
            (_, Response::Result(QueryResult::SetKeyspace { keyspace })) => {
                session.use_keyspace(keyspace);
            }
            (Request::Prepare(prepare), Response::Result(QueryResult::Prepared(prepared))) => {
                let known = PreparedStatement {
                    cql: prepare.query.into(),
                    keyspace: keyspace_of(prepare.keyspace, pair, session).map(Into::into),
                    markers: Some(Markers::of(&prepared.bind)),
                };
                self.row_keys.prepared(prepare.query, prepared);
                self.analyses.prepared(prepared.id.0, known);
            }
            (Request::Query(query), Response::Result(QueryResult::SchemaChange(_))) => {
                let keyspace = keyspace_of(query.parameters.keyspace, pair, session);
                self.analyses.defined(query.query, keyspace.as_deref());
            }
            (Request::Execute(execute), Response::Result(QueryResult::SchemaChange(_))) => {
                self.analyses.defined_by_prepared(execute.id.0);
            }
            _ => {}
        }
    }
}

/// Whether this is the head of a result: an answer, whatever else it may not tell.
fn is_result_head(response: &Received) -> bool {
    matches!(response, Received::Head(head) if head.envelope.header.opcode == Opcode::RESULT)
}

/// Whether the connection has another keyspace from now on.
fn is_keyspace(response: &Response<'_>) -> bool {
    matches!(response, Response::Result(QueryResult::SetKeyspace { .. }))
}

/// Whether the rows may be the schema's, and nobody else reads that.
fn shows_schema(session: &Session, execution: &Execution) -> bool {
    session.is_recorded && execution.analysis.head.system
}

/// Why the partitions that a request names are not those that it touches: it has failed somewhere among them.
fn says_not_how_far(outcome: Outcome, footprint: &Footprint) -> Option<Reason> {
    if outcome.is_server_error() {
        return Some(Reason::ServerError);
    }
    if outcome == Outcome::Failed {
        return Some(Reason::ErrorUnseen);
    }
    (outcome.is_turned_away() && footprint.number().is_some()).then_some(Reason::TurnedAway)
}

/// Whether a coordinator that cannot ask the replicas of one partition has asked none at all. A condition may have been read,
/// and proposed, with another consistency level than the one that fails.
pub(super) fn is_all_or_nothing(footprint: &Footprint, conditional: bool) -> bool {
    matches!(footprint.count, Count::Exact(0 | 1)) && !conditional
}

/// Whether nothing can be executed with what is bound: of values of wrong lengths Cassandra says so by a server error.
fn could_not_run(footprint: &Footprint) -> bool {
    matches!(
        footprint.count,
        Count::Unknown(
            Reason::InvalidKey | Reason::ValueUndecodable | Reason::InvalidStatement | Reason::Unbound
        )
    )
}

/// The tokens between which a request reads.
fn token_range(request: &Request<'_>, execution: &Execution) -> Option<(i64, i64)> {
    if !matches!(execution.footprint.count, Count::TokenRange { .. }) {
        return None;
    }
    let parameters = match request {
        Request::Query(query) => &query.parameters,
        Request::Execute(execute) => &execute.parameters,
        _ => return None,
    };
    let plan = execution.analysis.plan.as_ref()?;
    plan.token_range(&parameters.values)
}

/// As much of a response as is needed: all of it if its rows are read.
fn readable(response: &Received, extensions: Extensions, rows_are_read: bool) -> Cow<'_, Envelope> {
    match response {
        Received::Whole(envelope) => Cow::Borrowed(envelope),
        Received::Head(head) => Cow::Borrowed(&head.envelope),
        Received::Long(long) => {
            let head = long.head();
            // The head may end before the metadata does.
            let is_enough = !rows_are_read && Response::decode(&head, extensions).is_ok();
            Cow::Owned(if is_enough { head } else { long.join() })
        }
    }
}

/// What came back.
struct Answer<'a> {
    /// When its first byte came.
    at: Option<Moment>,
    /// Size of its envelope, uncompressed.
    bytes: Option<u64>,
    warnings: &'a [&'a str],
    rows: Option<&'a Rows<'a>>,
    /// What is no rows; none where it could not be decoded.
    message: Option<&'a Response<'a>>,
    outcome: Outcome,
}

impl<'a> Answer<'a> {
    /// Nothing.
    const NONE: Self = Self {
        at: None,
        bytes: None,
        warnings: &[],
        rows: None,
        message: None,
        outcome: Outcome::Unanswered,
    };

    /// Rows and nothing else, in an envelope of so many bytes.
    #[inline]
    fn of_rows(rows: &'a Rows<'a>, bytes: u64, at: Option<Moment>) -> Self {
        Self {
            at,
            bytes: Some(bytes),
            rows: Some(rows),
            outcome: Outcome::Rows {
                count: rows.len() as u64,
                more: rows.metadata.paging_state.is_some(),
            },
            ..Self::NONE
        }
    }

    /// The response in `envelope`, decoded as far as it could be, of so many bytes.
    fn of(
        envelope: &Envelope,
        decoded: &'a Result<Decoded<'a, Response<'a>>, DecodeError>,
        bytes: u64,
        at: Option<Moment>,
    ) -> Self {
        match decoded {
            Ok(Decoded { extras, message }) => {
                let warnings = extras.warnings.as_slice();
                match message {
                    Response::Result(QueryResult::Rows(rows)) => Self {
                        warnings,
                        ..Self::of_rows(rows, bytes, at)
                    },
                    message => Self {
                        at,
                        bytes: Some(bytes),
                        warnings,
                        outcome: outcome(message),
                        message: Some(message),
                        ..Self::NONE
                    },
                }
            }
            Err(error) => Self {
                at,
                bytes: Some(bytes),
                outcome: undecoded(envelope, error),
                ..Self::NONE
            },
        }
    }

    #[inline]
    fn tombstones(&self) -> Vec<TombstoneText> {
        let error = match self.message {
            Some(Response::Error(error)) => Some(error.message),
            _ => None,
        };
        // Most say nothing.
        if self.warnings.is_empty() && error.is_none() {
            return Vec::new();
        }
        tombstones(self.warnings, error)
    }
}

/// What warnings and the text of an error say of tombstones.
#[inline(never)]
fn tombstones(warnings: &[&str], error: Option<&str>) -> Vec<TombstoneText> {
    let texts = warnings.iter().copied().chain(error);
    texts.filter_map(warning::tombstones).collect()
}

/// How an exchange with this answer, which is no rows, ended.
fn outcome(answer: &Response<'_>) -> Outcome {
    match answer {
        Response::Error(error) => Outcome::Error {
            code: u32::try_from(error.code.0).unwrap_or(0),
            too_many_tombstones: too_many_tombstones(error),
        },
        _ => Outcome::Done,
    }
}

/// How an exchange ended whose answer could not be decoded.
#[cold]
fn undecoded(envelope: &Envelope, error: &DecodeError) -> Outcome {
    tracing::debug!(%error, "a response could not be decoded");
    match envelope.header.opcode {
        Opcode::ERROR => failure(envelope),
        _ => Outcome::Unanswered,
    }
}

/// What an error says that is not there as a whole: its code, if that is.
fn failure(error: &Envelope) -> Outcome {
    let code = ErrorCode::of_begun(&error.header, &error.body);
    match code.and_then(|code| u32::try_from(code.0).ok()) {
        Some(code) => Outcome::Error {
            code,
            too_many_tombstones: false,
        },
        None => Outcome::Failed,
    }
}

/// READ_FAILURE with `READ_TOO_MANY_TOMBSTONES`: as a reason code from version 5 on, in the text before.
fn too_many_tombstones(error: &ErrorMessage<'_>) -> bool {
    const READ_TOO_MANY_TOMBSTONES: u16 = 1;
    if error.code != ErrorCode::READ_FAILURE {
        return false;
    }
    match &error.details {
        ErrorDetails::ReadFailure {
            failures: Failures::Reasons(reasons),
            ..
        } => reasons
            .iter()
            .any(|(_, reason)| reason.0 == READ_TOO_MANY_TOMBSTONES),
        _ => warning::names_too_many_tombstones(error.message),
    }
}

/// Which of the first 64 values are null, a bit for each. Values with names stand in an order of their own: none of them.
fn nulls(values: &Values<'_>) -> u64 {
    if values.is_named() {
        return 0;
    }
    let first = values.iter().take(64).enumerate();
    first.fold(0, |nulls, (at, (_, value))| {
        nulls | (u64::from(value == Value::Null) << at)
    })
}

/// Of an envelope, in bytes.
/// Cassandra takes a size of zero or less for none.
#[inline]
fn page_size(parameters: &QueryParameters<'_>) -> Option<PageSize> {
    let size = parameters.page_size.and_then(|size| u64::try_from(size).ok());
    let size = size.filter(|&size| size > 0)?;
    Some(match parameters.page_size_in_bytes {
        true => PageSize::Bytes,
        false => PageSize::Rows(size),
    })
}

fn size(body_len: usize) -> u64 {
    (HEADER_LEN + body_len) as u64
}

/// The keyspace of unqualified names: the one that the request names, else the connection's when the request came. Names are cut off here,
/// since every statement of a batch is looked up by it, and no keyspace has one as long.
fn keyspace_of<'k>(requested: Option<&'k str>, pair: &'k Pair, session: &'k Session) -> Option<Cow<'k, str>> {
    requested.or_else(|| pair.keyspace(session)).map(cut_name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;
    use cqlens_proto::envelope::Header;

    use super::*;
    use crate::{
        audit::{
            ClientAddresses,
            testing::{query_on, result, set_keyspace},
        },
        capture::{Connection, ConnectionId},
    };

    fn error(code: u32) -> Outcome {
        Outcome::Error {
            code,
            too_many_tombstones: false,
        }
    }

    #[test]
    fn effects_come_once_however_often_an_exchange_is_looked_at() {
        let live = Arc::new(Live::default());
        let mut interpreter = Interpreter::new(&live, HashKey::random());
        let connection = Connection::new(ConnectionId(0), "10.0.0.1:40000".parse().unwrap());
        let mut session = Session::new(&connection, ClientAddresses::default());
        let envelope = |bytes: Bytes| Envelope {
            header: Header::decode_from(&bytes).unwrap(),
            body: bytes.slice(HEADER_LEN..),
        };
        let query = |cql| envelope(query_on(1, cql, Consistency::One));
        let answer = |answer| Some((Received::Whole(envelope(answer)), None));
        let change = "\0\0\0\x05\0\x07CREATED\0\x08KEYSPACE\0\x03one";
        for (cql, answered) in [
            ("USE one", set_keyspace(1, "one")),
            (
                "CREATE KEYSPACE one WITH replication = {'class': 'LocalStrategy'}",
                result(1, change.as_bytes()),
            ),
        ] {
            let request = query(cql);
            let pair = Pair {
                request_len: request.body.len(),
                request,
                requested_at: Moment::from_unix_nanoseconds(0),
                response: answer(answered),
                keyspace_changes: 0,
                cut_off: false,
            };
            let before = (live.version(), session.keyspace_changes());
            let request = Request::decode_message(&pair.request, Extensions::NONE).unwrap();
            let mut look = |effects| {
                interpreter.interpret(&mut session, &pair, &request, effects);
                (live.version() - before.0, session.keyspace_changes() - before.1)
            };
            let first = look(Effects::Apply);
            assert_ne!(first, (0, 0), "{cql}");
            assert_eq!(look(Effects::Applied), first, "{cql}");
        }
    }

    #[test]
    fn what_is_refused_touches_nothing_and_a_server_error_may_have() {
        // Syntax error, invalid, unprepared, protocol error.
        for code in [0x2000, 0x2200, 0x2500, 0x000a] {
            assert!(error(code).is_refused(), "{code:#x}");
        }
        // Server error, unavailable, read timeout, function failure.
        for code in [0, 0x1000, 0x1200, 0x1400] {
            assert!(!error(code).is_refused(), "{code:#x}");
        }
        assert!(error(0).is_server_error() && !error(0x1200).is_server_error());
    }

    #[test]
    fn what_is_turned_away_has_not_touched_its_only_partition_and_of_several_nobody_knows() {
        // Unavailable, overloaded, bootstrapping.
        for outcome in [0x1000, 0x1001, 0x1002].map(error) {
            assert!(outcome.is_turned_away(), "{outcome:?}");
            let several = says_not_how_far(outcome, &Footprint::exact(2));
            assert_eq!(several, Some(Reason::TurnedAway));
            let index = Footprint {
                count: Count::Index,
                keys_missing: None,
            };
            assert_eq!(says_not_how_far(outcome, &index), None);
        }
        assert!(is_all_or_nothing(&Footprint::exact(1), false));
        assert!(!is_all_or_nothing(&Footprint::exact(1), true), "a condition");
        assert!(!is_all_or_nothing(&Footprint::exact(2), false));
        // Replicas that fail or are late have been asked.
        for outcome in [0x1100, 0x1200, 0x1500].map(error) {
            assert!(!outcome.is_turned_away(), "{outcome:?}");
            assert_eq!(says_not_how_far(outcome, &Footprint::exact(2)), None);
        }
    }
}
