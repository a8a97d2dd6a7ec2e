//! One direction of a TCP connection: its sequence numbers, its reassembler and its parser.

use super::{
    super::direction::DirectionParser,
    reassembler::{Reassembler, distance},
};

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct HalfConnection {
    pub(super) reassembler: Reassembler,
    pub(super) parser: Option<DirectionParser>,
    /// Sequence number of the SYN, if the capture has it.
    pub(super) syn: Option<u32>,
    /// Sequence number after the last byte that was sent, as shown by an acknowledgment or by a later segment
    /// without payload.
    pub(super) sent_until: Option<u32>,
    /// The latest acknowledgment of this direction that was outside of the window.
    pub(super) out_of_window: Option<u32>,
    /// Whether the capture has any segment of it.
    pub(super) is_seen: bool,
    /// Whether it was waited for in vain: the capture has only the other direction.
    pub(super) is_absent: bool,
}

/// Where an acknowledgment number lies.
pub(super) enum Acknowledged {
    /// Within the window of the next expected byte.
    InWindow,
    /// Outside, and in line with the acknowledgment before it: the direction is not captured and has moved on
    /// by more than can be counted.
    Advanced,
    /// Outside: of another connection, or damaged.
    OutOfWindow,
}

/// How far sequence numbers may be ahead of the next expected byte. Windows are smaller in practice (TCP
/// allows 1 GiB, operating systems some MiB): numbers further away belong to another connection between the
/// same ports, or are damaged.
pub(super) const WINDOW: i32 = 64 << 20;

impl HalfConnection {
    /// Notes that all bytes before `number` were sent. True if the next captured byte is so far behind that
    /// the bytes in between will not come.
    pub(super) fn note_sent_until(&mut self, number: u32) -> bool {
        let Some(next) = self.reassembler.next() else {
            return false;
        };
        let ahead = distance(next, number);
        let is_news = self
            .sent_until
            .is_none_or(|sent_until| distance(sent_until, number) > 0);
        if is_news && (1..WINDOW).contains(&ahead) {
            self.sent_until = Some(number);
        }
        ahead > WINDOW / 2 && ahead < WINDOW && self.reassembler.first_buffered().is_none()
    }

    /// Classifies an acknowledgment of this direction.
    pub(super) fn locate(&mut self, number: u32) -> Acknowledged {
        let is_near = |next| distance(next, number).unsigned_abs() < WINDOW.unsigned_abs();
        if self.reassembler.next().is_none_or(is_near) {
            self.out_of_window = None;
            return Acknowledged::InWindow;
        }
        let before = self.out_of_window.replace(number);
        let agree = before.is_some_and(|before| (1..WINDOW).contains(&distance(before, number)));
        if agree && !self.is_seen {
            Acknowledged::Advanced
        } else {
            Acknowledged::OutOfWindow
        }
    }

    /// Whether segments can pass unbuffered: some were captured, none is buffered, no FIN, no acknowledgment
    /// out of window.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_seen && self.reassembler.is_quiet() && self.out_of_window.is_none() && !self.is_absent
    }

    /// The sequence number after the last byte that was sent, if bytes before it are missing.
    pub(super) fn unseen_end(&self) -> Option<u32> {
        let (next, sent_until) = (self.reassembler.next()?, self.sent_until?);
        // The FIN takes a sequence number.
        let sent_until = match self.reassembler.end() {
            Some(end) if distance(end, sent_until) > 0 => end,
            _ => sent_until,
        };
        (distance(next, sent_until) > 0).then_some(sent_until)
    }

    /// Whether only the sequence number of the FIN is missing before `to`: no envelope ends with a packet of
    /// one byte.
    pub(super) fn lacks_only_its_end(&self, to: u32) -> bool {
        let is_one = self
            .reassembler
            .next()
            .is_some_and(|next| distance(next, to) == 1);
        let is_inside = self
            .parser
            .as_ref()
            .is_some_and(DirectionParser::is_in_the_middle);
        is_one
            && !is_inside
            && self.reassembler.end().is_none()
            && self.reassembler.first_buffered().is_none()
    }
}
