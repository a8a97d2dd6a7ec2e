//! From packets to TCP segments: link layers, IPv4 and IPv6, fragments.
//!
//! Nothing is said of packets that are not TCP; what cannot be read is counted.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use etherparse::{
    EtherType, LaxNetSlice, LaxSlicedPacket, SlicedPacket, TcpSlice, TransportSlice, defrag::IpDefragPool,
    ip_number,
};

use super::{
    file::{Packet, range},
    plain::Headers,
};
use cqlens_audit::capture::Moment;

/// What a packet says of a TCP connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// When it was captured.
    pub at: Moment,
    /// Who sent it.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// The number of its first byte.
    pub sequence: u32,
    /// The number of the byte that its sender waits for, if it says so.
    pub acknowledgment: Option<u32>,
    /// It opens the connection.
    pub syn: bool,
    /// Its sender has nothing more to say.
    pub fin: bool,
    /// It ends the connection.
    pub rst: bool,
    /// What it carries, as far as it was captured.
    pub payload: Bytes,
    /// Bytes that followed on the wire and were cut off by the capture's snap length.
    pub cut: usize,
}

/// What was passed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets with a link layer that is not known here.
    pub unknown_link: u64,
    /// Packets that are cut off before the end of their TCP header, or damaged.
    pub unreadable: u64,
    /// Fragments that were given up: the others of their packet did not come.
    pub fragments: u64,
}

/// Reads packets.
#[derive(Default)]
pub struct Packets {
    fragments: IpDefragPool<Moment, ()>,
    /// Fragments that wait for the others.
    waiting: usize,
    /// What was passed over.
    pub passed: Passed,
}

/// Fragments that may wait. Each keeps 64 KiB at most, of packets that are rarely in fragments at all.
const MAX_FRAGMENTS: usize = 256;

impl Packets {
    /// The TCP segment in `packet`; none where there is none, or not all of it yet.
    pub fn read(&mut self, packet: &Packet<'_>) -> Option<Segment> {
        match Headers::read(packet) {
            Some(headers) => Some(headers.segment(packet)),
            None => self.read_any(packet),
        }
    }

    /// The same, of a packet of any kind.
    pub(super) fn read_any(&mut self, packet: &Packet<'_>) -> Option<Segment> {
        let bytes = packet.bytes;
        let Some(sliced) = slice(packet.link, bytes) else {
            self.passed.unknown_link += 1;
            return None;
        };
        let Some(sliced) = sliced else {
            self.passed.unreadable += 1;
            return None;
        };
        let (source, destination, ip_at, declared, is_fragment, is_tcp) = addresses(&sliced, bytes)?;
        if is_fragment {
            return self.defragment(packet, ip_at, source, destination);
        }
        let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else {
            self.passed.unreadable += u64::from(is_tcp);
            return None;
        };
        let here = bytes.len() - ip_at;
        // Large packets of the sender's own machine have no length: the network card cuts them.
        let on_wire = match declared {
            0 => packet.length.saturating_sub(ip_at),
            declared => declared,
        };
        let payload = packet.share(range(tcp.payload(), bytes));
        Some(segment(
            tcp,
            packet.at,
            (source, destination),
            payload,
            on_wire.saturating_sub(here),
        ))
    }

    fn defragment(
        &mut self,
        packet: &Packet<'_>,
        ip_at: usize,
        source: IpAddr,
        destination: IpAddr,
    ) -> Option<Segment> {
        if self.waiting >= MAX_FRAGMENTS {
            self.passed.fragments += self.waiting as u64;
            self.waiting = 0;
            self.fragments = IpDefragPool::default();
        }
        self.waiting += 1;
        let whole = SlicedPacket::from_ip(packet.bytes.get(ip_at..)?)
            .ok()
            .and_then(|sliced| self.fragments.process_sliced_packet(&sliced, packet.at, ()).ok());
        let Some(whole) = whole else {
            self.passed.unreadable += 1;
            return None;
        };
        let whole = whole?;
        self.waiting = self.waiting.saturating_sub(2);
        if whole.ip_number != ip_number::TCP {
            return None;
        }
        let bytes = Bytes::from(whole.payload);
        let tcp = TcpSlice::from_slice(&bytes).ok()?;
        let payload = bytes.slice_ref(tcp.payload());
        Some(segment(&tcp, packet.at, (source, destination), payload, 0))
    }
}

/// None where the link layer is not known; `Some(None)` where the packet is damaged.
fn slice(link: i32, bytes: &[u8]) -> Option<Option<LaxSlicedPacket<'_>>> {
    Some(match link {
        LINK_ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok(),
        LINK_COOKED => {
            let kind = bytes.get(14..16).and_then(|two| two.first_chunk::<2>());
            kind.zip(bytes.get(16..)).map(of_ether_type)
        }
        LINK_COOKED_2 => {
            let kind = bytes.first_chunk::<2>();
            kind.zip(bytes.get(20..)).map(of_ether_type)
        }
        // Four bytes that name the family, in the order of the machine that captured; the version of IP says the same.
        LINK_NULL | LINK_LOOP => bytes.get(4..).and_then(|ip| LaxSlicedPacket::from_ip(ip).ok()),
        LINK_RAW | LINK_RAW_BSD | LINK_RAW_OPENBSD | LINK_IPV4 | LINK_IPV6 => {
            LaxSlicedPacket::from_ip(bytes).ok()
        }
        _ => return None,
    })
}

fn of_ether_type<'p>((kind, rest): (&[u8; 2], &'p [u8])) -> LaxSlicedPacket<'p> {
    LaxSlicedPacket::from_ether_type(EtherType(u16::from_be_bytes(*kind)), rest)
}

/// Source, destination, where the IP header begins, the length that it tells, whether it is a fragment, and whether it holds TCP.
fn addresses(
    sliced: &LaxSlicedPacket<'_>,
    bytes: &[u8],
) -> Option<(IpAddr, IpAddr, usize, usize, bool, bool)> {
    let at = |header: &[u8]| range(header, bytes).start;
    match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            Some((
                header.source_addr().into(),
                header.destination_addr().into(),
                at(header.slice()),
                usize::from(header.total_len()),
                ip.payload().fragmented,
                ip.payload().ip_number == ip_number::TCP,
            ))
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let length = match header.payload_length() {
                0 => 0,
                length => header.slice().len() + usize::from(length),
            };
            Some((
                header.source_addr().into(),
                header.destination_addr().into(),
                at(header.slice()),
                length,
                ip.payload().fragmented,
                ip.payload().ip_number == ip_number::TCP,
            ))
        }
        LaxNetSlice::Arp(_) => None,
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

pub(super) const LINK_NULL: i32 = 0;
pub(super) const LINK_ETHERNET: i32 = 1;
pub(super) const LINK_RAW_BSD: i32 = 12;
pub(super) const LINK_RAW_OPENBSD: i32 = 14;
pub(super) const LINK_RAW: i32 = 101;
pub(super) const LINK_LOOP: i32 = 108;
pub(super) const LINK_COOKED: i32 = 113;
pub(super) const LINK_IPV4: i32 = 228;
pub(super) const LINK_IPV6: i32 = 229;
pub(super) const LINK_COOKED_2: i32 = 276;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use etherparse::{IpFragOffset, IpHeaders, Ipv4Header, PacketBuilder, PacketBuilderStep, TcpHeader};
    use proptest::{collection::vec, prelude::*};

    fn read(packets: &mut Packets, link: i32, bytes: Vec<u8>) -> Option<Segment> {
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
        let mut packets = Packets::default();
        let segment = read(&mut packets, link, bytes).unwrap();
        assert_eq!((segment.from.port(), segment.to.port()), (40_000, 9_042));
        assert_eq!((segment.sequence, segment.acknowledgment), (1_000, Some(2_000)));
        assert_eq!((&segment.payload[..], segment.cut), (&b"payload"[..], 0));
        assert_eq!(packets.passed, Passed::default());
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
        let mut packets = Packets::default();
        let padded = [v4(), vec![0; 20]].concat();
        let segment = read(&mut packets, LINK_RAW, padded).unwrap();
        assert_eq!((&segment.payload[..], segment.cut), (&b"payload"[..], 0));
        for (ip, headers) in [(v4(), 40), (v6(), 60)] {
            let segment = read(&mut packets, LINK_RAW, ip[..headers + 3].to_vec()).unwrap();
            assert_eq!((&segment.payload[..], segment.cut), (&b"pay"[..], 4));
            assert!(read(&mut packets, LINK_RAW, ip[..headers - 1].to_vec()).is_none());
        }
        assert_eq!(packets.passed.unreadable, 2);
    }

    #[test]
    fn fragments_are_put_together_in_any_order() {
        let tcp = {
            let mut out = Vec::new();
            TcpHeader::new(40_000, 9_042, 1_000, 1_024)
                .write(&mut out)
                .unwrap();
            [out, vec![7; 3_000]].concat()
        };
        let fragment = |from: usize, to: usize| {
            let part = &tcp[from..to];
            let length = u16::try_from(part.len()).unwrap();
            let mut header =
                Ipv4Header::new(length, 64, ip_number::TCP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
            header.identification = 9;
            header.dont_fragment = false;
            header.more_fragments = to < tcp.len();
            header.fragment_offset = IpFragOffset::try_new(u16::try_from(from / 8).unwrap()).unwrap();
            let mut out = Vec::new();
            header.write(&mut out).unwrap();
            [&out[..], part].concat()
        };
        let mut packets = Packets::default();
        assert!(read(&mut packets, LINK_RAW, fragment(1_600, tcp.len())).is_none());
        assert!(read(&mut packets, LINK_RAW, fragment(0, 800)).is_none());
        let segment = read(&mut packets, LINK_RAW, fragment(800, 1_600)).unwrap();
        assert_eq!((segment.payload.len(), segment.from.port()), (3_000, 40_000));
        // Fragments without the others are given up.
        for number in 0..3 * MAX_FRAGMENTS {
            let mut alone = fragment(0, 800);
            let number = u16::try_from(number).unwrap().to_be_bytes();
            (alone[4], alone[5]) = (number[0], number[1]);
            assert!(read(&mut packets, LINK_RAW, alone).is_none());
        }
        assert!(packets.passed.fragments >= 2 * MAX_FRAGMENTS as u64);
        assert!(packets.waiting <= MAX_FRAGMENTS);
    }

    #[test]
    fn an_unknown_link_layer_is_counted() {
        let mut packets = Packets::default();
        assert!(read(&mut packets, 147, v4()).is_none());
        assert_eq!(packets.passed.unknown_link, 1);
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
            read(&mut Packets::default(), if begin { LINK_RAW } else { link }, bytes);
        }
    }
}
