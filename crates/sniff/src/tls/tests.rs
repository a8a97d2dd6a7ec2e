//! Sessions of a real implementation in memory, decrypted with the key log that it writes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
use std::{
    io::{Read, Write},
    sync::{Arc, Mutex},
};

use cqlens_capture::memory::Part;
use tokio_rustls::rustls::{
    self, CipherSuite, ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    SupportedCipherSuite, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{PrivateKeyDer, ServerName},
    version::{TLS12, TLS13},
};

use super::*;
use crate::{
    Packet, PacketReader, TcpConnections,
    packets::LINK_RAW,
    testing::{Conversation, follow, packet, parse_captures, query, void},
};
use cqlens_proto::envelope::Version;

/// Writes the lines that `SSLKEYLOGFILE` has.
#[derive(Debug, Default)]
struct Lines(Mutex<String>);

impl rustls::KeyLog for Lines {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let line = format!("{label} {} {}\n", hex(random), hex(secret));
        self.0.lock().unwrap().push_str(&line);
    }
}

/// A client and a server that know each other.
struct Pair {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    lines: Arc<Lines>,
}

const NAME: &str = "node1.example.org";

impl Pair {
    fn new(version: &'static SupportedProtocolVersion, suites: Vec<SupportedCipherSuite>) -> Self {
        let own = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(own.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::CryptoProvider {
            cipher_suites: suites,
            ..ring::default_provider()
        });
        let lines = Arc::<Lines>::default();
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.key_log = Arc::clone(&lines) as _;
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        Self {
            client: Arc::new(client),
            server: Arc::new(server),
            lines,
        }
    }

    fn connect(&self) -> Wire {
        let name = ServerName::try_from(NAME).unwrap();
        let mut wire = Wire {
            client: ClientConnection::new(Arc::clone(&self.client), name).unwrap(),
            server: ServerConnection::new(Arc::clone(&self.server)).unwrap(),
            sent: Vec::new(),
            heard: [Vec::new(), Vec::new()],
        };
        wire.flow();
        assert!(!wire.client.is_handshaking() && !wire.server.is_handshaking());
        wire
    }

    fn keys(&self) -> KeyLog {
        let log = KeyLog::default();
        log.add(self.lines.0.lock().unwrap().as_bytes());
        log
    }
}

/// A connection and what was sent over it.
struct Wire {
    client: ClientConnection,
    server: ServerConnection,
    sent: Vec<(Direction, Vec<u8>)>,
    /// What the application of each side has received and not checked yet.
    heard: [Vec<u8>; 2],
}

impl Wire {
    /// Sends until neither side has anything to send.
    fn flow(&mut self) {
        loop {
            let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
            while self.client.wants_write() {
                self.client.write_tls(&mut to_server).unwrap();
            }
            let mut rest = &to_server[..];
            while !rest.is_empty() {
                self.server.read_tls(&mut rest).unwrap();
                self.server.process_new_packets().unwrap();
                // At the end of what there is, it would block.
                let _ = self.server.reader().read_to_end(&mut self.heard[0]);
            }
            while self.server.wants_write() {
                self.server.write_tls(&mut to_client).unwrap();
            }
            let mut rest = &to_client[..];
            while !rest.is_empty() {
                self.client.read_tls(&mut rest).unwrap();
                self.client.process_new_packets().unwrap();
                let _ = self.client.reader().read_to_end(&mut self.heard[1]);
            }
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
            let both = [(Direction::Request, to_server), (Direction::Response, to_client)];
            self.sent
                .extend(both.into_iter().filter(|(_, bytes)| !bytes.is_empty()));
        }
    }

    fn say(&mut self, direction: Direction, bytes: &[u8]) {
        match direction {
            Direction::Request => self.client.writer().write_all(bytes).unwrap(),
            Direction::Response => self.server.writer().write_all(bytes).unwrap(),
        }
        self.flow();
        let [by_server, by_client] = &mut self.heard;
        let heard = match direction {
            Direction::Request => by_server,
            Direction::Response => by_client,
        };
        assert_eq!(std::mem::take(heard), bytes);
    }
}

fn session(keys: KeyLog) -> TlsSession {
    TlsSession::new(keys, Part::new("test", 1 << 20))
}

/// What both sides said, by what was sent, in pieces of that size.
fn decrypted(session: &mut TlsSession, sent: &[(Direction, Vec<u8>)], size: usize) -> [Vec<u8>; 2] {
    let mut said = [Vec::new(), Vec::new()];
    for (direction, bytes) in sent {
        for piece in bytes.chunks(size) {
            let mut out = Vec::new();
            session.take(*direction, piece, &mut out);
            for part in out {
                let Decrypted::Bytes(bytes) = part else {
                    panic!("{part:?}")
                };
                said[usize::from(*direction == Direction::Response)].extend(bytes);
            }
        }
    }
    said
}

fn suites() -> Vec<(&'static SupportedProtocolVersion, SupportedCipherSuite)> {
    let of = |suite: &SupportedCipherSuite| match suite.suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256
        | CipherSuite::TLS13_AES_256_GCM_SHA384
        | CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => (&TLS13, *suite),
        _ => (&TLS12, *suite),
    };
    ring::ALL_CIPHER_SUITES.iter().map(of).collect()
}

/// The certificate of the tests has a key for ECDSA.
fn is_usable(suite: &SupportedCipherSuite) -> bool {
    !format!("{:?}", suite.suite()).contains("_RSA_")
}

#[test]
fn every_suite_is_decrypted_whatever_pieces_it_comes_in() {
    let mut tried = 0;
    for (version, suite) in suites().into_iter().filter(|(_, suite)| is_usable(suite)) {
        let pair = Pair::new(version, vec![suite]);
        let mut wire = pair.connect();
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        for length in [1, 40, 5_000, 40_000] {
            let bytes: Vec<u8> = (0..length).map(|at: usize| (at % 251) as u8).collect();
            wire.say(Direction::Request, &bytes);
            wire.say(Direction::Response, &bytes[..length / 2]);
            asked.extend(&bytes);
            answered.extend(&bytes[..length / 2]);
        }
        for size in [1, 7, 1_448, usize::MAX] {
            let mut session = session(pair.keys());
            let said = decrypted(&mut session, &wire.sent, size);
            assert_eq!(session.trouble(), None, "{suite:?}");
            assert_eq!(session.server_name(), Some(NAME));
            assert!(
                said == [asked.clone(), answered.clone()],
                "{suite:?} in pieces of {size}"
            );
        }
        tried += 1;
    }
    assert_eq!(tried, 6, "three suites of each version");
}

#[test]
fn resumed_sessions_are_decrypted() {
    for version in [&TLS12, &TLS13] {
        let pair = Pair::new(version, ring::ALL_CIPHER_SUITES.to_vec());
        for time in 0..3 {
            let mut wire = pair.connect();
            let resumed = wire.client.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
            assert_eq!(resumed, time > 0);
            wire.say(Direction::Request, b"a question");
            wire.say(Direction::Response, b"an answer");
            let said = decrypted(&mut session(pair.keys()), &wire.sent, 100);
            assert_eq!(said, [b"a question".to_vec(), b"an answer".to_vec()]);
        }
    }
}

#[test]
fn keys_that_are_updated_are_followed() {
    let pair = Pair::new(&TLS13, ring::ALL_CIPHER_SUITES.to_vec());
    let mut wire = pair.connect();
    for _ in 0..3 {
        wire.say(Direction::Request, b"before ");
        wire.client.refresh_traffic_keys().unwrap();
        wire.flow();
        wire.say(Direction::Response, b"after ");
        wire.server.refresh_traffic_keys().unwrap();
        wire.flow();
    }
    let said = decrypted(&mut session(pair.keys()), &wire.sent, 60);
    assert_eq!(said, [b"before ".repeat(3), b"after ".repeat(3)]);
}

#[test]
fn without_its_key_a_session_says_so() {
    let pair = Pair::new(&TLS13, ring::ALL_CIPHER_SUITES.to_vec());
    let mut wire = pair.connect();
    wire.say(Direction::Request, b"a question");
    let other = Pair::new(&TLS13, ring::ALL_CIPHER_SUITES.to_vec());
    other.connect();
    for keys in [KeyLog::default(), other.keys()] {
        let mut session = session(keys);
        assert_eq!(decrypted(&mut session, &wire.sent, 1_000), [vec![], vec![]]);
        assert_eq!(session.trouble(), Some(TlsTrouble::NoKey));
        assert_eq!(session.server_name(), Some(NAME));
    }
    // A key that is another's.
    let lines = pair.lines.0.lock().unwrap().clone();
    let forged: String = lines
        .lines()
        .map(|line| format!("{}00\n", &line[..line.len() - 2]))
        .collect();
    let keys = KeyLog::default();
    keys.add(forged.as_bytes());
    (0..200).for_each(|_| wire.say(Direction::Request, b"another"));
    let mut session = session(keys);
    assert_eq!(decrypted(&mut session, &wire.sent, 1_000), [vec![], vec![]]);
    assert_eq!(session.trouble(), Some(TlsTrouble::Handshake));
}

/// Bytes that are missing cost the records that they are of, and no others.
#[test]
fn after_missing_bytes_the_next_whole_record_is_read() {
    for version in [&TLS12, &TLS13] {
        let pair = Pair::new(version, ring::ALL_CIPHER_SUITES.to_vec());
        let mut wire = pair.connect();
        wire.say(Direction::Request, b"first");
        let handshake = wire.sent.len();
        for number in 0..40 {
            wire.say(Direction::Request, format!("request {number}").as_bytes());
        }
        let mut session = session(pair.keys());
        decrypted(&mut session, &wire.sent[..handshake], 1_000);
        let stream = wire.sent[handshake..]
            .iter()
            .map(|(_, bytes)| &bytes[..])
            .collect::<Vec<_>>()
            .concat();
        let mut out = Vec::new();
        // Within a record, and from the middle of one to the middle of another.
        let record = stream.len() / 40;
        session.take(Direction::Request, &stream[..record + 10], &mut out);
        session.skip(Direction::Request, 4);
        session.take(Direction::Request, &stream[record + 14..record * 5 + 9], &mut out);
        session.skip(Direction::Request, record * 20);
        session.take(Direction::Request, &stream[record * 25 + 9..], &mut out);
        assert_eq!(session.trouble(), None);
        let missing = out
            .iter()
            .filter(|part| !matches!(part, Decrypted::Bytes(_)))
            .count();
        assert!(
            matches!(out[1], Decrypted::Missing { length: 9..=11, .. }),
            "{:?}",
            out[1]
        );
        assert_eq!(missing, 2, "{out:?}");
        let last = out.last().unwrap();
        assert_eq!(last, &Decrypted::Bytes(Bytes::from_static(b"request 39")));
        assert!(out.len() >= 4 + 12, "{}", out.len());
    }
}

#[test]
fn no_bytes_make_it_panic_or_keep_more_than_its_memory() {
    use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
    let pair = Pair::new(&TLS13, ring::ALL_CIPHER_SUITES.to_vec());
    let mut wire = pair.connect();
    wire.say(Direction::Request, &[7; 3_000]);
    let changes = vec((any::<prop::sample::Index>(), any::<u8>(), 0_usize..3_000), 0..6);
    TestRunner::default()
        .run(&changes, |changes| {
            let memory = Part::new("test", 100 << 10);
            let mut session = TlsSession::new(pair.keys(), memory.clone());
            let mut sent = wire.sent.clone();
            for (place, byte, missing) in changes {
                let (direction, bytes) = &mut sent[place.index(wire.sent.len())];
                let at = place.index(bytes.len());
                bytes[at] = byte;
                bytes.truncate(bytes.len() - missing.min(bytes.len() - 1));
                session.skip(*direction, missing);
            }
            for (direction, bytes) in &sent {
                let mut out = Vec::new();
                session.take(*direction, bytes, &mut out);
                prop_assert!(memory.used() <= memory.limit());
            }
            drop(session);
            prop_assert_eq!(memory.used(), 0);
            Ok(())
        })
        .unwrap();
}

/// The same conversation in plain and over TLS: the audit gets the same envelopes.
#[test]
fn envelopes_come_out_of_tls_as_they_come_out_of_a_plain_connection() {
    for version in [&TLS12, &TLS13] {
        let pair = Pair::new(version, ring::ALL_CIPHER_SUITES.to_vec());
        let mut wire = pair.connect();
        let mut plain = Conversation::new((5, 6));
        let mut expected = plain.open();
        for stream in 0..50 {
            let request = query(
                Version::V4,
                stream,
                &"SELECT name FROM users ".repeat(stream as usize + 1),
            );
            let response = void(Version::V4, stream);
            wire.say(Direction::Request, &request);
            wire.say(Direction::Response, &response);
            expected.extend(plain.send(Direction::Request, &request, 1_448));
            expected.extend(plain.send(Direction::Response, &response, 1_448));
        }
        expected.extend(plain.close());
        let expected = follow(expected);
        let mut talk = Conversation::new((5, 6));
        let mut segments = talk.open();
        for (direction, bytes) in &wire.sent {
            segments.extend(talk.send(*direction, bytes, 1_448));
        }
        segments.extend(talk.close());
        for (keys, is_read) in [(pair.keys(), true), (KeyLog::default(), false)] {
            let queue = Arc::new(cqlens_capture::ReplayQueue::new(64 << 20));
            let mut connections = TcpConnections::new(Arc::clone(&queue), vec![9042]).decrypting(keys);
            let mut packets = PacketReader::default();
            for segment in &segments {
                let bytes = packet(segment);
                connections.take_packet(
                    &Packet::of(LINK_RAW, segment.at, bytes.len(), &bytes),
                    &mut packets,
                );
            }
            connections.end();
            let captures = std::iter::from_fn(|| queue.pop()).collect();
            let followed = parse_captures(captures, connections.take_losses());
            if is_read {
                assert_eq!(followed.requests, expected.requests);
                assert_eq!(followed.responses, expected.responses);
                assert!(followed.losses.opaque.is_empty() && followed.losses.unplaced_bytes == 0);
            } else {
                assert!(followed.requests.is_empty());
                let server = &followed.losses.tls_servers[&talk.server];
                assert_eq!(server.connections, [(TlsTrouble::NoKey, 1)].into());
                assert_eq!(server.names, [NAME.to_owned()].into());
            }
        }
    }
}
