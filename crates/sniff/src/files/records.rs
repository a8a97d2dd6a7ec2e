//! Finds the packets in the bytes of a capture file, pcap or pcapng.
//!
//! Bytes come in chunks of any size, and packets are not copied out of them. If a file ends within a packet,
//! all packets before it are read and the rest is counted. Where a file header stands in place of a record,
//! another file follows in the same stream, as `zcat` and `cat` make it.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use pcap_parser::{nom, parse_pcap_header};

use super::{
    compression::other_packing,
    pcap::{PCAP_HEADER, Pcap, is_file_header},
    pcapng::{SECTION_HEADER, Section, is_section_header},
    record::{PacketSpan, Record},
};
use crate::tls::KeyLog;
use cqlens_capture::Moment;

/// A packet as it was captured.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'c> {
    /// Its time, or that of the packet before it if the capture has none.
    pub at: Moment,
    /// Whether the capture has its time.
    pub is_timed: bool,
    /// Link-layer type (`LINKTYPE_*`).
    pub link: i32,
    /// The captured bytes.
    pub bytes: &'c [u8],
    /// Its length on the wire.
    pub length: usize,
    /// The chunk that contains it, and its offset there.
    chunk: &'c Bytes,
    begin: usize,
}

impl<'c> Packet<'c> {
    /// A handle to a part of it that outlives the packet. Only for bytes that are kept: it costs an atomic
    /// count that threads share.
    #[inline]
    pub fn share(&self, part: Range<usize>) -> Bytes {
        self.chunk.slice(self.begin + part.start..self.begin + part.end)
    }

    /// The same with other bytes, which were put together out of several packets.
    pub(crate) fn with_bytes<'b>(&self, bytes: &'b Bytes) -> Packet<'b> {
        Packet {
            at: self.at,
            is_timed: self.is_timed,
            link: self.link,
            bytes,
            length: bytes.len(),
            chunk: bytes,
            begin: 0,
        }
    }

    /// A packet that is all of `chunk`.
    #[cfg(test)]
    pub(crate) fn of(link: i32, at: Moment, length: usize, chunk: &'c Bytes) -> Self {
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

/// Why a file cannot be read (on).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FileError {
    /// The first bytes are neither pcap's nor pcapng's.
    #[error("it is not a capture: neither pcap nor pcapng")]
    NotACapture,
    /// It is packed in a way that is not read.
    #[error("it is packed ({0}), which is not read: unpack it first")]
    Packed(&'static str),
    /// It has no bytes.
    #[error("it is empty")]
    Empty,
    /// An invalid record, at that offset of the uncompressed file.
    #[error("it is damaged at byte {0}")]
    Damaged(u64),
}

/// Reads one file.
#[derive(Debug, Default)]
pub struct Records {
    format: Option<Format>,
    chunk: Bytes,
    /// Where the next record begins in the chunk.
    next: usize,
    next_chunk: Bytes,
    /// Bytes of the file before the chunk.
    passed: u64,
    /// The current packet, in the chunk.
    latest: Option<PacketSpan>,
    /// Time of the packet before, once it is not the current one any more.
    before: Option<Moment>,
    /// Whether a file that follows another one has begun, and its first packet was not passed.
    begins_file: bool,
    /// Whether a file begins earlier than the one before it in the stream ends.
    is_out_of_order: bool,
    /// Takes the secrets of TLS in the file.
    keys: KeyLog,
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Section),
}

impl Records {
    /// A reader that adds the secrets of TLS in the file to `keys`.
    pub fn with_keys(keys: KeyLog) -> Self {
        Self {
            keys,
            ..Self::default()
        }
    }

    /// Adds the next bytes of the file, once [`Records::advance`] has returned false.
    pub fn feed(&mut self, bytes: Bytes) {
        if self.next_chunk.is_empty() {
            self.next_chunk = bytes;
        } else {
            self.next_chunk = [&self.next_chunk[..], &bytes[..]].concat().into();
        }
    }

    /// Short cut of [`Records::advance`] for a whole packet of pcap. False, with nothing changed, for
    /// anything else.
    #[inline]
    pub(super) fn advance_in_pcap(&mut self) -> bool {
        if let Some(Format::Pcap(pcap)) = &self.format
            && let Some(Record::Whole(length, Some(span))) = pcap.read(self.rest())
        {
            self.pass(length, Some(span));
            return true;
        }
        false
    }

    /// Moves on to the next packet; false if there is none until more bytes come.
    ///
    /// # Errors
    /// The file is not a capture, or is damaged; there are no more packets.
    pub fn advance(&mut self) -> Result<bool, FileError> {
        if let Some(latest) = self.latest.take() {
            self.before = Some(latest.at);
            self.begins_file = false;
        }
        loop {
            let bytes = self.chunk.get(self.next..).unwrap_or_default();
            let record = match &mut self.format {
                Some(Format::Pcap(pcap)) => pcap.read(bytes),
                Some(Format::Pcapng(section)) => section.read(bytes, &self.keys),
                None => Format::read(&mut self.format, bytes)?.into(),
            };
            match record {
                Some(Record::Whole(length, span)) => {
                    self.pass(length, span);
                    if let Some(span) = span {
                        let goes_back = self.before.is_some_and(|before| span.at < before);
                        self.is_out_of_order |= self.begins_file && goes_back;
                        return Ok(true);
                    }
                }
                Some(Record::Incomplete(_)) if self.next_chunk.is_empty() => return Ok(false),
                Some(Record::Incomplete(needed)) => self.join(needed),
                None if self.another_follows() => {
                    self.format = None;
                    self.begins_file = true;
                }
                None => return Err(FileError::Damaged(self.passed + self.next as u64)),
            }
        }
    }

    /// Whether the packet that [`Records::advance`] has moved on to is the first of a file that follows another one.
    pub(super) fn begins_file(&self) -> bool {
        self.begins_file
    }

    /// Whether another file begins where a record of this one would.
    fn another_follows(&self) -> bool {
        match self.format {
            Some(Format::Pcap(_)) => is_file_header(self.rest()) || is_section_header(self.rest()),
            // Sections follow each other in one file.
            Some(Format::Pcapng(_)) => is_file_header(self.rest()),
            None => false,
        }
    }

    /// Whether files in the stream are not in the order of time.
    pub(super) fn is_out_of_order(&self) -> bool {
        self.is_out_of_order
    }

    /// The current packet.
    #[inline]
    pub fn packet(&self) -> Option<Packet<'_>> {
        let span = self.latest?;
        Some(Packet {
            at: span.at,
            is_timed: span.is_timed,
            link: span.link,
            bytes: self.chunk.get(span.begin..span.end)?,
            length: span.length,
            chunk: &self.chunk,
            begin: span.begin,
        })
    }

    /// The time of the current packet.
    #[inline]
    pub(super) fn time(&self) -> Option<Moment> {
        self.latest.map(|packet| packet.at)
    }

    /// Bytes of an incomplete record at the end of the file.
    pub fn left_over(&self) -> usize {
        self.rest().len() + self.next_chunk.len()
    }

    /// Whether the file header has been read.
    pub fn has_begun(&self) -> bool {
        self.format.is_some() || self.begins_file
    }

    /// Checks a file that ends here.
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

    /// Moves past a record.
    #[inline]
    fn pass(&mut self, length: usize, span: Option<PacketSpan>) {
        self.latest = span.map(|span| PacketSpan {
            begin: self.next + span.begin,
            end: self.next + span.end,
            ..span
        });
        self.next += length;
    }

    /// Goes on with the next chunk. Only a record that spans both is copied: the rest of this chunk and the
    /// first bytes of the next, until `needed` bytes are joined.
    fn join(&mut self, needed: usize) {
        let rest = self.chunk.len().saturating_sub(self.next);
        let chunk = match rest {
            0 => std::mem::take(&mut self.next_chunk),
            _ => {
                let of_coming = needed.saturating_sub(rest).clamp(1, self.next_chunk.len());
                let mut joint = BytesMut::with_capacity(rest + of_coming);
                joint.extend_from_slice(self.rest());
                joint.extend_from_slice(&self.next_chunk.split_to(of_coming));
                joint.freeze()
            }
        };
        self.passed += self.next as u64;
        self.next = 0;
        self.chunk = chunk;
    }
}

impl Format {
    /// Detects the format by the first bytes.
    fn read(format: &mut Option<Self>, bytes: &[u8]) -> Result<Record, FileError> {
        let Some(magic) = bytes.first_chunk::<4>() else {
            return Ok(Record::Incomplete(4));
        };
        if *magic == SECTION_HEADER {
            *format = Some(Self::Pcapng(Section::default()));
            return Ok(Record::Whole(0, None));
        }
        match parse_pcap_header(bytes) {
            Ok((_, header)) if !header.is_modified_format() => {
                *format = Some(Self::Pcap(Pcap::new(&header)));
                Ok(Record::Whole(header.size(), None))
            }
            Err(nom::Err::Incomplete(_)) => Ok(Record::Incomplete(PCAP_HEADER)),
            _ => Err(other_packing(bytes).map_or(FileError::NotACapture, FileError::Packed)),
        }
    }
}

#[cfg(test)]
mod tests;
