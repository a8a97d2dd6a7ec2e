//! From packets to TCP segments: link layers, IPv4 and IPv6, fragments, tunnels.
//!
//! Packets that are not TCP are ignored; those that cannot be read are counted, and so are those that may have TCP
//! in them and are not read, by kind.

mod exported;
mod fragments;
mod layers;
mod plain;
mod tunnels;
mod unread;

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use etherparse::{IpNumber, Ipv6Header, LaxIpSlice, TcpSlice, ip_number};

use exported::{ExportedFlows, LINK_EXPORTED, Tags};
use fragments::{Damaged, Fragments};
#[cfg(test)]
pub(super) use layers::LINK_RAW;
use layers::{Network, descend, network};
pub(super) use plain::Headers;
use tunnels::{Contents, contents};
pub use unread::{Unread, UnreadPackets};

use super::files::{Packet, range};
use cqlens_capture::Moment;

/// A TCP segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// When it was captured.
    pub at: Moment,
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
    /// The sequence number.
    pub sequence: u32,
    /// The acknowledgment number, if it has one.
    pub acknowledgment: Option<u32>,
    /// SYN: opens the connection.
    pub syn: bool,
    /// FIN: ends the direction.
    pub fin: bool,
    /// RST: aborts the connection.
    pub rst: bool,
    /// The captured payload.
    pub payload: Bytes,
    /// Payload bytes that the snap length cut off.
    pub cut: usize,
}

/// Packets that were skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedPackets {
    /// Packets in something that may carry IP and is not read.
    pub unread: UnreadPackets,
    /// Packets that are damaged, or cut off before the end of their TCP header.
    pub unreadable: u64,
    /// IP fragments whose other fragments did not come.
    pub fragments: u64,
}

/// Decodes packets to TCP segments.
#[derive(Default)]
pub struct PacketReader {
    fragments: Fragments,
    exported: ExportedFlows,
    /// Packets that were skipped.
    pub skipped: SkippedPackets,
}

impl PacketReader {
    /// The TCP segment in `packet`; `None` if it has none, or is a fragment of one that is not complete.
    pub fn read(&mut self, packet: &Packet<'_>) -> Option<Segment> {
        match packet.link {
            LINK_EXPORTED => self.read_exported(packet),
            link => self.read_network(packet, network(link, packet.bytes), 0),
        }
    }

    /// Nothing more comes: what waits for more is skipped.
    pub fn end(&mut self) {
        self.skipped.fragments += self.fragments.give_up_all();
    }

    /// Reads what Wireshark has exported: an IP packet, or what one end of a TCP connection has sent to the other.
    #[cold]
    fn read_exported(&mut self, packet: &Packet<'_>) -> Option<Segment> {
        let Some(tags) = Tags::read(packet.bytes) else {
            self.skipped.unreadable += 1;
            return None;
        };
        if tags.is_ip {
            return self.read_network(packet, Network::Ip(tags.length), 0);
        }
        let Some((from, to)) = tags.ends() else {
            self.skipped.unread.count(Unread::ExportedWithoutEnds);
            return None;
        };
        let payload = packet.share(tags.length.min(packet.bytes.len())..packet.bytes.len());
        let length = packet.length.saturating_sub(tags.length).max(payload.len());
        Some(Segment {
            at: packet.at,
            from,
            to,
            sequence: self.exported.place(&tags, (from, to), &payload, length),
            acknowledgment: None,
            syn: false,
            fin: false,
            rst: false,
            cut: length - payload.len(),
            payload,
        })
    }

    /// Reads what a packet holds, which is inside so many tunnels.
    fn read_network(&mut self, packet: &Packet<'_>, network: Network, tunnels: usize) -> Option<Segment> {
        match network {
            Network::Ip(at) => return self.read_ip(packet, at, tunnels),
            Network::Other => {}
            Network::Damaged => self.skipped.unreadable += 1,
            Network::Unread(kind) => self.skipped.unread.count(kind),
        }
        None
    }

    fn read_ip(&mut self, packet: &Packet<'_>, ip_at: usize, tunnels: usize) -> Option<Segment> {
        let bytes = packet.bytes.get(ip_at..).unwrap_or_default();
        let Ok((ip, _)) = LaxIpSlice::from_slice(bytes) else {
            self.skipped.unreadable += 1;
            return None;
        };
        let ends = (ip.source_addr(), ip.destination_addr());
        let payload = ip.payload();
        if payload.fragmented {
            return self.defragment(packet, ip_at, ends, tunnels);
        }
        if payload.ip_number != ip_number::TCP {
            let at = range(payload.payload, packet.bytes).start;
            return self.read_tunnel(packet, payload.ip_number, at, tunnels);
        }
        let Ok(tcp) = TcpSlice::from_slice(payload.payload) else {
            self.skipped.unreadable += 1;
            return None;
        };
        // Captured before segmentation offload, large packets have no length.
        let on_wire = match declared_length(&ip) {
            0 => packet.length.saturating_sub(ip_at),
            declared => declared,
        };
        let payload = packet.share(range(tcp.payload(), packet.bytes));
        let cut = on_wire.saturating_sub(bytes.len());
        Some(segment(&tcp, packet.at, ends, payload, cut))
    }

    /// Reads what is in the payload of an IP packet that is not TCP. The payload begins at offset `at`.
    #[cold]
    fn read_tunnel(
        &mut self,
        packet: &Packet<'_>,
        protocol: IpNumber,
        at: usize,
        tunnels: usize,
    ) -> Option<Segment> {
        let payload = packet.bytes.get(at..).unwrap_or_default();
        let network = match contents(protocol, payload) {
            Contents::Packet(..) if tunnels == MAX_TUNNELS => Network::Unread(Unread::Deeper),
            Contents::Packet(layer, begin) => descend(layer, packet.bytes, at + begin),
            Contents::Other => Network::Other,
            Contents::Damaged => Network::Damaged,
            Contents::Unread(kind) => Network::Unread(kind),
        };
        self.read_network(packet, network, tunnels + 1)
    }

    fn defragment(
        &mut self,
        packet: &Packet<'_>,
        ip_at: usize,
        ends: (IpAddr, IpAddr),
        tunnels: usize,
    ) -> Option<Segment> {
        self.skipped.fragments += self.fragments.give_up_oldest();
        let whole = match self.fragments.take(packet.bytes.get(ip_at..)?) {
            Ok(whole) => whole?,
            Err(Damaged) => {
                self.skipped.unreadable += 1;
                return None;
            }
        };
        let bytes = Bytes::from(whole.payload);
        if whole.ip_number != ip_number::TCP {
            return self.read_tunnel(&packet.with_bytes(&bytes), whole.ip_number, 0, tunnels);
        }
        let tcp = TcpSlice::from_slice(&bytes).ok()?;
        let payload = bytes.slice_ref(tcp.payload());
        Some(segment(&tcp, packet.at, ends, payload, 0))
    }
}

/// Tunnels in each other that are read: an overlay network, and what mirrors the traffic of a machine in it.
const MAX_TUNNELS: usize = 2;

/// The length of the IP packet by its header; 0 if the header has none.
fn declared_length(ip: &LaxIpSlice<'_>) -> usize {
    match ip {
        LaxIpSlice::Ipv4(ip) => ip.header().total_len().into(),
        LaxIpSlice::Ipv6(ip) => match ip.header().payload_length() {
            0 => 0,
            length => Ipv6Header::LEN + usize::from(length),
        },
    }
}

fn segment(
    tcp: &TcpSlice<'_>,
    at: Moment,
    (source, destination): (IpAddr, IpAddr),
    payload: Bytes,
    cut: usize,
) -> Segment {
    Segment {
        at,
        from: SocketAddr::new(source, tcp.source_port()),
        to: SocketAddr::new(destination, tcp.destination_port()),
        sequence: tcp.sequence_number(),
        acknowledgment: tcp.ack().then(|| tcp.acknowledgment_number()),
        syn: tcp.syn(),
        fin: tcp.fin(),
        rst: tcp.rst(),
        payload,
        cut,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{layers::*, *};
    use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep};
    use proptest::{collection::vec, prelude::*};

    fn read(packets: &mut PacketReader, link: i32, bytes: Vec<u8>) -> Option<Segment> {
        let bytes = Bytes::from(bytes);
        let at = Moment::from_unix_nanoseconds(7);
        packets.read(&Packet::of(link, at, bytes.len(), &bytes))
    }

    fn with_tcp(step: PacketBuilderStep<IpHeaders>) -> Vec<u8> {
        let mut out = Vec::new();
        step.tcp(40_000, 9_042, 1_000, 1_024)
            .ack(2_000)
            .write(&mut out, b"payload")
            .unwrap();
        out
    }

    fn v4() -> Vec<u8> {
        with_tcp(PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64))
    }

    fn v6() -> Vec<u8> {
        with_tcp(PacketBuilder::ipv6([1; 16], [2; 16], 64))
    }

    fn check(link: i32, bytes: Vec<u8>) {
        let mut packets = PacketReader::default();
        let segment = read(&mut packets, link, bytes).unwrap();
        assert_eq!((segment.from.port(), segment.to.port()), (40_000, 9_042));
        assert_eq!((segment.sequence, segment.acknowledgment), (1_000, Some(2_000)));
        assert_eq!((&segment.payload[..], segment.cut), (&b"payload"[..], 0));
        assert_eq!(packets.skipped, SkippedPackets::default());
    }

    #[test]
    fn link_layers_are_taken_off() {
        let ethernet = || PacketBuilder::ethernet2([1; 6], [2; 6]);
        check(
            LINK_ETHERNET,
            with_tcp(ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)),
        );
        check(LINK_ETHERNET, with_tcp(ethernet().ipv6([1; 16], [2; 16], 64)));
        let vlan = ethernet().single_vlan(etherparse::VlanId::try_new(7).unwrap());
        check(
            LINK_ETHERNET,
            with_tcp(vlan.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)),
        );
        for (ip, kind, family) in [(v4(), [8, 0], [2, 0, 0, 0]), (v6(), [0x86, 0xdd], [0, 0, 0, 30])] {
            check(LINK_RAW, ip.clone());
            check(LINK_NULL, [&family[..], &ip].concat());
            check(LINK_LOOP, [&family[..], &ip].concat());
            check(LINK_COOKED, [&[0; 14][..], &kind, &ip].concat());
            check(LINK_COOKED_2, [&kind[..], &[0; 18], &ip].concat());
        }
    }

    #[test]
    fn padding_is_no_payload_and_what_was_cut_off_is_told() {
        let mut packets = PacketReader::default();
        let padded = [v4(), vec![0; 20]].concat();
        let segment = read(&mut packets, LINK_RAW, padded).unwrap();
        assert_eq!((&segment.payload[..], segment.cut), (&b"payload"[..], 0));
        for (ip, headers) in [(v4(), 40), (v6(), 60)] {
            let segment = read(&mut packets, LINK_RAW, ip[..headers + 3].to_vec()).unwrap();
            assert_eq!((&segment.payload[..], segment.cut), (&b"pay"[..], 4));
            assert!(read(&mut packets, LINK_RAW, ip[..headers - 1].to_vec()).is_none());
        }
        assert_eq!(packets.skipped.unreadable, 2);
    }

    #[test]
    fn an_unknown_link_layer_is_counted() {
        let mut packets = PacketReader::default();
        assert!(read(&mut packets, 147, v4()).is_none());
        assert_eq!(packets.skipped.unread.by_number(), [(Unread::Link(147), 1)]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            link in prop_oneof![Just(0), Just(1), Just(12), Just(108), Just(113), Just(276), any::<i32>()],
            bytes in vec(any::<u8>(), 0..200),
            begin in any::<bool>(),
            changed in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let mut bytes = if begin { [v4(), bytes].concat() } else { bytes };
            for (at, byte) in changed {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            read(&mut PacketReader::default(), if begin { LINK_RAW } else { link }, bytes);
        }
    }
}
