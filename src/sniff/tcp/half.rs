//! One direction of a connection, and what the numbers of both directions say of it.

use super::{
    super::direction::Side,
    reassembler::{Order, distance},
};

#[derive(Debug)]
pub(super) struct Half {
    pub(super) order: Order,
    pub(super) side: Option<Side>,
    /// Number of its SYN, if that is in the capture.
    pub(super) syn: Option<u32>,
    /// The number after the last byte that it is known to have sent, by whatever shows it: an acknowledgment, or the number of a later
    /// segment without bytes.
    pub(super) reached: Option<u32>,
    /// The latest number that somebody has waited for and that is not near what is known of it.
    pub(super) strange: Option<u32>,
    /// Whether anything was captured of it.
    pub(super) is_seen: bool,
    /// Nothing was captured of it, and it has been waited for: the capture has the other direction alone.
    pub(super) is_absent: bool,
}

/// Where a number is that somebody waits for.
pub(super) enum Place {
    /// Within a window of what is known of the direction.
    Near,
    /// Far away, as the one before it was: nothing of the direction is captured, and it has moved on by more than anybody can count.
    MovedOn,
    /// Far away: another connection's, or damage.
    Strange,
}

/// Bytes that a direction may be ahead of what has been told of it. No window is larger in practice (TCP's limit is 1 GiB, systems' own
/// ones are some MiB): numbers that are further away are those of another connection between the same ports, or damage.
pub(super) const WINDOW: i32 = 64 << 20;

impl Half {
    /// Notes that all bytes before `number` were sent; whether that is so far ahead of what was captured that the rest will not come.
    pub(super) fn reach(&mut self, number: u32) -> bool {
        let Some(next) = self.order.next() else {
            return false;
        };
        let ahead = distance(next, number);
        let is_news = self.reached.is_none_or(|reached| distance(reached, number) > 0);
        if is_news && (1..WINDOW).contains(&ahead) {
            self.reached = Some(number);
        }
        ahead > WINDOW / 2 && ahead < WINDOW && self.order.first_waiting().is_none()
    }

    /// What `number`, which the other side waits for, says of this direction.
    pub(super) fn place(&mut self, number: u32) -> Place {
        let is_near = |next| distance(next, number).unsigned_abs() < WINDOW.unsigned_abs();
        if self.order.next().is_none_or(is_near) {
            self.strange = None;
            return Place::Near;
        }
        let before = self.strange.replace(number);
        let agree = before.is_some_and(|before| (1..WINDOW).contains(&distance(before, number)));
        if agree && !self.is_seen {
            Place::MovedOn
        } else {
            Place::Strange
        }
    }

    /// Whether it was heard, nothing waits, nothing has ended, and nobody has waited for what was not captured.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_seen && self.order.is_quiet() && self.strange.is_none() && !self.is_absent
    }

    /// The number after the last byte that was sent, if that is not the next one to be told.
    pub(super) fn unseen_end(&self) -> Option<u32> {
        let (next, reached) = (self.order.next()?, self.reached?);
        // The end takes a number of its own.
        let reached = match self.order.end() {
            Some(end) if distance(end, reached) > 0 => end,
            _ => reached,
        };
        (distance(next, reached) > 0).then_some(reached)
    }

    /// Whether all that is missing before `to` is the number of the end: no envelope ends with a packet of one byte.
    pub(super) fn lacks_only_its_end(&self, to: u32) -> bool {
        let is_one = self.order.next().is_some_and(|next| distance(next, to) == 1);
        let is_inside = self.side.as_ref().is_some_and(Side::is_in_the_middle);
        is_one && !is_inside && self.order.end().is_none() && self.order.first_waiting().is_none()
    }
}
