//! What SELECT finds, in which order, and what it says about tombstones.

use super::*;

#[tokio::test]
async fn slices_and_in_read_what_they_name_in_clustering_order() {
    let node = node().await;
    let mut client = client(&node).await;
    events_table(&mut client).await;
    let mon = |rest: &str| format!("SELECT at, kind FROM e WHERE day = 'mon'{rest}");
    assert_eq!(rows(&mut client, &mon("")).await, ["1 a", "1 b", "2 a", "3 c"]);
    assert_eq!(rows(&mut client, &mon(" AND at > 1")).await, ["2 a", "3 c"]);
    assert_eq!(
        rows(&mut client, &mon(" AND at >= 1 AND at < 3")).await,
        ["1 a", "1 b", "2 a"]
    );
    assert_eq!(
        rows(&mut client, &mon(" AND at IN (3, 1)")).await,
        ["1 a", "1 b", "3 c"]
    );
    assert_eq!(
        rows(&mut client, &mon(" AND at = 1 AND kind IN ('b', 'z')")).await,
        ["1 b"]
    );
    assert_eq!(
        rows(&mut client, &mon(" AND (at, kind) > (1, 'a') AND (at) <= (2)")).await,
        ["1 b", "2 a"]
    );
    assert_eq!(
        rows(&mut client, &mon(" ORDER BY at DESC LIMIT 2")).await,
        ["3 c", "2 a"]
    );
    assert_eq!(rows(&mut client, &mon(" AND at > 5 AND at < 2")).await, [""; 0]);
}

#[tokio::test]
async fn several_partitions_come_by_key_for_in_and_by_token_for_scans() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .query("CREATE TABLE t (k int PRIMARY KEY, v int)")
        .await
        .unwrap();
    for key in 1..=4 {
        client
            .query(&format!("INSERT INTO t (k, v) VALUES ({key}, {key})"))
            .await
            .unwrap();
    }
    assert_eq!(
        rows(&mut client, "SELECT k FROM t WHERE k IN (4, 1, 3, 1)").await,
        ["1", "3", "4"]
    );
    // The tokens of 1 to 4 as Cassandra computes them.
    let scanned = [
        "1 -4069959284402364209",
        "2 -3248873570005575792",
        "4 -2729420104000364805",
        "3 9010454139840013625",
    ];
    assert_eq!(rows(&mut client, "SELECT k, token(k) FROM t").await, scanned);
    let range = "SELECT k FROM t WHERE token(k) > -3248873570005575792 AND token(k) <= 9010454139840013625";
    assert_eq!(rows(&mut client, range).await, ["4", "3"]);
    assert_eq!(
        rows(&mut client, "SELECT k FROM t WHERE token(k) > token(2)").await,
        ["4", "3"]
    );
}

#[tokio::test]
async fn descending_tables_read_backwards_and_order_by_turns_them() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .query("CREATE TABLE d (k text, at int, PRIMARY KEY (k, at)) WITH CLUSTERING ORDER BY (at DESC)")
        .await
        .unwrap();
    for at in [2, 1, 3] {
        client
            .query(&format!("INSERT INTO d (k, at) VALUES ('a', {at})"))
            .await
            .unwrap();
    }
    assert_eq!(
        rows(&mut client, "SELECT at FROM d WHERE k = 'a'").await,
        ["3", "2", "1"]
    );
    assert_eq!(
        rows(&mut client, "SELECT at FROM d WHERE k = 'a' AND at >= 2").await,
        ["3", "2"]
    );
    assert_eq!(
        rows(
            &mut client,
            "SELECT at FROM d WHERE k = 'a' ORDER BY at ASC LIMIT 2"
        )
        .await,
        ["1", "2"]
    );
}

#[tokio::test]
async fn pages_of_a_read_join_to_the_whole_also_in_reverse_and_over_partitions() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .query("CREATE TABLE p (k int, c int, PRIMARY KEY (k, c))")
        .await
        .unwrap();
    let insert = client
        .prepare("INSERT INTO p (k, c) VALUES (?, ?)")
        .await
        .unwrap();
    for key in 0..3 {
        for row in 0..10 {
            let values = [Bind::int(key), Bind::int(row)];
            client
                .run(Run::Prepared(&insert, &values), &RunOptions::default())
                .await
                .unwrap();
        }
    }
    for cql in [
        "SELECT * FROM p",
        "SELECT * FROM p WHERE k IN (0, 1, 2)",
        "SELECT * FROM p WHERE k = 1 ORDER BY c DESC",
        "SELECT * FROM p PER PARTITION LIMIT 4",
        "SELECT * FROM p LIMIT 17",
        "SELECT * FROM p WHERE c > 3 ALLOW FILTERING",
    ] {
        let whole = client.query(cql).await.unwrap();
        for page_size in [1, 3, 7, 100] {
            let options = RunOptions {
                page_size: Some(page_size),
                ..RunOptions::default()
            };
            let paged = client.run_paged(Run::Text(cql, &[]), &options).await.unwrap();
            assert_eq!(lines(&paged), lines(&whole), "{cql} in pages of {page_size}");
        }
    }
}

#[tokio::test]
async fn a_full_last_page_is_followed_by_an_empty_one() {
    let node = node().await;
    let mut client = client(&node).await;
    events_table(&mut client).await;
    let mut options = RunOptions {
        page_size: Some(5),
        ..RunOptions::default()
    };
    let first = client
        .run(Run::Text("SELECT * FROM e", &[]), &options)
        .await
        .unwrap();
    assert_eq!(first.rows.len(), 5);
    options.paging_state = first.paging_state;
    assert!(options.paging_state.is_some());
    let last = client
        .run(Run::Text("SELECT * FROM e", &[]), &options)
        .await
        .unwrap();
    assert_eq!((last.rows.len(), last.paging_state), (0, None));
}

#[tokio::test]
async fn filtering_needs_permission_in_cassandras_words() {
    let node = node().await;
    let mut client = client(&node).await;
    events_table(&mut client).await;
    for cql in [
        "SELECT * FROM e WHERE n = 1",
        "SELECT * FROM e WHERE at = 1",
        "SELECT * FROM e WHERE day = 'mon' AND n = 1",
        "SELECT * FROM e WHERE day > 'a'",
    ] {
        let (code, message) = refusal(&mut client, cql).await;
        assert_eq!(code, ErrorCode::INVALID, "{cql}");
        assert!(
            message.starts_with("Cannot execute this query as it might involve data filtering"),
            "{message}"
        );
        client.query(&format!("{cql} ALLOW FILTERING")).await.unwrap();
    }
    let (_, message) = refusal(&mut client, "SELECT * FROM e WHERE day = 'mon' AND kind = 'a'").await;
    assert_eq!(
        message,
        "PRIMARY KEY column \"kind\" cannot be restricted as preceding column \"at\" is not restricted"
    );
    let cql = "SELECT at, kind FROM e WHERE day = 'mon' AND kind = 'a' ALLOW FILTERING";
    assert_eq!(rows(&mut client, cql).await, ["1 a", "2 a"]);
}

#[tokio::test]
async fn an_index_makes_permission_unnecessary() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .query("CREATE TABLE u (id int PRIMARY KEY, title text, age int)")
        .await
        .unwrap();
    client.query("CREATE INDEX ON u (title)").await.unwrap();
    for (id, title) in [(1, "Ms"), (2, "Mr"), (3, "Ms")] {
        client
            .query(&format!(
                "INSERT INTO u (id, title, age) VALUES ({id}, '{title}', {id})"
            ))
            .await
            .unwrap();
    }
    assert_eq!(
        rows(&mut client, "SELECT id FROM u WHERE title = 'Ms'").await,
        ["1", "3"]
    );
    refusal(&mut client, "SELECT id FROM u WHERE title = 'Ms' AND age = 3").await;
    assert_eq!(
        rows(
            &mut client,
            "SELECT id FROM u WHERE title = 'Ms' AND age = 3 ALLOW FILTERING"
        )
        .await,
        ["3"]
    );
}

#[tokio::test]
async fn a_read_over_many_tombstones_is_warned_about_in_cassandras_words() {
    let node = Node::start(Options {
        tombstone_warn_threshold: 10,
        ..Options::default()
    })
    .await
    .unwrap();
    let mut client = client(&node).await;
    client
        .query("CREATE TABLE q (q text, at int, PRIMARY KEY (q, at))")
        .await
        .unwrap();
    for at in 0..30 {
        client
            .query(&format!("INSERT INTO q (q, at) VALUES ('a', {at})"))
            .await
            .unwrap();
    }
    for at in 0..11 {
        client
            .query(&format!("DELETE FROM q WHERE q = 'a' AND at = {at}"))
            .await
            .unwrap();
    }
    let answer = client
        .query("SELECT * FROM q WHERE q = 'a' LIMIT 10")
        .await
        .unwrap();
    assert_eq!(answer.rows.len(), 10);
    assert_eq!(
        answer.warnings,
        [
            "Read 10 live rows and 11 tombstone cells for query SELECT * FROM k.q WHERE q = 'a' LIMIT 10 ALLOW FILTERING; \
          token -8839064797231613815 (see tombstone_warn_threshold)"
        ]
    );
    let behind = client
        .query("SELECT * FROM q WHERE q = 'a' AND at > 10 LIMIT 10")
        .await
        .unwrap();
    assert_eq!(behind.warnings, [""; 0]);
    let options = ClientOptions {
        version: Version::V3,
        ..ClientOptions::default()
    };
    let mut old = Client::connect(node.address(), &options).await.unwrap();
    assert_eq!(
        old.query("SELECT * FROM k.q WHERE q = 'a'")
            .await
            .unwrap()
            .warnings,
        [""; 0]
    );
}

#[tokio::test]
async fn a_read_over_too_many_tombstones_fails_with_its_reason() {
    let node = Node::start(Options {
        tombstone_failure_threshold: 20,
        ..Options::default()
    })
    .await
    .unwrap();
    for version in [Version::V3, Version::V4, Version::V5] {
        let options = ClientOptions {
            version,
            ..ClientOptions::default()
        };
        let mut client = Client::connect(node.address(), &options).await.unwrap();
        client.script(KEYSPACE).await.unwrap();
        client
            .query("CREATE TABLE IF NOT EXISTS n (k int, c int, v int, PRIMARY KEY (k, c))")
            .await
            .unwrap();
        for row in 0..21 {
            client
                .query(&format!("INSERT INTO n (k, c, v) VALUES (1, {row}, null)"))
                .await
                .unwrap();
        }
        let (code, message) = refusal(&mut client, "SELECT * FROM n WHERE k = 1").await;
        let expected = if version == Version::V3 {
            ErrorCode::READ_TIMEOUT
        } else {
            ErrorCode::READ_FAILURE
        };
        assert_eq!(code, expected, "{version}");
        assert!(message.contains("READ_TOO_MANY_TOMBSTONES"), "{message}");
    }
}

#[tokio::test]
async fn a_bound_list_names_as_many_partitions_as_it_has_different_elements() {
    let node = node().await;
    let mut client = client(&node).await;
    client.query("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    for id in 0..5 {
        client
            .query(&format!("INSERT INTO t (id) VALUES ({id})"))
            .await
            .unwrap();
    }
    let select = client.prepare("SELECT id FROM t WHERE id IN ?").await.unwrap();
    assert_eq!(select.markers[0].name, "in(id)");
    assert_eq!(select.partition_key_indices, [0; 0]);
    use cqlens_proto::types::CqlValue;
    let list = CqlValue::List([4, 2, 4].map(CqlValue::Int).to_vec());
    let values = [Bind::value(&list, &select.markers[0].column_type).unwrap()];
    let answer = client
        .run(Run::Prepared(&select, &values), &RunOptions::default())
        .await
        .unwrap();
    assert_eq!(lines(&answer), ["2", "4"]);
}

#[tokio::test]
async fn aggregates_are_computed_over_all_rows_or_by_group() {
    let node = node().await;
    let mut client = client(&node).await;
    events_table(&mut client).await;
    assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM e").await, ["5"]);
    let cql = "SELECT min(n), max(n), sum(n), avg(n) FROM e WHERE day = 'mon'";
    assert_eq!(rows(&mut client, cql).await, ["1 3 7 1"]);
    let cql = "SELECT at, count(*) FROM e WHERE day = 'mon' GROUP BY at";
    assert_eq!(rows(&mut client, cql).await, ["1 2", "2 1", "3 1"]);
    assert_eq!(
        rows(&mut client, "SELECT COUNT(*) FROM e WHERE day = 'no'").await,
        ["0"]
    );
}
