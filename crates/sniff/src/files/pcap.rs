//! Records of pcap files: in both byte orders, with micro- or nanoseconds.

use pcap_parser::PcapHeader;

use super::record::{MAX_RECORD, PacketSpan, Record};
use cqlens_capture::Moment;

/// The length of the header of a pcap file.
pub(super) const PCAP_HEADER: usize = 24;

/// Whether a file header begins here, and no record of another file: the magic number (a time in 2055, or behind 2098),
/// version 2.4, and two numbers that are always 0, where a record has its lengths. Twelve bytes of it are enough.
pub(super) fn is_file_header(bytes: &[u8]) -> bool {
    const REST_OF_LITTLE_ENDIAN: [u8; 12] = [2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const REST_OF_BIG_ENDIAN: [u8; 12] = [0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0];
    let Some((magic, rest)) = bytes.split_first_chunk::<4>() else {
        return false;
    };
    let goes_on = |header: &[u8; 12]| {
        rest.len() >= 8 && rest.iter().zip(header).all(|(byte, of_header)| byte == of_header)
    };
    match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => goes_on(&REST_OF_LITTLE_ENDIAN),
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => goes_on(&REST_OF_BIG_ENDIAN),
        _ => false,
    }
}

/// What the file header says of the records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pcap {
    is_big_endian: bool,
    nanoseconds: i64,
    link: i32,
}

/// The header of a file whose packets begin with their IP header and have nanoseconds.
#[cfg(target_os = "linux")]
pub(super) fn raw_ip_header() -> [u8; PCAP_HEADER] {
    const RAW_IP: u8 = 101;
    let mut header = [0; PCAP_HEADER];
    // Magic number, version 2.4; no snap length cuts packets off.
    header[..8].copy_from_slice(&[0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
    header[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    header[20] = RAW_IP;
    header
}

impl Pcap {
    /// Takes over the file header.
    pub(super) fn new(header: &PcapHeader) -> Self {
        Self {
            is_big_endian: header.is_bigendian(),
            nanoseconds: if header.is_nanosecond_precision() {
                1
            } else {
                1_000
            },
            // The upper bits describe the frame check sequence.
            link: header.network.0 & 0xffff,
        }
    }

    /// The next record: a header of 16 bytes (time, captured length, length on the wire), then the packet.
    /// `None` if it is damaged, or if another file begins here.
    #[inline]
    pub(super) fn read(&self, bytes: &[u8]) -> Option<Record> {
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
        if captured > MAX_RECORD || (captured == 0 && is_file_header(bytes)) {
            return None;
        }
        let end = HEADER + captured;
        if end > bytes.len() {
            return Some(Record::Incomplete(end));
        }
        let at = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * self.nanoseconds;
        let span = PacketSpan {
            at: Moment::from_unix_nanoseconds(at),
            is_timed: true,
            link: self.link,
            length: length as usize,
            begin: HEADER,
            end,
        };
        Some(Record::Whole(end, Some(span)))
    }
}
