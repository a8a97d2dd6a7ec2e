//! What packets are in that is not read, by kind: for the reader of a report, who learns why traffic is missing.

use std::{collections::BTreeMap, fmt};

/// What a packet is in that may carry IP, and is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unread {
    /// A link layer, by its number (`LINKTYPE_*`).
    Link(i32),
    /// Something in Ethernet, by its type.
    EtherType(u16),
    /// MPLS, with neither IP nor Ethernet behind the labels.
    Mpls,
    /// MACsec, encrypted.
    Macsec,
    /// A protocol of PPP, by its number: compressed, encrypted, or over several links.
    Ppp(u16),
    /// Something in GRE, by its EtherType.
    Gre(u16),
    /// VXLAN-GPE with an unknown protocol in it.
    Vxlan(u8),
    /// GTP with something else than IP in it.
    Gtp,
    /// ESP or IPComp.
    Ipsec,
    /// WireGuard.
    WireGuard,
    /// L2TP.
    L2tp,
    /// What Wireshark has exported, without both addresses and ports of TCP.
    ExportedWithoutEnds,
    /// A tunnel in as many tunnels as are read.
    Deeper,
    /// More headers before IP than are read.
    ManyHeaders,
    /// There are too many kinds to name them all.
    Others,
}

impl fmt::Display for Unread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(number) => write!(formatter, "link layer {number}"),
            Self::EtherType(number) => write!(formatter, "Ethernet type {number:#06x}"),
            Self::Mpls => formatter.write_str("MPLS"),
            Self::Macsec => formatter.write_str("MACsec"),
            Self::Ppp(number) => write!(formatter, "PPP, protocol {number:#06x}"),
            Self::Gre(number) => write!(formatter, "GRE, type {number:#06x}"),
            Self::Vxlan(number) => write!(formatter, "VXLAN-GPE, protocol {number}"),
            Self::Gtp => formatter.write_str("GTP without IP"),
            Self::Ipsec => formatter.write_str("IPsec"),
            Self::WireGuard => formatter.write_str("WireGuard"),
            Self::L2tp => formatter.write_str("L2TP"),
            Self::ExportedWithoutEnds => {
                formatter.write_str("exported PDUs without addresses and ports of TCP")
            }
            Self::Deeper => formatter.write_str("more than two tunnels"),
            Self::ManyHeaders => formatter.write_str("too many headers"),
            Self::Others => formatter.write_str("others"),
        }
    }
}

/// Packets by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadPackets(BTreeMap<Unread, u64>);

impl UnreadPackets {
    /// Kinds that are named: numbers are what packets say.
    const MAX_KINDS: usize = 32;

    pub(super) fn count(&mut self, kind: Unread) {
        let is_named = self.0.len() < Self::MAX_KINDS || self.0.contains_key(&kind);
        *self
            .0
            .entry(if is_named { kind } else { Unread::Others })
            .or_default() += 1;
    }

    /// Each kind with its packets, those with most packets first.
    pub fn by_number(&self) -> Vec<(Unread, u64)> {
        let mut kinds: Vec<_> = self.0.iter().map(|(kind, packets)| (*kind, *packets)).collect();
        kinds.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_kinds_is_named_and_all_packets_are_counted() {
        let mut unread = UnreadPackets::default();
        for number in 0..1_000 {
            unread.count(Unread::EtherType(number));
            unread.count(Unread::EtherType(7));
        }
        let kinds = unread.by_number();
        assert_eq!(kinds.len(), UnreadPackets::MAX_KINDS + 1);
        assert_eq!(kinds[0], (Unread::EtherType(7), 1_001));
        assert_eq!(kinds.iter().map(|(_, packets)| packets).sum::<u64>(), 2_000);
    }
}
