//! A connection at its beginning: what it says is held until it is clear that it is not the other side of a relay.

use bytes::Bytes;
use cqlens_capture::Moment;
use cqlens_proto::envelope::Direction;

use super::{Beginning, Reassembler, State, TcpConnection};
use crate::losses::Losses;

impl TcpConnection {
    /// Notes of one that says nothing yet whether it may turn out to be the other side of a relay.
    pub(in crate::tcp) fn note_relays(&mut self, may_be_inner: impl FnOnce() -> bool) {
        if self.is_silent {
            self.may_be_inner = may_be_inner();
        }
    }

    /// Whether it is at its beginning.
    pub(in crate::tcp) fn is_beginning(&self) -> bool {
        self.beginning.is_some()
    }

    /// Gives the next bytes back, unless they are held. Bytes that are not whole are compared with nothing.
    pub(super) fn hold(
        &mut self,
        direction: Direction,
        bytes: Bytes,
        cut: usize,
        at: Moment,
        losses: &mut Losses,
    ) -> Option<Bytes> {
        if self.is_silent && direction == Direction::Request {
            self.is_silent = false;
            self.beginning = Some(Box::new(Beginning::new(self.may_be_inner)));
        }
        if cut > 0 {
            self.forget_beginning(losses);
        }
        match &mut self.beginning {
            Some(beginning) => beginning.take(direction, bytes, at),
            None => Some(bytes),
        }
    }

    /// Hands on what was held: it is a connection of its own.
    pub(in crate::tcp) fn release(&mut self, losses: &mut Losses) {
        let held = self.beginning.as_mut().map(|beginning| beginning.release());
        for delivery in held.into_iter().flatten() {
            if self.state == State::Open {
                self.hand_on(delivery.direction, delivery.bytes, 0, delivery.at, losses);
            }
        }
        self.update_in_order();
    }

    /// Goes on without comparing it with others.
    pub(in crate::tcp) fn forget_beginning(&mut self, losses: &mut Losses) {
        self.release(losses);
        self.beginning = None;
        self.is_silent = false;
        self.update_in_order();
    }

    /// Notes that all that it says is counted on the other side of a relay.
    pub(in crate::tcp) fn is_relayed(&mut self) {
        self.beginning = None;
        self.state = State::Relayed;
        for half in [&mut self.client, &mut self.server] {
            half.parser = None;
            half.reassembler = Reassembler::default();
        }
        self.update_in_order();
    }
}
