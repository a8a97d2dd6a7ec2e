//! A connection that uses TLS: its records are decrypted on their way to the parsers, if a key log has the secrets.
//!
//! That a connection is TLS is decided where it is for all others: when both directions look like it.

use cqlens_capture::{Encryption, Moment};
use cqlens_proto::{cutter::Opaque, envelope::Direction};

use super::{State, TcpConnection};
use crate::{
    direction::{DirectionParser, GiveUp},
    losses::{Losses, TlsServer},
    tls::{Decrypted, TlsSession, TlsTrouble},
};

impl TcpConnection {
    /// Reads on in what may be TLS; what it contains, as far as it can be decrypted.
    pub(super) fn follow_tls(&mut self, direction: Direction, bytes: &[u8], cut: usize) -> Vec<Decrypted> {
        if let Some(parser) = &self.client.parser
            && direction == Direction::Request
            && self.tls.is_none()
            && TlsSession::begins(bytes)
            && parser.is_at_start()
        {
            let session = TlsSession::new(self.keys.clone(), parser.memory().clone());
            self.tls = Some(Box::new(session));
        }
        let mut out = Vec::new();
        if let Some(tls) = &mut self.tls {
            tls.take(direction, bytes, &mut out);
            tls.skip(direction, cut);
        }
        out
    }

    /// Notes missing bytes where they are TLS; whether they are none of the parser.
    pub(super) fn skip_in_tls(&mut self, direction: Direction, length: usize) -> bool {
        if let Some(tls) = &mut self.tls {
            tls.skip(direction, length);
        }
        self.is_decrypted
    }

    /// Goes on with what TLS contains, if it can be decrypted: parsers begin with its first byte.
    pub(super) fn begin_decrypting(&mut self) -> bool {
        let can = self.tls.as_mut().is_some_and(|tls| tls.trouble().is_none());
        if !can || self.is_decrypted {
            return false;
        }
        self.is_decrypted = true;
        self.connection.encrypted(Encryption::Here);
        for half in [&mut self.client, &mut self.server] {
            half.parser = half.parser.as_ref().map(DirectionParser::afresh);
        }
        true
    }

    /// Hands on what came out of TLS.
    pub(super) fn parse_decrypted(
        &mut self,
        direction: Direction,
        decrypted: Vec<Decrypted>,
        at: Moment,
        losses: &mut Losses,
    ) {
        for part in decrypted {
            match part {
                Decrypted::Bytes(bytes) => self.parse(direction, bytes, 0, at, losses),
                Decrypted::Missing { length, unread } => {
                    losses.unplaced_bytes += unread as u64;
                    self.with_parser(direction, |parser| parser.skip(length, at, losses));
                }
                Decrypted::Lost(unread) => {
                    losses.unplaced_bytes += unread as u64;
                    self.with_parser(direction, |parser| parser.lose_place(at, losses));
                }
            }
            if self.state != State::Open {
                return;
            }
        }
        if self.tls.as_mut().is_some_and(|tls| tls.trouble().is_some()) {
            self.turn_opaque(GiveUp::Opaque(Opaque::Tls), losses);
        }
    }

    fn with_parser(&mut self, direction: Direction, apply: impl FnOnce(&mut DirectionParser)) {
        let (own, _) = self.halves(direction);
        if let Some(parser) = &mut own.parser {
            apply(parser);
        }
    }

    /// Counts it as one that was not decrypted.
    pub(super) fn note_tls(&mut self, server: &mut TlsServer) {
        let Some(tls) = &mut self.tls else {
            return server.note(None, TlsTrouble::Handshake);
        };
        let trouble = tls.trouble().unwrap_or(TlsTrouble::Handshake);
        server.note(tls.server_name(), trouble);
    }

    /// Nothing more comes of it: records that are not whole are not read.
    pub(super) fn end_tls(&mut self, losses: &mut Losses) {
        if let Some(tls) = self.tls.take()
            && self.is_decrypted
        {
            losses.unplaced_bytes += tls.kept() as u64;
        }
    }
}
