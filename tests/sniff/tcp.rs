//! TCP segments out of packets, and back into packets of any link layer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::sniff::packets::{Capture, ETHERNET, Packet};

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const PUSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;

/// A segment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Segment {
    /// Nanoseconds since the Unix epoch.
    pub(crate) at: u64,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) flags: u8,
    pub(crate) payload: Vec<u8>,
}

/// What packets of a network begin with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Link {
    Ethernet,
    /// Tags of 802.1Q, so many.
    Vlan(usize),
    /// Linux, `-i any`, by version.
    Cooked1,
    Cooked2,
    RawIp,
    /// IPv4 or IPv6 alone, by the number of that.
    RawIpOfVersion,
    /// BSD's loopback, whose first word is in the order of bytes of a little-endian machine; and of the other
    /// one.
    Null {
        big_endian: bool,
    },
    /// The same in network order.
    Loop,
}

impl Link {
    pub(crate) const ALL: [Self; 10] = [
        Self::Ethernet,
        Self::Vlan(1),
        Self::Vlan(2),
        Self::Cooked1,
        Self::Cooked2,
        Self::RawIp,
        Self::RawIpOfVersion,
        Self::Null { big_endian: false },
        Self::Null { big_endian: true },
        Self::Loop,
    ];

    fn number(self, is_ipv6: bool) -> u32 {
        match self {
            Self::Ethernet | Self::Vlan(_) => ETHERNET,
            Self::Cooked1 => 113,
            Self::Cooked2 => 276,
            Self::RawIp => 101,
            Self::RawIpOfVersion => 228 + u32::from(is_ipv6),
            Self::Null { .. } => 0,
            Self::Loop => 108,
        }
    }

    /// What precedes the IP header.
    fn header(self, is_ipv6: bool) -> Vec<u8> {
        let protocol = if is_ipv6 { IPV6 } else { IPV4 }.to_be_bytes();
        // 30 is AF_INET6 of macOS.
        let family: u32 = if is_ipv6 { 30 } else { 2 };
        let addresses = [0; 12];
        match self {
            Self::Ethernet => [&addresses[..], &protocol].concat(),
            Self::Vlan(tags) => [&addresses[..], &[0x81, 0, 0, 7].repeat(tags), &protocol].concat(),
            Self::Cooked1 => [&[0, 0, 0x03, 0x04, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0][..], &protocol].concat(),
            Self::Cooked2 => [
                &protocol[..],
                &[0, 0, 0, 0, 0, 1, 0x03, 0x04, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0],
            ]
            .concat(),
            Self::RawIp | Self::RawIpOfVersion => Vec::new(),
            Self::Null { big_endian: false } => family.to_le_bytes().to_vec(),
            Self::Null { big_endian: true } | Self::Loop => family.to_be_bytes().to_vec(),
        }
    }
}

/// The segments of a capture on Ethernet.
///
/// # Panics
/// If it has anything else than whole packets of TCP.
pub(crate) fn segments(capture: &Capture) -> Vec<Segment> {
    assert_eq!(capture.link, ETHERNET);
    capture.packets.iter().map(segment).collect()
}

fn segment(packet: &Packet) -> Segment {
    assert_eq!(packet.bytes.len(), packet.length, "a whole packet");
    let ip = &packet.bytes[14..];
    let (from, to, tcp) = match ip[0] >> 4 {
        4 => {
            let address =
                |at: usize| IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(&ip[at..at + 4]).unwrap()));
            let length = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            (address(12), address(16), &ip[usize::from(ip[0] & 15) * 4..length])
        }
        6 => {
            let address =
                |at: usize| IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap()));
            let length = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            (address(8), address(24), &ip[40..40 + length])
        }
        other => panic!("version {other} of IP"),
    };
    let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
    let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    Segment {
        at: packet.at,
        from: SocketAddr::new(from, port(0)),
        to: SocketAddr::new(to, port(2)),
        sequence: word(4),
        acknowledgement: word(8),
        flags: tcp[13],
        payload: tcp[usize::from(tcp[12] >> 4) * 4..].to_vec(),
    }
}

/// The packets that carry these segments over Ethernet.
pub(crate) fn capture(segments: &[Segment]) -> Capture {
    capture_over(Link::Ethernet, segments)
}

/// The packets that carry these segments over this link.
pub(crate) fn capture_over(link: Link, segments: &[Segment]) -> Capture {
    let is_ipv6 = segments.iter().any(|segment| segment.from.is_ipv6());
    let packets = segments.iter().map(|segment| {
        let bytes = [link.header(is_ipv6), segment.packet()].concat();
        Packet {
            at: segment.at,
            length: bytes.len(),
            bytes,
        }
    });
    Capture {
        link: link.number(is_ipv6),
        packets: packets.collect(),
    }
}

/// The same with IP packets in fragments whose payload has `size` bytes, a multiple of 8, the last one first.
pub(crate) fn fragmented(segments: &[Segment], size: usize) -> Capture {
    let mut packets = Vec::new();
    for (number, segment) in (1_u16..).zip(segments) {
        let is_ipv6 = segment.from.is_ipv6();
        let whole = segment.packet();
        let (header, payload) = whole.split_at(if is_ipv6 { 40 } else { 20 });
        let parts: Vec<&[u8]> = payload.chunks(size).collect();
        for (index, part) in parts.iter().enumerate().rev() {
            let has_more = index + 1 < parts.len();
            let place = u16::try_from(index * size / 8).unwrap();
            let header = match is_ipv6 {
                true => ipv6_fragment(header, number, place, has_more, part.len()),
                false => ipv4_fragment(header, number, place, has_more, part.len()),
            };
            let bytes = [&Link::Ethernet.header(is_ipv6), &header[..], part].concat();
            packets.push(Packet {
                at: segment.at,
                length: bytes.len(),
                bytes,
            });
        }
    }
    Capture {
        link: ETHERNET,
        packets,
    }
}

/// The place counts in units of 8 bytes.
fn ipv4_fragment(header: &[u8], number: u16, place: u16, has_more: bool, length: usize) -> Vec<u8> {
    let mut header = header.to_vec();
    let more = if has_more { 0x2000 } else { 0 };
    header[2..4].copy_from_slice(&u16::try_from(20 + length).unwrap().to_be_bytes());
    header[4..6].copy_from_slice(&number.to_be_bytes());
    header[6..8].copy_from_slice(&(more | place).to_be_bytes());
    header
}

/// With the extension header of fragments (RFC 8200 §4.5).
fn ipv6_fragment(header: &[u8], number: u16, place: u16, has_more: bool, length: usize) -> Vec<u8> {
    const FRAGMENT: u8 = 44;
    let mut header = header.to_vec();
    header[4..6].copy_from_slice(&u16::try_from(8 + length).unwrap().to_be_bytes());
    let next = std::mem::replace(&mut header[6], FRAGMENT);
    header.extend([next, 0]);
    header.extend((place << 3 | u16::from(has_more)).to_be_bytes());
    header.extend(u32::from(number).to_be_bytes());
    header
}

impl Segment {
    /// The sequence number after its last byte; SYN and FIN count as one.
    pub(crate) fn end(&self) -> u32 {
        let flags = u32::from(self.flags & SYN != 0) + u32::from(self.flags & FIN != 0);
        self.sequence
            .wrapping_add(u32::try_from(self.payload.len()).unwrap())
            .wrapping_add(flags)
    }

    /// The IP packet, with checksums of 0: network cards fill them in after the capture.
    fn packet(&self) -> Vec<u8> {
        let mut tcp = Vec::with_capacity(60 + self.payload.len());
        tcp.extend(self.from.port().to_be_bytes());
        tcp.extend(self.to.port().to_be_bytes());
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledgement.to_be_bytes());
        tcp.extend([5 << 4, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(&self.payload);
        let mut ip = Vec::with_capacity(40 + tcp.len());
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                ip.extend([0x45, 0]);
                ip.extend(u16::try_from(20 + tcp.len()).unwrap().to_be_bytes());
                ip.extend([0, 0, 0, 0, 64, TCP, 0, 0]);
                ip.extend(from.octets());
                ip.extend(to.octets());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                ip.extend([0x60, 0, 0, 0]);
                ip.extend(u16::try_from(tcp.len()).unwrap().to_be_bytes());
                ip.extend([TCP, 64]);
                ip.extend(from.octets());
                ip.extend(to.octets());
            }
            other => panic!("between {other:?}"),
        }
        ip.extend(tcp);
        ip
    }
}
