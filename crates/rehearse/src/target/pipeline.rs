//! One open connection with many requests in flight.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::{Buf as _, Bytes, BytesMut};
use cqlens_client::{Connection, Socket, Watched};
use cqlens_proto::{
    envelope::{Envelope, Header, StreamId},
    error::DecodeErrorKind,
    message::{
        Dialect, ErrorCode, ErrorDetails, Extensions, Extras, Prepare, QueryResult, Request, Response, Rows,
    },
    outgoing::Outgoing,
    stream::{EnvelopeStream, StreamItem},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf},
    sync::mpsc::UnboundedReceiver,
    time::{Instant, MissedTickBehavior, interval},
};

use super::{
    Core, Extent, Outcome, encode,
    job::{Job, PagesBefore},
    pages::Found,
    prepared::{PreparedKey, PreparedStatement},
    routing::RoutingKey,
    sets::Sets,
    slot::{SlotStatus, has_keyspaces},
    streams::{InFlight, Streams},
};
use crate::{
    column_types::ColumnTypesCache,
    digest::{ResponseDigest, RowsDigester},
    skipped::Skipped,
};

/// Why a connection has ended.
#[derive(Debug)]
pub(super) enum Stopped {
    /// No more requests can come.
    NobodySends,
    /// It failed.
    Lost(String),
}

/// A connection on its way through requests.
pub(super) struct Pipeline<'c> {
    core: &'c Arc<Core>,
    sets: &'c Weak<Sets>,
    /// The keyspace that `USE` has set.
    keyspace: Option<&'c Arc<str>>,
    status: &'c SlotStatus,
    dialect: Dialect,
    incoming: EnvelopeStream,
    outgoing: Outgoing,
    reader: ReadHalf<Box<dyn Socket>>,
    writer: WriteHalf<Box<dyn Socket>>,
    to_write: BytesMut,
    is_unflushed: bool,
    streams: Streams,
    preparing: HashMap<PreparedKey, i16>,
    types: ColumnTypesCache,
    /// Requests whose turn it is as soon as a stream id is free.
    ready: VecDeque<Job>,
    _watched: Option<Watched>,
    /// Bytes of responses that have not come whole and of requests that are not written, as all connections know.
    kept: usize,
}

const READ_LEN: usize = 64 << 10;
/// The interval at which deadlines are checked.
const TICK: Duration = Duration::from_millis(100);
/// Requests that are taken from the queue at a time.
const BURST: usize = 128;
/// Pages of one result that are asked for on the way to its end.
const MOST_PAGES: u32 = 1_000;

impl<'c> Pipeline<'c> {
    pub(super) fn new(
        connection: Connection,
        core: &'c Arc<Core>,
        sets: &'c Weak<Sets>,
        keyspace: Option<&'c Arc<str>>,
        status: &'c SlotStatus,
    ) -> Self {
        let (reader, writer) = tokio::io::split(connection.socket);
        Self {
            core,
            sets,
            keyspace,
            status,
            dialect: connection.dialect,
            incoming: connection.incoming,
            outgoing: connection.outgoing,
            reader,
            writer,
            to_write: BytesMut::new(),
            is_unflushed: false,
            streams: Streams::new(core.settings.most_in_flight),
            preparing: HashMap::new(),
            types: ColumnTypesCache::default(),
            ready: VecDeque::new(),
            _watched: connection.watched,
            kept: 0,
        }
    }

    /// Serves until the connection is lost or its sender is gone.
    pub(super) async fn run(mut self, jobs: &mut UnboundedReceiver<Job>, timeout: Duration) -> Stopped {
        let stopped = self.serve(jobs, timeout).await;
        self.core.count_kept(&mut self.kept, 0);
        self.give_up();
        stopped
    }

    async fn serve(&mut self, jobs: &mut UnboundedReceiver<Job>, timeout: Duration) -> Stopped {
        let mut burst = Vec::with_capacity(BURST);
        let mut chunk = BytesMut::new();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_heard = Instant::now();
        loop {
            if let Err(why) = self.start_ready() {
                return Stopped::Lost(why);
            }
            // A request that has expired may still wait to be written.
            let kept = self.incoming.kept() + self.to_write.len();
            if !self.core.count_kept(&mut self.kept, kept) {
                return Stopped::Lost(
                    "too many responses came in part, or too many requests are not read".to_owned(),
                );
            }
            chunk.reserve(READ_LEN);
            let room = self.streams.free.len().min(BURST);
            tokio::select! {
                received = jobs.recv_many(&mut burst, room), if room > 0 && self.ready.is_empty() => {
                    if received == 0 {
                        return Stopped::NobodySends;
                    }
                    self.ready.extend(burst.drain(..));
                }
                read = self.reader.read_buf(&mut chunk) => {
                    match read {
                        Ok(0) => return Stopped::Lost("the node closed it".to_owned()),
                        Ok(_) => {
                            last_heard = Instant::now();
                            self.incoming.feed(chunk.split().freeze());
                        }
                        Err(error) => return Stopped::Lost(error.to_string()),
                    }
                    if let Err(why) = self.hear(last_heard) {
                        return Stopped::Lost(why);
                    }
                }
                written = write_on(&mut self.writer, &mut self.to_write), if self.is_unflushed => {
                    if let Err(error) = written {
                        return Stopped::Lost(error.to_string());
                    }
                    self.is_unflushed = false;
                }
                now = tick.tick() => {
                    if let Err(why) = self.expire(now, timeout, last_heard) {
                        return Stopped::Lost(why);
                    }
                }
            }
        }
    }

    /// Sends what can be sent.
    fn start_ready(&mut self) -> Result<(), String> {
        while !self.streams.free.is_empty()
            && let Some(job) = self.ready.pop_front()
        {
            self.start(job);
        }
        let bytes = self.outgoing.take().map_err(|error| error.to_string())?;
        if !bytes.is_empty() {
            self.to_write.unsplit(bytes);
            self.is_unflushed = true;
        }
        Ok(())
    }

    fn start(&mut self, job: Job) {
        let has_keyspaces = has_keyspaces(self.dialect.version);
        if !has_keyspaces && job.request.exchange.request.keyspace.as_ref() != self.keyspace {
            return self.send_back(job);
        }
        let ids = match self.ids(&job) {
            Ok(ids) => ids,
            Err(key) => return self.prepare(key, job),
        };
        let Some(stream_id) = self.streams.free.pop() else {
            return self.ready.push_front(job);
        };
        let keyspace = job
            .request
            .exchange
            .request
            .keyspace
            .as_deref()
            .filter(|_| has_keyspaces);
        let envelope = encode::envelope(&job, &ids, keyspace, self.dialect, StreamId(stream_id));
        match envelope.and_then(|envelope| self.outgoing.push(&envelope)) {
            Ok(()) => {
                let sent = Instant::now();
                self.streams.put(stream_id, InFlight::Request { job, sent });
            }
            Err(error) => {
                tracing::debug!(%error, "a request cannot be written");
                self.streams.free.push(stream_id);
                self.leave_out(job, Skipped::NotExpressible);
            }
        }
    }

    /// A request that needs `USE`, which the sender could not know; or one that does not, and came to a
    /// connection that has one.
    fn send_back(&mut self, job: Job) {
        self.status.done();
        match self.sets.upgrade() {
            Some(sets) if self.keyspace.is_none() => sets.route(self.core, job),
            _ => self.core.abandon(job, Skipped::ConnectionLost),
        }
    }

    /// The ids of a request's statements.
    ///
    /// # Errors
    /// The first that has to be prepared.
    fn ids(&self, job: &Job) -> Result<encode::Ids, PreparedKey> {
        let request = &job.request.exchange.request;
        let id = |statement: &crate::exchange::RecordedStatement| {
            if !statement.is_prepared {
                return Ok(None);
            }
            let key = PreparedKey {
                keyspace: request.keyspace.clone(),
                cql: Arc::clone(&statement.cql),
            };
            let found = self.core.prepared().find(&key);
            found.map(Some).ok_or(key)
        };
        request.statements.iter().map(id).collect()
    }

    fn prepare(&mut self, key: PreparedKey, job: Job) {
        if let Some(&stream_id) = self.preparing.get(&key)
            && let Some(InFlight::Prepare { waiting, .. }) = self.streams.get(stream_id)
        {
            return waiting.push(job);
        }
        let Some(stream_id) = self.streams.free.pop() else {
            return self.ready.push_front(job);
        };
        let request = Request::Prepare(Prepare {
            query: &key.cql,
            keyspace: key
                .keyspace
                .as_deref()
                .filter(|_| has_keyspaces(self.dialect.version)),
            other_flags: 0,
        });
        let envelope = request.to_envelope(self.dialect, StreamId(stream_id), &Extras::default());
        if envelope
            .and_then(|envelope| self.outgoing.push(&envelope))
            .is_err()
        {
            self.streams.free.push(stream_id);
            return self.leave_out(job, Skipped::NotExpressible);
        }
        self.preparing.insert(key.clone(), stream_id);
        let (waiting, sent) = (vec![job], Instant::now());
        self.streams
            .put(stream_id, InFlight::Prepare { key, waiting, sent });
    }

    fn hear(&mut self, now: Instant) -> Result<(), String> {
        while let Some(item) = self.incoming.next_item() {
            match item {
                StreamItem::Envelope(envelope) => self.heard(&envelope, now),
                StreamItem::Long(long) => self.heard(&long.join(), now),
                StreamItem::Head(head) => self.heard_in_part(&head.envelope.header),
                StreamItem::Skipped { header, reason, .. }
                    if matches!(reason.kind, DecodeErrorKind::TooLarge { .. }) =>
                {
                    self.heard_in_part(&header);
                }
                StreamItem::Skipped { reason, .. }
                | StreamItem::Damaged(reason)
                | StreamItem::Lost(reason) => {
                    return Err(format!("nonsense: {reason}"));
                }
            }
        }
        Ok(())
    }

    fn heard(&mut self, envelope: &Envelope, now: Instant) {
        match self.streams.take(envelope.header.stream_id) {
            InFlight::Nothing | InFlight::Abandoned => {}
            InFlight::Prepare { key, waiting, .. } => self.heard_prepared(&key, waiting, envelope),
            InFlight::Request { job, sent } => self.heard_response(job, now.duration_since(sent), envelope),
        }
    }

    fn heard_in_part(&mut self, header: &Header) {
        match self.streams.take(header.stream_id) {
            InFlight::Nothing | InFlight::Abandoned => {}
            InFlight::Prepare { key, waiting, .. } => {
                self.preparing.remove(&key);
                self.leave_all_out(waiting, Skipped::Unreadable);
            }
            InFlight::Request { job, .. } => self.leave_out(job, Skipped::Unreadable),
        }
    }

    fn heard_prepared(&mut self, key: &PreparedKey, waiting: Vec<Job>, envelope: &Envelope) {
        self.preparing.remove(key);
        let response = Response::decode(envelope, Extensions::NONE);
        match response.map(|decoded| decoded.message) {
            Ok(Response::Result(QueryResult::Prepared(prepared))) => {
                let copied = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
                let statement = PreparedStatement {
                    id: copied(prepared.id.0),
                    result_metadata_id: prepared.result_metadata_id.map(|id| copied(id.0)),
                    routing_key: RoutingKey::of(&prepared),
                };
                self.core.prepared().insert(key.clone(), statement);
                self.core.counters.prepared.fetch_add(1, super::Ordering::Relaxed);
                waiting.into_iter().for_each(|job| self.go_on(job));
            }
            Ok(Response::Error(error)) => {
                for job in waiting {
                    self.answer(job, ResponseDigest::Error(error.code.0), Duration::ZERO, None);
                }
            }
            _ => self.leave_all_out(waiting, Skipped::Unreadable),
        }
    }

    /// Its statement is prepared now, and so it is known where it goes best. One that a node had forgotten stays with
    /// that node: others may have forgotten it, too.
    fn go_on(&mut self, job: Job) {
        match self.sets.upgrade() {
            Some(sets) if job.unprepared == 0 && sets.has_several_nodes() => {
                self.status.done();
                sets.route(self.core, job);
            }
            _ => self.ready.push_back(job),
        }
    }

    fn heard_response(&mut self, mut job: Job, latency: Duration, envelope: &Envelope) {
        let Ok(decoded) = Response::decode(envelope, Extensions::NONE) else {
            return self.leave_out(job, Skipped::Unreadable);
        };
        match &decoded.message {
            Response::Error(error)
                if error.code == ErrorCode::UNPREPARED && job.unprepared < MOST_UNPREPARED =>
            {
                self.core
                    .counters
                    .unprepared
                    .fetch_add(1, super::Ordering::Relaxed);
                self.forget(&job, &error.details);
                job.unprepared += 1;
                self.ready.push_back(job);
            }
            Response::Result(QueryResult::Rows(rows)) => self.heard_rows(job, latency, rows),
            message => {
                let response = ResponseDigest::of(message, self.core.settings.digest_key, &mut self.types);
                match response {
                    ResponseDigest::Missing => self.leave_out(job, Skipped::Unreadable),
                    response => self.answer(job, response, latency, None),
                }
            }
        }
    }

    fn heard_rows(&mut self, mut job: Job, latency: Duration, rows: &Rows<'_>) {
        let paging_state = rows.metadata.paging_state.map(|state| state.0);
        let key = self.core.settings.digest_key;
        if job.request.extent == Extent::Page {
            let mut digester = RowsDigester::new(key);
            digester.add(rows, &mut self.types);
            return self.answer(
                job,
                ResponseDigest::Rows(digester.finish()),
                latency,
                paging_state,
            );
        }
        let pages = job.pages.get_or_insert_with(|| {
            Box::new(PagesBefore {
                digester: RowsDigester::new(key),
                latency: Duration::ZERO,
                count: 0,
            })
        });
        pages.digester.add(rows, &mut self.types);
        pages.latency += latency;
        pages.count += 1;
        if let Some(state) = paging_state
            && pages.count < MOST_PAGES
        {
            // Not both at once: the one before has done its part.
            job.paging_state = None;
            job.paging_state = self.core.pages().hold(state);
            return match job.paging_state {
                Some(_) => self.ready.push_back(job),
                None => self.leave_out(job, Skipped::UnknownPage),
            };
        }
        if let Some(pages) = job.pages.take() {
            self.answer(
                job,
                ResponseDigest::Rows(pages.digester.finish()),
                pages.latency,
                None,
            );
        }
    }

    /// The statement that the node has forgotten; all of the request, if it is not said which.
    fn forget(&self, job: &Job, details: &ErrorDetails<'_>) {
        let request = &job.request.exchange.request;
        let mut prepared = self.core.prepared();
        for statement in request
            .statements
            .iter()
            .filter(|statement| statement.is_prepared)
        {
            let key = PreparedKey {
                keyspace: request.keyspace.clone(),
                cql: Arc::clone(&statement.cql),
            };
            let is_meant = match details {
                ErrorDetails::Unprepared(id) => prepared.find(&key).is_some_and(|known| known.id == id.0),
                _ => true,
            };
            // An id that is not the one in the cache was renewed meanwhile.
            if is_meant {
                prepared.forget(&key);
            }
        }
    }

    fn answer(&mut self, job: Job, response: ResponseDigest, latency: Duration, paging_state: Option<&[u8]>) {
        self.status.done();
        let waiting = match job.expects_page() {
            true => self.core.pages().came(job.request.exchange.number, paging_state),
            false => Vec::new(),
        };
        self.core.finish(job, Outcome::Answered { response, latency });
        for found in waiting {
            match (found, self.sets.upgrade()) {
                (Found::Ready(next), Some(sets)) => sets.route(self.core, next),
                (Found::Missing(next, why), _) => self.core.abandon(next, why),
                (Found::Ready(next), None) => self.core.abandon(next, Skipped::ConnectionLost),
                (Found::Waiting, _) => {}
            }
        }
    }

    fn leave_out(&mut self, job: Job, why: Skipped) {
        self.status.done();
        self.core.abandon(job, why);
    }

    fn leave_all_out(&mut self, jobs: Vec<Job>, why: Skipped) {
        for job in jobs {
            self.leave_out(job, why);
        }
    }

    /// Gives up what has waited for too long.
    ///
    /// # Errors
    /// If nothing came at all since, or if most stream ids wait for nothing: then the connection is of no use.
    fn expire(&mut self, now: Instant, timeout: Duration, last_heard: Instant) -> Result<(), String> {
        let mut is_silent = false;
        for number in 0..self.streams.in_flight.len() {
            let sent = match self.streams.in_flight[number] {
                InFlight::Request { sent, .. } | InFlight::Prepare { sent, .. } => sent,
                InFlight::Nothing | InFlight::Abandoned => continue,
            };
            if now.duration_since(sent) < timeout {
                continue;
            }
            is_silent |= last_heard < sent;
            self.streams.abandoned += 1;
            match std::mem::replace(&mut self.streams.in_flight[number], InFlight::Abandoned) {
                InFlight::Request { job, .. } => self.leave_out(job, Skipped::TimedOut),
                InFlight::Prepare { key, waiting, .. } => {
                    self.preparing.remove(&key);
                    self.leave_all_out(waiting, Skipped::TimedOut);
                }
                InFlight::Nothing | InFlight::Abandoned => {}
            }
        }
        match is_silent || self.streams.abandoned * 2 > self.streams.in_flight.len() {
            true => Err("responses did not arrive in time".to_owned()),
            false => Ok(()),
        }
    }

    fn give_up(&mut self) {
        let ready = std::mem::take(&mut self.ready);
        self.leave_all_out(ready.into(), Skipped::ConnectionLost);
        for in_flight in std::mem::take(&mut self.streams.in_flight) {
            match in_flight {
                InFlight::Request { job, .. } => self.leave_out(job, Skipped::ConnectionLost),
                InFlight::Prepare { waiting, .. } => self.leave_all_out(waiting, Skipped::ConnectionLost),
                InFlight::Nothing | InFlight::Abandoned => {}
            }
        }
    }
}

/// A node that forgets a statement again and again has no room for it.
const MOST_UNPREPARED: u8 = 3;

/// Writes all of it; where it is cancelled it goes on later.
async fn write_on(writer: &mut WriteHalf<Box<dyn Socket>>, bytes: &mut BytesMut) -> std::io::Result<()> {
    while bytes.has_remaining() {
        if writer.write_buf(bytes).await? == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
    }
    writer.flush().await
}
