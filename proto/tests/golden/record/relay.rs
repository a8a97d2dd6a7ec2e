//! A relay that keeps what passes as one stream of chunks, in the order in which they passed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A relay to a node.
pub(crate) struct Relay {
    /// Where the driver connects.
    pub(crate) address: SocketAddr,
    recording: Arc<Mutex<Vec<u8>>>,
}

/// Where a chunk belongs: the connection's number and 0 for requests, 1 for responses.
type Place = [u8; 2];

impl Relay {
    /// Listens on the address of the node, on another port, until the process ends: a driver that is told the
    /// address by the node and keeps the port comes here too.
    pub(crate) fn start(node: SocketAddr) -> Self {
        let listener = TcpListener::bind((node.ip(), 0)).expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let recording = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&recording);
        std::thread::spawn(move || {
            for (number, client) in (0..=u8::MAX).zip(listener.incoming()) {
                let server = TcpStream::connect(node).expect("the node accepts");
                pass_on(number, client.expect("the listener accepts"), server, &kept);
            }
        });
        Relay { address, recording }
    }

    /// Everything, once the ends of all connections have closed them.
    pub(crate) fn finish(self) -> Vec<u8> {
        // The acceptor holds the recording, and each direction that still passes.
        while Arc::strong_count(&self.recording) > 2 {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::mem::take(&mut *self.recording.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn pass_on(number: u8, client: TcpStream, server: TcpStream, recording: &Arc<Mutex<Vec<u8>>>) {
    let reader = |stream: &TcpStream| stream.try_clone().expect("a socket can be shared");
    for (place, from, to) in [
        ([number, 0], reader(&client), reader(&server)),
        ([number, 1], server, client),
    ] {
        let recording = Arc::clone(recording);
        std::thread::spawn(move || copy(place, from, to, &recording));
    }
}

/// A chunk is recorded before it is passed on, so that an answer never precedes its question.
fn copy(place: Place, mut from: TcpStream, mut to: TcpStream, recording: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let chunk = &buffer[..length];
        let counted = u32::try_from(length).expect("a chunk fits the buffer");
        let mut recording = recording.lock().unwrap_or_else(PoisonError::into_inner);
        recording.extend(place);
        recording.extend(counted.to_be_bytes());
        recording.extend(chunk);
        drop(recording);
        if to.write_all(chunk).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
