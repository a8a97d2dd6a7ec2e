//! What comes late: bytes that were acknowledged before, of directions with clocks of their own; resets, and what follows them.

use std::ops::Range;

use cqlens_capture::Moment;
use cqlens_proto::envelope::Direction;

use super::{TcpConnection, opposite};
use crate::{
    losses::Losses,
    packets::Segment,
    tcp::{half::WINDOW, reassembler::distance},
};

impl TcpConnection {
    /// The time of bytes of `direction`, by the clock of requests.
    #[inline]
    pub(super) fn corrected(&self, at: Moment, direction: Direction) -> Moment {
        match (self.shift, direction) {
            (0, _) | (_, Direction::Request) => at,
            (shift, Direction::Response) => {
                Moment::from_unix_nanoseconds(at.unix_nanoseconds().saturating_add(shift))
            }
        }
    }

    /// Compares clocks, where bytes of `direction` come at `at` that the other one has acknowledged before.
    pub(super) fn note_clocks(
        &mut self,
        direction: Direction,
        bytes: Range<u32>,
        at: Moment,
        losses: &mut Losses,
    ) {
        let (own, other) = self.halves(direction);
        let Some((acknowledgment, acknowledged_at)) = other.reassembler.waits_for_acknowledged() else {
            return;
        };
        let next = own.reassembler.next().unwrap_or(bytes.start);
        let is_next = distance(bytes.start, next) >= 0 && distance(next, bytes.end) > 0;
        if !is_next || distance(next, acknowledgment) <= 0 {
            return;
        }
        let clocks = self.clocks.get_or_insert_default();
        clocks.note(opposite(direction), acknowledged_at, at, &self.patience);
        let before = std::mem::replace(&mut self.shift, clocks.shift());
        losses.clocks.note(before, self.shift);
    }

    /// Whether the receiver of a reset may believe it: within its window (RFC 9293 §3.10.7.4), of which the capture knows the
    /// beginning only. All others change nothing.
    pub(super) fn believes_reset(&mut self, reset: &Segment, direction: Direction) -> bool {
        let (own, _) = self.halves(direction);
        let next = own.reassembler.next().unwrap_or(reset.sequence);
        (0..WINDOW).contains(&distance(next, reset.sequence))
    }

    /// Whether a segment ends the connection: a reset at the next byte (RFC 5961 §3.2). One ahead of it waits for the bytes that
    /// were sent before, and is none if its direction goes on behind it.
    pub(super) fn is_reset_by(
        &mut self,
        is_reset: bool,
        direction: Direction,
        first: u32,
        length: u32,
    ) -> bool {
        if is_reset {
            self.reset = Some((direction, first));
        } else if let Some((of, at)) = self.reset
            && of == direction
            && distance(at, first.wrapping_add(length)) > 0
        {
            self.reset = None;
        }
        let Some((of, at)) = self.reset else {
            return false;
        };
        let (own, _) = self.halves(of);
        own.reassembler.next() == Some(at)
    }

    /// A reset that nothing has followed has ended the connection: its sender had sent all bytes before it.
    pub(super) fn end_by_reset(&mut self) {
        if let Some((of, at)) = self.reset.take() {
            let (own, _) = self.halves(of);
            own.note_sent_until(at);
        }
    }

    /// Counts what a segment adds to a closed connection: nobody reads it.
    #[cold]
    pub(super) fn count_late(&mut self, segment: &Segment, direction: Direction, losses: &mut Losses) {
        let (own, _) = self.halves(direction);
        let length = u32::try_from(segment.payload.len()).unwrap_or(0);
        let end = segment.sequence.wrapping_add(length);
        let next = own.reassembler.next().unwrap_or(segment.sequence);
        let new = distance(next, end);
        if segment.rst || segment.syn || new <= 0 {
            return;
        }
        own.reassembler.begin(segment.sequence);
        own.reassembler.advance_to(end);
        let new = u64::from(new.unsigned_abs().min(length));
        losses.seen_bytes += new;
        losses.unplaced_bytes += new;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
    use cqlens_proto::envelope::Version;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        losses::ClockDifferences,
        testing::{Conversation, Followed, follow, query, void},
    };

    const CQL: &str = "SELECT name FROM users WHERE id = 4711";

    fn exchange(talk: &mut Conversation, stream: i16) -> Vec<Segment> {
        let mut segments = talk.send(Direction::Request, &query(Version::V4, stream, CQL), 1_448);
        // What a request takes, a while later the next one comes.
        talk.at += 2_000_000;
        segments.extend(talk.send(Direction::Response, &void(Version::V4, stream), 1_448));
        talk.at += 3_000_000;
        segments
    }

    fn exchanges(talk: &mut Conversation, count: i16) -> Vec<Segment> {
        (0..count).flat_map(|stream| exchange(talk, stream)).collect()
    }

    fn whole(talk: &mut Conversation, count: i16) -> Vec<Segment> {
        [talk.open(), exchanges(talk, count), talk.close()].concat()
    }

    /// The same with responses stamped so many milliseconds later, in the order of time.
    fn with_clocks_apart(mut segments: Vec<Segment>, milliseconds: i64) -> Vec<Segment> {
        for segment in &mut segments {
            if segment.from.port() == 9_042 {
                let at = segment.at.unix_nanoseconds() + milliseconds * 1_000_000;
                segment.at = Moment::from_unix_nanoseconds(at);
            }
        }
        segments.sort_by_key(|segment| segment.at);
        segments
    }

    /// Requests and responses, which must all be there.
    fn assert_whole(told: &Followed, count: usize, what: i64) {
        assert_eq!(
            (told.requests.len(), told.responses.len()),
            (count, count),
            "{what}"
        );
        assert_eq!(told.losses.missing_bytes(), 0, "{what}");
    }

    #[test]
    fn directions_with_clocks_of_their_own_lack_nothing_and_the_difference_is_told() {
        for milliseconds in [5, 20, 50, 300, -5, -20, -50, -300, -900] {
            for from_start in [true, false] {
                let mut talk = Conversation::new((5, 6));
                let opening = talk.open();
                let opening = if from_start { opening } else { Vec::new() };
                let segments = [opening, exchanges(&mut talk, 100), talk.close()].concat();
                let captured: usize = segments.iter().map(|segment| segment.payload.len()).sum();
                let told = follow(with_clocks_apart(segments, milliseconds));
                assert_whole(&told, 100, milliseconds);
                assert_eq!(told.losses.seen_bytes, captured as u64, "{milliseconds}");
                let ClockDifferences { connections, largest } = told.losses.clocks;
                let shown = largest as i64 / 1_000_000;
                let difference = milliseconds.abs();
                assert_eq!(connections, 1, "{milliseconds}");
                // Less the shortest response, or the shortest time between a response and the next request.
                assert!(
                    (difference - 4..=difference).contains(&shown),
                    "{milliseconds}: {shown}"
                );
            }
        }
    }

    #[test]
    fn one_clock_is_not_corrected_whatever_is_out_of_order() {
        for milliseconds in [0, 1] {
            let told = follow(with_clocks_apart(
                whole(&mut Conversation::new((5, 6)), 50),
                milliseconds,
            ));
            assert_whole(&told, 50, milliseconds);
            assert_eq!(told.losses.clocks, ClockDifferences::default());
        }
    }

    /// As queues of a network card have them: what was sent first is captured after what the other side has answered, or after what
    /// was sent next.
    #[test]
    fn bytes_from_before_the_first_captured_ones_are_counted() {
        let mut talk = Conversation::new((5, 6));
        talk.open();
        let [first, second] = [exchange(&mut talk, 1), exchange(&mut talk, 2)];
        let rest = exchanges(&mut talk, 5);
        let captured = |segments: &[Segment]| {
            let bytes = segments.iter().map(|segment| segment.payload.len() as u64);
            bytes.sum::<u64>()
        };
        let all = captured(&[first.clone(), second.clone(), rest.clone()].concat());
        let later = [&first[1..], &first[..1], &second, &rest].concat();
        let told = follow(later);
        assert_eq!((told.requests.len(), told.losses.seen_bytes), (7, all));
        // Once more what is delivered.
        for again in [1, 2] {
            let firsts = vec![first.clone(); again].concat();
            let late = [&second[..], &rest[..4], &firsts, &rest[4..]].concat();
            let told = follow(late);
            assert_eq!((told.requests.len(), told.losses.seen_bytes), (6, all), "{again}");
            assert_eq!(told.losses.unplaced_bytes, captured(&first));
        }
    }

    /// It has a byte from before those that were sent.
    #[test]
    fn a_keep_alive_is_no_byte_of_the_connection() {
        let mut talk = Conversation::new((5, 6));
        talk.open();
        let mut segments = exchanges(&mut talk, 5);
        let mut keep_alive = segments[0].clone();
        keep_alive.sequence = keep_alive.sequence.wrapping_sub(1);
        keep_alive.payload = bytes::Bytes::from_static(&[0]);
        let expected = follow(segments.clone());
        segments.insert(1, keep_alive.clone());
        segments.insert(5, keep_alive);
        assert_eq!(follow(segments).losses, expected.losses);
    }

    fn reset(of: &Segment, by: u32) -> Segment {
        Segment {
            sequence: of.sequence.wrapping_add(by),
            rst: true,
            payload: bytes::Bytes::from_static(b"go away"),
            ..of.clone()
        }
    }

    /// RFC 5961: its receiver ignores it, or asks again.
    #[test]
    fn a_reset_that_its_receiver_does_not_believe_ends_nothing() {
        for direction in [0, 1] {
            for by in [0x4000_0000, 0x8000_0000, 0xc000_0000, u32::MAX, 1, 1_000] {
                let mut talk = Conversation::new((5, 6));
                let mut segments = [talk.open(), exchanges(&mut talk, 5)].concat();
                let mut last = segments[segments.len() - 2 + direction].clone();
                last.sequence = last.sequence.wrapping_add(last.payload.len() as u32);
                segments.push(reset(&last, by));
                segments.extend(exchanges(&mut talk, 5));
                segments.extend(talk.close());
                assert_whole(&follow(segments), 10, i64::from(by));
            }
        }
    }

    /// Bytes before it come later in the capture, or not at all.
    #[test]
    fn a_reset_ahead_of_what_was_captured_waits_for_the_bytes_before_it() {
        let mut talk = Conversation::new((5, 6));
        let mut segments = [talk.open(), exchanges(&mut talk, 3)].concat();
        let [request, response] = exchange(&mut talk, 3).try_into().unwrap();
        let mut end = request.clone();
        end.sequence = end.sequence.wrapping_add(end.payload.len() as u32);
        let reset = reset(&end, 0);
        let lost = request.payload.len() as u64;
        let late = [segments.clone(), vec![reset.clone(), request, response]].concat();
        assert_eq!(follow(late).requests.len(), 4);
        segments.push(reset);
        let told = follow(segments);
        assert_eq!((told.requests.len(), told.losses.lost_bytes), (3, lost));
    }

    #[test]
    fn what_comes_after_the_end_of_a_connection_is_counted() {
        let mut talk = Conversation::new((5, 6));
        let mut segments = [talk.open(), exchanges(&mut talk, 3)].concat();
        let mut last = segments[segments.len() - 2].clone();
        last.sequence = last.sequence.wrapping_add(last.payload.len() as u32);
        segments.push(reset(&last, 0));
        let after = exchange(&mut talk, 3);
        let bytes: usize = after.iter().map(|segment| segment.payload.len()).sum();
        segments.extend(after.iter().chain(&after).cloned());
        let told = follow(segments);
        assert_eq!(
            (told.requests.len(), told.losses.unplaced_bytes),
            (3, bytes as u64)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever resets there are: as seen, or as lost where they come after a reset that has ended the connection by its own clock.
        #[test]
        fn every_byte_is_counted(
            resets in proptest::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(0), 0..200_u32, any::<u32>()]), 0..4),
            milliseconds in -100..100_i64,
            cut_off in prop_oneof![Just(0), 3..10_usize],
        ) {
            let mut segments = with_clocks_apart(whole(&mut Conversation::new((5, 6)), 12), milliseconds);
            segments.drain(..cut_off);
            let captured: usize = segments.iter().map(|segment| segment.payload.len()).sum();
            for (index, by) in resets {
                let place = index.index(segments.len() - 3) + 3;
                let reset = reset(&segments[place], by);
                segments.insert(place, reset);
            }
            let told = follow(segments);
            prop_assert!(told.losses.seen_bytes + told.losses.lost_bytes >= captured as u64);
        }
    }
}
