//! What IP packets carry that contains packets itself: IP in IP, GRE with what is in it (ERSPAN, PPTP), and in UDP
//! VXLAN, Geneve, GTP-U, GRE and MPLS.
//!
//! What is encrypted, or too rare to be read, has a name.

use etherparse::{EtherType, IpNumber, ip_number};

use super::{
    layers::{Layer, ether_type, next_protocol},
    unread::Unread,
};

/// What the payload of an IP packet contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// Another packet, whose first header is that and begins at that offset of the payload.
    Packet(Layer, usize),
    /// No packet.
    Other,
    /// It is cut off before the end of the tunnel's headers.
    Damaged,
    /// Something that may contain packets, and is not read.
    Unread(Unread),
}

/// What the payload of an IP packet contains, which is of that protocol and not TCP.
pub(super) fn contents(protocol: IpNumber, payload: &[u8]) -> Contents {
    let contents = match protocol {
        ip_number::IPV4 | ip_number::IPV6 => Some(Contents::Packet(Layer::Ip, 0)),
        ip_number::UDP => udp(payload),
        ip_number::GRE => gre(payload, 0),
        // Two bytes with a version (RFC 3378).
        ip_number::ETHER_IP => Some(Contents::Packet(Layer::Ethernet, 2)),
        ip_number::MPLS_IN_IP => Some(Contents::Packet(Layer::Labels, 0)),
        ETHERNET => Some(Contents::Packet(Layer::Ethernet, 0)),
        ip_number::ENCAP_SEC | ip_number::IP_COMP => Some(Contents::Unread(Unread::Ipsec)),
        LAYER_2_TUNNEL => Some(Contents::Unread(Unread::L2tp)),
        _ => Some(Contents::Other),
    };
    contents.unwrap_or(Contents::Damaged)
}

/// Ethernet in IPv6, of segment routing (RFC 8986).
const ETHERNET: IpNumber = IpNumber(143);

/// L2TP version 3 without UDP (RFC 3931).
const LAYER_2_TUNNEL: IpNumber = IpNumber(115);

const UDP_HEADER: usize = 8;

/// By the port of the receiver, or by what VXLAN looks like: its port is often another one. `None` if it is cut
/// off.
fn udp(payload: &[u8]) -> Option<Contents> {
    let header = payload.first_chunk::<UDP_HEADER>()?;
    let inside = payload.get(UDP_HEADER..)?;
    let [from, to] = [0, 2].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
    match to {
        VXLAN | VXLAN_OF_LINUX => vxlan(inside),
        VXLAN_GPE => vxlan_gpe(inside),
        GENEVE => geneve(inside),
        GTP_USER => gtp(inside),
        GRE_IN_UDP => gre(payload, UDP_HEADER),
        MPLS_IN_UDP => Some(Contents::Packet(Layer::Labels, UDP_HEADER)),
        _ if WIREGUARD.contains(&to) || WIREGUARD.contains(&from) => Some(match inside {
            [4, 0, 0, 0, ..] => Contents::Unread(Unread::WireGuard),
            _ => Contents::Other,
        }),
        _ if to == IPSEC_IN_UDP || from == IPSEC_IN_UDP => Some(match inside {
            // IKE, and a sign of life (RFC 3948).
            [0, 0, 0, 0, ..] | [_] | [] => Contents::Other,
            _ => Contents::Unread(Unread::Ipsec),
        }),
        // The first bit is set in what controls the tunnel (RFC 2661).
        L2TP => Some(match inside.first()? & 0x80 {
            0 => Contents::Unread(Unread::L2tp),
            _ => Contents::Other,
        }),
        _ if is_vxlan(inside) => vxlan(inside),
        _ => Some(Contents::Other),
    }
}

const VXLAN: u16 = 4789;
/// The default of Linux, flannel and Cilium, from before there was a number.
const VXLAN_OF_LINUX: u16 = 8472;
const VXLAN_GPE: u16 = 4790;
const GENEVE: u16 = 6081;
const GTP_USER: u16 = 2152;
const GRE_IN_UDP: u16 = 4754;
const MPLS_IN_UDP: u16 = 6635;
const IPSEC_IN_UDP: u16 = 4500;
const L2TP: u16 = 1701;
/// The usual port, those of Calico, and that of Cilium.
const WIREGUARD: [u16; 3] = [51820, 51821, 51871];

const VXLAN_HEADER: usize = 8;
/// The flag that says that there is a network's number.
const VXLAN_HAS_NUMBER: u8 = 0x08;

/// Flags, the network's number in bytes 4 to 6 (RFC 7348), then Ethernet.
fn vxlan(inside: &[u8]) -> Option<Contents> {
    let flags = inside.first_chunk::<VXLAN_HEADER>()?[0];
    Some(match flags & VXLAN_HAS_NUMBER {
        0 => Contents::Other,
        _ => Contents::Packet(Layer::Ethernet, UDP_HEADER + VXLAN_HEADER),
    })
}

/// The same with the number of what follows in byte 3, where a flag says so.
fn vxlan_gpe(inside: &[u8]) -> Option<Contents> {
    const HAS_PROTOCOL: u8 = 0x04;
    let header = inside.first_chunk::<VXLAN_HEADER>()?;
    if header[0] & HAS_PROTOCOL == 0 {
        return vxlan(inside);
    }
    Some(match next_protocol(header[3]) {
        Some(layer) => Contents::Packet(layer, UDP_HEADER + VXLAN_HEADER),
        None => Contents::Unread(Unread::Vxlan(header[3])),
    })
}

/// Whether a payload can hardly be anything but VXLAN: all reserved bits are 0, and Ethernet with an IP header
/// follows.
fn is_vxlan(inside: &[u8]) -> bool {
    let Some([VXLAN_HAS_NUMBER, 0, 0, 0, _, _, _, 0]) = inside.first_chunk() else {
        return false;
    };
    let ethernet = inside.get(VXLAN_HEADER..).unwrap_or_default();
    match (ether_type(ethernet, 12), ethernet.get(14)) {
        (Some(EtherType::IPV4), Some(0x45..=0x4f)) | (Some(EtherType::IPV6), Some(0x60..=0x6f)) => true,
        (Some(EtherType::VLAN_TAGGED_FRAME), _) => {
            matches!(ether_type(ethernet, 16), Some(EtherType::IPV4 | EtherType::IPV6))
        }
        _ => false,
    }
}

/// The length of options in words of 4 bytes, flags, an EtherType, the network's number (RFC 8926).
fn geneve(inside: &[u8]) -> Option<Contents> {
    const CONTROL: u8 = 0x80;
    let header = inside.first_chunk::<8>()?;
    let length = 8 + usize::from(header[0] & 0x3f) * 4;
    if header[0] >> 6 != 0 || header[1] & CONTROL != 0 {
        return Some(Contents::Other);
    }
    Some(Contents::Packet(
        Layer::OfType(ether_type(header, 2)?),
        UDP_HEADER + length,
    ))
}

/// GTP-U (3GPP TS 29.281): flags, the type of message, a length, the tunnel's number, and by flags a sequence
/// number and a chain of extension headers.
fn gtp(inside: &[u8]) -> Option<Contents> {
    const VERSION_1: u8 = 0x30;
    const HAS_MORE: u8 = 0x07;
    const HAS_EXTENSION: u8 = 0x04;
    const PACKET: u8 = 255;
    let header = inside.first_chunk::<8>()?;
    if header[0] & 0xf0 != VERSION_1 || header[1] != PACKET {
        return Some(Contents::Other);
    }
    let mut at = header.len();
    if header[0] & HAS_MORE != 0 {
        let mut next = *inside.get(at + 3)?;
        at += 4;
        while next != 0 && header[0] & HAS_EXTENSION != 0 {
            // In words of 4 bytes; the last byte says what follows.
            let length = usize::from(*inside.get(at)?) * 4;
            next = *inside.get(at..at + length)?.last()?;
            at += length;
        }
    }
    Some(match inside.get(at)? >> 4 {
        4 | 6 => Contents::Packet(Layer::Ip, UDP_HEADER + at),
        _ => Contents::Unread(Unread::Gtp),
    })
}

/// GRE (RFC 2784, RFC 2890; version 1: RFC 2637) at offset `at` of the payload.
fn gre(payload: &[u8], at: usize) -> Option<Contents> {
    const CHECKSUM: u8 = 0x80;
    const ROUTING: u8 = 0x40;
    const KEY: u8 = 0x20;
    const SEQUENCE: u8 = 0x10;
    const ACKNOWLEDGMENT: u8 = 0x80;
    let header = payload.get(at..)?.first_chunk::<4>()?;
    let (flags, version) = (header[0], header[1] & 7);
    let kind = ether_type(header, 2)?;
    let mut length = at + 4;
    let mut skip = |is_there: bool| length += if is_there { 4 } else { 0 };
    skip(flags & CHECKSUM != 0);
    skip(flags & KEY != 0);
    skip(flags & SEQUENCE != 0);
    skip(version == 1 && header[1] & ACKNOWLEDGMENT != 0);
    let inside = payload.get(length..)?;
    Some(match kind {
        _ if flags & ROUTING != 0 || version > 1 => Contents::Unread(Unread::Gre(kind.0)),
        // Sent to keep the tunnel up.
        EtherType(0) => Contents::Other,
        PPP => Contents::Packet(Layer::Ppp, length),
        // Type I has no header, and no sequence number by which the others are known.
        ERSPAN if flags & SEQUENCE == 0 => Contents::Packet(Layer::Ethernet, length),
        ERSPAN => Contents::Packet(Layer::Ethernet, length + 8),
        ERSPAN_3 => erspan_3(inside, length)?,
        // IPv4 may have a word of its own before it, which cannot be its first byte.
        REDIRECTED if inside.first()? >> 4 != 4 => Contents::Packet(Layer::Ip, length + 4),
        REDIRECTED => Contents::Packet(Layer::Ip, length),
        EtherType(0x0600..) => Contents::Packet(Layer::OfType(kind), length),
        EtherType(other) => Contents::Unread(Unread::Gre(other)),
    })
}

const PPP: EtherType = EtherType(0x880b);
const ERSPAN: EtherType = EtherType(0x88be);
const ERSPAN_3: EtherType = EtherType(0x22eb);
/// WCCP: packets that a router hands to a cache.
const REDIRECTED: EtherType = EtherType(0x883e);

/// ERSPAN III: 12 bytes, the last two of which say what follows (5 bits from the second on) and whether 8 more
/// bytes do (the last bit).
fn erspan_3(inside: &[u8], at: usize) -> Option<Contents> {
    let header = inside.first_chunk::<12>()?;
    let length = if header[11] & 1 == 0 { 12 } else { 20 };
    Some(match header[10] >> 2 & 0x1f {
        0 => Contents::Packet(Layer::Ethernet, at + length),
        2 => Contents::Packet(Layer::Ip, at + length),
        _ => Contents::Unread(Unread::Gre(ERSPAN_3.0)),
    })
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::packets::layers::{Network, descend};

    #[test]
    fn what_controls_a_tunnel_is_no_packet_in_it() {
        let udp = |port: u16, inside: &[u8]| [&[9, 9][..], &port.to_be_bytes(), &[0; 4], inside].concat();
        for (port, inside) in [
            (VXLAN, &[0; 30][..]),
            (GENEVE, &[0, 0x80, 0x65, 0x58, 0, 0, 0, 0]),
            (GTP_USER, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]),
            (IPSEC_IN_UDP, &[0, 0, 0, 0, 1, 2, 3]),
            (IPSEC_IN_UDP, &[0xff]),
            (WIREGUARD[0], &[1, 0, 0, 0, 9]),
            (L2TP, &[0xc8, 2, 0, 12]),
            (53, &[8, 0, 0, 0, 0, 0, 7, 0, 1, 2, 3]),
        ] {
            assert_eq!(
                contents(ip_number::UDP, &udp(port, inside)),
                Contents::Other,
                "{port}: {inside:?}"
            );
        }
        assert_eq!(contents(ip_number::GRE, &[0, 0, 0, 0]), Contents::Other);
        assert_eq!(contents(ip_number::UDP, &udp(VXLAN, &[8, 0])), Contents::Damaged);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            protocol in prop_oneof![Just(17), Just(47), Just(97), Just(137), any::<u8>()],
            port in prop_oneof![
                Just(VXLAN), Just(VXLAN_GPE), Just(GENEVE), Just(GTP_USER), Just(GRE_IN_UDP), Just(L2TP), any::<u16>(),
            ],
            mut bytes in vec(any::<u8>(), 0..120),
        ) {
            if protocol == 17 && bytes.len() >= 4 {
                bytes[2..4].copy_from_slice(&port.to_be_bytes());
            }
            if let Contents::Packet(layer, at) = contents(IpNumber(protocol), &bytes) {
                let inside = descend(layer, &bytes, at);
                prop_assert!(!matches!(inside, Network::Ip(ip) if ip < at));
            }
        }
    }
}
