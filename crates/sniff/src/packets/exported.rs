//! What Wireshark exports with "Export PDUs to File" (`LINKTYPE_WIRESHARK_UPPER_PDU`): the way in which decrypted traffic is
//! handed over. Tags say between which ends a PDU was sent; there is no TCP header.
//!
//! Source: Wireshark's `wsutil/exported_pdu_tlvs.h`, 1.12 to 4.6.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use cqlens_proto::envelope::{HEADER_LEN, Header};
use foldhash::{HashMap, HashMapExt};

/// `LINKTYPE_WIRESHARK_UPPER_PDU`.
pub(super) const LINK_EXPORTED: i32 = 252;

/// What the tags before a PDU say.
#[derive(Debug, Default)]
pub(super) struct Tags {
    /// Whether the PDU is a whole IP packet.
    pub(super) is_ip: bool,
    from: (Option<IpAddr>, Option<u16>),
    to: (Option<IpAddr>, Option<u16>),
    is_tcp: bool,
    /// Sequence number of the first byte, if the PDU was in TCP and not in TLS.
    sequence: Option<u32>,
    /// How long the tags are.
    pub(super) length: usize,
}

impl Tags {
    /// Reads tags: type and length (16 bits each), then the value, padded to 32 bits; the last one has type 0. `None` if they
    /// are damaged.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut tags = Self::default();
        loop {
            let (&[a, b, c, d], rest) = bytes.get(tags.length..)?.split_first_chunk::<4>()?;
            let (kind, length) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            tags.length += 4 + usize::from(length).next_multiple_of(4);
            if kind == 0 {
                return Some(tags);
            }
            tags.note(kind, rest.get(..length.into())?);
        }
    }

    fn note(&mut self, kind: u16, value: &[u8]) {
        let v4 = || value.try_into().ok().map(<[u8; 4]>::into).map(IpAddr::V4);
        let v6 = || value.try_into().ok().map(<[u8; 16]>::into).map(IpAddr::V6);
        let number = || value.try_into().ok().map(u32::from_be_bytes);
        let port = || number().and_then(|port| u16::try_from(port).ok());
        match kind {
            DISSECTOR_NAME => {
                self.is_ip = matches!(
                    value.trim_ascii_end().split(|byte| *byte == 0).next(),
                    Some(b"ip" | b"ipv6")
                )
            }
            IPV4_SOURCE => self.from.0 = v4(),
            IPV4_DESTINATION => self.to.0 = v4(),
            IPV6_SOURCE => self.from.0 = v6(),
            IPV6_DESTINATION => self.to.0 = v6(),
            PORT_TYPE => self.is_tcp = number() == Some(TCP),
            SOURCE_PORT => self.from.1 = port(),
            DESTINATION_PORT => self.to.1 = port(),
            // The version of what follows, then the sequence number.
            TCP_INFO => {
                self.sequence = match value {
                    [0, 1, a, b, c, d, ..] => Some(u32::from_be_bytes([*a, *b, *c, *d])),
                    _ => None,
                }
            }
            _ => {}
        }
    }

    /// Sender and receiver, if the tags name both.
    pub(super) fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        let end = |(address, port): (Option<_>, Option<_>)| Some(SocketAddr::new(address?, port?));
        self.is_tcp.then_some((end(self.from)?, end(self.to)?))
    }
}

const DISSECTOR_NAME: u16 = 12;
const IPV4_SOURCE: u16 = 20;
const IPV4_DESTINATION: u16 = 21;
const IPV6_SOURCE: u16 = 22;
const IPV6_DESTINATION: u16 = 23;
const PORT_TYPE: u16 = 24;
const SOURCE_PORT: u16 = 25;
const DESTINATION_PORT: u16 = 26;
const TCP_INFO: u16 = 34;
/// TCP as a port type.
const TCP: u32 = 2;

/// Where the PDUs of each direction have come, for those that came out of TLS and have no sequence numbers.
#[derive(Debug, Default)]
pub(super) struct ExportedFlows(HashMap<(SocketAddr, SocketAddr), Flow>);

#[derive(Debug, Default)]
struct Flow {
    next: u32,
    /// The last envelope, if it is not whole.
    tail: Bytes,
}

/// Directions that are followed at once; beyond, all begin anew.
const MAX_FLOWS: usize = 2 * crate::MAX_CONNECTIONS;

impl ExportedFlows {
    /// The sequence number of a PDU. What stands in several records of TLS is exported twice: up to where a record ends, and as a
    /// whole once its last record has come.
    pub(super) fn place(
        &mut self,
        tags: &Tags,
        ends: (SocketAddr, SocketAddr),
        pdu: &Bytes,
        length: usize,
    ) -> u32 {
        if let Some(sequence) = tags.sequence {
            return sequence;
        }
        if self.0.len() >= MAX_FLOWS && !self.0.contains_key(&ends) {
            self.0 = HashMap::new();
        }
        let flow = self.0.entry(ends).or_default();
        if !flow.tail.is_empty() && pdu.starts_with(&flow.tail) {
            flow.next = flow
                .next
                .wrapping_sub(u32::try_from(flow.tail.len()).unwrap_or(0));
        }
        let sequence = flow.next;
        flow.next = sequence.wrapping_add(u32::try_from(length).unwrap_or(0));
        flow.tail = unfinished(pdu);
        sequence
    }
}

/// The last envelope of a PDU that begins with one, if it is not whole.
fn unfinished(pdu: &Bytes) -> Bytes {
    let mut at = 0;
    loop {
        let rest = pdu.get(at..).unwrap_or_default();
        match Header::decode_from(rest) {
            Some(header) if !header.version.is_known() => return Bytes::new(),
            Some(header) if HEADER_LEN + header.body_len as usize <= rest.len() => {
                at += HEADER_LEN + header.body_len as usize;
            }
            _ => return pdu.slice(at.min(pdu.len())..),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
    use cqlens_proto::envelope::Version;
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{
        files::Packet,
        packets::{PacketReader, Segment, Unread},
        testing::query,
    };
    use cqlens_capture::Moment;

    fn tag(kind: u16, value: &[u8]) -> Vec<u8> {
        let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
        [
            &kind.to_be_bytes()[..],
            &(value.len() as u16).to_be_bytes(),
            value,
            &padding,
        ]
        .concat()
    }

    /// Tags of a PDU from a client with that port, as Wireshark writes them.
    fn tags(port: u32, more: &[u8]) -> Vec<u8> {
        [
            tag(DISSECTOR_NAME, b"cql\0"),
            tag(IPV4_SOURCE, &[10, 0, 0, 1]),
            tag(IPV4_DESTINATION, &[10, 0, 0, 2]),
            tag(PORT_TYPE, &TCP.to_be_bytes()),
            tag(SOURCE_PORT, &port.to_be_bytes()),
            tag(DESTINATION_PORT, &9_042_u32.to_be_bytes()),
            tag(30, &[0, 0, 0, 1]),
            more.to_vec(),
            tag(0, b""),
        ]
        .concat()
    }

    fn read(packets: &mut PacketReader, bytes: Vec<u8>, cut: usize) -> Option<Segment> {
        let bytes = Bytes::from(bytes);
        let at = Moment::from_unix_nanoseconds(7);
        packets.read(&Packet::of(LINK_EXPORTED, at, bytes.len() + cut, &bytes))
    }

    #[test]
    fn tags_say_who_has_sent_what() {
        let mut packets = PacketReader::default();
        let segment = read(&mut packets, [tags(40_000, b""), b"payload".to_vec()].concat(), 3).unwrap();
        assert_eq!(segment.from, "10.0.0.1:40000".parse().unwrap());
        assert_eq!(segment.to, "10.0.0.2:9042".parse().unwrap());
        assert_eq!((&segment.payload[..], segment.cut), (&b"payload"[..], 3));
        let v6 = [
            tag(IPV6_SOURCE, &[1; 16]),
            tag(IPV6_DESTINATION, &[2; 16]),
            tag(TCP_INFO, &[&[0, 1][..], &77_u32.to_be_bytes(), &[0; 13]].concat()),
        ];
        let segment = read(
            &mut packets,
            [tags(40_000, &v6.concat()), b"payload".to_vec()].concat(),
            0,
        )
        .unwrap();
        assert_eq!(
            segment.from,
            "[101:101:101:101:101:101:101:101]:40000".parse().unwrap()
        );
        assert_eq!((segment.sequence, &segment.payload[..]), (77, &b"payload"[..]));
    }

    #[test]
    fn what_was_exported_without_ends_is_counted() {
        let mut packets = PacketReader::default();
        let udp = tag(PORT_TYPE, &[0, 0, 0, 3]);
        for bytes in [tags(40_000, &udp), tags(70_000, b""), tag(0, b"")] {
            assert!(read(&mut packets, bytes, 0).is_none());
        }
        assert_eq!(
            packets.skipped.unread.by_number(),
            [(Unread::ExportedWithoutEnds, 3)]
        );
        let whole = tags(40_000, b"");
        for length in 0..whole.len() {
            assert!(read(&mut packets, whole[..length].to_vec(), 0).is_none());
        }
        assert_eq!(packets.skipped.unreadable, whole.len() as u64);
    }

    /// Out of TLS: no sequence numbers, and what stands in several records comes in part, then as a whole.
    #[test]
    fn directions_are_put_together_without_sequence_numbers() {
        let envelope = |id| query(Version::V4, id, "SELECT a FROM k.t WHERE a = 1");
        let (one, two) = (envelope(1), envelope(2));
        let part = [&one[..], &two[..20]].concat();
        let mut packets = PacketReader::default();
        let mut place = |port, pdu: &[u8]| {
            let segment = read(&mut packets, [&tags(port, b"")[..], pdu].concat(), 0).unwrap();
            segment.sequence
        };
        assert_eq!(place(40_000, &part), 0);
        assert_eq!(place(40_001, &one), 0, "of another client");
        assert_eq!(
            place(40_000, &two),
            one.len() as u32,
            "its beginning was there before"
        );
        let end = (one.len() + two.len()) as u32;
        assert_eq!(place(40_000, &two), end, "the same request again is another one");
        assert_eq!(place(40_000, &two), end + two.len() as u32);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..100), changed in any::<prop::sample::Index>(), to in any::<u8>()) {
            let mut whole = [tags(40_000, b""), bytes].concat();
            let at = changed.index(whole.len());
            whole[at] = to;
            read(&mut PacketReader::default(), whole, 0);
        }
    }
}
