//! Sessions that real drivers had, changed here and there. What is changed is the same for the same seed.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cqlens_proto::{
    cutter::{Framing, Negotiated},
    envelope::{Direction, Envelope, Flags},
    segment,
    stream::{EnvelopeStream, StreamItem},
};

use crate::faults::recording::{Chunk, Recording, recordings};

/// Bytes in the order in which they pass.
pub(crate) type Passage = Vec<(Direction, Bytes)>;

/// Numbers that look random (xorshift).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    fn is_one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }
}

/// One connection of a driver.
pub(crate) enum Session {
    /// As it passed: compressed, with checksums.
    Raw(Passage),
    /// As envelopes, which are changed before they are put into segments: what is changed gets past the
    /// checksums.
    Envelopes(Vec<(Envelope, Framing)>),
}

/// All connections of all recordings, both ways.
pub(crate) fn sessions() -> Vec<Session> {
    let recordings = recordings();
    let connections = recordings.iter().flat_map(Recording::connections);
    connections
        .flat_map(|chunks| {
            [
                Session::Raw(passage(&chunks)),
                Session::Envelopes(envelopes(&chunks)),
            ]
        })
        .collect()
}

fn passage(chunks: &[&Chunk]) -> Passage {
    chunks
        .iter()
        .map(|chunk| (chunk.direction, chunk.bytes.clone()))
        .collect()
}

fn envelopes(chunks: &[&Chunk]) -> Vec<(Envelope, Framing)> {
    let negotiated = Arc::new(Negotiated::new());
    let stream = |direction| EnvelopeStream::new(direction, Arc::clone(&negotiated));
    let (mut requests, mut responses) = (stream(Direction::Request), stream(Direction::Response));
    let mut all = Vec::new();
    for chunk in chunks {
        let stream = match chunk.direction {
            Direction::Request => &mut requests,
            Direction::Response => &mut responses,
        };
        stream.feed(chunk.bytes.clone());
        loop {
            let framing = negotiated.framing();
            let Some(StreamItem::Envelope(mut envelope)) = stream.next_item() else {
                break;
            };
            envelope.header.flags = Flags(envelope.header.flags.0 & !Flags::COMPRESSED.0);
            all.push((envelope, framing));
        }
    }
    all
}

impl Session {
    /// The session with some changes, and how many.
    pub(crate) fn changed(&self, chance: &mut Chance) -> (Passage, u64) {
        match self {
            Self::Raw(passage) => changed_passage(passage, chance),
            Self::Envelopes(envelopes) => changed_envelopes(envelopes, chance),
        }
    }
}

/// One in so many parts is changed: enough of a session stays whole for it to go on.
const RATE: usize = 4;

fn changed_envelopes(envelopes: &[(Envelope, Framing)], chance: &mut Chance) -> (Passage, u64) {
    let mut changes = 0;
    let mut passage = Vec::new();
    for (envelope, framing) in envelopes {
        let mut envelope = envelope.clone();
        if chance.is_one_in(RATE) {
            changes += 1;
            let mut body = envelope.body.to_vec();
            change(&mut body, chance);
            envelope.body = body.into();
        }
        let mut bytes = BytesMut::new();
        envelope.encode(&mut bytes).unwrap();
        if chance.is_one_in(8 * RATE) {
            changes += 1;
            let at = chance.below(9);
            bytes[at] = chance.byte();
        }
        let mut framed = BytesMut::new();
        match framing {
            Framing::Envelopes => framed = bytes,
            Framing::Segments(encoding) => segment::encode_envelopes(*encoding, &bytes, &mut framed).unwrap(),
        }
        passage.push((envelope.header.direction, framed.freeze()));
    }
    (passage, changes)
}

fn changed_passage(passage: &Passage, chance: &mut Chance) -> (Passage, u64) {
    let mut changes = 0;
    let mut changed: Passage = Vec::new();
    for (direction, bytes) in passage {
        if !chance.is_one_in(RATE) {
            changed.push((*direction, bytes.clone()));
            continue;
        }
        changes += 1;
        match chance.below(6) {
            // Left out, said twice, or said by the other side.
            0 => {}
            1 => changed.extend([(*direction, bytes.clone()), (*direction, bytes.clone())]),
            2 if chance.is_one_in(4) => {
                let other = match direction {
                    Direction::Request => Direction::Response,
                    Direction::Response => Direction::Request,
                };
                changed.push((other, bytes.clone()));
            }
            _ => {
                let mut bytes = bytes.to_vec();
                change(&mut bytes, chance);
                changed.push((*direction, bytes.into()));
            }
        }
    }
    (changed, changes)
}

/// Changes some bytes.
fn change(bytes: &mut Vec<u8>, chance: &mut Chance) {
    const NUMBERS: [&[u8]; 7] = [
        &[0xff; 4],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
        &[0xff, 0xfe],
        &[0; 8],
        &[0xff; 2],
        &[0, 0x20],
    ];
    let at = chance.below(bytes.len() + 1);
    match chance.below(6) {
        0 => bytes.truncate(at),
        1 => {
            let number = NUMBERS[chance.below(NUMBERS.len())];
            let end = (at + number.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&number[..end - at]);
        }
        2 => {
            let noise: Vec<u8> = (0..chance.below(40)).map(|_| chance.byte()).collect();
            bytes.splice(at..at, noise);
        }
        3 => {
            let from = chance.below(bytes.len() + 1);
            let part = bytes[from.min(at)..from.max(at)].to_vec();
            bytes.splice(at..at, part);
        }
        _ => {
            for _ in 0..=chance.below(4) {
                if let Some(place) = bytes.len().checked_sub(1) {
                    let at = chance.below(place + 1);
                    bytes[at] ^= 1 << chance.below(8);
                }
            }
        }
    }
}
