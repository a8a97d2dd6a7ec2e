//! What a connection is: versions, framing, prepared statements, keyspaces, errors, events.

use super::*;

const SETUPS: [(Version, Compression); 8] = [
    (Version::V3, Compression::None),
    (Version::V3, Compression::Lz4),
    (Version::V3, Compression::Snappy),
    (Version::V4, Compression::None),
    (Version::V4, Compression::Lz4),
    (Version::V4, Compression::Snappy),
    (Version::V5, Compression::None),
    (Version::V5, Compression::Lz4),
];

#[tokio::test]
async fn every_version_and_compression_writes_prepares_and_reads() {
    let node = node().await;
    for (version, compression) in SETUPS {
        let options = ClientOptions {
            version,
            compression,
            ..ClientOptions::default()
        };
        let mut client = Client::connect(node.address(), &options).await.unwrap();
        client.script(KEYSPACE).await.unwrap();
        client
            .query("CREATE TABLE IF NOT EXISTS t (id int PRIMARY KEY, v text)")
            .await
            .unwrap();
        client.query("TRUNCATE t").await.unwrap();
        let insert = client
            .prepare("INSERT INTO t (id, v) VALUES (?, ?)")
            .await
            .unwrap();
        // Longer than a segment.
        let long = "x".repeat(300_000);
        for id in 0..3 {
            let values = [Bind::int(id), Bind::text(&long)];
            client
                .run(Run::Prepared(&insert, &values), &RunOptions::default())
                .await
                .unwrap();
        }
        let select = client.prepare("SELECT v FROM t WHERE id = ?").await.unwrap();
        let expected_indices: &[u16] = if version == Version::V3 { &[] } else { &[0] };
        assert_eq!(
            select.partition_key_indices, expected_indices,
            "{version} {compression:?}"
        );
        assert_eq!(select.result_metadata_id.is_some(), version == Version::V5);
        let runs: Vec<[Bind; 1]> = (0..4).map(|id| [Bind::int(id)]).collect();
        let runs: Vec<_> = runs.iter().map(|values| Run::Prepared(&select, values)).collect();
        let answers = client.run_all(&runs, &RunOptions::default()).await.unwrap();
        let found: Vec<_> = answers
            .iter()
            .map(|answer| answer.as_ref().unwrap().rows.len())
            .collect();
        assert_eq!(found, [1, 1, 1, 0], "{version} {compression:?}");
        assert_eq!(
            answers[0].as_ref().unwrap().rows[0][0].as_ref().unwrap(),
            long.as_bytes()
        );
    }
    node.shutdown().await;
}

#[tokio::test]
async fn a_forgotten_statement_has_to_be_prepared_again() {
    let node = node().await;
    let mut client = client(&node).await;
    client.query("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    let select = client.prepare("SELECT * FROM t WHERE id = ?").await.unwrap();
    node.forget_prepared();
    let values = [Bind::int(1)];
    let Err(ClientError::Server { code, unprepared, .. }) = client
        .run(Run::Prepared(&select, &values), &RunOptions::default())
        .await
    else {
        panic!("the statement is still known")
    };
    assert_eq!(
        (code, unprepared.as_ref()),
        (ErrorCode::UNPREPARED, Some(&select.id))
    );
    let again = client.prepare("SELECT * FROM t WHERE id = ?").await.unwrap();
    assert_eq!(again.id, select.id);
    client
        .run(Run::Prepared(&again, &values), &RunOptions::default())
        .await
        .unwrap();
    client.query("ALTER TABLE t ADD v int").await.unwrap();
    let error = client
        .run(Run::Prepared(&again, &values), &RunOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UNPREPARED));
}

#[tokio::test]
async fn columns_that_changed_are_told_to_a_client_that_knows_the_old_ones() {
    let node = node().await;
    let options = ClientOptions {
        version: Version::V5,
        ..ClientOptions::default()
    };
    let mut client = Client::connect(node.address(), &options).await.unwrap();
    client.script(KEYSPACE).await.unwrap();
    client.query("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    client.query("INSERT INTO t (id) VALUES (1)").await.unwrap();
    let cql = "SELECT * FROM t WHERE id = ?";
    let known = client.prepare(cql).await.unwrap();
    client.query("ALTER TABLE t ADD v int").await.unwrap();
    let renewed = client.prepare(cql).await.unwrap();
    assert_eq!(renewed.id, known.id);
    assert_ne!(renewed.result_metadata_id, known.result_metadata_id);
    let options = RunOptions {
        skip_metadata: true,
        ..RunOptions::default()
    };
    let values = [Bind::int(1)];
    let answer = client
        .run(Run::Prepared(&known, &values), &options)
        .await
        .unwrap();
    assert_eq!(answer.new_metadata_id, renewed.result_metadata_id);
    assert_eq!(answer.columns.len(), 2);
    let answer = client
        .run(Run::Prepared(&renewed, &values), &options)
        .await
        .unwrap();
    assert_eq!(
        (answer.new_metadata_id, answer.columns.len(), answer.rows.len()),
        (None, 0, 1)
    );
}

#[tokio::test]
async fn unqualified_names_are_those_of_use_of_the_request_or_of_prepare() {
    let node = node().await;
    let options = ClientOptions {
        version: Version::V5,
        ..ClientOptions::default()
    };
    let mut client = Client::connect(node.address(), &options).await.unwrap();
    let (code, message) = refusal(&mut client, "SELECT * FROM t").await;
    assert_eq!(code, ErrorCode::INVALID);
    assert!(message.starts_with("No keyspace has been specified"), "{message}");
    for keyspace in ["a", "b"] {
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        client
            .query(&format!(
                "CREATE KEYSPACE {keyspace} WITH replication = {replication}"
            ))
            .await
            .unwrap();
        client
            .query(&format!("CREATE TABLE {keyspace}.t (id text PRIMARY KEY)"))
            .await
            .unwrap();
        client
            .query(&format!("INSERT INTO {keyspace}.t (id) VALUES ('{keyspace}')"))
            .await
            .unwrap();
    }
    let used = client.query("USE a").await.unwrap();
    assert_eq!(used.keyspace.as_deref(), Some("a"));
    assert_eq!(rows(&mut client, "SELECT * FROM t").await, ["a"]);
    let in_b = RunOptions {
        keyspace: Some("b".to_owned()),
        ..RunOptions::default()
    };
    let answer = client
        .run(Run::Text("SELECT * FROM t", &[]), &in_b)
        .await
        .unwrap();
    assert_eq!(lines(&answer), ["b"]);
    let prepared = client.prepare_in("SELECT * FROM t", Some("b")).await.unwrap();
    let answer = client
        .run(Run::Prepared(&prepared, &[]), &RunOptions::default())
        .await
        .unwrap();
    assert_eq!(lines(&answer), ["b"]);
}

#[tokio::test]
async fn values_are_bound_by_name_null_or_not_at_all() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .query("CREATE TABLE v (id int PRIMARY KEY, a int, b int)")
        .await
        .unwrap();
    let insert = "INSERT INTO v (id, a, b) VALUES (:id, :first, ?)";
    let values = [("b", Bind::int(3)), ("first", Bind::int(2)), ("id", Bind::int(1))];
    client
        .run(Run::Named(insert, &values), &RunOptions::default())
        .await
        .unwrap();
    assert_eq!(rows(&mut client, "SELECT * FROM v").await, ["1 2 3"]);
    let insert = client
        .prepare("INSERT INTO v (id, a, b) VALUES (?, ?, ?)")
        .await
        .unwrap();
    let values = [Bind::int(1), Bind::NotSet, Bind::Null];
    client
        .run(Run::Prepared(&insert, &values), &RunOptions::default())
        .await
        .unwrap();
    assert_eq!(rows(&mut client, "SELECT * FROM v").await, ["1 2 null"]);
    let error = client
        .run(Run::Prepared(&insert, &[]), &RunOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::INVALID));
}

#[tokio::test]
async fn errors_carry_cassandras_codes() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .query("CREATE TABLE t (id int PRIMARY KEY, v int)")
        .await
        .unwrap();
    for (cql, code) in [
        ("SELEKT * FROM t", ErrorCode::SYNTAX_ERROR),
        ("SELECT * FROM nowhere", ErrorCode::INVALID),
        ("SELECT nothing FROM t", ErrorCode::INVALID),
        ("INSERT INTO t (v) VALUES (1)", ErrorCode::INVALID),
        ("INSERT INTO t (id) VALUES ('text')", ErrorCode::INVALID),
        ("SELECT * FROM t LIMIT 0", ErrorCode::INVALID),
        ("USE nowhere", ErrorCode::INVALID),
        ("SELECT * FROM system_views.nothing", ErrorCode::INVALID),
        ("INSERT INTO system.local (key) VALUES ('x')", ErrorCode::INVALID),
        ("CREATE TABLE t (id int PRIMARY KEY)", ErrorCode::ALREADY_EXISTS),
        (
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            ErrorCode::ALREADY_EXISTS,
        ),
    ] {
        assert_eq!(refusal(&mut client, cql).await.0, code, "{cql}");
    }
    let unchanged = client
        .query("CREATE TABLE IF NOT EXISTS t (id int PRIMARY KEY)")
        .await
        .unwrap();
    assert_eq!(unchanged.schema_change, None);
}

#[tokio::test]
async fn a_version_of_the_future_is_refused_in_version_5_and_the_connection_stays() {
    use cqlens_proto::envelope::{HEADER_LEN, Header};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let node = node().await;
    let mut socket = tokio::net::TcpStream::connect(node.address()).await.unwrap();
    for _ in 0..2 {
        socket.write_all(&[66, 0, 0, 7, 5, 0, 0, 0, 0]).await.unwrap();
        let mut header = [0; HEADER_LEN];
        socket.read_exact(&mut header).await.unwrap();
        let header = Header::decode(&header);
        assert_eq!(
            (header.version, header.opcode, header.stream_id.0),
            (Version::V5, Opcode::ERROR, 7)
        );
        let mut body = vec![0; header.body_len as usize];
        socket.read_exact(&mut body).await.unwrap();
        assert_eq!(body[..4], 0x0a_i32.to_be_bytes());
        assert!(String::from_utf8_lossy(&body).contains("Invalid or unsupported protocol version (66)"));
    }
    socket
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).await.unwrap();
    // Somebody else's protocol ends a connection, not the node.
    connect(&node).await;
}

#[tokio::test]
async fn a_query_before_startup_is_an_error_and_not_the_end() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let node = node().await;
    let mut socket = tokio::net::TcpStream::connect(node.address()).await.unwrap();
    for opcode in [7_u8, 5] {
        let body = [0, 0, 0, 1, b'x', 0, 1, 0];
        let body = if opcode == 7 { &body[..] } else { &[] };
        socket
            .write_all(&[4, 0, 0, 1, opcode, 0, 0, 0, u8::try_from(body.len()).unwrap()])
            .await
            .unwrap();
        socket.write_all(body).await.unwrap();
        let mut header = [0; 9];
        socket.read_exact(&mut header).await.unwrap();
        assert_eq!(header[4], if opcode == 7 { 0 } else { 6 });
        let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        socket.read_exact(&mut vec![0; length as usize]).await.unwrap();
    }
}

#[tokio::test]
async fn registered_clients_hear_of_schema_changes() {
    let node = node().await;
    let mut listener = connect(&node).await;
    let register = Request::Register(Register {
        event_types: vec!["SCHEMA_CHANGE"],
    });
    let ready = listener.request(&register).await.unwrap();
    assert_eq!(ready.header.opcode, Opcode::READY);
    client(&node).await;
    let event = listener.next_event().await.unwrap();
    let Response::Event(Event::SchemaChange(change)) =
        Response::decode(&event, Extensions::NONE).unwrap().message
    else {
        panic!("no schema change")
    };
    assert_eq!(
        (change.change, change.keyspace, change.object.target()),
        ("CREATED", "k", "KEYSPACE")
    );
}

#[tokio::test]
async fn a_node_that_stops_closes_its_connections_and_its_port() {
    let node = node().await;
    let mut client = connect(&node).await;
    let address = node.address();
    node.shutdown().await;
    assert!(client.query("SELECT * FROM system.local").await.is_err());
    assert!(Client::connect(address, &ClientOptions::default()).await.is_err());
}
