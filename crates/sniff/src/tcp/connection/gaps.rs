//! Buffered bytes of a connection, and the missing ones that they wait for: delivered in order, or given up.

use std::{sync::Arc, time::Duration};

use cqlens_capture::Moment;
use cqlens_proto::envelope::Direction;

use super::{State, TcpConnection, opposite};
use crate::{losses::Losses, tcp::reassembler::distance};

/// How long to wait for bytes that the receiver has acknowledged, as bytes behind them show, which have the same clock: the
/// capture has them a little later, or not at all.
const ACKNOWLEDGED: Duration = Duration::from_millis(20);

/// How long to wait for bytes that are not acknowledged: the sender retransmits them.
const RETRANSMISSION: Duration = Duration::from_secs(3);

impl TcpConnection {
    /// Delivers buffered bytes that have become the next ones.
    pub(super) fn deliver_buffered(&mut self, losses: &mut Losses) {
        loop {
            let mut has_delivered = false;
            for direction in [Direction::Request, Direction::Response] {
                let (own, other) = self.halves(direction);
                let is_alone = other.is_absent;
                let popped = own
                    .reassembler
                    .pop(|acknowledgment| is_alone || other.reassembler.has_delivered(acknowledgment));
                if let Some(part) = popped {
                    if is_alone {
                        self.skip_until(opposite(direction), part.acknowledgment, part.at, losses);
                    }
                    self.deliver(direction, part.bytes, part.cut, part.at, losses);
                    has_delivered = true;
                }
            }
            if !has_delivered {
                return;
            }
        }
    }

    /// Gives up missing bytes whose patience has run out at `now`.
    pub(in crate::tcp) fn give_up(&mut self, now: Moment, losses: &mut Losses) {
        self.give_up_due(now, losses);
        self.update_in_order();
    }

    pub(super) fn give_up_due(&mut self, now: Moment, losses: &mut Losses) {
        while self.state == State::Open {
            let mut progress = false;
            for direction in [Direction::Request, Direction::Response] {
                progress |= self.give_up_in(direction, Some(now), losses);
            }
            if !progress {
                break;
            }
            self.deliver_buffered(losses);
        }
        if (self.is_ending() || self.reset.is_some()) && now.since(self.last) >= RETRANSMISSION {
            self.close(losses);
        }
    }

    /// Gives up the next missing bytes that buffered ones of `direction` wait for, if they are due. Without
    /// `now` they are.
    fn give_up_in(&mut self, direction: Direction, now: Option<Moment>, losses: &mut Losses) -> bool {
        let patience = Arc::clone(&self.patience);
        let (own, other) = self.halves(direction);
        let (Some(since), Some(first)) = (own.reassembler.since(), own.reassembler.first_buffered()) else {
            return false;
        };
        let waited = now.map_or(RETRANSMISSION, |now| now.since(since));
        let is_due = |patience| waited >= patience || own.reassembler.is_full();
        let next = own.reassembler.next().unwrap_or(first);
        if distance(next, first) > 0 {
            let is_acknowledged = other
                .reassembler
                .first_acknowledgment()
                .is_some_and(|has| distance(has, first) <= 0);
            let patience = if is_acknowledged {
                ACKNOWLEDGED
            } else {
                RETRANSMISSION
            };
            if !is_due(patience) {
                return false;
            }
            let Some((length, at)) = own.reassembler.give_up() else {
                return false;
            };
            self.skip_missing(direction, length, at, losses);
            return true;
        }
        // They wait for bytes of the other direction, which their sender has received.
        let Some(acknowledgment) = own.reassembler.first_acknowledgment() else {
            return false;
        };
        if !is_due(patience.now()) {
            return false;
        }
        if now.is_some() {
            patience.was_in_vain();
        }
        // Only up to the first buffered bytes there.
        let to = match other.reassembler.first_buffered() {
            Some(first) if distance(first, acknowledgment) > 0 => first,
            _ => acknowledgment,
        };
        other.is_absent = !other.is_seen;
        if other.lacks_only_its_end(to) {
            let end = to.wrapping_sub(1);
            other.reassembler.finish(end);
            return true;
        }
        self.skip_until(opposite(direction), Some(to), since, losses)
    }

    /// Skips missing bytes of `direction` up to sequence number `to`. False if none are missing.
    pub(super) fn skip_until(
        &mut self,
        direction: Direction,
        to: Option<u32>,
        at: Moment,
        losses: &mut Losses,
    ) -> bool {
        let (own, _) = self.halves(direction);
        let Some(length) = to.and_then(|to| own.reassembler.advance_to(to)) else {
            return false;
        };
        self.skip_missing(direction, length, at, losses);
        true
    }

    /// Skips bytes at the end of each direction that were sent and not captured.
    pub(super) fn skip_missing_ends(&mut self, losses: &mut Losses) {
        let at = self.last;
        for direction in [Direction::Request, Direction::Response] {
            let (own, _) = self.halves(direction);
            if let Some(end) = own.unseen_end()
                && !own.lacks_only_its_end(end)
            {
                self.skip_until(direction, Some(end), at, losses);
            }
        }
    }

    fn skip_missing(&mut self, direction: Direction, length: usize, at: Moment, losses: &mut Losses) {
        self.forget_beginning(losses);
        losses.lost_bytes += length as u64;
        if self.skip_in_tls(direction, length) {
            return;
        }
        let (own, _) = self.halves(direction);
        if let Some(parser) = &mut own.parser {
            parser.skip(length, at, losses);
        }
    }

    /// Delivers everything that is buffered.
    pub(super) fn flush(&mut self, losses: &mut Losses) {
        while self.state == State::Open && self.is_waiting() {
            self.deliver_buffered(losses);
            let [requests, responses] = [Direction::Request, Direction::Response]
                .map(|direction| self.give_up_in(direction, None, losses));
            if !requests && !responses {
                return;
            }
        }
    }
}
