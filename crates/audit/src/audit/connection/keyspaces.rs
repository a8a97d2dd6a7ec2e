//! Which keyspace the unqualified names of a connection are in.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    envelope::{Direction, StreamId, Version},
    message::{Consistency, Dialect, Extras, Prepare, Request},
};
use jiff::Timestamp;

use crate::{
    audit::{
        Audit, HashKey,
        testing::{bytes, query_on, result, set_keyspace},
    },
    catalog::Live,
};
use cqlens_capture::{Clock, Connection, ConnectionId, Queue, QueueLimits, Tap};

/// The patterns of what clients and servers say on one connection, with their executions.
fn patterns(talk: impl FnOnce(&mut Tap, &mut Tap)) -> Vec<(String, u64)> {
    let queue = Arc::new(Queue::new(QueueLimits::default()));
    let live = Arc::new(Live::default());
    let audit = Audit::start(
        Arc::clone(&queue),
        &live,
        HashKey::random(),
        "test",
        Timestamp::UNIX_EPOCH,
    );
    let audit = audit.unwrap();
    let connection = Arc::new(Connection::new(
        ConnectionId(0),
        "10.0.0.1:40000".parse().unwrap(),
    ));
    let [mut client, mut server] = [Direction::Request, Direction::Response].map(|direction| {
        Tap::new(
            Arc::clone(&connection),
            direction,
            Arc::clone(&queue),
            Clock::start(),
        )
    });
    talk(&mut client, &mut server);
    connection.close(Clock::start().now());
    let patterns = audit.stop(Timestamp::UNIX_EPOCH).patterns.into_values();
    let mut patterns: Vec<_> = patterns
        .map(|pattern| (pattern.head.cql.clone(), pattern.count))
        .filter(|(cql, _)| !cql.starts_with("USE"))
        .collect();
    patterns.sort_unstable();
    patterns
}

#[test]
fn a_request_has_the_keyspace_that_was_set_when_it_came() {
    let slow = "SELECT v FROM t WHERE k = 1";
    let reads = patterns(|client, server| {
        let mut ask = |stream, cql| client.offer(&query_on(stream, cql, Consistency::One));
        ask(1, "USE one");
        server.offer(&set_keyspace(1, "one"));
        ask(2, slow);
        ask(3, "USE two");
        server.offer(&set_keyspace(3, "two"));
        ask(4, slow);
        ask(5, "USE three");
        server.offer(&set_keyspace(5, "three"));
        ask(6, slow);
        for stream in [6, 4, 2] {
            server.offer(&result(stream, &[0, 0, 0, 1]));
        }
    });
    let expected = [
        ("SELECT v FROM one.t WHERE k = ?", 1),
        ("SELECT v FROM three.t WHERE k = ?", 1),
        ("SELECT v FROM two.t WHERE k = ?", 1),
    ];
    assert_eq!(reads, expected.map(|(cql, count)| (cql.to_owned(), count)));
}

/// Columns of `ks.t`, as ROWS and PREPARED name them: how many (`count`), the table, and `v`, an int.
fn of_table(count: [u8; 4]) -> Vec<u8> {
    [&count[..], b"\0\x02ks\0\x01t\0\x01v\0\x09"].concat()
}

/// One row of one column that names its table.
fn row(stream: i16) -> Bytes {
    let columns = of_table([0, 0, 0, 1]);
    let kind_and_flags = [0, 0, 0, 2, 0, 0, 0, 1];
    let cell = [0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7];
    result(stream, &[&kind_and_flags[..], &columns, &cell].concat())
}

/// The bytes of a PREPARE.
fn prepare(cql: &str) -> Bytes {
    let prepare = Request::Prepare(Prepare {
        query: cql,
        keyspace: None,
        other_flags: 0,
    });
    let envelope = prepare.to_envelope(Dialect::new(Version::V4), StreamId(1), &Extras::default());
    bytes(&envelope.unwrap())
}

#[test]
fn rows_say_which_keyspace_was_set_before_the_capture_also_without_a_schema() {
    let slow = "SELECT v FROM t WHERE k = 1";
    let write = "INSERT INTO t (k, v) VALUES (1, 2)";
    let found = patterns(|client, server| {
        let mut ask = |stream, cql| client.offer(&query_on(stream, cql, Consistency::One));
        ask(1, write);
        server.offer(&result(1, &[0, 0, 0, 1]));
        ask(1, "SELECT v FROM elsewhere.t");
        server.offer(&row(1));
        ask(1, write);
        server.offer(&result(1, &[0, 0, 0, 1]));
        ask(2, slow);
        ask(3, slow);
        server.offer(&row(2));
        ask(1, write);
        server.offer(&result(1, &[0, 0, 0, 1]));
        ask(1, "USE two");
        server.offer(&set_keyspace(1, "two"));
        server.offer(&row(3));
        ask(1, slow);
        // A table that the connection's own keyspace has taken over changes nothing.
        server.offer(&row(1));
        ask(1, write);
        server.offer(&result(1, &[0, 0, 0, 1]));
    });
    let expected = [
        // Nothing had named the keyspace before them.
        ("INSERT INTO ks.t (k, v) VALUES (?, ?)", 1),
        ("INSERT INTO t (k, v) VALUES (?, ?)", 2),
        ("INSERT INTO two.t (k, v) VALUES (?, ?)", 1),
        ("SELECT v FROM elsewhere.t", 1),
        ("SELECT v FROM ks.t WHERE k = ?", 2),
        ("SELECT v FROM two.t WHERE k = ?", 1),
    ];
    assert_eq!(found, expected.map(|(cql, count)| (cql.to_owned(), count)));
}

#[test]
fn what_prepare_is_answered_with_says_which_keyspace_was_set_before_the_capture() {
    let prepared = {
        let kind_and_id = [0, 0, 0, 4, 0, 1, 9];
        let bind = [&[0, 0, 0, 1][..], &of_table([0, 0, 0, 1])].concat();
        // No markers of the partition key in the middle of it, which begins with how many there are.
        let bind = [&bind[..8], &[0, 0, 0, 0], &bind[8..]].concat();
        let no_rows = [0, 0, 0, 4, 0, 0, 0, 0];
        result(1, &[&kind_and_id[..], &bind, &no_rows].concat())
    };
    let found = patterns(|client, server| {
        client.offer(&prepare("UPDATE t SET v = ? WHERE k = 1"));
        server.offer(&prepared);
        client.offer(&query_on(1, "INSERT INTO t (k) VALUES (1)", Consistency::One));
        server.offer(&result(1, &[0, 0, 0, 1]));
    });
    assert!(
        found.contains(&("INSERT INTO ks.t (k) VALUES (?)".to_owned(), 1)),
        "{found:?}"
    );
}
