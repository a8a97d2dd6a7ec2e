//! What the audit counts of several statements together: reads by the values of rows, a column with an index, rows of
//! partitions that grow.

use cqlens_cql::{
    schema::{ColumnName, TableName},
    syntax::{self, Template},
};
use cqlens_window::{Link, PatternId, Window, WrittenRow};

use crate::{
    distribution::{hash, part, spread, whole},
    hour::{Analysed, key_of},
    statements::{INSERT_RETURN, NEWEST_ORDERS, ORDER_BY_ID},
};

/// Counts it for so many executions in the hour of this number.
pub(crate) fn relate(window: &mut Window, analysed: &Analysed, (times, number): (u64, u64)) {
    let cql = analysed.statement.cql;
    if cql == NEWEST_ORDERS {
        follow(window, analysed.id, (times, number));
    }
    if cql == INSERT_RETURN {
        collect(window, (times, number));
    }
    if cql.contains("sessions.sessions") {
        look_up(window, analysed, (times, number));
    }
}

/// Whoever reads the newest orders of a customer reads each of them next.
fn follow(window: &mut Window, id: PatternId, (times, number): (u64, u64)) {
    let looked_at = times / 40;
    let keys = spread((12, 20), looked_at);
    let (rows, operation) = (keys.total(), spread((13_000, 41_000), looked_at));
    let mut link = Link {
        rows,
        requests: rows,
        elapsed_us: operation.clone(),
        compared: rows - looked_at.min(rows),
        in_order: rows - looked_at.min(rows),
        keys,
        ..Link::default()
    };
    (0..rows).for_each(|row| link.values.insert(hash(number << 32 | row)));
    link.columns
        .insert("order_id".to_owned(), [("order_id".to_owned(), rows)].into());
    window.sequences.requests.insert(id, looked_at);
    let reads = window.sequences.followed.entry(id).or_default();
    (reads.reads, reads.passed_over) = (looked_at, times - looked_at);
    reads.rows = rows;
    reads.operation_us = operation;
    reads.links.insert(id_of(ORDER_BY_ID), link);
}

fn id_of(cql: &str) -> PatternId {
    let parsed = syntax::parse(cql).expect("the statements of the example are CQL");
    PatternId(Template::of(&parsed, None).fingerprint.0)
}

/// Nine warehouses get what customers send back, the first of them two of five.
fn collect(window: &mut Window, (times, number): (u64, u64)) {
    let (name, start) = (name("orders", "returns_by_warehouse"), window.start);
    window.count_table(&name, |table| {
        table.inserted.inserts += times;
        for row in 0..times {
            let row_hash = hash(number << 20 | row);
            let warehouse = match part(row_hash) {
                share if share < 0.4 => 0,
                share => 1 + whole(share * 1_000.0) % 8,
            };
            let written = WrittenRow {
                partition: key_of(&name, warehouse),
                bytes: 230,
                at: start.as_millisecond() + i64::try_from(row * 3_600_000 / times).unwrap_or(0),
            };
            table.inserted.rows.insert(row_hash);
            table.inserted.contents.insert(row_hash);
            table.inserted.sample.insert(row_hash, written);
        }
    });
}

/// Sessions are looked for by the user, whom an index finds; a user has one or two.
fn look_up(window: &mut Window, analysed: &Analysed, (times, number): (u64, u64)) {
    let table = name("sessions", "sessions");
    let column = ColumnName {
        table,
        column: "user_id".to_owned(),
    };
    let is_insert = analysed.statement.cql.starts_with("INSERT");
    let is_lookup = analysed.statement.cql.contains("user_id = ?");
    window.count_indexed(&column, |indexed| {
        if is_insert {
            indexed.inserts += times;
            // Enough of them: a sketch of all says the same.
            let known = times.min(500);
            indexed.known += known;
            for session in 0..known {
                indexed.rows.insert(hash(number << 24 | session));
                indexed
                    .values
                    .insert(hash((number << 24 | session) - session % 17 / 16));
            }
        } else if is_lookup && analysed.statement.rows.1 > 0 {
            indexed.reads += times;
            (0..times).for_each(|user| indexed.asked.insert(hash(number << 24 | user)));
        }
    });
}

fn name(keyspace: &str, table: &str) -> TableName {
    TableName {
        keyspace: keyspace.to_owned(),
        table: table.to_owned(),
    }
}
