//! A test of the audit as a whole: texts that share the analysis of their shape count as they do one by one.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;

use cqlens_cql::schema::Schema;
use cqlens_proto::{envelope::Direction, message::Consistency};
use jiff::Timestamp;
use serde_json::{Value, to_value};

use super::{
    Audit, HashKey,
    testing::{query, result},
};
use crate::catalog::Live;
use cqlens_capture::{Clock, Connection, ConnectionId, Queue, QueueLimits, Tap};
use cqlens_window::Window;

const SCHEMA: &str =
    "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE s.t (k int PRIMARY KEY, v int);
    CREATE INDEX t_v ON s.t (v);
    CREATE TABLE s.events (day date, host text, at timestamp, id int, level text, PRIMARY KEY ((day, host), at, id));";

/// Texts with the number of a request in them.
fn texts(number: u32) -> Vec<String> {
    let (day, minute) = (number % 28 + 1, number % 60);
    vec![
        format!("SELECT v FROM s.t WHERE k = {number}"),
        format!(
            "SELECT v FROM s.t WHERE k IN ({number}, {}, {number})",
            number % 3
        ),
        format!("SELECT k FROM s.t WHERE v = {}", number % 5),
        format!("SELECT k FROM s.t LIMIT {}", number + 1),
        format!("SELECT gone FROM s.t WHERE k = {number}"),
        format!(
            "SELECT v FROM s.t WHERE k = {number}{}",
            "0".repeat(number as usize % 3 * 5)
        ),
        format!("SELECT v FROM s.gone WHERE k = {number}"),
        format!(
            "SELECT id FROM s.events WHERE day = '2026-01-{day:02}' AND host = 'host-{number}' \
             AND at >= '2026-01-01T00:{minute:02}:00Z' AND at < '2026-01-01T00:30:00Z' LIMIT 10"
        ),
        format!(
            "SELECT id FROM s.events WHERE day = '2026-01-{day:02}' AND host = 'a' AND at IN ({number}, {minute})"
        ),
        format!("SELECT id FROM s.events WHERE host = 'h{number}' ALLOW FILTERING"),
        format!("SELECT v FROM s.t WHERE token(k) > {number}"),
        // Rows that are written again, with the same values and with others.
        format!("INSERT INTO s.t (k, v) VALUES ({}, {})", number % 20, number % 3),
        format!(
            "INSERT INTO s.t (k, v) VALUES ({number}, null) USING TIMESTAMP {}",
            1_000_000 * number
        ),
        format!(
            "INSERT INTO s.events (day, host, at, id, level) VALUES ('2026-01-0{}', 'a', {}, {minute}, 'level {}')",
            number % 9 + 1,
            number % 4,
            number % 2,
        ),
        format!(
            "UPDATE s.t USING TTL {number} SET v = {minute} WHERE k = {}",
            number % 7
        ),
        format!("UPDATE s.t USING TIMESTAMP {number} SET v = {minute} WHERE k IN ({number}, 7) IF v = 1"),
        format!("DELETE FROM s.events WHERE day = {day} AND host = 'a' AND at > {minute} AND at < 30"),
        format!("DELETE v FROM s.t WHERE k = {number}"),
    ]
}

/// The window of 50 requests of each text, with a comment in each, which is a part of its shape.
fn window(key: HashKey, comment: impl Fn(u32) -> u32) -> Window {
    let live = Arc::new(Live::with_schema(Schema::from_cql(SCHEMA).unwrap()));
    let queue = Arc::new(Queue::new(QueueLimits::default()));
    let audit = Audit::start(Arc::clone(&queue), &live, key, "test", Timestamp::UNIX_EPOCH).unwrap();
    let connection = Arc::new(Connection::new(ConnectionId(0), "10.0.0.1:5".parse().unwrap()));
    // One for both directions: by two clocks a request may come before the response to the one before it.
    let clock = Clock::start();
    let [mut requests, mut responses] = [Direction::Request, Direction::Response]
        .map(|direction| Tap::new(Arc::clone(&connection), direction, Arc::clone(&queue), clock));
    for number in 0..50 {
        for text in texts(number) {
            let text = format!("{text} /* {:04} */", comment(number));
            requests.offer(&query(&text, Consistency::One));
            responses.offer(&result(1, &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0]));
        }
    }
    connection.close(clock.now());
    audit.stop(Timestamp::UNIX_EPOCH)
}

/// What is counted, but for times.
fn counted(window: &Window) -> Value {
    let mut counted = serde_json::json!([to_value(&window.patterns).unwrap(), window.tables]);
    forget_times(&mut counted);
    counted
}

fn forget_times(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !["at", "seen", "latency_us"].contains(&name.as_str()));
            members.values_mut().for_each(forget_times);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_times),
        _ => {}
    }
}

#[test]
fn what_shares_an_analysis_counts_as_what_has_its_own() {
    let key = HashKey::random();
    // With ever new comments no shape comes again.
    let [shared, own] = [window(key, |_| 0), window(key, |number| number)];
    assert_eq!(shared.patterns.len(), 17);
    assert_eq!(counted(&shared), counted(&own));
}
