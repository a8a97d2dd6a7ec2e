//! Read buffers for captures: a few slabs are reused, so that bytes land in memory that is in the processor's
//! cache and is not cleared again.

use std::{
    collections::VecDeque,
    io::{self, Read},
};

use bytes::{Bytes, BytesMut};

/// Bytes of a slab: few enough to stay in the processor's cache until they are parsed.
const SLAB: usize = 128 << 10;

/// Slabs that are kept for reuse: a little more than waits for the audit.
const MAX_KEPT: usize = 64;

/// How many of the oldest are tried for a free one: the audit may hold parts of some for long.
const MAX_TRIED: usize = 4;

/// Slabs of one reader.
#[derive(Debug, Default)]
pub(super) struct Slabs(VecDeque<Bytes>);

impl Slabs {
    /// Reads the next bytes; empty at the end.
    ///
    /// # Errors
    /// Those of the reader.
    pub(super) fn read(&mut self, from: &mut impl Read) -> io::Result<Bytes> {
        let mut slab = self.take_free();
        let length = loop {
            match from.read(&mut slab) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        let slab = slab.freeze();
        let chunk = if length < SLAB / 4 {
            // A short read does not keep a whole slab.
            Bytes::copy_from_slice(slab.get(..length).unwrap_or_default())
        } else {
            slab.slice(..length)
        };
        if self.0.len() < MAX_KEPT {
            self.0.push_back(slab);
        }
        Ok(chunk)
    }

    /// A slab without handles to it.
    fn take_free(&mut self) -> BytesMut {
        for _ in 0..self.0.len().min(MAX_TRIED) {
            match self.0.pop_front().map(Bytes::try_into_mut) {
                Some(Ok(free)) => return free,
                Some(Err(held)) => self.0.push_back(held),
                None => break,
            }
        }
        BytesMut::zeroed(SLAB)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Gives so many bytes of its number at a time, which goes up.
    struct Numbered(u8, usize);

    impl Read for Numbered {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(into.len());
            into[..length].fill(self.0);
            self.0 = self.0.wrapping_add(1);
            Ok(length)
        }
    }

    #[test]
    fn slabs_are_read_into_again_when_their_parts_are_gone() {
        for length in [100, SLAB / 2, SLAB] {
            let (mut slabs, mut from) = (Slabs::default(), Numbered(0, length));
            for number in 0..200 {
                let chunk = slabs.read(&mut from).unwrap();
                assert_eq!(chunk, vec![number; length]);
            }
            assert_eq!(slabs.0.len(), 1, "{length}");
        }
    }

    #[test]
    fn parts_that_are_held_stay_as_they_are() {
        for length in [100, SLAB / 2, SLAB] {
            let (mut slabs, mut from) = (Slabs::default(), Numbered(0, length));
            let held: Vec<_> = (0..200)
                .map(|number| (number, slabs.read(&mut from).unwrap().slice(10..20)))
                .collect();
            assert!(slabs.0.len() <= MAX_KEPT);
            for (number, part) in held {
                assert_eq!(part, vec![number; 10]);
            }
        }
    }
}
