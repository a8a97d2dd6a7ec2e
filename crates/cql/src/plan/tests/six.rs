//! What Cassandra 6.0 decides: ranges, exclusions, hints, constraints and transactions.

use super::*;
use crate::ServerVersion;
use crate::plan::{TransactionFacts, TransactionReturns};

const SIX: &str = "
    CREATE KEYSPACE six WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE six.acct (id int PRIMARY KEY, owner text, balance bigint, cents int, hist list<int>, tags set<text>)
        WITH transactional_mode = 'full';
    CREATE TABLE six.ledger (acct int, seq int, amount bigint, note text, PRIMARY KEY (acct, seq))
        WITH transactional_mode = 'mixed_reads';
    CREATE TABLE six.plain (k int, c int, v int, w text, s set<text>, m frozen<map<text, int>>, PRIMARY KEY (k, c));
    CREATE TABLE six.idx (k int PRIMARY KEY, e int, d int);
    CREATE INDEX idx_e ON six.idx (e) USING 'sai';
    CREATE INDEX idx_d ON six.idx (d) USING 'sai';
    CREATE TABLE six.checked (k int CHECK k > 0, v int NOT NULL CHECK v <= 100, t text CHECK LENGTH() < 4,
        j text CHECK JSON, r text CHECK REGEXP() = 'a.*z', PRIMARY KEY (k));
";

fn six() -> &'static Schema {
    static SCHEMA_VALUE: std::sync::LazyLock<Schema> =
        std::sync::LazyLock::new(|| Schema::from_cql(SIX).unwrap());
    &SCHEMA_VALUE
}

fn plan(text: &str) -> Plan {
    Plan::of(&syntax::parse(text).unwrap(), Some("six"), six()).on(ServerVersion::V6_0)
}

#[track_caller]
fn count(text: &str) -> Count {
    let plan = plan(text);
    let executed = plan.execute(Some(&Values::NONE), &mut Keys::new());
    executed
        .unwrap_or_else(|refusal| panic!("{text}: {refusal}"))
        .count
}

#[track_caller]
fn refused(text: &str) -> String {
    match plan(text).execute(Some(&Values::NONE), &mut Keys::new()) {
        Ok(footprint) => panic!("{text}: {footprint:?}"),
        Err(refusal) => refusal.to_string(),
    }
}

#[test]
fn between_and_exclusions_are_slices_of_the_clustering() {
    assert_eq!(
        count("SELECT * FROM plain WHERE k = 1 AND c BETWEEN 3 AND 9"),
        Count::Exact(1)
    );
    assert_eq!(
        count("SELECT * FROM plain WHERE k = 1 AND c BETWEEN 9 AND 3"),
        Count::Exact(0)
    );
    assert_eq!(
        count("SELECT * FROM plain WHERE k = 1 AND c NOT IN (1, 2) AND c != 7 AND c > 0"),
        Count::Exact(1)
    );
    assert_eq!(
        count("SELECT * FROM plain WHERE k IN (1, 2, 1) AND c NOT IN ()"),
        Count::Exact(2)
    );
    assert_eq!(
        count("SELECT * FROM plain WHERE k = 1 AND c BETWEEN 5 AND 5 AND c != 5"),
        Count::Exact(0)
    );
    assert_eq!(count("DELETE FROM plain WHERE k = 1 AND c != 7"), Count::Exact(1));
    assert_eq!(
        plan("DELETE FROM plain WHERE k = 1 AND c BETWEEN 1 AND 2")
            .facts()
            .schema
            .clone()
            .unwrap()
            .delete_kind,
        Some(DeleteKind::Range)
    );
    assert!(refused("UPDATE plain SET v = 1 WHERE k = 1 AND c NOT IN (1)").contains("Slice restrictions"));
    assert!(
        refused("SELECT * FROM plain WHERE k = 1 AND c BETWEEN 1 AND 3 AND c > 2").contains("start bound")
    );
}

#[test]
fn on_the_partition_key_they_filter_the_ring() {
    assert_eq!(
        count("SELECT * FROM plain WHERE k BETWEEN 1 AND 5 ALLOW FILTERING"),
        Count::Scan
    );
    assert_eq!(
        count("SELECT * FROM plain WHERE k != 1 ALLOW FILTERING"),
        Count::Scan
    );
    assert!(refused("SELECT * FROM plain WHERE k NOT IN (1)").contains("ALLOW FILTERING"));
    assert!(matches!(
        count("SELECT * FROM plain WHERE token(k) BETWEEN 1 AND 5"),
        Count::TokenRange { .. }
    ));
    assert_eq!(
        count("SELECT * FROM plain WHERE token(k) BETWEEN 5 AND 1"),
        Count::Exact(0)
    );
    assert!(refused("SELECT * FROM plain WHERE k = 1 AND s NOT CONTAINS 'x'").contains("ALLOW FILTERING"));
    assert!(
        refused("SELECT * FROM plain WHERE k = 1 AND s NOT CONTAINS null ALLOW FILTERING").contains("null")
    );
    assert!(refused("SELECT * FROM plain WHERE k = 1 AND w LIKE '' ALLOW FILTERING").contains("LIKE"));
}

#[test]
fn what_older_versions_refuse_is_refused_for_them() {
    for text in [
        "SELECT * FROM plain WHERE k = 1 AND c != 2",
        "SELECT * FROM plain WHERE w LIKE 'x%' ALLOW FILTERING",
        "SELECT * FROM plain WHERE m['a'] = 1 ALLOW FILTERING",
        "BEGIN BATCH DELETE FROM plain WHERE k = 1 AND c != 2; APPLY BATCH",
    ] {
        assert_eq!(plan(text).refusal(), None, "{text}");
        assert!(plan(text).on(ServerVersion::V5_0).refusal().is_some(), "{text}");
    }
}

#[test]
fn hints_choose_indexes() {
    let indexes = |text: &str| plan(text).facts().schema.clone().unwrap().indexes;
    assert_eq!(
        indexes("SELECT * FROM idx WHERE e = 1 AND d = 2 ALLOW FILTERING WITH excluded_indexes = {idx_e}"),
        ["idx_d"]
    );
    assert!(
        refused("SELECT * FROM idx WHERE e = 1 AND d = 2 WITH excluded_indexes = {idx_e}")
            .contains("ALLOW FILTERING")
    );
    assert!(refused("SELECT * FROM idx WHERE k = 1 WITH included_indexes = {idx_e}").contains("included"));
    assert!(refused("SELECT * FROM idx WHERE e = 1 WITH included_indexes = {nosuch}").contains("nosuch"));
    assert!(refused("SELECT * FROM idx WHERE e = 1 WITH nosuch = 5").contains("nosuch"));
}

#[test]
fn a_write_that_violates_a_constraint_names_it() {
    assert_eq!(
        count("INSERT INTO checked (k, v, t, j, r) VALUES (1, 5, 'abc', '{}', 'a-z')"),
        Count::Exact(1)
    );
    for (text, constraint) in [
        ("INSERT INTO checked (k, v) VALUES (0, 5)", "k > 0"),
        ("INSERT INTO checked (k, v) VALUES (1, 101)", "v <= 100"),
        ("INSERT INTO checked (k, v) VALUES (1, null)", "null"),
        ("INSERT INTO checked (k) VALUES (1)", "'v' has to be specified"),
        ("UPDATE checked SET v = 1, t = 'abcd' WHERE k = 1", "LENGTH() < 4"),
        ("UPDATE checked SET v = 1, j = '' WHERE k = 1", "JSON"),
        (
            "UPDATE checked SET v = 1, r = 'za' WHERE k = 1",
            "REGEXP() = 'a.*z'",
        ),
        ("INSERT INTO checked JSON '{\"k\": 1, \"v\": 1}'", "'j'"),
    ] {
        let message = refused(text);
        assert!(message.contains(constraint), "{text}: {message}");
    }
    assert_eq!(
        count("INSERT INTO checked JSON '{\"k\": 1, \"v\": 1}' DEFAULT UNSET"),
        Count::Exact(1)
    );
}

/// The keys that a transaction reads and writes, as `table/key`.
fn touched(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut read, mut written) = (Keys::new(), Keys::new());
    let footprint = plan(text).transaction_footprint(Some(&Values::NONE), &mut read, &mut written);
    footprint
        .unwrap_or_else(|refusal| panic!("{text}: {refusal}"))
        .unwrap();
    let listed = |keys: &Keys| {
        let mut listed: Vec<_> = keys
            .iter()
            .map(|key| {
                format!(
                    "{}/{}",
                    key.table.table,
                    i32::from_be_bytes(key.bytes.try_into().unwrap())
                )
            })
            .collect();
        listed.sort();
        listed
    };
    (listed(&read), listed(&written))
}

#[test]
fn a_transaction_touches_what_it_reads_and_writes_once_each() {
    let transfer = "BEGIN TRANSACTION LET a = (SELECT * FROM acct WHERE id = 5); IF a.cents > 0 THEN \
        UPDATE acct SET cents -= 1 WHERE id = 1; UPDATE acct SET owner = a.owner WHERE id = 7; \
        INSERT INTO ledger (acct, seq, amount) VALUES (10, 1, 1); END IF COMMIT TRANSACTION";
    assert_eq!(count(transfer), Count::Exact(4));
    let (read, written) = touched(transfer);
    assert_eq!(read, ["acct/1", "acct/5"], "what is decremented is read too");
    assert_eq!(written, ["acct/1", "acct/7", "ledger/10"]);
    let facts = plan(transfer).facts().clone();
    assert_eq!(
        facts.transaction,
        Some(TransactionFacts {
            lets: 1,
            returns: TransactionReturns::Nothing,
            conditions: 1,
            updates: 3,
            unused_lets: 0
        })
    );
    let tables = plan(transfer).transaction_tables().unwrap();
    assert_eq!((tables.read.len(), tables.written.len()), (1, 2));
}

#[test]
fn a_transaction_reads_several_keys_by_select_and_none_is_counted_for_an_empty_write() {
    assert_eq!(
        count("BEGIN TRANSACTION SELECT * FROM acct WHERE id IN (0, 3, 1, 3); COMMIT TRANSACTION"),
        Count::Exact(3)
    );
    assert_eq!(
        count("BEGIN TRANSACTION DELETE FROM ledger WHERE acct = 1 AND seq IN (); COMMIT TRANSACTION"),
        Count::Exact(0)
    );
    let prepared = plan(
        "BEGIN TRANSACTION SELECT * FROM acct WHERE id = ?; UPDATE acct SET owner = ? WHERE id = ?; COMMIT TRANSACTION",
    );
    assert_eq!(
        prepared.execute(None, &mut Keys::new()).unwrap().count,
        Count::Unknown(Reason::Unbound)
    );
    assert_eq!(
        prepared.facts().schema.clone().unwrap().partition_key_markers,
        Some(vec![0])
    );
}

#[test]
fn where_no_definition_says_the_mode_a_transaction_is_counted() {
    let text = "BEGIN TRANSACTION SELECT * FROM plain WHERE k = 1; COMMIT TRANSACTION";
    let live = Plan::of(&syntax::parse(text).unwrap(), Some("six"), six());
    assert_eq!(
        live.execute(Some(&Values::NONE), &mut Keys::new()).unwrap().count,
        Count::Exact(1)
    );
    assert!(plan(text).refusal().is_some());
}

#[test]
fn what_a_transaction_must_not_do_is_refused() {
    let within = |body: &str| refused(&format!("BEGIN TRANSACTION {body} COMMIT TRANSACTION"));
    for (body, message) in [
        ("LET a = (SELECT * FROM acct WHERE id = 1);", "no reads or writes"),
        ("SELECT * FROM plain WHERE k = 1;", "disabled on table"),
        (
            "UPDATE plain SET v = 1 WHERE k = 1 AND c = 1;",
            "disabled on table",
        ),
        (
            "LET a = (SELECT * FROM ledger WHERE acct = 1); SELECT a.note;",
            "LIMIT 1",
        ),
        (
            "LET a = (SELECT * FROM acct WHERE id IN (1, 2)); SELECT a.owner;",
            "single partition",
        ),
        ("SELECT * FROM acct WHERE id IN (1, 2) LIMIT 1;", "LIMIT"),
        ("SELECT count(*) FROM acct WHERE id = 1;", "aggregation"),
        ("UPDATE acct USING TTL 5 SET owner = 'x' WHERE id = 1;", "ttls"),
        (
            "UPDATE acct SET owner = 'x' WHERE id = 1 IF EXISTS;",
            "conditions",
        ),
        (
            "LET A = (SELECT * FROM acct WHERE id = 1); SELECT A.OWNER;",
            "OWNER",
        ),
        (
            "LET a = (SELECT owner FROM acct WHERE id = 1); SELECT a.balance;",
            "not included",
        ),
        (
            "LET a = (SELECT * FROM acct WHERE id = 1); SELECT b.owner;",
            "Cannot resolve",
        ),
        (
            "LET a = (SELECT * FROM acct WHERE id = 1); SELECT a;",
            "specify a column",
        ),
        (
            "LET a = (SELECT * FROM acct WHERE id = 1); IF a > 5 THEN DELETE FROM acct WHERE id = 1; END IF",
            "IS NULL",
        ),
        (
            "LET a = (SELECT * FROM acct WHERE id = 1); UPDATE acct SET cents = a.owner WHERE id = 2;",
            "reference type",
        ),
        (
            "LET a = (SELECT * FROM acct WHERE id = 1); INSERT INTO acct (id, owner) VALUES (a.cents, 'x');",
            "PRIMARY KEY",
        ),
    ] {
        let found = within(body);
        assert!(found.contains(message), "{body}: {found}");
    }
}
