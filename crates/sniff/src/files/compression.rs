//! Compressed captures: gzip and zstd, detected by their first bytes.

use std::{
    fs::File,
    io::{self, Read, Seek},
};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// Detects it by the first bytes.
    fn of(magic: [u8; 4]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            ZSTD => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// The compression of a file, which is rewound.
pub(super) fn compression_of(file: &mut File) -> io::Result<Compression> {
    let (magic, _) = first_bytes(file)?;
    file.rewind()?;
    Ok(Compression::of(magic))
}

/// The first bytes, and how many there are.
fn first_bytes(from: &mut impl Read) -> io::Result<([u8; 4], usize)> {
    let mut magic = [0; 4];
    let mut length = 0;
    while let Some(rest) = magic.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((magic, length))
}

/// Reads the decompressed content.
pub(super) fn decompressed(mut from: impl Read + Send + 'static) -> io::Result<Box<dyn Read>> {
    let (magic, length) = first_bytes(&mut from)?;
    let first = io::Cursor::new(magic).take(length as u64);
    let whole = first.chain(from);
    Ok(match Compression::of(magic) {
        Compression::Gzip => Box::new(MultiGzDecoder::new(whole)),
        Compression::Zstd => Box::new(ZstdFrames(Some(Box::new(whole)), None)),
        Compression::None => Box::new(whole),
    })
}

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A zstd file: one frame after another.
struct ZstdFrames(Option<Box<dyn Read>>, Option<Box<Frame>>);

type Frame = StreamingDecoder<Box<dyn Read>, ruzstd::decoding::FrameDecoder>;

impl Read for ZstdFrames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.1 {
                let length = frame.read(into)?;
                if length > 0 {
                    return Ok(length);
                }
                self.0 = self.1.take().map(|frame| frame.into_inner());
            }
            let Some(mut rest) = self.0.take() else {
                return Ok(0);
            };
            let mut first = [0];
            if rest.read(&mut first)? == 0 {
                return Ok(0);
            }
            let rest: Box<dyn Read> = Box::new(io::Cursor::new(first).chain(rest));
            let frame = StreamingDecoder::new(rest).map_err(io::Error::other)?;
            self.1 = Some(Box::new(frame));
        }
    }
}
