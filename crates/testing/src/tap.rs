//! A relay that keeps every byte of every connection, in both directions: with one before the proxy and one
//! behind it a test sees that bytes out are bytes in.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// All bytes of one connection.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct Recording {
    /// What the client sent.
    pub requests: Vec<u8>,
    /// What the server sent.
    pub responses: Vec<u8>,
}

/// A relay from a loopback port to `upstream`.
pub struct Tap {
    /// Where clients connect.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    acceptor: JoinHandle<usize>,
    recordings: mpsc::Receiver<Recording>,
}

impl Tap {
    /// Listens on a free port of 127.0.0.1; a connection whose upstream refuses is closed and recorded as
    /// empty.
    pub fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, recordings) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        let acceptor = std::thread::spawn(move || accept(&listener, upstream, &stopped, &sender));
        Self {
            address,
            stop,
            acceptor,
            recordings,
        }
    }

    /// Stops accepting, waits until every connection is closed by its ends, and returns the recordings in the
    /// order of closing.
    ///
    /// # Panics
    /// If a connection is still open after `limit`.
    pub fn finish(self, limit: Duration) -> Vec<Recording> {
        self.stop.store(true, Ordering::SeqCst);
        // The acceptor looks at the flag when it has accepted something.
        drop(TcpStream::connect(self.address));
        let accepted = self.acceptor.join().unwrap();
        let deadline = Instant::now() + limit;
        let next = |index| {
            let patience = deadline.saturating_duration_since(Instant::now());
            self.recordings
                .recv_timeout(patience)
                .unwrap_or_else(|_| panic!("{} of {accepted} connections are still open", accepted - index))
        };
        (0..accepted).map(next).collect()
    }
}

/// Returns how many connections it has accepted.
fn accept(
    listener: &TcpListener,
    upstream: SocketAddr,
    stop: &AtomicBool,
    recordings: &mpsc::Sender<Recording>,
) -> usize {
    for accepted in 0.. {
        let (client, _) = listener.accept().unwrap();
        if stop.load(Ordering::SeqCst) {
            return accepted;
        }
        let recordings = recordings.clone();
        std::thread::spawn(move || {
            let recording = TcpStream::connect(upstream)
                .map_or_else(|_| Recording::default(), |server| relay(client, server));
            let _ = recordings.send(recording);
        });
    }
    unreachable!("the loop has no end of its own")
}

/// Relays until both directions have ended.
fn relay(client: TcpStream, server: TcpStream) -> Recording {
    let (mut client_writer, mut server_writer) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let requests = std::thread::spawn(move || copy(client, &mut server_writer));
    let responses = copy(server, &mut client_writer);
    Recording {
        requests: requests.join().unwrap(),
        responses,
    }
}

/// Passes bytes on as they come, then the end of the stream, and returns them all.
fn copy(mut from: TcpStream, to: &mut TcpStream) -> Vec<u8> {
    let mut copied = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        copied.extend_from_slice(&buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            // The receiver is gone: let the sender know, it may have nothing to read and wait for ever.
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    copied
}

/// Checks that every connection of `front` is byte for byte one of `back`, and returns those of `back` that
/// are left: the connections that whatever stands between the two made on its own account.
///
/// # Panics
/// With the first difference to the most similar connection behind.
pub fn assert_passed_unchanged(front: &[Recording], back: &[Recording]) -> Vec<Recording> {
    let mut left = back.to_vec();
    for recording in front {
        let position = left.iter().position(|candidate| candidate == recording);
        let position = position.unwrap_or_else(|| panic!("{}", nearest_difference(recording, &left)));
        left.swap_remove(position);
    }
    left
}

fn nearest_difference(recording: &Recording, candidates: &[Recording]) -> String {
    let agreement = |candidate: &&Recording| {
        common(&recording.requests, &candidate.requests) + common(&recording.responses, &candidate.responses)
    };
    let Some(nearest) = candidates.iter().max_by_key(agreement) else {
        return "a connection before the proxy has none behind it".to_owned();
    };
    format!(
        "no connection behind the proxy has the same bytes; the most similar one:\nrequests  {}\nresponses {}",
        difference(&recording.requests, &nearest.requests),
        difference(&recording.responses, &nearest.responses)
    )
}

fn difference(front: &[u8], back: &[u8]) -> String {
    let at = common(front, back);
    if at == front.len() && at == back.len() {
        return format!("equal, {at} bytes");
    }
    let around = |bytes: &[u8]| bytes[at.saturating_sub(8)..bytes.len().min(at + 24)].to_vec();
    format!(
        "differ at byte {at} of {} before and {} behind\n  before {:02x?}\n  behind {:02x?}",
        front.len(),
        back.len(),
        around(front),
        around(back)
    )
}

fn common(left: &[u8], right: &[u8]) -> usize {
    left.iter()
        .zip(right)
        .take_while(|(left, right)| left == right)
        .count()
}
