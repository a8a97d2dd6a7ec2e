//! Makes exchanges: from a request, its answer and what is known of the statement and of the ring.
//!
//! Changes nothing but its own caches and buffers: what an exchange means for those that follow is the
//! business of [`effects`](crate::audit::effects).

use std::{borrow::Cow, sync::Arc};

use cqlens_cql::syntax::cut_name;
use cqlens_proto::{
    envelope::Flags,
    message::{Batch, BatchQuery, Query, QueryParameters, QueryResult, Request, Response, Values, ValuesBuf},
};

use crate::audit::{
    HashKey, RequestKey,
    connection::{
        event::{RawExchange, ReceivedResponse},
        session::{Sender, Session},
    },
    exchange::{
        DecodedExchange, Exchange, Execution, KeyBuffer, PageSize, RareFacts, StatementNulls,
        TransactionKeys,
        answer::{Answer, size},
        outcome::{Outcome, says_not_how_far},
        replicas::ReplicaLookup,
        scanned_keys::{ScannedKeys, ScannedRows},
        written::Written,
    },
    sequence::result_columns::ResultColumns,
    statement::{
        analysis::Analysis,
        batch::{Children, batch_kind},
        cache::StatementCache,
    },
};
use crate::catalog::Live;
use cqlens_cql::footprint::{PartitionClass, Reason};
use cqlens_cql::{
    cells::Cells,
    footprint::{Count, Footprint},
    plan::{BatchSum, StatementKind},
};
use cqlens_window::PatternId;

/// What it takes to make an exchange of a request and its answer.
pub(crate) struct ExchangeBuilder {
    /// The operator's key of all hashes.
    pub(crate) key: HashKey,
    /// Text and prepared statements, analysed under the schema in force.
    pub(crate) statements: StatementCache,
    /// Where partitions are.
    pub(crate) replicas: ReplicaLookup,
    /// Filled with the partitions that the execution names, but for those that its answer excludes.
    pub(crate) keys: KeyBuffer,
    /// Filled with what the execution says of rows and of columns that have an index.
    pub(crate) cells: Cells,
    /// Filled with the partitions that the rows of a scan show.
    pub(crate) scanned_keys: ScannedKeys,
    /// The columns of rows that clients leave out.
    pub(crate) result_columns: ResultColumns,
    /// The statements of a batch.
    children: Children,
}

impl ExchangeBuilder {
    /// Nothing known yet.
    pub(crate) fn new(live: &Arc<Live>, key: HashKey) -> Self {
        Self {
            key,
            statements: StatementCache::new(Arc::clone(live)),
            replicas: ReplicaLookup::new(Arc::clone(live)),
            keys: KeyBuffer::default(),
            cells: Cells::new(key.hasher()),
            scanned_keys: ScannedKeys::new(Arc::clone(live), key),
            result_columns: ResultColumns::default(),
            children: Children::default(),
        }
    }

    /// Forgets what was found under another schema or ring; whether it did. Ids of statements and tables mean
    /// others then.
    #[inline]
    pub(crate) fn refresh(&mut self) -> bool {
        let is_old = self.statements.refresh();
        if is_old {
            self.replicas.begin_anew();
        }
        is_old
    }

    /// What is executed by a request, before its answer is known.
    #[inline(always)]
    pub(crate) fn execution(
        &mut self,
        request: &Request<'_>,
        raw: &RawExchange,
        session: &Session,
    ) -> Option<Execution> {
        self.keys.clear();
        self.cells.clear();
        let execution = match raw.is_request_cut() {
            false => self.execution_of_whole(request, raw, session),
            true => self.execution_of_head(raw, session),
        };
        if let Some(execution) = &execution {
            self.keys
                .name_tables(&execution.analysis.tables, &mut self.statements.ids);
        }
        execution
    }

    #[inline(always)]
    fn execution_of_whole(
        &mut self,
        request: &Request<'_>,
        raw: &RawExchange,
        session: &Session,
    ) -> Option<Execution> {
        Some(match request {
            Request::Execute(execute) => {
                let analysis = self.statements.of_prepared(execute.id.0);
                self.bind(analysis, execute.parameters.values, &execute.parameters, true)
            }
            Request::Query(query) => {
                let keyspace = keyspace_of(query.parameters.keyspace, raw, session);
                self.query(query, keyspace.as_deref())
            }
            Request::Batch(batch) => {
                let keyspace = keyspace_of(batch.keyspace, raw, session);
                self.batch(batch, keyspace.as_deref())
            }
            _ => return None,
        })
    }

    /// A text, whose constants may be what is bound. Out of line: what is prepared comes more often.
    #[inline(never)]
    fn query(&mut self, query: &Query<'_>, keyspace: Option<&str>) -> Execution {
        let (analysis, constants) = self.statements.of_text(query.query, keyspace);
        let sent = query.parameters.values;
        let bound = constants.as_ref().map_or(sent, ValuesBuf::values);
        let mut execution = self.bind(analysis, bound, &query.parameters, false);
        if constants.is_some() {
            execution.rare.get_or_insert_default().constants = constants;
        }
        execution
    }

    /// What is executed by a request of which only the head is there. Values that are missing may be those of
    /// the partition key.
    #[cold]
    fn execution_of_head(&mut self, raw: &RawExchange, session: &Session) -> Option<Execution> {
        let head = Request::decode_head(&raw.request, session.extensions).ok()?;
        let keyspace = match head.may_name_keyspace {
            true => None,
            false => keyspace_of(None, raw, session),
        };
        let keyspace = keyspace.as_deref();
        let mut execution = match &head.message {
            Request::Query(query) if head.is_text_whole => self.query(query, keyspace),
            Request::Query(query) => {
                let analysis = self.statements.of_cut_text(query.query);
                self.bind(analysis, query.parameters.values, &query.parameters, false)
            }
            Request::Batch(batch) => self.batch(batch, keyspace),
            message => self.execution_of_whole(message, raw, session)?,
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

    #[inline(always)]
    fn bind(
        &mut self,
        analysis: Arc<Analysis>,
        bound: Values<'_>,
        parameters: &QueryParameters<'_>,
        prepared: bool,
    ) -> Execution {
        let footprint = match &analysis.plan {
            Some(plan) => plan.footprint(&bound, &mut self.keys.keys),
            None => Footprint::unknown(analysis.unknown.unwrap_or(Reason::StatementUnknown)),
        };
        // A later page asks for nothing else than the first one.
        if parameters.paging_state.is_none() {
            analysis.note_cells(&bound, &mut self.cells);
        }
        let is_write = analysis.head.kind.is_write();
        Execution {
            rare: match analysis.head.kind {
                StatementKind::Transaction => rare_facts_of_transaction(&analysis, &bound),
                _ => rare_facts(&analysis, &bound, &parameters.values),
            },
            timestamp: match is_write {
                true => analysis
                    .timestamp
                    .and_then(|stated| stated.of(&bound))
                    .or(parameters.timestamp),
                false => None,
            },
            analysis,
            footprint,
            prepared,
            consistency: Some(parameters.consistency),
            serial_consistency: parameters.serial_consistency,
            first_page: parameters.paging_state.is_none(),
            page_size: page_size(parameters),
            batched: Vec::new(),
        }
    }

    /// A BATCH message: the distinct partitions of all its statements.
    fn batch(&mut self, batch: &Batch<'_>, keyspace: Option<&str>) -> Execution {
        let kind = batch_kind(batch.kind);
        let mut sum = BatchSum::new(kind);
        let mut refused = None;
        let mut prepared = false;
        let mut batched_nulls = Vec::new();
        let mut largest = Written::default();
        for statement in &batch.statements {
            let (analysis, constants) = match statement.query {
                BatchQuery::Text(text) => self.statements.of_text(text, keyspace),
                BatchQuery::Prepared(id) => {
                    prepared = true;
                    (self.statements.of_prepared(id.0), None)
                }
            };
            let bound = constants.as_ref().map_or(statement.values, ValuesBuf::values);
            match &analysis.plan {
                Some(plan) => {
                    refused = refused.or(sum.add(plan, Some(&bound), &mut self.keys.keys).err());
                    analysis.note_cells(&bound, &mut self.cells);
                    let written = Written::of(&analysis, &statement.values);
                    largest = largest.and(written);
                    if written.nulls != 0 {
                        batched_nulls.push((Arc::clone(&analysis), written.nulls));
                    }
                }
                None => sum.add_unknown(analysis.unknown.unwrap_or(Reason::StatementUnknown)),
            }
            self.children.add(analysis);
        }
        let footprint = refused.map_or_else(|| sum.footprint(&self.keys.keys), Err);
        let analysis = self.statements.of_batch(kind, &self.children);
        let batched = self.children.statements_by_table(&analysis);
        self.children.clear();
        Execution {
            analysis,
            footprint: footprint.unwrap_or_else(|refusal| Footprint::unknown(refusal.reason)),
            prepared,
            consistency: Some(batch.consistency),
            serial_consistency: batch.serial_consistency,
            first_page: true,
            rare: RareFacts::of_batch(batched_nulls, largest),
            timestamp: batch.timestamp,
            page_size: None,
            batched,
        }
    }

    /// What a request means with its answer.
    #[inline(always)]
    pub(crate) fn exchange<'s>(
        &mut self,
        session: &'s Session,
        sender: Sender,
        decoded: DecodedExchange<'_>,
        execution: &'s mut Option<Execution>,
    ) -> Exchange<'s> {
        let DecodedExchange { raw, request, answer } = decoded;
        let outcome = answer.outcome;
        let is_of_one = execution.as_ref().is_some_and(Execution::is_of_one);
        let refused = is_refused(execution.as_ref(), outcome);
        if let Some(execution) = execution
            && !refused
            // The answer of one partition says nothing more of which ones.
            && !(is_of_one && outcome.is_answer())
        {
            self.narrow(execution, outcome);
        }
        let execution = execution.as_ref();
        let of_several = execution.filter(|_| !is_of_one);
        let request_key = self.request_key(raw, request, execution);
        let next_page = answer
            .rows
            .and_then(|rows| rows.metadata.paging_state)
            .zip(request_key);
        Exchange {
            at: raw.requested_at,
            answered_at: answer.at.map(|at| at.max(raw.requested_at)),
            client: sender.client,
            client_name: &session.client,
            host: session.host,
            coordinator: sender.coordinator,
            cut_off: raw.cut_off,
            prepared: self.prepared(request, answer),
            request_key,
            next_page: next_page.map(|(state, request_key)| request_key.following(self.key, state)),
            token_range: of_several.and_then(|execution| token_range(request, execution)),
            scanned_rows: of_several.and_then(|execution| self.scan_rows(decoded, execution)),
            execution,
            outcome,
            refused,
            warnings: answer.warnings.len() as u64,
            traced: raw.request.header.flags.contains(Flags::TRACING),
            not_applied: execution
                .is_some_and(|execution| execution.analysis.head.kind.is_write() && answer.is_not_applied()),
            messages: answer.messages(),
            request_bytes: size(raw.request_len),
            response_bytes: answer.bytes,
        }
    }

    /// The key of what was executed; none of what drivers and tools read for themselves, which they repeat
    /// all the time.
    #[inline]
    fn request_key(
        &self,
        raw: &RawExchange,
        request: &Request<'_>,
        execution: Option<&Execution>,
    ) -> Option<RequestKey> {
        let analysis = &execution?.analysis;
        match !analysis.head.system && !raw.is_request_cut() {
            true => RequestKey::of(self.key, analysis.id, request),
            false => None,
        }
    }

    /// The pattern of the statement that was prepared.
    #[inline]
    fn prepared(&mut self, request: &Request<'_>, answer: &Answer<'_>) -> Option<PatternId> {
        match (request, answer.message?) {
            (Request::Prepare(_), Response::Result(QueryResult::Prepared(prepared))) => {
                Some(self.statements.of_prepared(prepared.id.0).id)
            }
            _ => None,
        }
    }

    /// Takes into account what the answer says of the partitions that were touched.
    #[inline(never)]
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
        // The server itself reads pages of partitions then, and sees after each page whether it needs
        // another.
        let ends_early = plan.is_some_and(|plan| plan.facts().limits_groups());
        execution.footprint = execution
            .footprint
            .of_page(execution.first_page, more || ends_early);
        if matches!(execution.footprint.count, Count::Page { first: false, .. }) {
            // In which of them it goes on only the server knows.
            self.keys.clear();
        }
    }

    /// The partitions in the rows of a scan of one table.
    #[inline(never)]
    fn scan_rows(&mut self, decoded: DecodedExchange<'_>, execution: &Execution) -> Option<ScannedRows> {
        let DecodedExchange { raw, request, answer } = decoded;
        let rows = answer.rows?;
        // Of the rows of a head some are missing.
        if matches!(raw.response, Some((ReceivedResponse::Head(_), _))) || !execution.is_scan() {
            return None;
        }
        let analysis = &execution.analysis;
        let table = &analysis.tables.first()?.name;
        let id = match request {
            Request::Execute(execute) => Some(execute.id),
            _ => None,
        };
        // An index may order by something else, such as the distance to a vector.
        let in_ring_order = execution.footprint.class() != PartitionClass::Index;
        Some(
            self.scanned_keys
                .scan(table, &analysis.head.cql, id, rows, in_ring_order),
        )
    }
}

/// Whether the server refused the request before it touched any partition.
#[inline]
fn is_refused(execution: Option<&Execution>, outcome: Outcome) -> bool {
    !outcome.is_answer()
        && (outcome.is_refused() || execution.is_some_and(|execution| execution.is_refused_by(outcome)))
}

/// The tokens between which a request reads.
fn token_range(request: &Request<'_>, execution: &Execution) -> Option<(i64, i64)> {
    if !matches!(execution.footprint.count, Count::TokenRange { .. }) {
        return None;
    }
    let plan = execution.analysis.plan.as_ref()?;
    plan.token_range(&execution.values(request)?)
}

/// What few executions have of one statement.
#[inline(always)]
fn rare_facts(analysis: &Analysis, bound: &Values<'_>, sent: &Values<'_>) -> Option<Box<RareFacts>> {
    match analysis.head.kind.is_read() {
        true => analysis.plan.as_ref()?.listed_rows(bound).map(RareFacts::of_list),
        false => rare_facts_of_write(analysis, sent),
    }
}

/// The same of a transaction: which partitions it reads, and which it writes.
#[cold]
fn rare_facts_of_transaction(analysis: &Analysis, bound: &Values<'_>) -> Option<Box<RareFacts>> {
    let mut keys = TransactionKeys::default();
    let plan = analysis.plan.as_ref()?;
    plan.transaction_footprint(Some(bound), &mut keys.read, &mut keys.written)
        .ok()??;
    Some(Box::new(RareFacts {
        transaction: Some(keys),
        ..RareFacts::default()
    }))
}

fn rare_facts_of_write(analysis: &Analysis, values: &Values<'_>) -> Option<Box<RareFacts>> {
    let plan = analysis.plan.as_ref();
    let written = Written::of(analysis, values);
    let json_nulls = plan.map(|plan| plan.json_nulls(values)).unwrap_or_default();
    if written.nulls == 0 && !written.is_large() && json_nulls.is_empty() {
        return None;
    }
    Some(Box::new(RareFacts {
        nulls: written.nulls,
        json_nulls: json_nulls
            .into_iter()
            .map(|column| cut_name(column).into())
            .collect(),
        large_value: written.large_value(),
        collection_items: written.many_items(),
        ..RareFacts::default()
    }))
}

impl RareFacts {
    /// Of a read that lists so many values of clustering columns.
    #[cold]
    fn of_list(listed_rows: u64) -> Box<Self> {
        Box::new(Self {
            listed_rows,
            ..Self::default()
        })
    }

    /// Of a batch.
    fn of_batch(batched_nulls: Vec<StatementNulls>, largest: Written) -> Option<Box<Self>> {
        let has_any = !batched_nulls.is_empty() || largest.is_large();
        has_any.then(|| {
            Box::new(Self {
                batched_nulls,
                large_value: largest.large_value(),
                collection_items: largest.many_items(),
                ..Self::default()
            })
        })
    }
}

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

/// The keyspace of unqualified names: the one that the request names, else the connection's when the request
/// came. Names are cut off here, since every statement of a batch is looked up by it, and no keyspace has one
/// as long.
pub(crate) fn keyspace_of<'k>(
    requested: Option<&'k str>,
    raw: &'k RawExchange,
    session: &'k Session,
) -> Option<Cow<'k, str>> {
    requested
        .or_else(|| session.keyspace_after(raw.keyspace_changes))
        .map(cut_name)
}
