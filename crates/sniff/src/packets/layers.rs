//! From the first byte of a packet to its IP header: link layers, and what may stand between a link layer and
//! IP (VLAN tags, MPLS, PPPoE, LLC and others).
//!
//! No crate reads all of these without copying; each is a header of a few bytes at fixed places.

use etherparse::EtherType;

use super::unread::Unread;

/// What a packet holds behind its link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// IP, whose header begins at that offset.
    Ip(usize),
    /// Something that carries no IP.
    Other,
    /// The packet is cut off before the end of a header.
    Damaged,
    /// Something that may carry IP, and is not read.
    Unread(Unread),
}

/// What stands at an offset of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    /// An Ethernet header.
    Ethernet,
    /// What has this type in Ethernet; below 0x600 the type is a length, and LLC follows (IEEE 802.3).
    OfType(EtherType),
    /// MPLS labels (RFC 3032).
    Labels,
    /// A PPP header (RFC 1661).
    Ppp,
    /// An IP header, of version 4 or 6.
    Ip,
}

/// Headers before IP; more are not meant to be read.
const MAX_HEADERS: usize = 24;

/// Inlined: it is a part of what each packet of a capture costs.
#[inline(always)]
pub(super) fn network(link: i32, bytes: &[u8]) -> Network {
    match link {
        LINK_ETHERNET => behind_type(bytes, 12, 14),
        LINK_COOKED => behind_type(bytes, 14, 16),
        LINK_COOKED_2 => behind_type(bytes, 0, 20),
        // Four bytes of address family in host order; the IP version says the same.
        LINK_NULL | LINK_LOOP => Network::Ip(4),
        LINK_RAW | LINK_RAW_BSD | LINK_RAW_OPENBSD | LINK_IPV4 | LINK_IPV6 => Network::Ip(0),
        _ => behind_rare_link(link, bytes),
    }
}

/// Skips a link-layer header that ends at `end` and has its EtherType at `type_at`.
#[inline]
fn behind_type(bytes: &[u8], type_at: usize, end: usize) -> Network {
    let Some(ether_type) = bytes.get(type_at..end).and_then(<[u8]>::first_chunk) else {
        return Network::Damaged;
    };
    match EtherType(u16::from_be_bytes(*ether_type)) {
        EtherType::IPV4 | EtherType::IPV6 => Network::Ip(end),
        other => descend(Layer::OfType(other), bytes, end),
    }
}

#[cold]
fn behind_rare_link(link: i32, bytes: &[u8]) -> Network {
    match link {
        LINK_PPP | LINK_PPP_HDLC => descend(Layer::Ppp, bytes, 0),
        LINK_PPP_ETHER => descend(Layer::OfType(PPPOE_SESSION), bytes, 0),
        LINK_MPLS => descend(Layer::Labels, bytes, 0),
        // Address and control, then the EtherType.
        LINK_CISCO_HDLC => behind_type(bytes, 2, 4),
        _ => Network::Unread(Unread::Link(link)),
    }
}

/// Follows headers from `layer` at offset `at` down to IP.
#[inline(never)]
pub(super) fn descend(layer: Layer, bytes: &[u8], at: usize) -> Network {
    let (mut layer, mut at) = (layer, at);
    for _ in 0..MAX_HEADERS {
        match step(layer, bytes, at) {
            Some(Step::Down(next, length)) => (layer, at) = (next, at + length),
            Some(Step::End(network)) => return network,
            None => return Network::Damaged,
        }
    }
    Network::Unread(Unread::ManyHeaders)
}

enum Step {
    /// That layer follows, so many bytes further on.
    Down(Layer, usize),
    End(Network),
}

/// One header; `None` if it is cut off.
fn step(layer: Layer, bytes: &[u8], at: usize) -> Option<Step> {
    let rest = bytes.get(at..)?;
    Some(match layer {
        Layer::Ip => Step::End(Network::Ip(at)),
        Layer::Ethernet => Step::Down(Layer::OfType(ether_type(rest, 12)?), 14),
        Layer::OfType(kind) => of_type(kind, rest)?,
        Layer::Labels => label(rest)?,
        Layer::Ppp => ppp(rest)?,
    })
}

fn of_type(kind: EtherType, rest: &[u8]) -> Option<Step> {
    Some(match kind {
        EtherType::IPV4 | EtherType::IPV6 => Step::Down(Layer::Ip, 0),
        EtherType::VLAN_TAGGED_FRAME | EtherType::PROVIDER_BRIDGING | EtherType::VLAN_DOUBLE_TAGGED_FRAME => {
            Step::Down(Layer::OfType(ether_type(rest, 2)?), 4)
        }
        MPLS | MPLS_MULTICAST => Step::Down(Layer::Labels, 0),
        // Version and type, code, session and length; a code of 0 is a session's.
        PPPOE_SESSION => match rest.get(..6)?[1] {
            0 => Step::Down(Layer::Ppp, 6),
            _ => Step::End(Network::Other),
        },
        TRANSPARENT_ETHERNET => Step::Down(Layer::Ethernet, 0),
        // Flags and the service's number (IEEE 802.1ah), then the customer's Ethernet header.
        PROVIDER_BACKBONE => Step::Down(Layer::Ethernet, 4),
        EtherType::MACSEC => macsec(rest)?,
        NETWORK_SERVICE_HEADER => service_header(rest)?,
        EtherType(length) if length < LEAST_TYPE => llc(rest)?,
        other if WITHOUT_IP.contains(&other.0) => Step::End(Network::Other),
        EtherType(other) => Step::End(Network::Unread(Unread::EtherType(other))),
    })
}

/// One MPLS label: 20 bits of label, 3 of class, the bottom bit, 8 of lifetime. Behind the last one stands IP,
/// or Ethernet with or without a control word (RFC 4385, RFC 4448); nothing says which.
fn label(rest: &[u8]) -> Option<Step> {
    if rest.get(..4)?[2] & 1 == 0 {
        return Some(Step::Down(Layer::Labels, 4));
    }
    let behind = rest.get(4..)?;
    let is_ethernet = |bytes: &[u8]| {
        ether_type(bytes, 12).is_some_and(|kind| matches!(kind, EtherType::ARP) || is_on_the_way_to_ip(kind))
    };
    Some(match behind.first()? {
        0x45..=0x4f | 0x60..=0x6f => Step::Down(Layer::Ip, 4),
        0x00..=0x0f if behind.get(4..).is_some_and(is_ethernet) => Step::Down(Layer::Ethernet, 8),
        _ if is_ethernet(behind) => Step::Down(Layer::Ethernet, 4),
        _ => Step::End(Network::Unread(Unread::Mpls)),
    })
}

fn is_on_the_way_to_ip(kind: EtherType) -> bool {
    matches!(
        kind,
        EtherType::IPV4
            | EtherType::IPV6
            | EtherType::VLAN_TAGGED_FRAME
            | EtherType::PROVIDER_BRIDGING
            | EtherType::VLAN_DOUBLE_TAGGED_FRAME
            | MPLS
    )
}

/// Address and control, which may be missing, and the number of the protocol, whose first byte may be missing
/// (RFC 1661 §6.5).
fn ppp(rest: &[u8]) -> Option<Step> {
    let start = match rest.first_chunk() {
        // 0x0f: Cisco's unicast.
        Some([0xff, 3] | [0x0f, 0]) => 2,
        _ => 0,
    };
    let first = *rest.get(start)?;
    let (protocol, length) = match first & 1 {
        1 => (u16::from(first), 1),
        _ => (ether_type(rest, start)?.0, 2),
    };
    Some(match protocol {
        PPP_IPV4 | PPP_IPV6 => Step::Down(Layer::Ip, start + length),
        PPP_MPLS | PPP_MPLS_MULTICAST => Step::Down(Layer::Labels, start + length),
        // Protocols that control the link or others; network protocols are below.
        0x4000.. => Step::End(Network::Other),
        other => Step::End(Network::Unread(Unread::Ppp(other))),
    })
}

/// LLC (IEEE 802.2): IP by itself, or SNAP with an EtherType. Others, such as bridges', carry none.
fn llc(rest: &[u8]) -> Option<Step> {
    Some(match rest.first_chunk::<3>()? {
        [0xaa, 0xaa, 3] => match rest.get(3..6)? {
            [0, 0, 0 | 0xf8] => Step::Down(Layer::OfType(ether_type(rest, 6)?), 8),
            _ => Step::End(Network::Other),
        },
        [6, 6, 3] => Step::Down(Layer::Ip, 3),
        _ => Step::End(Network::Other),
    })
}

/// The tag of MACsec (IEEE 802.1AE): flags, length, number and, by a flag, the channel. What is not encrypted is
/// only signed.
fn macsec(rest: &[u8]) -> Option<Step> {
    const HAS_CHANNEL: u8 = 0x20;
    const ENCRYPTED: u8 = 0x08;
    const CHANGED: u8 = 0x04;
    let flags = *rest.first()?;
    if flags & (ENCRYPTED | CHANGED) != 0 {
        return Some(Step::End(Network::Unread(Unread::Macsec)));
    }
    let length = if flags & HAS_CHANNEL == 0 { 6 } else { 14 };
    Some(Step::Down(Layer::OfType(ether_type(rest, length)?), length + 2))
}

/// The network service header (RFC 8300): its length in words of 4 bytes, and what follows.
fn service_header(rest: &[u8]) -> Option<Step> {
    let header = rest.first_chunk::<4>()?;
    let length = usize::from(header[1] & 0x3f) * 4;
    Some(match next_protocol(header[3]) {
        Some(layer) if length >= 8 => Step::Down(layer, length),
        _ => Step::End(Network::Unread(Unread::EtherType(NETWORK_SERVICE_HEADER.0))),
    })
}

/// The numbers that the network service header and VXLAN-GPE share.
pub(super) fn next_protocol(number: u8) -> Option<Layer> {
    Some(match number {
        1 | 2 => Layer::Ip,
        3 => Layer::Ethernet,
        4 => Layer::OfType(NETWORK_SERVICE_HEADER),
        5 => Layer::Labels,
        _ => return None,
    })
}

/// The two bytes at `at`.
pub(super) fn ether_type(bytes: &[u8], at: usize) -> Option<EtherType> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(EtherType(u16::from_be_bytes(*bytes)))
}

pub(super) const MPLS: EtherType = EtherType(0x8847);
pub(super) const MPLS_MULTICAST: EtherType = EtherType(0x8848);
const PPPOE_SESSION: EtherType = EtherType(0x8864);
pub(super) const TRANSPARENT_ETHERNET: EtherType = EtherType(0x6558);
const PROVIDER_BACKBONE: EtherType = EtherType(0x88e7);
pub(super) const NETWORK_SERVICE_HEADER: EtherType = EtherType(0x894f);

/// Below, an EtherType is a length (IEEE 802.3).
const LEAST_TYPE: u16 = 0x600;

const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_MPLS: u16 = 0x0281;
const PPP_MPLS_MULTICAST: u16 = 0x0283;

/// EtherTypes that a network has beside IP and that carry none: ARP and its kind, discovery, flow control, time,
/// storage, field buses.
const WITHOUT_IP: [u16; 23] = [
    0x0806, 0x0842, 0x22f4, 0x6002, 0x6003, 0x8035, 0x809b, 0x80f3, 0x8137, 0x8808, 0x8809, 0x8863, 0x886c,
    0x8892, 0x888e, 0x88a4, 0x88cc, 0x88e3, 0x88f7, 0x8902, 0x8906, 0x8914, 0x9000,
];

pub(in crate::packets) const LINK_NULL: i32 = 0;
pub(in crate::packets) const LINK_ETHERNET: i32 = 1;
const LINK_PPP: i32 = 9;
pub(in crate::packets) const LINK_RAW_BSD: i32 = 12;
pub(in crate::packets) const LINK_RAW_OPENBSD: i32 = 14;
const LINK_PPP_HDLC: i32 = 50;
const LINK_PPP_ETHER: i32 = 51;
pub(crate) const LINK_RAW: i32 = 101;
const LINK_CISCO_HDLC: i32 = 104;
pub(in crate::packets) const LINK_LOOP: i32 = 108;
pub(in crate::packets) const LINK_COOKED: i32 = 113;
const LINK_MPLS: i32 = 219;
pub(in crate::packets) const LINK_IPV4: i32 = 228;
pub(in crate::packets) const LINK_IPV6: i32 = 229;
pub(in crate::packets) const LINK_COOKED_2: i32 = 276;

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 header begins so.
    const IP: [u8; 20] = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];

    fn ethernet(kind: u16) -> Vec<u8> {
        [&[2; 12][..], &kind.to_be_bytes()].concat()
    }

    /// The headers, with IP behind them.
    fn check(link: i32, headers: &[&[u8]]) {
        let before = headers.concat();
        let bytes = [&before[..], &IP].concat();
        assert_eq!(network(link, &bytes), Network::Ip(before.len()), "{before:x?}");
        // The last bytes of the headers are needed to know that it is IP.
        for length in 0..before.len() {
            assert!(!matches!(network(link, &bytes[..length]), Network::Ip(at) if at > length));
        }
    }

    #[test]
    fn ip_is_found_behind_whatever_stands_before_it() {
        let tag = |next: u16| [&[0, 7][..], &next.to_be_bytes()].concat();
        check(
            LINK_ETHERNET,
            &[
                &ethernet(0x88a8),
                &tag(0x8100),
                &tag(0x9100),
                &tag(0x8100),
                &tag(0x0800),
            ],
        );
        check(
            LINK_ETHERNET,
            &[&ethernet(0x8847), &[0, 1, 0, 64], &[0, 2, 1, 64]],
        );
        let pseudowire = [&ethernet(0x8847)[..], &[0, 1, 1, 64]].concat();
        check(LINK_ETHERNET, &[&pseudowire, &[0; 4], &ethernet(0x0800)]);
        check(LINK_ETHERNET, &[&pseudowire, &ethernet(0x0800)]);
        check(
            LINK_ETHERNET,
            &[&ethernet(0x8864), &[0x11, 0, 0, 1, 0, 42], &[0, 0x21]],
        );
        check(
            LINK_ETHERNET,
            &[&ethernet(0x8864), &[0x11, 0, 0, 1, 0, 41], &[0x21]],
        );
        check(LINK_ETHERNET, &[&ethernet(48), &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]]);
        check(LINK_ETHERNET, &[&ethernet(43), &[6, 6, 3]]);
        check(
            LINK_ETHERNET,
            &[&ethernet(0x88e5), &[0x20, 0, 0, 0, 0, 1], &[1; 8], &[8, 0]],
        );
        check(
            LINK_ETHERNET,
            &[&ethernet(0x88e7), &[0, 0, 0, 1], &ethernet(0x0800)],
        );
        check(LINK_ETHERNET, &[&ethernet(0x894f), &[0, 2, 2, 1, 0, 0, 7, 1]]);
        check(LINK_COOKED, &[&[0; 14], &[0x81, 0], &tag(0x0800)]);
        check(LINK_COOKED_2, &[&[0x88, 0x47], &[0; 18], &[0, 1, 1, 64]]);
        check(LINK_PPP, &[&[0xff, 3, 0, 0x21]]);
        check(LINK_PPP_ETHER, &[&[0x11, 0, 0, 1, 0, 42], &[0, 0x21]]);
        check(LINK_MPLS, &[&[0, 1, 1, 64]]);
        check(LINK_CISCO_HDLC, &[&[0x0f, 0, 8, 0]]);
    }

    #[test]
    fn what_may_carry_ip_and_is_not_read_has_a_name() {
        let of = |headers: &[&[u8]]| network(LINK_ETHERNET, &[&headers.concat()[..], &[0xee; 40]].concat());
        for (headers, expected) in [
            (&[&ethernet(0x22f3)[..]][..], Unread::EtherType(0x22f3)),
            (&[&ethernet(0x88e5), &[0x2c]], Unread::Macsec),
            (&[&ethernet(0x8847), &[0, 1, 1, 64]], Unread::Mpls),
            (
                &[&ethernet(0x8864), &[0x11, 0, 0, 1, 0, 42], &[0, 0x3d]],
                Unread::Ppp(0x3d),
            ),
            (&[&ethernet(0x8847), &[0; 4 * MAX_HEADERS]], Unread::ManyHeaders),
        ] {
            assert_eq!(of(headers), Network::Unread(expected));
        }
        assert_eq!(network(147, &IP), Network::Unread(Unread::Link(147)));
        for headers in [
            &[&ethernet(0x0806)[..]][..],
            &[&ethernet(38), &[0x42, 0x42, 3]],
            &[&ethernet(0x8864), &[0x11, 0, 0, 1, 0, 42], &[0xc0, 0x21]],
        ] {
            assert_eq!(of(headers), Network::Other);
        }
    }
}
