//! With other addresses shown to clients: a real client on one side, the embedded node or a scripted one on
//! the other.
//!
//! What the cluster looks like is given, not discovered: the proxy runs inside this process.

use std::{
    io::Write,
    net::{IpAddr, SocketAddr},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use cqlens_capture::{Clock, Queue, QueueLimits};
use cqlens_client::{Answer, Bind, Client, ClientOptions, Run, RunOptions};
use cqlens_node::{Node, Options};
use cqlens_proto::{compress::Compression, envelope::Version};
use cqlens_proxy::{
    Backlog, Drain, DrainSwitch, Drained, Proxy, Route, Workers,
    topology::{Addresses, NodeAddress, Pairing},
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::proxy::wire;

/// A proxy that shows its own address in place of the node's.
struct Showing {
    address: SocketAddr,
    addresses: Addresses,
    begin_drain: DrainSwitch,
    serving: JoinHandle<Drained>,
}

impl Showing {
    async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let own = NodeAddress {
            host_id: None,
            broadcast: upstream.ip(),
            native: upstream,
            listen: SHOWN,
            ready: true,
        };
        let addresses = Addresses::new(wire::LIMIT);
        addresses.publish(vec![own.clone()]);
        let pairing = Pairing {
            addresses: addresses.clone(),
            own: Arc::new(own),
        };
        let route = Route {
            upstream: upstream.to_string(),
            connect_timeout: wire::LIMIT,
            client_tls: None,
            upstream_tls: None,
            drain: None,
            topology: Some(pairing),
        };
        let (begin_drain, drain) = Drain::new();
        let queue = Arc::new(Queue::new(QueueLimits::default()));
        let workers = Workers::start(1).unwrap();
        let proxy = Proxy::new(route, queue, Clock::start());
        let serving = tokio::spawn(proxy.serve(listener, Backlog::Serve, drain, workers));
        Self {
            address,
            addresses,
            begin_drain,
            serving,
        }
    }

    async fn stop(self) {
        self.begin_drain.begin(wire::LIMIT);
        assert_eq!(self.serving.await.unwrap(), Drained::AllEnded);
    }
}

const SHOWN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(127, 7, 7, 7)), 7777);

const SPOKEN: [(Version, Compression); 8] = [
    (Version::V3, Compression::None),
    (Version::V3, Compression::Lz4),
    (Version::V3, Compression::Snappy),
    (Version::V4, Compression::None),
    (Version::V4, Compression::Lz4),
    (Version::V4, Compression::Snappy),
    (Version::V5, Compression::None),
    (Version::V5, Compression::Lz4),
];

async fn connect(address: SocketAddr, (version, compression): (Version, Compression)) -> Client {
    let options = ClientOptions {
        version,
        compression,
        ..ClientOptions::default()
    };
    Client::connect(address, &options).await.unwrap()
}

/// What a client sees of the node's tables and of its own.
async fn look(mut client: Client) -> Vec<Answer> {
    let mut answers = Vec::new();
    for text in [
        "SELECT * FROM system.local",
        "SELECT rpc_port AS p, rpc_address AS a, broadcast_address FROM \"system\".\"local\" WHERE key = 'local'",
        "SELECT * FROM system.peers",
        "SELECT * FROM system_schema.columns WHERE keyspace_name = 'system'",
        "CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS k.local (key text PRIMARY KEY, rpc_address inet, filling text)",
        "INSERT INTO k.local (key, rpc_address) VALUES ('local', '127.0.0.1')",
        "SELECT * FROM k.local",
        "USE k",
        "SELECT * FROM local",
        "USE system",
        "SELECT * FROM local",
    ] {
        answers.push(client.query(text).await.unwrap());
    }
    let filling = "filling ".repeat(30_000);
    let insert = client
        .prepare("INSERT INTO k.local (key, filling) VALUES ('long', ?)")
        .await
        .unwrap();
    let values = [Bind::text(&filling)];
    let options = RunOptions {
        skip_metadata: true,
        ..RunOptions::default()
    };
    answers.push(
        client
            .run(Run::Prepared(&insert, &values), &options)
            .await
            .unwrap(),
    );
    answers.push(
        client
            .query("SELECT filling FROM k.local WHERE key = 'long'")
            .await
            .unwrap(),
    );
    let local = client
        .prepare("SELECT * FROM system.local WHERE key = ?")
        .await
        .unwrap();
    let values = [Bind::text("local")];
    answers.push(
        client
            .run(Run::Prepared(&local, &values), &options)
            .await
            .unwrap(),
    );
    answers
}

/// The same answers, had the node named the address that is shown.
fn as_shown(answers: &mut [Answer], node: SocketAddr) {
    let of_node = |answer: &Answer| {
        answer
            .columns
            .iter()
            .any(|column| ["rpc_port", "p"].contains(&&column.name[..]))
    };
    let octets = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let port = |address: SocketAddr| u32::from(address.port()).to_be_bytes().to_vec();
    for answer in answers.iter_mut().filter(|answer| of_node(answer)) {
        for name in ["rpc_address", "a", "rpc_port", "p"] {
            let Some(index) = answer.column(name) else {
                continue;
            };
            let cell = answer.rows[0][index].as_mut().unwrap();
            let (before, after) = match name {
                "rpc_address" | "a" => (octets(node), octets(SHOWN)),
                _ => (port(node), port(SHOWN)),
            };
            assert_eq!(cell[..], before[..], "{name}");
            *cell = after.into();
        }
    }
}

#[tokio::test]
async fn a_client_sees_the_listener_where_the_node_was_and_all_else_as_it_is() {
    let node = Node::start(Options::default()).await.unwrap();
    let proxy = Showing::start(node.address()).await;
    for spoken in SPOKEN {
        // What there is to make is made by then.
        look(connect(node.address(), spoken).await).await;
        let mut direct = look(connect(node.address(), spoken).await).await;
        let shown = look(connect(proxy.address, spoken).await).await;
        // The last answer has left its columns out.
        let columns = direct[0].columns.clone();
        let left_out = std::mem::replace(&mut direct.last_mut().unwrap().columns, columns);
        as_shown(&mut direct, node.address());
        direct.last_mut().unwrap().columns = left_out;
        assert_eq!(shown, direct, "{spoken:?}");
    }
    let counts = proxy.addresses.counts();
    assert_eq!(counts.rewritten, 4 * 8, "{counts:?}");
    assert_eq!(
        (counts.may_have_leaked, counts.rows_left_out, counts.refused),
        (0, 0, 0)
    );
    proxy.stop().await;
    node.shutdown().await;
}

#[tokio::test]
async fn requests_and_other_answers_pass_byte_by_byte() {
    let requests = [
        wire::query(1, "SELECT * FROM system.local"),
        wire::query(2, "SELECT * FROM users"),
        wire::envelope(4, 3, 0x7f, b"an opcode that nobody knows"),
    ]
    .concat();
    let answers: &'static [u8] = [
        wire::envelope(0x84, 1, 0, b"\0\0\x22\0\0\x02no"),
        wire::envelope(0x84, 2, 0x08, &[9; 200_000]),
        wire::envelope(0x84, 3, 0x7f, b"an answer that nobody knows"),
        wire::void(2),
    ]
    .concat()
    .leak();
    let (node, received) = wire::Node::answering(answers);
    let proxy = Showing::start(node.address).await;
    let (address, sent) = (proxy.address, requests.clone());
    let got = tokio::task::spawn_blocking(move || wire::converse(address, &sent)).await;
    assert!(got.unwrap() == answers, "an answer was changed");
    assert!(
        received.recv_timeout(wire::LIMIT).unwrap() == requests,
        "a request was changed"
    );
    proxy.stop().await;
}

#[tokio::test]
async fn what_may_not_be_read_ends_the_connection_before_the_client_sees_it() {
    let passes = wire::void(1);
    let tls = b"\x16\x03\x03\0\x40\x02\0\0\x3c\x03\x03 and so on";
    let answer: &'static [u8] = [&passes[..], tls].concat().leak();
    let (node, _received) = wire::Node::answering(answer);
    let proxy = Showing::start(node.address).await;
    let address = proxy.address;
    let got = tokio::task::spawn_blocking(move || wire::converse(address, &wire::query(1, "SELECT 1"))).await;
    assert_eq!(got.unwrap(), passes);
    proxy.stop().await;
}

#[tokio::test]
async fn an_event_about_a_new_node_waits_for_its_listener() {
    let event = |address: [u8; 4], port: u16| {
        let mut body = b"\0\x0fTOPOLOGY_CHANGE\0\x08NEW_NODE\x04".to_vec();
        body.extend(address);
        body.extend(u32::from(port).to_be_bytes());
        wire::envelope(0x84, -1, 0x0c, &body)
    };
    let (written, events_are_written) = mpsc::channel();
    let sent = [event([10, 0, 0, 9], 9042), wire::void(5)].concat();
    let node = wire::Node::start(move |mut connection| {
        let mut first = [0; 1];
        if std::io::Read::read_exact(&mut connection, &mut first).is_ok() {
            connection.write_all(&sent).unwrap();
            written.send(Instant::now()).unwrap();
            wire::read_to_end(&mut connection);
        }
    });
    let proxy = Showing::start(node.address).await;
    let (addresses, address) = (proxy.addresses.clone(), proxy.address);
    let client = tokio::task::spawn_blocking(move || wire::converse(address, &wire::query(1, "SELECT 1")));
    proxy.addresses.wanted().await;
    assert!(events_are_written.recv_timeout(wire::LIMIT).is_ok());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!client.is_finished(), "the event did not wait");
    addresses.publish(vec![NodeAddress {
        host_id: None,
        broadcast: IpAddr::from([10, 0, 0, 9]),
        native: SocketAddr::from(([10, 0, 0, 9], 9042)),
        listen: SHOWN,
        ready: true,
    }]);
    let expected = [event([127, 7, 7, 7], 7777), wire::void(5)].concat();
    assert_eq!(client.await.unwrap(), expected);
    proxy.stop().await;
}
