//! Headers of plain packets, for the short cut of [`TcpConnections`](crate::TcpConnections): TCP in
//! IPv4, or in IPv6 without extension headers, neither a fragment nor SYN, FIN or RST. They are read from
//! fixed offsets.

use std::ops::Range;

use super::layers::{Network, network};
use crate::{files::Packet, tcp::FourTuple};

/// The fields of IP and TCP that a connection compares.
pub(crate) struct Headers {
    /// The sender, in the place of the client, and the receiver.
    pub(crate) from_to: FourTuple,
    /// The sequence number of the first byte.
    pub(crate) sequence: u32,
    /// The acknowledgment number.
    pub(crate) acknowledgment: u32,
    /// The range of the captured payload within the packet.
    pub(crate) payload: Range<usize>,
    /// Payload bytes that the snap length cut off.
    pub(crate) cut: usize,
}

impl Headers {
    /// Reads the headers of a plain packet; `None` for any other.
    #[inline]
    pub(crate) fn read(packet: &Packet<'_>) -> Option<Self> {
        let Network::Ip(at) = network(packet.link, packet.bytes) else {
            return None;
        };
        let here = packet.bytes.get(at..)?;
        match here.first()? >> 4 {
            4 => Self::read_v4(at, here),
            6 => Self::read_v6(at, here),
            _ => None,
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
        let addresses = u64::from_be_bytes(*header.last_chunk::<8>()?);
        let total = u16::from_be_bytes([header[2], header[3]]);
        let from_to = |ports| FourTuple::V4(addresses, ports);
        Self::behind(at, length, total.into(), here, from_to)
    }

    fn read_v6(at: usize, here: &[u8]) -> Option<Self> {
        let header = here.first_chunk::<40>()?;
        if header[6] != TCP {
            return None;
        }
        let (head, to) = header.split_last_chunk::<16>()?;
        let from = head.last_chunk::<16>()?;
        let (from, to) = (u128::from_be_bytes(*from), u128::from_be_bytes(*to));
        let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        Self::behind(at, 40, total, here, |ports| FourTuple::V6(from, to, ports))
    }

    /// Reads the TCP header behind an IP header of `length` bytes with `total` as its total length. `None`
    /// where that leaves no room for TCP: packets captured before segmentation offload have a total length of
    /// 0.
    #[inline]
    fn behind(
        at: usize,
        length: usize,
        total: usize,
        here: &[u8],
        from_to: impl FnOnce(u32) -> FourTuple,
    ) -> Option<Self> {
        let end = total.min(here.len());
        let tcp = here.get(length..end)?;
        let header = tcp.first_chunk::<20>()?;
        let tcp_length = usize::from(header[12] >> 4) * 4;
        let is_usual = header[13] & (ACK | SYN | FIN | RST) == ACK;
        if tcp_length < 20 || tcp_length > tcp.len() || !is_usual {
            return None;
        }
        let number =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        Some(Self {
            from_to: from_to(number(0)),
            sequence: number(4),
            acknowledgment: number(8),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{path::Path, time::Duration};

    use bytes::Bytes;
    use etherparse::{PacketBuilder, VlanId};
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{
        Captures, Next, Options, PacketReader,
        packets::{layers::*, *},
    };
    use cqlens_capture::Moment;

    const IPV4: u16 = 0x0800;
    const IPV6: u16 = 0x86dd;

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

    /// What the general way makes of a packet; the short cut, where it is one for it, says the same.
    fn checked(packet: &Packet<'_>) -> Option<Segment> {
        let mut packets = PacketReader::default();
        let segment = packets.read(packet);
        if let Some(headers) = Headers::read(packet) {
            assert_eq!(packets.skipped, SkippedPackets::default());
            let expected = segment.as_ref().unwrap();
            let (from, to) = headers.from_to.sockets();
            let of_headers = Segment {
                at: packet.at,
                from,
                to,
                sequence: headers.sequence,
                acknowledgment: Some(headers.acknowledgment),
                syn: false,
                fin: false,
                rst: false,
                payload: packet.share(headers.payload),
                cut: headers.cut,
            };
            assert_eq!(&of_headers, expected);
        }
        segment
    }

    #[test]
    fn packets_of_real_captures_are_plain_and_say_the_same() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sniff/captures");
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let captures = files.filter(|file| file.to_str().unwrap().contains(".pcap"));
        let (mut plain, mut all) = (0, 0);
        for file in captures {
            let mut captures = Captures::open(&[file], Options::default()).unwrap();
            while captures.next_packet(Duration::MAX) == Next::Packet {
                let packet = captures.packet().unwrap();
                let begins_or_ends = |segment: &Segment| segment.syn || segment.fin || segment.rst;
                let segment = checked(&packet);
                all += u32::from(segment.is_some());
                let is_plain = Headers::read(&packet).is_some();
                plain += u32::from(is_plain || segment.is_some_and(|segment| begins_or_ends(&segment)));
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
        assert!(is_plain(&ethernet(2, false, b"payload")));
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
            checked(&packet(link, &bytes.into()));
        }
    }
}
