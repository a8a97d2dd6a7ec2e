//! Malformed sessions, of hostile clients and of hostile servers: bytes come out as they went in, the proxy
//! lives, others notice nothing, memory stays bounded, and each is counted as what it is.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
    thread,
};

use crate::faults::{
    leaks::Holds,
    sight::{Other, acquainted_with, proxy},
    wire::{LIMIT, envelope, query, report, void},
};

/// Who sends what next; the other side waits until it has come.
#[derive(Debug, Clone)]
enum Step {
    Client(Vec<u8>),
    Server(Vec<u8>),
}

use Step::{Client, Server};

/// What the coverage says of a session: the connection is opaque, requests cannot be decoded, answers are
/// lost.
#[derive(Debug, Default, Clone)]
struct Counted {
    opaque: Option<&'static str>,
    undecoded: u64,
    lost: u64,
}

struct Case {
    name: &'static str,
    steps: Vec<Step>,
    counted: Counted,
}

fn case(name: &'static str, steps: impl Into<Vec<Step>>) -> Case {
    Case {
        name,
        steps: steps.into(),
        counted: Counted::default(),
    }
}

impl Case {
    fn opaque(mut self, reason: &'static str) -> Self {
        self.counted.opaque = Some(reason);
        self
    }

    fn undecoded(mut self, requests: u64) -> Self {
        self.counted.undecoded = requests;
        self
    }

    fn lost(mut self, answers: u64) -> Self {
        self.counted.lost = answers;
        self
    }
}

fn header(version: u8, flags: u8, stream: i16, opcode: u8, length: u32) -> Vec<u8> {
    let mut bytes = vec![version, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.push(opcode);
    bytes.extend(length.to_be_bytes());
    bytes
}

fn flagged(version: u8, flags: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = envelope(version, stream, opcode, body);
    bytes[1] = flags;
    bytes
}

fn string(text: &str) -> Vec<u8> {
    [
        &u16::try_from(text.len()).unwrap().to_be_bytes()[..],
        text.as_bytes(),
    ]
    .concat()
}

fn startup(version: u8, compression: &str) -> Vec<u8> {
    let options = [("CQL_VERSION", "3.0.0"), ("COMPRESSION", compression)];
    let body = options
        .iter()
        .flat_map(|(name, value)| [string(name), string(value)].concat());
    envelope(version, 0, 0x01, &[vec![0, 2], body.collect()].concat())
}

fn ready(version: u8) -> Vec<u8> {
    envelope(0x80 | version, 0, 0x02, &[])
}

/// STARTUP and READY, after which the rest of the session follows.
fn opened(version: u8, compression: &str, rest: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let mut steps = vec![Client(startup(version, compression)), Server(ready(version))];
    steps.extend(rest);
    steps
}

/// A version 5 segment around `payload`.
fn segment(encoding: cqlens_proto::segment::Encoding, payload: &[u8]) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    cqlens_proto::segment::encode(encoding, true, payload, &mut out).unwrap();
    out.to_vec()
}

/// A RESULT of rows with one column of a type that is nested so deep.
fn nested(depth: usize) -> Vec<u8> {
    let mut body = 2_u32.to_be_bytes().to_vec();
    body.extend(1_u32.to_be_bytes());
    body.extend(1_u32.to_be_bytes());
    body.extend([string("s"), string("t"), string("c")].concat());
    body.extend([0, 0x20].repeat(depth));
    body.extend([0, 0x09]);
    body.extend(1_u32.to_be_bytes());
    body.extend(0_u32.to_be_bytes());
    envelope(0x84, 1, 0x08, &body)
}

/// A value that nests collections: as many lists of one list as fit.
fn batch(count: u16, statements: usize) -> Vec<u8> {
    let mut body = vec![0];
    body.extend(count.to_be_bytes());
    for _ in 0..statements {
        body.push(0);
        body.extend(
            u32::try_from("DELETE FROM s.t WHERE k = 1".len())
                .unwrap()
                .to_be_bytes(),
        );
        body.extend(b"DELETE FROM s.t WHERE k = 1");
        body.extend([0, 0]);
    }
    body.extend([0, 1, 0]);
    envelope(4, 1, 0x0d, &body)
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    (0..length).map(next).collect()
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    use cqlens_proto::segment::Encoding;
    let select = || query(1, "SELECT value FROM s.t");
    let ask = || Client(select());
    let damaged = |mut bytes: Vec<u8>, at: usize| {
        bytes[at] ^= 0x40;
        bytes
    };
    // Flags have four bytes in version 5.
    let in_segment = || {
        segment(
            Encoding::Plain,
            &envelope(5, 1, 0x07, &[&select()[9..], &[0; 3]].concat()),
        )
    };
    let last = in_segment().len() - 1;
    let all_streams = || {
        (0..=i16::MAX)
            .flat_map(|stream| query(stream, "SELECT value FROM s.t"))
            .collect()
    };
    let strange_query = |body: Vec<u8>| vec![Client(envelope(4, 1, 0x07, &body))];
    let execute = |values: &[u8]| {
        let body = [&[0, 2, 9, 9, 0, 1, 1][..], values].concat();
        vec![Client(envelope(4, 1, 0x0a, &body))]
    };
    vec![
        case("a header that is cut off", [Client(vec![4, 0, 0])]),
        case("a body that is cut off", [Client(select()[..15].to_vec())]),
        case(
            "a request of 2 GiB",
            [Client([header(4, 0, 1, 7, 0x7fff_ffff), select()].concat())],
        )
        .opaque("impossible-length"),
        case(
            "a request of negative length",
            [Client(header(4, 0, 1, 7, 0xffff_fff6))],
        )
        .opaque("impossible-length"),
        case(
            "an answer of negative length",
            [ask(), Server(header(0x84, 0, 1, 8, 0xffff_ffff))],
        )
        .opaque("impossible-length"),
        case(
            "256 MiB that never come",
            [Client([header(4, 0, 1, 7, 256 << 20), vec![0; 100]].concat())],
        ),
        case(
            "an answer of 256 MiB that never comes",
            [
                ask(),
                Server([header(0x84, 0, 1, 8, 256 << 20), vec![0; 100]].concat()),
            ],
        ),
        case("a client that answers", [Client(void(1))]).opaque("wrong-direction"),
        case("a server that asks", [ask(), Server(select())]).opaque("wrong-direction"),
        case("an unknown opcode", [Client(envelope(4, 1, 0x42, b"what"))]),
        case(
            "an unknown opcode as an answer",
            [ask(), Server(envelope(0x84, 1, 0x42, b"what"))],
        ),
        case("version 1", [Client(envelope(1, 1, 0x07, b""))]).opaque("unknown-version"),
        case("version 127", [Client(envelope(127, 1, 0x07, b""))]).opaque("unknown-version"),
        case(
            "an answer of version 2",
            [ask(), Server(envelope(0x82, 1, 0x08, b""))],
        )
        .opaque("unknown-version"),
        case("text", [Client(b"GET / HTTP/1.1\r\n\r\n".to_vec())]).opaque("text"),
        case("TLS", [Client(vec![0x16, 3, 1, 2, 0, 1, 0])]).opaque("tls"),
        case(
            "noise after a good request",
            [Client([select(), noise(5_000, 3)].concat())],
        )
        .opaque("unknown-version"),
        case(
            "a segment header that is damaged",
            opened(5, "none", [Client(damaged(in_segment(), 4))]),
        )
        .opaque("damaged-segment"),
        case(
            "a payload that is damaged",
            opened(5, "none", [Client(damaged(in_segment(), last))]),
        )
        .undecoded(1),
        case(
            "noise in a segment",
            opened(5, "none", [Client(segment(Encoding::Plain, &noise(1_000, 1)))]),
        )
        .undecoded(1),
        case(
            "no segments where segments belong",
            opened(5, "none", [Client(envelope(5, 1, 7, &[0; 50]))]),
        )
        .opaque("damaged-segment"),
        case(
            "a good request after a damaged payload",
            opened(
                5,
                "none",
                [Client([damaged(in_segment(), last), in_segment()].concat())],
            ),
        )
        .undecoded(1),
        case(
            "LZ4 that claims 2 GiB",
            opened(
                4,
                "lz4",
                [Client(flagged(
                    4,
                    1,
                    1,
                    7,
                    &[0x7f, 0xff, 0xff, 0xff, 0x1f, 0, 1, 0, 0xff, 0xff],
                ))],
            ),
        )
        .undecoded(1),
        case(
            "LZ4 that is no LZ4",
            opened(4, "lz4", [Client(flagged(4, 1, 1, 7, &noise(200, 2)))]),
        )
        .undecoded(1),
        case(
            "snappy that claims 4 GiB",
            opened(
                4,
                "snappy",
                [Client(flagged(4, 1, 1, 7, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]))],
            ),
        )
        .undecoded(1),
        case(
            "compressed without saying how",
            opened(4, "none", [Client(flagged(4, 1, 1, 7, &[0, 0, 0, 9, 1, 2]))]),
        )
        .undecoded(1),
        case(
            "an answer of LZ4 that claims 2 GiB",
            opened(
                4,
                "lz4",
                [
                    ask(),
                    Server(flagged(
                        0x84,
                        1,
                        1,
                        8,
                        &[0x7f, 0xff, 0xff, 0xff, 0x1f, 0, 1, 0, 0xff, 0xff],
                    )),
                ],
            ),
        )
        .lost(1),
        case(
            "LZ4 segments that are noise",
            opened(5, "lz4", [Client(segment(Encoding::Lz4, &noise(500, 4)))]),
        )
        .undecoded(1),
        case(
            "a compression that nobody knows",
            opened(4, "middle-out", [ask(), Server(void(1))]),
        ),
        case(
            "STARTUP with 65,535 options, of which none is there",
            [Client(envelope(4, 0, 1, &[0xff, 0xff]))],
        )
        .undecoded(1),
        case(
            "answers to nobody",
            [ask(), Server((0..1_000).flat_map(void).collect())],
        )
        .lost(999),
        case(
            "events that are none",
            [ask(), Server(envelope(0x84, -1, 0x0c, &noise(100, 5)))],
        ),
        case("every stream id, and no answer", [Client(all_streams())]),
        case(
            "negative stream ids",
            [Client(query(-5, "SELECT value FROM s.t")), Server(void(-5))],
        ),
        case(
            "one stream id a thousand times at once",
            [Client(select().repeat(1_000)), Server(void(1))],
        )
        .lost(1),
        case("a BATCH that counts more than it has", [Client(batch(0xffff, 1))]).undecoded(1),
        case("a BATCH that counts fewer than it has", [Client(batch(1, 3))]),
        case(
            "a BATCH of 20,000",
            [Client(batch(20_000, 20_000)), Server(void(1))],
        ),
        case("65,535 values, of which none is there", execute(&[0xff, 0xff])).undecoded(1),
        case("a value of negative length", execute(&[0, 1, 0x80, 0, 0, 0])).undecoded(1),
        case(
            "a text longer than its body",
            strange_query(vec![0x7f, 0xff, 0xff, 0xff, b'S']),
        )
        .undecoded(1),
        case("a text of negative length", strange_query(vec![0xff; 4])).undecoded(1),
        case(
            "a text that is not UTF-8",
            strange_query([&[0, 0, 0, 4][..], &[0xff; 4], &[0, 1, 0]].concat()),
        )
        .undecoded(1),
        case(
            "a million parentheses",
            [
                Client(query(1, &format!("SELECT {}", "(".repeat(1_000_000)))),
                Server(void(1)),
            ],
        ),
        case(
            "a million lists in lists",
            [
                Client(query(
                    1,
                    &format!("INSERT INTO s.t (k) VALUES ({}", "[".repeat(1_000_000)),
                )),
                Server(void(1)),
            ],
        ),
        case("types in types", [ask(), Server(nested(20_000))]).lost(0),
        case(
            "more columns than bytes",
            [
                ask(),
                Server(envelope(
                    0x84,
                    1,
                    8,
                    &[0, 0, 0, 2, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff],
                )),
            ],
        ),
        case(
            "more rows than bytes",
            [
                ask(),
                Server(envelope(
                    0x84,
                    1,
                    8,
                    &[
                        0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff,
                    ],
                )),
            ],
        ),
        case(
            "PREPARED with more keys than bytes",
            [
                Client(envelope(
                    4,
                    1,
                    0x09,
                    &[&[0, 0, 0, 21][..], b"SELECT value FROM s.t"].concat(),
                )),
                Server(envelope(
                    0x84,
                    1,
                    8,
                    &[
                        0, 0, 0, 4, 0, 2, 9, 9, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff,
                    ],
                )),
            ],
        )
        .undecoded(1),
        case(
            "an error of noise",
            [ask(), Server(envelope(0x84, 1, 0, &noise(300, 6)))],
        ),
        case(
            "warnings that are not there",
            [ask(), Server(flagged(0x84, 8, 1, 8, &[0xff, 0xff, 0, 0]))],
        ),
        case(
            "a password that is noise",
            [
                Client(envelope(4, 1, 0x0f, &noise(300, 7))),
                Server(envelope(0x84, 1, 0x10, &noise(9, 8))),
            ],
        )
        .undecoded(1),
    ]
}

/// Plays the server's part of one case after the other.
struct Puppet {
    address: std::net::SocketAddr,
    steps: Arc<Mutex<Vec<Step>>>,
    received: mpsc::Receiver<Vec<u8>>,
}

impl Puppet {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let steps: Arc<Mutex<Vec<Step>>> = Arc::default();
        let (sender, received) = mpsc::channel();
        let shared = Arc::clone(&steps);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (connection, steps, sender) = (connection.unwrap(), Arc::clone(&shared), sender.clone());
                thread::spawn(move || {
                    let Some(connection) = acquainted_with(connection) else {
                        return;
                    };
                    let steps = steps.lock().unwrap().clone();
                    let mirrored = steps.into_iter().map(|step| match step {
                        Client(bytes) => Server(bytes),
                        Server(bytes) => Client(bytes),
                    });
                    let mirrored: Vec<_> = mirrored.collect();
                    let _ = sender.send(play(connection, &mirrored));
                });
            }
        });
        Self {
            address,
            steps,
            received,
        }
    }
}

/// Plays the client's part; all that came.
fn play(mut connection: TcpStream, steps: &[Step]) -> Vec<u8> {
    connection.set_read_timeout(Some(LIMIT)).unwrap();
    let mut received = Vec::new();
    for step in steps {
        match step {
            Client(bytes) => connection.write_all(bytes).unwrap(),
            Server(bytes) => {
                let mut part = vec![0; bytes.len()];
                connection.read_exact(&mut part).unwrap();
                received.extend(part);
            }
        }
    }
    connection.shutdown(Shutdown::Write).unwrap();
    connection.read_to_end(&mut received).unwrap();
    received
}

fn all(steps: &[Step], of_client: bool) -> Vec<u8> {
    let part = |step: &Step| match step {
        Client(bytes) if of_client => bytes.clone(),
        Server(bytes) if !of_client => bytes.clone(),
        _ => Vec::new(),
    };
    steps.iter().flat_map(part).collect()
}

#[test]
fn hostile_sessions_pass_unchanged_and_are_counted_as_what_they_are() {
    let cases = cases();
    let wrong: Vec<String> = thread::scope(|scope| {
        // Most of it is waiting for processes to start and to end.
        let parts = cases.chunks(cases.len().div_ceil(6));
        let running: Vec<_> = parts.map(|part| scope.spawn(|| wrongly_counted(part))).collect();
        running
            .into_iter()
            .flat_map(|part| part.join().unwrap())
            .collect()
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Runs each of the cases through a proxy of its own.
fn wrongly_counted(cases: &[Case]) -> Vec<String> {
    let puppet = Puppet::start();
    let wrong = cases.iter().filter_map(|case| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.json");
        let proxy = proxy(puppet.address, &["--report", file.to_str().unwrap()]);
        run(&puppet, &proxy, case);
        let ended = proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}: {}", case.name, ended.log);
        let coverage = &report(&file)["coverage"];
        let counted = &case.counted;
        let opaque = match counted.opaque {
            Some(reason) => serde_json::json!({ reason: 1 }),
            None => serde_json::json!({}),
        };
        let is_right = coverage["opaque_connections"] == opaque
            && coverage["undecoded"] == counted.undecoded
            && coverage["responses_lost"] == counted.lost
            && coverage["auditor_failures"] == 0;
        (!is_right).then(|| format!("{}: {coverage} instead of {counted:?}", case.name))
    });
    wrong.collect()
}

#[test]
fn hostile_sessions_disturb_nobody_and_leave_nothing_behind() {
    let puppet = Puppet::start();
    let proxy = proxy(puppet.address, &["--log", "debug"]);
    let cases = cases();
    let round = || cases.iter().for_each(|case| run(&puppet, &proxy, case));
    // What tables and the allocator keep is there afterwards.
    round();
    round();
    let holds = Holds::of(&proxy);
    let other = Other::start(proxy.address);
    (0..4).for_each(|_| round());
    assert!(other.stop() > 0);
    holds.assert_back(32 << 10);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    for word in ["panicked", "an auditor has failed"] {
        assert!(!ended.log.contains(word), "{}", ended.log);
    }
}

fn run(puppet: &Puppet, proxy: &cqlens_testing::proxy::Proxy, case: &Case) {
    puppet.steps.lock().unwrap().clone_from(&case.steps);
    let client = TcpStream::connect(proxy.address).unwrap();
    let got = play(client, &case.steps);
    assert!(
        got == all(&case.steps, false),
        "{}: an answer was changed",
        case.name
    );
    let received = puppet.received.recv_timeout(LIMIT).unwrap();
    assert!(
        received == all(&case.steps, true),
        "{}: a request was changed",
        case.name
    );
}
