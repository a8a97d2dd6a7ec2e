//! Tests of requests and responses that are too long to be kept: of the head of each is counted what it says,
//! of the rest the bytes.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cqlens_proto::{
    compress::{Compression, encode_compressed},
    envelope::{Direction, Envelope, HEADER_LEN, Header, Opcode, StreamId, Version},
    message::{
        Batch, BatchKind, BatchQuery, BatchStatement, Consistency, Dialect, Execute, Extras, Prepare,
        PreparedId, Query, QueryParameters, QueryResult, Request, Response, ResultMetadata, ResultMetadataId,
        Rows, RowsContent, Startup, Value, ValuesBuf,
    },
    segment::{self, Encoding},
};
use jiff::Timestamp;

use crate::audit::{Audit, HashKey};
use crate::catalog::Live;
use cqlens_capture::{Clock, Connection, ConnectionId, Queue, QueueLimits, Tap};
use cqlens_cql::schema::Schema;
use cqlens_window::{Pattern, Window};

const SCHEMA: &str =
    "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE s.t (k int PRIMARY KEY, v blob);";

/// Longer than what is kept, compressed or not.
const LONG: usize = 20 << 20;

const READ: &str = "SELECT v FROM s.t WHERE k = 1";
const INSERT: &str = "INSERT INTO s.t (k, v) VALUES (?, ?)";
const VALUE_FIRST: &str = "INSERT INTO s.t (v, k) VALUES (?, ?)";

/// A connection that is audited.
struct Observed {
    version: Version,
    compression: Compression,
    audit: Audit,
    connection: Arc<Connection>,
    taps: [Tap; 2],
}

impl Observed {
    fn new(version: Version, compression: Compression) -> Self {
        let live = Arc::new(Live::with_schema(Schema::from_cql(SCHEMA).unwrap()));
        let queue = Arc::new(Queue::new(QueueLimits { bytes: 1 << 30 }));
        let now = Timestamp::UNIX_EPOCH;
        let audit = Audit::start(Arc::clone(&queue), &live, HashKey::random(), "test", now).unwrap();
        let connection = Arc::new(Connection::new(ConnectionId(0), "127.0.0.1:5".parse().unwrap()));
        let taps = [Direction::Request, Direction::Response].map(|direction| {
            Tap::new(
                Arc::clone(&connection),
                direction,
                Arc::clone(&queue),
                Clock::start(),
            )
        });
        let mut observed = Self {
            version,
            compression: Compression::None,
            audit,
            connection,
            taps,
        };
        let options = compression.name().map(|name| ("COMPRESSION", name));
        observed.ask(Request::Startup(Startup {
            options: options.into_iter().collect(),
        }));
        let ready = observed.response(Opcode::READY, Bytes::new());
        observed.send(1, &ready);
        observed.compression = compression;
        observed
    }

    fn response(&self, opcode: Opcode, body: Bytes) -> Envelope {
        let header = Header::response(self.version, StreamId(0), opcode);
        Envelope { header, body }
    }

    fn ask(&mut self, request: Request<'_>) -> usize {
        let dialect = Dialect::new(self.version);
        let envelope = request
            .to_envelope(dialect, StreamId(0), &Extras::default())
            .unwrap();
        self.send(0, &envelope);
        HEADER_LEN + envelope.body.len()
    }

    fn answer(&mut self, opcode: Opcode, body: impl Into<Bytes>) -> usize {
        let envelope = self.response(opcode, body.into());
        self.send(1, &envelope);
        HEADER_LEN + envelope.body.len()
    }

    fn void(&mut self) {
        self.answer(Opcode::RESULT, vec![0, 0, 0, 1]);
    }

    fn send(&mut self, tap: usize, envelope: &Envelope) {
        let mut wire = BytesMut::new();
        let in_segments = self.version.uses_segments();
        let compression = if in_segments {
            Compression::None
        } else {
            self.compression
        };
        encode_compressed(envelope, compression, &mut wire).unwrap();
        if in_segments && !matches!(envelope.header.opcode, Opcode::STARTUP | Opcode::READY) {
            let encoding = match self.compression {
                Compression::None => Encoding::Plain,
                _ => Encoding::Lz4,
            };
            let mut segments = BytesMut::new();
            let parts = wire.chunks(100_000);
            let is_whole = parts.len() == 1;
            parts.for_each(|part| segment::encode(encoding, is_whole, part, &mut segments).unwrap());
            wire = segments;
        }
        let mut wire = wire.freeze();
        while !wire.is_empty() {
            let chunk = wire.split_to(wire.len().min(64 << 10));
            self.taps[tap].offer(&chunk);
        }
    }

    /// Has `cql` prepared as `id`.
    fn prepare(&mut self, cql: &str, id: &[u8; 2]) {
        self.ask(Request::Prepare(Prepare {
            query: cql,
            keyspace: None,
            other_flags: 0,
        }));
        let metadata_id: &[u8] = if self.version == Version::V5 {
            &[0, 1, 7]
        } else {
            &[]
        };
        // No bind markers described, no result columns.
        let bind: &[u8] = if self.version != Version::V3 {
            &[0; 12]
        } else {
            &[0; 8]
        };
        let body = [
            &[0, 0, 0, 4, 0, 2][..],
            id,
            metadata_id,
            bind,
            &[0, 0, 0, 4, 0, 0, 0, 0],
        ]
        .concat();
        self.answer(Opcode::RESULT, body);
    }

    fn execute(&mut self, id: &[u8; 2], values: &ValuesBuf) -> usize {
        let version = self.version;
        self.ask(Request::Execute(Execute {
            id: PreparedId(id),
            result_metadata_id: (version == Version::V5).then_some(ResultMetadataId(&[7])),
            parameters: QueryParameters {
                values: values.values(),
                ..QueryParameters::new(Consistency::Quorum)
            },
        }))
    }

    fn stop(self) -> Window {
        self.connection.close(Clock::start().now());
        let window = self.audit.stop(Timestamp::UNIX_EPOCH);
        let coverage = &window.coverage;
        let (lost, unanswered) = (coverage.responses_lost, coverage.unanswered);
        assert_eq!(
            (lost, unanswered, coverage.undecoded, coverage.dropped),
            (0, 0, 0, 0)
        );
        window
    }
}

/// Bytes that no algorithm makes much shorter.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = Vec::with_capacity(length + 8);
    while noise.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        noise.extend(state.to_be_bytes());
    }
    noise.truncate(length);
    noise
}

/// A RESULT with so many rows of one column.
fn rows(count: usize, cell: &[u8]) -> Vec<u8> {
    let mut content = RowsContent::new(1);
    (0..count).for_each(|_| content.push([Some(cell)]).unwrap());
    let metadata = ResultMetadata {
        column_count: 1,
        ..ResultMetadata::none()
    };
    let rows = Response::Result(QueryResult::Rows(Rows::new(metadata, &content).unwrap()));
    let mut body = BytesMut::new();
    rows.encode(Dialect::new(Version::V4), &mut body).unwrap();
    body.to_vec()
}

fn query(cql: &str) -> Request<'_> {
    Request::Query(Query {
        query: cql,
        parameters: QueryParameters::new(Consistency::One),
    })
}

fn bound(values: &[&[u8]]) -> ValuesBuf {
    ValuesBuf::positional(values.iter().map(|value| Value::Bytes(value))).unwrap()
}

fn only(window: &Window) -> &Pattern {
    assert_eq!(window.patterns.len(), 1, "{:?}", window.patterns);
    window.patterns.values().next().unwrap()
}

/// Every framing and compression there is.
const WIRES: [(Version, Compression); 6] = [
    (Version::V3, Compression::None),
    (Version::V4, Compression::None),
    (Version::V4, Compression::Lz4),
    (Version::V4, Compression::Snappy),
    (Version::V5, Compression::None),
    (Version::V5, Compression::Lz4),
];

#[test]
fn a_result_that_is_too_long_is_an_answer_with_rows_bytes_and_latency() {
    for (version, compression) in WIRES {
        // Too long on the wire, and only once it is decompressed; with few rows and with very many.
        for (count, cell) in [(20, noise(LONG / 20)), (200_000, vec![7; LONG / 200_000])] {
            let mut observed = Observed::new(version, compression);
            observed.ask(query(READ));
            let bytes = observed.answer(Opcode::RESULT, rows(count, &cell));
            assert!(bytes > LONG);
            observed.ask(query(READ));
            observed.void();
            let window = observed.stop();
            let pattern = only(&window);
            let what = format!("{version:?} {compression:?} {count} rows");
            assert_eq!((pattern.count, pattern.latency_us.count()), (2, 2), "{what}");
            assert_eq!(
                (pattern.rows.count(), pattern.rows.max()),
                (1, count as u64),
                "{what}"
            );
            assert_eq!(pattern.response_bytes.max(), bytes as u64, "{what}");
            assert_eq!(pattern.response_bytes.count(), 2, "{what}");
            assert_eq!(window.coverage.rows_unknown, 0, "{what}");
        }
    }
}

#[test]
fn one_whose_head_does_not_tell_its_rows_is_an_answer_all_the_same() {
    let mut observed = Observed::new(Version::V4, Compression::Lz4);
    observed.ask(query(READ));
    // RESULT Rows with columns that have a page state of 1 MiB before them.
    let body = [
        &[0, 0, 0, 2, 0, 0, 0, 6, 0, 0, 0, 1, 0, 16, 0, 0][..],
        &noise(LONG),
    ]
    .concat();
    let bytes = observed.answer(Opcode::RESULT, body);
    let window = observed.stop();
    let pattern = only(&window);
    assert_eq!((pattern.latency_us.count(), pattern.rows.count()), (1, 0));
    assert_eq!(pattern.response_bytes.max(), bytes as u64);
    assert_eq!(window.coverage.rows_unknown, 1);
}

#[test]
fn an_error_that_is_too_long_is_an_error() {
    for compression in [Compression::None, Compression::Snappy] {
        let mut observed = Observed::new(Version::V4, compression);
        observed.ask(query(READ));
        observed.answer(Opcode::ERROR, [&[0, 0, 0x12, 0][..], &noise(LONG)].concat());
        let window = observed.stop();
        assert_eq!(only(&window).errors, 1);
        assert_eq!(window.coverage.responses_lost, 0);
    }
}

#[test]
fn an_execute_that_is_too_long_is_counted_with_its_statement() {
    let key = 1_i32.to_be_bytes();
    let long = noise(LONG);
    for (version, compression) in WIRES {
        // The partition is known where its value comes before the long one.
        for (cql, values, exact) in [
            (INSERT, bound(&[&key, &long]), 1),
            (VALUE_FIRST, bound(&[&long, &key]), 0),
        ] {
            let mut observed = Observed::new(version, compression);
            observed.prepare(cql, b"id");
            let bytes = observed.execute(b"id", &values);
            assert!(bytes > LONG);
            observed.void();
            let window = observed.stop();
            let pattern = only(&window);
            let what = format!("{version:?} {compression:?} {cql}");
            assert_eq!(pattern.head.table.as_deref(), Some("t"), "{what}");
            assert_eq!((pattern.prepared, pattern.latency_us.count()), (1, 1), "{what}");
            assert_eq!(pattern.request_bytes.max(), bytes as u64, "{what}");
            assert_eq!(window.coverage.partitions_exact, exact, "{what}");
            let cut = window.coverage.unknown_reasons.get("request-cut").copied();
            assert_eq!(cut, (exact == 0).then_some(1), "{what}");
        }
    }
}

#[test]
fn a_query_that_is_too_long_is_counted_by_its_text_or_the_beginning_of_it() {
    let long = noise(LONG);
    let mut observed = Observed::new(Version::V4, Compression::None);
    let values = bound(&[&1_i32.to_be_bytes(), &long]);
    let parameters = QueryParameters {
        values: values.values(),
        ..QueryParameters::new(Consistency::One)
    };
    observed.ask(Request::Query(Query {
        query: INSERT,
        parameters,
    }));
    observed.void();
    let window = observed.stop();
    assert_eq!(
        (only(&window).unprepared, window.coverage.partitions_exact),
        (1, 1)
    );

    let text = format!("INSERT INTO s.t (k, v) VALUES (1, 0x{})", "ab".repeat(LONG / 2));
    let mut observed = Observed::new(Version::V4, Compression::None);
    let bytes = observed.ask(query(&text));
    // What it has defined, if it is that, is not known.
    observed.void();
    let window = observed.stop();
    let pattern = only(&window);
    assert_eq!((pattern.unprepared, pattern.latency_us.count()), (1, 1));
    assert_eq!(pattern.request_bytes.max(), bytes as u64);
    assert!(
        pattern.head.cql.starts_with("INSERT INTO s.t"),
        "{}",
        pattern.head.cql
    );
    assert!(pattern.consistency.is_empty(), "it is behind the text");
    assert_eq!(window.coverage.unknown_reasons.get("request-cut"), Some(&1));
}

#[test]
fn a_batch_that_is_too_long_is_counted_by_the_statements_of_its_head() {
    let (key, long) = (1_i32.to_be_bytes(), noise(1 << 20));
    for (version, compression) in WIRES {
        let mut observed = Observed::new(version, compression);
        observed.prepare(INSERT, b"id");
        let values = bound(&[&key, &long]);
        let statement = |_| BatchStatement {
            query: BatchQuery::Prepared(PreparedId(b"id")),
            values: values.values(),
        };
        let bytes = observed.ask(Request::Batch(Batch::new(
            BatchKind::Unlogged,
            (0..20).map(statement).collect(),
            Consistency::One,
        )));
        observed.void();
        let window = observed.stop();
        let pattern = only(&window);
        assert_eq!(pattern.head.table.as_deref(), Some("t"));
        assert_eq!((pattern.count, pattern.latency_us.count()), (1, 1));
        assert_eq!(pattern.request_bytes.max(), bytes as u64);
        assert_eq!(window.coverage.unknown_reasons.get("request-cut"), Some(&1));
    }
}

#[test]
fn a_read_with_a_value_that_is_too_long_is_not_taken_for_one_without_pages() {
    let long = noise(LONG);
    for page_size in [None, Some(5_000)] {
        let mut observed = Observed::new(Version::V4, Compression::None);
        let values = bound(&[&long]);
        observed.ask(Request::Query(Query {
            query: "SELECT k FROM s.t WHERE v = ? ALLOW FILTERING",
            parameters: QueryParameters {
                values: values.values(),
                page_size,
                ..QueryParameters::new(Consistency::One)
            },
        }));
        observed.answer(Opcode::RESULT, rows(3, b"v"));
        let window = observed.stop();
        let pattern = only(&window);
        assert_eq!(
            (pattern.rows.max(), pattern.unpaged),
            (3, u64::from(page_size.is_none()))
        );
    }
}
