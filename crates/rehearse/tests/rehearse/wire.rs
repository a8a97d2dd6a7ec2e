//! A connection on the wire, audited, and what its exchanges are converted to.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use bytes::{Bytes, BytesMut};
use cqlens_audit::{
    audit::{Audit, HashKey, Options},
    catalog::Live,
};
use cqlens_capture::{Clock, Connection, ConnectionId, Queue, QueueLimits, Tap};
use cqlens_cql::schema::Schema;
use cqlens_proto::{
    compress::{Compression, encode_compressed},
    envelope::{Direction, Envelope, Header, Opcode, StreamId, Version},
    message::{
        ColumnSpec, Consistency, Dialect, Extras, PagingState, Prepare, Query, QueryParameters, QueryResult,
        Request, Response, ResultMetadata, Rows, RowsContent, Startup, result::ColumnSpecsBuf,
    },
    segment::{self, Encoding},
    types::CqlType,
};
use cqlens_rehearse::{
    digest::DigestKey,
    exchange::RecordedExchange,
    left_out::{LeftOut, LeftOutCounts},
    observe::{Exchanges, TakeExchange},
};
use jiff::Timestamp;

const SCHEMA: &str =
    "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE s.t (k int PRIMARY KEY, v text);
    CREATE TABLE other.t (k int PRIMARY KEY, v text);
    CREATE TABLE s.counts (k int PRIMARY KEY, n counter);";

#[derive(Default)]
struct Taken(Mutex<Vec<RecordedExchange>>);

impl TakeExchange for Taken {
    fn take(&self, exchange: &Arc<RecordedExchange>) {
        self.0.lock().unwrap().push((**exchange).clone());
    }
}

/// A connection that is audited.
pub(crate) struct Wire {
    version: Version,
    compression: Compression,
    audit: Audit,
    connection: Arc<Connection>,
    taps: [Tap; 2],
    taken: Arc<Taken>,
    left_out: Arc<LeftOutCounts>,
}

impl Wire {
    pub(crate) fn new(version: Version, compression: Compression) -> Self {
        let live = Arc::new(Live::with_schema(Schema::from_cql(SCHEMA).unwrap()));
        let queue = Arc::new(Queue::new(QueueLimits { bytes: 1 << 30 }));
        let (taken, left_out) = (Arc::<Taken>::default(), Arc::<LeftOutCounts>::default());
        let takers: Vec<Arc<dyn TakeExchange>> = vec![Arc::<Taken>::clone(&taken)];
        let options = Options {
            observer: Exchanges::observer(DigestKey(1), takers, Arc::clone(&left_out)),
            ..Options::default()
        };
        let (key, now) = (HashKey::random(), Timestamp::UNIX_EPOCH);
        let audit = Audit::start_with(Arc::clone(&queue), &live, key, "test", now, &options).unwrap();
        let connection = Arc::new(Connection::new(ConnectionId(3), "127.0.0.1:5".parse().unwrap()));
        let taps = [Direction::Request, Direction::Response].map(|direction| {
            let (connection, queue) = (Arc::clone(&connection), Arc::clone(&queue));
            Tap::new(connection, direction, queue, Clock::start())
        });
        let mut wire = Self {
            version,
            compression: Compression::None,
            audit,
            connection,
            taps,
            taken,
            left_out,
        };
        let options = compression.name().map(|name| ("COMPRESSION", name));
        wire.ask(Request::Startup(Startup {
            options: options.into_iter().collect(),
        }));
        wire.answer(Opcode::READY, Vec::new());
        wire.compression = compression;
        wire
    }

    pub(crate) fn ask(&mut self, request: Request<'_>) {
        let dialect = Dialect::new(self.version);
        let envelope = request.to_envelope(dialect, StreamId(0), &Extras::default());
        self.send(0, &envelope.unwrap());
    }

    pub(crate) fn void(&mut self) {
        self.answer(Opcode::RESULT, vec![0, 0, 0, 1]);
    }

    pub(crate) fn use_keyspace(&mut self, keyspace: &str) {
        let cql = format!("USE {keyspace}");
        self.ask(Request::Query(Query {
            query: &cql,
            parameters: QueryParameters::new(Consistency::One),
        }));
        let len = u16::try_from(keyspace.len()).unwrap();
        let body = [&[0, 0, 0, 3], &len.to_be_bytes()[..], keyspace.as_bytes()].concat();
        self.answer(Opcode::RESULT, body);
    }

    /// Has `cql` prepared as `id`; nothing is said of markers and columns.
    pub(crate) fn prepare(&mut self, cql: &str, id: &[u8; 2]) {
        self.ask(Request::Prepare(Prepare {
            query: cql,
            keyspace: None,
            other_flags: 0,
        }));
        let metadata_id: &[u8] = match self.version {
            Version::V5 => &[0, 1, 7],
            _ => &[],
        };
        let bind: &[u8] = match self.version {
            Version::V3 => &[0; 8],
            _ => &[0; 12],
        };
        let head = [0, 0, 0, 4, 0, 2];
        self.answer(
            Opcode::RESULT,
            [&head, &id[..], metadata_id, bind, &[0, 0, 0, 4, 0, 0, 0, 0]].concat(),
        );
    }

    /// Answers that the server does not know the prepared statement.
    pub(crate) fn unprepared(&mut self, id: &[u8; 2]) {
        self.answer(Opcode::ERROR, [&[0, 0, 0x25, 0, 0, 0, 0, 2], &id[..]].concat());
    }

    /// Answers with rows of one column.
    pub(crate) fn rows(&mut self, cells: &[&[u8]], next: Option<&[u8]>) {
        let column = ColumnSpec {
            keyspace: "s",
            table: "t",
            name: "v",
            column_type: CqlType::Text,
        };
        let columns = ColumnSpecsBuf::new(&[column]).unwrap();
        let mut content = RowsContent::new(1);
        cells.iter().for_each(|cell| content.push([Some(*cell)]).unwrap());
        let mut metadata = ResultMetadata::new(columns.columns());
        metadata.paging_state = next.map(PagingState);
        let rows = Response::Result(QueryResult::Rows(Rows::new(metadata, &content).unwrap()));
        let dialect = Dialect::new(self.version);
        let envelope = rows.to_envelope(dialect, StreamId(0), &Extras::default());
        self.send(1, &envelope.unwrap());
    }

    fn answer(&mut self, opcode: Opcode, body: Vec<u8>) {
        let header = Header::response(self.version, StreamId(0), opcode);
        let body = Bytes::from(body);
        self.send(1, &Envelope { header, body });
    }

    fn send(&mut self, tap: usize, envelope: &Envelope) {
        let mut wire = BytesMut::new();
        let in_segments = self.version.uses_segments();
        let compression = match in_segments {
            true => Compression::None,
            false => self.compression,
        };
        encode_compressed(envelope, compression, &mut wire).unwrap();
        if in_segments && !matches!(envelope.header.opcode, Opcode::STARTUP | Opcode::READY) {
            let encoding = match self.compression {
                Compression::None => Encoding::Plain,
                _ => Encoding::Lz4,
            };
            let mut segments = BytesMut::new();
            segment::encode_envelopes(encoding, &wire, &mut segments).unwrap();
            wire = segments;
        }
        let mut wire = wire.freeze();
        while !wire.is_empty() {
            let chunk = wire.split_to(wire.len().min(64 << 10));
            self.taps[tap].offer(&chunk);
        }
    }

    /// What was taken, and what was left out.
    pub(crate) fn stop(self) -> (Vec<RecordedExchange>, BTreeMap<LeftOut, u64>) {
        self.connection.close(Clock::start().now());
        let window = self.audit.stop(Timestamp::UNIX_EPOCH);
        let coverage = &window.coverage;
        assert_eq!(
            (coverage.responses_lost, coverage.undecoded, coverage.dropped),
            (0, 0, 0)
        );
        let taken = std::mem::take(&mut *self.taken.0.lock().unwrap());
        (taken, self.left_out.by_reason())
    }
}
