//! An auditor that panics: nobody on the wire notices, what it costs is counted, and the audit goes on.

use cqlens_audit::audit::Watch;
use cqlens_capture::QueueLimits;
use cqlens_client::{Bind, Client, ClientOptions, Run, RunOptions};
use cqlens_node::{Node, Options};
use cqlens_proto::envelope::{Envelope, Opcode, Version};
use cqlens_window::Window;

use crate::faults::{
    bystander::Bystander,
    rig::{self, Rig},
};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
     CREATE TABLE k.t (id int PRIMARY KEY, v int); USE k;";

/// What the auditor cannot stand.
const POISON: &[u8] = b"SELECT v FROM t WHERE id = 1718281828";

fn panics_at_poison() -> Watch {
    Watch::new(|request: &Envelope| {
        let is_poison = request.body.windows(POISON.len()).any(|part| part == POISON);
        assert!(!is_poison, "poison");
    })
}

async fn connect(rig: &Rig, version: Version) -> Client {
    let options = ClientOptions {
        version,
        ..ClientOptions::default()
    };
    Client::connect(rig.address, &options).await.unwrap()
}

fn count(window: &Window, cql: &str) -> u64 {
    let of = |pattern: &&cqlens_window::Pattern| pattern.head.cql == cql;
    window
        .patterns
        .values()
        .filter(of)
        .map(|pattern| pattern.count)
        .sum()
}

/// Poison every so often on one connection, ordinary requests around it and on another connection.
async fn survives(version: Version) -> String {
    const ROUNDS: u64 = 20;
    const READS: u64 = 10;
    let node = Node::start(Options::default()).await.unwrap();
    let rig = Rig::start(node.address(), QueueLimits::default(), panics_at_poison()).await;
    let mut client = connect(&rig, version).await;
    client.script(KEYSPACE).await.unwrap();
    let bystander = Bystander::start(rig.address).await;
    let text = "SELECT v FROM t WHERE id IN (?, ?)";
    let prepared = client.prepare(text).await.unwrap();
    let ids = [7, 8].map(Bind::int);
    for _ in 0..ROUNDS {
        client.query(std::str::from_utf8(POISON).unwrap()).await.unwrap();
        for _ in 0..READS {
            client.query("SELECT v FROM t WHERE id = 1").await.unwrap();
            let run = Run::Prepared(&prepared, &ids);
            client.run(run, &RunOptions::default()).await.unwrap();
        }
    }
    let (asked, _) = bystander.stop().await;
    drop(client);
    let window = rig.stop().await;
    let coverage = &window.coverage;
    assert_eq!(coverage.auditor_failures, ROUNDS, "{coverage:?}");
    // Each failure costs the request that was looked at, and nothing else: nothing was in flight beside it.
    assert_eq!(
        (coverage.undecoded, coverage.dropped),
        (ROUNDS, 0),
        "{coverage:?}"
    );
    let audited = coverage.requests - ROUNDS;
    assert_eq!(coverage.audited, audited);
    assert_eq!(coverage.unanswered, 0);
    // The connection's keyspace is known still, and so are its statements.
    assert_eq!(count(&window, "SELECT v FROM k.t WHERE id = ?"), ROUNDS * READS);
    assert_eq!(count(&window, "SELECT v FROM k.t WHERE id IN ?"), ROUNDS * READS);
    assert_eq!(count(&window, "SELECT key FROM system.local"), asked);
    node.shutdown().await;
    rig::log()
}

/// Each auditor says the same failure once, without the bytes that caused it.
fn assert_said_once(log: &str) {
    let place = log.find("an auditor has failed").expect("it is said");
    let line = log[..place].rfind('\n').map_or(0, |end| end + 1);
    let line = log[line..].lines().next().unwrap();
    assert!(line.contains(file!()) && line.contains("ERROR"), "{line}");
    // Three tests of this file have one auditor each.
    assert!(log.matches("an auditor has failed").count() <= 3, "{log}");
    assert!(!log.contains("1718281828"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_auditor_that_panics_costs_the_request_at_hand_and_goes_on() {
    assert_said_once(&survives(Version::V4).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_auditor_that_panics_finds_its_place_among_segments() {
    assert_said_once(&survives(Version::V5).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_flight_on_the_connection_at_hand_are_counted_as_undecoded() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let node = Node::start(Options::default()).await.unwrap();
    let rig = Rig::start(node.address(), QueueLimits::default(), panics_at_poison()).await;
    let startup = crate::faults::wire::envelope(
        4,
        0,
        Opcode::STARTUP.0,
        b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0",
    );
    let mut client = tokio::net::TcpStream::connect(rig.address).await.unwrap();
    client.write_all(&startup).await.unwrap();
    let mut ready = [0; 9];
    client.read_exact(&mut ready).await.unwrap();
    // One write: the audit sees the poison's answer before those of the requests behind it.
    let poison = std::str::from_utf8(POISON).unwrap();
    let mut requests = crate::faults::wire::query(1, poison);
    (2..12).for_each(|stream| {
        requests.extend(crate::faults::wire::query(stream, "SELECT key FROM system.local"))
    });
    client.write_all(&requests).await.unwrap();
    client.shutdown().await.unwrap();
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).await.unwrap();
    let window = rig.stop().await;
    let coverage = &window.coverage;
    assert_eq!(coverage.auditor_failures, 1, "{coverage:?}");
    // STARTUP and eleven queries, whatever the chunks in which their answers came.
    assert_eq!(coverage.requests, 12, "{coverage:?}");
    assert!(coverage.undecoded >= 1, "{coverage:?}");
    assert_eq!(coverage.audited + coverage.undecoded, 12, "{coverage:?}");
    node.shutdown().await;
}
