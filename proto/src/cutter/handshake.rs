//! Which of a client's STARTUPs the server has accepted.

use crate::envelope::{Header, Opcode, StreamId, Version};

/// What a client has said of a connection in its STARTUPs, as far as the server may go by it.
///
/// A client may send several: the next one after a refusal (such as of its version), or more before any
/// answer. The server goes by the first one that it does not refuse, whatever comes after it. `T` is what
/// such a STARTUP stands for.
#[derive(Debug, Clone)]
pub struct Handshake<T> {
    /// Those that are not refused, oldest first; once one is accepted, only that.
    proposals: Vec<Proposal<T>>,
    /// What an answer said of a STARTUP that has not been read yet: the two directions may be read in any
    /// order.
    accepted_unread: Option<Exchange>,
    is_settled: bool,
}

#[derive(Debug, Clone)]
struct Proposal<T> {
    exchange: Exchange,
    what: T,
}

/// What a STARTUP and its READY or AUTHENTICATE have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exchange {
    version: Version,
    stream_id: StreamId,
}

/// STARTUPs without an answer, beyond which a new one takes the place of the last.
const MAX_PROPOSALS: usize = 64;

impl<T> Default for Handshake<T> {
    fn default() -> Self {
        Handshake {
            proposals: Vec::new(),
            accepted_unread: None,
            is_settled: false,
        }
    }
}

impl<T> Handshake<T> {
    /// Whether one is accepted; nothing changes any more then.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// What the server goes by, or will unless it refuses: what was accepted, or else the oldest one.
    pub fn in_force(&self) -> Option<&T> {
        self.proposals.first().map(|proposal| &proposal.what)
    }

    /// Takes a STARTUP.
    pub fn propose(&mut self, header: &Header, what: T) {
        if self.is_settled {
            return;
        }
        let exchange = Exchange::of(header);
        let is_accepted = self.accepted_unread == Some(exchange);
        if is_accepted {
            self.proposals.clear();
        } else if self.proposals.len() == MAX_PROPOSALS {
            self.proposals.pop();
        }
        self.proposals.push(Proposal { exchange, what });
        self.is_settled = is_accepted;
    }

    /// Takes a response; only READY, AUTHENTICATE and ERROR say anything, until [one is
    /// accepted](Self::is_settled).
    pub fn answer(&mut self, header: &Header) {
        match header.opcode {
            _ if self.is_settled => {}
            Opcode::READY | Opcode::AUTHENTICATE => self.accept(Exchange::of(header)),
            Opcode::ERROR => self.refuse(header.stream_id),
            _ => {}
        }
    }

    /// The connection is in use, so the server must have accepted one: the oldest that is not refused.
    pub fn settle(&mut self) {
        self.proposals.truncate(1);
        self.is_settled = !self.proposals.is_empty();
    }

    fn accept(&mut self, exchange: Exchange) {
        match self.position(|proposed| proposed == exchange) {
            Some(accepted) => {
                self.proposals.swap(0, accepted);
                self.settle();
            }
            None => self.accepted_unread = Some(exchange),
        }
    }

    /// An error comes in the server's version, which may be another one than the client's.
    fn refuse(&mut self, stream_id: StreamId) {
        if let Some(refused) = self.position(|proposed| proposed.stream_id == stream_id) {
            self.proposals.remove(refused);
        }
    }

    fn position(&self, is_meant: impl Fn(Exchange) -> bool) -> Option<usize> {
        self.proposals
            .iter()
            .position(|proposal| is_meant(proposal.exchange))
    }
}

impl Exchange {
    fn of(header: &Header) -> Self {
        Exchange {
            version: header.version,
            stream_id: header.stream_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startup(version: Version, stream: i16) -> Header {
        Header::request(version, StreamId(stream), Opcode::STARTUP)
    }

    fn answer(version: Version, stream: i16, opcode: Opcode) -> Header {
        Header::response(version, StreamId(stream), opcode)
    }

    #[test]
    fn the_first_one_that_is_accepted_stays_in_force() {
        for accepts in [Opcode::READY, Opcode::AUTHENTICATE] {
            let mut handshake = Handshake::default();
            handshake.propose(&startup(Version::V4, 1), "first");
            handshake.answer(&answer(Version::V4, 1, accepts));
            handshake.propose(&startup(Version::V4, 1), "second");
            // As REGISTER is answered.
            handshake.answer(&answer(Version::V4, 1, Opcode::READY));
            handshake.answer(&answer(Version::V4, 1, Opcode::ERROR));
            assert_eq!(
                (handshake.in_force(), handshake.is_settled()),
                (Some(&"first"), true)
            );
        }
    }

    #[test]
    fn one_after_a_refusal_takes_its_place_even_if_it_was_sent_before_it() {
        for streams in [(0, 0), (1, 2)] {
            let mut handshake = Handshake::default();
            handshake.propose(&startup(Version::V5, streams.0), "first");
            handshake.propose(&startup(Version::V4, streams.1), "second");
            assert_eq!(handshake.in_force(), Some(&"first"));
            handshake.answer(&answer(Version::V4, streams.0, Opcode::ERROR));
            assert_eq!(
                (handshake.in_force(), handshake.is_settled()),
                (Some(&"second"), false)
            );
            handshake.answer(&answer(Version::V4, streams.1, Opcode::READY));
            assert_eq!(
                (handshake.in_force(), handshake.is_settled()),
                (Some(&"second"), true)
            );
        }
    }

    #[test]
    fn an_error_on_another_stream_refuses_none_and_the_answer_tells_which_was_meant() {
        let mut handshake = Handshake::default();
        handshake.propose(&startup(Version::V5, 3), "first");
        handshake.propose(&startup(Version::V4, 3), "second");
        // Some servers answer what they cannot read on stream 0.
        handshake.answer(&answer(Version::V4, 0, Opcode::ERROR));
        handshake.answer(&answer(Version::V4, 3, Opcode::READY));
        assert_eq!(handshake.in_force(), Some(&"second"));
    }

    #[test]
    fn an_answer_may_be_read_before_its_startup() {
        let mut handshake = Handshake::default();
        handshake.answer(&answer(Version::V4, 1, Opcode::READY));
        handshake.propose(&startup(Version::V5, 1), "refused");
        assert!(!handshake.is_settled());
        handshake.propose(&startup(Version::V4, 1), "accepted");
        handshake.propose(&startup(Version::V4, 1), "later");
        assert_eq!(
            (handshake.in_force(), handshake.is_settled()),
            (Some(&"accepted"), true)
        );
    }

    #[test]
    fn no_more_than_a_few_are_kept() {
        let mut handshake = Handshake::default();
        for stream in 0..10_000 {
            handshake.propose(&startup(Version::V4, stream), stream);
        }
        assert_eq!(handshake.proposals.len(), MAX_PROPOSALS);
        handshake.answer(&answer(Version::V4, 9_999, Opcode::READY));
        assert_eq!(handshake.in_force(), Some(&9_999));
        let mut unused = Handshake::<()>::default();
        unused.settle();
        assert!(!unused.is_settled(), "there is none that could be in force");
    }
}
