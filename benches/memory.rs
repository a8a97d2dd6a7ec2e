//! How much memory does the audit keep? Resident memory of this process while it audits 1,000 connections
//! that send 100,000 different statements and 10 million executions with a partition key of their own each.
//!
//! Everything but the sockets is the proxy's own: taps, queue, auditor, windows that are taken and merged as
//! a running report does. Linux only: it reads `/proc/self/statm`.
#![allow(clippy::print_stdout, reason = "the table is what this prints")]

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use cqlens_audit::{
    audit::{Audit, HashKey},
    catalog::{Live, PreparedStatement},
};
use cqlens_capture::{Clock, Connection, ConnectionId, Queue, QueueLimits, Tap};
use cqlens_cql::schema::Schema;
use cqlens_proto::{
    envelope::{Direction, Envelope, Header, Opcode, StreamId, Version},
    message::{
        Consistency, Dialect, Execute, Extras, PreparedId, Query, QueryParameters, Request, Value, ValuesBuf,
    },
};
use cqlens_window::{MAX_PATTERNS, Window};
use jiff::Timestamp;

const CONNECTIONS: u64 = 1_000;
const TEMPLATES: u64 = 100_000;
const KEYS: u64 = 10_000_000;
/// Requests of one read of a connection.
const DEPTH: u64 = 32;
/// Requests after which a line is printed.
const STEP: u64 = 1_000_000;
/// Requests that are on their way to the auditor at most.
const AHEAD: u64 = 100_000;

const SCHEMA: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};
     CREATE TABLE shop.users (user_id bigint PRIMARY KEY, name text);";
const ID: PreparedId<'static> = PreparedId(&[7; 16]);
const DIALECT: Dialect = Dialect::new(Version::V4);

fn main() {
    let mut clients = Clients::new();
    println!("| requests | resident MiB | patterns | distinct partitions |");
    println!("| --- | --- | --- | --- |");
    clients.print();
    for number in 0..TEMPLATES {
        clients.send(&query(number));
    }
    clients.wait();
    clients.print();
    for number in 0..KEYS {
        clients.send(&execute(number));
        if (number + 1).is_multiple_of(STEP) {
            clients.wait();
            clients.print();
        }
    }
    let coverage = &clients.all.coverage;
    assert_eq!(coverage.audited, TEMPLATES + KEYS, "{coverage:?}");
    println!(
        "\n{MAX_PATTERNS} patterns are kept, {} requests had others; distinct partitions have a standard error of 2.3 %",
        coverage.patterns_overflowed
    );
}

/// A statement of a template of its own.
fn query(number: u64) -> Envelope {
    let cql = format!("SELECT name AS name_{number} FROM shop.users WHERE user_id = 1");
    let parameters = QueryParameters::new(Consistency::LocalQuorum);
    let query = Request::Query(Query {
        query: &cql,
        parameters,
    });
    envelope(&query)
}

/// A read of a partition of its own.
fn execute(key: u64) -> Envelope {
    let values = ValuesBuf::positional([Value::Bytes(&key.to_be_bytes())]).expect("one value fits");
    let parameters = QueryParameters {
        values: values.values(),
        ..QueryParameters::new(Consistency::LocalQuorum)
    };
    envelope(&Request::Execute(Execute {
        id: ID,
        result_metadata_id: None,
        parameters,
    }))
}

fn envelope(request: &Request<'_>) -> Envelope {
    request
        .to_envelope(DIALECT, StreamId(0), &Extras::default())
        .expect("the request fits")
}

/// One row of one column, without metadata, as drivers ask for it.
fn row(stream: StreamId) -> Envelope {
    const BODY: &[u8] = &[
        0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, b'a', b'n', b'n', b'a',
    ];
    Envelope {
        header: Header::response(Version::V4, stream, Opcode::RESULT),
        body: Bytes::from_static(BODY),
    }
}

/// A thousand connections, and the audit that watches them.
struct Clients {
    connections: Vec<(Tap, Tap)>,
    /// The connection whose turn it is.
    turn: usize,
    requests: BytesMut,
    responses: BytesMut,
    /// Requests in `requests`.
    pending: u64,
    sent: u64,
    audit: Audit,
    /// All windows, merged.
    all: Window,
}

impl Clients {
    fn new() -> Self {
        let live = Arc::new(Live::with_schema(
            Schema::from_cql(SCHEMA).expect("the schema is CQL"),
        ));
        let select = "SELECT name FROM shop.users WHERE user_id = ?";
        live.prepared
            .insert(ID.0, PreparedStatement::from_text(select.to_owned(), None));
        let queue = Arc::new(Queue::new(QueueLimits::default()));
        let clock = Clock::start();
        let connections = (0..CONNECTIONS).map(|number| {
            let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
            let connection = Arc::new(Connection::new(ConnectionId(number), client));
            let tap = |direction| Tap::new(Arc::clone(&connection), direction, Arc::clone(&queue), clock);
            (tap(Direction::Request), tap(Direction::Response))
        });
        let now = Timestamp::now();
        Self {
            connections: connections.collect(),
            turn: 0,
            requests: BytesMut::new(),
            responses: BytesMut::new(),
            pending: 0,
            sent: 0,
            audit: Audit::start(Arc::clone(&queue), &live, HashKey::random(), "bench", now)
                .expect("a thread can be started"),
            all: Window::new(now, "bench"),
        }
    }

    /// Sends a request and its response, [`DEPTH`] at a time.
    fn send(&mut self, request: &Envelope) {
        let stream = StreamId(i16::try_from(self.pending).expect("DEPTH fits"));
        let mut request = request.clone();
        request.header.stream_id = stream;
        request.encode(&mut self.requests).expect("the body is short");
        row(stream)
            .encode(&mut self.responses)
            .expect("the body is short");
        self.pending += 1;
        self.sent += 1;
        if self.pending == DEPTH {
            self.flush();
        }
        if self.sent.is_multiple_of(AHEAD) {
            self.wait();
        }
    }

    fn flush(&mut self) {
        let (requests, responses) = &mut self.connections[self.turn];
        requests.offer(&self.requests.split().freeze());
        responses.offer(&self.responses.split().freeze());
        self.turn = (self.turn + 1) % self.connections.len();
        self.pending = 0;
    }

    /// Waits until the auditor has caught up.
    fn wait(&mut self) {
        self.flush();
        loop {
            self.all.merge(&self.audit.take_window(Timestamp::now()));
            let coverage = &self.all.coverage;
            if coverage.audited + coverage.dropped >= self.sent {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn print(&self) {
        let distinct = self
            .all
            .tables
            .values()
            .map(|table| table.distinct_partitions.estimate())
            .max();
        println!(
            "| {} | {} | {} | {} |",
            self.sent,
            resident_bytes() >> 20,
            self.all.patterns.len(),
            distinct.unwrap_or(0)
        );
    }
}

fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE
}
