//! The partitions that most rows and bytes are of, which need not be those of most requests.

use cqlens_cql::schema::TableName;
use cqlens_proto::{envelope::Version, message::BatchKind};

use crate::wire::{
    Answer::{Error, Rows, Void},
    Cell::Int,
    SCHEMA, Wire, ask,
};

#[test]
fn a_partition_that_is_seldom_read_may_have_most_rows_and_bytes() {
    let mut wire = Wire::new(SCHEMA, Version::V4);
    let read = "SELECT note FROM shop.orders WHERE customer = ?";
    wire.times(50, &ask(read, &[Int(1)]), &Rows(2, 8));
    wire.times(3, &ask(read, &[Int(2)]), &Rows(400, 100));
    wire.times(9, &ask(read, &[Int(3)]), &Error(0x1200));
    let insert = "INSERT INTO shop.orders (customer, at) VALUES (?, ?)";
    wire.times(7, &ask(insert, &[Int(1), Int(1)]), &Void);
    // Of one partition, and of two, of which nobody knows which had what.
    wire.batch(
        BatchKind::Unlogged,
        &[(insert, &[Int(1), Int(2)]), (insert, &[Int(1), Int(3)])],
    );
    wire.batch(
        BatchKind::Unlogged,
        &[(insert, &[Int(1), Int(2)]), (insert, &[Int(4), Int(3)])],
    );
    let window = wire.end(3_600);
    let table = &window.tables[&TableName {
        keyspace: "shop".to_owned(),
        table: "orders".to_owned(),
    }];
    let busiest = table.top_partitions.top(1)[0].0;
    let rows = table.weights.rows.top(2);
    let counts: Vec<_> = rows
        .iter()
        .map(|(_, entry)| (entry.reads, entry.writes))
        .collect();
    assert_eq!(counts, [(1_200, 0), (100, 9)]);
    assert_eq!(rows[1].0, busiest, "two rows a read, by fifty reads");
    let (largest, bytes) = table.weights.bytes.top(1)[0];
    assert_eq!(largest, rows[0].0);
    assert!((120_000..140_000).contains(&bytes.reads), "{bytes:?}");
    assert_eq!(table.weights.rows.total(), 1_200 + 100 + 9);
}
