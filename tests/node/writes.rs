//! What INSERT, UPDATE, DELETE and batches leave behind.

use super::*;

#[tokio::test]
async fn deletes_of_cells_rows_ranges_and_partitions_take_what_they_name() {
    let node = node().await;
    let mut client = client(&node).await;
    events_table(&mut client).await;
    client
        .query("DELETE n FROM e WHERE day = 'mon' AND at = 3 AND kind = 'c'")
        .await
        .unwrap();
    assert_eq!(
        rows(&mut client, "SELECT n FROM e WHERE day = 'mon' AND at = 3").await,
        ["null"]
    );
    client
        .query("DELETE FROM e WHERE day = 'mon' AND at = 1")
        .await
        .unwrap();
    assert_eq!(
        rows(&mut client, "SELECT at, kind FROM e WHERE day = 'mon'").await,
        ["2 a", "3 c"]
    );
    client
        .query("DELETE FROM e WHERE day = 'mon' AND at >= 3")
        .await
        .unwrap();
    assert_eq!(
        rows(&mut client, "SELECT at, kind FROM e WHERE day = 'mon'").await,
        ["2 a"]
    );
    client.query("DELETE FROM e WHERE day = 'mon'").await.unwrap();
    assert_eq!(rows(&mut client, "SELECT day FROM e").await, ["tue"]);
}

#[tokio::test]
async fn lightweight_transactions_say_whether_they_were_applied() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .query("CREATE TABLE a (id int PRIMARY KEY, owner text, n int)")
        .await
        .unwrap();
    let insert = "INSERT INTO a (id, owner, n) VALUES (1, 'ann', 5) IF NOT EXISTS";
    assert_eq!(rows(&mut client, insert).await, ["True"]);
    assert_eq!(rows(&mut client, insert).await, ["False 1 5 ann"]);
    let update =
        |n: i32| format!("UPDATE a SET owner = 'bob' WHERE id = 1 IF n > {n} AND owner IN ('ann', 'eve')");
    assert_eq!(rows(&mut client, &update(9)).await, ["False 5 ann"]);
    assert_eq!(rows(&mut client, &update(4)).await, ["True"]);
    assert_eq!(
        rows(&mut client, "DELETE FROM a WHERE id = 2 IF EXISTS").await,
        ["False"]
    );
    assert_eq!(
        rows(&mut client, "DELETE FROM a WHERE id = 1 IF owner = 'bob'").await,
        ["True"]
    );
    assert_eq!(rows(&mut client, "SELECT * FROM a").await, [""; 0]);
}

#[tokio::test]
async fn batches_of_every_form_write_all_their_statements() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .query("CREATE TABLE b (k int, c int, v text, PRIMARY KEY (k, c))")
        .await
        .unwrap();
    client
        .query("BEGIN BATCH INSERT INTO b (k, c, v) VALUES (1, 1, 'x'); UPDATE b SET v = 'y' WHERE k = 1 AND c = 2 APPLY BATCH")
        .await
        .unwrap();
    let insert = client
        .prepare("INSERT INTO b (k, c, v) VALUES (?, ?, ?)")
        .await
        .unwrap();
    let (one, two) = (
        [Bind::int(2), Bind::int(1), Bind::text("z")],
        [Bind::int(2), Bind::int(2), Bind::Null],
    );
    let delete = "DELETE FROM b WHERE k = 1 AND c = 1";
    let runs = [
        Run::Prepared(&insert, &one),
        Run::Prepared(&insert, &two),
        Run::Text(delete, &[]),
    ];
    client
        .batch(BatchKind::Logged, &runs, &RunOptions::default())
        .await
        .unwrap();
    assert_eq!(
        rows(&mut client, "SELECT * FROM b").await,
        ["1 2 y", "2 1 z", "2 2 null"]
    );
    let conditional = "BEGIN BATCH INSERT INTO b (k, c) VALUES (2, 3); UPDATE b SET v = 'n' WHERE k = 2 AND c = 1 IF v = 'q' APPLY BATCH";
    let answer = client.query(conditional).await.unwrap();
    assert_eq!(answer.shown()[0][0], "False");
    assert_eq!(rows(&mut client, "SELECT c FROM b WHERE k = 2").await, ["1", "2"]);
}

#[tokio::test]
async fn an_unlogged_batch_over_many_partitions_is_warned_about() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .query("CREATE TABLE b (k int PRIMARY KEY, v text)")
        .await
        .unwrap();
    let inserts: Vec<_> = (0..11)
        .map(|key| format!("INSERT INTO b (k, v) VALUES ({key}, 'x')"))
        .collect();
    let runs: Vec<_> = inserts.iter().map(|insert| Run::Text(insert, &[])).collect();
    let answer = client
        .batch(BatchKind::Unlogged, &runs, &RunOptions::default())
        .await
        .unwrap();
    assert_eq!(answer.warnings.len(), 1);
    assert!(
        answer.warnings[0].starts_with("Unlogged batch covering 11 partitions detected against table [k.b].")
    );
    let answer = client
        .batch(BatchKind::Logged, &runs, &RunOptions::default())
        .await
        .unwrap();
    assert_eq!(answer.warnings, [""; 0]);
}

#[tokio::test]
async fn collections_counters_and_user_types_keep_what_is_put_into_them() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .script(
            "CREATE TYPE address (street text, city text); \
             CREATE TABLE c (id int PRIMARY KEY, tags set<text>, steps list<int>, m map<text, int>, home frozen<address>); \
             INSERT INTO c (id, tags, steps, m, home) VALUES (1, {'b', 'a', 'b'}, [1, 2], {'x': 1}, {street: 's', city: 'c'}); \
             UPDATE c SET tags = tags + {'c'}, steps = [0] + steps, m['y'] = 2 WHERE id = 1; \
             UPDATE c SET tags = tags - {'a'}, steps[1] = 7 WHERE id = 1; \
             CREATE TABLE n (id int PRIMARY KEY, hits counter); \
             UPDATE n SET hits = hits + 5 WHERE id = 1; UPDATE n SET hits -= 2 WHERE id = 1;",
        )
        .await
        .unwrap();
    let found = rows(&mut client, "SELECT tags, steps, m, home FROM c").await;
    assert_eq!(
        found,
        ["{'b', 'c'} [0, 7, 2] {'x': 1, 'y': 2} {street: 's', city: 'c'}"]
    );
    assert_eq!(rows(&mut client, "SELECT hits FROM n").await, ["3"]);
    let contains = "SELECT id FROM c WHERE tags CONTAINS 'c' ALLOW FILTERING";
    assert_eq!(rows(&mut client, contains).await, ["1"]);
}

#[tokio::test]
async fn static_columns_belong_to_the_partition() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .script(
            "CREATE TABLE s (k int, c int, name text static, v int, PRIMARY KEY (k, c)); \
             INSERT INTO s (k, name) VALUES (1, 'one'); INSERT INTO s (k, c, v) VALUES (2, 1, 1); \
             INSERT INTO s (k, c, v) VALUES (2, 2, 2); UPDATE s SET name = 'two' WHERE k = 2;",
        )
        .await
        .unwrap();
    assert_eq!(
        rows(&mut client, "SELECT k, c, name, v FROM s WHERE k = 1").await,
        ["1 null one null"]
    );
    assert_eq!(
        rows(&mut client, "SELECT c, name FROM s WHERE k = 2").await,
        ["1 two", "2 two"]
    );
    assert_eq!(
        rows(&mut client, "SELECT DISTINCT k, name FROM s").await,
        ["1 one", "2 two"]
    );
}

#[tokio::test]
async fn data_with_a_time_to_live_counts_down() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .query("CREATE TABLE t (id int PRIMARY KEY, v int)")
        .await
        .unwrap();
    client
        .query("INSERT INTO t (id, v) VALUES (1, 1) USING TTL 100 AND TIMESTAMP 5")
        .await
        .unwrap();
    let found = rows(&mut client, "SELECT ttl(v), writetime(v) FROM t").await;
    let (ttl, written) = found[0].split_once(' ').unwrap();
    assert!((90..=100).contains(&ttl.parse::<i32>().unwrap()), "{ttl}");
    assert_eq!(written, "5");
}
