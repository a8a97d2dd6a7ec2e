//! Transactions as they are counted: their patterns, and what they do to their tables.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;

use jiff::Timestamp;

use super::testing::{query, void};
use super::{Audit, HashKey};
use crate::catalog::Live;
use cqlens_capture::{Clock, Connection, ConnectionId, Queue, QueueLimits, Tap};
use cqlens_cql::plan::{Flag, StatementKind};
use cqlens_cql::schema::{Schema, TableName};
use cqlens_proto::{envelope::Direction, message::Consistency};
use cqlens_window::Window;

const SCHEMA: &str = "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy'};
    CREATE TABLE s.acct (id int PRIMARY KEY, cents int) WITH transactional_mode = 'full';
    CREATE TABLE s.ledger (acct int, seq int, note text, PRIMARY KEY (acct, seq)) WITH transactional_mode = 'full';";

fn window(texts: &[&str]) -> Window {
    let live = Arc::new(Live::with_schema(Schema::from_cql(SCHEMA).unwrap()));
    let queue = Arc::new(Queue::new(QueueLimits::default()));
    let key = HashKey::random();
    let audit = Audit::start(Arc::clone(&queue), &live, key, "test", Timestamp::UNIX_EPOCH).unwrap();
    let connection = Arc::new(Connection::new(ConnectionId(0), "10.0.0.1:5".parse().unwrap()));
    let [mut requests, mut responses] = [Direction::Request, Direction::Response].map(|direction| {
        Tap::new(
            Arc::clone(&connection),
            direction,
            Arc::clone(&queue),
            Clock::start(),
        )
    });
    for text in texts {
        requests.offer(&query(text, Consistency::One));
        responses.offer(&void());
    }
    connection.close(Clock::start().now());
    audit.stop(Timestamp::UNIX_EPOCH)
}

fn table(name: &str) -> TableName {
    TableName {
        keyspace: "s".to_owned(),
        table: name.to_owned(),
    }
}

#[test]
fn a_transaction_counts_as_what_it_does_on_each_of_its_tables() {
    let transfer = |from: i32, to: i32| {
        format!(
            "BEGIN TRANSACTION LET a = (SELECT * FROM s.acct WHERE id = {from}); IF a.cents > 5 THEN \
             UPDATE s.acct SET cents -= 5 WHERE id = {from}; UPDATE s.acct SET cents += 5 WHERE id = {to}; \
             INSERT INTO s.ledger (acct, seq, note) VALUES ({from}, 1, 'x'); END IF COMMIT TRANSACTION"
        )
    };
    let texts = [transfer(1, 2), transfer(2, 3)];
    let window = window(&texts.each_ref().map(String::as_str));
    assert_eq!(window.patterns.len(), 1, "values are no part of a template");
    let pattern = window.patterns.values().next().unwrap();
    assert_eq!(
        (pattern.head.kind, pattern.count),
        (StatementKind::Transaction, 2)
    );
    assert!(pattern.is(Flag::SeveralTables));
    assert_eq!(pattern.partitions.max(), 3, "two accounts and a ledger");
    let acct = &window.tables[&table("acct")];
    assert_eq!(
        (acct.reads, acct.writes),
        (6, 4),
        "one LET and two that change what is stored"
    );
    assert_eq!(acct.partitions_per_read.max(), 2);
    let ledger = &window.tables[&table("ledger")];
    assert_eq!((ledger.reads, ledger.writes), (0, 2));
}

#[test]
fn a_transaction_that_only_reads_writes_nothing() {
    let window =
        window(&["BEGIN TRANSACTION SELECT * FROM s.acct WHERE id IN (1, 2, 1); COMMIT TRANSACTION"]);
    let acct = &window.tables[&table("acct")];
    assert_eq!(
        (acct.reads, acct.writes, acct.partitions_per_read.max()),
        (1, 0, 2)
    );
    assert_eq!(window.patterns.values().next().unwrap().partitions.max(), 2);
}
