//! Exchanges that the catalog cannot explain yet.
//!
//! A statement that the server has executed names a table that exists. Where the schema does not have it, the
//! schema is behind: another client has just created the table, or the control connection has not read it
//! yet. The same goes for prepared ids that are still being looked up. Such exchanges wait a moment, and are
//! counted once they are understood, or when the moment is over as what they are: unknown.

use std::{collections::VecDeque, time::Duration};

use crate::audit::{
    connection::{event::RawExchange, session::Session},
    exchange::{Exchange, outcome::Outcome},
};
use cqlens_capture::{Moment, memory::Part};
use cqlens_cql::footprint::Count;
use cqlens_cql::footprint::Reason;

/// How long an exchange waits: a control connection that is at work has read the schema by then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How often what waits is tried again.
const EVERY: Duration = Duration::from_millis(100);

/// Exchanges that may wait; one more is counted as unknown.
const MAX_EXCHANGES: usize = 4_096;

/// One auditor's exchanges that wait.
#[derive(Debug)]
pub(crate) struct Deferred {
    waiting: VecDeque<DeferredExchange>,
    /// Bytes of their requests and responses.
    memory: Part,
    tried: Option<Attempt>,
}

/// An attempt at all that waits.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    at: Moment,
    /// What the catalog had learned by then: see [`Live::learned`](crate::catalog::Live::learned).
    learned: u64,
}

/// An exchange that waits.
#[derive(Debug)]
pub(crate) struct DeferredExchange {
    /// What its connection had set when it came.
    pub(crate) session: Session,
    /// The request and its response.
    pub(crate) raw: RawExchange,
    /// Since when it waits.
    since: Moment,
}

impl DeferredExchange {
    /// Whether its time is over.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        now.since(self.since) >= PATIENCE
    }

    fn bytes(&self) -> usize {
        bytes(&self.raw)
    }
}

fn bytes(raw: &RawExchange) -> usize {
    let response = raw.response.as_ref();
    size_of::<DeferredExchange>()
        + raw.request.body.len()
        + response.map_or(0, |(response, _)| response.kept())
}

/// Whether a later attempt may find out more of an exchange than this one did.
pub(crate) fn may_become_clear(exchange: &Exchange<'_>) -> bool {
    // Its partitions are known, and nothing of what a schema says of the table.
    let without_schema = exchange.execution.is_some_and(|execution| {
        execution.footprint.count == Count::Scan && execution.analysis.lacks_schema()
    });
    let answered = matches!(
        exchange.outcome,
        Outcome::Done | Outcome::Rows { .. } | Outcome::Unread
    );
    let reason = exchange
        .execution
        .and_then(|execution| execution.footprint.reason());
    // A server has no reason to accept an invalid statement: then our schema is old.
    let behind = matches!(
        reason,
        Some(
            Reason::PreparedIdUnknown
                | Reason::TableUnknown
                | Reason::SchemaUnknown
                | Reason::InvalidStatement
        )
    );
    answered && (behind || without_schema)
}

impl Deferred {
    /// Nothing waits yet; what waits takes up as much as `memory` has.
    pub(crate) fn within(memory: Part) -> Self {
        Self {
            waiting: VecDeque::new(),
            memory,
            tried: None,
        }
    }

    /// Whether an exchange may wait, too.
    pub(crate) fn has_room_for(&self, raw: &RawExchange) -> bool {
        self.waiting.len() < MAX_EXCHANGES && self.memory.has_room_for(bytes(raw))
    }

    /// Keeps an exchange for later, for which there is room.
    pub(crate) fn push(&mut self, session: &Session, mut raw: RawExchange, now: Moment) {
        raw.detach();
        self.keep(DeferredExchange {
            session: session.clone(),
            raw,
            since: now,
        });
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// What is to be tried again, a few times a second: all that waits where the catalog has `learned`
    /// something since the last attempt, else what is due. What is still not clear goes back with
    /// [`Deferred::keep`].
    pub(crate) fn take(&mut self, now: Moment, learned: u64) -> VecDeque<DeferredExchange> {
        let before = self.tried;
        if before.is_some_and(|last| now.since(last.at) < EVERY) {
            return VecDeque::new();
        }
        self.tried = Some(Attempt { at: now, learned });
        let taken = if before.is_some_and(|last| last.learned == learned) {
            // The first ones have waited longest.
            let due = self.waiting.iter().take_while(|waiting| waiting.is_due(now));
            let due = due.count();
            self.waiting.drain(..due).collect()
        } else {
            std::mem::take(&mut self.waiting)
        };
        self.memory
            .give_back(taken.iter().map(DeferredExchange::bytes).sum());
        taken
    }

    /// Keeps an exchange that is still not clear.
    pub(crate) fn keep(&mut self, waiting: DeferredExchange) {
        self.memory.take(waiting.bytes());
        self.waiting.push_back(waiting);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;
    use cqlens_proto::envelope::{Envelope, Header, Opcode, StreamId, Version};

    use super::*;
    use crate::audit::ClientAddresses;
    use cqlens_capture::{Connection, ConnectionId};

    /// A moment so many milliseconds after the first one.
    fn after(milliseconds: i64) -> Moment {
        Moment::from_unix_nanoseconds(milliseconds * 1_000_000)
    }

    fn raw(stream: i16, body: &'static [u8]) -> RawExchange {
        RawExchange {
            request: Envelope {
                header: Header::request(Version::V4, StreamId(stream), Opcode::QUERY),
                body: Bytes::from_static(body),
            },
            request_len: body.len(),
            requested_at: after(0),
            response: None,
            keyspace_changes: 0,
            cut_off: false,
        }
    }

    fn session() -> Session {
        let connection = Connection::new(ConnectionId(0), "10.0.0.1:40000".parse().unwrap());
        Session::new(&connection.into(), ClientAddresses::default())
    }

    fn push(deferred: &mut Deferred, stream: i16, now: Moment) {
        deferred.push(&session(), raw(stream, b"0123456789"), now);
    }

    const ROOM: usize = 8 << 20;

    static HALF: [u8; ROOM / 2 - size_of::<DeferredExchange>()] =
        [0; ROOM / 2 - size_of::<DeferredExchange>()];

    fn deferred() -> Deferred {
        Deferred::within(Part::new("test", ROOM))
    }

    #[test]
    fn only_so_many_wait_and_so_many_bytes() {
        let mut many = deferred();
        for _ in 0..MAX_EXCHANGES {
            assert!(many.has_room_for(&raw(1, b"")));
            push(&mut many, 1, after(0));
        }
        assert!(!many.has_room_for(&raw(1, b"")));
        let mut large = deferred();
        for _ in 0..2 {
            assert!(large.has_room_for(&raw(1, &HALF)));
            large.push(&session(), raw(1, &HALF), after(0));
        }
        assert!(!large.has_room_for(&raw(1, b"1")));
    }

    fn streams(taken: &VecDeque<DeferredExchange>) -> Vec<i16> {
        taken
            .iter()
            .map(|waiting| waiting.raw.request.header.stream_id.0)
            .collect()
    }

    #[test]
    fn what_waits_is_looked_at_again_when_something_was_learned_and_when_it_is_due() {
        let mut deferred = deferred();
        push(&mut deferred, 1, after(0));
        push(&mut deferred, 2, after(3_000));
        let first = deferred.take(after(3_100), 7);
        assert_eq!(streams(&first), [1, 2], "nobody knows what was learned meanwhile");
        first.into_iter().for_each(|waiting| deferred.keep(waiting));
        assert_eq!(streams(&deferred.take(after(3_300), 7)), [0; 0], "nothing new");
        assert_eq!(streams(&deferred.take(after(3_350), 8)), [0; 0], "too early");
        let learned = deferred.take(after(3_500), 8);
        assert_eq!(streams(&learned), [1, 2]);
        learned.into_iter().for_each(|waiting| deferred.keep(waiting));
        push(&mut deferred, 3, after(4_000));
        assert_eq!(streams(&deferred.take(after(5_000), 8)), [1], "its time is over");
        let two = 2 * (size_of::<DeferredExchange>() + 10);
        assert_eq!((deferred.len(), deferred.memory.used()), (2, two));
        assert_eq!(streams(&deferred.take(after(9_000), 8)), [2, 3]);
        assert_eq!((deferred.is_empty(), deferred.memory.used()), (true, 0));
    }
}
