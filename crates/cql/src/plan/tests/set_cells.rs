//! Cells that the writes of a transaction set twice: what Cassandra 6.0-alpha2 said of each of these.

use super::*;
use crate::ServerVersion;

const TABLES: &str = "
    CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE ks.a (k int, c int, v int, w int, s int static, l list<int>, m map<int, int>, st set<int>,
        PRIMARY KEY (k, c)) WITH transactional_mode = 'full';
    CREATE TABLE ks.b (k int PRIMARY KEY, v int, w int) WITH transactional_mode = 'full';
    CREATE TABLE ks.b2 (k int PRIMARY KEY, v int) WITH transactional_mode = 'full';
    CREATE TABLE ks.maps (k int PRIMARY KEY, v map<int, int>) WITH transactional_mode = 'full';
    CREATE TABLE ks.d (k decimal PRIMARY KEY, v int) WITH transactional_mode = 'full';
    CREATE TABLE ks.f (a int, b int, v int, PRIMARY KEY ((a, b))) WITH transactional_mode = 'full';
";

fn plan(writes: &str) -> Plan {
    static SCHEMA_VALUE: std::sync::LazyLock<Schema> =
        std::sync::LazyLock::new(|| Schema::from_cql(TABLES).unwrap());
    let text = format!("BEGIN TRANSACTION {writes} COMMIT TRANSACTION");
    let statement = syntax::parse(&text).unwrap();
    Plan::of(&statement, Some("ks"), &SCHEMA_VALUE).on(ServerVersion::V6_0)
}

#[track_caller]
fn sets_twice(writes: &str, values: &[Value<'_>]) -> bool {
    let bound = ValuesBuf::positional(values.iter().copied()).unwrap();
    match plan(writes).execute(Some(&bound.values()), &mut Keys::new()) {
        Ok(_) => false,
        Err(refusal) => {
            let message = "Transaction contains multiple updates to the same key and fields";
            assert_eq!(
                (refusal.stage, refusal.message.as_ref()),
                (Stage::Bind, message),
                "{writes}"
            );
            true
        }
    }
}

#[test]
fn a_transaction_that_sets_a_cell_twice_is_refused() {
    let read = "LET r = (SELECT * FROM b WHERE k = 9);";
    for (first, second) in [
        (
            "UPDATE b SET v = 1 WHERE k = 1;",
            "UPDATE b SET v = 2 WHERE k = 1;",
        ),
        // Of another table, whose key has the same bytes.
        (
            "UPDATE b SET v = 1 WHERE k = 1;",
            "UPDATE b2 SET v = 2 WHERE k = 1;",
        ),
        (
            "UPDATE b SET v = null WHERE k = 1;",
            "UPDATE b SET v = 2 WHERE k = 1;",
        ),
        ("DELETE v FROM b WHERE k = 1;", "UPDATE b SET v = 2 WHERE k = 1;"),
        (
            "UPDATE b SET v = 1 WHERE k IN (1, 2);",
            "DELETE v FROM b WHERE k IN (2, 3);",
        ),
        (
            "UPDATE a SET v = 1 WHERE k = 1 AND c IN (1, 2);",
            "UPDATE a SET v = 2 WHERE k = 1 AND c = 2;",
        ),
        // Static columns are cells of the partition.
        (
            "UPDATE a SET s = 1 WHERE k = 1;",
            "UPDATE a SET s = 2 WHERE k = 1;",
        ),
        (
            "UPDATE a SET s = 1, v = 1 WHERE k = 1 AND c = 1;",
            "UPDATE a SET s = 1, v = 1 WHERE k = 1 AND c = 2;",
        ),
        (
            "INSERT INTO a (k, s) VALUES (1, 1);",
            "INSERT INTO a (k, c, s) VALUES (1, 1, 2);",
        ),
        (
            "UPDATE a SET s = r.v WHERE k = 1;",
            "UPDATE a SET s = r.w WHERE k = 1;",
        ),
        // Elements are of one column.
        (
            "UPDATE a SET m[1] = 1 WHERE k = 1 AND c = 1;",
            "UPDATE a SET m[2] = 1 WHERE k = 1 AND c = 1;",
        ),
        (
            "DELETE m[1] FROM a WHERE k = 1 AND c = 1;",
            "UPDATE a SET m = {} WHERE k = 1 AND c = 1;",
        ),
        (
            "UPDATE a SET st += {1} WHERE k = 1 AND c = 1;",
            "UPDATE a SET st += {2} WHERE k = 1 AND c = 1;",
        ),
        // What is deferred counts in a row that something else makes.
        (
            "UPDATE b SET v = r.v, w = 1 WHERE k = 1;",
            "UPDATE b SET v = 2 WHERE k = 1;",
        ),
        (
            "UPDATE b SET v += 1, w = 1 WHERE k = 1;",
            "UPDATE b SET v = 2 WHERE k = 1;",
        ),
        (
            "INSERT INTO b (k, v) VALUES (1, r.v);",
            "INSERT INTO b (k, v) VALUES (1, r.w);",
        ),
        (
            "UPDATE a SET l = [1], v = 1 WHERE k = 1 AND c = 1;",
            "UPDATE a SET l = [2], w = 1 WHERE k = 1 AND c = 1;",
        ),
        (
            "INSERT INTO b JSON '{\"k\": 1, \"v\": 1}';",
            "UPDATE b SET w = 2 WHERE k = 1;",
        ),
        (
            "INSERT INTO b JSON '{\"k\": 1, \"v\": 1}' DEFAULT UNSET;",
            "UPDATE b SET w = 2 WHERE k = 1;",
        ),
    ] {
        assert!(
            sets_twice(&format!("{read} {first} {second}"), &[]),
            "{first} {second}"
        );
    }
}

#[test]
fn other_cells_are_set_once() {
    let read = "LET r = (SELECT * FROM b WHERE k = 9);";
    for (first, second) in [
        (
            "UPDATE b SET v = 1 WHERE k = 1;",
            "UPDATE b SET w = 2 WHERE k = 1;",
        ),
        (
            "UPDATE b SET v = 1 WHERE k = 1;",
            "UPDATE b SET v = 2 WHERE k = 2;",
        ),
        (
            "UPDATE b SET v = 1 WHERE k = 1;",
            "UPDATE maps SET v = {1: 1} WHERE k = 1;",
        ),
        (
            "UPDATE b SET v = 1 WHERE k = 1;",
            "UPDATE a SET v = 2 WHERE k = 1 AND c = 1;",
        ),
        // The same bytes, but of a partition key of two columns.
        (
            "UPDATE f SET v = 1 WHERE a = 1 AND b = 1;",
            "UPDATE a SET v = 2 WHERE k = 1 AND c = 1;",
        ),
        // Equal numbers, other bytes.
        (
            "UPDATE d SET v = 1 WHERE k = 1.0;",
            "UPDATE d SET v = 2 WHERE k = 1.00;",
        ),
        (
            "UPDATE a SET s = 1 WHERE k = 1;",
            "UPDATE a SET v = 2 WHERE k = 1 AND c = 1;",
        ),
        ("DELETE FROM b WHERE k = 1;", "UPDATE b SET v = 2 WHERE k = 1;"),
        ("INSERT INTO b (k) VALUES (1);", "INSERT INTO b (k) VALUES (1);"),
        (
            "UPDATE a SET v = 1 WHERE k IN (1, 1) AND c = 2;",
            "UPDATE a SET w = 1 WHERE k = 1 AND c = 2;",
        ),
        (
            "UPDATE a SET m[1] = 1, m[2] = 2 WHERE k = 1 AND c = 1;",
            "UPDATE a SET m[3] = 3 WHERE k = 1 AND c = 2;",
        ),
        // Accord makes the cell when it has read.
        (
            "UPDATE b SET v = r.v WHERE k = 1;",
            "UPDATE b SET v = r.w WHERE k = 1;",
        ),
        (
            "UPDATE b SET v = r.v WHERE k = 1;",
            "UPDATE b SET v = 2 WHERE k = 1;",
        ),
        (
            "UPDATE b SET v += 1 WHERE k = 1;",
            "UPDATE b SET v = 2 WHERE k = 1;",
        ),
        (
            "DELETE l[0] FROM a WHERE k = 1 AND c = 1;",
            "UPDATE a SET l[0] = 2 WHERE k = 1 AND c = 1;",
        ),
        (
            "UPDATE a SET l = [1] WHERE k = 1 AND c = 1;",
            "UPDATE a SET l = [2] WHERE k = 1 AND c = 1;",
        ),
        (
            "UPDATE a SET l += [1] WHERE k = 1 AND c = 1;",
            "UPDATE a SET l += [2] WHERE k = 1 AND c = 1;",
        ),
    ] {
        assert!(
            !sets_twice(&format!("{read} {first} {second}"), &[]),
            "{first} {second}"
        );
    }
}

#[test]
fn bound_values_decide_which_cells_are_set() {
    let update = "UPDATE b SET v = ? WHERE k = ?; UPDATE b SET v = ? WHERE k = ?;";
    let insert = "INSERT INTO b (v, k) VALUES (?, ?); INSERT INTO b (v, k) VALUES (?, ?);";
    let [one, two] = [Value::Bytes(&[0, 0, 0, 1]), Value::Bytes(&[0, 0, 0, 2])];
    for (values, by_update, by_insert) in [
        ([one, one, two, one], true, true),
        ([one, one, two, two], false, false),
        ([Value::Null, one, two, one], true, true),
        // What is not set is no cell; an INSERT makes the row anyway.
        ([Value::NotSet, one, two, one], false, true),
    ] {
        let found = (sets_twice(update, &values), sets_twice(insert, &values));
        assert_eq!(found, (by_update, by_insert), "{values:?}");
    }
}
