//! IP packets in fragments: they are put together, and those are counted whose other fragments do not come.

use std::{collections::HashMap, net::IpAddr};

use etherparse::{
    IpNumber, Ipv6ExtensionSlice, NetSlice, SlicedPacket,
    defrag::{IpDefragPayloadVec, IpDefragPool},
};

/// Fragments that may wait. Each keeps 64 KiB at most, of packets that are rarely in fragments at all.
pub(super) const MAX_WAITING: u64 = 256;

/// Packets of which fragments wait for the others.
#[derive(Default)]
pub(super) struct Fragments {
    /// The bytes, each packet with the number of its latest fragment.
    bytes: IpDefragPool<u64, ()>,
    packets: HashMap<PacketId, Waiting>,
    /// Fragments so far.
    taken: u64,
}

/// What the fragments of a packet have in common (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PacketId {
    from: IpAddr,
    to: IpAddr,
    payload: IpNumber,
    number: u32,
}

/// The fragments of a packet that wait.
#[derive(Debug, Default)]
struct Waiting {
    fragments: u64,
    /// The number of the latest one.
    latest: u64,
    /// Whether the packet was whole before: these are copies of its fragments.
    is_again: bool,
}

/// A fragment that cannot be one.
#[derive(Debug)]
pub(super) struct Damaged;

impl Fragments {
    /// Takes the IP packet `ip`, which is a fragment; the whole one, if no other is missing.
    pub(super) fn take(&mut self, ip: &[u8]) -> Result<Option<IpDefragPayloadVec>, Damaged> {
        let fragment = SlicedPacket::from_ip(ip).map_err(|_| Damaged)?;
        let id = PacketId::of(&fragment).ok_or(Damaged)?;
        self.taken += 1;
        let whole = self.bytes.process_sliced_packet(&fragment, self.taken, ());
        let whole = whole.map_err(|_| Damaged)?;
        let waiting = self.packets.entry(id).or_default();
        waiting.latest = self.taken;
        match whole {
            Some(_) => (waiting.fragments, waiting.is_again) = (0, true),
            None => waiting.fragments += 1,
        }
        Ok(whole)
    }

    /// Gives up those that wait for longest, if too many do; how many.
    pub(super) fn give_up_oldest(&mut self) -> u64 {
        match self.packets.len() as u64 >= MAX_WAITING {
            true => self.give_up_until(self.taken.saturating_sub(MAX_WAITING / 2)),
            false => 0,
        }
    }

    /// Gives up all; how many fragments there were whose other ones have not come.
    pub(super) fn give_up_all(&mut self) -> u64 {
        self.give_up_until(self.taken)
    }

    /// Gives up packets whose latest fragment was the one of this number, or an earlier one.
    fn give_up_until(&mut self, number: u64) -> u64 {
        self.bytes.retain(|latest| *latest > number);
        let given_up = self.packets.extract_if(|_, waiting| waiting.latest <= number);
        let given_up = given_up
            .map(|(_, waiting)| waiting)
            .filter(|waiting| !waiting.is_again);
        given_up.map(|waiting| waiting.fragments).sum()
    }
}

impl PacketId {
    fn of(fragment: &SlicedPacket<'_>) -> Option<Self> {
        match fragment.net.as_ref()? {
            NetSlice::Ipv4(ip) => Some(Self {
                from: ip.header().source_addr().into(),
                to: ip.header().destination_addr().into(),
                payload: ip.payload().ip_number,
                number: ip.header().identification().into(),
            }),
            NetSlice::Ipv6(ip) => {
                let number = ip
                    .extensions()
                    .clone()
                    .into_iter()
                    .find_map(|extension| match extension {
                        Ipv6ExtensionSlice::Fragment(fragment) => Some(fragment.identification()),
                        _ => None,
                    });
                Some(Self {
                    from: ip.header().source_addr().into(),
                    to: ip.header().destination_addr().into(),
                    payload: ip.payload().ip_number,
                    number: number?,
                })
            }
            NetSlice::Arp(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;
    use cqlens_capture::Moment;
    use etherparse::{IpFragOffset, Ipv4Header, TcpHeader, ip_number};

    use super::super::{LINK_RAW, Packet, PacketReader, Segment, SkippedPackets};

    fn read(packets: &mut PacketReader, bytes: Vec<u8>) -> Option<Segment> {
        let bytes = Bytes::from(bytes);
        let at = Moment::from_unix_nanoseconds(7);
        packets.read(&Packet::of(LINK_RAW, at, bytes.len(), &bytes))
    }

    /// A fragment of the IP packet with this number, and with a TCP segment of `LENGTH` bytes.
    fn fragment(number: u16, from: u16, to: u16) -> Vec<u8> {
        let mut tcp = Vec::new();
        TcpHeader::new(40_000, 9_042, 1_000, 1_024)
            .write(&mut tcp)
            .unwrap();
        tcp.resize(LENGTH.into(), 7);
        let mut header =
            Ipv4Header::new(to - from, 64, ip_number::TCP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
        header.identification = number;
        header.dont_fragment = false;
        header.more_fragments = to < LENGTH;
        header.fragment_offset = IpFragOffset::try_new(from / 8).unwrap();
        let mut out = Vec::new();
        header.write(&mut out).unwrap();
        [&out[..], &tcp[usize::from(from)..usize::from(to)]].concat()
    }

    const LENGTH: u16 = 3_020;

    #[test]
    fn fragments_are_put_together_in_any_order() {
        let mut packets = PacketReader::default();
        assert!(read(&mut packets, fragment(9, 1_600, LENGTH)).is_none());
        assert!(read(&mut packets, fragment(9, 0, 800)).is_none());
        let segment = read(&mut packets, fragment(9, 800, 1_600)).unwrap();
        assert_eq!((segment.payload.len(), segment.from.port()), (3_000, 40_000));
        packets.end();
        assert_eq!(packets.skipped, SkippedPackets::default());
    }

    #[test]
    fn each_fragment_whose_others_do_not_come_is_counted_at_the_end_at_the_latest() {
        let mut packets = PacketReader::default();
        for number in 0..3 {
            assert!(read(&mut packets, fragment(number, 0, 800)).is_none());
        }
        assert!(read(&mut packets, fragment(2, 800, 1_600)).is_none());
        assert!(read(&mut packets, fragment(1, 800, LENGTH)).is_some());
        assert_eq!(packets.skipped.fragments, 0);
        packets.end();
        assert_eq!(packets.skipped.fragments, 3);
        // More than may wait.
        for number in 0..1_000 {
            assert!(read(&mut packets, fragment(number, 0, 800)).is_none());
        }
        assert!(packets.skipped.fragments > 3 + 500);
        packets.end();
        assert_eq!(packets.skipped.fragments, 3 + 1_000);
    }

    /// As several interfaces of one host have them.
    #[test]
    fn fragments_that_come_twice_lack_nothing() {
        let mut packets = PacketReader::default();
        let mut whole = 0;
        for number in 0..1_000 {
            for (from, to) in [(0, 800), (0, 800), (800, LENGTH), (800, LENGTH)] {
                whole += usize::from(read(&mut packets, fragment(number, from, to)).is_some());
            }
        }
        packets.end();
        assert_eq!((whole, packets.skipped), (1_000, SkippedPackets::default()));
    }
}
