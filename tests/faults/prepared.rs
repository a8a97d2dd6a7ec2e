//! Prepared ids that nobody has prepared: a client can make any number of them up.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::faults::{
    memory::{QUERY, READY, node, page, string},
    support::proxy::Proxy,
    wire::{LIMIT, connect, envelope, void},
};

/// What `system.prepared_statements` has.
const KNOWN: &str = "0123456789abcdef";

/// Made up, and yet accepted.
const ACCEPTED: &str = "ACC";

/// More than may be wanted at a time.
const MADE_UP: u64 = 5_000;

/// A node that knows one statement, and says that it does not know those that are made up; it counts how
/// often its statements are read.
fn knowing_one() -> (SocketAddr, Arc<AtomicU64>) {
    let reads = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&reads);
    let (address, _) = node(move |stream, opcode, body| match opcode {
        QUERY if contains(body, "prepared_statements") => {
            let read = counted.fetch_add(1, Ordering::SeqCst);
            let columns = ["prepared_id", "logged_keyspace", "query_string"];
            let row = [KNOWN, "k", "SELECT a FROM k.known WHERE b = 1"].map(str::to_owned);
            // Not there yet when the control connection opens.
            let rows: &[Vec<String>] = if read == 0 { &[] } else { &[row.to_vec()] };
            page(stream, &columns, rows, None)
        }
        QUERY => page(stream, &["key"], &[], None),
        EXECUTE if contains(body, KNOWN) || contains(body, ACCEPTED) => void(stream),
        EXECUTE => {
            let unprepared = [&[0, 0, 0x25, 0], &string("who?")[..], &body[..18]].concat();
            envelope(0x84, stream, 0, &unprepared)
        }
        _ => envelope(0x84, stream, READY, &[]),
    });
    (address, reads)
}

const EXECUTE: u8 = 0x0a;

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

fn execute(proxy: &Proxy, ids: impl Iterator<Item = String>) {
    let mut client = connect(proxy.address);
    for id in ids {
        let body = [&string(&id)[..], &[0, 1, 0]].concat();
        client.write_all(&envelope(4, 1, EXECUTE, &body)).unwrap();
        let mut header = [0; 9];
        client.read_exact(&mut header).unwrap();
        let length = u32::from_be_bytes(header[5..].try_into().unwrap());
        client.read_exact(&mut vec![0; length as usize]).unwrap();
    }
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn knows_the_statement(report: &Path) -> bool {
    std::fs::read_to_string(report).is_ok_and(|report| report.contains("k.known"))
}

/// A proxy whose control connection has read everything, and its report.
fn proxy(upstream: SocketAddr, reads: &AtomicU64, folder: &Path) -> (Proxy, std::path::PathBuf) {
    let report = folder.join("report.json");
    let arguments = ["--window", "100ms", "--report", report.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), upstream, &arguments);
    until("the statements are read", || reads.load(Ordering::SeqCst) == 1);
    (proxy, report)
}

#[test]
fn ids_that_the_node_does_not_know_are_not_looked_for_and_keep_no_other_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let (node, reads) = knowing_one();
    let (proxy, report) = proxy(node, &reads, folder.path());
    execute(&proxy, (0..MADE_UP).map(|number| format!("{number:0>16}")));
    // No digests, though the node accepts them.
    execute(
        &proxy,
        ["", "short"].map(|more| format!("{ACCEPTED}{more}")).into_iter(),
    );
    thread::sleep(Duration::from_millis(300));
    assert_eq!(reads.load(Ordering::SeqCst), 1);
    execute(&proxy, [KNOWN.to_owned()].into_iter());
    until("the statement is known", || knows_the_statement(&report));
    assert_eq!(reads.load(Ordering::SeqCst), 2);
}

#[test]
fn ids_that_are_accepted_and_never_found_are_looked_for_seldom() {
    let folder = tempfile::tempdir().unwrap();
    let (node, reads) = knowing_one();
    let (proxy, report) = proxy(node, &reads, folder.path());
    let began = Instant::now();
    execute(
        &proxy,
        (0..MADE_UP).map(|number| format!("{ACCEPTED}{number:0>13}")),
    );
    execute(&proxy, [KNOWN.to_owned()].into_iter());
    // The first look may have been too early for it.
    until("the statement is known", || knows_the_statement(&report));
    let seconds = began.elapsed().as_secs();
    let more = reads.load(Ordering::SeqCst) - 1;
    assert!(more <= 2 + seconds / 3, "{more} reads in {seconds} s");
}
