//! What is hostile and no client: a second cluster. The store is in `tests/fleet/endless_store.rs`.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use crate::wire::{Node, envelope};

/// A node that lets everybody in, and responds to each request with something that is to be kept.
pub(super) struct SecondCluster {
    pub(super) address: SocketAddr,
    /// Requests after the handshake.
    pub(super) asked: Arc<AtomicU64>,
}

impl SecondCluster {
    pub(super) fn start() -> Self {
        let asked = Arc::<AtomicU64>::default();
        let of_node = Arc::clone(&asked);
        let node = Node::start(move |connection| {
            // It ends when the other side has had enough, or nothing to say.
            let _ = serve(connection, &of_node);
        });
        Self {
            address: node.address,
            asked,
        }
    }
}

fn serve(mut connection: TcpStream, asked: &AtomicU64) -> io::Result<()> {
    loop {
        let mut header = [0; 9];
        connection.read_exact(&mut header)?;
        let [version, _, high, low, opcode, length @ ..] = header;
        let length = u32::from_be_bytes(length);
        io::copy(&mut (&connection).take(length.into()), &mut io::sink())?;
        let stream = i16::from_be_bytes([high, low]);
        let mut respond = |opcode, body: &[u8]| connection.write_all(&envelope(0x84, stream, opcode, body));
        match opcode {
            _ if version > 4 => respond(ERROR, &error(0x0a, b"Invalid or unsupported protocol version"))?,
            OPTIONS => respond(SUPPORTED, b"\0\x01\0\x0bCQL_VERSION\0\x01\0\x053.4.5")?,
            STARTUP | REGISTER => respond(READY, &[])?,
            _ => match asked.fetch_add(1, Ordering::Relaxed) % 4 {
                0 => respond(RESULT, &page_before_others())?,
                1 => respond(RESULT, &prepared())?,
                2 => respond(ERROR, &error(0x2200, &[b'n'; 60_000]))?,
                _ => half(&connection, stream)?,
            },
        }
    }
}

const ERROR: u8 = 0x00;
const STARTUP: u8 = 0x01;
const READY: u8 = 0x02;
const OPTIONS: u8 = 0x05;
const SUPPORTED: u8 = 0x06;
const RESULT: u8 = 0x08;
const REGISTER: u8 = 0x0b;

fn error(code: u32, message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    [&code.to_be_bytes()[..], &length, message].concat()
}

/// No rows, and a place to go on from that is as long as a page.
fn page_before_others() -> Vec<u8> {
    const ROWS: u32 = 2;
    const MORE_WITHOUT_METADATA: u32 = 0x0002 | 0x0004;
    let place = vec![7; 1 << 20];
    let length = u32::try_from(place.len()).unwrap();
    let head = [ROWS, MORE_WITHOUT_METADATA, 0, length].map(u32::to_be_bytes);
    [head.as_flattened(), &place, &0_u32.to_be_bytes()].concat()
}

/// An id as long as ids can be, of a statement without markers and columns.
fn prepared() -> Vec<u8> {
    const PREPARED: u32 = 4;
    let id = [9; 60_000];
    let length = u16::try_from(id.len()).unwrap().to_be_bytes();
    let metadata = [0_u32, 0, 0, 0x0004, 0].map(u32::to_be_bytes);
    [&PREPARED.to_be_bytes()[..], &length, &id, metadata.as_flattened()].concat()
}

/// The beginning of a response that is said to have 200 MB; slowly, since it is not the machine that is attacked.
fn half(mut connection: &TcpStream, stream: i16) -> io::Result<()> {
    let mut header = envelope(0x84, stream, RESULT, &[]);
    header[5..].copy_from_slice(&200_000_000_u32.to_be_bytes());
    connection.write_all(&header)?;
    for _ in 0..200_000_000 / PART {
        connection.write_all(&[0; PART])?;
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

const PART: usize = 64 << 10;
