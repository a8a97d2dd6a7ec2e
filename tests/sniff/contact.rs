//! A node that is asked for what the capture lacks: its schema and its prepared statements; and nodes that
//! cannot be asked.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
};

use cqlens_client::{Bind, Client, ClientOptions, Run, RunOptions};
use cqlens_node::{Node, Options};
use tokio::runtime::Runtime;

use crate::sniff::{
    certificates::{Authority, BOTH, acceptor, in_front_of},
    conversation::Relay,
    report::number,
    sniff::{Place, recording},
    tcp::{PUSH, capture, segments},
};

/// Reads by a statement that was prepared before the capture began.
struct Reads {
    runtime: Runtime,
    node: Node,
    capture: PathBuf,
}

const READS: i32 = 20;

fn reads(place: &Place) -> Reads {
    let runtime = Runtime::new().unwrap();
    let node = runtime.block_on(Node::start(Options::default())).unwrap();
    let relay = Relay::start(node.address());
    runtime.block_on(async {
        let options = Arc::new(ClientOptions::default());
        let mut client = Client::connect(&relay.address.to_string(), &options)
            .await
            .unwrap();
        for cql in [
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE shop.orders (id int PRIMARY KEY, total int)",
        ] {
            client.query(cql).await.unwrap();
        }
        let prepared = client
            .prepare("SELECT total FROM shop.orders WHERE id IN (?, ?)")
            .await
            .unwrap();
        for id in 0..READS {
            let values = [Bind::int(id), Bind::int(id + 1)];
            client
                .run(Run::Prepared(&prepared, &values), &RunOptions::default())
                .await
                .unwrap();
        }
    });
    let all = segments(&relay.capture());
    // Each read is a packet of the client, and comes after everything that was prepared.
    let of_client: Vec<usize> = (0..all.len())
        .filter(|&index| all[index].to.port() == 9042 && all[index].flags & PUSH != 0)
        .collect();
    let first = of_client[of_client.len() - usize::try_from(READS).unwrap()];
    let file = place.write("reads.pcap", &capture(&all[first..]).plain());
    Reads {
        runtime,
        node,
        capture: file,
    }
}

fn counted(report: &serde_json::Value) -> [u64; 3] {
    ["audited", "partitions_exact", "partitions_unknown"].map(|key| number(&report["coverage"][key]))
}

#[test]
fn a_node_tells_what_was_prepared_before_the_capture_began() {
    let place = Place::new();
    let reads = reads(&place);
    let count = u64::try_from(READS).unwrap();
    let alone = place.sniff(&[&reads.capture], &[]);
    assert_eq!(counted(alone.report()), [count, 0, count], "{}", alone.told());
    let contact = reads.node.address().to_string();
    let asked = Place::new().sniff(&[&reads.capture], &["--contact", &contact]);
    assert_eq!(counted(asked.report()), [count, count, 0], "{}", asked.told());
    let pattern = &asked.report()["patterns"][0];
    assert_eq!(pattern["partitions"]["total"], 2 * count);
    assert_eq!(pattern["keyspace"], "shop");
    reads.runtime.block_on(reads.node.shutdown());
}

#[test]
fn a_node_that_speaks_tls_is_asked_over_tls() {
    let place = Place::new();
    let reads = reads(&place);
    let authority = Authority::new(&place.path(""), "authority");
    let other = Authority::new(&place.path(""), "other");
    let shown = authority.issue("node", &["db.example.com"]);
    let client = authority.issue("client", &[]);
    let address = reads.runtime.block_on(in_front_of(
        reads.node.address(),
        acceptor(&shown, Some(&authority), BOTH),
    ));
    let contact = address.to_string();
    let file = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let count = u64::try_from(READS).unwrap();
    let identity = [
        "--upstream-tls-cert".to_owned(),
        file(&client.certificate),
        "--upstream-tls-key".to_owned(),
        file(&client.key),
    ];
    let sniff = |authority: &Authority, more: &[&str]| {
        let ca = file(&authority.file);
        let mut arguments = vec!["--contact", &contact, "--upstream-tls-ca", &ca];
        arguments.extend(identity.iter().map(String::as_str));
        arguments.extend(more);
        Place::new().sniff(&[&reads.capture], &arguments)
    };
    for more in [
        &["--upstream-tls-name", "db.example.com"][..],
        &["--upstream-tls-no-hostname-check"],
    ] {
        let asked = sniff(&authority, more);
        assert_eq!(counted(asked.report()), [count, count, 0], "{}", asked.told());
    }
    // Another name, another authority: not asked, and said.
    for asked in [
        sniff(&authority, &[]),
        sniff(&other, &["--upstream-tls-name", "db.example.com"]),
    ] {
        assert_eq!(asked.code(), Some(0), "{}", asked.told());
        assert_eq!(counted(asked.report()), [count, 0, count], "{}", asked.told());
        assert!(asked.told().contains("could not be queried"), "{}", asked.told());
    }
    let unreadable = sniff(&authority, &["--upstream-tls-name", "not a name"]);
    assert_eq!(unreadable.code(), Some(2), "{}", unreadable.told());
    reads.runtime.block_on(reads.node.shutdown());
}

/// Accepts connections and answers everything with what `answer` makes of the header.
fn answering(answer: impl Fn([u8; 9]) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut header = [0; 9];
            while connection.read_exact(&mut header).is_ok() {
                let length = u32::from_be_bytes(header[5..9].try_into().unwrap());
                let mut body = vec![0; usize::try_from(length).unwrap()];
                if connection.read_exact(&mut body).is_err() || connection.write_all(&answer(header)).is_err()
                {
                    break;
                }
            }
        }
    });
    address
}

fn envelope(header: [u8; 9], opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut envelope = vec![header[0].min(4) | 0x80, 0, header[2], header[3], opcode];
    envelope.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    envelope.extend(body);
    envelope
}

/// The capture is reported of all the same, and what is missing is said once on the terminal and in the
/// report.
#[test]
fn a_node_that_cannot_be_asked_is_told_with_the_reason() {
    let class = b"\0\x2forg.apache.cassandra.auth.PasswordAuthenticator";
    let asks_for_a_password = answering(move |header| envelope(header, 0x03, class));
    let other_version = b"\0\0\0\x0a\0\x26unsupported protocol version (5); 4/v4";
    let takes_none = answering(move |header| match header[4] {
        // From there on version 5 has segments.
        _ if header[0] == 5 => envelope(header, 0x00, other_version),
        0x0f => envelope(header, 0x00, b"\0\0\x01\0\0\x09not known"),
        _ => envelope(header, 0x03, class),
    });
    let speaks_http = answering(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
    let recorded = recording("python-v4-none");
    let place = Place::new();
    let whole = counted(place.sniff(&[&recorded.file], &[]).report());
    let password = ["--username", "cassandra", "--password", "hunter2"];
    for (contact, more, reason) in [
        (
            "127.99.1.1:1".to_owned(),
            &[][..],
            "cannot connect to 127.99.1.1:1",
        ),
        ("name.invalid".to_owned(), &[], "name.invalid"),
        (asks_for_a_password.to_string(), &[], "username and password"),
        (takes_none.to_string(), &password, "username and password"),
        (speaks_http.to_string(), &[], "127.0.0.1"),
    ] {
        let mut arguments = vec!["--contact", &contact];
        arguments.extend(more);
        let sniffed = place.sniff(&[&recorded.file], &arguments);
        let told = sniffed.told();
        assert_eq!(sniffed.code(), Some(0), "{contact}: {told}");
        assert_eq!(counted(sniffed.report()), whole, "{contact}: {told}");
        let notices = sniffed.report()["notices"].to_string();
        assert!(
            notices.contains("could not be queried") && notices.contains(reason),
            "{contact}: {told}"
        );
        assert!(
            !told.contains("hunter2") && !told.contains("panicked"),
            "{contact}: {told}"
        );
    }
}

#[test]
fn what_is_for_the_node_needs_one() {
    let recorded = recording("python-v4-none");
    let place = Place::new();
    for arguments in [
        &["--username", "anna", "--password", "hunter2"][..],
        &["--upstream-tls-ca", "ca.pem"],
        &["--contact", "db", "--upstream-tls-ca", "missing.pem"],
        &["--contact", "db", "--upstream-tls-cert", "client.pem"],
        &["--contact", ""],
    ] {
        let sniffed = place.sniff(&[&recorded.file], arguments);
        assert_eq!(sniffed.code(), Some(2), "{arguments:?}: {}", sniffed.said());
        assert!(!sniffed.said().contains("hunter2"), "{}", sniffed.said());
    }
}
