//! Each exchange as it is counted, with its values: for what records traffic or sends it elsewhere.
//!
//! An observer runs in the auditor's thread: its time is the audit's, never that of the wire, and its panic is a
//! failure of the auditor. It is shown each exchange once, when its response has come; one that waits for the
//! catalog to know its statement is shown when it is counted, a few seconds later at most.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use cqlens_cql::{
    footprint::Count,
    plan::{Flag, StatementKind},
};
use cqlens_proto::message::{Request, Response, Rows};

use crate::audit::{
    connection::{event::ReceivedResponse, session::Session},
    exchange::{DecodedExchange, Exchange, Execution},
};
use crate::catalog::PreparedStatements;
use cqlens_capture::{ConnectionId, Moment};
use cqlens_window::PatternId;

/// What wants to see exchanges.
pub trait Observe: Send + Sync {
    /// Whether it wants any now. Asked before each exchange: should cost no more than a load.
    fn is_on(&self) -> bool {
        true
    }

    /// An exchange, before it is counted.
    fn see(&self, observed: &ObservedExchange<'_>);

    /// Requests of which there is nothing to see: left out of the audit, or not decoded.
    fn miss(&self, requests: u64);
}

/// An observer, or none.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<dyn Observe>>);

/// A request with its response, as far as both could be read, and what the audit makes of them.
#[derive(Clone, Copy)]
pub struct ObservedExchange<'a> {
    /// The request; of one that is too long to be kept what its head says.
    pub request: &'a Request<'a>,
    /// Whether it is only its head.
    pub is_request_cut: bool,
    /// The response.
    pub response: ObservedResponse<'a>,
    /// The keyspace of unqualified names when the request came: what it names itself, or what USE had set. A
    /// prepared statement has that of its PREPARE.
    pub keyspace: Option<&'a str>,
    /// The texts of prepared statements.
    pub prepared: &'a PreparedStatements,
    /// What was executed; none for requests that execute nothing (PREPARE, OPTIONS, …).
    pub statement: Option<ObservedStatement<'a>>,
    /// The connection.
    pub connection: ConnectionId,
    /// The application and session that the request is from: a hash.
    pub actor: u64,
    /// What the client calls itself.
    pub client: &'a str,
    /// When the request's last byte came.
    pub at: Moment,
    /// From the request's last byte to the response's first; none where it is not known.
    pub latency: Option<Duration>,
}

/// What came back.
#[derive(Clone, Copy)]
pub enum ObservedResponse<'a> {
    /// A page of rows, whole.
    Rows(&'a Rows<'a>),
    /// Anything else.
    Message(&'a Response<'a>),
    /// Rows of which some are not there, or what could not be decoded.
    Unread,
    /// Nothing.
    None,
}

/// What the audit knows of a statement, or of all statements of a batch.
#[derive(Debug, Clone, Copy)]
pub struct ObservedStatement<'a> {
    /// The pattern that it is counted under.
    pub pattern: PatternId,
    /// SELECT, INSERT, ….
    pub kind: StatementKind,
    /// Its properties; those of all statements of a batch.
    pub flags: &'a BTreeSet<Flag>,
    /// Whether all of its tables are the server's own.
    pub is_system: bool,
    /// Whether all of its tables are in the schema: else flags that only the schema can tell are missing.
    pub is_known: bool,
    /// How many partitions it touches, where that is known exactly.
    pub partitions: Option<u64>,
}

impl Observer {
    /// Shows exchanges to `observe`.
    pub fn new(observe: Arc<dyn Observe>) -> Self {
        Self(Some(observe))
    }

    /// The one that wants exchanges now.
    #[inline]
    pub(crate) fn at_work(&self) -> Option<&dyn Observe> {
        self.0.as_deref().filter(|observe| observe.is_on())
    }

    /// Counts what there is nothing to see of.
    #[inline]
    pub(crate) fn miss(&self, requests: u64) {
        if let Some(observe) = self.at_work() {
            observe.miss(requests);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match &self.0 {
            Some(_) => "Observer(_)",
            None => "Observer(none)",
        })
    }
}

impl<'a> ObservedExchange<'a> {
    pub(crate) fn of(
        exchange: &'a Exchange<'_>,
        decoded: DecodedExchange<'a>,
        session: &'a Session,
        prepared: &'a PreparedStatements,
    ) -> Self {
        let DecodedExchange { raw, request, .. } = decoded;
        Self {
            request,
            is_request_cut: raw.is_request_cut(),
            response: ObservedResponse::of(decoded),
            keyspace: requested(request).or_else(|| session.keyspace_after(raw.keyspace_changes)),
            prepared,
            statement: exchange.execution.map(ObservedStatement::of),
            connection: session.connection.id,
            actor: session.actor,
            client: &session.client,
            at: exchange.at,
            latency: exchange.latency_us().map(Duration::from_micros),
        }
    }
}

impl<'a> ObservedResponse<'a> {
    fn of(decoded: DecodedExchange<'a>) -> Self {
        let DecodedExchange { raw, answer, .. } = decoded;
        let is_whole = !matches!(raw.response, Some((ReceivedResponse::Head(_), _)));
        match (&raw.response, answer.rows, answer.message) {
            (None, ..) => Self::None,
            (_, Some(rows), _) if is_whole => Self::Rows(rows),
            (_, None, Some(message)) => Self::Message(message),
            _ => Self::Unread,
        }
    }
}

impl<'a> ObservedStatement<'a> {
    fn of(execution: &'a Execution) -> Self {
        let analysis = &*execution.analysis;
        Self {
            pattern: analysis.id,
            kind: analysis.head.kind,
            flags: &analysis.flags,
            is_system: analysis.head.system,
            is_known: analysis.is_known,
            partitions: match execution.footprint.count {
                Count::Exact(partitions) => Some(partitions),
                _ => None,
            },
        }
    }
}

/// The keyspace that a request names beside its statements.
fn requested<'a>(request: &Request<'a>) -> Option<&'a str> {
    match request {
        Request::Query(query) => query.parameters.keyspace,
        Request::Execute(execute) => execute.parameters.keyspace,
        Request::Batch(batch) => batch.keyspace,
        Request::Prepare(prepare) => prepare.keyspace,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    };

    use cqlens_proto::{
        envelope::Direction,
        message::{Consistency, QueryResult},
    };
    use jiff::Timestamp;

    use super::*;
    use crate::{
        audit::{
            Audit, HashKey, Options,
            testing::{query_on, result, set_keyspace},
        },
        catalog::Live,
    };
    use cqlens_capture::{Clock, Connection, Queue, QueueLimits, Tap};

    #[derive(Default)]
    struct Seen {
        is_off: AtomicBool,
        lines: Mutex<Vec<String>>,
    }

    impl Observe for Seen {
        fn is_on(&self) -> bool {
            !self.is_off.load(Ordering::Relaxed)
        }

        fn see(&self, observed: &ObservedExchange<'_>) {
            let cql = match observed.request {
                Request::Query(query) => query.query,
                _ => "",
            };
            let response = match observed.response {
                ObservedResponse::Message(Response::Result(QueryResult::SetKeyspace { .. })) => "set",
                ObservedResponse::Message(_) => "done",
                ObservedResponse::Rows(_) => "rows",
                ObservedResponse::Unread => "unread",
                ObservedResponse::None => "none",
            };
            let kind = observed.statement.map(|statement| statement.kind);
            let line = format!("{cql} | {:?} | {kind:?} | {response}", observed.keyspace);
            self.lines.lock().unwrap().push(line);
        }

        fn miss(&self, requests: u64) {
            self.lines.lock().unwrap().push(format!("missed {requests}"));
        }
    }

    fn observe(seen: &Arc<Seen>) {
        let queue = Arc::new(Queue::new(QueueLimits::default()));
        let live = Arc::new(Live::default());
        let options = Options {
            observer: Observer::new(Arc::<Seen>::clone(seen)),
            ..Options::default()
        };
        let (key, now) = (HashKey::random(), Timestamp::UNIX_EPOCH);
        let audit = Audit::start_with(Arc::clone(&queue), &live, key, "test", now, &options).unwrap();
        let connection = Connection::new(ConnectionId(0), "10.0.0.1:40000".parse().unwrap());
        let connection = Arc::new(connection);
        let tap = |direction| {
            let (connection, queue) = (Arc::clone(&connection), Arc::clone(&queue));
            Tap::new(connection, direction, queue, Clock::start())
        };
        let (mut client, mut server) = (tap(Direction::Request), tap(Direction::Response));
        let mut ask = |stream, cql| client.offer(&query_on(stream, cql, Consistency::One));
        ask(1, "USE one");
        server.offer(&set_keyspace(1, "one"));
        ask(2, "SELECT v FROM t");
        ask(3, "USE two");
        server.offer(&set_keyspace(3, "two"));
        server.offer(&result(2, &[0, 0, 0, 1]));
        ask(4, "INSERT INTO t (k) VALUES (1)");
        connection.close(Clock::start().now());
        audit.stop(Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn each_exchange_is_seen_once_with_the_keyspace_of_its_moment() {
        let seen = Arc::new(Seen::default());
        observe(&seen);
        let mut lines = seen.lines.lock().unwrap().clone();
        lines.sort();
        assert_eq!(
            lines,
            [
                "INSERT INTO t (k) VALUES (1) | Some(\"two\") | Some(Insert) | none",
                "SELECT v FROM t | Some(\"one\") | Some(Select) | done",
                "USE one | None | Some(Other) | set",
                "USE two | Some(\"one\") | Some(Other) | set",
            ]
        );
    }

    #[test]
    fn an_observer_that_is_off_sees_nothing() {
        let seen = Arc::new(Seen::default());
        seen.is_off.store(true, Ordering::Relaxed);
        observe(&seen);
        assert!(seen.lines.lock().unwrap().is_empty());
    }
}
