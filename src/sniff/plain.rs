//! Nearly every packet of a capture is a plain one: TCP in IPv4, or in IPv6 without extension headers, whole, behind a link layer whose
//! header has one length. Where it is, its segment is read from fixed places; everything else is left to whoever reads packets of any kind.

use std::ops::Range;

use super::{
    ends::Ends,
    file::Packet,
    flow::Step,
    link::{
        LINK_COOKED, LINK_COOKED_2, LINK_ETHERNET, LINK_IPV4, LINK_IPV6, LINK_LOOP, LINK_NULL, LINK_RAW,
        LINK_RAW_BSD, LINK_RAW_OPENBSD, Segment,
    },
};

/// Where the IP header begins, if the link layer says that there is one and has no more to say.
fn network(link: i32, bytes: &[u8]) -> Option<usize> {
    match link {
        LINK_ETHERNET => match two(bytes, 12)? {
            IPV4 | IPV6 => Some(14),
            VLAN => is_ip(two(bytes, 16)?).then_some(18),
            _ => None,
        },
        LINK_COOKED => is_ip(two(bytes, 14)?).then_some(16),
        LINK_COOKED_2 => is_ip(two(bytes, 0)?).then_some(20),
        LINK_NULL | LINK_LOOP => Some(4),
        LINK_RAW | LINK_RAW_BSD | LINK_RAW_OPENBSD | LINK_IPV4 | LINK_IPV6 => Some(0),
        _ => None,
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;

fn is_ip(ether_type: u16) -> bool {
    matches!(ether_type, IPV4 | IPV6)
}

/// What the headers of IP and TCP say.
pub(super) struct Headers {
    /// The sender first.
    pub(super) ends: Ends,
    /// Whether its connection just goes on with it.
    pub(super) step: Step,
    flags: u8,
    /// Where the payload is in the packet, as far as it was captured.
    pub(super) payload: Range<usize>,
    /// Bytes of it that were not captured.
    pub(super) cut: usize,
}

impl Headers {
    /// Those of a plain packet; none where it is anything else. Where it is called for every packet, most of them need not be in memory.
    #[inline(always)]
    pub(super) fn read(packet: &Packet<'_>) -> Option<Self> {
        let at = network(packet.link, packet.bytes)?;
        let here = packet.bytes.get(at..)?;
        match here.first()? >> 4 {
            4 => Self::read_v4(at, here),
            6 => Self::read_v6(at, here),
            _ => None,
        }
    }

    /// The segment of the packet that they are of.
    pub(super) fn segment(&self, packet: &Packet<'_>) -> Segment {
        let (from, to) = self.ends.sockets();
        Segment {
            at: packet.at,
            from,
            to,
            sequence: self.step.sequence,
            acknowledgment: (self.flags & ACK != 0).then_some(self.step.acknowledgment),
            syn: self.flags & SYN != 0,
            fin: self.flags & FIN != 0,
            rst: self.flags & RST != 0,
            payload: packet.share(self.payload.clone()),
            cut: self.cut,
        }
    }

    #[inline]
    fn read_v4(at: usize, here: &[u8]) -> Option<Self> {
        let header = here.first_chunk::<20>()?;
        let length = usize::from(header[0] & 0x0f) * 4;
        let is_fragment = (header[6] & 0x3f) | header[7] != 0;
        if length < 20 || header[9] != TCP || is_fragment {
            return None;
        }
        let addresses = u64::from_be_bytes(*header.last_chunk()?);
        let total = u16::from_be_bytes([header[2], header[3]]);
        Self::behind(at, length, total.into(), here, |ports| Ends::V4(addresses, ports))
    }

    fn read_v6(at: usize, here: &[u8]) -> Option<Self> {
        let header = here.first_chunk::<40>()?;
        if header[6] != TCP {
            return None;
        }
        let (head, to) = header.split_last_chunk::<16>()?;
        let addresses = [*head.last_chunk()?, *to].map(u128::from_be_bytes);
        let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        Self::behind(at, 40, total, here, |ports| Ends::V6(addresses, ports))
    }

    /// The header of TCP behind one of IP of `length` bytes that tells a `total` length. None where the lengths leave no room for it:
    /// large packets of the sender's own machine have none at all.
    #[inline]
    fn behind(
        at: usize,
        length: usize,
        total: usize,
        here: &[u8],
        ends: impl FnOnce(u32) -> Ends,
    ) -> Option<Self> {
        let end = total.min(here.len());
        let tcp = here.get(length..end)?;
        let header = tcp.first_chunk::<20>()?;
        let tcp_length = usize::from(header[12] >> 4) * 4;
        if tcp_length < 20 || tcp_length > tcp.len() {
            return None;
        }
        let four =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let flags = header[13];
        Some(Self {
            ends: ends(four(0)),
            step: Step {
                sequence: four(4),
                acknowledgment: four(8),
                is_usual: flags & (ACK | SYN | FIN | RST) == ACK,
            },
            flags,
            payload: at + length + tcp_length..at + end,
            cut: total.saturating_sub(here.len()),
        })
    }
}

const TCP: u8 = 6;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

fn two(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{path::Path, time::Duration};

    use bytes::Bytes;
    use etherparse::{PacketBuilder, VlanId};
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::sniff::{Captures, Next, Options, Packets};
    use cqlens_audit::capture::Moment;

    const AT: Moment = Moment::from_unix_nanoseconds(7);

    fn packet(link: i32, bytes: &Bytes) -> Packet<'_> {
        Packet::of(link, AT, bytes.len() + 3, bytes)
    }

    /// Ethernet with as many tags, IPv4 or IPv6, TCP.
    fn ethernet(tags: usize, is_v6: bool, payload: &[u8]) -> Vec<u8> {
        let ethernet = || PacketBuilder::ethernet2([1; 6], [2; 6]);
        let id = VlanId::try_new(7).unwrap();
        let ip = |v4, v6| if is_v6 { v6 } else { v4 };
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let step = match tags {
            0 => ip(ethernet().ipv4(a, b, 64), ethernet().ipv6([1; 16], [2; 16], 64)),
            1 => ip(
                ethernet().single_vlan(id).ipv4(a, b, 64),
                ethernet().single_vlan(id).ipv6([1; 16], [2; 16], 64),
            ),
            _ => ip(
                ethernet().double_vlan(id, id).ipv4(a, b, 64),
                ethernet().double_vlan(id, id).ipv6([1; 16], [2; 16], 64),
            ),
        };
        let mut out = Vec::new();
        let tcp = step.tcp(40_000, 9_042, 1_000, 1_024).ack(2_000).psh();
        tcp.write(&mut out, payload).unwrap();
        out
    }

    /// What is made of it the one way and the other.
    fn both(packet: &Packet<'_>) -> [(Option<Segment>, crate::sniff::Passed); 2] {
        let (mut quick, mut slow) = (Packets::default(), Packets::default());
        let read = quick.read(packet);
        let read_any = slow.read_any(packet);
        [(read, quick.passed), (read_any, slow.passed)]
    }

    #[test]
    fn packets_of_real_captures_are_plain_and_say_the_same() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sniff/captures");
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let captures = files.filter(|file| file.to_str().unwrap().contains(".pcap"));
        let (mut plain, mut all) = (0, 0);
        for file in captures {
            let mut captures = Captures::open(&[file], Options::default()).unwrap();
            while captures.next_packet(Duration::MAX) == Next::Packet {
                let packet = captures.packet().unwrap();
                let [quick, slow] = both(&packet);
                assert_eq!(quick, slow);
                all += u32::from(slow.0.is_some());
                plain += u32::from(Headers::read(&packet).is_some());
            }
        }
        assert!(plain == all && all > 10_000, "{plain} of {all}");
    }

    #[test]
    fn what_is_not_plain_is_left_to_others() {
        let is_plain = |bytes: &[u8]| {
            let bytes = Bytes::copy_from_slice(bytes);
            Headers::read(&packet(LINK_ETHERNET, &bytes)).is_some()
        };
        assert!(!is_plain(&ethernet(2, false, b"payload")));
        // The first fragment, a later one, UDP, no version of IP that there is.
        for (at, value) in [(20, 0x20), (21, 1), (23, 17), (14, 0x55)] {
            let mut bytes = ethernet(0, false, b"payload");
            assert!(is_plain(&bytes));
            bytes[at] = value;
            assert!(!is_plain(&bytes), "{at}");
        }
        let mut without_length = ethernet(0, false, b"payload");
        without_length[16..18].fill(0);
        assert!(!is_plain(&without_length));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn whatever_the_bytes_are_both_ways_say_the_same(
            tags in 0_usize..3,
            is_v6 in any::<bool>(),
            payload in vec(any::<u8>(), 0..60),
            link in prop_oneof![
                Just(LINK_ETHERNET), Just(LINK_COOKED), Just(LINK_COOKED_2), Just(LINK_NULL), Just(LINK_LOOP),
                Just(LINK_RAW), Just(LINK_IPV4), Just(LINK_IPV6), Just(LINK_RAW_BSD), Just(147),
            ],
            changed in vec((0_usize..90, any::<u8>()), 0..4),
            kept in prop_oneof![Just(usize::MAX), 0_usize..120],
            padding in 0_usize..8,
        ) {
            let mut bytes = ethernet(tags, is_v6, &payload);
            let ip_at = 14 + 4 * tags;
            let kind = if is_v6 { IPV6 } else { IPV4 }.to_be_bytes();
            let before: Vec<u8> = match link {
                LINK_ETHERNET => bytes[..ip_at].to_vec(),
                LINK_COOKED => [&[0; 14][..], &kind].concat(),
                LINK_COOKED_2 => [&kind[..], &[0; 18]].concat(),
                LINK_NULL | LINK_LOOP => vec![2, 0, 0, 0],
                _ => Vec::new(),
            };
            bytes.splice(..ip_at, before);
            bytes.extend(vec![0; padding]);
            for (at, byte) in changed {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(kept);
            let [quick, slow] = both(&packet(link, &bytes.into()));
            prop_assert_eq!(quick, slow);
        }
    }
}
