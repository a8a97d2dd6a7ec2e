//! Packets out of the bytes of a capture file: pcap in both byte orders, with micro- or nanoseconds, and pcapng.
//!
//! Bytes come in chunks of any size; packets are looked at where they lie in them. Where a file ends in the middle of a packet,
//! everything before it has been told, and what is left over is counted.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use pcap_parser::{
    Block, Linktype, PcapHeader, SimplePacketBlock, nom, parse_block_be, parse_block_le, parse_pcap_header,
    traits::PcapNGPacketBlock,
};

use cqlens_audit::capture::Moment;

/// A packet as it was captured.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'c> {
    /// When; where the capture does not say, when the packet before it was captured.
    pub at: Moment,
    /// Whether the capture says when.
    pub is_timed: bool,
    /// What it begins with, by the number that pcap and pcapng have for it.
    pub link: i32,
    /// As much of it as is there.
    pub bytes: &'c [u8],
    /// Bytes that it had on the wire.
    pub length: usize,
    /// The bytes around it, and where it begins in them.
    chunk: &'c Bytes,
    begin: usize,
}

impl<'c> Packet<'c> {
    /// A part of it that outlives it. Only what is kept has a handle: those are counted in memory that other threads count in, too.
    #[inline]
    pub fn share(&self, part: Range<usize>) -> Bytes {
        self.chunk.slice(self.begin + part.start..self.begin + part.end)
    }

    /// A packet that is all of `chunk`.
    #[cfg(test)]
    pub(super) fn of(link: i32, at: Moment, length: usize, chunk: &'c Bytes) -> Self {
        Self {
            at,
            is_timed: true,
            link,
            bytes: chunk,
            length,
            chunk,
            begin: 0,
        }
    }
}

/// A packet, and where it lies in the bytes that it was found in.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: Moment,
    is_timed: bool,
    link: i32,
    length: usize,
    begin: usize,
    end: usize,
}

/// Why a file cannot be read (on).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FileError {
    /// The first bytes are neither pcap's nor pcapng's.
    #[error("it is no capture: neither pcap nor pcapng")]
    NotACapture,
    /// Nothing.
    #[error("it is empty")]
    Empty,
    /// A record that cannot be one, at that byte of the (uncompressed) file.
    #[error("it is damaged at byte {0}")]
    Damaged(u64),
}

/// Longer records are damage: the largest that tcpdump makes is 256 KiB.
const MAX_RECORD: usize = 16 << 20;

/// Interfaces of one section that are kept apart; packets of further ones are of no use.
const MAX_INTERFACES: usize = 4_096;

/// Reads one file.
#[derive(Debug, Default)]
pub struct Records {
    format: Option<Format>,
    chunk: Bytes,
    /// Where the next record begins in the chunk.
    next: usize,
    coming: Bytes,
    /// Bytes of the file before the chunk.
    passed: u64,
    /// The latest packet, which is in the chunk.
    latest: Option<Place>,
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Section),
}

/// What the header of a pcap file says of its records.
#[derive(Debug, Clone, Copy)]
struct Pcap {
    is_big_endian: bool,
    nanoseconds: i64,
    link: i32,
}

/// A section of a pcapng file, as far as it has been read.
#[derive(Debug)]
struct Section {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    /// Of the latest packet that had a time; 0 before there was one.
    latest: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: i32,
    snap_length: usize,
    resolution: u8,
    offset: i64,
}

/// What a record was.
enum Record {
    /// So many bytes, and a packet if it was one.
    Whole(usize, Option<Place>),
    /// So many bytes are needed to say more.
    Incomplete(usize),
}

impl Records {
    /// Adds the next bytes of the file, once [`Records::advance`] has found all that was in those before.
    pub fn feed(&mut self, bytes: Bytes) {
        if self.coming.is_empty() {
            self.coming = bytes;
        } else {
            self.coming = [&self.coming[..], &bytes[..]].concat().into();
        }
    }

    /// Moves on to the next packet; false if there is none until more bytes come.
    ///
    /// # Errors
    /// A file that is none of a capture, or damaged: nothing more comes of it.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, FileError> {
        // Nearly all are whole packets of pcap.
        if let Some(Format::Pcap(pcap)) = &self.format
            && let Some(Record::Whole(length, Some(place))) = pcap.read(self.rest())
        {
            self.pass(length, Some(place));
            return Ok(true);
        }
        self.advance_any()
    }

    /// The same, whatever comes next.
    fn advance_any(&mut self) -> Result<bool, FileError> {
        self.latest = None;
        loop {
            match self.read()? {
                Record::Whole(length, place) => {
                    self.pass(length, place);
                    if place.is_some() {
                        return Ok(true);
                    }
                }
                Record::Incomplete(_) if self.coming.is_empty() => return Ok(false),
                Record::Incomplete(needed) => self.join(needed),
            }
        }
    }

    /// The packet that was found last.
    #[inline]
    pub fn packet(&self) -> Option<Packet<'_>> {
        let place = self.latest?;
        Some(Packet {
            at: place.at,
            is_timed: place.is_timed,
            link: place.link,
            bytes: self.chunk.get(place.begin..place.end)?,
            length: place.length,
            chunk: &self.chunk,
            begin: place.begin,
        })
    }

    /// Bytes at the end that are no whole record, once the file has ended.
    pub fn left_over(&self) -> usize {
        self.rest().len() + self.coming.len()
    }

    /// Whether the header of a capture was there.
    pub fn has_begun(&self) -> bool {
        self.format.is_some()
    }

    /// What is wrong with a file that has ended here, if anything is.
    ///
    /// # Errors
    /// It is empty, or too short for any capture.
    pub fn check_end(&self) -> Result<(), FileError> {
        match (self.has_begun(), self.left_over()) {
            (true, _) => Ok(()),
            (false, 0) => Err(FileError::Empty),
            (false, _) => Err(FileError::NotACapture),
        }
    }

    /// The bytes of the chunk from the next record on.
    #[inline]
    fn rest(&self) -> &[u8] {
        self.chunk.get(self.next..).unwrap_or_default()
    }

    /// Moves on over a record, and the packet in it if it is one.
    #[inline]
    fn pass(&mut self, length: usize, place: Option<Place>) {
        self.latest = place.map(|place| Place {
            begin: self.next + place.begin,
            end: self.next + place.end,
            ..place
        });
        self.next += length;
    }

    /// Goes on with the next chunk. What is left of this one and the first bytes of the next one, as many as are `needed` for a record, come
    /// between the two: nothing else is copied.
    fn join(&mut self, needed: usize) {
        let rest = self.chunk.len().saturating_sub(self.next);
        let chunk = match rest {
            0 => std::mem::take(&mut self.coming),
            _ => {
                let of_coming = needed.saturating_sub(rest).clamp(1, self.coming.len());
                let mut joint = BytesMut::with_capacity(rest + of_coming);
                joint.extend_from_slice(self.rest());
                joint.extend_from_slice(&self.coming.split_to(of_coming));
                joint.freeze()
            }
        };
        self.passed += self.next as u64;
        self.next = 0;
        self.chunk = chunk;
    }

    fn read(&mut self) -> Result<Record, FileError> {
        let bytes = self.chunk.get(self.next..).unwrap_or_default();
        let damaged = FileError::Damaged(self.passed + self.next as u64);
        match &mut self.format {
            None => Format::read(&mut self.format, bytes),
            Some(Format::Pcap(pcap)) => pcap.read(bytes).ok_or(damaged),
            Some(Format::Pcapng(section)) => section.read(bytes).ok_or(damaged),
        }
    }
}

/// The length of the header of a pcap file.
const PCAP_HEADER: usize = 24;

/// The same in both byte orders.
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

impl Format {
    /// The first bytes of a file, which tell what it is.
    fn read(format: &mut Option<Self>, bytes: &[u8]) -> Result<Record, FileError> {
        let Some(magic) = bytes.first_chunk::<4>() else {
            return Ok(Record::Incomplete(4));
        };
        if *magic == SECTION_HEADER {
            *format = Some(Self::Pcapng(Section {
                is_big_endian: false,
                interfaces: Vec::new(),
                latest: Moment::from_unix_nanoseconds(0),
            }));
            return Ok(Record::Whole(0, None));
        }
        match parse_pcap_header(bytes) {
            Ok((_, header)) if !header.is_modified_format() => {
                *format = Some(Self::of_pcap(&header));
                Ok(Record::Whole(header.size(), None))
            }
            Err(nom::Err::Incomplete(_)) => Ok(Record::Incomplete(PCAP_HEADER)),
            _ => Err(FileError::NotACapture),
        }
    }

    fn of_pcap(header: &PcapHeader) -> Self {
        Self::Pcap(Pcap {
            is_big_endian: header.is_bigendian(),
            nanoseconds: if header.is_nanosecond_precision() {
                1
            } else {
                1_000
            },
            // The upper bits are about checksums of frames.
            link: header.network.0 & 0xffff,
        })
    }
}

impl Pcap {
    /// The next record: 16 bytes with the time, the bytes that are there and those that there were, and the packet. None where it is damaged.
    #[inline]
    fn read(&self, bytes: &[u8]) -> Option<Record> {
        const HEADER: usize = 16;
        let Some(header) = bytes.first_chunk::<HEADER>() else {
            return Some(Record::Incomplete(HEADER));
        };
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let mut words = [word(0), word(4), word(8), word(12)];
        if self.is_big_endian {
            words = words.map(u32::swap_bytes);
        }
        let [seconds, fraction, captured, length] = words;
        let captured = captured as usize;
        if captured > MAX_RECORD {
            return None;
        }
        let end = HEADER + captured;
        if end > bytes.len() {
            return Some(Record::Incomplete(end));
        }
        let at = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * self.nanoseconds;
        let place = Place {
            at: Moment::from_unix_nanoseconds(at),
            is_timed: true,
            link: self.link,
            length: length as usize,
            begin: HEADER,
            end,
        };
        Some(Record::Whole(end, Some(place)))
    }
}

impl Section {
    /// The next block; none where it is damaged.
    fn read(&mut self, bytes: &[u8]) -> Option<Record> {
        const BYTE_ORDER: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];
        let Some(head) = bytes.first_chunk::<12>() else {
            return Some(Record::Incomplete(12));
        };
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
        Some(Record::Whole(length, self.take(block, bytes)))
    }

    /// The packet of a block, if it has one.
    fn take(&mut self, block: Block<'_>, bytes: &[u8]) -> Option<Place> {
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

    fn timed(&mut self, interface: u32, time: (u32, u32), place: Range<usize>, length: u32) -> Option<Place> {
        let interface = self.interfaces.get(interface as usize)?;
        let (high, low) = time;
        self.latest = interface.time(u64::from(high) << 32 | u64::from(low));
        Some(Place {
            at: self.latest,
            is_timed: true,
            link: interface.link,
            length: length as usize,
            begin: place.start,
            end: place.end,
        })
    }

    /// A packet that says neither when it was captured nor how much of it, but for the snap length.
    fn untimed(&self, packet: &SimplePacketBlock<'_>, bytes: &[u8]) -> Option<Place> {
        let interface = self.interfaces.first()?;
        let length = packet.origlen as usize;
        let captured = match interface.snap_length {
            0 => length,
            snap_length => length.min(snap_length),
        };
        let data = packet.data.get(..captured).unwrap_or(packet.data);
        let place = range(data, bytes);
        Some(Place {
            at: self.latest,
            is_timed: false,
            link: interface.link,
            length,
            begin: place.start,
            end: place.end,
        })
    }

    /// The packet of a block that older programs wrote: an interface's number and a number of drops of 16 bits each, the time, two lengths,
    /// then the packet.
    fn obsolete(&mut self, block: &[u8], bytes: &[u8]) -> Option<Place> {
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

/// Where `part` lies in the bytes that it is a part of.
pub(super) fn range(part: &[u8], bytes: &[u8]) -> Range<usize> {
    let begin = (part.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
    begin..begin + part.len()
}

/// The type of the packet block, which the enhanced one has replaced.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
    use super::*;
    use proptest::{collection::vec, prelude::*};

    const PACKETS: [&[u8]; 3] = [b"first", b"", b"the last one"];

    fn number(value: u32, is_big: bool) -> [u8; 4] {
        if is_big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    /// Packets one second and five ticks apart.
    fn pcap(is_big: bool, nanoseconds: bool) -> Vec<u8> {
        let magic = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let mut out = number(magic, is_big).to_vec();
        let version = if is_big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
        out.extend(version);
        for value in [0, 0, 65_535, 1] {
            out.extend(number(value, is_big));
        }
        for (at, packet) in (1..).zip(PACKETS) {
            let length = packet.len() as u32;
            for value in [at, at * 5, length, length + 100] {
                out.extend(number(value, is_big));
            }
            out.extend(packet);
        }
        out
    }

    fn block(kind: u32, is_big: bool, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let length = number(padded as u32 + 12, is_big);
        [
            &number(kind, is_big),
            &length,
            body,
            &vec![0; padded - body.len()],
            &length,
        ]
        .concat()
    }

    fn pcapng(is_big: bool) -> Vec<u8> {
        let short = |value: u16| {
            if is_big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        };
        let section = [&number(0x1a2b_3c4d, is_big)[..], &short(1), &short(0), &[0xff; 8]].concat();
        // Nanoseconds.
        let interface = [
            &short(1)[..],
            &short(0),
            &number(0, is_big),
            &short(9),
            &short(1),
            &[9, 0, 0, 0],
            &[0; 4],
        ]
        .concat();
        let mut out = block(0x0a0d_0d0a, is_big, &section);
        out.extend(block(1, is_big, &interface));
        for (at, packet) in (1_u64..).zip(PACKETS) {
            let ticks = at * 1_000_000_005;
            let mut body = Vec::new();
            for value in [
                0,
                (ticks >> 32) as u32,
                ticks as u32,
                packet.len() as u32,
                packet.len() as u32 + 100,
            ] {
                body.extend(number(value, is_big));
            }
            body.extend(packet);
            out.extend(block(6, is_big, &body));
            // Something else that nobody needs.
            out.extend(block(0x0bad, is_big, b"abc"));
        }
        out
    }

    /// A packet that outlives its chunk.
    #[derive(Debug)]
    struct Kept {
        at: Moment,
        is_timed: bool,
        link: i32,
        bytes: Bytes,
        length: usize,
    }

    fn read(bytes: &[u8], size: usize) -> (Vec<Kept>, Records, Option<FileError>) {
        let mut records = Records::default();
        let mut packets = Vec::new();
        for chunk in bytes.chunks(size) {
            records.feed(Bytes::copy_from_slice(chunk));
            loop {
                match records.advance() {
                    Ok(true) => {
                        let packet = records.packet().unwrap();
                        packets.push(Kept {
                            at: packet.at,
                            is_timed: packet.is_timed,
                            link: packet.link,
                            bytes: packet.share(0..packet.bytes.len()),
                            length: packet.length,
                        });
                    }
                    Ok(false) => break,
                    Err(error) => return (packets, records, Some(error)),
                }
            }
            assert!(records.packet().is_none());
        }
        (packets, records, None)
    }

    #[test]
    fn every_format_is_read_in_pieces_of_any_size() {
        let files = [
            (pcap(false, false), 1_000),
            (pcap(true, false), 1_000),
            (pcap(false, true), 1),
            (pcap(true, true), 1),
            (pcapng(false), 1),
            (pcapng(true), 1),
        ];
        for (file, tick) in files {
            for size in 1..=file.len() {
                let (packets, records, error) = read(&file, size);
                assert_eq!(error, None);
                assert_eq!(records.left_over(), 0);
                let bytes: Vec<_> = packets.iter().map(|packet| &packet.bytes[..]).collect();
                assert_eq!(bytes, PACKETS);
                for (at, packet) in (1_i64..).zip(&packets) {
                    assert_eq!(packet.at.unix_nanoseconds(), at * 1_000_000_000 + at * 5 * tick);
                    assert_eq!((packet.link, packet.length), (1, packet.bytes.len() + 100));
                }
            }
        }
    }

    /// An interface of pcapng with this link layer and these options.
    fn interface(link: u8, options: &[u8]) -> Vec<u8> {
        let body = [&[link, 0, 0, 0, 0, 0, 0, 0][..], options].concat();
        block(1, false, &body)
    }

    /// A packet of the interface with this number, captured after so many of its ticks.
    fn enhanced(interface: u32, ticks: u64) -> Vec<u8> {
        let words = [interface, (ticks >> 32) as u32, ticks as u32, 4, 4];
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        block(6, false, &words.chain(*b"four").collect::<Vec<_>>())
    }

    #[test]
    fn interfaces_have_link_layers_and_clocks_of_their_own() {
        let section = |is_big: bool| pcapng(is_big)[..28].to_vec();
        let resolution = |value: u8| [9, 0, 1, 0, value, 0, 0, 0];
        let offset = [&[14, 0, 8, 0][..], &3_600_i64.to_le_bytes()].concat();
        let file = [
            section(false),
            // Microseconds where nothing is said; milliseconds; 2^-10 seconds; nanoseconds since an hour after 1970, behind a name.
            interface(1, &[]),
            interface(113, &resolution(3)),
            interface(101, &resolution(0x8a)),
            interface(
                12,
                &[
                    &[2, 0, 3, 0, b'e', b't', b'h', 0][..],
                    &resolution(9),
                    &offset,
                    &[0; 4],
                ]
                .concat(),
            ),
            enhanced(0, 5_000_001),
            enhanced(1, 5_002),
            enhanced(2, 5 * 1024 + 512),
            enhanced(3, 7),
            // There is none of that number.
            enhanced(4, 1),
            // Another machine's, whose only interface has the number of one before.
            pcapng(true),
        ];
        let (packets, _, error) = read(&file.concat(), 50);
        assert_eq!(error, None);
        let told: Vec<_> = packets
            .iter()
            .map(|packet| (packet.link, packet.at.unix_nanoseconds()))
            .collect();
        let expected = [
            (1, 5_000_001_000),
            (113, 5_002_000_000),
            (101, 5_500_000_000),
            (12, 3_600_000_000_007),
            (1, 1_000_000_005),
            (1, 2_000_000_010),
            (1, 3_000_000_015),
        ];
        assert_eq!(told, expected);
    }

    /// What a file says of its packets: whether they have a time, and which, with what is there of them.
    type Said = (bool, i64, Vec<u8>, usize);

    fn said(file: &[u8]) -> Vec<Said> {
        let (packets, _, error) = read(file, 50);
        assert_eq!(error, None);
        let said = packets.iter().map(|packet| {
            let at = packet.at.unix_nanoseconds();
            (packet.is_timed, at, packet.bytes.to_vec(), packet.length)
        });
        said.collect()
    }

    #[test]
    fn obsolete_packets_have_all_that_enhanced_ones_have() {
        for is_big in [false, true] {
            let mut file = pcapng(is_big)[..60].to_vec();
            let interface_and_drops: [u16; 2] = [0, 3];
            let mut body: Vec<u8> = interface_and_drops
                .iter()
                .flat_map(|number| {
                    if is_big {
                        number.to_be_bytes()
                    } else {
                        number.to_le_bytes()
                    }
                })
                .collect();
            for value in [1, 2, 5, 100] {
                body.extend(number(value, is_big));
            }
            body.extend(b"first");
            file.extend(block(2, is_big, &body));
            // One that is shorter than it says, and one that is no packet.
            file.extend(block(2, is_big, &body[..20]));
            file.extend(block(2, is_big, &body[..12]));
            let expected = (true, (1 << 32) + 2, b"first".to_vec(), 100);
            assert_eq!(said(&file), [expected]);
        }
    }

    #[test]
    fn simple_packets_have_the_time_of_the_one_before_and_say_so() {
        for is_big in [false, true] {
            let mut file = pcapng(is_big)[..60].to_vec();
            let simple = block(3, is_big, &[&number(5, is_big)[..], b"first"].concat());
            file.extend(&simple);
            file.extend(&pcapng(is_big)[60..]);
            file.extend(&simple);
            let said = said(&file);
            let first = b"first".to_vec();
            assert_eq!(said[0], (false, 0, first.clone(), 5));
            assert_eq!(said.len(), 5);
            assert_eq!(said[4], (false, 3_000_000_015, first, 5));
            assert!(said[1..4].iter().all(|(is_timed, ..)| *is_timed));
        }
    }

    #[test]
    fn a_truncated_file_tells_what_was_there() {
        let file = pcap(false, false);
        for length in 0..file.len() {
            let (packets, records, error) = read(&file[..length], 1_000);
            assert_eq!(error, None);
            let whole = [45, 61].iter().filter(|end| **end <= length).count();
            assert_eq!(packets.len(), whole, "{length}");
            let expected = match length {
                0 => Err(FileError::Empty),
                1..24 => Err(FileError::NotACapture),
                _ => Ok(()),
            };
            assert_eq!(records.check_end(), expected, "{length}");
        }
    }

    #[test]
    fn what_is_no_capture_is_said_to_be_none() {
        for bytes in [&b"PK\x03\x04 and more"[..], b"{\"json\": true}", &[0; 64]] {
            assert_eq!(read(bytes, 1_000).2, Some(FileError::NotACapture));
        }
        let mut file = pcap(false, false);
        file[24 + 8 + 3] = 0xff;
        assert_eq!(read(&file, 1_000).2, Some(FileError::Damaged(24)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            kind in 0_u8..6,
            changed in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            tail in vec(any::<u8>(), 0..100),
            size in 1_usize..300,
        ) {
            let mut file = match kind {
                0 => Vec::new(),
                1 => vec![0x0a, 0x0d, 0x0d, 0x0a],
                2 => pcap(false, false),
                3 => pcap(true, true),
                4 => pcapng(true),
                _ => pcapng(false),
            };
            file.extend(tail);
            for (at, byte) in changed {
                if !file.is_empty() {
                    let at = at.index(file.len());
                    file[at] = byte;
                }
            }
            read(&file, size);
        }
    }
}
