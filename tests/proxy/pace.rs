//! Whoever reads slowly is waited for: the other side has to wait too, and nothing piles up between them.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use crate::proxy::{
    procfs::{Process, until},
    wire::{LIMIT, Node, connect, envelope, proxy, query, read_to_end, void},
};

/// More than all buffers of the kernel hold on the way.
const LARGE: usize = 64 << 20;

/// What may pile up in the proxy: chunks that wait for the audit, and an envelope that it joins. Far less
/// than `LARGE`.
const MOST_KIB: u64 = 32 << 10;

/// The byte that stands at a place of the large body: no two places nearby look the same.
fn byte_at(place: usize) -> u8 {
    let mixed = (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.to_be_bytes()[0]
}

fn header(version: u8, opcode: u8) -> Vec<u8> {
    let mut header = envelope(version, 7, opcode, &[]);
    header[5..].copy_from_slice(&u32::try_from(LARGE).unwrap().to_be_bytes());
    header
}

/// Writes the large envelope and counts what the kernel has taken.
fn write_large(to: &mut TcpStream, header: &[u8], written: &AtomicUsize) -> io::Result<()> {
    to.write_all(header)?;
    let mut place = 0;
    while place < LARGE {
        let part: Vec<u8> = (place..place + (64 << 10)).map(byte_at).collect();
        to.write_all(&part)?;
        place += part.len();
        written.store(place, Ordering::Relaxed);
    }
    Ok(())
}

/// Reads the large envelope, all bytes of which must be as they were written.
fn read_large(from: &mut TcpStream, header: &[u8]) {
    let mut got = vec![0; header.len()];
    from.read_exact(&mut got).unwrap();
    assert_eq!(got, header);
    let mut place = 0;
    let mut part = vec![0; 64 << 10];
    while place < LARGE {
        from.read_exact(&mut part).unwrap();
        let wrong = part
            .iter()
            .enumerate()
            .find(|(index, byte)| **byte != byte_at(place + index));
        assert_eq!(wrong, None, "after {place} bytes");
        place += part.len();
    }
}

/// Waits until the writer is stuck; how much was written.
fn stalled(written: &AtomicUsize) -> usize {
    let mut seen = (0, Instant::now());
    until("the writer has to wait", || {
        let now = written.load(Ordering::Relaxed);
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        now > 0 && seen.1.elapsed() > Duration::from_millis(700)
    });
    seen.0
}

/// The proxy's memory while a writer is stuck does not grow.
fn stays_small(address: SocketAddr, before: u64, written: &AtomicUsize) {
    let stuck_at = stalled(written);
    assert!(stuck_at < LARGE, "all of it was taken");
    let grown = Process::listening_at(address)
        .resident_kib()
        .saturating_sub(before);
    assert!(grown < MOST_KIB, "{grown} KiB");
}

#[test]
fn a_client_that_does_not_read_makes_the_node_wait_and_gets_every_byte_in_the_end() {
    let written = Arc::new(AtomicUsize::new(0));
    let node = {
        let written = Arc::clone(&written);
        Node::start(move |mut connection| {
            if connection
                .read_exact(&mut vec![0; query(7, "SELECT").len()])
                .is_ok()
            {
                write_large(&mut connection, &header(0x84, 0x08), &written).unwrap();
                let _ = connection.read(&mut [0]);
            }
        })
    };
    let proxy = proxy(node.address, &[]);
    let before = Process::listening_at(proxy.address).resident_kib();
    let mut client = connect(proxy.address);
    client.write_all(&query(7, "SELECT")).unwrap();
    stays_small(proxy.address, before, &written);
    read_large(&mut client, &header(0x84, 0x08));
}

#[test]
fn a_node_that_does_not_read_makes_the_client_wait_and_gets_every_byte_in_the_end() {
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let may_go_on = Arc::new(std::sync::Mutex::new(may_go_on));
    let node = Node::start(move |mut connection| {
        // The connection that only asked whether the proxy listens.
        if connection.peek(&mut [0]).unwrap() == 0 {
            return;
        }
        may_go_on.lock().unwrap().recv().unwrap();
        read_large(&mut connection, &header(4, 0x07));
        connection.write_all(&void(7)).unwrap();
    });
    let proxy = proxy(node.address, &[]);
    let before = Process::listening_at(proxy.address).resident_kib();
    let mut client = connect(proxy.address);
    let written = Arc::new(AtomicUsize::new(0));
    let writing = {
        let (mut client, written) = (client.try_clone().unwrap(), Arc::clone(&written));
        thread::spawn(move || write_large(&mut client, &header(4, 0x07), &written))
    };
    stays_small(proxy.address, before, &written);
    go_on.send(()).unwrap();
    writing.join().unwrap().unwrap();
    let mut answer = vec![0; void(7).len()];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, void(7));
}

#[test]
fn a_client_and_a_node_that_send_byte_by_byte_understand_each_other() {
    let slowly = |to: &mut TcpStream, bytes: &[u8]| {
        for byte in bytes {
            to.write_all(&[*byte]).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
    };
    let request = query(7, "SELECT k FROM s.t");
    let expected = request.clone();
    let node = Node::start(move |mut connection| {
        let mut request = vec![0; expected.len()];
        if connection.read_exact(&mut request).is_ok() {
            assert_eq!(request, expected);
            slowly(&mut connection, &void(7));
        }
    });
    let proxy = proxy(node.address, &[]);
    let mut client = connect(proxy.address);
    slowly(&mut client, &request);
    assert_eq!(read_to_end(&mut client), void(7));
}

#[test]
fn a_client_that_has_finished_still_gets_what_the_node_has_to_say() {
    let (say, may_say) = mpsc::channel::<u8>();
    let may_say = Arc::new(std::sync::Mutex::new(may_say));
    let node = Node::start(move |mut connection| {
        let mut request = Vec::new();
        connection.read_to_end(&mut request).unwrap();
        if !request.is_empty() {
            for byte in may_say.lock().unwrap().iter() {
                connection.write_all(&[byte]).unwrap();
            }
        }
    });
    let proxy = proxy(node.address, &[]);
    let mut client = connect(proxy.address);
    client.write_all(b"all that I have").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    for byte in [1, 2, 3] {
        say.send(byte).unwrap();
        let mut got = [0];
        client.read_exact(&mut got).unwrap();
        assert_eq!(got, [byte]);
    }
    drop(say);
    assert_eq!(read_to_end(&mut client), b"");
}

#[test]
fn an_end_that_takes_nothing_for_longer_than_allowed_is_given_up() {
    let (sender, ended) = mpsc::channel();
    let node = Node::start(move |mut connection| {
        if connection
            .read_exact(&mut vec![0; query(7, "SELECT").len()])
            .is_ok()
        {
            let written = write_large(&mut connection, &header(0x84, 0x08), &AtomicUsize::new(0));
            sender.send(written.is_err()).unwrap();
        }
    });
    let proxy = proxy(node.address, &["--unacknowledged-timeout", "1s"]);
    let mut client = connect(proxy.address);
    client.write_all(&query(7, "SELECT")).unwrap();
    assert_eq!(ended.recv_timeout(LIMIT), Ok(true));
    until("it is said whose fault it was", || {
        proxy.log().contains("the client failed")
    });
}
