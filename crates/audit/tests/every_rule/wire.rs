//! A connection whose bytes are audited: what a client sends, and what some server answers.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use cqlens_audit::{
    audit::{Audit, HashKey},
    catalog::{self, Live, Node},
};
use cqlens_capture::{Connection, ConnectionId, Moment, ReplayQueue, ReplayTap};
use cqlens_cql::{Product, schema::Schema};
use cqlens_proto::{
    envelope::{Direction, Envelope, Flags, Header, Opcode, StreamId, Version},
    message::{
        Batch, BatchKind, BatchQuery, BatchStatement, Consistency, Dialect, Execute, Extras, PagingState,
        Prepare, PreparedId, Query, QueryParameters, QueryResult, Request, Response, ResultMetadata, Rows,
        RowsContent, SerialConsistency, Startup, Value, ValuesBuf,
    },
};
use cqlens_rules::{Context, Finding, Settings};
use cqlens_window::Window;
use jiff::Timestamp;

/// What everything is about, on two keyspaces: one in one datacenter, one in two.
pub(crate) const SCHEMA: &str = "
    CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
    CREATE KEYSPACE two WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 3};
    CREATE TABLE shop.users (id int PRIMARY KEY, name text, phone text, tags set<text>, emails list<text>);
    CREATE TABLE shop.orders (customer int, at int, total int, note text, PRIMARY KEY (customer, at));
    CREATE TABLE shop.grid (a int, b int, v int, PRIMARY KEY ((a, b)));
    CREATE TABLE shop.people (id int PRIMARY KEY, email text, state text);
    CREATE INDEX by_email ON shop.people (email);
    CREATE INDEX by_state ON shop.people (state);
    CREATE TABLE shop.hits (page int PRIMARY KEY, n counter);
    CREATE TABLE shop.events (sensor int, at timestamp, v int, PRIMARY KEY (sensor, at))
        WITH compaction = {'class': 'TimeWindowCompactionStrategy'};
    CREATE TABLE shop.names (name text PRIMARY KEY, owner text);
    CREATE MATERIALIZED VIEW shop.names_by_owner AS SELECT * FROM shop.names
        WHERE owner IS NOT NULL AND name IS NOT NULL PRIMARY KEY (owner, name);
    CREATE TABLE two.users (id int PRIMARY KEY, name text);";

/// A statement, and how it is sent.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) cql: &'a str,
    pub(crate) values: &'a [Cell<'a>],
    pub(crate) consistency: Consistency,
    pub(crate) serial: Option<Consistency>,
    pub(crate) page_size: Option<i32>,
    pub(crate) paging_state: Option<&'a [u8]>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) traced: bool,
    pub(crate) as_text: bool,
}

/// A value that is bound.
#[derive(Clone, Copy)]
pub(crate) enum Cell<'a> {
    Int(i32),
    Text(&'a str),
    Bytes(&'a [u8]),
    Null,
}

/// What the server answers.
#[derive(Clone, Copy)]
pub(crate) enum Answer<'a> {
    Void,
    /// So many rows of one cell of so many bytes.
    Rows(usize, usize),
    /// A row for each of these numbers.
    Ints(&'a [i32]),
    /// The same as `Rows`, with more to come.
    Page(usize, usize),
    /// One row, with more to come from this state on.
    First(&'a [u8]),
    Error(i32),
    /// Rows with a warning.
    Warned(&'a str),
}

/// A prepared statement at LOCAL_QUORUM, in pages of 5,000 rows.
pub(crate) fn ask<'a>(cql: &'a str, values: &'a [Cell<'a>]) -> Ask<'a> {
    Ask {
        cql,
        values,
        consistency: Consistency::LocalQuorum,
        serial: None,
        page_size: Some(5_000),
        paging_state: None,
        timestamp: None,
        traced: false,
        as_text: false,
    }
}

/// One row of a few bytes.
pub(crate) const ROW: Answer<'static> = Answer::Rows(1, 8);

/// Between a request and its response, and from there to the next request.
const STEP: Duration = Duration::from_micros(100);

pub(crate) struct Wire {
    live: Arc<Live>,
    audit: Audit,
    queue: Arc<ReplayQueue>,
    connection: Arc<Connection>,
    taps: [ReplayTap; 2],
    /// Each message comes a while after the one before, however busy the machine is.
    now: Moment,
    connections: u64,
    version: Version,
    stream: StreamId,
    prepared: Vec<String>,
    driver: &'static str,
    is_compressed: bool,
    /// Connections beside the one at hand.
    kept: Vec<Arc<Connection>>,
}

/// The key of all windows that are compared.
static KEY: LazyLock<HashKey> = LazyLock::new(HashKey::random);

impl Wire {
    pub(crate) fn new(schema: &str, version: Version) -> Self {
        Self::of_source("test", schema, version)
    }

    pub(crate) fn of_source(source: &str, schema: &str, version: Version) -> Self {
        let live = Arc::new(Live::with_schema(Schema::from_cql(schema).unwrap()));
        live.replace_cluster(ring());
        let queue = Arc::new(ReplayQueue::new(64 << 20));
        let audit = Audit::start(Arc::clone(&queue), &live, *KEY, source, Timestamp::UNIX_EPOCH).unwrap();
        let (connection, taps) = open(&queue, 0);
        let mut wire = Self {
            live,
            audit,
            queue,
            connection,
            taps,
            now: Timestamp::now().into(),
            connections: 0,
            version,
            stream: StreamId(1),
            prepared: Vec::new(),
            driver: "test",
            is_compressed: false,
            kept: Vec::new(),
        };
        wire.start();
        wire
    }

    /// The same, whatever the time: how long answers take is not known, so that only work counts.
    pub(crate) fn without_times(self) -> Self {
        self.connection.lack_times();
        self
    }

    fn start(&mut self) {
        let mut options = vec![("APPLICATION_NAME", "app"), ("DRIVER_NAME", self.driver)];
        options.extend(self.is_compressed.then_some(("COMPRESSION", "lz4")));
        self.request(&Request::Startup(Startup { options }), &Extras::default());
        self.response(Opcode::READY, Flags(0), &[]);
    }

    /// Closes the connection and opens another one.
    pub(crate) fn reconnect(&mut self) {
        self.connection.close(self.now);
        self.open_another();
    }

    /// The same with another driver.
    pub(crate) fn reconnect_with(&mut self, driver: &'static str) {
        self.driver = driver;
        self.reconnect();
    }

    /// The same with a client that compresses what is worth it, which is nothing here.
    pub(crate) fn reconnect_compressed(&mut self) {
        self.is_compressed = true;
        self.reconnect();
    }

    /// Opens another connection and keeps those that are open.
    pub(crate) fn open_another(&mut self) {
        self.kept.push(Arc::clone(&self.connection));
        self.connections += 1;
        (self.connection, self.taps) = open(&self.queue, self.connections);
        self.start();
    }

    fn request(&mut self, request: &Request<'_>, extras: &Extras<'_>) {
        let envelope = request
            .to_envelope(Dialect::new(self.version), self.stream, extras)
            .unwrap();
        self.pass(0, &envelope);
    }

    fn response(&mut self, opcode: Opcode, flags: Flags, body: &[u8]) {
        let mut header = Header::response(self.version, self.stream, opcode);
        header.flags = flags;
        let body = Bytes::copy_from_slice(body);
        self.pass(1, &Envelope { header, body });
    }

    fn pass(&mut self, tap: usize, envelope: &Envelope) {
        let mut wire = BytesMut::new();
        envelope.encode(&mut wire).unwrap();
        let mut wire = wire.freeze();
        self.now = self.now.after(STEP);
        while !wire.is_empty() {
            let chunk = wire.split_to(wire.len().min(64 << 10));
            self.taps[tap].offer(chunk, self.now).unwrap();
        }
    }

    /// Sends the same so many times.
    pub(crate) fn times(&mut self, times: usize, ask: &Ask<'_>, answer: &Answer<'_>) {
        (0..times).for_each(|_| self.send(ask, answer));
    }

    pub(crate) fn send(&mut self, ask: &Ask<'_>, answer: &Answer<'_>) {
        self.execute(ask);
        self.answer(answer);
    }

    /// Sends the same twice before it is answered.
    pub(crate) fn send_twice(&mut self, ask: &Ask<'_>, answer: &Answer<'_>) {
        self.execute(ask);
        self.stream = StreamId(2);
        self.execute(ask);
        self.answer(answer);
        self.stream = StreamId(1);
        self.answer(answer);
    }

    fn execute(&mut self, ask: &Ask<'_>) {
        let id = (!ask.as_text).then(|| self.prepare(ask.cql));
        let values = bound(ask.values);
        let parameters = QueryParameters {
            values: values.values(),
            page_size: ask.page_size,
            paging_state: ask.paging_state.map(PagingState),
            serial_consistency: ask.serial.map(SerialConsistency),
            timestamp: ask.timestamp,
            ..QueryParameters::new(ask.consistency)
        };
        let extras = Extras {
            tracing: ask.traced,
            ..Extras::default()
        };
        let request = match &id {
            Some(id) => Request::Execute(Execute {
                id: PreparedId(id),
                result_metadata_id: None,
                parameters,
            }),
            None => Request::Query(Query {
                query: ask.cql,
                parameters,
            }),
        };
        self.request(&request, &extras);
    }

    /// Sends a BATCH of texts with their values.
    pub(crate) fn batch(&mut self, kind: BatchKind, statements: &[(&str, &[Cell<'_>])]) {
        let values: Vec<_> = statements.iter().map(|(_, values)| bound(values)).collect();
        let statements = statements.iter().zip(&values);
        let statements = statements.map(|((cql, _), values)| BatchStatement {
            query: BatchQuery::Text(cql),
            values: values.values(),
        });
        let batch = Request::Batch(Batch {
            kind,
            statements: statements.collect(),
            consistency: Consistency::LocalQuorum,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
            other_flags: 0,
        });
        self.request(&batch, &Extras::default());
        self.answer(&Answer::Void);
    }

    /// Has a statement prepared, once.
    fn prepare(&mut self, cql: &str) -> [u8; 2] {
        if let Some(at) = self.prepared.iter().position(|known| known == cql) {
            return u16::try_from(at).unwrap().to_be_bytes();
        }
        self.prepared.push(cql.to_owned());
        self.prepare_again(cql)
    }

    /// Has a statement prepared, whether it is or not.
    pub(crate) fn prepare_again(&mut self, cql: &str) -> [u8; 2] {
        let at = self.prepared.iter().position(|known| known == cql).unwrap();
        let id = u16::try_from(at).unwrap().to_be_bytes();
        let prepare = Request::Prepare(Prepare {
            query: cql,
            keyspace: None,
            other_flags: 0,
        });
        self.request(&prepare, &Extras::default());
        // No bind markers described, no result columns.
        let bind: &[u8] = match self.version {
            Version::V3 => &[0; 8],
            _ => &[0; 12],
        };
        let body = [&[0, 0, 0, 4, 0, 2][..], &id, bind, &[0, 0, 0, 4, 0, 0, 0, 0]].concat();
        self.response(Opcode::RESULT, Flags(0), &body);
        id
    }

    fn answer(&mut self, answer: &Answer<'_>) {
        match answer {
            Answer::Void => self.response(Opcode::RESULT, Flags(0), &[0, 0, 0, 1]),
            Answer::Rows(count, bytes) => self.rows(&vec![vec![7; *bytes]; *count], None),
            Answer::Page(count, bytes) => self.rows(&vec![vec![7; *bytes]; *count], Some(b"more")),
            Answer::Ints(numbers) => {
                let cells = numbers.iter().map(|number| number.to_be_bytes().to_vec());
                self.rows(&cells.collect::<Vec<_>>(), None);
            }
            Answer::First(state) => self.rows(&[vec![7; 8]], Some(state)),
            Answer::Error(code) => {
                let body = [&code.to_be_bytes()[..], &[0, 2], b"no"].concat();
                self.response(Opcode::ERROR, Flags(0), &body);
            }
            Answer::Warned(text) => {
                let len = u16::try_from(text.len()).unwrap().to_be_bytes();
                let body = [&[0, 1][..], &len, text.as_bytes(), &[0, 0, 0, 1]].concat();
                self.response(Opcode::RESULT, Flags::WARNING, &body);
            }
        }
    }

    /// Rows of one cell each, and from where on there are more.
    fn rows(&mut self, cells: &[Vec<u8>], more: Option<&[u8]>) {
        let mut content = RowsContent::new(1);
        cells
            .iter()
            .for_each(|cell| content.push([Some(&cell[..])]).unwrap());
        let metadata = ResultMetadata {
            column_count: 1,
            paging_state: more.map(PagingState),
            ..ResultMetadata::none()
        };
        let rows = Response::Result(QueryResult::Rows(Rows::new(metadata, &content).unwrap()));
        let mut body = BytesMut::new();
        rows.encode(Dialect::new(self.version), &mut body).unwrap();
        self.response(Opcode::RESULT, Flags(0), &body);
    }

    /// Two nodes have different versions of the schema for so many seconds.
    pub(crate) fn disagree(&self, seconds: u64) {
        let versions = || {
            ["a", "b"]
                .map(|version| (version.to_owned(), vec![format!("node-{version}")]))
                .into()
        };
        for now in [0, seconds] {
            let now = Duration::from_secs(now);
            self.live.see_schema_versions(versions(), now);
        }
    }

    /// Ends a window at that second, and begins the next one.
    pub(crate) fn cut(&mut self, second: i64) -> Window {
        self.audit.take_window(Timestamp::from_second(second).unwrap())
    }

    /// The last window, which ends at that second.
    pub(crate) fn end(self, second: i64) -> Window {
        let connections = self.kept.iter().chain([&self.connection]);
        connections.for_each(|connection| connection.close(self.now));
        self.audit.stop(Timestamp::from_second(second).unwrap())
    }

    /// What the rules find after so many seconds, however little the load.
    pub(crate) fn findings(self, seconds: i64) -> Vec<Finding> {
        self.findings_under(&Settings::whatever_the_load(), seconds)
    }

    /// The same under other settings.
    pub(crate) fn findings_under(self, settings: &Settings, seconds: i64) -> Vec<Finding> {
        let (window, schema) = self.whole(seconds);
        judge(&window, &schema, settings)
    }

    /// The same on clusters of these products and versions.
    pub(crate) fn findings_on(
        self,
        servers: impl IntoIterator<Item = (Product, &'static str)>,
        seconds: i64,
    ) -> Vec<Vec<Finding>> {
        let (window, schema) = self.whole(seconds);
        let settings = Settings::whatever_the_load();
        let servers = servers.into_iter();
        servers
            .map(|server| judge_on(server, &window, &schema, &settings))
            .collect()
    }

    /// All that was seen in so many seconds, and the schema.
    pub(crate) fn whole(self, seconds: i64) -> (Window, Schema) {
        let live = Arc::clone(&self.live);
        let window = self.end(seconds);
        let coverage = &window.coverage;
        assert_eq!((coverage.undecoded, coverage.dropped), (0, 0));
        (window, Schema::clone(&live.schema()))
    }
}

/// What the rules find in a window of that cluster.
pub(crate) fn judge(window: &Window, schema: &Schema, settings: &Settings) -> Vec<Finding> {
    judge_on((Product::Cassandra, "5.0.6"), window, schema, settings)
}

fn judge_on(
    (product, version): (Product, &str),
    window: &Window,
    schema: &Schema,
    settings: &Settings,
) -> Vec<Finding> {
    let cluster = cqlens_window::Cluster {
        product: Some(product),
        release_version: Some(version.to_owned()),
        nodes: Some(6),
        data_centers: [("dc1".to_owned(), 3), ("dc2".to_owned(), 3)].into(),
        ..cqlens_window::Cluster::default()
    };
    let context = Context::new(window, schema, &cluster);
    cqlens_rules::check(&context, settings).findings
}

fn open(queue: &Arc<ReplayQueue>, number: u64) -> (Arc<Connection>, [ReplayTap; 2]) {
    let connection = Arc::new(Connection::new(
        ConnectionId(number),
        "10.0.0.1:5".parse().unwrap(),
    ));
    connection.reaches("10.9.0.1:9042".parse().unwrap());
    let taps = [Direction::Request, Direction::Response]
        .map(|direction| ReplayTap::new(Arc::clone(&connection), direction, Arc::clone(queue)));
    (connection, taps)
}

/// Six nodes, three in each datacenter; the one at 10.9.0.1, which cqlens is connected to, has almost no tokens.
fn ring() -> catalog::ClusterState {
    let node = |number: u8, data_center: &str, token: i64| Node {
        address: Some(format!("10.9.0.{number}")),
        port: Some(9_042),
        data_center: Some(data_center.to_owned()),
        rack: Some("r1".to_owned()),
        tokens: vec![token],
        ..Node::default()
    };
    catalog::ClusterState {
        partitioner: Some("Murmur3Partitioner".to_owned()),
        nodes: vec![
            node(1, "dc1", i64::MIN + 1),
            node(2, "dc1", -4_000_000_000_000_000_000),
            node(3, "dc1", 0),
            node(4, "dc1", 4_000_000_000_000_000_000),
            node(5, "dc2", -2_000_000_000_000_000_000),
            node(6, "dc2", 2_000_000_000_000_000_000),
        ],
        ..catalog::ClusterState::default()
    }
}

fn bound(values: &[Cell<'_>]) -> ValuesBuf {
    let bytes: Vec<Option<Vec<u8>>> = values
        .iter()
        .map(|cell| match cell {
            Cell::Int(number) => Some(number.to_be_bytes().to_vec()),
            Cell::Text(text) => Some(text.as_bytes().to_vec()),
            Cell::Bytes(bytes) => Some(bytes.to_vec()),
            Cell::Null => None,
        })
        .collect();
    let values = bytes
        .iter()
        .map(|bytes| bytes.as_deref().map_or(Value::Null, Value::Bytes));
    ValuesBuf::positional(values).unwrap()
}
