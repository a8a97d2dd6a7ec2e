//! Captures of TLS with the key log of the clients: the report is that of the plain connections.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tokio_rustls::rustls::{
    self, ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConfig, ServerConnection,
    SideData, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{PrivateKeyDer, ServerName},
    version::{TLS12, TLS13},
};

use crate::sniff::{
    conversation::MSS,
    packets::{Capture, ETHERNET, PLAIN},
    report::{differences, number, seen},
    sniff::{Place, Sniffed, recording},
    tcp::{ACK, FIN, PUSH, RST, SYN, Segment, capture, segments},
};

const NAME: &str = "node1.example.org";
const RECORDED: &str = "python-v4-none";

/// The lines that a client writes to `SSLKEYLOGFILE`.
#[derive(Debug, Default)]
struct Lines(Mutex<String>);

impl rustls::KeyLog for Lines {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let line = format!("{label} {} {}\n", hex(random), hex(secret));
        self.0.lock().unwrap().push_str(&line);
    }
}

/// Clients and servers that know each other.
struct Certificates {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    lines: Arc<Lines>,
}

impl Certificates {
    fn new(version: &'static SupportedProtocolVersion) -> Self {
        let own = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(own.cert.der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
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
}

/// One connection, whose payloads go through TLS.
struct Encrypted {
    client: ClientConnection,
    server: ServerConnection,
    ends: [SocketAddr; 2],
    /// The next sequence numbers of client and server.
    next: [u32; 2],
    segments: Vec<Segment>,
}

impl Encrypted {
    fn new(certificates: &Certificates, syn: &Segment) -> Self {
        let name = ServerName::try_from(NAME).unwrap();
        Self {
            client: ClientConnection::new(Arc::clone(&certificates.client), name).unwrap(),
            server: ServerConnection::new(Arc::clone(&certificates.server)).unwrap(),
            ends: [syn.from, syn.to],
            next: [syn.sequence, 77],
            segments: Vec::new(),
        }
    }

    fn send(&mut self, at: u64, side: usize, flags: u8, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).unwrap() + u32::from(flags & (SYN | FIN) != 0);
        self.segments.push(Segment {
            at,
            from: self.ends[side],
            to: self.ends[1 - side],
            sequence: self.next[side],
            acknowledgement: self.next[1 - side],
            flags,
            payload: bytes.to_vec(),
        });
        self.next[side] = self.next[side].wrapping_add(length);
    }

    /// Sends until neither side has anything to send.
    fn flow(&mut self, at: u64) {
        loop {
            let to_server = written(&mut self.client);
            taken(&mut self.server, &to_server);
            let to_client = written(&mut self.server);
            taken(&mut self.client, &to_client);
            for (side, bytes) in [to_server, to_client].iter().enumerate() {
                bytes
                    .chunks(MSS)
                    .for_each(|part| self.send(at, side, ACK | PUSH, part));
            }
            if self.segments.is_empty() || !(self.client.wants_write() || self.server.wants_write()) {
                return;
            }
        }
    }

    /// The same as a segment of the plain connection.
    fn take(&mut self, segment: &Segment) {
        let side = usize::from(segment.from != self.ends[0]);
        if segment.flags & (SYN | FIN | RST) != 0 || segment.payload.is_empty() {
            self.send(segment.at, side, segment.flags, &[]);
            if side == 1 && segment.flags & SYN != 0 {
                self.flow(segment.at);
            }
            return;
        }
        match side {
            0 => self.client.writer().write_all(&segment.payload).unwrap(),
            _ => self.server.writer().write_all(&segment.payload).unwrap(),
        }
        self.flow(segment.at);
    }
}

fn written<D: SideData>(side: &mut ConnectionCommon<D>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while side.wants_write() {
        side.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn taken<D: SideData>(side: &mut ConnectionCommon<D>, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        side.read_tls(&mut rest).unwrap();
        side.process_new_packets().unwrap();
        // At the end of what there is, it would block.
        let _ = side.reader().read_to_end(&mut Vec::new());
    }
}

/// The connections of a capture, over TLS.
fn encrypted(plain: &Capture, certificates: &Certificates) -> Vec<Segment> {
    let mut connections: BTreeMap<SocketAddr, Encrypted> = BTreeMap::new();
    let mut all = Vec::new();
    for segment in segments(plain) {
        let client = if segment.to.port() == 9042 {
            segment.from
        } else {
            segment.to
        };
        let connection = connections
            .entry(client)
            .or_insert_with(|| Encrypted::new(certificates, &segment));
        connection.take(&segment);
        all.append(&mut connection.segments);
    }
    all
}

fn sniffed(place: &Place, file: &Path, key_log: Option<&Path>) -> Sniffed {
    let key_log = key_log.map(|path| path.to_str().unwrap());
    let arguments: Vec<&str> = key_log.iter().flat_map(|path| ["--tls-key-log", path]).collect();
    place.sniff(&[file], &arguments)
}

/// What is said of the traffic, but for whether it was encrypted.
fn content(report: &Value) -> Value {
    let mut seen = seen(report);
    for application in seen["applications"].as_array_mut().into_iter().flatten() {
        let application = application.as_object_mut().unwrap();
        application.retain(|key, _| !["plain", "tls"].contains(&key.as_str()));
    }
    seen
}

/// A capture with a block of secrets before its packets.
fn with_secrets(capture: &Capture, lines: &str) -> Vec<u8> {
    let layout = crate::sniff::packets::Layout::Pcapng {
        big_endian: false,
        nanoseconds: true,
    };
    let bytes = capture.write(layout);
    let padding = lines.len().next_multiple_of(4) - lines.len();
    let length = u32::try_from(20 + lines.len() + padding).unwrap().to_le_bytes();
    let size = u32::try_from(lines.len()).unwrap().to_le_bytes();
    let block = [
        &[0x0a, 0, 0, 0][..],
        &length,
        b"KSLT",
        &size,
        lines.as_bytes(),
        &vec![0; padding],
        &length,
    ];
    // Behind the section's header.
    [&bytes[..28], &block.concat(), &bytes[28..]].concat()
}

#[test]
fn decrypted_connections_have_the_report_of_plain_ones() {
    let recorded = recording(RECORDED);
    let plain = recorded.capture();
    let expected = content(Place::new().sniff(&[&recorded.file], &[]).report());
    let mut all = Vec::new();
    for version in [&TLS12, &TLS13] {
        let certificates = Certificates::new(version);
        let capture = capture(&encrypted(&plain, &certificates));
        let lines = certificates.lines.0.lock().unwrap().clone();
        let place = Place::new();
        let log = place.write("keys.log", lines.as_bytes());
        let file = place.write("tls.pcap", &capture.write(PLAIN));
        let with_block = place.write("secrets.pcapng", &with_secrets(&capture, &lines));
        for sniffed in [
            sniffed(&place, &file, Some(&log)),
            sniffed(&place, &with_block, None),
        ] {
            let report = sniffed.report();
            let lines = differences(&expected, &content(report));
            all.extend(lines.iter().map(|line| format!("{version:?}{line}")));
            let connections = number(&report["coverage"]["capture"]["begun_before"]);
            assert_eq!(connections, 0);
            assert!(!sniffed.told().contains("TLS"), "{}", sniffed.told());
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn connections_without_a_key_are_counted_and_named() {
    let plain = recording(RECORDED).capture();
    let certificates = Certificates::new(&TLS13);
    let tls = encrypted(&plain, &certificates);
    let clients = tls
        .iter()
        .filter(|segment| segment.flags & (SYN | ACK) == SYN)
        .count();
    let lines = certificates.lines.0.lock().unwrap().clone();
    let place = Place::new();
    let file = place.write("tls.pcap", &capture(&tls).plain());
    let without = sniffed(&place, &file, None);
    let named = format!("({NAME}) use TLS");
    assert!(without.told().contains(&named), "{}", without.told());
    // The first connection only.
    let first: String = {
        let random = lines.split_whitespace().nth(1).unwrap();
        let of_first = lines.lines().filter(|line| line.contains(random));
        of_first.map(|line| format!("{line}\n")).collect()
    };
    let log = place.write("keys.log", first.as_bytes());
    let one = sniffed(&place, &file, Some(&log));
    let expected = format!("({NAME}) was not decrypted: {} connection", clients - 1);
    assert!(one.told().contains(&expected), "{expected}: {}", one.told());
    assert!(one.told().contains("no key in the key log"), "{}", one.told());
    let opaque = &one.report()["coverage"]["opaque_connections"]["tls"];
    assert_eq!(number(opaque), (clients - 1) as u64);
    assert!(number(&one.report()["coverage"]["requests"]) > 0);
}

#[test]
fn a_key_log_that_is_none_is_refused() {
    let place = Place::new();
    let file = place.write(
        "tls.pcap",
        &Capture {
            link: ETHERNET,
            packets: Vec::new(),
        }
        .plain(),
    );
    let no_log = place.write("node.pem", b"-----BEGIN CERTIFICATE-----\n");
    for (path, said) in [
        (&no_log, "it has no line of a TLS key log"),
        (&place.path("nowhere.log"), "--tls-key-log: cannot read"),
    ] {
        let sniffed = sniffed(&place, &file, Some(path));
        assert_eq!(sniffed.code(), Some(2), "{}", sniffed.said());
        assert!(sniffed.said().contains(said), "{}", sniffed.said());
    }
}

/// Bytes that are missing cost the requests that they are of, and those are counted as ever.
#[test]
fn decrypted_connections_with_missing_packets_go_on() {
    let plain = recording(RECORDED).capture();
    for version in [&TLS12, &TLS13] {
        let certificates = Certificates::new(version);
        let mut tls = encrypted(&plain, &certificates);
        let mut number_of = 0;
        // After the handshakes, one packet of fifteen.
        tls.retain(|segment| {
            number_of += usize::from(!segment.payload.is_empty());
            segment.payload.is_empty() || number_of < 60 || number_of % 15 != 0
        });
        let place = Place::new();
        let lines = certificates.lines.0.lock().unwrap().clone();
        let log = place.write("keys.log", lines.as_bytes());
        let file = place.write("tls.pcap", &capture(&tls).plain());
        let sniffed = sniffed(&place, &file, Some(&log));
        let coverage = &sniffed.report()["coverage"];
        let of = |key: &str| number(&coverage[key]);
        assert_eq!(
            coverage["opaque_connections"],
            serde_json::json!({}),
            "{coverage}"
        );
        assert!(number(&coverage["capture"]["lost_bytes"]) > 0, "{coverage}");
        assert!(of("audited") > 90, "{coverage}");
        let of_capture = |key: &str| number(&coverage["capture"][key]);
        assert!(
            of_capture("unplaced_bytes") < of_capture("lost_bytes"),
            "{coverage}"
        );
        assert_eq!(of("requests"), of("audited") + of("dropped") + of("undecoded"));
    }
}
