//! Counts the cells of one execution by value: the rows that INSERTs write, and the values of columns that
//! have an index.

use cqlens_cql::cells::{Cells, IndexUse};

use crate::audit::count::{repeated_values::RepeatedColumns, tables::Tables};
use cqlens_capture::Moment;
use cqlens_window::{Window, WrittenRow};

/// Counts everything of `cells`, which were sent `at` this time, in `window` and its `tables`.
#[inline]
pub fn count(
    cells: &Cells,
    at: Moment,
    window: &mut Window,
    tables: &mut Tables,
    repeated: &mut RepeatedColumns,
) {
    for row in cells.sampled() {
        repeated.count(row, tables);
    }
    if !(cells.inserted().is_empty() && cells.indexed().is_empty()) {
        count_some(cells, at, window, tables);
    }
}

#[inline(never)]
fn count_some(cells: &Cells, at: Moment, window: &mut Window, tables: &mut Tables) {
    for inserted in cells.inserted() {
        tables.count(&inserted.table, |table| {
            table.inserted.inserts += 1;
            table.inserted.rows.insert(inserted.row);
            table.inserted.contents.insert(inserted.contents);
            if let Some(row) = inserted.partition {
                let row = WrittenRow {
                    partition: row.partition,
                    bytes: row.bytes,
                    at: at.unix_nanoseconds() / 1_000_000,
                };
                table.inserted.sample.insert(inserted.row, row);
            }
        });
    }
    for seen in cells.indexed() {
        window.count_indexed(&seen.name, |column| {
            match seen.used {
                IndexUse::Inserted => column.inserts += 1,
                IndexUse::Updated => column.updates += 1,
                IndexUse::Read => column.reads += 1,
                IndexUse::ReadInPartition => column.reads_in_partition += 1,
            }
            match (seen.used, seen.row, seen.value) {
                (IndexUse::Inserted | IndexUse::Updated, Some(row), Some(value)) => {
                    column.known += 1;
                    column.rows.insert(row);
                    column.values.insert(value);
                }
                (IndexUse::Read | IndexUse::ReadInPartition, _, Some(value)) => column.asked.insert(value),
                _ => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use cqlens_proto::message::{Value, ValuesBuf};
    use jiff::Timestamp;

    use super::*;
    use crate::audit::HashKey;
    use cqlens_cql::{
        plan::Plan,
        schema::{Schema, TableName},
        syntax,
    };
    use cqlens_window::IndexedColumn;

    const SCHEMA: &str = "
        CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE s.t (k int, c int, v int, tags set<int>, plain int, PRIMARY KEY (k, c));
        CREATE INDEX ON s.t (v);
        CREATE INDEX ON s.t (tags);
        CREATE TABLE s.plain (k int PRIMARY KEY, v int);";

    /// The window after statements with the ints that are bound to them.
    fn window(statements: &[(&str, &[i32])]) -> Window {
        let schema = Schema::from_cql(SCHEMA).unwrap();
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "proxy");
        let mut tables = Tables::default();
        let mut repeated = RepeatedColumns::default();
        let mut cells = Cells::new(HashKey::random().hasher());
        for (text, bound) in statements {
            let plan = Plan::of(&syntax::parse(text).unwrap(), Some("s"), &schema);
            assert_eq!(plan.refusal(), None, "{text}");
            let bound: Vec<_> = bound.iter().map(|value| value.to_be_bytes()).collect();
            let values = ValuesBuf::positional(bound.iter().map(|value| Value::Bytes(value))).unwrap();
            cells.clear();
            plan.note_cells(&values.values(), &mut cells);
            let at = Moment::from_unix_nanoseconds(7_000_000);
            count(&cells, at, &mut window, &mut tables, &mut repeated);
        }
        tables.flush_into(&mut window);
        window
    }

    fn column(window: &Window, column: &str) -> IndexedColumn {
        let found = window.indexed.iter().find(|(name, _)| name.column == column);
        found.map(|(_, column)| column.clone()).unwrap_or_default()
    }

    #[test]
    fn inserts_are_counted_by_row_and_by_contents() {
        let text = "INSERT INTO plain (k, v) VALUES (?, ?)";
        let window = window(&[
            (text, &[1, 1]),
            (text, &[1, 1]),
            (text, &[2, 1]),
            (text, &[2, 3]),
            ("INSERT INTO plain (k, v) VALUES (7, 8)", &[]),
            ("INSERT INTO plain (k, v) VALUES (7, 9)", &[]),
            ("INSERT INTO plain (k, v) VALUES (?, ?) IF NOT EXISTS", &[5, 5]),
            ("UPDATE plain SET v = ? WHERE k = ?", &[5, 5]),
        ]);
        let table = window.tables.values().next().unwrap();
        let inserted = &table.inserted;
        assert_eq!(
            (
                inserted.inserts,
                inserted.rows.estimate(),
                inserted.contents.estimate()
            ),
            (6, 3, 5)
        );
        assert_eq!((inserted.overwrites(), inserted.changes()), (3, 2));
    }

    #[test]
    fn rows_of_partitions_of_several_are_sampled_with_the_hash_that_reports_show() {
        let schema =
            "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
            CREATE TABLE s.one (k text, c int, v text, PRIMARY KEY (k, c));
            CREATE TABLE s.two (a int, b text, c int, PRIMARY KEY ((a, b), c));
            CREATE TABLE s.flat (k int PRIMARY KEY, v int);";
        let schema = Schema::from_cql(schema).unwrap();
        let key = HashKey::random();
        let mut cells = Cells::new(key.hasher());
        for (text, expected) in [
            (
                "INSERT INTO one (k, c, v) VALUES ('ab', 1, 'xyz')",
                Some(("one", &b"ab"[..])),
            ),
            (
                "INSERT INTO two (a, b, c) VALUES (1, 'ab', 2)",
                Some(("two", &b"\0\x04\0\0\0\x01\0\0\x02ab\0"[..])),
            ),
            ("INSERT INTO flat (k, v) VALUES (1, 2)", None),
        ] {
            let plan = Plan::of(&syntax::parse(text).unwrap(), Some("s"), &schema);
            cells.clear();
            plan.note_cells(&ValuesBuf::new().values(), &mut cells);
            let expected = expected.map(|(table, routing_key)| {
                let name = TableName {
                    keyspace: "s".to_owned(),
                    table: table.to_owned(),
                };
                key.hash(&name, routing_key)
            });
            let found = cells.inserted()[0].partition;
            assert_eq!(found.map(|row| row.partition), expected, "{text}");
        }
    }

    #[test]
    fn a_row_that_is_not_named_as_a_whole_is_not_counted() {
        let window = window(&[
            ("INSERT INTO t (k, c) VALUES (?, blobAsInt(intAsBlob(3)))", &[1]),
            ("INSERT INTO t JSON '{\"k\": 1, \"c\": 1}'", &[]),
        ]);
        assert!(window.tables.values().all(|table| table.inserted.inserts <= 1));
    }

    #[test]
    fn columns_with_an_index_are_counted_by_value_and_others_are_not() {
        let insert = "INSERT INTO t (k, c, v, plain) VALUES (?, ?, ?, ?)";
        let window = window(&[
            (insert, &[1, 1, 10, 0]),
            (insert, &[1, 2, 10, 0]),
            (insert, &[1, 3, 11, 0]),
            ("INSERT INTO t (k, c, plain) VALUES (1, 4, 5)", &[]),
            ("UPDATE t SET v = ?, plain = 3 WHERE k = ? AND c = ?", &[12, 1, 1]),
            ("UPDATE t SET plain = 3 WHERE k = 1 AND c = 1", &[]),
            ("DELETE v FROM t WHERE k = 1 AND c = 2", &[]),
            ("SELECT * FROM t WHERE v = ?", &[10]),
            ("SELECT * FROM t WHERE v = ?", &[11]),
            ("SELECT * FROM t WHERE k = 1 AND v = ?", &[11]),
            ("SELECT * FROM t WHERE k = 1", &[]),
        ]);
        let v = column(&window, "v");
        assert_eq!((v.inserts, v.updates, v.known), (3, 2, 4));
        assert_eq!((v.rows.estimate(), v.values.estimate()), (3, 3));
        assert_eq!((v.reads, v.reads_in_partition, v.asked.estimate()), (2, 1, 2));
        assert_eq!(window.indexed.len(), 1);
    }

    #[test]
    fn of_a_collection_writes_and_reads_are_counted_but_no_values() {
        let window = window(&[
            ("UPDATE t SET tags = tags + {1, 2} WHERE k = 1 AND c = 1", &[]),
            ("INSERT INTO t (k, c, tags) VALUES (1, 1, {1})", &[]),
            ("SELECT * FROM t WHERE tags CONTAINS 1", &[]),
        ]);
        let tags = column(&window, "tags");
        assert_eq!((tags.inserts, tags.updates, tags.known, tags.reads), (1, 1, 0, 1));
    }

    #[test]
    fn the_statements_of_a_batch_count_each() {
        let window = window(&[(
            "BEGIN BATCH INSERT INTO plain (k, v) VALUES (1, 1); INSERT INTO t (k, c, v) VALUES (1, 1, 5); APPLY BATCH",
            &[],
        )]);
        let inserts: Vec<_> = window
            .tables
            .values()
            .map(|table| table.inserted.inserts)
            .collect();
        assert_eq!((inserts, column(&window, "v").inserts), (vec![1, 1], 1));
    }

    #[test]
    fn rows_are_compared_with_those_of_their_partition_and_of_others() {
        // Two columns of which the first belongs to the partition.
        let text = "INSERT INTO t (k, c, v, plain) VALUES (?, ?, ?, ?)";
        let rows: Vec<[i32; 4]> = (0..400).map(|n| [n % 40, n / 40, n % 40, n]).collect();
        let statements: Vec<(&str, &[i32])> = rows.iter().map(|row| (text, &row[..])).collect();
        let window = window(&statements);
        let table = window.tables.values().next().unwrap();
        let columns: Vec<_> = table.repeated.columns().collect();
        let [("plain", plain), ("v", v)] = columns[..] else {
            panic!("{columns:?}")
        };
        let partitions = v.within / 9;
        assert!((1..=15).contains(&partitions), "one in eight of 40: {partitions}");
        assert_eq!(v.within % 9, 0, "each row but the first of its partition");
        assert_eq!((v.same_within, v.same_across), (v.within, 0));
        assert_eq!((plain.within, plain.same_within), (v.within, 0));
        assert_eq!(v.across, partitions * 10 - 1);
    }
}
