//! Puts one direction of a TCP connection in order: segments out of order, retransmitted and overlapping
//! become a byte stream.
//!
//! Sequence numbers wrap around and are compared by distance. Missing bytes become a gap once it is certain
//! that they will not come: the receiver has acknowledged them, or too much is buffered behind them. Of bytes
//! that come twice the first count.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use cqlens_capture::Moment;

/// Reassembles one direction.
#[derive(Debug, Default)]
pub(super) struct Reassembler {
    /// Sequence number of the next byte; `None` before the first segment.
    next: Option<u32>,
    /// Sequence number of the first byte that was expected.
    begun: Option<u32>,
    /// Sequence number after the latest byte from before that one.
    seen_before_begun: Option<u32>,
    /// Segments that cannot be delivered yet, by sequence number.
    waiting: VecDeque<Buffered>,
    /// Their bytes.
    buffered_bytes: usize,
    /// Since when anything is buffered.
    since: Option<Moment>,
    /// Sequence number after the last byte, once the FIN is known.
    end: Option<u32>,
}

/// A buffered segment.
#[derive(Debug)]
struct Buffered {
    sequence: u32,
    bytes: Bytes,
    cut: usize,
    at: Moment,
    /// The acknowledgment number: the other direction is delivered up to it first.
    acknowledgment: Option<u32>,
}

impl Buffered {
    fn length(&self) -> usize {
        self.bytes.len() + self.cut
    }

    fn trim_front(&mut self, length: usize) {
        let of_bytes = length.min(self.bytes.len());
        self.bytes.advance(of_bytes);
        self.cut -= (length - of_bytes).min(self.cut);
        self.sequence = self.sequence.wrapping_add(low(length));
    }
}

/// The payload of a segment.
#[derive(Debug)]
pub(super) struct Payload {
    /// Sequence number of the first byte.
    pub(super) sequence: u32,
    /// The captured bytes.
    pub(super) bytes: Bytes,
    /// Bytes behind them that the snap length cut off.
    pub(super) cut: usize,
    /// When they were captured.
    pub(super) at: Moment,
    /// The acknowledgment number.
    pub(super) acknowledgment: Option<u32>,
}

/// Bytes that one direction may buffer.
pub(super) const MAX_BUFFERED_BYTES: usize = 1 << 20;

/// Segments that one direction may buffer: each costs memory beside its bytes.
const MAX_BUFFERED: usize = 2_048;

/// Sequence numbers further away than any window belong to another connection, or are damaged.
const FAR: i32 = 1 << 30;

impl Reassembler {
    /// Sets the first sequence number, if there is none yet.
    pub(super) fn begin(&mut self, next: u32) {
        let next = *self.next.get_or_insert(next);
        self.begun.get_or_insert(next);
    }

    /// Takes note of a segment where the first byte of the connection is not known: it may be from before the first byte that
    /// was expected, which an acknowledgment has told, or a segment that came earlier. It goes back there as long as nothing
    /// was delivered or given up since; else, how many bytes there are that come too late for that.
    pub(super) fn go_back(&mut self, first: u32, length: usize) -> usize {
        // A byte before the next one asks whether the other side is alive (RFC 9293 §3.8.4).
        const KEEP_ALIVE: usize = 1;
        let Some(begun) = self.begun.filter(|begun| distance(first, *begun) > 0) else {
            return 0;
        };
        let away = distance(first, begun).unsigned_abs() as usize;
        if length <= KEEP_ALIVE || away > FAR as usize {
            return 0;
        }
        if self.next == self.begun && away <= MAX_BUFFERED_BYTES {
            (self.next, self.begun) = (Some(first), Some(first));
            return 0;
        }
        let end = first.wrapping_add(low(length.min(away)));
        let known = self
            .seen_before_begun
            .map_or(0, |known| distance(first, known).max(0));
        let new = (distance(first, end) - known).max(0);
        if new > 0 {
            self.seen_before_begun = Some(end);
        }
        new.unsigned_abs() as usize
    }

    /// One that goes on at a sequence number.
    pub(super) fn at(next: Option<u32>) -> Self {
        Self {
            next,
            begun: next,
            ..Self::default()
        }
    }

    /// Sequence number of the next byte.
    pub(super) fn next(&self) -> Option<u32> {
        self.next
    }

    /// Since when anything is buffered.
    pub(super) fn since(&self) -> Option<Moment> {
        self.since
    }

    /// Buffered bytes.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Whether so much is buffered that the gap before it must be given up.
    pub(super) fn is_full(&self) -> bool {
        self.buffered_bytes > MAX_BUFFERED_BYTES || self.waiting.len() > MAX_BUFFERED
    }

    /// Notes the sequence number of the FIN.
    pub(super) fn finish(&mut self, end: u32) {
        self.end = Some(end);
    }

    /// Sequence number after the last byte, once the FIN is known.
    pub(super) fn end(&self) -> Option<u32> {
        self.end
    }

    /// Whether everything up to the FIN has been delivered.
    pub(super) fn is_finished(&self) -> bool {
        self.end.is_some() && self.end == self.next
    }

    /// Whether everything before `acknowledgment` has been delivered.
    pub(super) fn has_delivered(&self, acknowledgment: Option<u32>) -> bool {
        match (self.next, acknowledgment) {
            (Some(next), Some(acknowledgment)) => {
                let ahead = distance(next, acknowledgment);
                // The FIN takes a sequence number.
                ahead <= 0 || ahead > FAR || (ahead == 1 && self.end == Some(next))
            }
            _ => true,
        }
    }

    /// Whether nothing is buffered and no FIN is known.
    pub(super) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.end.is_none()
    }

    /// Advances over `length` bytes that are delivered without being buffered.
    pub(super) fn pass(&mut self, length: usize) {
        self.next = self.next.map(|next| next.wrapping_add(low(length)));
    }

    /// Returns the new bytes of `part` if they are the next ones, and buffers them otherwise.
    pub(super) fn take(&mut self, part: Payload, may_pass: bool) -> Option<Payload> {
        let mut part = part;
        self.begin(part.sequence);
        let next = self.next.unwrap_or(part.sequence);
        let ahead = distance(next, part.sequence);
        let length = part.bytes.len() + part.cut;
        if length == 0 {
            return None;
        }
        if ahead <= 0 {
            let old = ahead.unsigned_abs() as usize;
            if old >= length {
                return None;
            }
            let of_bytes = old.min(part.bytes.len());
            part.bytes.advance(of_bytes);
            part.cut -= old - of_bytes;
            part.sequence = next;
            if self.waiting.is_empty() && may_pass {
                self.next = Some(next.wrapping_add(low(length - old)));
                return Some(part);
            }
        }
        if ahead < FAR {
            self.wait(part);
        }
        None
    }

    fn wait(&mut self, part: Payload) {
        self.since.get_or_insert(part.at);
        let place = self
            .waiting
            .iter()
            .rposition(|other| distance(other.sequence, part.sequence) >= 0)
            .map_or(0, |before| before + 1);
        self.buffered_bytes += part.bytes.len();
        let waiting = Buffered {
            sequence: part.sequence,
            // Copied, so that buffered bytes do not keep the whole chunk of the file in memory.
            bytes: Bytes::copy_from_slice(&part.bytes),
            cut: part.cut,
            at: part.at,
            acknowledgment: part.acknowledgment,
        };
        self.waiting.insert(place, waiting);
    }

    /// The next buffered bytes, if they are in order and `may_pass` holds for their acknowledgment.
    pub(super) fn pop(&mut self, may_pass: impl Fn(Option<u32>) -> bool) -> Option<Payload> {
        let next = self.next?;
        loop {
            let first = self.waiting.front_mut()?;
            let ahead = distance(next, first.sequence);
            if ahead > 0 {
                return None;
            }
            let old = ahead.unsigned_abs() as usize;
            if old < first.length() && !may_pass(first.acknowledgment) {
                return None;
            }
            let mut first = self.waiting.pop_front()?;
            self.buffered_bytes -= first.bytes.len();
            if self.waiting.is_empty() {
                self.since = None;
            }
            if old >= first.length() {
                continue;
            }
            first.trim_front(old);
            self.next = Some(next.wrapping_add(low(first.length())));
            if !self.waiting.is_empty() {
                self.since = Some(first.at);
            }
            return Some(Payload {
                sequence: next,
                bytes: first.bytes,
                cut: first.cut,
                at: first.at,
                acknowledgment: first.acknowledgment,
            });
        }
    }

    /// Gives up the gap before the first buffered bytes; its length, and the time of those bytes.
    pub(super) fn give_up(&mut self) -> Option<(usize, Moment)> {
        let first = self.waiting.front()?;
        let (sequence, at) = (first.sequence, first.at);
        self.advance_to(sequence).map(|length| (length, at))
    }

    /// Gives up everything before `sequence`; returns the number of missing bytes.
    pub(super) fn advance_to(&mut self, sequence: u32) -> Option<usize> {
        let ahead = distance(self.next?, sequence);
        if ahead <= 0 {
            return None;
        }
        self.next = Some(sequence);
        usize::try_from(ahead).ok()
    }

    /// Sequence number of the first buffered byte.
    pub(super) fn first_buffered(&self) -> Option<u32> {
        self.waiting.front().map(|first| first.sequence)
    }

    /// The acknowledgment number and the time of the first buffered segment, if it waits for nothing else than what it
    /// acknowledges.
    pub(super) fn waits_for_acknowledged(&self) -> Option<(u32, Moment)> {
        let first = self.waiting.front()?;
        let is_next = distance(self.next?, first.sequence) <= 0;
        first.acknowledgment.filter(|_| is_next).zip(Some(first.at))
    }

    /// Acknowledgment number of the first buffered segment.
    pub(super) fn first_acknowledgment(&self) -> Option<u32> {
        self.waiting.front()?.acknowledgment
    }
}

/// How far `to` is after `from`.
pub(super) fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}

/// A length as a distance of sequence numbers: lengths of segments are far below 2^32.
fn low(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn part(sequence: u32, bytes: &[u8]) -> Payload {
        Payload {
            sequence,
            bytes: Bytes::copy_from_slice(bytes),
            cut: 0,
            at: Moment::from_unix_nanoseconds(0),
            acknowledgment: None,
        }
    }

    /// What came out: bytes, and none for each that is missing.
    #[derive(Debug, Default, PartialEq)]
    struct Out(Vec<Option<u8>>);

    impl Out {
        fn add(&mut self, part: &Payload) {
            self.0.extend(part.bytes.iter().copied().map(Some));
            self.0.extend(std::iter::repeat_n(None, part.cut));
        }

        fn take(&mut self, reassembler: &mut Reassembler, segment: Payload) {
            if let Some(part) = reassembler.take(segment, true) {
                self.add(&part);
            }
            self.pop(reassembler);
        }

        fn pop(&mut self, reassembler: &mut Reassembler) {
            while let Some(part) = reassembler.pop(|_| true) {
                self.add(&part);
            }
        }

        fn end(mut self, reassembler: &mut Reassembler) -> Vec<Option<u8>> {
            while let Some((missing, _)) = reassembler.give_up() {
                self.0.extend(std::iter::repeat_n(None, missing));
                self.pop(reassembler);
            }
            self.0
        }
    }

    #[test]
    fn what_comes_twice_in_other_pieces_comes_out_once() {
        let mut reassembler = Reassembler::default();
        reassembler.begin(u32::MAX - 2);
        let mut out = Out::default();
        for (sequence, bytes) in [
            (u32::MAX - 2, &b"abc"[..]),
            (1, b"ef"),
            (u32::MAX, b"cdef"),
            (0, b"defg"),
        ] {
            out.take(&mut reassembler, part(sequence, bytes));
        }
        let whole: Vec<_> = b"abcdefg".iter().copied().map(Some).collect();
        assert_eq!(out.end(&mut reassembler), whole);
        assert_eq!((reassembler.buffered_bytes(), reassembler.since()), (0, None));
    }

    #[test]
    fn what_a_snap_length_has_cut_off_is_missing_where_it_was() {
        let mut reassembler = Reassembler::default();
        let mut out = Out::default();
        out.take(
            &mut reassembler,
            Payload {
                cut: 2,
                ..part(7, b"ab")
            },
        );
        out.take(&mut reassembler, part(9, b"cdef"));
        let expected = [Some(b'a'), Some(b'b'), None, None, Some(b'e'), Some(b'f')];
        assert_eq!(out.end(&mut reassembler), expected);
    }

    #[test]
    fn too_much_that_waits_is_noticed() {
        let mut reassembler = Reassembler::default();
        reassembler.begin(0);
        for number in 0..=MAX_BUFFERED as u32 {
            assert!(!reassembler.is_full());
            reassembler.take(part(10 + number, b"x"), true);
        }
        assert!(reassembler.is_full());
    }

    proptest! {
        #[test]
        fn any_order_duplicates_and_overlaps_give_the_same_bytes_and_what_never_came_is_missing(
            start in prop_oneof![Just(0_u32), Just(u32::MAX - 50), any::<u32>()],
            content in vec(any::<u8>(), 1..400),
            segments in vec((any::<prop::sample::Index>(), 1_usize..60), 1..60),
            whole in any::<bool>(),
        ) {
            let mut segments: Vec<_> = segments
                .iter()
                .map(|(from, length)| {
                    let from = from.index(content.len());
                    (from, content.len().min(from + length))
                })
                .collect();
            if whole {
                segments.extend((0..content.len()).step_by(7).map(|from| (from, content.len().min(from + 7))));
            }
            let mut reassembler = Reassembler::default();
            reassembler.begin(start);
            let mut out = Out::default();
            let mut expected = vec![None; content.len()];
            for (from, to) in &segments {
                out.take(&mut reassembler, part(start.wrapping_add(*from as u32), &content[*from..*to]));
                for at in *from..*to {
                    expected[at] = Some(content[at]);
                }
            }
            // Bytes behind the last captured ones leave no trace.
            let last = expected.iter().rposition(Option::is_some).unwrap();
            expected.truncate(last + 1);
            prop_assert_eq!(out.end(&mut reassembler), expected);
            prop_assert_eq!(reassembler.buffered_bytes(), 0);
        }
    }
}
