//! Packets out of the bytes of a capture file: pcap in both byte orders, with micro- or nanoseconds, and pcapng.
//!
//! Bytes come in chunks of any size; packets are looked at where they lie in them. Where a file ends in the middle of a packet,
//! everything before it has been told, and what is left over is counted.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use pcap_parser::{nom, parse_pcap_header};

use super::{
    pcap::{PCAP_HEADER, Pcap},
    pcapng::{SECTION_HEADER, Section},
};
use crate::capture::Moment;

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
    pub(in crate::sniff) fn of(link: i32, at: Moment, length: usize, chunk: &'c Bytes) -> Self {
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
pub(super) struct PacketSpan {
    pub(super) at: Moment,
    pub(super) is_timed: bool,
    pub(super) link: i32,
    pub(super) length: usize,
    pub(super) begin: usize,
    pub(super) end: usize,
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
pub(super) const MAX_RECORD: usize = 16 << 20;

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
    /// The latest packet, which is in the chunk.
    latest: Option<PacketSpan>,
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Section),
}

/// What a record was.
pub(super) enum Record {
    /// So many bytes, and a packet if it was one.
    Whole(usize, Option<PacketSpan>),
    /// So many bytes are needed to say more.
    Incomplete(usize),
}

impl Records {
    /// Adds the next bytes of the file, once [`Records::advance`] has found all that was in those before.
    pub fn feed(&mut self, bytes: Bytes) {
        if self.next_chunk.is_empty() {
            self.next_chunk = bytes;
        } else {
            self.next_chunk = [&self.next_chunk[..], &bytes[..]].concat().into();
        }
    }

    /// Moves on to the next packet; false if there is none until more bytes come.
    ///
    /// # Errors
    /// A file that is none of a capture, or damaged: nothing more comes of it.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, FileError> {
        self.latest = None;
        loop {
            let bytes = self.chunk.get(self.next..).unwrap_or_default();
            let record = match &mut self.format {
                Some(Format::Pcap(pcap)) => pcap.read(bytes),
                Some(Format::Pcapng(section)) => section.read(bytes),
                None => Format::read(&mut self.format, bytes)?.into(),
            };
            match record {
                Some(Record::Whole(length, span)) => {
                    self.pass(length, span);
                    if span.is_some() {
                        return Ok(true);
                    }
                }
                Some(Record::Incomplete(_)) if self.next_chunk.is_empty() => return Ok(false),
                Some(Record::Incomplete(needed)) => self.join(needed),
                None => return Err(FileError::Damaged(self.passed + self.next as u64)),
            }
        }
    }

    /// The packet that was found last.
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

    /// When the packet that was found last was captured; none where there is none.
    #[inline]
    pub(super) fn time(&self) -> Option<Moment> {
        self.latest.map(|packet| packet.at)
    }

    /// Bytes at the end that are no whole record, once the file has ended.
    pub fn left_over(&self) -> usize {
        self.rest().len() + self.next_chunk.len()
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
    fn pass(&mut self, length: usize, span: Option<PacketSpan>) {
        self.latest = span.map(|span| PacketSpan {
            begin: self.next + span.begin,
            end: self.next + span.end,
            ..span
        });
        self.next += length;
    }

    /// Goes on with the next chunk. What is left of this one and the first bytes of the next one, as many as are `needed` for a record, come
    /// between the two: nothing else is copied.
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
    /// The first bytes of a file, which tell what it is.
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
            _ => Err(FileError::NotACapture),
        }
    }
}

/// Where `part` lies in the bytes that it is a part of.
pub(in crate::sniff) fn range(part: &[u8], bytes: &[u8]) -> Range<usize> {
    let begin = (part.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
    begin..begin + part.len()
}

#[cfg(test)]
mod tests;
