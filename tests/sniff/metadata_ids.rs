//! ScyllaDB's `SCYLLA_USE_METADATA_ID` gives EXECUTE of version 4 another layout. A capture that begins after the
//! handshake does not say which one a connection has: the bytes do.

use bytes::{BufMut, Bytes, BytesMut};
use cqlens_proto::{
    envelope::{Direction, Envelope, Header, Opcode, StreamId, Version},
    message::{
        Consistency, Dialect, Execute, Extensions, Extras, Prepare, PreparedId, Query, QueryParameters,
        Request, ResultMetadataId, Startup, Value, ValuesBuf,
    },
};

use crate::sniff::{
    report::number,
    sniff::{Place, Sniffed},
    tcp::{ACK, FIN, PUSH, SYN, Segment, capture},
};

const STATEMENTS: u8 = 20;
const EXECUTIONS: i32 = 300;

/// One connection of a driver.
struct Talk {
    segments: Vec<Segment>,
    numbers: [u32; 2],
    port: u16,
    at: u64,
    dialect: Dialect,
    /// The byte that `TABLETS_ROUTING_V2` appends to EXECUTE.
    tablet_version: Option<u8>,
}

impl Talk {
    fn new(port: u16, extensions: Extensions) -> Self {
        Self {
            segments: Vec::new(),
            numbers: [1_000, 5_000],
            port,
            at: 1_790_000_000_000_000_000 + u64::from(port) * 7_000_000,
            dialect: Dialect::with(Version::V4, extensions),
            tablet_version: None,
        }
    }

    fn segment(&mut self, direction: Direction, flags: u8, payload: Vec<u8>) {
        let (client, server) = (format!("10.0.0.1:{}", self.port), "10.0.0.2:9042".to_owned());
        let (own, other, from, to) = match direction {
            Direction::Request => (0, 1, client, server),
            Direction::Response => (1, 0, server, client),
        };
        let length = u32::try_from(payload.len()).unwrap() + u32::from(flags & (SYN | FIN) != 0);
        self.segments.push(Segment {
            at: self.at,
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            sequence: self.numbers[own],
            acknowledgement: self.numbers[other],
            flags,
            payload,
        });
        self.numbers[own] += length;
        self.at += 1_000_000;
    }

    fn syn(&mut self) {
        self.segment(Direction::Request, SYN, Vec::new());
        self.segment(Direction::Response, SYN | ACK, Vec::new());
        self.segment(Direction::Request, ACK, Vec::new());
    }

    fn exchange(&mut self, request: &[u8], response: &[u8]) {
        self.segment(Direction::Request, ACK | PUSH, request.to_vec());
        self.segment(Direction::Response, ACK | PUSH, response.to_vec());
    }

    fn request(&self, request: &Request<'_>) -> Vec<u8> {
        let envelope = request.to_envelope(self.dialect, StreamId(1), &Extras::default());
        encoded(&envelope.unwrap())
    }

    fn options(&mut self) {
        let mut body = BytesMut::new();
        strings(&mut body, &[("CQL_VERSION", "3.3.1")], true);
        let request = self.request(&Request::Options);
        self.exchange(&request, &response(Opcode::SUPPORTED, &body));
    }

    /// The driver names the extensions, or none.
    fn startup(&mut self, names_it: bool) {
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        if names_it {
            options.push(("SCYLLA_USE_METADATA_ID", ""));
            options.push((
                "SCYLLA_LWT_ADD_METADATA_MARK",
                "LWT_OPTIMIZATION_META_BIT_MASK=2147483648",
            ));
        }
        let request = self.request(&Request::Startup(Startup { options }));
        self.exchange(&request, &response(Opcode::READY, &[]));
    }

    fn query(&mut self, text: &str) {
        let request = self.request(&Request::Query(Query {
            query: text,
            parameters: QueryParameters::new(Consistency::One),
        }));
        self.exchange(&request, &response(Opcode::RESULT, &[0, 0, 0, 1]));
    }

    fn prepare(&mut self, statement: u8, marks: u32) {
        let text = format!("SELECT c{statement} FROM ks.t{statement} WHERE a = ?");
        let request = self.request(&Request::Prepare(Prepare {
            query: &text,
            keyspace: None,
            other_flags: 0,
        }));
        let mut body = BytesMut::new();
        body.put_i32(4);
        short_bytes(&mut body, &[statement; 16]);
        if self.dialect.has_result_metadata_id() {
            short_bytes(&mut body, &metadata_id(statement));
        }
        // One marker, an int, which is the partition key.
        body.put_u32(1 | marks);
        body.put_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0, 0]);
        short_bytes(&mut body, b"ks");
        short_bytes(&mut body, format!("t{statement}").as_bytes());
        short_bytes(&mut body, b"a");
        body.put_u16(9);
        // No columns are described.
        body.put_slice(&[0, 0, 0, 4, 0, 0, 0, 1]);
        self.exchange(&request, &response(Opcode::RESULT, &body));
    }

    fn execute(&mut self, statement: u8, key: i32) {
        let key = key.to_be_bytes();
        let values = ValuesBuf::positional([Value::Bytes(&key)]).unwrap();
        let metadata_id = metadata_id(statement);
        let mut request = self.request(&Request::Execute(Execute {
            id: PreparedId(&[statement; 16]),
            result_metadata_id: self
                .dialect
                .has_result_metadata_id()
                .then_some(ResultMetadataId(&metadata_id)),
            parameters: QueryParameters {
                values: values.values(),
                skip_metadata: true,
                page_size: Some(5_000),
                timestamp: Some(1_790_000_000_000_000),
                ..QueryParameters::new(Consistency::LocalQuorum)
            },
        }));
        if let Some(version) = self.tablet_version {
            request.push(version);
            let length = u32::try_from(request.len() - 9).unwrap();
            request[5..9].copy_from_slice(&length.to_be_bytes());
        }
        // One row of one column.
        let mut rows = BytesMut::new();
        rows.put_slice(&[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3]);
        rows.put_slice(b"abc");
        self.exchange(&request, &response(Opcode::RESULT, &rows));
    }

    fn executions(&mut self) {
        for number in 0..EXECUTIONS {
            let statement = u8::try_from(number * 7 % i32::from(STATEMENTS)).unwrap();
            self.execute(statement, number);
        }
    }
}

/// As good as a digest.
fn metadata_id(statement: u8) -> [u8; 16] {
    std::array::from_fn(|at| {
        statement
            .wrapping_mul(37)
            .wrapping_add(u8::try_from(at * 59 % 251).unwrap())
    })
}

fn short_bytes(body: &mut BytesMut, bytes: &[u8]) {
    body.put_u16(u16::try_from(bytes.len()).unwrap());
    body.put_slice(bytes);
}

/// A `[string map]`, or a `[string multimap]` of one value each.
fn strings(body: &mut BytesMut, pairs: &[(&str, &str)], multi: bool) {
    body.put_u16(u16::try_from(pairs.len()).unwrap());
    for (key, value) in pairs {
        short_bytes(body, key.as_bytes());
        if multi {
            body.put_u16(1);
        }
        short_bytes(body, value.as_bytes());
    }
}

fn response(opcode: Opcode, body: &[u8]) -> Vec<u8> {
    let mut header = Header::response(Version::V4, StreamId(1), opcode);
    header.body_len = u32::try_from(body.len()).unwrap();
    encoded(&Envelope {
        header,
        body: Bytes::copy_from_slice(body),
    })
}

fn encoded(envelope: &Envelope) -> Vec<u8> {
    let mut out = BytesMut::new();
    envelope.encode(&mut out).unwrap();
    out.to_vec()
}

fn sniffed(place: &Place, talks: impl IntoIterator<Item = Talk>) -> Sniffed {
    let mut segments: Vec<_> = talks.into_iter().flat_map(|talk| talk.segments).collect();
    segments.sort_by_key(|segment| segment.at);
    let tables: String = (0..STATEMENTS)
        .map(|number| format!("CREATE TABLE ks.t{number} (a int PRIMARY KEY, c{number} text);\n"))
        .collect();
    let keyspace =
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};\n";
    let schema = place.write("schema.cql", format!("{keyspace}{tables}").as_bytes());
    let file = place.write("capture.pcap", &capture(&segments).plain());
    place.sniff(&[&file], &["--schema", schema.to_str().unwrap()])
}

/// The layouts that a connection may have.
fn layouts() -> [(&'static str, Extensions, Option<u8>); 4] {
    [
        ("without", Extensions::NONE, None),
        ("with ids", Extensions::RESULT_METADATA_ID, None),
        ("with a tablet version", Extensions::NONE, Some(0x2a)),
        ("with both", Extensions::RESULT_METADATA_ID, Some(0)),
    ]
}

/// What the report says of executions: all of them are counted as what they are.
fn check(name: &str, sniffed: &Sniffed, executions: i32) {
    let report = sniffed.report();
    let coverage = &report["coverage"];
    let executions = u64::try_from(executions).unwrap();
    assert_eq!(number(&coverage["undecoded"]), 0, "{name}: {coverage}");
    assert_eq!(
        number(&coverage["partitions_exact"]),
        executions,
        "{name}: {coverage}"
    );
    let patterns = report["patterns"].as_array().unwrap();
    let counted: u64 = patterns.iter().map(|pattern| number(&pattern["count"])).sum();
    assert_eq!(
        (counted, patterns.len()),
        (executions, usize::from(STATEMENTS)),
        "{name}"
    );
    let consistencies = patterns
        .iter()
        .map(|pattern| number(&pattern["consistency"]["LOCAL_QUORUM"]));
    assert_eq!(consistencies.sum::<u64>(), executions, "{name}");
}

#[test]
fn executions_of_connections_that_began_before_the_capture_are_read_as_they_are_laid_out() {
    for (name, extensions, tablet_version) in layouts() {
        let old = (0..5_u16).map(|number| {
            let mut talk = Talk::new(40_000 + number, extensions);
            // All statements are prepared by then.
            talk.at += 1_000_000_000;
            talk.tablet_version = tablet_version;
            talk.executions();
            talk
        });
        let mut new = Talk::new(40_005, extensions);
        new.tablet_version = tablet_version;
        new.syn();
        new.startup(extensions.result_metadata_id);
        (0..STATEMENTS).for_each(|statement| new.prepare(statement, 0));
        new.executions();
        check(name, &sniffed(&Place::new(), old.chain([new])), 6 * EXECUTIONS);
    }
}

/// Also where the statement is marked as a lightweight transaction.
#[test]
fn statements_that_such_a_connection_prepares_are_known() {
    for (name, extensions, tablet_version) in layouts() {
        let mut old = Talk::new(40_000, extensions);
        old.tablet_version = tablet_version;
        (0..STATEMENTS).for_each(|statement| old.prepare(statement, u32::from(statement % 2) << 31));
        old.executions();
        check(name, &sniffed(&Place::new(), [old]), EXECUTIONS);
    }
}

/// The SUPPORTED may have been answered on another connection, or before the capture began.
#[test]
fn the_startup_alone_says_which_layout_it_is() {
    for (name, extensions, _) in layouts() {
        let mut talk = Talk::new(40_000, extensions);
        talk.syn();
        talk.startup(extensions.result_metadata_id);
        (0..STATEMENTS).for_each(|statement| talk.prepare(statement, 0));
        talk.executions();
        check(name, &sniffed(&Place::new(), [talk]), EXECUTIONS);
    }
}

/// A server that does not know the extension ignores that it is named.
#[test]
fn an_extension_that_the_server_has_not_announced_is_not_in_force() {
    let mut talk = Talk::new(40_000, Extensions::NONE);
    talk.syn();
    talk.options();
    talk.startup(true);
    (0..STATEMENTS).for_each(|statement| talk.prepare(statement, 0));
    talk.executions();
    check("not announced", &sniffed(&Place::new(), [talk]), EXECUTIONS);
}

/// What fits neither layout decides nothing, and is in no exact count; the next one that fits does.
#[test]
fn nothing_is_exact_before_the_layout_is_known() {
    let mut new = Talk::new(40_001, Extensions::RESULT_METADATA_ID);
    new.syn();
    new.startup(true);
    (0..STATEMENTS).for_each(|statement| new.prepare(statement, 0));
    let mut old = Talk::new(40_000, Extensions::RESULT_METADATA_ID);
    old.at += 1_000_000_000;
    // Shows where requests begin, and nothing of their layout.
    old.query("SELECT release_version FROM system.local");
    let unreadable = old.segments.len();
    (0..11).for_each(|number| old.execute(2, number));
    // A metadata id of a length, or a consistency of a number, that there is none of.
    old.segments[unreadable].payload[9 + 18 + 1] = 12;
    let sniffed = sniffed(&Place::new(), [new, old]);
    let coverage = &sniffed.report()["coverage"];
    let of = |key: &str| number(&coverage[key]);
    assert_eq!((of("partitions_exact"), of("undecoded")), (10, 1), "{coverage}");
}
