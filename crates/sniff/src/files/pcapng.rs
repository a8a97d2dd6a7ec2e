//! Blocks of pcapng files: sections, their interfaces and their packets.

use std::ops::Range;

use pcap_parser::{
    Block, Linktype, SecretsType, SimplePacketBlock, parse_block_be, parse_block_le,
    traits::PcapNGPacketBlock,
};

use super::{
    pcap::is_file_header,
    record::{MAX_RECORD, PacketSpan, Record, range},
};
use crate::tls::KeyLog;
use cqlens_capture::Moment;

/// The type of the section header block, the same in both byte orders.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Whether a section begins here: the type of its header, the length, and the mark that tells the byte order.
pub(super) fn is_section_header(bytes: &[u8]) -> bool {
    let order = bytes.get(8..12).unwrap_or_default();
    bytes.starts_with(&SECTION_HEADER) && (order == BYTE_ORDER || order.iter().rev().eq(&BYTE_ORDER))
}

/// The mark that tells the byte order, as a big-endian section has it.
const BYTE_ORDER: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];

/// Interfaces of one section; packets of further ones are ignored.
const MAX_INTERFACES: usize = 4_096;

/// The current section.
#[derive(Debug)]
pub(super) struct Section {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    /// Time of the latest packet that had one; 0 before it.
    latest: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: i32,
    snap_length: usize,
    resolution: u8,
    offset: i64,
}

impl Default for Section {
    fn default() -> Self {
        Self {
            is_big_endian: false,
            interfaces: Vec::new(),
            latest: Moment::from_unix_nanoseconds(0),
        }
    }
}

impl Section {
    /// The next block; `None` if it is damaged, or if a file of pcap begins here. Secrets of TLS in it are added to `keys`.
    pub(super) fn read(&mut self, bytes: &[u8], keys: &KeyLog) -> Option<Record> {
        let Some(head) = bytes.first_chunk::<12>() else {
            return Some(Record::Incomplete(12));
        };
        if is_file_header(bytes) {
            return None;
        }
        if head[..4] == SECTION_HEADER {
            self.is_big_endian = head[8..] == BYTE_ORDER;
        }
        let length = self.number([head[4], head[5], head[6], head[7]]) as usize;
        if !(12..=MAX_RECORD).contains(&length) || !length.is_multiple_of(4) {
            return None;
        }
        let Some(block) = bytes.get(..length) else {
            return Some(Record::Incomplete(length));
        };
        let parsed = match self.is_big_endian {
            true => parse_block_be(block),
            false => parse_block_le(block),
        };
        let (_, block) = parsed.ok()?;
        if let Block::DecryptionSecrets(secrets) = &block
            && secrets.secrets_type == SecretsType::TlsKeyLog
        {
            keys.add(secrets.data);
        }
        Some(Record::Whole(length, self.take(block, bytes)))
    }

    /// The packet of a block, if it has one.
    fn take(&mut self, block: Block<'_>, bytes: &[u8]) -> Option<PacketSpan> {
        match block {
            Block::SectionHeader(_) => {
                self.interfaces.clear();
                None
            }
            Block::InterfaceDescription(interface) => {
                let Linktype(link) = interface.linktype;
                if self.interfaces.len() < MAX_INTERFACES {
                    self.interfaces.push(Interface {
                        link,
                        snap_length: interface.snaplen as usize,
                        resolution: interface.if_tsresol,
                        offset: interface.if_tsoffset,
                    });
                }
                None
            }
            Block::EnhancedPacket(packet) => self.timed(
                packet.if_id,
                (packet.ts_high, packet.ts_low),
                range(packet.packet_data(), bytes),
                packet.origlen,
            ),
            Block::SimplePacket(packet) => self.untimed(&packet, bytes),
            Block::Unknown(block) if self.number(block.block_type.to_le_bytes()) == OBSOLETE_PACKET => {
                self.obsolete(block.data, bytes)
            }
            _ => None,
        }
    }

    fn timed(
        &mut self,
        interface: u32,
        time: (u32, u32),
        span: Range<usize>,
        length: u32,
    ) -> Option<PacketSpan> {
        let interface = self.interfaces.get(interface as usize)?;
        let (high, low) = time;
        self.latest = interface.time(u64::from(high) << 32 | u64::from(low));
        Some(PacketSpan {
            at: self.latest,
            is_timed: true,
            link: interface.link,
            length: length as usize,
            begin: span.start,
            end: span.end,
        })
    }

    /// A simple packet block: without a time, and with the snap length as its only hint of the captured
    /// length.
    fn untimed(&self, packet: &SimplePacketBlock<'_>, bytes: &[u8]) -> Option<PacketSpan> {
        let interface = self.interfaces.first()?;
        let length = packet.origlen as usize;
        let captured = match interface.snap_length {
            0 => length,
            snap_length => length.min(snap_length),
        };
        let data = packet.data.get(..captured).unwrap_or(packet.data);
        let span = range(data, bytes);
        Some(PacketSpan {
            at: self.latest,
            is_timed: false,
            link: interface.link,
            length,
            begin: span.start,
            end: span.end,
        })
    }

    /// The obsolete packet block: interface and drop count (16 bits each), time, captured length, length on
    /// the wire, then the packet.
    fn obsolete(&mut self, block: &[u8], bytes: &[u8]) -> Option<PacketSpan> {
        let (head, data) = block.split_first_chunk::<20>()?;
        let word = |at: usize| self.number([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let interface = match self.is_big_endian {
            true => u16::from_be_bytes([head[0], head[1]]),
            false => u16::from_le_bytes([head[0], head[1]]),
        };
        let captured = data.get(..word(12) as usize)?;
        let (time, length) = ((word(4), word(8)), word(16));
        self.timed(interface.into(), time, range(captured, bytes), length)
    }

    fn number(&self, bytes: [u8; 4]) -> u32 {
        match self.is_big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        }
    }
}

/// The type of the packet block that the enhanced packet block has replaced.
const OBSOLETE_PACKET: u32 = 2;

impl Interface {
    /// A time in units of 10^-n seconds, or of 2^-n where the top bit is set.
    fn time(&self, ticks: u64) -> Moment {
        let exponent = u32::from(self.resolution & 0x7f);
        let units = match self.resolution & 0x80 {
            0 => 10_u128.checked_pow(exponent),
            _ => 1_u128.checked_shl(exponent),
        };
        let nanoseconds = units
            .filter(|units| *units > 0)
            .map_or(0, |units| u128::from(ticks) * 1_000_000_000 / units);
        let offset = i128::from(self.offset) * 1_000_000_000;
        let nanoseconds = i128::try_from(nanoseconds)
            .unwrap_or(i128::MAX)
            .saturating_add(offset);
        Moment::from_unix_nanoseconds(i64::try_from(nanoseconds).unwrap_or(0))
    }
}
