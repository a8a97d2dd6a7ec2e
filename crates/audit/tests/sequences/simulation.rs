//! Applications in simulated time: users who send operations, over connections that they share.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use cqlens_audit::{
    audit::{Audit, HashKey},
    capture::{Connection, ConnectionId, Moment, ReplayQueue, ReplayTap},
    catalog::Live,
    window::Window,
};
use cqlens_cql::schema::Schema;
use cqlens_proto::{
    envelope::{Direction, Envelope, Flags, Header, Opcode, StreamId, Version},
    message::{
        Batch, BatchKind, BatchQuery, BatchStatement, Consistency, Dialect, Extras, Query, QueryParameters,
        QueryResult, Request, Response, ResultMetadata, Rows, RowsContent, Startup, Value, ValuesBuf,
    },
};
use jiff::Timestamp;

/// In nanoseconds.
pub(crate) type Time = i64;

pub(crate) const MILLISECOND: Time = 1_000_000;

/// Numbers that look random and are the same in every run (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From `from` to below `to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    /// A part of one.
    pub(crate) fn part(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `end`, the lower ones more often: as words are, by Zipf's law.
    pub(crate) fn popular(&mut self, end: u64) -> u64 {
        ((end as f64).powf(self.part()) as u64 - 1).min(end - 1)
    }

    /// Times as events have them that come by themselves, `mean` on the average.
    pub(crate) fn pause(&mut self, mean: Time) -> Time {
        (-(1.0 - self.part()).ln() * mean as f64) as Time
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

pub(crate) type Cell = Vec<u8>;

/// What is sent at once, after a pause; the next one waits for all answers.
pub(crate) struct Stage {
    pub(crate) after: Time,
    pub(crate) requests: Vec<Statement>,
}

/// A statement, and what the server answers.
pub(crate) struct Statement {
    /// Several are a logged batch.
    pub(crate) parts: Vec<(&'static str, Vec<Cell>)>,
    pub(crate) rows: Vec<Vec<Cell>>,
    pub(crate) fails: bool,
}

/// A read with its rows.
pub(crate) fn read(cql: &'static str, values: Vec<Cell>, rows: Vec<Vec<Cell>>) -> Statement {
    Statement {
        parts: vec![(cql, values)],
        rows,
        fails: false,
    }
}

/// A write.
pub(crate) fn write(cql: &'static str, values: Vec<Cell>) -> Statement {
    read(cql, values, Vec::new())
}

/// Requests that are sent at once, a moment after what came before.
pub(crate) fn stage(requests: Vec<Statement>) -> Stage {
    Stage {
        after: MILLISECOND / 5,
        requests,
    }
}

/// An application: users who do one operation after the other.
pub(crate) struct Application {
    pub(crate) name: &'static str,
    pub(crate) users: u64,
    /// Connections that its users share.
    pub(crate) connections: u64,
    /// Between two operations of one user.
    pub(crate) pause: Time,
    /// Any of them.
    pub(crate) operations: Vec<fn(&mut Random) -> Vec<Stage>>,
}

/// Something that passes.
struct Event {
    at: Time,
    connection: usize,
    direction: Direction,
    bytes: Bytes,
}

/// The window after `duration` of these applications on one cluster.
pub(crate) fn observe(schema: &str, applications: &[Application], duration: Time, seed: u64) -> Window {
    let mut random = Random(seed);
    let mut events = Vec::new();
    let mut connections = 0;
    for application in applications {
        let first = connections;
        connections += application.connections as usize;
        for connection in first..connections {
            open(connection, application.name, &mut events);
        }
        for _ in 0..application.users {
            let mut at = START + random.pause(application.pause);
            while at < START + duration {
                let operation = random.below(application.operations.len() as u64) as usize;
                for stage in application.operations[operation](&mut random) {
                    at += random.pause(stage.after);
                    let answered = stage.requests.iter().map(|statement| {
                        let connection = first + random.below(application.connections) as usize;
                        send(statement, at, connection, &mut random, &mut events)
                    });
                    at = answered.max().unwrap_or(at);
                }
                at += random.pause(application.pause);
            }
        }
    }
    events.sort_by_key(|event| event.at);
    replay(schema, connections, events, duration)
}

/// After connections are open.
const START: Time = 1_760_000_000_000_000_000;

fn replay(schema: &str, connections: usize, events: Vec<Event>, duration: Time) -> Window {
    let live = Arc::new(Live::with_schema(Schema::from_cql(schema).unwrap()));
    let queue = Arc::new(ReplayQueue::new(64 << 20));
    let key = "000102030405060708090a0b0c0d0e0f".parse::<HashKey>().unwrap();
    let start = Moment::from_unix_nanoseconds(START).timestamp();
    let audit = Audit::start(Arc::clone(&queue), &live, key, "test", start).unwrap();
    let mut taps: Vec<[ReplayTap; 2]> = (0..connections)
        .map(|number| {
            let client = SocketAddr::new(IpAddr::from([10, 0, 0, 1]), 5_000);
            let connection = Arc::new(Connection::recorded(ConnectionId(number as u64), client));
            [Direction::Request, Direction::Response]
                .map(|direction| ReplayTap::new(Arc::clone(&connection), direction, Arc::clone(&queue)))
        })
        .collect();
    for event in events {
        let tap = &mut taps[event.connection][usize::from(event.direction == Direction::Response)];
        let at = Moment::from_unix_nanoseconds(event.at);
        tap.offer(event.bytes, at).unwrap();
    }
    drop(taps);
    queue.wait_until_empty();
    audit.stop(Timestamp::from_nanosecond(i128::from(START + duration)).unwrap())
}

fn open(connection: usize, application: &str, events: &mut Vec<Event>) {
    let options = vec![("APPLICATION_NAME", application)];
    let startup = Request::Startup(Startup { options });
    let envelope = startup
        .to_envelope(DIALECT, StreamId(0), &Extras::default())
        .unwrap();
    let ready = Envelope {
        header: Header::response(Version::V4, StreamId(0), Opcode::READY),
        body: Bytes::new(),
    };
    for (at, direction, envelope) in [
        (START - 2, Direction::Request, envelope),
        (START - 1, Direction::Response, ready),
    ] {
        events.push(Event {
            at,
            connection,
            direction,
            bytes: bytes(&envelope),
        });
    }
}

const DIALECT: Dialect = Dialect::new(Version::V4);

/// When the answer comes.
fn send(
    statement: &Statement,
    at: Time,
    connection: usize,
    random: &mut Random,
    events: &mut Vec<Event>,
) -> Time {
    // Another request of the same stream is answered by then.
    let stream = StreamId(i16::try_from(events.len() / 2 % 30_000).unwrap());
    let answered = at + MILLISECOND / 3 + random.pause(MILLISECOND / 2);
    for (at, direction, envelope) in [
        (at, Direction::Request, request(statement, stream)),
        (answered, Direction::Response, response(statement, stream)),
    ] {
        events.push(Event {
            at,
            connection,
            direction,
            bytes: bytes(&envelope),
        });
    }
    answered
}

fn request(statement: &Statement, stream: StreamId) -> Envelope {
    let bound: Vec<ValuesBuf> = statement
        .parts
        .iter()
        .map(|(_, cells)| ValuesBuf::positional(cells.iter().map(|cell| Value::Bytes(cell))).unwrap())
        .collect();
    let request = match &statement.parts[..] {
        [(cql, _)] => Request::Query(Query {
            query: cql,
            parameters: QueryParameters {
                values: bound[0].values(),
                ..QueryParameters::new(Consistency::LocalQuorum)
            },
        }),
        parts => Request::Batch(Batch {
            kind: BatchKind::Logged,
            statements: parts
                .iter()
                .zip(&bound)
                .map(|((cql, _), values)| BatchStatement {
                    query: BatchQuery::Text(cql),
                    values: values.values(),
                })
                .collect(),
            consistency: Consistency::LocalQuorum,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
            other_flags: 0,
        }),
    };
    request.to_envelope(DIALECT, stream, &Extras::default()).unwrap()
}

fn response(statement: &Statement, stream: StreamId) -> Envelope {
    let (opcode, body) = match statement {
        Statement { fails: true, .. } => (
            Opcode::ERROR,
            Bytes::from_static(b"\0\0\x11\0\0\x02no\0\x06\0\0\0\x01\0\0\0\x02\0\x06SIMPLE"),
        ),
        Statement { rows, .. } if rows.is_empty() => (Opcode::RESULT, Bytes::from_static(&[0, 0, 0, 1])),
        Statement { rows, .. } => {
            let width = rows[0].len();
            let mut content = RowsContent::new(width);
            for row in rows {
                content.push(row.iter().map(|cell| Some(&cell[..]))).unwrap();
            }
            let metadata = ResultMetadata {
                column_count: width,
                ..ResultMetadata::none()
            };
            let rows = Response::Result(QueryResult::Rows(Rows::new(metadata, &content).unwrap()));
            let mut body = BytesMut::new();
            rows.encode(DIALECT, &mut body).unwrap();
            (Opcode::RESULT, body.freeze())
        }
    };
    let mut header = Header::response(Version::V4, stream, opcode);
    header.flags = Flags(0);
    Envelope { header, body }
}

fn bytes(envelope: &Envelope) -> Bytes {
    let mut wire = BytesMut::new();
    envelope.encode(&mut wire).unwrap();
    wire.freeze()
}
