//! Conversations to take apart: what client and server said, as segments and packets.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use cqlens_proto::{
    cutter::Negotiated,
    envelope::{Direction, Envelope, Header, Opcode, StreamId, Version},
    message::{Consistency, Dialect, Extras, Query, QueryParameters, Request},
    stream::{EnvelopeStream, Gap, StreamItem},
};
use etherparse::{PacketBuilder, TcpHeader};

use super::{Losses, Packet, PacketReader, Segment, TcpConnections, packets::LINK_RAW};
use cqlens_capture::{Capture, Moment, ReplayQueue};

/// A connection as both sides speak.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    /// The next numbers of client and server.
    pub(super) next: (u32, u32),
    pub(super) at: i64,
}

impl Conversation {
    pub(super) fn new(first: (u32, u32)) -> Self {
        Self {
            client: "10.0.0.1:40000".parse().unwrap(),
            server: "10.0.0.2:9042".parse().unwrap(),
            next: first,
            at: 1_700_000_000_000_000_000,
        }
    }

    /// The three segments that open it.
    pub(super) fn open(&mut self) -> Vec<Segment> {
        let mut syn = self.segment(Direction::Request, Bytes::new());
        (syn.syn, syn.acknowledgment) = (true, None);
        self.next.0 = self.next.0.wrapping_add(1);
        let mut answer = self.segment(Direction::Response, Bytes::new());
        answer.syn = true;
        self.next.1 = self.next.1.wrapping_add(1);
        vec![syn, answer, self.segment(Direction::Request, Bytes::new())]
    }

    /// One side says `bytes`, having heard all that the other has said.
    pub(super) fn send(&mut self, direction: Direction, bytes: &[u8], size: usize) -> Vec<Segment> {
        bytes
            .chunks(size.max(1))
            .map(|bytes| {
                let segment = self.segment(direction, Bytes::copy_from_slice(bytes));
                let next = match direction {
                    Direction::Request => &mut self.next.0,
                    Direction::Response => &mut self.next.1,
                };
                *next = next.wrapping_add(bytes.len() as u32);
                segment
            })
            .collect()
    }

    /// Both sides end it.
    pub(super) fn close(&mut self) -> Vec<Segment> {
        [Direction::Request, Direction::Response]
            .map(|direction| {
                let mut segment = self.segment(direction, Bytes::new());
                segment.fin = true;
                segment
            })
            .to_vec()
    }

    fn segment(&mut self, direction: Direction, payload: Bytes) -> Segment {
        self.at += 100_000;
        let (from, to, sequence, acknowledgment) = match direction {
            Direction::Request => (self.client, self.server, self.next.0, self.next.1),
            Direction::Response => (self.server, self.client, self.next.1, self.next.0),
        };
        Segment {
            at: Moment::from_unix_nanoseconds(self.at),
            from,
            to,
            sequence,
            acknowledgment: Some(acknowledgment),
            syn: false,
            fin: false,
            rst: false,
            payload,
            cut: 0,
        }
    }
}

/// A QUERY.
pub(super) fn query(version: Version, stream: i16, cql: &str) -> Vec<u8> {
    let envelope = Request::Query(Query {
        query: cql,
        parameters: QueryParameters::new(Consistency::One),
    })
    .to_envelope(Dialect::new(version), StreamId(stream), &Extras::default())
    .unwrap();
    encoded(&envelope)
}

/// A RESULT that says that there is nothing.
pub(super) fn void(version: Version, stream: i16) -> Vec<u8> {
    let header = Header::response(version, StreamId(stream), Opcode::RESULT);
    let body = Bytes::from_static(&[0, 0, 0, 1]);
    encoded(&Envelope { header, body })
}

fn encoded(envelope: &Envelope) -> Vec<u8> {
    let mut out = BytesMut::new();
    envelope.encode(&mut out).unwrap();
    out.to_vec()
}

/// What came of segments.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) losses: Losses,
    /// Whole envelopes of requests and responses.
    pub(super) requests: Vec<Envelope>,
    pub(super) responses: Vec<Envelope>,
    /// Envelopes of which only the header came.
    pub(super) skipped: usize,
    pub(super) captures: Vec<Capture>,
}

/// A packet with the segment.
pub(super) fn packet(segment: &Segment) -> Bytes {
    let (from, to) = (segment.from, segment.to);
    let octets = |end: SocketAddr| match end.ip() {
        IpAddr::V4(ip) => Some(ip.octets()),
        IpAddr::V6(_) => None,
    };
    let mut header = TcpHeader::new(from.port(), to.port(), segment.sequence, 1_024);
    (header.syn, header.fin, header.rst) = (segment.syn, segment.fin, segment.rst);
    header.ack = segment.acknowledgment.is_some();
    header.acknowledgment_number = segment.acknowledgment.unwrap_or_default();
    let whole = [&segment.payload[..], &vec![0; segment.cut]].concat();
    let mut out = Vec::new();
    let ip = PacketBuilder::ipv4(octets(from).unwrap(), octets(to).unwrap(), 64);
    ip.tcp_header(header).write(&mut out, &whole).unwrap();
    out.truncate(out.len() - segment.cut);
    out.into()
}

/// Follows the segments to their end, each in a packet, of which most take the short cut: the same comes of
/// them as without it.
pub(super) fn follow(segments: impl IntoIterator<Item = Segment>) -> Followed {
    let segments: Vec<_> = segments.into_iter().collect();
    let mut packets = PacketReader::default();
    let (captures, losses) = follow_with(|connections| {
        for segment in &segments {
            let bytes = packet(segment);
            let packet = Packet::of(LINK_RAW, segment.at, bytes.len(), &bytes);
            connections.take_packet(&packet, &mut packets);
        }
    });
    let (of_segments, losses_of_segments) =
        follow_with(|connections| segments.into_iter().for_each(|segment| connections.take(segment)));
    assert_eq!(format!("{captures:?}"), format!("{of_segments:?}"));
    assert_eq!(losses, losses_of_segments);
    parse_captures(captures, losses)
}

fn follow_with(take: impl FnOnce(&mut TcpConnections)) -> (Vec<Capture>, Losses) {
    let queue = Arc::new(ReplayQueue::new(64 << 20));
    let mut connections = TcpConnections::new(Arc::clone(&queue), vec![9042]);
    take(&mut connections);
    connections.end();
    let captures = std::iter::from_fn(|| queue.pop()).collect();
    (captures, connections.take_losses())
}

/// The envelopes in captures.
pub(super) fn parse_captures(captures: Vec<Capture>, losses: Losses) -> Followed {
    let mut followed = Followed {
        losses,
        requests: Vec::new(),
        responses: Vec::new(),
        skipped: 0,
        captures,
    };
    let mut streams = std::collections::HashMap::new();
    for capture in followed.captures.clone() {
        let key = (capture.connection.id, capture.direction);
        let stream = streams
            .entry(key)
            .or_insert_with(|| EnvelopeStream::new(capture.direction, Arc::new(Negotiated::new())));
        feed(stream, &capture);
        while let Some(item) = stream.next_item() {
            match (item, capture.direction) {
                (StreamItem::Envelope(envelope), Direction::Request) => followed.requests.push(envelope),
                (StreamItem::Envelope(envelope), Direction::Response) => followed.responses.push(envelope),
                _ => followed.skipped += 1,
            }
        }
    }
    followed
}

/// As the audit does.
fn feed(stream: &mut EnvelopeStream, capture: &Capture) {
    let compression = capture.connection.negotiated.compression();
    if capture.after_gap.is_some() {
        let framing = capture.boundary.map(|(_, framing)| framing);
        let gap = Gap {
            boundary: capture.boundary.map(|(at, _)| at),
            framing: framing.unwrap_or(cqlens_proto::cutter::Framing::Envelopes),
            compression,
        };
        stream.feed_after_gap(capture.bytes.clone(), gap);
        return;
    }
    if capture.gap > 0 {
        stream.skip_gap(capture.gap);
    }
    if let Some((_, framing)) = capture.boundary {
        stream.learn(framing, compression);
    }
    stream.feed(capture.bytes.clone());
}
