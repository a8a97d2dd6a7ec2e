//! TLS, decrypted with the secrets of a key log: TLS 1.2 with AES-GCM and ChaCha20, TLS 1.3 with the same, resumed
//! sessions and key updates.
//!
//! What is read of a handshake are the two hellos. Everything else of it is passed over: in TLS 1.3 application data
//! begins with the first record that the key of application data opens.

mod ciphers;
mod handshake;
mod key_log;
mod records;

use std::fmt;

use bytes::Bytes;
use cqlens_capture::memory::Part;
use cqlens_proto::envelope::Direction;

use ciphers::{Opened, RecordKey, Suite};
use handshake::{Handshake, Hello};
pub use key_log::KeyLog;
use key_log::{Secret, SessionSecrets};
use records::{
    APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, NotTls, RecordReader, RecordState, TlsRecord,
};

/// A connection that may be TLS, from its first byte on.
#[derive(Debug)]
pub(super) struct TlsSession {
    keys: KeyLog,
    hello: Hello,
    secrets: Option<SessionSecrets>,
    /// Client and server.
    sides: [Side; 2],
    /// Why it cannot be decrypted.
    trouble: Option<TlsTrouble>,
    /// The bound of what all connections keep to be read later.
    memory: Part,
    /// What this one is charged for.
    taken: usize,
}

impl Drop for TlsSession {
    fn drop(&mut self) {
        self.memory.give_back(self.taken);
    }
}

/// Why a connection of which there is a handshake cannot be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsTrouble {
    /// The key log has no secrets of it.
    NoKey,
    /// Its cipher suite, or its version of TLS.
    Suite,
    /// The handshake is not in the capture, or not as a whole, or the secrets are not those of this session.
    Handshake,
    /// There was no memory left for it.
    Memory,
}

impl fmt::Display for TlsTrouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoKey => "no key in the key log",
            Self::Suite => "a cipher suite or a version that is not decrypted",
            Self::Handshake => "the handshake is not in the capture, or has another key",
            Self::Memory => "no memory left",
        })
    }
}

/// One direction.
#[derive(Debug, Default)]
struct Side {
    records: RecordReader,
    handshake: Handshake,
    /// The key of its records, once it is known.
    key: Option<RecordKey>,
    suite: Option<Suite>,
    /// TLS 1.3: the secret of that key.
    secret: Option<Secret>,
    /// Whether its records are encrypted with that key.
    is_sealed: bool,
    /// Whether any record has been opened.
    is_open: bool,
    /// Records that the key did not open before the first that it did.
    unopened: usize,
}

/// What comes out of one direction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decrypted {
    /// Bytes of the application.
    Bytes(Bytes),
    /// So many of them are missing; `unread` captured ones could not be read therefore.
    Missing {
        /// Missing bytes of the application.
        length: usize,
        /// Captured bytes of TLS.
        unread: usize,
    },
    /// An unknown number of bytes is missing; this many of the captured ones could not be decrypted.
    Lost(usize),
}

/// Encrypted records of a handshake: certificates are long, and a record may have few bytes.
const MAX_UNOPENED: usize = 128;

/// Numbers that are tried for a record after missing ones.
const MAX_MISSING: usize = 4_096;

impl TlsSession {
    /// A session whose secrets may be in `keys`, charged to `memory`.
    pub(super) fn new(keys: KeyLog, memory: Part) -> Self {
        Self {
            keys,
            hello: Hello::default(),
            secrets: None,
            sides: Default::default(),
            trouble: None,
            memory,
            taken: 0,
        }
    }

    /// Whether `bytes`, the first ones of a connection, begin the handshake of a client.
    pub(super) fn begins(bytes: &[u8]) -> bool {
        matches!(bytes, [HANDSHAKE, 3, 0..=4, ..])
    }

    /// The server that the client named.
    pub(super) fn server_name(&self) -> Option<&str> {
        self.hello.server_name.as_deref()
    }

    /// Why it cannot be decrypted, as far as the bytes until now show it.
    pub(super) fn trouble(&mut self) -> Option<TlsTrouble> {
        if self.trouble.is_none() && self.secrets().is_none() {
            return Some(TlsTrouble::NoKey);
        }
        self.trouble
    }

    /// The secrets, which the client may write a moment later than it sends.
    fn secrets(&mut self) -> Option<SessionSecrets> {
        let is_whole = |secrets: &SessionSecrets| {
            secrets.master.is_some() || secrets.traffic.iter().all(Option::is_some)
        };
        if !self.secrets.as_ref().is_some_and(is_whole)
            && let Some(random) = &self.hello.client_random
        {
            self.secrets = self.keys.of(random);
        }
        self.secrets
    }

    /// Takes the next bytes of a direction; what comes of them is appended to `out`.
    pub(super) fn take(&mut self, direction: Direction, bytes: &[u8], out: &mut Vec<Decrypted>) {
        if self.trouble.is_none() {
            self.side(direction).records.add(bytes);
            self.read(direction, out);
            self.charge();
        }
    }

    fn read(&mut self, direction: Direction, out: &mut Vec<Decrypted>) {
        while self.trouble.is_none() {
            match self.side(direction).records.next() {
                Ok(Some(record)) => self.record(direction, &record, out),
                Ok(None) => return,
                Err(NotTls) => self.fail(TlsTrouble::Handshake),
            }
        }
    }

    /// Takes note of missing bytes.
    pub(super) fn skip(&mut self, direction: Direction, length: usize) {
        if length == 0 || self.trouble.is_some() {
            return;
        }
        let side = self.side(direction);
        side.records.skip(length);
        // Numbers of records begin with the keys of application data.
        if !side.is_open {
            self.fail(TlsTrouble::Handshake);
        }
    }

    /// Notes why it cannot be decrypted, the first reason only, and keeps nothing more.
    fn fail(&mut self, trouble: TlsTrouble) {
        self.trouble.get_or_insert(trouble);
        self.sides = Default::default();
    }

    /// Captured bytes that wait for the rest of their record.
    pub(super) fn kept(&self) -> usize {
        self.sides.iter().map(|side| side.records.kept()).sum()
    }

    /// Charges what it holds; where all together would exceed their bound, it is not decrypted.
    fn charge(&mut self) {
        self.memory.give_back(std::mem::take(&mut self.taken));
        let held = self.sides.iter().map(Side::held_bytes).sum();
        if self.memory.has_room_for(held) {
            self.memory.take(held);
            self.taken = held;
        } else {
            self.memory.count_evicted(1);
            self.fail(TlsTrouble::Memory);
        }
    }

    fn side(&mut self, direction: Direction) -> &mut Side {
        let [client, server] = &mut self.sides;
        match direction {
            Direction::Request => client,
            Direction::Response => server,
        }
    }

    fn record(&mut self, direction: Direction, record: &TlsRecord, out: &mut Vec<Decrypted>) {
        let side = self.side(direction);
        if side.is_sealed {
            if side.key.is_none() {
                self.derive_keys();
            }
            return self.sealed(direction, record, out);
        }
        match record.header[0] {
            HANDSHAKE => {
                side.handshake.add(&record.payload);
                self.greet(direction);
            }
            // In TLS 1.3 it means nothing, and may come before the hello that counts.
            CHANGE_CIPHER_SPEC if self.hello.is_answered() => self.side(direction).is_sealed = true,
            _ => {}
        }
    }

    /// Reads hellos. Once both are known, so is how the records that follow are encrypted.
    fn greet(&mut self, direction: Direction) {
        let side = match direction {
            Direction::Request => &mut self.sides[0],
            Direction::Response => &mut self.sides[1],
        };
        if side.handshake.read(&mut self.hello).is_err() {
            self.fail(TlsTrouble::Handshake);
        }
        if self.hello.is_tls13() {
            self.sides.iter_mut().for_each(|side| side.is_sealed = true);
        }
    }

    /// Derives the keys of both directions; notes what hinders it.
    fn derive_keys(&mut self) {
        let Some(suite) = self.hello.suite else {
            return self.fail(match self.hello.is_answered() {
                true => TlsTrouble::Suite,
                false => TlsTrouble::Handshake,
            });
        };
        let Some(secrets) = self.secrets() else {
            return self.fail(TlsTrouble::NoKey);
        };
        if self.hello.is_tls13() {
            for (side, secret) in self.sides.iter_mut().zip(secrets.traffic) {
                side.suite = Some(suite);
                side.secret = secret;
                side.key = secret.and_then(|secret| suite.key_of_traffic(&secret));
            }
        } else if let (Some(master), Some(client), Some(server)) =
            (secrets.master, self.hello.client_random, self.hello.server_random)
            && let Some(keys) = suite.keys_of_master(&master, &client, &server)
        {
            for (side, key) in self.sides.iter_mut().zip(keys) {
                side.key = Some(key);
            }
        }
        if self.sides.iter().any(|side| side.key.is_none()) {
            self.fail(TlsTrouble::NoKey);
        }
    }

    /// Opens an encrypted record.
    fn sealed(&mut self, direction: Direction, record: &TlsRecord, out: &mut Vec<Decrypted>) {
        let is_tls13 = self.hello.is_tls13();
        let side = self.side(direction);
        let Some(key) = &mut side.key else { return };
        // Sent for networks that expect them of TLS 1.2, and alerts before there are keys.
        if is_tls13 && record.header[0] != APPLICATION_DATA {
            return;
        }
        let opened = match record.state {
            RecordState::Whole => key.open(record.header, &record.payload),
            RecordState::Damaged(missing) => {
                key.number += 1;
                out.push(Decrypted::Missing {
                    length: record.payload.len().saturating_sub(key.overhead()),
                    unread: record.payload.len().saturating_sub(missing),
                });
                return;
            }
            RecordState::Candidate => {
                let missing = side.records.missing_at_most().min(MAX_MISSING) as u64;
                let opened = key.open_later(missing + 1, record.header, &record.payload);
                match &opened {
                    Some(_) => out.push(Decrypted::Lost(side.records.accept(record))),
                    None => {
                        side.records.refuse();
                        return;
                    }
                }
                opened
            }
        };
        match opened {
            Some(opened) => side.opened(opened, out),
            // Records of the handshake have other keys.
            None if is_tls13 && !side.is_open && side.unopened < MAX_UNOPENED => side.unopened += 1,
            None if !side.is_open => self.fail(TlsTrouble::Handshake),
            None => {
                key.number += 1;
                out.push(Decrypted::Lost(record.payload.len()));
            }
        }
    }
}

impl Side {
    fn held_bytes(&self) -> usize {
        self.records.held_bytes() + self.handshake.held_bytes()
    }

    /// Takes what a record contained.
    fn opened(&mut self, opened: Opened, out: &mut Vec<Decrypted>) {
        self.is_open = true;
        match opened.kind {
            APPLICATION_DATA if !opened.bytes.is_empty() => out.push(Decrypted::Bytes(opened.bytes.into())),
            // Nothing else follows a key update in its record (RFC 8446 §5.1).
            HANDSHAKE if opened.bytes.first() == Some(&KEY_UPDATE) => self.update_key(),
            _ => {}
        }
    }

    fn update_key(&mut self) {
        let (Some(suite), Some(secret)) = (self.suite, &self.secret) else {
            return;
        };
        let Some(next) = suite.next_secret(secret) else {
            return;
        };
        self.key = suite.key_of_traffic(&next);
        self.secret = Some(next);
    }
}

/// The type of its message.
const KEY_UPDATE: u8 = 24;

#[cfg(test)]
mod tests;
