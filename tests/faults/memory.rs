//! Floods of what cqlens keeps: from clients that make statements up, and from a node that answers without an
//! end. Memory stays within the budget, and what had to go is counted.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::faults::{
    support::process::resident_kib,
    support::proxy::{Proxy, free_address},
    wire::{LIMIT, connect, envelope, query, void},
};

const BUDGET: u64 = 64 << 20;

/// What the process may have besides: code and threads (30 MiB at rest in a debug build), what one statement
/// takes while it is parsed, and what the allocator keeps. 66 to 68 MiB were resident at the most, budget and
/// all.
const BESIDES: u64 = 48 << 20;

struct Observed {
    proxy: Proxy,
    admin: SocketAddr,
}

impl Observed {
    fn start(upstream: SocketAddr, arguments: &[&str]) -> Self {
        let admin = free_address();
        let address = admin.to_string();
        let ours = ["--memory", "64MiB", "--admin", &address];
        let proxy = Proxy::start(
            env!("CARGO_BIN_EXE_cqlens"),
            upstream,
            &[&ours, arguments].concat(),
        );
        Self { proxy, admin }
    }

    fn status(&self) -> Value {
        let mut connection = connect(self.admin);
        let request = format!(
            "GET /readyz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.admin
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Checks that no part is over its limit, and the process within what it may have; used and resident
    /// bytes.
    fn check(&self) -> (u64, u64) {
        let status = self.status();
        for part in status["memory"]["parts"].as_array().unwrap() {
            let bytes = |what: &str| part[what].as_u64().unwrap();
            // Threads look for room in the queue and take it in two steps: it may be over by a chunk for
            // each.
            let over = if part["name"] == "queue" { 1 << 20 } else { 0 };
            assert!(bytes("used_bytes") <= bytes("limit_bytes") + over, "{part}");
        }
        let resident = resident_kib(self.proxy.id()) << 10;
        assert!(
            resident <= BUDGET + BESIDES,
            "{} MiB: {}",
            resident >> 20,
            status["memory"]
        );
        (status["memory"]["used_bytes"].as_u64().unwrap(), resident)
    }

    fn part(&self, name: &str) -> Value {
        let status = self.status();
        let mut parts = status["memory"]["parts"].as_array().unwrap().iter();
        parts.find(|part| part["name"] == name).unwrap().clone()
    }

    /// What was evicted of a part.
    fn evicted(&self, name: &str) -> u64 {
        self.part(name)["evicted"].as_u64().unwrap()
    }
}

/// One envelope; none at the end.
fn next(connection: &mut TcpStream) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut header = vec![0; 9];
    connection.read_exact(&mut header).ok()?;
    let length = u32::from_be_bytes(header[5..].try_into().unwrap());
    let mut body = vec![0; length as usize];
    connection.read_exact(&mut body).ok()?;
    Some((header, body))
}

pub(crate) fn string(text: &str) -> Vec<u8> {
    let mut bytes = u16::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// Listens, and answers each request of version 4 with what `answer` makes of stream id, opcode and body.
pub(crate) fn node(
    answer: impl Fn(i16, u8, &[u8]) -> Vec<u8> + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (answer, connections) = (Arc::new(answer), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&connections);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (mut connection, answer) = (connection.unwrap(), Arc::clone(&answer));
            counted.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || {
                while let Some((header, body)) = next(&mut connection) {
                    let stream = i16::from_be_bytes([header[2], header[3]]);
                    let answered = match header[0] {
                        4 => answer(stream, header[4], &body),
                        _ => envelope(
                            0x84,
                            stream,
                            0,
                            &[&[0, 0, 0, 10], &string("version 4")[..]].concat(),
                        ),
                    };
                    if connection.write_all(&answered).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, connections)
}

/// A page of rows of text columns.
pub(crate) fn page(
    stream: i16,
    columns: &[&str],
    rows: &[Vec<String>],
    paging_state: Option<&[u8]>,
) -> Vec<u8> {
    let flags = 1 | if paging_state.is_some() { 2 } else { 0 };
    let int = |number: usize| u32::try_from(number).unwrap().to_be_bytes();
    let mut body = [int(2), int(flags), int(columns.len())].concat();
    if let Some(state) = paging_state {
        body.extend(int(state.len()));
        body.extend(state);
    }
    body.extend(string("system_schema"));
    body.extend(string("tables"));
    for column in columns {
        body.extend(string(column));
        // A blob, or text.
        body.extend([0, if *column == "prepared_id" { 3 } else { 13 }]);
    }
    body.extend(int(rows.len()));
    for cell in rows.iter().flatten() {
        body.extend(int(cell.len()));
        body.extend(cell.as_bytes());
    }
    envelope(0x84, stream, 8, &body)
}

pub(crate) const READY: u8 = 2;
pub(crate) const QUERY: u8 = 7;
const PREPARE: u8 = 9;

/// A node whose answers to cqlens' own questions are what `answer` says; it counts connections.
fn hostile(
    answer: impl Fn(i16, &str, u64) -> Vec<u8> + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicU64>) {
    let asked = AtomicU64::new(0);
    node(move |stream, opcode, body| match opcode {
        QUERY => {
            let length = u32::from_be_bytes(body[..4].try_into().unwrap()) as usize;
            let cql = std::str::from_utf8(&body[4..4 + length]).unwrap();
            answer(stream, cql, asked.fetch_add(1, Ordering::SeqCst))
        }
        _ => envelope(0x84, stream, READY, &[]),
    })
}

fn rows(number: u64, count: u64) -> Vec<Vec<String>> {
    let row = |row| {
        let name = format!("t{number}_{row}");
        vec!["k".to_owned(), name, "c".repeat(8_000)]
    };
    (0..count).map(row).collect()
}

const COLUMNS: [&str; 3] = ["keyspace_name", "table_name", "comment"];

/// Follows the node until the status says what went wrong, and for a while longer; it was asked a few times
/// then.
fn says(node: &(SocketAddr, Arc<AtomicU64>), trouble: &str) {
    let observed = Observed::start(node.0, &[]);
    let deadline = Instant::now() + LIMIT;
    loop {
        observed.check();
        let error = observed.status()["control_connection_error"].to_string();
        if error.contains(trouble) {
            break;
        }
        assert!(Instant::now() < deadline, "never: {trouble}, but {error}");
        thread::sleep(Duration::from_millis(20));
    }
    let before = node.1.load(Ordering::SeqCst);
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        observed.check();
        thread::sleep(Duration::from_millis(50));
    }
    // Each attempt is made of two: version 5 is tried first.
    let more = node.1.load(Ordering::SeqCst) - before;
    assert!(more <= 8, "{more} connections in two seconds");
}

#[test]
fn a_node_whose_page_leads_to_itself() {
    let node = hostile(|stream, _, _| page(stream, &COLUMNS, &[], Some(b"again")));
    says(&node, "a page leads to itself");
}

#[test]
fn a_node_whose_pages_do_not_end() {
    let node =
        hostile(|stream, _, number| page(stream, &COLUMNS, &rows(number, 50), Some(&number.to_be_bytes())));
    says(&node, "takes more than the 4194304 bytes");
}

#[test]
fn a_node_whose_answers_are_longer_than_there_is_room_for() {
    let node = hostile(|stream, _, _| {
        let row = vec!["k".to_owned(), "t".to_owned(), "c".repeat(16 << 20)];
        page(stream, &COLUMNS, &[row], None)
    });
    says(&node, "takes more than the 4194304 bytes");
}

#[test]
fn a_node_that_sends_events_instead_of_an_answer() {
    let node = hostile(|_, _, _| {
        let event = [&string("SCHEMA_CHANGE")[..], &vec![0; 400_000][..]].concat();
        envelope(0x84, -1, 0x0c, &event).repeat(50)
    });
    let observed = Observed::start(node.0, &[]);
    let deadline = Instant::now() + LIMIT;
    while observed.evicted("control-connection") < 40 {
        observed.check();
        assert!(Instant::now() < deadline, "no event was dropped");
        thread::sleep(Duration::from_millis(20));
    }
    observed.check();
}

#[test]
fn a_schema_that_there_is_no_room_for_is_cut_and_that_is_said() {
    let node = hostile(|stream, cql, number| {
        if cql.contains("system_schema.keyspaces") {
            return page(stream, &["keyspace_name"], &[vec!["k".to_owned()]], None);
        }
        match cql.contains("system_schema.tables") {
            true => page(stream, &COLUMNS, &rows(number, 50), Some(&number.to_be_bytes())),
            false => page(stream, &["key"], &[], None),
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let report = ["--window", "50ms", "--report", file.to_str().unwrap()];
    let observed = Observed::start(node.0, &report);
    let deadline = Instant::now() + LIMIT;
    while !std::fs::read_to_string(&file).is_ok_and(|report| report.contains("larger than there is room for"))
    {
        observed.check();
        assert!(Instant::now() < deadline, "the report does not say it");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(observed.evicted("control-connection") > 0);
    assert!(
        observed
            .proxy
            .log()
            .contains("the schema is larger than there is room for")
    );
}

/// Sends what `request` makes of a number, and reads the answers, once at least, until `stop`; how many.
fn flood(address: SocketAddr, stop: &AtomicBool, request: impl Fn(u64) -> Vec<u8>) -> u64 {
    let mut connection = connect(address);
    let mut number = 0;
    connection
        .write_all(&envelope(
            4,
            0,
            1,
            &[&[0, 1], &string("CQL_VERSION")[..], &string("3.0.0")].concat(),
        ))
        .unwrap();
    next(&mut connection).unwrap();
    loop {
        connection.write_all(&request(number)).unwrap();
        next(&mut connection).unwrap();
        number += 1;
        if stop.load(Ordering::Relaxed) {
            return number;
        }
    }
}

fn prepare(cql: &str) -> Vec<u8> {
    let length = u32::try_from(cql.len()).unwrap().to_be_bytes();
    envelope(4, 1, PREPARE, &[&length, cql.as_bytes()].concat())
}

fn execute(id: [u8; 16]) -> Vec<u8> {
    envelope(4, 1, 0x0a, &[&[0, 16], &id[..], &[0, 1, 0]].concat())
}

/// Stops floods also where the test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An id that goes with a text, or with a number.
fn id(of: &[u8]) -> [u8; 16] {
    let hash = |seed: u64| {
        of.iter().fold(seed, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    let both = [hash(1).to_be_bytes(), hash(2).to_be_bytes()].concat();
    both.try_into().unwrap()
}

/// Answers whatever it is asked: PREPARE with an id, definitions with a change of the schema.
fn obliging() -> (SocketAddr, Arc<AtomicU64>) {
    node(|stream, opcode, body| match opcode {
        PREPARE => {
            let id = id(&body[4..]);
            // No markers and no columns.
            let metadata = [&[0, 0, 0, 4, 0, 16], &id[..], &[0; 12], &[0, 0, 0, 4, 0, 0, 0, 0]].concat();
            envelope(0x84, stream, 8, &metadata)
        }
        QUERY if body[4..].starts_with(b"CREATE") => {
            let change = [string("CREATED"), string("TABLE"), string("k"), string("t")].concat();
            envelope(0x84, stream, 8, &[&[0, 0, 0, 5], &change[..]].concat())
        }
        QUERY | 0x0a => void(stream),
        _ => envelope(0x84, stream, READY, &[]),
    })
}

#[test]
fn floods_of_all_kinds_at_once_keep_to_the_budget() {
    let (node, _) = obliging();
    let observed = Observed::start(node, &["--no-control-connection", "--window", "1s"]);
    let (_, at_rest) = observed.check();
    let (address, stop, began) = (observed.proxy.address, &AtomicBool::new(false), Instant::now());
    // Before there is so much that some is left out.
    let keyspace = query(
        1,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
    );
    flood(address, &AtomicBool::new(true), |_| keyspace.clone());
    while observed.part("schema")["used_bytes"] == 0 {
        assert!(began.elapsed() < LIMIT, "the keyspace is not known");
        thread::sleep(Duration::from_millis(10));
    }
    // Many literals, and a text of 60 KB.
    let long = |number: u64| {
        let (keys, text) = ("1,".repeat(3_000), "a".repeat(54_000));
        format!("SELECT c FROM k.t WHERE a IN ({keys}{number}) AND b = '{text}'")
    };
    let (mut used, mut resident) = (0, 0);
    thread::scope(|scope| {
        let stops = Stops(stop);
        // First alone: the others leave the audit few of the definitions.
        let definitions = scope.spawn(move || {
            flood(address, stop, |number| {
                let comment = "c".repeat(60_000);
                query(
                    1,
                    &format!("CREATE TABLE k.t{number} (id int PRIMARY KEY) WITH comment = '{comment}'"),
                )
            })
        });
        while observed.evicted("schema") == 0 {
            assert!(began.elapsed() < LIMIT, "no definition is evicted");
            thread::sleep(Duration::from_millis(10));
        }
        let began = Instant::now();
        let floods = [
            scope.spawn(move || flood(address, stop, |number| prepare(&long(number)))),
            scope.spawn(move || {
                flood(address, stop, |number| {
                    // Some of those that were prepared.
                    let text = long(number / 2);
                    match number % 2 {
                        0 => prepare(&text),
                        _ => execute(id(text.as_bytes())),
                    }
                })
            }),
            scope.spawn(move || {
                flood(address, stop, |number| {
                    query(
                        1,
                        &format!("SELECT c FROM k.t WHERE a IN ({}{number})", "1,".repeat(1_900)),
                    )
                })
            }),
            scope.spawn(move || flood(address, stop, |number| execute(id(&number.to_be_bytes())))),
            definitions,
        ];
        let evicts = || {
            ["statements", "prepared", "schema"]
                .iter()
                .all(|part| observed.evicted(part) > 0)
        };
        // A slow machine takes a while until the audit has seen enough.
        while began.elapsed() < Duration::from_secs(3) || (!evicts() && began.elapsed() < LIMIT) {
            let now = observed.check();
            (used, resident) = (used.max(now.0), resident.max(now.1));
            thread::sleep(Duration::from_millis(20));
        }
        drop(stops);
        let counts: Vec<_> = floods.into_iter().map(|flood| flood.join().unwrap()).collect();
        assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
        println!("requests {counts:?}");
    });
    // What the allocator gives back to the system, and when, is its business.
    thread::sleep(Duration::from_secs(1));
    let (_, afterwards) = observed.check();
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "used up to {} MiB, resident {} MiB at rest, up to {} MiB, {} MiB afterwards: {}",
        mib(used),
        mib(at_rest),
        mib(resident),
        mib(afterwards),
        observed.status()["memory"]
    );
    for part in ["statements", "prepared", "schema"] {
        assert!(observed.evicted(part) > 0, "{part}");
    }
}
