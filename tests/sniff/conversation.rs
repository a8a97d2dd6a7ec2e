//! A relay that keeps what passes, with the time, and writes it down as packets: a capture without the rights
//! that capturing takes.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::sniff::{
    packets::Capture,
    tcp::{self, ACK, FIN, PUSH, SYN, Segment},
};

/// What a read gave, at the latest when it was passed on.
#[derive(Clone)]
struct Chunk {
    at: u64,
    connection: usize,
    from_client: bool,
    /// None at the end of the direction.
    bytes: Vec<u8>,
}

/// A relay to an address.
pub(crate) struct Relay {
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    kept: Arc<Mutex<Vec<Chunk>>>,
}

/// Bytes of a packet on an ordinary network.
pub(crate) const MSS: usize = 1448;

impl Relay {
    /// Listens on a free port until the process ends.
    pub(crate) fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keeping = Arc::clone(&kept);
        std::thread::spawn(move || {
            for (connection, client) in listener.incoming().enumerate() {
                let (client, server) = (client.unwrap(), TcpStream::connect(to).unwrap());
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (client_too, server_too) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                for (from_client, from, to) in [(true, client, server), (false, server_too, client_too)] {
                    let kept = Arc::clone(&keeping);
                    std::thread::spawn(move || pass_on(connection, from_client, from, to, &kept));
                }
            }
        });
        Self { address, kept }
    }

    /// What has passed since the start, as packets to and from a server at port 9042, once all connections
    /// have ended.
    ///
    /// # Panics
    /// If they do not end.
    pub(crate) fn capture(&self) -> Capture {
        let deadline = Instant::now() + Duration::from_secs(30);
        // The thread that listens holds one too.
        while Arc::strong_count(&self.kept) > 2 {
            assert!(Instant::now() < deadline, "a connection does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        tcp::capture(&written_down(&self.kept.lock().unwrap()))
    }
}

fn pass_on(
    connection: usize,
    from_client: bool,
    mut from: TcpStream,
    mut to: TcpStream,
    kept: &Mutex<Vec<Chunk>>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).unwrap_or(0);
        // Kept before it is passed on: no answer precedes its question.
        let mut kept = kept.lock().unwrap();
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        kept.push(Chunk {
            at: u64::try_from(at.as_nanos()).unwrap(),
            connection,
            from_client,
            bytes: buffer[..length].to_vec(),
        });
        drop(kept);
        if length == 0 || to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Both sides of a connection: where they are, and what they send next.
struct Sides {
    client: SocketAddr,
    server: SocketAddr,
    next: [u32; 2],
}

impl Sides {
    fn new(connection: usize) -> Self {
        let port = 40_000 + u16::try_from(connection).unwrap();
        let first = u32::try_from(connection).unwrap().wrapping_mul(0x9e37_79b9);
        Self {
            client: (Ipv4Addr::LOCALHOST, port).into(),
            server: (Ipv4Addr::LOCALHOST, 9042).into(),
            next: [first, !first],
        }
    }

    fn send(&mut self, at: u64, from_client: bool, flags: u8, payload: &[u8]) -> Segment {
        let (from, to) = if from_client {
            (self.client, self.server)
        } else {
            (self.server, self.client)
        };
        let side = usize::from(!from_client);
        let segment = Segment {
            at,
            from,
            to,
            sequence: self.next[side],
            acknowledgement: self.next[1 - side],
            flags,
            payload: payload.to_vec(),
        };
        self.next[side] = segment.end();
        segment
    }

    fn open(&mut self, at: u64) -> [Segment; 3] {
        [
            self.send(at, true, SYN, &[]),
            self.send(at, false, SYN | ACK, &[]),
            self.send(at, true, ACK, &[]),
        ]
    }
}

fn written_down(chunks: &[Chunk]) -> Vec<Segment> {
    let mut sides: Vec<Option<Sides>> = Vec::new();
    let mut segments = Vec::new();
    for chunk in chunks {
        if sides.len() <= chunk.connection {
            sides.resize_with(chunk.connection + 1, || None);
        }
        let sides = sides[chunk.connection].get_or_insert_with(|| {
            let mut sides = Sides::new(chunk.connection);
            segments.extend(sides.open(chunk.at));
            sides
        });
        if chunk.bytes.is_empty() {
            segments.push(sides.send(chunk.at, chunk.from_client, FIN | ACK, &[]));
        }
        for part in chunk.bytes.chunks(MSS) {
            segments.push(sides.send(chunk.at, chunk.from_client, PUSH | ACK, part));
        }
    }
    segments
}
