//! Nodes that die, stop for a while, or no longer read. The node that dies is a process of its own: a relay
//! (a `cqlens proxy` as it happens) in front of a scripted node, so that the kernel ends its connections as
//! it ends those of a real one.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::faults::{
    leaks::Holds,
    sight::{End, ScriptedNode, Sight, acquainted, ask, fault, proxy, watch},
    support::process::resident_kib,
    support::proxy::Proxy,
    wire::{LIMIT, query, void},
};

/// Far longer than any answer takes, and shorter than the pause.
const MOMENT: Duration = Duration::from_millis(500);

/// A node that can be killed; [`fault`] is never answered.
struct Mortal {
    scripted: ScriptedNode,
    process: Proxy,
}

impl Mortal {
    fn start() -> Self {
        let scripted = ScriptedNode::start(|mut node| watch(&mut node, LIMIT));
        let process = proxy(scripted.address, &[]);
        Self { scripted, process }
    }

    /// Kills it, and starts it again where it was.
    fn restart(self) -> Self {
        let address = self.process.address;
        drop(self.process);
        let arguments = ["--no-control-connection"];
        let upstream = self.scripted.address;
        let process = Proxy::start_at(address, env!("CARGO_BIN_EXE_cqlens"), upstream, &arguments);
        Self { process, ..self }
    }
}

/// Kills the node while requests are on their way to it, and starts it again: what clients see.
fn killed_mid_request(node: Mortal, front: &Proxy) -> Mortal {
    let mut clients = [node.process.address, front.address].map(acquainted);
    for client in &mut clients {
        client.write_all(&fault()).unwrap();
    }
    thread::sleep(Duration::from_millis(100));
    let node = node.restart();
    let [direct, through] = clients.each_mut().map(|client| watch(client, LIMIT));
    assert_eq!(through, direct);
    assert_eq!((direct.bytes.len(), direct.end), (0, End::Finished));
    // Whoever connects anew is served.
    for address in [node.process.address, front.address] {
        drop(acquainted(address));
    }
    node
}

#[test]
fn a_node_that_is_killed_mid_request_and_started_again() {
    let mut node = Mortal::start();
    let front = proxy(node.process.address, &[]);
    node = killed_mid_request(node, &front);
    // What tables and the allocator keep is there afterwards.
    let holds = Holds::of(&front);
    for _ in 0..3 {
        node = killed_mid_request(node, &front);
    }
    holds.assert_back(4 << 10);
    assert_eq!(front.stop(LIMIT).code, 0);
}

#[test]
fn a_node_that_stands_still_for_seconds() {
    let mut node = Mortal::start();
    let front = proxy(node.process.address, &[]);
    // What tables and the allocator keep is there afterwards.
    drop(acquainted(front.address));
    let holds = Holds::of(&front);
    let mut clients = [node.process.address, front.address].map(acquainted);
    node.process.signal("STOP");
    // The signal takes its way through a supervisor.
    thread::sleep(MOMENT);
    for client in &mut clients {
        client.write_all(&query(5, "SELECT k FROM s.t")).unwrap();
    }
    let silent = Sight {
        bytes: Vec::new(),
        end: End::Silent,
    };
    assert_eq!(
        clients.each_mut().map(|client| watch(client, 4 * MOMENT)),
        [silent.clone(), silent]
    );
    // New clients are accepted meanwhile; their requests wait, too.
    let mut late = TcpStream::connect(front.address).unwrap();
    late.write_all(&query(6, "SELECT k FROM s.t")).unwrap();
    node.process.signal("CONT");
    for (client, stream) in clients.iter_mut().chain([&mut late]).zip([5, 5, 6]) {
        client.set_read_timeout(Some(LIMIT)).unwrap();
        let mut answer = void(0);
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, void(stream));
        ask(client, 7);
    }
    drop((clients, late));
    holds.assert_back(4 << 10);
    assert_eq!(front.stop(LIMIT).code, 0);
}

/// What is sent into a stall, and out of one: far more than sockets hold.
const LOAD: usize = 48 << 20;

/// Bytes that can be told from each other.
fn load() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LOAD);
    while bytes.len() < LOAD {
        let stream = i16::try_from(bytes.len() % 32_000).unwrap();
        bytes.extend(query(stream, &"x".repeat(bytes.len() % 5_000)));
    }
    bytes
}

/// What the process has resident at most, until the closure is done.
fn most_resident<T>(process: u32, work: impl FnOnce() -> T) -> (T, u64) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(resident_kib(process));
                thread::sleep(Duration::from_millis(5));
            }
            most
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, watching.join().unwrap())
    })
}

#[test]
fn a_node_that_reads_nothing_for_a_while_gets_everything_later_and_nothing_piles_up() {
    static READS: AtomicBool = AtomicBool::new(false);
    let node = ScriptedNode::start(|mut node| {
        thread::sleep(2 * MOMENT);
        READS.store(true, Ordering::SeqCst);
        watch(&mut node, LIMIT)
    });
    let front = proxy(node.address, &[]);
    let load = load();
    let before = resident_kib(front.id());
    for address in [node.address, front.address] {
        let other = crate::faults::sight::Other::start(front.address);
        READS.store(false, Ordering::SeqCst);
        let mut client = acquainted(address);
        let (was_read, most) = most_resident(front.id(), || {
            client.write_all(&fault()).unwrap();
            client.write_all(&load).unwrap();
            drop(client);
            READS.load(Ordering::SeqCst)
        });
        let seen = node.seen.recv_timeout(LIMIT).unwrap();
        assert!(
            seen.bytes == load,
            "{} of {} bytes, or other ones",
            seen.bytes.len(),
            load.len()
        );
        assert!(other.stop() > 0);
        // The writer was held up: what the node did not read was not taken off its hands.
        assert!(was_read);
        // The sockets' own buffers are the kernel's; the audit has a bound of 64 MiB for what waits for it.
        assert!(
            most < before + (80 << 10),
            "{most} KiB are resident, {before} were"
        );
    }
    assert_eq!(front.stop(LIMIT).code, 0);
}

#[test]
fn a_client_that_reads_nothing_for_a_while_gets_everything_later() {
    static READS: AtomicBool = AtomicBool::new(false);
    let node = ScriptedNode::start(|mut node| {
        node.write_all(&load()).unwrap();
        assert!(READS.swap(false, Ordering::SeqCst), "the node was not held up");
        drop(node);
        Sight {
            bytes: Vec::new(),
            end: End::Finished,
        }
    });
    let front = proxy(node.address, &[]);
    let reads_late = |address: SocketAddr| {
        let mut client = acquainted(address);
        client.write_all(&fault()).unwrap();
        thread::sleep(2 * MOMENT);
        READS.store(true, Ordering::SeqCst);
        watch(&mut client, LIMIT)
    };
    let other = crate::faults::sight::Other::start(front.address);
    let direct = reads_late(node.address);
    let through = reads_late(front.address);
    assert!(
        direct == through && direct.bytes == load(),
        "{direct:?} and {through:?}"
    );
    assert!(other.stop() > 0);
    assert_eq!(front.stop(LIMIT).code, 0);
}
