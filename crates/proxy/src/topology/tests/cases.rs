//! One case each.

use super::{super::hold_budget::HeldBytes, *};

#[test]
fn the_own_node_is_shown_at_its_listener() {
    for text in [
        "SELECT rpc_address, native_port FROM system.local",
        "SELECT rpc_address, native_port FROM local",
    ] {
        let link = Link::new(PLAIN, three_nodes());
        link.send(&[PLAIN.query(1, text)]);
        let local = |shown: SocketAddr| Table {
            keyspace: "system",
            name: "local",
            columns: vec![("rpc_address", CqlType::Inet), ("native_port", CqlType::Int)],
            rows: vec![vec![
                Some(octets(shown.ip())),
                Some(u32::from(shown.port()).to_be_bytes().to_vec()),
            ]],
        };
        let got = link.answers(&[PLAIN.rows(1, &local(node(OWN).native), false)]);
        assert_eq!(got, [PLAIN.rows(1, &local(node(OWN).listen), false)]);
    }
}

#[test]
fn an_alias_hides_no_address() {
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.query(1, "SELECT rpc_address AS a, peer AS p FROM system.peers")]);
    let table = |shown: IpAddr| Table {
        keyspace: "system",
        name: "peers",
        columns: vec![("a", CqlType::Inet), ("p", CqlType::Inet)],
        rows: vec![vec![Some(octets(shown)), Some(octets(node(2).broadcast))]],
    };
    let got = link.answers(&[PLAIN.rows(1, &table(node(2).native.ip()), false)]);
    assert_eq!(got, [PLAIN.rows(1, &table(node(2).listen.ip()), false)]);
}

#[test]
fn a_null_address_is_filled_in_only_for_whole_nodes() {
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.query(1, "SELECT * FROM system.peers_v2")]);
    let mut before = peers(&[node(2), node(3)], native);
    let mut after = peers(&[node(2), node(3)], listen);
    before.rows[0][3] = None;
    for table in [&mut before, &mut after] {
        table.rows[1][2] = None;
        table.rows[1][3] = None;
        table.rows[1][4] = None;
    }
    let got = link.answers(&[PLAIN.rows(1, &before, false)]);
    assert_eq!(got, [PLAIN.rows(1, &after, false)]);
}

#[test]
fn a_node_that_is_not_ready_is_left_out() {
    let mut late = node(3);
    late.ready = false;
    let pairing = pairing(vec![node(1), node(2), late], Duration::from_millis(20));
    let link = Link::new(PLAIN, pairing.clone());
    for _ in 0..2 {
        link.send(&[PLAIN.query(1, "SELECT * FROM system.peers_v2")]);
        let got = link.answers(&[PLAIN.rows(1, &peers(&[node(2), node(3)], native), false)]);
        assert_eq!(got, [PLAIN.rows(1, &peers(&[node(2)], listen), false)]);
    }
    let got = link.answers(&[
        PLAIN.event("UP", node(3).native),
        PLAIN.event("UP", node(2).native),
    ]);
    assert_eq!(got, [PLAIN.event("UP", node(2).listen)]);
    let counts = pairing.addresses.counts();
    assert_eq!((counts.rows_left_out, counts.events_left_out), (2, 1));
}

#[test]
fn a_node_that_gets_ready_in_time_is_told_of() {
    let pairing = pairing(vec![node(1)], Duration::from_secs(10));
    let link = Link::new(PLAIN, pairing.clone());
    link.send(&[PLAIN.query(1, "SELECT * FROM system.peers_v2")]);
    let discovery = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(pairing.addresses.wanted());
        pairing.addresses.publish((1..=3).map(node).collect());
    });
    let got = link.answers(&[PLAIN.rows(1, &peers(&[node(2), node(3)], native), false)]);
    assert_eq!(got, [PLAIN.rows(1, &peers(&[node(2), node(3)], listen), false)]);
    discovery.join().unwrap();
}

#[test]
fn a_node_that_has_left_is_still_said_to_have() {
    let pairing = three_nodes();
    pairing.addresses.publish(vec![node(1), node(2)]);
    let link = Link::new(PLAIN, pairing);
    let answers = [
        PLAIN.event("DOWN", node(3).native),
        PLAIN.event("DOWN", node(9).native),
    ];
    assert_eq!(link.answers(&answers), [PLAIN.event("DOWN", node(3).listen)]);
}

#[test]
fn shard_aware_ports_are_not_announced() {
    let link = Link::new(PLAIN, three_nodes());
    let supported = |options: Vec<(&'static str, Vec<&'static str>)>| {
        PLAIN.response(1, &Response::Supported(Supported { options }))
    };
    let got = link.answers(&[supported(vec![
        ("SCYLLA_SHARD", vec!["3"]),
        ("SCYLLA_SHARD_AWARE_PORT", vec!["19042"]),
        ("COMPRESSION", vec!["lz4", "snappy"]),
        ("SCYLLA_SHARD_AWARE_PORT_SSL", vec!["19142"]),
    ])]);
    let expected = supported(vec![
        ("SCYLLA_SHARD", vec!["3"]),
        ("COMPRESSION", vec!["lz4", "snappy"]),
    ]);
    assert_eq!(got, [expected]);
}

#[test]
fn client_routes_lead_to_listeners() {
    // As scylla 1.9 asks, at once and prepared.
    let text = "SELECT connection_id, host_id, address, port, tls_port FROM system.client_routes WHERE connection_id IN ?";
    let int = |port: u16| Some(u32::from(port).to_be_bytes().to_vec());
    let row = |number: u8, address: String, ports: [Option<Vec<u8>>; 2]| {
        let [port, tls_port] = ports;
        let host_id = Some(Uuid([number; 16]).0.to_vec());
        let name = Some(address.into_bytes());
        vec![Some(b"connection".to_vec()), host_id, name, port, tls_port]
    };
    let table = |rows| Table {
        keyspace: "system",
        name: "client_routes",
        columns: vec![
            ("connection_id", CqlType::Text),
            ("host_id", CqlType::Uuid),
            ("address", CqlType::Text),
            ("port", CqlType::Int),
            ("tls_port", CqlType::Int),
        ],
        rows,
    };
    let route = |number| row(number, "a.link.example".to_owned(), [int(9001), None]);
    let listen = |number| row(number, node(number).listen.ip().to_string(), [int(9142), None]);
    let of_nodes = table(vec![
        route(2),
        row(3, "b.link.example".to_owned(), [int(9001), int(9101)]),
        // No node is known to have it, so no listener either.
        route(9),
    ]);
    let of_listeners = table(vec![
        listen(2),
        row(3, node(3).listen.ip().to_string(), [int(9142), int(9142)]),
    ]);
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.query(1, text)]);
    assert_eq!(
        link.answers(&[PLAIN.rows(1, &of_nodes, false)]),
        [PLAIN.rows(1, &of_listeners, false)]
    );
    link.send(&[PLAIN.prepare(1, text)]);
    let prepared = PLAIN.prepared(1, b"routes", &of_nodes);
    assert_eq!(link.answers(std::slice::from_ref(&prepared)), [prepared]);
    link.send(&[PLAIN.execute(1, b"routes")]);
    assert_eq!(
        link.answers(&[PLAIN.rows(1, &of_nodes, true)]),
        [PLAIN.rows(1, &of_listeners, true)]
    );
}

#[test]
fn a_statement_that_was_prepared_elsewhere_is_prepared_again_before_it_names_nodes() {
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.execute(1, b"elsewhere")]);
    let got = link.answers(&[PLAIN.rows(1, &peers(&[node(2)], native), true)]);
    let [error] = &got[..] else { panic!("{got:?}") };
    assert_eq!(error.header.opcode, Opcode::ERROR);
    assert_eq!(error.body[..4], ErrorCode::UNPREPARED.0.to_be_bytes());
    assert!(error.body.ends_with(b"\0\x09elsewhere"));
    // With the names of its columns it can be told at once.
    link.send(&[PLAIN.execute(1, b"elsewhere")]);
    let got = link.answers(&[PLAIN.rows(1, &peers(&[node(2)], native), false)]);
    assert_eq!(got, [PLAIN.rows(1, &peers(&[node(2)], listen), false)]);
    // An application's is left alone, and known from then on.
    link.send(&[PLAIN.execute(1, b"application")]);
    let mut rows = others(10);
    rows.rows[0][0] = Some(vec![10, 9, 9, 9]);
    let rows = PLAIN.rows(1, &rows, true);
    assert_eq!(link.answers(std::slice::from_ref(&rows)), [rows]);
    link.send(&[PLAIN.execute(1, b"application")]);
    assert!(link.shared.is_quiet());
}

#[test]
fn what_answers_a_request_that_was_not_understood_is_looked_at() {
    let rows = |shown: fn(&NodeAddress) -> SocketAddr| PLAIN.rows(1, &peers(&[node(2)], shown), false);
    let long = format!("SELECT * FROM system.peers_v2 /* {} */", "long ".repeat(100_000));
    for text in ["SELECT * FRUM system.peers_v2", &long] {
        let link = Link::new(PLAIN, three_nodes());
        link.send(&[PLAIN.query(1, text)]);
        assert_eq!(link.answers(&[rows(native)]), [rows(listen)]);
    }
    let link = Link::new(PLAIN, three_nodes());
    Requests::new(&link.shared).follow(&Bytes::from_static(b"\x01 is no version that is known"));
    let other = PLAIN.rows(2, &others(100), false);
    let got = link.answers(&[rows(native), other.clone()]);
    assert_eq!(got, [rows(listen), other]);
}

#[test]
fn more_answers_than_are_remembered_are_all_looked_at() {
    let link = Link::new(PLAIN, three_nodes());
    let requests: Vec<Envelope> = (0..5_000)
        .map(|stream| PLAIN.query(stream, "SELECT * FROM system.peers_v2"))
        .collect();
    link.send(&requests);
    let rows =
        |stream, shown: fn(&NodeAddress) -> SocketAddr| PLAIN.rows(stream, &peers(&[node(2)], shown), false);
    let got = link.answers(&[rows(0, native), rows(4_999, native)]);
    assert_eq!(got, [rows(0, listen), rows(4_999, listen)]);
}

#[test]
fn what_is_computed_of_an_address_passes_and_is_counted() {
    let address = octets(node(2).native.ip());
    let json = |text: &str| {
        text.replace("ADDRESS", &node(2).native.ip().to_string())
            .into_bytes()
    };
    for (text, column, column_type, cell) in [
        (
            "SELECT max(rpc_address) FROM system.peers",
            "system.max(rpc_address)",
            CqlType::Inet,
            address.clone(),
        ),
        (
            "SELECT inetAsBlob(rpc_address) FROM system.peers",
            "system.inetasblob(rpc_address)",
            CqlType::Blob,
            address,
        ),
        (
            "SELECT CAST(rpc_address AS text) FROM system.peers",
            "cast(rpc_address as text)",
            CqlType::Text,
            json("ADDRESS"),
        ),
        (
            "SELECT toJson(rpc_address) FROM system.peers",
            "system.tojson(rpc_address)",
            CqlType::Text,
            json("\"ADDRESS\""),
        ),
        (
            "SELECT JSON * FROM system.peers",
            "[json]",
            CqlType::Text,
            json("{\"rpc_address\": \"ADDRESS\"}"),
        ),
        // Not understood, so the result's own names have to do.
        (
            "SELECT JSON * FRUM system.peers",
            "[json]",
            CqlType::Text,
            json("{\"rpc_address\": \"ADDRESS\"}"),
        ),
    ] {
        let link = Link::new(PLAIN, three_nodes());
        link.send(&[PLAIN.query(1, text)]);
        let table = Table {
            keyspace: "system",
            name: "peers",
            columns: vec![(column, column_type)],
            rows: vec![vec![Some(cell)]],
        };
        let rows = PLAIN.rows(1, &table, false);
        assert_eq!(link.answers(std::slice::from_ref(&rows)), [rows], "{text}");
        assert_eq!(
            link.shared.pairing.addresses.counts().may_have_leaked,
            1,
            "{text}"
        );
    }
}

#[test]
fn a_damaged_answer_about_nodes_becomes_an_error() {
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.query(1, "SELECT * FROM system.peers_v2")]);
    let mut rows = PLAIN.rows(1, &peers(&[node(2)], native), false);
    rows.body.truncate(rows.body.len() - 3);
    let got = link.answers(&[rows]);
    assert_eq!(got[0].header.opcode, Opcode::ERROR);
    assert_eq!(got[0].header.stream_id, StreamId(1));
}

#[test]
fn an_answer_that_is_too_long_becomes_an_error_in_bounded_memory() {
    let too_long = u32::try_from(super::super::hold_budget::MAX_HELD).unwrap() + 1;
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[PLAIN.query(1, "SELECT * FROM system.peers_v2")]);
    let mut header = Header::response(Version::V4, StreamId(1), Opcode::RESULT);
    header.body_len = too_long;
    let wire = [
        &header.encode()[..],
        &vec![0; too_long as usize],
        &PLAIN.wire(&[PLAIN.event("UP", node(2).native)]),
    ]
    .concat();
    let out = link.receive(Bytes::from(wire), &[60_000]).unwrap();
    let got = PLAIN.envelopes(Direction::Response, out);
    assert_eq!(got[0].header.opcode, Opcode::ERROR);
    assert_eq!(got[1], PLAIN.event("UP", node(2).listen));
}

/// Takes so much of the room of all connections that nothing is left of it.
fn crowd(addresses: &Addresses) -> Vec<HeldBytes> {
    let mut lengths = [16 << 20, 1 << 20, 1 << 10, 1].into_iter();
    let mut length = lengths.next().unwrap();
    let mut taken = Vec::new();
    loop {
        match addresses.hold_budget().take(length) {
            Some(room) => taken.push(room),
            None => match lengths.next() {
                Some(less) => length = less,
                None => return taken,
            },
        }
    }
}

#[test]
fn where_others_hold_too_much_an_answer_becomes_an_error_until_there_is_room() {
    let pairing = three_nodes();
    let addresses = pairing.addresses.clone();
    let with = |version, compression| Spoken { version, compression };
    for spoken in [
        PLAIN,
        with(Version::V4, Compression::Lz4),
        with(Version::V5, Compression::Lz4),
    ] {
        let link = Link::new(spoken, pairing.clone());
        let nodes = [node(2), node(3)];
        let rows = |shown: fn(&NodeAddress) -> SocketAddr| spoken.rows(1, &peers(&nodes, shown), false);
        let crowd = crowd(&addresses);
        link.send(&[spoken.query(1, "SELECT * FROM system.peers_v2")]);
        let got = link.answers(&[rows(native)]);
        assert_eq!(
            (got[0].header.opcode, got[0].header.stream_id),
            (Opcode::ERROR, StreamId(1))
        );
        drop(crowd);
        link.send(&[spoken.query(1, "SELECT * FROM system.peers_v2")]);
        assert_eq!(link.answers(&[rows(native)]), [rows(listen)]);
    }
    // All of it is back.
    assert_eq!(crowd(&addresses).len(), 4);
}

#[test]
fn the_error_of_an_unknown_version_passes_and_nothing_else_of_it() {
    for (error, is_short) in [
        (&b"\x82\0\0\0\0\0\0\x08\0\0\0\x0a\0\x02no"[..], true),
        (&b"\x87\0\0\0\0\0\0\0\x08\0\0\0\x0a\0\x02no"[..], false),
    ] {
        let link = Link::new(PLAIN, three_nodes());
        for cut in [1, 100] {
            assert_eq!(link.receive(Bytes::from_static(error), &[cut]).unwrap(), error);
        }
        let mut result = error.to_vec();
        result[if is_short { 3 } else { 4 }] = Opcode::RESULT.0;
        assert!(matches!(
            link.receive(Bytes::from(result), &[100]),
            Err(Unreadable::Version(2 | 7))
        ));
    }
    let link = Link::new(PLAIN, three_nodes());
    let tls = Bytes::from_static(b"\x16\x03\x03\0\x10\x02\0\0\0\0\0");
    assert_eq!(link.receive(tls, &[100]), Err(Unreadable::Tls));
}

#[test]
fn gocql_finds_the_nodes_of_events_by_their_peer_address() {
    for (driver, is_gocql) in [(GOCQL, true), (JAVA, false)] {
        let link = Link::new(PLAIN, three_nodes());
        link.send(&[startup(0, driver)]);
        finds_by_peer(&link, is_gocql);
    }
}

#[test]
fn the_startup_counts_that_the_node_has_accepted() {
    let (ready, refused) = (PLAIN.response(0, &Response::Ready), protocol_error(0));
    // One more, after it or before the response to it.
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[startup(0, GOCQL), startup(1, JAVA)]);
    finds_by_peer(&link, true);
    link.answers(&[ready]);
    link.send(&[startup(0, JAVA)]);
    finds_by_peer(&link, true);
    // The first is refused.
    let link = Link::new(PLAIN, three_nodes());
    link.send(&[startup(0, GOCQL), startup(1, JAVA)]);
    link.answers(&[refused, PLAIN.response(1, &Response::Ready)]);
    finds_by_peer(&link, false);
}

const GOCQL: &str = "github.com/gocql/gocql";
const JAVA: &str = "Apache Cassandra Java Driver";

fn startup(stream: i16, driver: &'static str) -> Envelope {
    let options = vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", driver)];
    PLAIN.request(stream, &Request::Startup(Startup { options }))
}

fn protocol_error(stream: i16) -> Envelope {
    let mut error = PLAIN.response(stream, &Response::Ready);
    error.header.opcode = Opcode::ERROR;
    error.body = Bytes::from_static(b"\0\0\0\x0a\0\x02no");
    error.header.body_len = 8;
    error
}

/// Whether a client is shown nodes by the addresses that it looks them up by.
fn finds_by_peer(link: &Link, is_gocql: bool) {
    link.send(&[PLAIN.query(7, "SELECT * FROM system.peers_v2")]);
    let got = link.answers(&[PLAIN.rows(7, &peers(&[node(2)], native), false)]);
    let mut expected = peers(&[node(2)], listen);
    if is_gocql {
        expected.rows[0][0] = Some(octets(node(2).listen.ip()));
    }
    assert_eq!(got, [PLAIN.rows(7, &expected, false)]);
}
