//! A capture as a busy node's would be: connections that take turns, prepared point reads by a key of 16
//! bytes, rows of some 100 bytes, and the acknowledgements that a network has for them.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

const CONNECTIONS: u16 = 64;
const SERVER: [u8; 4] = [10, 0, 0, 1];
const PORT: u16 = 9042;
/// Of each connection, on consecutive streams, before answers come.
const DEPTH: u16 = 8;

/// What is in a file.
pub(crate) struct Generated {
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    pub(crate) reads: u64,
    pub(crate) packets: u64,
}

/// Writes a file of about `bytes` bytes.
pub(crate) fn generate(path: &Path, bytes: u64) -> io::Result<Generated> {
    write(File::create(path)?, bytes)
}

/// Writes a capture of about `bytes` bytes.
pub(crate) fn write(out: impl Write, bytes: u64) -> io::Result<Generated> {
    let mut writer = Writer {
        out: BufWriter::with_capacity(1 << 20, out),
        written: Generated {
            bytes: 0,
            requests: 0,
            reads: 0,
            packets: 0,
        },
        at: 1_760_000_000_000_000,
        sides: (0..CONNECTIONS).map(|_| [1, 1]).collect(),
    };
    writer.write(&header())?;
    for connection in 0..CONNECTIONS {
        writer.open(connection)?;
    }
    let mut key = 0;
    while writer.written.bytes < bytes {
        for connection in 0..CONNECTIONS {
            for stream in 0..DEPTH {
                key += 1;
                writer.request(connection, &execute(stream, key))?;
                writer.written.reads += 1;
            }
            for stream in 0..DEPTH {
                writer.send(connection, false, &rows(stream))?;
            }
            writer.packet(connection, true, 0x10, &[])?;
        }
    }
    writer.out.flush()?;
    Ok(writer.written)
}

/// pcap, microseconds, Ethernet.
fn header() -> Vec<u8> {
    let words: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

struct Writer<W: Write> {
    out: BufWriter<W>,
    written: Generated,
    /// Microseconds since the Unix epoch.
    at: u64,
    /// The next sequence numbers of each connection, client first.
    sides: Vec<[u32; 2]>,
}

impl<W: Write> Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// The handshakes, the schema and the statement.
    fn open(&mut self, connection: u16) -> io::Result<()> {
        self.packet(connection, true, 0x02, &[])?;
        // A SYN takes a number of its own.
        self.sides[usize::from(connection)][0] = 2;
        self.packet(connection, false, 0x12, &[])?;
        self.sides[usize::from(connection)][1] = 2;
        self.request(
            connection,
            &envelope(0x04, 0, 0x01, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0"),
        )?;
        self.send(connection, false, &envelope(0x84, 0, 0x02, &[]))?;
        if connection == 0 {
            for statement in SCHEMA {
                self.request(connection, &query(statement))?;
                self.send(connection, false, &envelope(0x84, 0, 0x08, &[0, 0, 0, 1]))?;
            }
        }
        self.request(connection, &envelope(0x04, 0, 0x09, &long_string(SELECT)))?;
        self.send(connection, false, &prepared())
    }

    fn request(&mut self, connection: u16, bytes: &[u8]) -> io::Result<()> {
        self.written.requests += 1;
        self.send(connection, true, bytes)
    }

    fn send(&mut self, connection: u16, from_client: bool, bytes: &[u8]) -> io::Result<()> {
        self.packet(connection, from_client, 0x18, bytes)
    }

    fn packet(&mut self, connection: u16, from_client: bool, flags: u8, payload: &[u8]) -> io::Result<()> {
        let [high, low] = connection.to_be_bytes();
        let (client, port) = ([10, 1, high, low], 40_000 + connection);
        let sides = &mut self.sides[usize::from(connection)];
        let side = usize::from(!from_client);
        let (sequence, acknowledged) = (sides[side], sides[1 - side]);
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
        sides[side] = sequence.wrapping_add(length);
        self.at += 1;
        // Ethernet, IP without options, TCP with timestamps.
        let captured = 14 + 20 + 32 + length;
        let mut packet = Vec::with_capacity(16 + 66 + payload.len());
        for word in [
            self.at / 1_000_000,
            self.at % 1_000_000,
            captured.into(),
            captured.into(),
        ] {
            packet.extend(u32::try_from(word).map_err(io::Error::other)?.to_le_bytes());
        }
        packet.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0, 0x45, 0]);
        packet.extend(
            u16::try_from(52 + length)
                .map_err(io::Error::other)?
                .to_be_bytes(),
        );
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        let ends = if from_client {
            [(client, port), (SERVER, PORT)]
        } else {
            [(SERVER, PORT), (client, port)]
        };
        packet.extend(ends.iter().flat_map(|(address, _)| *address));
        packet.extend(ends.iter().flat_map(|(_, port)| port.to_be_bytes()));
        packet.extend(sequence.to_be_bytes());
        packet.extend(acknowledged.to_be_bytes());
        packet.extend([
            8 << 4,
            flags,
            0xff,
            0xff,
            0,
            0,
            0,
            0,
            1,
            1,
            8,
            10,
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            1,
        ]);
        packet.extend(payload);
        self.written.packets += 1;
        self.write(&packet)
    }
}

const SCHEMA: [&str; 2] = [
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    "CREATE TABLE shop.users (user_id uuid PRIMARY KEY, name text)",
];
const SELECT: &str = "SELECT name FROM shop.users WHERE user_id = ?";
const ID: [u8; 16] = [7; 16];

fn envelope(version: u8, stream: u16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![version, 0];
    bytes.extend(stream.to_be_bytes());
    bytes.push(opcode);
    bytes.extend(long(body.len()));
    bytes.extend(body);
    bytes
}

/// An `[int]`, or the length of something.
fn long(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

fn long_string(text: &str) -> Vec<u8> {
    [&long(text.len())[..], text.as_bytes()].concat()
}

fn query(text: &str) -> Vec<u8> {
    envelope(0x04, 0, 0x07, &[&long_string(text)[..], &[0, 1, 0]].concat())
}

/// LOCAL_QUORUM, one value, no metadata wanted, and a page size, as drivers ask.
fn execute(stream: u16, key: u64) -> Vec<u8> {
    let key = u128::from(key)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        .to_be_bytes();
    let body = [
        &[0, 16][..],
        &ID,
        &[0, 6, 0x07, 0, 1, 0, 0, 0, 16],
        &key,
        &[0, 0, 0x13, 0x88],
    ]
    .concat();
    envelope(0x04, stream, 0x0a, &body)
}

/// One row with one text of 100 bytes, without metadata.
fn rows(stream: u16) -> Vec<u8> {
    let body = [
        &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 100][..],
        &[b'n'; 100],
    ]
    .concat();
    envelope(0x84, stream, 0x08, &body)
}

/// The answer to PREPARE: one bind marker, which is the partition key; one column.
fn prepared() -> Vec<u8> {
    let strings = |texts: &[&str]| -> Vec<u8> {
        let string = |text: &&str| [&long(text.len())[2..], text.as_bytes()].concat();
        texts.iter().flat_map(string).collect()
    };
    let body = [
        &[0, 0, 0, 4, 0, 16][..],
        &ID,
        &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0],
        &strings(&["shop", "users", "user_id"]),
        &[0, 0x0c, 0, 0, 0, 1, 0, 0, 0, 1],
        &strings(&["shop", "users", "name"]),
        &[0, 0x0d],
    ]
    .concat();
    envelope(0x84, 0, 0x08, &body)
}
