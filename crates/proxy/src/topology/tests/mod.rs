//! One connection's bytes through both directions of rewriting, without sockets: what comes out is what would
//! have come in, had the nodes named their listeners themselves.
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

use super::{Addresses, NodeAddress, Pairing, Requests, Responses, Shared, Unreadable};

mod cases;
mod cuts;
mod recorded;

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
