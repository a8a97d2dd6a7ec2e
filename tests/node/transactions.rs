//! Transactions of Cassandra 6.0, on the embedded node.

use super::*;

const TABLES: [&str; 3] = [
    "CREATE TABLE k.acct (id int PRIMARY KEY, cents bigint) WITH transactional_mode = 'full'",
    "CREATE TABLE k.entry (acct int, number int, cents bigint, PRIMARY KEY (acct, number)) WITH transactional_mode = 'full'",
    "CREATE TABLE k.plain (id int PRIMARY KEY, cents bigint)",
];

async fn bank() -> (Node, Client) {
    let node = node().await;
    let mut client = client(&node).await;
    for table in TABLES {
        client.query(table).await.unwrap();
    }
    for id in 1..=2 {
        let insert = format!("INSERT INTO k.acct (id, cents) VALUES ({id}, 100)");
        client.query(&insert).await.unwrap();
    }
    (node, client)
}

fn transfer(cents: i64) -> String {
    format!(
        "BEGIN TRANSACTION LET a = (SELECT * FROM k.acct WHERE id = 1); SELECT a.cents, a.id; IF a.cents >= {cents} THEN \
         UPDATE k.acct SET cents -= {cents} WHERE id = 1; UPDATE k.acct SET cents += {cents} WHERE id = 2; \
         INSERT INTO k.entry (acct, number, cents) VALUES (1, {cents}, a.cents); END IF COMMIT TRANSACTION"
    )
}

#[tokio::test]
async fn all_of_a_transaction_is_written_or_nothing() {
    let (_node, mut client) = bank().await;
    assert_eq!(
        rows(&mut client, &transfer(30)).await,
        ["100 1"],
        "as they were before"
    );
    assert_eq!(
        rows(&mut client, "SELECT cents FROM k.acct WHERE id = 1").await,
        ["70"]
    );
    assert_eq!(
        rows(&mut client, "SELECT cents FROM k.acct WHERE id = 2").await,
        ["130"]
    );
    assert_eq!(rows(&mut client, &transfer(71)).await, ["70 1"]);
    assert_eq!(
        rows(&mut client, "SELECT cents FROM k.acct WHERE id = 1").await,
        ["70"]
    );
    assert_eq!(
        rows(&mut client, "SELECT number, cents FROM k.entry").await,
        ["30 100"]
    );
}

#[tokio::test]
async fn nothing_compares_with_null_and_nothing_is_added_to_it() {
    let (_node, mut client) = bank().await;
    for (condition, cents) in [
        ("a IS NULL", "1"),
        ("a IS NOT NULL", "1"),
        ("a.cents = null", "1"),
    ] {
        let text = format!(
            "BEGIN TRANSACTION LET a = (SELECT * FROM k.acct WHERE id = 3); IF {condition} THEN \
             INSERT INTO k.acct (id, cents) VALUES (3, {cents}); END IF COMMIT TRANSACTION"
        );
        client.query(&text).await.unwrap();
        assert_eq!(
            rows(&mut client, "SELECT cents FROM k.acct WHERE id = 3").await,
            ["1"]
        );
    }
    let add = "BEGIN TRANSACTION UPDATE k.acct SET cents += 5 WHERE id = 9; COMMIT TRANSACTION";
    client.query(add).await.unwrap();
    assert_eq!(
        rows(&mut client, "SELECT cents FROM k.acct WHERE id = 9").await,
        [""; 0]
    );
}

#[tokio::test]
async fn tables_need_a_mode() {
    let (_node, mut client) = bank().await;
    let text = "BEGIN TRANSACTION UPDATE k.plain SET cents = 5 WHERE id = 1; COMMIT TRANSACTION";
    let (code, message) = refusal(&mut client, text).await;
    assert_eq!(code, ErrorCode::INVALID);
    assert!(
        message.contains("Accord transactions are disabled on table"),
        "{message}"
    );
}

#[tokio::test]
async fn a_span_may_be_said_with_between() {
    let (_node, mut client) = bank().await;
    for number in 1..=5 {
        let insert = format!("INSERT INTO k.entry (acct, number, cents) VALUES (1, {number}, 0)");
        client.query(&insert).await.unwrap();
    }
    let between =
        |range: &str| format!("SELECT number FROM k.entry WHERE acct = 1 AND number BETWEEN {range}");
    assert_eq!(rows(&mut client, &between("2 AND 4")).await, ["2", "3", "4"]);
    assert_eq!(rows(&mut client, &between("4 AND 2")).await, [""; 0]);
}
