//! Property tests of the audit as a whole: whatever passes, and however it is cut up, every window adds up.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    envelope::{Direction, Envelope, Header, Opcode, StreamId, Version},
    message::{
        Batch, BatchKind, BatchQuery, BatchStatement, Consistency, Dialect, Execute, Extras, Prepare,
        PreparedId, Query, QueryParameters, Request, Startup, ValuesBuf,
    },
};
use jiff::Timestamp;
use proptest::prelude::*;

use crate::audit::{Audit, HashKey, testing};
use crate::catalog::Live;
use cqlens_capture::{Clock, Connection, ConnectionId, Queue, QueueLimits, Tap};
use cqlens_cql::schema::Schema;
use cqlens_window::Window;

const SCHEMA: &str =
    "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE s.t (k int PRIMARY KEY, v int);";

const TEXTS: [&str; 8] = [
    "SELECT v FROM s.t WHERE k = 1",
    "SELECT v FROM s.t WHERE k IN (1, 2, 2)",
    "SELECT v FROM s.t",
    "SELECT v FROM unknown.t WHERE k = 1",
    "INSERT INTO s.t (k, v) VALUES (1, null)",
    "SELECT key FROM system.local",
    "USE s",
    "not CQL",
];

/// What one step does.
#[derive(Debug, Clone)]
enum Step {
    /// A request of a kind, of a statement, on a stream.
    Request(u8, usize, i16),
    /// A response of a kind, on a stream.
    Response(u8, i16),
    /// Bytes that are no envelope, in one of the directions.
    Junk(bool, Vec<u8>),
    /// The window ends.
    Window,
    /// The client connects anew.
    Reconnect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..6_u8, 0..TEXTS.len(), 0..4_i16).prop_map(|(kind, text, stream)| Step::Request(kind, text, stream)),
        12 => (0..6_u8, 0..4_i16).prop_map(|(kind, stream)| Step::Response(kind, stream)),
        1 => (any::<bool>(), proptest::collection::vec(any::<u8>(), 1..40)).prop_map(|(side, bytes)| Step::Junk(side, bytes)),
        1 => Just(Step::Window),
        1 => Just(Step::Reconnect),
    ]
}

fn request(kind: u8, text: &str, stream: i16) -> Bytes {
    let parameters = || QueryParameters::new(Consistency::One);
    let none = ValuesBuf::positional([]).unwrap();
    let id = PreparedId(text.as_bytes());
    let child = |query| BatchStatement {
        query,
        values: none.values(),
    };
    let request = match kind {
        0 | 1 => Request::Query(Query {
            query: text,
            parameters: parameters(),
        }),
        2 => Request::Prepare(Prepare {
            query: text,
            keyspace: None,
            other_flags: 0,
        }),
        3 => Request::Execute(Execute {
            id,
            result_metadata_id: None,
            parameters: parameters(),
        }),
        4 => Request::Batch(Batch {
            kind: BatchKind::Unlogged,
            statements: vec![child(BatchQuery::Text(text)), child(BatchQuery::Prepared(id))],
            consistency: Consistency::Quorum,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
            other_flags: 0,
        }),
        _ => Request::Startup(Startup { options: Vec::new() }),
    };
    let dialect = Dialect::new(Version::V4);
    let envelope = request
        .to_envelope(dialect, StreamId(stream), &Extras::default())
        .unwrap();
    testing::bytes(&envelope)
}

fn response(kind: u8, stream: i16) -> Bytes {
    let (opcode, body): (_, &[u8]) = match kind {
        0 | 1 => (Opcode::RESULT, &[0, 0, 0, 1]),
        // One row of one cell, without metadata.
        2 => (
            Opcode::RESULT,
            &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 7],
        ),
        3 => (Opcode::ERROR, b"\0\0\x22\0\0\x02no"),
        4 => (Opcode::ERROR, b"\0\0\x12\0"),
        _ => (Opcode::READY, &[]),
    };
    testing::bytes(&Envelope {
        header: Header::response(Version::V4, StreamId(stream), opcode),
        body: Bytes::from_static(body),
    })
}

/// An audit and a connection that it sees.
struct Observed {
    audit: Audit,
    queue: Arc<Queue>,
    connections: u64,
    connection: Arc<Connection>,
    taps: [Tap; 2],
}

impl Observed {
    fn new(room: usize) -> Self {
        let queue = Arc::new(Queue::new(QueueLimits { bytes: room }));
        let live = Arc::new(Live::with_schema(Schema::from_cql(SCHEMA).unwrap()));
        let now = Timestamp::UNIX_EPOCH;
        let audit = Audit::start(Arc::clone(&queue), &live, HashKey::random(), "test", now).unwrap();
        let (connection, taps) = connect(&queue, 0);
        Self {
            audit,
            queue,
            connections: 0,
            connection,
            taps,
        }
    }

    /// Passes on bytes, in pieces of `piece` bytes.
    fn pass(&mut self, direction: Direction, mut bytes: Bytes, piece: usize) {
        while !bytes.is_empty() {
            let chunk = bytes.split_to(piece.min(bytes.len()));
            self.taps[usize::from(direction == Direction::Response)].offer(&chunk);
        }
    }

    fn do_step(&mut self, step: &Step, piece: usize) -> Option<Window> {
        match step {
            Step::Request(kind, text, stream) => {
                self.pass(Direction::Request, request(*kind, TEXTS[*text], *stream), piece);
            }
            Step::Response(kind, stream) => self.pass(Direction::Response, response(*kind, *stream), piece),
            Step::Junk(true, bytes) => self.pass(Direction::Request, bytes.clone().into(), piece),
            Step::Junk(false, bytes) => self.pass(Direction::Response, bytes.clone().into(), piece),
            Step::Window => return Some(self.audit.take_window(Timestamp::UNIX_EPOCH)),
            Step::Reconnect => {
                self.connection.close(Clock::start().now());
                self.connections += 1;
                (self.connection, self.taps) = connect(&self.queue, self.connections);
            }
        }
        None
    }
}

fn connect(queue: &Arc<Queue>, number: u64) -> (Arc<Connection>, [Tap; 2]) {
    let connection = Arc::new(Connection::new(
        ConnectionId(number),
        "10.0.0.1:40000".parse().unwrap(),
    ));
    let taps = [Direction::Request, Direction::Response].map(|direction| {
        Tap::new(
            Arc::clone(&connection),
            direction,
            Arc::clone(queue),
            Clock::start(),
        )
    });
    (connection, taps)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_window_adds_up_whatever_passes(
        steps in proptest::collection::vec(step(), 1..200),
        piece in prop_oneof![1..30_usize, Just(usize::MAX)],
        room in prop_oneof![Just(2_000_usize), Just(1 << 20)],
    ) {
        let mut observed = Observed::new(room);
        let mut windows: Vec<_> = steps.iter().filter_map(|step| observed.do_step(step, piece)).collect();
        observed.connection.close(Clock::start().now());
        windows.push(observed.audit.stop(Timestamp::UNIX_EPOCH));
        for window in &windows {
            prop_assert_eq!(window.coverage.check(), Ok(()));
        }
        let mut all = windows.swap_remove(0);
        windows.iter().for_each(|window| all.merge(window));
        prop_assert_eq!(all.coverage.check(), Ok(()));
    }
}
