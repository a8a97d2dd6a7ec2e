//! One connection's bytes through both directions of rewriting, without sockets: what comes out is what would have come in, had the
//! nodes named their listeners themselves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation)]

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use cqlens_proto::{
    compress::Compression,
    cutter::Negotiated,
    envelope::{Direction, Envelope, Header, Opcode, StreamId, Version},
    message::{
        BindMetadata, ColumnSpec, ColumnSpecs, Consistency, Dialect, ErrorCode, Event, Execute, Extras,
        Prepare, Prepared, PreparedId, Query, QueryParameters, QueryResult, Register, Request, Response,
        ResultMetadata, ResultMetadataId, Rows, RowsContent, Startup, Supported, event::NodeChange,
        result::ColumnSpecsBuf,
    },
    outgoing::Outgoing,
    stream::{EnvelopeStream, StreamItem},
    types::{CqlType, Uuid},
};
use proptest::prelude::*;

use super::{Addresses, NodeAddress, Pairing, Requests, Responses, Shared, Unreadable};

#[path = "../../../proto/tests/golden/recording.rs"]
mod recording;

const OWN: u8 = 1;

fn node(number: u8) -> NodeAddress {
    NodeAddress {
        host_id: Some(Uuid([number; 16])),
        broadcast: IpAddr::from([10, 0, 0, number]),
        native: SocketAddr::from(([10, 1, 0, number], 9042)),
        listen: SocketAddr::from(([127, 0, 1, number], 9142)),
        ready: true,
    }
}

fn pairing(nodes: Vec<NodeAddress>, patience: Duration) -> Pairing {
    let addresses = Addresses::new(patience);
    addresses.publish(nodes);
    Pairing {
        addresses,
        own: Arc::new(node(OWN)),
    }
}

fn three_nodes() -> Pairing {
    pairing((1..=3).map(node).collect(), Duration::ZERO)
}

/// How a connection talks.
#[derive(Debug, Clone, Copy)]
struct Spoken {
    version: Version,
    compression: Compression,
}

const PLAIN: Spoken = Spoken {
    version: Version::V4,
    compression: Compression::None,
};

impl Spoken {
    fn negotiated(self) -> Arc<Negotiated> {
        let negotiated = Arc::new(Negotiated::new());
        self.settle(&negotiated);
        negotiated
    }

    fn settle(self, negotiated: &Negotiated) {
        negotiated.set_compression(self.compression);
        if self.version.uses_segments() {
            negotiated.start_segments();
        }
    }

    fn wire(self, envelopes: &[Envelope]) -> Bytes {
        let mut outgoing = Outgoing::new(self.negotiated());
        let mut wire = BytesMut::new();
        for (index, envelope) in envelopes.iter().enumerate() {
            // Bodies of no bytes and versions with segments are not compressed one by one.
            outgoing.push(envelope).unwrap();
            if index % 3 == 2 {
                wire.extend(outgoing.take().unwrap());
            }
        }
        wire.extend(outgoing.take().unwrap());
        wire.freeze()
    }

    fn envelopes(self, direction: Direction, wire: Bytes) -> Vec<Envelope> {
        let mut stream = EnvelopeStream::new(direction, self.negotiated());
        stream.feed(wire);
        let mut envelopes = Vec::new();
        while let Some(item) = stream.next_item() {
            let StreamItem::Envelope(mut envelope) = item else {
                panic!("{item:?}");
            };
            // What is compressed may have any length.
            envelope.header.body_len = envelope.body.len() as u32;
            envelope.header.flags = envelope
                .header
                .flags
                .without(cqlens_proto::envelope::Flags::COMPRESSED);
            envelopes.push(envelope);
        }
        assert!(!stream.is_joining(), "something is missing at the end");
        envelopes
    }

    fn request(self, stream: i16, request: &Request<'_>) -> Envelope {
        request
            .to_envelope(Dialect::new(self.version), StreamId(stream), &Extras::default())
            .unwrap()
    }

    fn query(self, stream: i16, text: &str) -> Envelope {
        let query = Query {
            query: text,
            parameters: QueryParameters::new(Consistency::One),
        };
        self.request(stream, &Request::Query(query))
    }

    fn response(self, stream: i16, response: &Response<'_>) -> Envelope {
        response
            .to_envelope(Dialect::new(self.version), StreamId(stream), &Extras::default())
            .unwrap()
    }

    fn rows(self, stream: i16, table: &Table, skip_metadata: bool) -> Envelope {
        let specs = table.specs();
        let mut content = RowsContent::new(table.columns.len());
        for row in &table.rows {
            content.push(row.iter().map(Option::as_deref)).unwrap();
        }
        let mut metadata = ResultMetadata::new(specs.columns());
        if skip_metadata {
            metadata.columns = None;
        }
        let rows = QueryResult::Rows(Rows::new(metadata, &content).unwrap());
        self.response(stream, &Response::Result(rows))
    }

    fn prepare(self, stream: i16, text: &str) -> Envelope {
        let prepare = Prepare {
            query: text,
            keyspace: None,
            other_flags: 0,
        };
        self.request(stream, &Request::Prepare(prepare))
    }

    fn prepared(self, stream: i16, id: &[u8], table: &Table) -> Envelope {
        let specs = table.specs();
        let metadata_id = self
            .version
            .uses_segments()
            .then_some(ResultMetadataId(b"columns"));
        let prepared = Prepared {
            id: PreparedId(id),
            result_metadata_id: metadata_id,
            bind: BindMetadata {
                markers: ColumnSpecs::NONE,
                partition_key_indices: Vec::new(),
                other_flags: 0,
            },
            result: ResultMetadata::new(specs.columns()),
        };
        self.response(stream, &Response::Result(QueryResult::Prepared(prepared)))
    }

    fn execute(self, stream: i16, id: &[u8]) -> Envelope {
        let metadata_id = self
            .version
            .uses_segments()
            .then_some(ResultMetadataId(b"columns"));
        let mut parameters = QueryParameters::new(Consistency::One);
        parameters.skip_metadata = true;
        let execute = Execute {
            id: PreparedId(id),
            result_metadata_id: metadata_id,
            parameters,
        };
        self.request(stream, &Request::Execute(execute))
    }

    fn event(self, change: &str, address: SocketAddr) -> Envelope {
        let change = NodeChange {
            change,
            address: address.ip(),
            port: address.port().into(),
        };
        self.response(-1, &Response::Event(Event::StatusChange(change)))
    }
}

/// A result.
struct Table {
    keyspace: &'static str,
    name: &'static str,
    columns: Vec<(&'static str, CqlType)>,
    rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl Table {
    fn specs(&self) -> ColumnSpecsBuf {
        let spec = |(name, column_type): &(&'static str, CqlType)| ColumnSpec {
            keyspace: self.keyspace,
            table: self.name,
            name,
            column_type: column_type.clone(),
        };
        ColumnSpecsBuf::new(&self.columns.iter().map(spec).collect::<Vec<_>>()).unwrap()
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    super::cell::octets(address)
}

/// `SELECT * FROM system.peers_v2`, with the addresses that `shown` gives to clients.
fn peers(nodes: &[NodeAddress], shown: impl Fn(&NodeAddress) -> SocketAddr) -> Table {
    let row = |node: &NodeAddress| {
        let shown = shown(node);
        vec![
            Some(octets(node.broadcast)),
            Some(b"dc1".to_vec()),
            node.host_id.map(|id| id.0.to_vec()),
            Some(octets(shown.ip())),
            Some(u32::from(shown.port()).to_be_bytes().to_vec()),
            None,
            Some(octets(node.native.ip())),
        ]
    };
    Table {
        keyspace: "system",
        name: "peers_v2",
        columns: vec![
            ("peer", CqlType::Inet),
            ("data_center", CqlType::Text),
            ("host_id", CqlType::Uuid),
            ("native_address", CqlType::Inet),
            ("native_port", CqlType::Int),
            ("preferred_ip", CqlType::Inet),
            ("listen_address", CqlType::Inet),
        ],
        rows: nodes.iter().map(row).collect(),
    }
}

/// A table of an application that looks much like it.
fn others(length: usize) -> Table {
    let row = vec![
        Some(vec![10, 1, 0, 2]),
        Some(vec![7; length]),
        Some(Uuid([2; 16]).0.to_vec()),
    ];
    Table {
        keyspace: "ks",
        name: "peers",
        columns: vec![
            ("rpc_address", CqlType::Inet),
            ("payload", CqlType::Blob),
            ("host_id", CqlType::Uuid),
        ],
        rows: vec![row],
    }
}

/// One connection.
struct Link {
    spoken: Spoken,
    shared: Shared,
}

impl Link {
    fn new(spoken: Spoken, pairing: Pairing) -> Self {
        let shared = Shared::new(pairing);
        spoken.settle(&shared.negotiated);
        Self { spoken, shared }
    }

    fn send(&self, requests: &[Envelope]) {
        self.send_cut(requests, &[usize::MAX]);
    }

    fn send_cut(&self, requests: &[Envelope], cuts: &[usize]) {
        let mut following = Requests::new(&self.shared);
        chunks(self.spoken.wire(requests), cuts, |chunk| following.follow(&chunk));
    }

    /// What the client gets of what the node sends.
    fn receive(&self, wire: Bytes, cuts: &[usize]) -> Result<Bytes, Unreadable> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let runtime = runtime.unwrap();
        let mut responses = Responses::new(&self.shared);
        let mut out = BytesMut::new();
        let mut failed = None;
        chunks(wire, cuts, |chunk| {
            responses.feed(chunk);
            while failed.is_none() {
                match runtime.block_on(responses.next()) {
                    Ok(Some(bytes)) => out.extend(bytes),
                    Ok(None) => break,
                    Err(error) => failed = Some(error),
                }
            }
        });
        failed.map_or(Ok(out.freeze()), Err)
    }

    fn answers(&self, responses: &[Envelope]) -> Vec<Envelope> {
        let out = self.receive(self.spoken.wire(responses), &[usize::MAX]);
        self.spoken.envelopes(Direction::Response, out.unwrap())
    }
}

fn chunks(mut wire: Bytes, cuts: &[usize], mut each: impl FnMut(Bytes)) {
    for cut in cuts.iter().copied().cycle() {
        if wire.is_empty() {
            return;
        }
        each(wire.split_to(cut.clamp(1, wire.len())));
    }
}

fn native(node: &NodeAddress) -> SocketAddr {
    node.native
}

fn listen(node: &NodeAddress) -> SocketAddr {
    node.listen
}

fn spoken() -> impl Strategy<Value = Spoken> {
    let compressions = |version: Version| match version {
        Version::V5 => vec![Compression::None, Compression::Lz4],
        _ => vec![Compression::None, Compression::Lz4, Compression::Snappy],
    };
    prop::sample::select(vec![Version::V3, Version::V4, Version::V5]).prop_flat_map(move |version| {
        prop::sample::select(compressions(version))
            .prop_map(move |compression| Spoken { version, compression })
    })
}

/// A request, its answer, and what the client is to get.
#[derive(Debug, Clone)]
enum Asked {
    Peers(Vec<u8>),
    Prepared,
    Other(usize),
    Event(u8),
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        prop::collection::vec(2_u8..4, 0..40).prop_map(Asked::Peers),
        Just(Asked::Prepared),
        prop_oneof![0_usize..300, 100_000_usize..300_000].prop_map(Asked::Other),
        (1_u8..4).prop_map(Asked::Event),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn wherever_bytes_are_cut_only_the_addresses_of_nodes_change(
        spoken in spoken(),
        asked in prop::collection::vec(asked(), 1..8),
        cuts in prop::collection::vec(prop_oneof![1_usize..40, 1_usize..70_000], 1..6),
        is_v6: bool,
        is_registered: bool,
    ) {
        let nodes: Vec<NodeAddress> = (1..=3).map(|number| {
            let mut node = node(number);
            if is_v6 {
                node.listen.set_ip(IpAddr::from([0, 0, 0, 0, 0, 0, 0xff, u16::from(number)]));
            }
            node
        }).collect();
        let link = Link::new(spoken, pairing(nodes.clone(), Duration::ZERO));
        let (mut requests, mut answers, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        if is_registered {
            requests.push(spoken.request(0, &Request::Register(Register { event_types: vec!["STATUS_CHANGE"] })));
            answers.push(spoken.response(0, &Response::Ready));
            expected.push(spoken.response(0, &Response::Ready));
        }
        let id = |stream: i16| [b"id-of-peers-".to_vec(), stream.to_be_bytes().to_vec()].concat();
        for (stream, asked) in (1_i16..).zip(&asked) {
            match asked {
                Asked::Peers(numbers) => {
                    let nodes: Vec<_> = numbers.iter().map(|n| nodes[usize::from(*n) - 1].clone()).collect();
                    requests.push(spoken.query(stream, "SELECT * FROM system.peers_v2"));
                    answers.push(spoken.rows(stream, &peers(&nodes, native), false));
                    expected.push(spoken.rows(stream, &peers(&nodes, listen), false));
                }
                Asked::Prepared => {
                    requests.push(spoken.prepare(stream, "SELECT * FROM system.peers_v2"));
                    let prepared = spoken.prepared(stream, &id(stream), &peers(&[], native));
                    answers.push(prepared.clone());
                    expected.push(prepared);
                }
                Asked::Other(length) => {
                    requests.push(spoken.query(stream, "SELECT * FROM ks.peers"));
                    let rows = spoken.rows(stream, &others(*length), false);
                    answers.push(rows.clone());
                    expected.push(rows);
                }
                Asked::Event(_) if !is_registered => {}
                Asked::Event(number) => {
                    let node = &nodes[usize::from(*number) - 1];
                    answers.push(spoken.event("UP", node.native));
                    expected.push(spoken.event("UP", node.listen));
                }
            }
        }
        link.send_cut(&requests, &cuts);
        let wire = spoken.wire(&answers);
        let out = link.receive(wire, &cuts).unwrap();
        // Whoever prepared it, anybody may execute it.
        let other = Link::new(spoken, link.shared.pairing.clone());
        for (stream, _) in (1_i16..).zip(&asked).filter(|(_, asked)| matches!(asked, Asked::Prepared)) {
            other.send(&[spoken.execute(stream, &id(stream))]);
            let got = other.answers(&[spoken.rows(stream, &peers(&nodes, native), true)]);
            prop_assert_eq!(got, vec![spoken.rows(stream, &peers(&nodes, listen), true)]);
        }
        if spoken.compression == Compression::None && spoken.version != Version::V5 {
            prop_assert!(out == spoken.wire(&expected), "other bytes changed");
        }
        prop_assert!(spoken.envelopes(Direction::Response, out) == expected);
    }

    #[test]
    fn hostile_bytes_end_the_connection_or_pass(
        requests in prop::collection::vec(any::<u8>(), 0..300),
        garbage in prop::collection::vec(any::<u8>(), 0..300),
        damaged in prop::option::of(0_usize..400),
        spoken in spoken(),
        cuts in prop::collection::vec(1_usize..50, 1..4),
    ) {
        let link = Link::new(spoken, three_nodes());
        link.send(&[spoken.query(1, "SELECT * FROM system.peers_v2")]);
        let mut following = Requests::new(&link.shared);
        following.follow(&Bytes::from(requests));
        let rows = spoken.rows(1, &peers(&[node(2), node(3)], native), false);
        let mut wire = spoken.wire(&[rows]).to_vec();
        if let Some(at) = damaged.filter(|at| *at < wire.len()) {
            wire[at] ^= 0x55;
        }
        wire.extend(garbage);
        let _ = link.receive(Bytes::from(wire), &cuts);
    }
}

#[test]
fn the_own_node_is_shown_at_its_listener() {
    for text in [
        "SELECT rpc_address, native_port FROM system.local",
        "SELECT rpc_address, native_port FROM local",
    ] {
        let link = Link::new(PLAIN, three_nodes());
        link.send(&[PLAIN.query(1, text)]);
        let local = |shown: SocketAddr| Table {
            keyspace: "system",
            name: "local",
            columns: vec![("rpc_address", CqlType::Inet), ("native_port", CqlType::Int)],
            rows: vec![vec![
                Some(octets(shown.ip())),
                Some(u32::from(shown.port()).to_be_bytes().to_vec()),
            ]],
        };
        let got = link.answers(&[PLAIN.rows(1, &local(node(OWN).native), false)]);
        assert_eq!(got, [PLAIN.rows(1, &local(node(OWN).listen), false)]);
    }
}

#[test]
fn an_alias_hides_no_address() {
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.query(1, "SELECT rpc_address AS a, peer AS p FROM system.peers")]);
    let table = |shown: IpAddr| Table {
        keyspace: "system",
        name: "peers",
        columns: vec![("a", CqlType::Inet), ("p", CqlType::Inet)],
        rows: vec![vec![Some(octets(shown)), Some(octets(node(2).broadcast))]],
    };
    let got = link.answers(&[PLAIN.rows(1, &table(node(2).native.ip()), false)]);
    assert_eq!(got, [PLAIN.rows(1, &table(node(2).listen.ip()), false)]);
}

#[test]
fn rows_of_json_are_rewritten_inside() {
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.query(1, "SELECT JSON * FROM system.peers_v2")]);
    let table = |address: &str, port: u16| {
        Table {
        keyspace: "system",
        name: "peers_v2",
        columns: vec![("[json]", CqlType::Text)],
        rows: vec![vec![Some(
            format!(
                "{{\"peer\": \"10.0.0.2\", \"tokens\": [\"1\"], \"host_id\": \"{}\", \"native_address\": \"{address}\", \"native_port\": {port}}}",
                Uuid([2; 16])
            )
            .into_bytes(),
        )]],
    }
    };
    let got = link.answers(&[PLAIN.rows(1, &table("10.1.0.2", 9042), false)]);
    assert_eq!(got, [PLAIN.rows(1, &table("127.0.1.2", 9142), false)]);
}

#[test]
fn a_null_address_is_filled_in_only_for_whole_nodes() {
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.query(1, "SELECT * FROM system.peers_v2")]);
    let mut before = peers(&[node(2), node(3)], native);
    let mut after = peers(&[node(2), node(3)], listen);
    before.rows[0][3] = None;
    for table in [&mut before, &mut after] {
        table.rows[1][2] = None;
        table.rows[1][3] = None;
        table.rows[1][4] = None;
    }
    let got = link.answers(&[PLAIN.rows(1, &before, false)]);
    assert_eq!(got, [PLAIN.rows(1, &after, false)]);
}

#[test]
fn a_node_that_is_not_ready_is_left_out() {
    let mut late = node(3);
    late.ready = false;
    let pairing = pairing(vec![node(1), node(2), late], Duration::from_millis(20));
    let link = Link::new(PLAIN, pairing.clone());
    for _ in 0..2 {
        link.send(&[PLAIN.query(1, "SELECT * FROM system.peers_v2")]);
        let got = link.answers(&[PLAIN.rows(1, &peers(&[node(2), node(3)], native), false)]);
        assert_eq!(got, [PLAIN.rows(1, &peers(&[node(2)], listen), false)]);
    }
    let got = link.answers(&[
        PLAIN.event("UP", node(3).native),
        PLAIN.event("UP", node(2).native),
    ]);
    assert_eq!(got, [PLAIN.event("UP", node(2).listen)]);
    let counts = pairing.addresses.counts();
    assert_eq!((counts.rows_left_out, counts.events_left_out), (2, 1));
}

#[test]
fn a_node_that_gets_ready_in_time_is_told_of() {
    let pairing = pairing(vec![node(1)], Duration::from_secs(10));
    let link = Link::new(PLAIN, pairing.clone());
    link.send(&[PLAIN.query(1, "SELECT * FROM system.peers_v2")]);
    let discovery = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(pairing.addresses.wanted());
        pairing.addresses.publish((1..=3).map(node).collect());
    });
    let got = link.answers(&[PLAIN.rows(1, &peers(&[node(2), node(3)], native), false)]);
    assert_eq!(got, [PLAIN.rows(1, &peers(&[node(2), node(3)], listen), false)]);
    discovery.join().unwrap();
}

#[test]
fn a_node_that_has_left_is_still_said_to_have() {
    let pairing = three_nodes();
    pairing.addresses.publish(vec![node(1), node(2)]);
    let link = Link::new(PLAIN, pairing);
    let answers = [
        PLAIN.event("DOWN", node(3).native),
        PLAIN.event("DOWN", node(9).native),
    ];
    assert_eq!(link.answers(&answers), [PLAIN.event("DOWN", node(3).listen)]);
}

#[test]
fn shard_aware_ports_are_not_announced() {
    let link = Link::new(PLAIN, three_nodes());
    let supported = |options: Vec<(&'static str, Vec<&'static str>)>| {
        PLAIN.response(1, &Response::Supported(Supported { options }))
    };
    let got = link.answers(&[supported(vec![
        ("SCYLLA_SHARD", vec!["3"]),
        ("SCYLLA_SHARD_AWARE_PORT", vec!["19042"]),
        ("COMPRESSION", vec!["lz4", "snappy"]),
        ("SCYLLA_SHARD_AWARE_PORT_SSL", vec!["19142"]),
    ])]);
    let expected = supported(vec![
        ("SCYLLA_SHARD", vec!["3"]),
        ("COMPRESSION", vec!["lz4", "snappy"]),
    ]);
    assert_eq!(got, [expected]);
}

#[test]
fn a_statement_that_was_prepared_elsewhere_is_prepared_again_before_it_names_nodes() {
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.execute(1, b"elsewhere")]);
    let got = link.answers(&[PLAIN.rows(1, &peers(&[node(2)], native), true)]);
    let [error] = &got[..] else { panic!("{got:?}") };
    assert_eq!(error.header.opcode, Opcode::ERROR);
    assert_eq!(error.body[..4], ErrorCode::UNPREPARED.0.to_be_bytes());
    assert!(error.body.ends_with(b"\0\x09elsewhere"));
    // With the names of its columns it can be told at once.
    link.send(&[PLAIN.execute(1, b"elsewhere")]);
    let got = link.answers(&[PLAIN.rows(1, &peers(&[node(2)], native), false)]);
    assert_eq!(got, [PLAIN.rows(1, &peers(&[node(2)], listen), false)]);
    // An application's is left alone, and known from then on.
    link.send(&[PLAIN.execute(1, b"application")]);
    let mut rows = others(10);
    rows.rows[0][0] = Some(vec![10, 9, 9, 9]);
    let rows = PLAIN.rows(1, &rows, true);
    assert_eq!(link.answers(std::slice::from_ref(&rows)), [rows]);
    link.send(&[PLAIN.execute(1, b"application")]);
    assert!(link.shared.is_quiet());
}

#[test]
fn what_answers_a_request_that_was_not_understood_is_looked_at() {
    let rows = |shown: fn(&NodeAddress) -> SocketAddr| PLAIN.rows(1, &peers(&[node(2)], shown), false);
    let long = format!("SELECT * FROM system.peers_v2 /* {} */", "long ".repeat(100_000));
    for text in ["SELECT * FRUM system.peers_v2", &long] {
        let link = Link::new(PLAIN, three_nodes());
        link.send(&[PLAIN.query(1, text)]);
        assert_eq!(link.answers(&[rows(native)]), [rows(listen)]);
    }
    let link = Link::new(PLAIN, three_nodes());
    Requests::new(&link.shared).follow(&Bytes::from_static(b"\x01 is no version that is known"));
    let other = PLAIN.rows(2, &others(100), false);
    let got = link.answers(&[rows(native), other.clone()]);
    assert_eq!(got, [rows(listen), other]);
}

#[test]
fn more_answers_than_are_remembered_are_all_looked_at() {
    let link = Link::new(PLAIN, three_nodes());
    let requests: Vec<Envelope> = (0..5_000)
        .map(|stream| PLAIN.query(stream, "SELECT * FROM system.peers_v2"))
        .collect();
    link.send(&requests);
    let rows =
        |stream, shown: fn(&NodeAddress) -> SocketAddr| PLAIN.rows(stream, &peers(&[node(2)], shown), false);
    let got = link.answers(&[rows(0, native), rows(4_999, native)]);
    assert_eq!(got, [rows(0, listen), rows(4_999, listen)]);
}

#[test]
fn what_is_computed_of_an_address_passes_and_is_counted() {
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.query(1, "SELECT max(rpc_address) FROM system.peers")]);
    let table = Table {
        keyspace: "system",
        name: "peers",
        columns: vec![("system.max(rpc_address)", CqlType::Inet)],
        rows: vec![vec![Some(octets(node(2).native.ip()))]],
    };
    let rows = PLAIN.rows(1, &table, false);
    assert_eq!(link.answers(std::slice::from_ref(&rows)), [rows]);
    assert_eq!(link.shared.pairing.addresses.counts().may_have_leaked, 1);
}

#[test]
fn a_damaged_answer_about_nodes_becomes_an_error() {
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.query(1, "SELECT * FROM system.peers_v2")]);
    let mut rows = PLAIN.rows(1, &peers(&[node(2)], native), false);
    rows.body.truncate(rows.body.len() - 3);
    let got = link.answers(&[rows]);
    assert_eq!(got[0].header.opcode, Opcode::ERROR);
    assert_eq!(got[0].header.stream_id, StreamId(1));
}

#[test]
fn an_answer_that_is_too_long_becomes_an_error_in_bounded_memory() {
    let too_long = u32::try_from(super::walk::MAX_HELD).unwrap() + 1;
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.query(1, "SELECT * FROM system.peers_v2")]);
    let mut header = Header::response(Version::V4, StreamId(1), Opcode::RESULT);
    header.body_len = too_long;
    let wire = [
        &header.encode()[..],
        &vec![0; too_long as usize],
        &PLAIN.wire(&[PLAIN.event("UP", node(2).native)]),
    ]
    .concat();
    let out = link.receive(Bytes::from(wire), &[60_000]).unwrap();
    let got = PLAIN.envelopes(Direction::Response, out);
    assert_eq!(got[0].header.opcode, Opcode::ERROR);
    assert_eq!(got[1], PLAIN.event("UP", node(2).listen));
}

#[test]
fn the_error_of_an_unknown_version_passes_and_nothing_else_of_it() {
    for (error, is_short) in [
        (&b"\x82\0\0\0\0\0\0\x08\0\0\0\x0a\0\x02no"[..], true),
        (&b"\x87\0\0\0\0\0\0\0\x08\0\0\0\x0a\0\x02no"[..], false),
    ] {
        let link = Link::new(PLAIN, three_nodes());
        for cut in [1, 100] {
            assert_eq!(link.receive(Bytes::from_static(error), &[cut]).unwrap(), error);
        }
        let mut result = error.to_vec();
        result[if is_short { 3 } else { 4 }] = Opcode::RESULT.0;
        assert!(matches!(
            link.receive(Bytes::from(result), &[100]),
            Err(Unreadable::Version(2 | 7))
        ));
    }
    let link = Link::new(PLAIN, three_nodes());
    let tls = Bytes::from_static(b"\x16\x03\x03\0\x10\x02\0\0\0\0\0");
    assert_eq!(link.receive(tls, &[100]), Err(Unreadable::Tls));
}

#[test]
fn gocql_finds_the_nodes_of_events_by_their_peer_address() {
    let link = Link::new(PLAIN, three_nodes());
    for (driver, is_gocql) in [
        ("github.com/gocql/gocql", true),
        ("Apache Cassandra Java Driver", false),
    ] {
        let options = vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", driver)];
        link.send(&[PLAIN.request(0, &Request::Startup(Startup { options }))]);
        link.send(&[PLAIN.query(1, "SELECT * FROM system.peers_v2")]);
        let got = link.answers(&[PLAIN.rows(1, &peers(&[node(2)], native), false)]);
        let mut expected = peers(&[node(2)], listen);
        if is_gocql {
            expected.rows[0][0] = Some(octets(node(2).listen.ip()));
        }
        assert_eq!(got, [PLAIN.rows(1, &expected, false)]);
    }
}

/// Every byte of real drivers and a real node: only addresses differ, and every statement that reads nodes is found.
#[test]
fn sessions_of_real_drivers_differ_in_nothing_but_addresses() {
    // What the sessions were recorded with.
    let own = NodeAddress {
        host_id: None,
        broadcast: IpAddr::from([127, 0, 0, 1]),
        native: SocketAddr::from(([127, 0, 0, 1], 9042)),
        listen: SocketAddr::from(([127, 9, 9, 9], 9876)),
        ready: true,
    };
    let mut rewritten = 0;
    for recording in recording::recordings() {
        let addresses = Addresses::new(Duration::ZERO);
        for connection in recording.connections() {
            let pairing = Pairing {
                addresses: addresses.clone(),
                own: Arc::new(own.clone()),
            };
            let passed = replay(&connection, pairing);
            assert_eq!(passed.len(), connection.len());
            let sent = joined_responses(&connection, connection.iter().map(|chunk| chunk.bytes.clone()));
            let got = joined_responses(&connection, passed.into_iter());
            assert_eq!(sent.len(), got.len(), "{}", recording.name);
            for (sent, got) in sent.iter().zip(&got) {
                let unlike = unlike(&recording.name, sent, got);
                assert!(unlike.is_none_or(|unlike| unlike), "{}", recording.name);
                rewritten += usize::from(unlike.is_some());
            }
        }
        assert_eq!(addresses.counts().may_have_leaked, 0, "{}", recording.name);
    }
    assert!(rewritten > 30, "{rewritten} answers were rewritten");
}

/// What comes out for each chunk of a recorded connection; requests come out as they are.
fn replay(connection: &[&recording::Chunk], pairing: Pairing) -> Vec<Bytes> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.unwrap();
    let shared = Shared::new(pairing);
    let (mut requests, mut responses) = (Requests::new(&shared), Responses::new(&shared));
    let through = |chunk: &&recording::Chunk| {
        if chunk.direction == Direction::Request {
            requests.follow(&chunk.bytes);
            return chunk.bytes.clone();
        }
        responses.feed(chunk.bytes.clone());
        let mut out = BytesMut::new();
        while let Some(bytes) = runtime.block_on(responses.next()).unwrap() {
            out.extend(bytes);
        }
        out.freeze()
    };
    connection.iter().map(through).collect()
}

fn joined_responses(connection: &[&recording::Chunk], bytes: impl Iterator<Item = Bytes>) -> Vec<Envelope> {
    let negotiated = Arc::new(Negotiated::new());
    let mut requests = EnvelopeStream::new(Direction::Request, negotiated.clone());
    let mut responses = EnvelopeStream::new(Direction::Response, negotiated);
    let mut envelopes = Vec::new();
    for (chunk, bytes) in connection.iter().zip(bytes) {
        let is_response = chunk.direction == Direction::Response;
        let stream = if is_response {
            &mut responses
        } else {
            &mut requests
        };
        stream.feed(bytes);
        while let Some(item) = stream.next_item() {
            let StreamItem::Envelope(envelope) = item else {
                panic!("{item:?}")
            };
            if is_response {
                envelopes.push(envelope);
            }
        }
    }
    assert!(!responses.is_joining());
    envelopes
}

/// Whether two bodies differ, and if so, whether in nothing but what has to: the loopback address and the port, where a client finds them.
fn unlike(name: &str, sent: &Envelope, got: &Envelope) -> Option<bool> {
    assert_eq!(
        (sent.header.stream_id, sent.header.opcode, sent.header.flags),
        (got.header.stream_id, got.header.opcode, got.header.flags),
        "{name}"
    );
    if sent.body == got.body {
        return None;
    }
    assert_eq!(sent.body.len(), got.body.len(), "{name}");
    let mut differing = sent
        .body
        .iter()
        .zip(&got.body[..])
        .enumerate()
        .filter(|(_, (a, b))| a != b);
    // 127.0.0.1 and a port became 127.9.9.9 and 9876, the first byte of which may be the same.
    Some(differing.all(|(at, (_, new))| {
        let before = &got.body[..at];
        let in_address = *new == 9 && before.iter().rev().take(3).any(|byte| *byte == 127);
        let in_port = [0x26, 0x94].contains(new);
        in_address || in_port
    }))
}
