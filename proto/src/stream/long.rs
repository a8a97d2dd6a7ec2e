//! Long bodies: in parts that are not joined, or cut to their heads.

use bytes::{Bytes, BytesMut};

use crate::envelope::{Envelope, Header};

/// Parts shorter than this are copied together: a part costs memory of its own, and keeps alive what it was
/// cut from.
const MIN_PART: usize = 16 * 1024;

/// An envelope whose body was too long to be kept: its beginning, and how long it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeHead {
    /// Its header as on the wire, and the beginning of its body, uncompressed.
    pub envelope: Envelope,
    /// Length of the whole body in bytes, uncompressed.
    pub body_len: usize,
}

/// A RESULT whose body came in parts. Its beginning has the metadata and the number of rows. Most readers
/// need no more, and joining the rest would cost them more than reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongEnvelope {
    /// As on the wire.
    pub header: Header,
    parts: Vec<Bytes>,
    /// Short parts after `parts`.
    short: BytesMut,
    body_len: usize,
}

impl LongEnvelope {
    pub(super) fn new(header: Header) -> Self {
        Self {
            header,
            parts: Vec::new(),
            short: BytesMut::new(),
            body_len: 0,
        }
    }

    pub(super) fn add(&mut self, part: Bytes) {
        self.body_len += part.len();
        if part.len() < MIN_PART {
            self.short.extend_from_slice(&part);
            return;
        }
        if !self.short.is_empty() {
            self.parts.push(self.short.split().freeze());
        }
        self.parts.push(part);
    }

    /// Length of the body in bytes, as far as it has come.
    pub fn body_len(&self) -> usize {
        self.body_len
    }

    /// The beginning of the body, as an envelope whose body ends too early.
    pub fn head(&self) -> Envelope {
        let body = match self.parts.first() {
            Some(first) => first.clone(),
            None => Bytes::copy_from_slice(&self.short),
        };
        Envelope {
            header: self.header,
            body,
        }
    }

    /// The whole envelope. O(length).
    pub fn join(&self) -> Envelope {
        let mut body = BytesMut::with_capacity(self.body_len);
        for part in &self.parts {
            body.extend_from_slice(part);
        }
        body.extend_from_slice(&self.short);
        Envelope {
            header: self.header,
            body: body.freeze(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::compress::{Compression, encode_compressed};
    use crate::cutter::Negotiated;
    use crate::envelope::{Direction, Opcode, StreamId, Version};
    use crate::segment::{self, Encoding};
    use crate::stream::{EnvelopeStream, StreamItem};

    const MAX_BODY: usize = 1_000;
    const HEAD: usize = 100;

    fn envelope(version: Version, stream: i16, body: Vec<u8>) -> Envelope {
        Envelope {
            header: Header::response(version, StreamId(stream), Opcode::RESULT),
            body: body.into(),
        }
    }

    /// A body that no algorithm makes much shorter.
    fn noise(length: usize) -> Vec<u8> {
        (0..u32::try_from(length).unwrap())
            .map(|number| number.wrapping_mul(0x9e37_79b9).to_be_bytes()[0])
            .collect()
    }

    /// What comes of these bytes, in chunks of so many, and the most that was kept meanwhile.
    fn read(compression: Compression, segments: bool, wire: &[u8], chunk: usize) -> (Vec<StreamItem>, usize) {
        let negotiated = Arc::new(Negotiated::new());
        negotiated.set_compression(compression);
        if segments {
            negotiated.start_segments();
        }
        let mut stream = EnvelopeStream::new(Direction::Response, negotiated)
            .with_max_body(MAX_BODY)
            .with_heads(HEAD);
        let (mut items, mut kept) = (Vec::new(), 0);
        for chunk in wire.chunks(chunk) {
            stream.feed(Bytes::copy_from_slice(chunk));
            items.extend(std::iter::from_fn(|| stream.next_item()));
            kept = kept.max(stream.kept());
        }
        (items, kept)
    }

    fn check(items: &[StreamItem], body: &[u8]) {
        let [StreamItem::Head(head), StreamItem::Envelope(next)] = items else {
            unreachable!("{items:?}")
        };
        assert_eq!(head.envelope.header.stream_id, StreamId(1));
        assert_eq!(head.body_len, body.len());
        assert!(
            head.envelope.body.len() >= HEAD - 10,
            "{}",
            head.envelope.body.len()
        );
        assert!(head.envelope.body.len() <= HEAD && body.starts_with(&head.envelope.body));
        assert_eq!(&next.body[..], b"next");
    }

    #[test]
    fn of_a_body_that_is_too_long_the_head_and_the_length_are_told() {
        let body = noise(5_000);
        let mut wire = BytesMut::new();
        envelope(Version::V4, 1, body.clone()).encode(&mut wire).unwrap();
        envelope(Version::V4, 2, b"next".to_vec())
            .encode(&mut wire)
            .unwrap();
        for chunk in [1, 7, 700, 100_000] {
            let (items, kept) = read(Compression::None, false, &wire, chunk);
            check(&items, &body);
            assert!(kept <= HEAD, "{kept}");
        }
    }

    #[test]
    fn one_that_is_compressed_is_decompressed_as_far_as_its_head_goes() {
        // Too long on the wire, and only once it is decompressed.
        let repeated = b"and again ".repeat(500);
        for (body, agreed) in [(noise(5_000), true), (repeated.clone(), true), (repeated, false)] {
            for compression in [Compression::Lz4, Compression::Snappy] {
                let mut wire = BytesMut::new();
                encode_compressed(&envelope(Version::V4, 1, body.clone()), compression, &mut wire).unwrap();
                assert_eq!(wire.len() < MAX_BODY, body.starts_with(b"and"));
                envelope(Version::V4, 2, b"next".to_vec())
                    .encode(&mut wire)
                    .unwrap();
                let known = if agreed { compression } else { Compression::None };
                for chunk in [7, 100_000] {
                    check(&read(known, false, &wire, chunk).0, &body);
                }
            }
        }
    }

    #[test]
    fn one_in_segments_is_counted_over_all_of_them() {
        let body = noise(300_000);
        for (encoding, compression) in [
            (Encoding::Plain, Compression::None),
            (Encoding::Lz4, Compression::Lz4),
        ] {
            let mut long = BytesMut::new();
            envelope(Version::V5, 1, body.clone()).encode(&mut long).unwrap();
            let mut wire = BytesMut::new();
            for part in long.chunks(100_000) {
                segment::encode(encoding, false, part, &mut wire).unwrap();
            }
            let mut next = BytesMut::new();
            envelope(Version::V5, 2, b"next".to_vec())
                .encode(&mut next)
                .unwrap();
            segment::encode(encoding, true, &next, &mut wire).unwrap();
            let (items, kept) = read(compression, true, &wire, 9_000);
            check(&items, &body);
            assert!(kept <= HEAD, "{kept}");
        }
    }

    #[test]
    fn one_with_a_gap_is_skipped_and_the_next_one_is_whole() {
        let mut wire = BytesMut::new();
        envelope(Version::V4, 1, noise(5_000)).encode(&mut wire).unwrap();
        envelope(Version::V4, 2, b"next".to_vec())
            .encode(&mut wire)
            .unwrap();
        let wire = wire.freeze();
        let mut stream = EnvelopeStream::new(Direction::Response, Arc::new(Negotiated::new()))
            .with_max_body(MAX_BODY)
            .with_heads(HEAD);
        stream.feed(wire.slice(..2_000));
        assert_eq!(stream.next_item(), None);
        stream.skip_gap(1_000);
        stream.feed(wire.slice(3_000..));
        assert!(
            matches!(stream.next_item(), Some(StreamItem::Skipped { header, .. }) if header.stream_id == StreamId(1))
        );
        assert!(matches!(stream.next_item(), Some(StreamItem::Envelope(next)) if &next.body[..] == b"next"));
    }

    #[test]
    fn what_is_damaged_or_claims_too_much_is_skipped() {
        let mut wire = BytesMut::new();
        let claim = vec![1, 0, 0, 0, 0x10, b'a'];
        envelope(Version::V4, 1, claim).encode(&mut wire).unwrap();
        wire[1] |= crate::envelope::Flags::COMPRESSED.0;
        let (items, _) = read(Compression::Lz4, false, &wire, 100);
        assert!(matches!(items[..], [StreamItem::Skipped { .. }]), "{items:?}");
    }
}
