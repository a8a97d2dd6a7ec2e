//! One direction of a connection, and what the numbers of both directions say of it.

use super::{
    super::direction::DirectionParser,
    reassembler::{Reassembler, distance},
};

#[derive(Debug)]
pub(super) struct HalfConnection {
    pub(super) reassembler: Reassembler,
    pub(super) parser: Option<DirectionParser>,
    /// Number of its SYN, if that is in the capture.
    pub(super) syn: Option<u32>,
    /// The number after the last byte that it is known to have sent, by whatever shows it: an acknowledgment, or the number of a later
    /// segment without bytes.
    pub(super) sent_until: Option<u32>,
    /// The latest number that somebody has waited for and that is not near what is known of it.
    pub(super) out_of_window: Option<u32>,
    /// Whether anything was captured of it.
    pub(super) is_seen: bool,
    /// Nothing was captured of it, and it has been waited for: the capture has the other direction alone.
    pub(super) is_absent: bool,
}

/// Where a number is that somebody waits for.
pub(super) enum Acknowledged {
    /// Within a window of what is known of the direction.
    InWindow,
    /// Far away, as the one before it was: nothing of the direction is captured, and it has moved on by more than anybody can count.
    Advanced,
    /// Far away: another connection's, or damage.
    OutOfWindow,
}

/// Bytes that a direction may be ahead of what has been told of it. No window is larger in practice (TCP's limit is 1 GiB, systems' own
/// ones are some MiB): numbers that are further away are those of another connection between the same ports, or damage.
pub(super) const WINDOW: i32 = 64 << 20;

impl HalfConnection {
    /// Notes that all bytes before `number` were sent; whether that is so far ahead of what was captured that the rest will not come.
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

    /// What `number`, which the other side waits for, says of this direction.
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

    /// Whether it was heard, nothing waits, nothing has ended, and nobody has waited for what was not captured.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_seen && self.reassembler.is_quiet() && self.out_of_window.is_none() && !self.is_absent
    }

    /// The number after the last byte that was sent, if that is not the next one to be told.
    pub(super) fn unseen_end(&self) -> Option<u32> {
        let (next, sent_until) = (self.reassembler.next()?, self.sent_until?);
        // The end takes a number of its own.
        let sent_until = match self.reassembler.end() {
            Some(end) if distance(end, sent_until) > 0 => end,
            _ => sent_until,
        };
        (distance(next, sent_until) > 0).then_some(sent_until)
    }

    /// Whether all that is missing before `to` is the number of the end: no envelope ends with a packet of one byte.
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
