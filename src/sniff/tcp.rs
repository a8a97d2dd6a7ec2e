//! One direction of a TCP connection: segments in any order, as often as they like, become bytes in order.
//!
//! Sequence numbers wrap around; they are compared by their distance. What the capture lacks is told as a hole of so many bytes,
//! once it is certain that it will not come: the receiver has acknowledged it, or too much waits behind it. Of bytes that come twice
//! the first ones count.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use cqlens_audit::capture::Moment;

/// One direction's bytes, put in order.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The number of the next byte; none before the first segment.
    next: Option<u32>,
    /// What cannot be told yet, by sequence numbers.
    waiting: VecDeque<Waiting>,
    /// Bytes of it.
    waiting_bytes: usize,
    /// Since when something waits.
    since: Option<Moment>,
    /// The number after the last byte, once the sender has said it.
    end: Option<u32>,
}

/// A segment's bytes.
#[derive(Debug)]
struct Waiting {
    sequence: u32,
    bytes: Bytes,
    cut: usize,
    at: Moment,
    /// What its sender had of the other direction: that comes first.
    acknowledgment: Option<u32>,
}

impl Waiting {
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

/// A segment's bytes and where they belong.
#[derive(Debug)]
pub(super) struct Part {
    /// The number of the first byte.
    pub(super) sequence: u32,
    /// The bytes that are there.
    pub(super) bytes: Bytes,
    /// Bytes after those that are not.
    pub(super) cut: usize,
    /// When they were captured.
    pub(super) at: Moment,
    /// The number of the byte that the sender waited for.
    pub(super) acknowledgment: Option<u32>,
}

/// What may wait in one direction.
pub(super) const MAX_WAITING_BYTES: usize = 1 << 20;

/// In segments: each costs memory beside its bytes.
const MAX_WAITING: usize = 2_048;

/// Numbers that are further away than any window are another connection's, or damage.
const FAR: i32 = 1 << 30;

impl Order {
    /// Begins at `next`, if it has not begun yet.
    pub(super) fn begin(&mut self, next: u32) {
        self.next.get_or_insert(next);
    }

    /// The number of the next byte to come out.
    pub(super) fn next(&self) -> Option<u32> {
        self.next
    }

    /// Since when something waits.
    pub(super) fn since(&self) -> Option<Moment> {
        self.since
    }

    /// Bytes that wait.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether so much waits that the hole before it must be given up.
    pub(super) fn is_full(&self) -> bool {
        self.waiting_bytes > MAX_WAITING_BYTES || self.waiting.len() > MAX_WAITING
    }

    /// Notes that the number after the last byte is `end`.
    pub(super) fn finish(&mut self, end: u32) {
        self.end = Some(end);
    }

    /// The number after the last byte, once the sender has said it.
    pub(super) fn end(&self) -> Option<u32> {
        self.end
    }

    /// Whether everything has come out.
    pub(super) fn is_finished(&self) -> bool {
        self.end.is_some() && self.end == self.next
    }

    /// Whether nothing waits, and `acknowledgment` is not ahead of what has come out.
    pub(super) fn has_told(&self, acknowledgment: Option<u32>) -> bool {
        match (self.next, acknowledgment) {
            (Some(next), Some(acknowledgment)) => {
                let ahead = distance(next, acknowledgment);
                // The end takes a number of its own.
                ahead <= 0 || ahead > FAR || (ahead == 1 && self.end == Some(next))
            }
            _ => true,
        }
    }

    /// Whether nothing waits, and the sender has not said where its last byte is.
    pub(super) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.end.is_none()
    }

    /// Moves on over `length` bytes that come out as they came in: the next ones, while nothing waits.
    pub(super) fn pass(&mut self, length: usize) {
        self.next = self.next.map(|next| next.wrapping_add(low(length)));
    }

    /// The bytes of `part`, if they are the next ones; else they wait, as far as they are new.
    pub(super) fn take(&mut self, part: Part, may_pass: bool) -> Option<Part> {
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

    fn wait(&mut self, part: Part) {
        self.since.get_or_insert(part.at);
        let place = self
            .waiting
            .iter()
            .rposition(|other| distance(other.sequence, part.sequence) >= 0)
            .map_or(0, |before| before + 1);
        self.waiting_bytes += part.bytes.len();
        let waiting = Waiting {
            sequence: part.sequence,
            // What waits does not keep the memory around it.
            bytes: Bytes::copy_from_slice(&part.bytes),
            cut: part.cut,
            at: part.at,
            acknowledgment: part.acknowledgment,
        };
        self.waiting.insert(place, waiting);
    }

    /// The next bytes that waited, if they can come out now: `may_pass` says it of what their sender had acknowledged.
    pub(super) fn pop(&mut self, may_pass: impl Fn(Option<u32>) -> bool) -> Option<Part> {
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
            self.waiting_bytes -= first.bytes.len();
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
            return Some(Part {
                sequence: next,
                bytes: first.bytes,
                cut: first.cut,
                at: first.at,
                acknowledgment: first.acknowledgment,
            });
        }
    }

    /// Gives up the bytes before the first that wait; how many, and when those that wait were captured.
    pub(super) fn give_up(&mut self) -> Option<(usize, Moment)> {
        let first = self.waiting.front()?;
        let (sequence, at) = (first.sequence, first.at);
        self.advance_to(sequence).map(|length| (length, at))
    }

    /// Gives up everything before the byte with that number; how many bytes.
    pub(super) fn advance_to(&mut self, sequence: u32) -> Option<usize> {
        let ahead = distance(self.next?, sequence);
        if ahead <= 0 {
            return None;
        }
        self.next = Some(sequence);
        usize::try_from(ahead).ok()
    }

    /// The number of the first byte that waits.
    pub(super) fn first_waiting(&self) -> Option<u32> {
        self.waiting.front().map(|first| first.sequence)
    }

    /// What the sender of the first bytes that wait had acknowledged.
    pub(super) fn first_acknowledgment(&self) -> Option<u32> {
        self.waiting.front()?.acknowledgment
    }
}

/// How far `to` is after `from`.
pub(super) fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}

/// Lengths of segments are far below 2^32.
fn low(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn part(sequence: u32, bytes: &[u8]) -> Part {
        Part {
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
        fn add(&mut self, part: &Part) {
            self.0.extend(part.bytes.iter().copied().map(Some));
            self.0.extend(std::iter::repeat_n(None, part.cut));
        }

        fn take(&mut self, order: &mut Order, segment: Part) {
            if let Some(part) = order.take(segment, true) {
                self.add(&part);
            }
            self.pop(order);
        }

        fn pop(&mut self, order: &mut Order) {
            while let Some(part) = order.pop(|_| true) {
                self.add(&part);
            }
        }

        fn end(mut self, order: &mut Order) -> Vec<Option<u8>> {
            while let Some((missing, _)) = order.give_up() {
                self.0.extend(std::iter::repeat_n(None, missing));
                self.pop(order);
            }
            self.0
        }
    }

    #[test]
    fn what_comes_twice_in_other_pieces_comes_out_once() {
        let mut order = Order::default();
        order.begin(u32::MAX - 2);
        let mut out = Out::default();
        for (sequence, bytes) in [
            (u32::MAX - 2, &b"abc"[..]),
            (1, b"ef"),
            (u32::MAX, b"cdef"),
            (0, b"defg"),
        ] {
            out.take(&mut order, part(sequence, bytes));
        }
        let whole: Vec<_> = b"abcdefg".iter().copied().map(Some).collect();
        assert_eq!(out.end(&mut order), whole);
        assert_eq!((order.waiting_bytes(), order.since()), (0, None));
    }

    #[test]
    fn what_a_snap_length_has_cut_off_is_missing_where_it_was() {
        let mut order = Order::default();
        let mut out = Out::default();
        out.take(
            &mut order,
            Part {
                cut: 2,
                ..part(7, b"ab")
            },
        );
        out.take(&mut order, part(9, b"cdef"));
        let expected = [Some(b'a'), Some(b'b'), None, None, Some(b'e'), Some(b'f')];
        assert_eq!(out.end(&mut order), expected);
    }

    #[test]
    fn too_much_that_waits_is_noticed() {
        let mut order = Order::default();
        order.begin(0);
        for number in 0..=MAX_WAITING as u32 {
            assert!(!order.is_full());
            order.take(part(10 + number, b"x"), true);
        }
        assert!(order.is_full());
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
            let mut order = Order::default();
            order.begin(start);
            let mut out = Out::default();
            let mut expected = vec![None; content.len()];
            for (from, to) in &segments {
                out.take(&mut order, part(start.wrapping_add(*from as u32), &content[*from..*to]));
                for at in *from..*to {
                    expected[at] = Some(content[at]);
                }
            }
            // Nothing tells of what would have followed the last bytes that came.
            let last = expected.iter().rposition(Option::is_some).unwrap();
            expected.truncate(last + 1);
            prop_assert_eq!(out.end(&mut order), expected);
            prop_assert_eq!(order.waiting_bytes(), 0);
        }
    }
}
