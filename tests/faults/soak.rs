//! Real sessions with changes, by the thousand: through taps, queue and audit inside this process, and some
//! of them through a real proxy.
//!
//! `CQLENS_SOAK=1000000` sets how many changes, instead of what fits a run of all tests; `CQLENS_SOAK_SEED`
//! which.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cqlens_audit::{
    audit::{Audit, HashKey},
    catalog::Live,
};
use cqlens_capture::{Clock, Connection, ConnectionId, Queue, QueueLimits, Tap};
use cqlens_proto::envelope::Direction;
use cqlens_window::Coverage;
use jiff::Timestamp;

use crate::faults::{
    leaks::Holds,
    mutator::{Chance, Passage, Session, sessions},
    sight::{Other, acquainted_with, proxy},
    support::{namespace::run_alone, process::resident_kib},
    wire::LIMIT,
};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Everything of a proxy but its sockets.
struct Line {
    queue: Arc<Queue>,
    audit: Audit,
    live: Arc<Live>,
    clock: Clock,
    connections: u64,
    seen: Coverage,
}

impl Line {
    fn new() -> Self {
        let queue = Arc::new(Queue::new(QueueLimits::default()));
        let (live, key) = (Arc::new(Live::default()), HashKey::random());
        let now = Timestamp::now();
        let audit = Audit::start(Arc::clone(&queue), &live, key, "soak", now).unwrap();
        Self {
            queue,
            audit,
            live,
            clock: Clock::start(),
            connections: 0,
            seen: Coverage::default(),
        }
    }

    fn pass(&mut self, passage: &Passage) {
        let address = "127.0.0.1:5".parse().unwrap();
        let connection = Arc::new(Connection::new(ConnectionId(self.connections), address));
        self.connections += 1;
        let tap = |direction| {
            Tap::new(
                Arc::clone(&connection),
                direction,
                Arc::clone(&self.queue),
                self.clock,
            )
        };
        let (mut requests, mut responses) = (tap(Direction::Request), tap(Direction::Response));
        for (direction, bytes) in passage.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            match direction {
                Direction::Request => requests.offer(bytes),
                Direction::Response => responses.offer(bytes),
            }
        }
        drop((requests, responses));
        connection.close(Clock::start().now());
        // Nothing is to be left out here.
        while self.queue.waiting_bytes() > 16 << 20 {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// As a running proxy does at the end of a window. Only what was seen is kept: windows have limits of
    /// their own, and would hide what the audit itself keeps.
    fn end_window(&mut self) {
        let window = self.audit.take_window(Timestamp::now());
        self.seen.merge(&window.coverage);
    }

    fn finish(self) -> Coverage {
        let mut seen = self.seen;
        seen.merge(&self.audit.stop(Timestamp::now()).coverage);
        seen
    }
}

#[test]
fn mutated_sessions_do_the_audit_no_harm() {
    println!("{}", run_alone("faults::soak::in_a_process_of_its_own"));
}

#[test]
#[ignore = "it measures the memory of its process: the test above runs it in one of its own"]
fn in_a_process_of_its_own() {
    let wanted = setting("CQLENS_SOAK", 50_000);
    let mut chance = Chance::new(setting("CQLENS_SOAK_SEED", 1));
    let sessions = sessions();
    let mut line = Line::new();
    let begun = Instant::now();
    let (mut changes, mut bytes) = (0, 0);
    let (mut early, mut step) = (None, 0);
    while changes < wanted {
        let session: &Session = &sessions[chance.below(sessions.len())];
        let (passage, changed) = session.changed(&mut chance);
        bytes += passage.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        line.pass(&passage);
        changes += changed;
        if line.connections.is_multiple_of(500) {
            line.end_window();
        }
        if changes > step {
            step += wanted / 10;
            println!(
                "{changes} changes: {} KiB resident, {} KiB of prepared statements, {} KiB of schema",
                resident_kib(std::process::id()),
                line.live.prepared.bytes() >> 10,
                line.live.schema().to_cql().len() >> 10,
            );
        }
        // What grows until tables are full has grown by then.
        if changes > wanted / 3 {
            early.get_or_insert_with(|| resident_kib(std::process::id()));
        }
    }
    let late = resident_kib(std::process::id());
    let connections = line.connections;
    let coverage = line.finish();
    println!(
        "{changes} changes in {connections} sessions, {} MiB, {:?}; resident after a third {} KiB, at the end {late} KiB; {coverage:#?}",
        bytes >> 20,
        begun.elapsed(),
        early.unwrap_or(late),
    );
    assert_eq!(coverage.auditor_failures, 0);
    assert_eq!((coverage.dropped, coverage.dropped_bytes), (0, 0));
    assert!(coverage.audited > 0 && coverage.undecoded > 0 && !coverage.opaque_connections.is_empty());
    assert_eq!(coverage.requests, coverage.audited + coverage.undecoded);
    let more = late.saturating_sub(early.unwrap_or(late));
    assert!(more < 128 << 10, "{more} KiB more");
}

/// The node refuses what it cannot read, and what came before the refusal is left out.
#[test]
fn a_request_without_an_end_is_not_missing_where_others_were_left_out() {
    let mut line = Line::new();
    let chunk = |direction, bytes: &'static [u8]| (direction, Bytes::from_static(bytes));
    line.pass(&vec![
        chunk(Direction::Request, b"\x07\0\0\x01\x05\0\0\0\0"),
        chunk(Direction::Request, b"\x04\0\0\x02\x05\0\0\0\0"),
        chunk(Direction::Response, b"\x84\0\0\x01\0\0\0\0\x06\0\0\0\x0a\0\0"),
        chunk(Direction::Request, b"\x04\0\0\x03\x07\0\0\0\x20\0\0\0\x19SELE"),
    ]);
    let coverage = line.finish();
    assert_eq!((coverage.dropped, coverage.requests), (0, 0), "{coverage:#?}");
}

/// What the node answers next.
type Answer = Arc<Mutex<Vec<u8>>>;

/// A node that answers whatever it is told to, a connection at a time.
fn puppet() -> (SocketAddr, Answer, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(Mutex::new(Vec::new()));
    let (sender, received) = mpsc::channel();
    let answers = Arc::clone(&answer);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (connection, answers, sender) = (connection.unwrap(), Arc::clone(&answers), sender.clone());
            thread::spawn(move || {
                let Some(mut connection) = acquainted_with(connection) else {
                    return;
                };
                let answer = answers.lock().unwrap().clone();
                let mut writer = connection.try_clone().unwrap();
                let writing = thread::spawn(move || {
                    writer.write_all(&answer).unwrap();
                    writer.shutdown(Shutdown::Write).unwrap();
                });
                let mut bytes = Vec::new();
                connection.read_to_end(&mut bytes).unwrap();
                writing.join().unwrap();
                let _ = sender.send(bytes);
            });
        }
    });
    (address, answer, received)
}

#[test]
fn mutated_sessions_pass_a_real_proxy_unchanged() {
    let wanted = setting("CQLENS_SOAK", 20_000).min(100_000) / 10;
    let mut chance = Chance::new(setting("CQLENS_SOAK_SEED", 2));
    let sessions = sessions();
    let (address, answer, received) = puppet();
    let proxy = proxy(address, &[]);
    let holds = Holds::of(&proxy);
    let other = Other::start(proxy.address);
    let mut changes = 0;
    while changes < wanted {
        let (passage, changed) = sessions[chance.below(sessions.len())].changed(&mut chance);
        changes += changed;
        let of = |wanted: Direction| {
            let parts = passage.iter().filter(|(direction, _)| *direction == wanted);
            parts.flat_map(|(_, bytes)| bytes.to_vec()).collect::<Vec<u8>>()
        };
        let (requests, responses) = (of(Direction::Request), of(Direction::Response));
        if requests.is_empty() {
            continue;
        }
        answer.lock().unwrap().clone_from(&responses);
        let mut client = TcpStream::connect(proxy.address).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client.write_all(&requests).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert!(got == responses, "an answer was changed");
        assert!(
            received.recv_timeout(LIMIT).unwrap() == requests,
            "a request was changed"
        );
    }
    assert!(other.stop() > 0);
    holds.assert_back(64 << 10);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    for word in ["panicked", "an auditor has failed"] {
        assert!(!ended.log.contains(word), "{}", ended.log);
    }
}
