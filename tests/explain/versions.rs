//! `--server`: which version of Cassandra reads the statements.

use serde_json::{Value, json};

use crate::explain::Folder;

const SIX: &str = "CREATE TABLE shop.acct (id int PRIMARY KEY, cents int, owner text CHECK LENGTH() < 5) WITH transactional_mode = 'full';\n\
                   CREATE TABLE shop.plain (k int, c int, PRIMARY KEY (k, c));\n";

const TRANSFER: &str = "BEGIN TRANSACTION LET a = (SELECT * FROM acct WHERE id = 1); IF a.cents > 5 THEN \
    UPDATE acct SET cents -= 5 WHERE id = 1; UPDATE acct SET cents += 5 WHERE id = 2; END IF COMMIT TRANSACTION";

fn folder() -> Folder {
    Folder::new().with("six.cql", [crate::explain::SCHEMA, SIX].concat())
}

/// The answer of a version to a statement under the schema.
fn answer(server: &str, query: &str) -> Value {
    let arguments = ["--json", "--server", server, "--schema", "six.cql"];
    let record = json!({ "query": query }).to_string();
    let ended = folder().explain(&arguments, record.as_bytes());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    serde_json::from_str(&ended.out).unwrap()
}

#[test]
fn a_transaction_is_answered_with_what_it_reads_and_writes() {
    let answer = answer("6.0", TRANSFER);
    assert_eq!(answer["error"], Value::Null);
    assert_eq!(answer["kind"], "transaction");
    assert_eq!(answer["partitions"], 2);
    assert_eq!(
        (&answer["txn_lets"], &answer["txn_updates"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        (&answer["txn_select"], &answer["txn_conditions"]),
        (&Value::Null, &json!(1))
    );
    assert_eq!(
        (&answer["read_partitions"], &answer["write_partitions"]),
        (&json!(2), &json!(2))
    );
    let mut keys = answer["write_keys"].as_array().unwrap().clone();
    keys.sort_by_key(|key| key.to_string());
    assert_eq!(keys, ["shop.acct/00000001", "shop.acct/00000002"]);
    let text = folder().explain(&["--server", "6.0", "--schema", "six.cql"], TRANSFER.as_bytes());
    assert!(
        text.out
            .contains("reads 2 partitions of shop.acct; writes 2 partitions of shop.acct"),
        "{}",
        text.out
    );
    assert_eq!(text.code, Some(0));
}

#[test]
fn what_a_version_does_not_know_is_an_error_that_names_the_one_that_does() {
    for (server, query, is_read) in [
        ("6.0", TRANSFER, true),
        ("5.0", TRANSFER, false),
        (
            "6.0",
            "SELECT * FROM plain WHERE k = 1 AND c BETWEEN 1 AND 5",
            true,
        ),
        (
            "5.0",
            "SELECT * FROM plain WHERE k = 1 AND c BETWEEN 1 AND 5",
            false,
        ),
        ("6.0", "SELECT * FROM plain WHERE k = 1 AND c != 5", true),
        ("5.0", "SELECT * FROM plain WHERE k = 1 AND c != 5", false),
        ("5.0", "ALTER TABLE IF EXISTS plain ADD x int", true),
        ("4.0", "ALTER TABLE IF EXISTS plain ADD x int", false),
        ("5.0", "CREATE TABLE included_indexes (k int PRIMARY KEY)", true),
        ("6.0", "CREATE TABLE included_indexes (k int PRIMARY KEY)", false),
    ] {
        let answer = answer(server, query);
        assert_eq!(answer["error"].is_null(), is_read, "{server}: {query}: {answer}");
    }
    let ended = folder().explain(&["--schema", "six.cql"], TRANSFER.as_bytes());
    assert!(ended.out.contains("but 6.0 does (see --server)"), "{}", ended.out);
    let ended = folder().explain(&["--server", "7.0"], b"USE a");
    assert_eq!(ended.code, Some(2));
}

#[test]
fn a_violated_constraint_and_a_definition_that_does_not_fit_are_named() {
    let written = answer("6.0", "INSERT INTO acct (id, owner) VALUES (1, 'a long name')");
    assert!(
        written["error"]["message"]
            .as_str()
            .unwrap()
            .contains("LENGTH() < 5"),
        "{written}"
    );
    let copied = answer("6.0", "CREATE TABLE nowhere.acct LIKE acct");
    assert_eq!(copied["error"]["stage"], "apply");
    let off = answer(
        "6.0",
        "BEGIN TRANSACTION SELECT * FROM plain WHERE k = 1; COMMIT TRANSACTION",
    );
    assert!(
        off["error"]["message"]
            .as_str()
            .unwrap()
            .contains("transactional_mode"),
        "{off}"
    );
}
