//! The way of an exchange through the audit: its request is decoded and planned, its answer read; its effects
//! are applied, once; it is built, and counted.

use std::{collections::VecDeque, sync::Arc};

use cqlens_proto::{
    compress::Compression,
    envelope::Opcode,
    message::{Request, Response, Rows, Startup},
};

use crate::audit::{
    HashKey, Watch,
    connection::{
        event::{ConnectionEvent, MissingRequests, RawExchange, ReceivedResponse},
        session::Session,
    },
    count::{WindowRecorder, cells, repeated_values::RepeatedColumns},
    effects,
    exchange::{
        DecodedExchange, Exchange,
        answer::{self, Answer},
        builder::ExchangeBuilder,
        deferred::{self, Deferred, DeferredExchange},
    },
    observe::{ObservedExchange, Observer},
    open_window::OpenWindow,
    sequence::{SequenceRecorder, SourceLimit},
    statement::ids::ClientIds,
};
use crate::catalog::Live;
use cqlens_capture::{Clock, Encryption, Moment, memory::Use};
use cqlens_window::Coverage;

/// All that the auditor keeps beside connections and the window.
pub(crate) struct Pipeline {
    live: Arc<Live>,
    watch: Watch,
    observer: Observer,
    sources: SourceLimit,
    /// For what waits; exchanges have the data path's times.
    pub(crate) clock: Clock,
    clients: ClientIds,
    builder: ExchangeBuilder,
    recorder: WindowRecorder,
    repeated: RepeatedColumns,
    sequences: SequenceRecorder,
    pub(crate) deferred: Deferred,
}

/// Whether an exchange is interpreted for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    First,
    /// It was not clear before. What it changes for others was applied then.
    Again,
}

impl Pipeline {
    pub(crate) fn new(
        live: Arc<Live>,
        key: HashKey,
        watch: Watch,
        observer: Observer,
        sources: SourceLimit,
    ) -> Self {
        let clock = Clock::start();
        Self {
            clock,
            clients: ClientIds::default(),
            builder: ExchangeBuilder::new(&live, key),
            recorder: WindowRecorder::new(key),
            repeated: RepeatedColumns::default(),
            sequences: SequenceRecorder::new(&live, key, sources),
            deferred: Deferred::within(live.memory().part(Use::Deferred)),
            live,
            watch,
            observer,
            sources,
        }
    }

    /// Forgets everything but the exchanges that wait, and the ids that connections have.
    pub(crate) fn begin_anew(&mut self, open: &mut OpenWindow) {
        let (live, watch) = (Arc::clone(&self.live), self.watch.clone());
        let observer = self.observer.clone();
        let fresh = Self::new(live, self.builder.key, watch, observer, self.sources);
        let before = std::mem::replace(self, fresh);
        self.deferred = before.deferred;
        self.clients = before.clients;
        // They wait since a moment of that clock.
        self.clock = before.clock;
        open.forget_ids();
    }

    /// Counts what was found, but for what [`Pipeline::settle`] counts.
    pub(crate) fn count(&mut self, open: &mut OpenWindow, session: &mut Session, found: ConnectionEvent) {
        let coverage = &mut open.window.coverage;
        match &found {
            ConnectionEvent::Exchange(raw) => {
                let waits = self.count_pair(open, session, raw);
                if waits && let ConnectionEvent::Exchange(raw) = found {
                    self.deferred.push(session, raw, self.clock.now());
                }
            }
            ConnectionEvent::UndecodedRequest => {
                coverage.undecoded += 1;
                self.observer.miss(1);
            }
            ConnectionEvent::MissingRequests(missing) => {
                count_missing(coverage, missing);
                self.observer.miss(missing.requests);
            }
            ConnectionEvent::LostResponse => coverage.responses_lost += 1,
        }
    }

    /// Counts what is left of what was found so far, before the window is taken.
    pub(crate) fn settle(&mut self, open: &mut OpenWindow) {
        self.recorder.settle(&mut open.window);
        self.sequences.settle(&mut open.window);
        open.publish();
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, open: &mut OpenWindow) {
        self.recorder.end(&mut open.window);
        self.sequences.end(&mut open.window);
    }

    /// Counts a raw; not if the catalog will know more in a moment, and it may wait for that.
    fn count_pair(&mut self, open: &mut OpenWindow, session: &mut Session, raw: &RawExchange) -> bool {
        self.watch.see(&raw.request);
        let is_followed = self.live.is_followed();
        self.count_exchange(open, session, raw, Pass::First, is_followed)
    }

    /// What was put off and may be clear by now.
    pub(crate) fn take_deferred(&mut self, now: Moment) -> VecDeque<DeferredExchange> {
        self.deferred.take(now, self.live.learned())
    }

    pub(crate) fn count_again(&mut self, open: &mut OpenWindow, mut deferred: DeferredExchange, now: Moment) {
        let may_wait = !deferred.is_due(now);
        let DeferredExchange { session, raw, .. } = &mut deferred;
        let unclear = self.count_exchange(open, session, raw, Pass::Again, may_wait);
        self.settle(open);
        if unclear {
            self.deferred.keep(deferred);
        }
    }

    /// Counts an exchange, unless it `may_wait` and the catalog may say more of it later; whether it waits.
    fn count_exchange(
        &mut self,
        open: &mut OpenWindow,
        session: &mut Session,
        raw: &RawExchange,
        pass: Pass,
        may_wait: bool,
    ) -> bool {
        let request = match raw.is_request_cut() {
            false => Request::decode_message(&raw.request, session.extensions),
            true => Request::decode_head(&raw.request, session.extensions).map(|head| head.message),
        };
        let request = match &request {
            Ok(request) => request,
            Err(error) => {
                tracing::debug!(%error, "a request could not be decoded");
                open.window.coverage.undecoded += 1;
                self.observer.miss(1);
                return false;
            }
        };
        if is_before_startup(session, raw) {
            count_before_startup(open, session, raw);
            return false;
        }
        if is_ambiguous(session, raw) {
            tracing::debug!("nothing shows yet how a prepared statement is laid out");
            open.window.coverage.undecoded += 1;
            self.observer.miss(1);
            return false;
        }
        if self.builder.refresh() {
            self.forget_ids(open);
        }
        let mut execution = self.builder.execution(request, raw, session);
        let is_observed = self.observer.at_work().is_some();
        let plain = plain_rows(raw);
        let (readable, response_decoded);
        let answer = match (&plain, &raw.response) {
            (_, None) => Answer::NONE,
            (Some(rows), Some((response, at))) => {
                Answer::of_rows(rows, answer::size(response.body_len()), *at)
            }
            (None, Some((response, at))) => {
                let are_rows_read = execution.as_ref().is_some_and(|execution| {
                    is_observed || effects::may_show_schema(session, execution) || execution.is_scan()
                });
                readable = answer::readable(response, session.extensions, are_rows_read);
                response_decoded = answer::decode(response, &readable, session.extensions);
                Answer::of(&response_decoded, response, *at)
            }
        };
        if pass == Pass::First && effects::learn_keyspace(session, raw, execution.as_ref(), &answer) {
            execution = self.builder.execution(request, raw, session);
        }
        let decoded = DecodedExchange {
            raw,
            request,
            answer: &answer,
        };
        if pass == Pass::First {
            effects::apply(
                &self.live,
                &mut self.builder,
                session,
                decoded,
                execution.as_ref(),
            );
        }
        if let (Request::Startup(startup), true) = (request, answer.outcome.is_answer()) {
            count_connection(open, session, raw, startup);
        }
        let sender = session.sender(&mut self.clients, &self.builder.replicas);
        let session = &*session;
        let exchange = self.builder.exchange(session, sender, decoded, &mut execution);
        if may_wait
            && deferred::may_become_clear(&exchange)
            && (pass == Pass::Again || self.deferred.has_room_for(raw))
        {
            return true;
        }
        if let Some(observe) = self.observer.at_work() {
            let prepared = &self.live.prepared;
            observe.see(&ObservedExchange::of(&exchange, decoded, session, prepared));
        }
        self.record(open, &exchange, raw, session);
        let keys = self.builder.keys.named();
        let columns = &self.builder.result_columns;
        self.sequences
            .record(&mut open.window, &exchange, decoded, keys, session.actor, columns);
        false
    }

    /// Ids of statements and tables mean others from now on.
    #[cold]
    fn forget_ids(&mut self, open: &mut OpenWindow) {
        open.forget_ids();
        self.recorder.forget_ids();
        self.sequences.forget_ids();
    }

    /// Counts an exchange in the window.
    #[inline]
    fn record(
        &mut self,
        open: &mut OpenWindow,
        exchange: &Exchange<'_>,
        raw: &RawExchange,
        session: &Session,
    ) {
        open.keep_room();
        let OpenWindow {
            window,
            nodes,
            clients,
            tables,
            refusals,
            sampler,
            ..
        } = open;
        let builder = &mut self.builder;
        let routed = nodes.count(
            &mut window.load,
            exchange,
            builder.keys.named(),
            &mut builder.replicas,
        );
        let seen = builder.scanned_keys.hashes();
        self.recorder
            .record(window, tables, exchange, routed, builder.keys.named(), seen);
        // A name that the server has not accepted yet is not a client's.
        if !session.is_only_claimed() {
            clients.count(window, exchange);
        }
        if exchange.outcome.is_refused() {
            refusals.refuse(exchange.client_name, exchange.at);
        } else if !refusals.is_empty() && exchange.is_granted() {
            refusals.grant(exchange.client_name);
        }
        if !exchange.refused {
            cells::count(&builder.cells, exchange.at, window, tables, &mut self.repeated);
        }
        if let (Some(sampler), false) = (sampler, raw.is_request_cut()) {
            if let Some(analysis) = sampler.prefers(exchange) {
                sampler.take(analysis, raw, session, &self.live);
            }
            sampler.hand_over(exchange.at);
        }
    }
}

/// Counts a connection that the server has taken.
#[cold]
fn count_connection(open: &mut OpenWindow, session: &Session, raw: &RawExchange, startup: &Startup<'_>) {
    let version = raw.request.header.version;
    let is_compressed = startup.compression(version) != Compression::None;
    let connections = open.window.connections_mut(&session.client);
    connections.open(version.number(), is_compressed);
    match session.connection.encryption() {
        Some(Encryption::Here) => connections.tls += 1,
        Some(Encryption::Before) => connections.tls_before += 1,
        Some(Encryption::Plain) => connections.plain += 1,
        None => {}
    }
    open.connections.open(
        &session.client,
        &session.connection,
        raw.requested_at,
        &mut open.window,
    );
}

/// The answer, if it is nothing but rows, as most are: decoded without what others may have beside them.
#[inline(always)]
fn plain_rows(raw: &RawExchange) -> Option<Rows<'_>> {
    match &raw.response {
        Some((ReceivedResponse::Whole(response), _)) => Response::plain_rows(response),
        _ => None,
    }
}

/// Whether an EXECUTE, or what a PREPARE was answered with, can be read in two ways, of which one would count wrong
/// partitions.
#[inline]
fn is_ambiguous(session: &Session, raw: &RawExchange) -> bool {
    match raw.request.header.opcode {
        Opcode::EXECUTE => session.is_layout_open(&raw.request.header),
        Opcode::PREPARE => {
            let response = raw.response.as_ref();
            response.is_some_and(|(response, _)| session.is_layout_open(response.header()))
        }
        _ => false,
    }
}

/// Whether this is a statement that comes too early for any server. Where answers may be missing only an
/// error shows that.
fn is_before_startup(session: &Session, raw: &RawExchange) -> bool {
    if session.is_started {
        return false;
    }
    let is_statement = matches!(
        raw.request.header.opcode,
        Opcode::QUERY | Opcode::PREPARE | Opcode::EXECUTE | Opcode::BATCH
    );
    is_statement && (raw.response.is_some() || !session.is_recorded)
}

#[cold]
fn count_before_startup(open: &mut OpenWindow, session: &Session, raw: &RawExchange) {
    let coverage = &mut open.window.coverage;
    coverage.audited += 1;
    coverage.before_startup += 1;
    match raw.response {
        Some(_) => open.refusals.refuse(&session.client, raw.requested_at),
        None => coverage.unanswered += 1,
    }
}

#[cold]
fn count_missing(coverage: &mut Coverage, missing: &MissingRequests) {
    coverage.dropped += missing.requests;
    for (opcode, count) in missing.opcodes.iter().filter(|(_, count)| *count > 0) {
        let name = opcode.name().unwrap_or("other").to_owned();
        *coverage.dropped_by_opcode.entry(name).or_default() += u64::from(count);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;
    use cqlens_proto::{
        envelope::{Envelope, HEADER_LEN, Header},
        message::Consistency,
    };
    use jiff::Timestamp;

    use super::*;
    use crate::audit::{
        ClientAddresses,
        testing::{query_on, result, set_keyspace},
    };
    use cqlens_capture::{Connection, ConnectionId, memory::Part};
    use cqlens_window::Limits;

    #[test]
    fn effects_come_once_however_often_an_exchange_is_interpreted() {
        let live = Arc::new(Live::default());
        let mut pipeline = Pipeline::new(
            Arc::clone(&live),
            HashKey::random(),
            Watch::default(),
            Observer::default(),
            SourceLimit::default(),
        );
        let memory = Part::new("test", 1 << 20);
        let mut open = OpenWindow::new(Timestamp::UNIX_EPOCH, "test", Limits::default(), memory);
        let connection = Connection::new(ConnectionId(0), "10.0.0.1:40000".parse().unwrap());
        let mut session = Session::new(&connection.into(), ClientAddresses::default());
        session.is_started = true;
        let envelope = |bytes: Bytes| Envelope {
            header: Header::decode_from(&bytes).unwrap(),
            body: bytes.slice(HEADER_LEN..),
        };
        let query = |cql| envelope(query_on(1, cql, Consistency::One));
        let answer = |answer| Some((ReceivedResponse::Whole(envelope(answer)), None));
        let change = "\0\0\0\x05\0\x07CREATED\0\x08KEYSPACE\0\x03one";
        for (cql, answered) in [
            ("USE one", set_keyspace(1, "one")),
            (
                "CREATE KEYSPACE one WITH replication = {'class': 'LocalStrategy'}",
                result(1, change.as_bytes()),
            ),
        ] {
            let request = query(cql);
            let raw = RawExchange {
                request_len: request.body.len(),
                request,
                requested_at: Moment::from_unix_nanoseconds(0),
                response: answer(answered),
                keyspace_changes: 0,
                cut_off: false,
            };
            let before = (live.version(), session.keyspace_changes());
            let mut interpret = |pass| {
                pipeline.count_exchange(&mut open, &mut session, &raw, pass, true);
                (live.version() - before.0, session.keyspace_changes() - before.1)
            };
            let first = interpret(Pass::First);
            assert_ne!(first, (0, 0), "{cql}");
            assert_eq!(interpret(Pass::Again), first, "{cql}");
        }
    }
}
