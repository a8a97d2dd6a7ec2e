//! Compressed captures: gzip, zstd, xz, bzip2 and LZ4, detected by their first bytes.
//!
//! All of them are read as streams: what a file unpacks to is never in memory as a whole.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek},
};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder as Lz4Decoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder as ZstdDecoder;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Xz,
    Bzip2,
    /// Frames of zstd or LZ4.
    Frames,
}

impl Compression {
    /// Detects it by the first bytes.
    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X'] => Self::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9'] => Self::Bzip2,
            _ if FrameKind::of(magic).is_some() => Self::Frames,
            _ => Self::None,
        }
    }
}

/// What xz may keep of what it has unpacked, in KiB: more than `xz -9` asks for (64 MiB), and as much as is allowed to zstd.
const XZ_MEMORY: u32 = 128 << 10;

/// The compression of a file, which is rewound.
pub(super) fn compression_of(file: &mut File) -> io::Result<Compression> {
    let compression = Compression::of(Peekable::new(&mut *file).peek()?);
    file.rewind()?;
    Ok(compression)
}

/// Reads the decompressed content.
pub(super) fn decompressed(from: impl Read + Send + 'static) -> io::Result<Box<dyn Read>> {
    let mut whole = Peekable::new(Box::new(from) as Box<dyn Read>);
    Ok(match Compression::of(whole.peek()?) {
        Compression::Gzip => Box::new(MultiGzDecoder::new(whole)),
        Compression::Xz => Box::new(XzReader::new_mem_limit(BufReader::new(whole), true, XZ_MEMORY)),
        Compression::Bzip2 => Box::new(MultiBzDecoder::new(whole)),
        Compression::Frames => Box::new(Frames::Between(whole)),
        Compression::None => Box::new(whole),
    })
}

/// Bytes that tell a format.
const MAGIC: usize = 4;

/// A stream whose next bytes can be looked at.
struct Peekable<R> {
    from: R,
    /// Bytes that were looked at; the last ones of them are still to be read.
    ahead: [u8; MAGIC],
    to_read: usize,
    has_ended: bool,
}

impl<R: Read> Peekable<R> {
    fn new(from: R) -> Self {
        Self {
            from,
            ahead: [0; MAGIC],
            to_read: 0,
            has_ended: false,
        }
    }

    /// The next four bytes, fewer at the end.
    fn peek(&mut self) -> io::Result<&[u8]> {
        let mut first = Vec::with_capacity(MAGIC);
        self.by_ref().take(MAGIC as u64).read_to_end(&mut first)?;
        self.to_read = first.len();
        let ahead = &mut self.ahead[MAGIC - first.len()..];
        ahead.copy_from_slice(&first);
        Ok(ahead)
    }
}

impl<R: Read> Read for Peekable<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.to_read > 0 {
            let length = (&self.ahead[MAGIC - self.to_read..]).read(into)?;
            self.to_read -= length;
            return Ok(length);
        }
        let length = self.from.read(into)?;
        self.has_ended |= length == 0 && !into.is_empty();
        Ok(length)
    }
}

/// What a frame is, by its first bytes.
enum FrameKind {
    Zstd,
    Lz4,
    /// Neither: it belongs to the program that wrote it, as the sizes of `pzstd`, and is passed over.
    Skippable,
}

impl FrameKind {
    fn of(magic: &[u8]) -> Option<Self> {
        match magic {
            [0x28, 0xb5, 0x2f, 0xfd] => Some(Self::Zstd),
            [0x04, 0x22, 0x4d, 0x18] => Some(Self::Lz4),
            [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Skippable),
            _ => None,
        }
    }
}

type Packed = Peekable<Box<dyn Read>>;

/// Frames of zstd and LZ4, one after another.
enum Frames {
    Between(Packed),
    Zstd(Box<ZstdDecoder<Packed, ruzstd::decoding::FrameDecoder>>),
    Lz4(Box<Lz4Decoder<Packed>>),
    End,
}

impl Frames {
    /// Goes on with the next frame.
    fn begin(mut packed: Packed) -> io::Result<Self> {
        let magic = packed.peek()?;
        Ok(match FrameKind::of(magic) {
            _ if magic.is_empty() => Self::End,
            Some(FrameKind::Zstd) => {
                Self::Zstd(Box::new(ZstdDecoder::new(packed).map_err(io::Error::other)?))
            }
            Some(FrameKind::Lz4) => Self::Lz4(Box::new(Lz4Decoder::new(packed))),
            Some(FrameKind::Skippable) => {
                skip(&mut packed)?;
                Self::Between(packed)
            }
            None => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "no frame of zstd or LZ4",
                ));
            }
        })
    }
}

/// Passes over a frame: its magic number, its length (32 bits, little endian), and so many bytes.
fn skip(packed: &mut Packed) -> io::Result<()> {
    let mut head = [0; 2 * MAGIC];
    packed.read_exact(&mut head)?;
    let [.., a, b, c, d] = head;
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    match io::copy(&mut packed.take(length), &mut io::sink())? {
        skipped if skipped == length => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

impl Read for Frames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = match self {
                Self::Between(_) => 0,
                Self::Zstd(frame) => frame.read(into)?,
                Self::Lz4(frame) => frame.read(into)?,
                Self::End => return Ok(0),
            };
            if length > 0 || into.is_empty() {
                return Ok(length);
            }
            let packed = match std::mem::replace(self, Self::End) {
                Self::Between(packed) => packed,
                Self::Zstd(frame) => frame.into_inner(),
                Self::Lz4(frame) => {
                    let packed = frame.into_inner();
                    // The decoder takes the end of the file for that of the frame, which has a mark of its own.
                    if packed.has_ended {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    packed
                }
                Self::End => return Ok(0),
            };
            *self = Self::begin(packed)?;
        }
    }
}

/// What a file is packed with that is not read, by its first bytes.
pub(super) fn other_packing(bytes: &[u8]) -> Option<&'static str> {
    let is_tar = bytes.get(257..262) == Some(b"ustar");
    Some(match bytes {
        [b'P', b'K', 3, 4, ..] => "ZIP",
        [b'7', b'z', 0xbc, 0xaf, ..] => "7-Zip",
        [b'R', b'a', b'r', b'!', ..] => "RAR",
        [0x1f, 0x9d, ..] => "compress (.Z)",
        [0x5d, 0, 0, ..] => "LZMA",
        [b'L', b'Z', b'I', b'P', ..] => "lzip",
        [0x89, b'L', b'Z', b'O', ..] => "lzop",
        [0x02, 0x21, 0x4c, 0x18, ..] => "the legacy format of LZ4",
        [0xff, 0x06, 0, 0, b's', b'N', b'a', b'P', ..] => "Snappy",
        _ if is_tar => "tar",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
