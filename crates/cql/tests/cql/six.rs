//! The language of Cassandra 6.0. The verdicts are those of 6.0-alpha2's own parser.

use cqlens_cql::ServerVersion;
use cqlens_cql::schema::{Constraint, Schema};
use cqlens_cql::syntax::ast::{
    Body, Check, CheckFunction, Dialect, Kind, Modification, RelationOperator, Returning, Term,
};
use cqlens_cql::syntax::{self, Template, script};

const V6: Dialect = Dialect::Cassandra(ServerVersion::V6_0);

#[track_caller]
fn parsed(text: &str) -> syntax::ast::Statement<'_> {
    syntax::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn what_is_new_is_read_by_6_0_alone() {
    for (kind, text) in [
        (Kind::Select, "SELECT * FROM t WHERE k BETWEEN 1 AND 2"),
        (Kind::Select, "SELECT * FROM t WHERE (a, b) BETWEEN (1, 2) AND ?"),
        (
            Kind::Select,
            "SELECT * FROM t WHERE s NOT CONTAINS 1 AND m NOT CONTAINS KEY 'a' ALLOW FILTERING",
        ),
        (
            Kind::Select,
            "SELECT * FROM t WHERE e = 3 WITH included_indexes = {a, ks.b} AND excluded_indexes = {}",
        ),
        (Kind::Select, "LET a = (SELECT * FROM t WHERE k = 1)"),
        (
            Kind::CreateTable,
            "CREATE TABLE t (k int PRIMARY KEY, v int NOT NULL CHECK v > 0 AND v <= 5)",
        ),
        (
            Kind::CreateTable,
            "CREATE TABLE t (k int CHECK NOT_NULL() AND JSON PRIMARY KEY, v text CHECK REGEXP() = 'a')",
        ),
        (
            Kind::CopyTable,
            "CREATE TABLE IF NOT EXISTS a LIKE ks.b WITH INDEXES AND comments = 'x' AND SECURITY LABELS",
        ),
        (
            Kind::AlterTable,
            "ALTER TABLE t ALTER IF EXISTS v CHECK LENGTH() < 5",
        ),
        (Kind::AlterTable, "ALTER TABLE t ALTER v DROP CHECK"),
        (
            Kind::AlterTable,
            "ALTER TABLE t ADD (x int CHECK x > 0, y text MASKED WITH DEFAULT CHECK NOT NULL)",
        ),
        (Kind::CommentOnColumn, "COMMENT ON COLUMN ks.t.comment IS 'x'"),
        (Kind::CommentOnUserTypeField, "COMMENT ON FIELD addr.zip IS NULL"),
        (
            Kind::SecurityLabelOnTable,
            "SECURITY LABEL FOR \"P\" ON TABLE t IS 'pii'",
        ),
        (
            Kind::SecurityLabelOnKeyspace,
            "security label on keyspace label is 'x'",
        ),
        (
            Kind::CreateRole,
            "CREATE ROLE r WITH GENERATED PASSWORD AND LOGIN = true",
        ),
        (Kind::CreateRole, "CREATE GENERATED ROLE WITH GENERATED PASSWORD"),
        (Kind::AlterRole, "ALTER USER u WITH GENERATED PASSWORD"),
        (Kind::ListSuperusers, "LIST SUPERUSERS"),
        (Kind::Transaction, "BEGIN TRANSACTION COMMIT TRANSACTION"),
    ] {
        let statement = parsed(text);
        assert_eq!(statement.kind(), kind, "{text}");
        assert_eq!(
            statement.extension.map(|extension| extension.dialect),
            Some(V6),
            "{text}"
        );
    }
}

#[test]
fn what_older_versions_do_not_read_is_named() {
    use ServerVersion::{V4_0, V4_1, V5_0};
    for (since, text) in [
        (V4_1, "ALTER TABLE IF EXISTS t ADD IF NOT EXISTS a int"),
        (V4_1, "ALTER TYPE t RENAME IF EXISTS a TO b"),
        (V4_1, "CREATE ROLE r WITH HASHED PASSWORD = 'x'"),
        (
            V5_0,
            "CREATE TABLE t (k int PRIMARY KEY, v text MASKED WITH DEFAULT)",
        ),
        (V5_0, "CREATE TABLE t (k int PRIMARY KEY, v vector<float, 3>)"),
        (
            V5_0,
            "SELECT maxwritetime(a) FROM t ORDER BY v ANN OF [1.0] LIMIT 1",
        ),
        (V5_0, "ADD IDENTITY 'x' TO ROLE 'y'"),
        (V5_0, "CREATE ROLE r WITH ACCESS FROM ALL CIDRS"),
    ] {
        let extension = parsed(text).extension.unwrap_or_else(|| panic!("{text}"));
        assert_eq!(extension.dialect, Dialect::Cassandra(since), "{text}");
        assert!(
            !extension.is_read_by(V4_0) && extension.is_read_by(V5_0),
            "{text}"
        );
    }
}

#[test]
fn what_6_0_calls_a_syntax_error_is_one() {
    for text in [
        "SELECT * FROM t WHERE m['a'] BETWEEN 1 AND 5",
        "SELECT * FROM t WHERE token(k) NOT IN (5)",
        "SELECT * FROM t WHERE NOT s CONTAINS 1",
        "SELECT * FROM t WITH included_indexes = {a} WHERE e = 3",
        "SELECT * FROM t WHERE e = 3 WITH INCLUDED_INDEXES = {a}",
        "CREATE TABLE t (k int PRIMARY KEY, v int CHECK)",
        "CREATE TABLE t (k int PRIMARY KEY, v int CHECK NOSUCH)",
        "CREATE TABLE t (k int PRIMARY KEY, v int CHECK v BETWEEN 1 AND 5)",
        "CREATE TABLE t (k int PRIMARY KEY, v int CHECK LENGTH(v) > 5)",
        "CREATE TABLE a LIKE b WITH COMPACT STORAGE",
        "ALTER TABLE t ADD x int NOT NULL",
        "COMMENT ON INDEX i IS 'x'",
        "COMMENT ON TABLE t IS 5",
        "SECURITY LABELS ON TABLE t IS 'x'",
        "CREATE GENERATED ROLE r",
        "CREATE ROLE r WITH GENERATED PASSWORD AND PASSWORD = 'x'",
        "INSERT INTO t (k) VALUES (a.k)",
        "BEGIN TRANSACTION LET a = (SELECT k AS x FROM t WHERE k = 1); COMMIT TRANSACTION",
        "BEGIN TRANSACTION LET \"A\" = (SELECT * FROM t WHERE k = 1); COMMIT TRANSACTION",
        "BEGIN TRANSACTION LET label = (SELECT * FROM t WHERE k = 1); COMMIT TRANSACTION",
        "BEGIN TRANSACTION LET a = (SELECT * FROM t); COMMIT TRANSACTION",
        "BEGIN TRANSACTION IF a IS NULL THEN DELETE FROM t WHERE k = 1; COMMIT TRANSACTION",
        "BEGIN TRANSACTION IF a IS NULL THEN DELETE FROM t WHERE k = 1; END IF; COMMIT TRANSACTION",
        "BEGIN TRANSACTION DELETE FROM t WHERE k = 1 COMMIT TRANSACTION",
        "BEGIN TRANSACTION UPDATE t SET a = b.c + 1 WHERE k = 1; COMMIT TRANSACTION",
        "BEGIN TRANSACTION DELETE FROM t WHERE k = a.k; COMMIT TRANSACTION",
        "COMMIT TRANSACTION",
    ] {
        assert!(syntax::parse(text).is_err(), "{text}");
    }
}

#[test]
fn new_words_are_names_and_two_old_names_are_none() {
    let words = [
        "between",
        "check",
        "column",
        "comment",
        "comments",
        "commit",
        "end",
        "field",
        "generated",
        "indexes",
        "label",
        "labels",
        "let",
        "security",
        "then",
        "transaction",
    ];
    for word in words {
        let text = format!("SELECT {word} FROM {word}.{word} WHERE {word} = ? AND {word} IN (1)");
        assert_eq!(parsed(&text).extension, None, "{word}");
    }
    for word in ["included_indexes", "excluded_indexes"] {
        let text = format!("SELECT {word} FROM t");
        let extension = parsed(&text).extension.unwrap();
        assert_eq!(extension.dialect, Dialect::CassandraUpTo(ServerVersion::V5_0));
        assert!(extension.is_read_by(ServerVersion::V5_0) && !extension.is_read_by(ServerVersion::V6_0));
        let quoted = format!("SELECT \"{word}\", {} FROM t", word.to_uppercase());
        assert_eq!(parsed(&quoted).extension, None, "{word}");
    }
}

const TRANSFER: &str = "BEGIN TRANSACTION LET A = (SELECT * FROM acct WHERE id = ?); SELECT A.BALANCE, A.home.zip; \
    IF A.balance >= 5 AND 1 <= A.cents AND A IS NOT NULL THEN UPDATE acct SET balance = A.balance, cents += A.cents WHERE id = 2; \
    INSERT INTO log (id, owner) VALUES (7, A.owner); END IF COMMIT TRANSACTION";

#[test]
fn a_transaction_has_reads_conditions_and_writes() {
    let statement = parsed(TRANSFER);
    let Body::Transaction(transaction) = &statement.body else {
        panic!("{statement:?}");
    };
    assert_eq!(transaction.lets[0].name, "A", "as it is written");
    let Some(Returning::References(references)) = &transaction.returning else {
        panic!("{:?}", transaction.returning);
    };
    assert!(matches!(references[0].part.as_deref(), Some(Term::Column(name)) if *name == *"BALANCE"));
    assert!(matches!(references[1].part.as_deref(), Some(Term::Field { .. })));
    let operators: Vec<_> = transaction
        .conditions
        .iter()
        .map(|condition| condition.operator)
        .collect();
    let expected = [
        RelationOperator::GreaterOrEqual,
        RelationOperator::LessOrEqual,
        RelationOperator::IsNotNull,
    ];
    assert_eq!(operators, expected);
    assert!(transaction.conditions[1].is_value_first);
    assert!(matches!(
        transaction.updates.as_slice(),
        [Modification::Update(_), Modification::Insert(_)]
    ));
    assert_eq!(statement.bind_markers.len(), 1);
}

#[test]
fn a_transaction_ends_with_its_commit_and_no_earlier() {
    let text =
        format!("USE ks; {TRANSFER}; begin transaction delete from t where k = 1; commit transaction; USE b");
    let kinds: Vec<_> = syntax::statements(&text)
        .map(|(_, parsed)| parsed.unwrap().kind())
        .collect();
    assert_eq!(
        kinds,
        [Kind::Use, Kind::Transaction, Kind::Transaction, Kind::Use]
    );
    assert_eq!(script(&text).count(), 4);
}

#[test]
fn templates_of_what_is_new_are_what_they_were_made_of() {
    for (template, text) in [
        (
            "SELECT * FROM ks.t WHERE k BETWEEN ? AND ?",
            "SELECT * FROM t WHERE k between 1 and 7",
        ),
        (
            "SELECT * FROM ks.t WHERE s NOT CONTAINS ? ALLOW FILTERING",
            "SELECT * FROM t WHERE s NOT CONTAINS 'x' ALLOW FILTERING",
        ),
        (
            "SELECT * FROM ks.t WHERE e = ? WITH included_indexes = {a, b}",
            "SELECT * FROM t WHERE e = 3 WITH included_indexes = {a, b}",
        ),
        (
            "CREATE TABLE ks.t (k int, v int NOT NULL CHECK v > ?, PRIMARY KEY (k))",
            "CREATE TABLE t (k int PRIMARY KEY, v int NOT NULL CHECK v > 5)",
        ),
        (
            "CREATE TABLE ks.a LIKE ks.b WITH INDEXES AND comment = ?",
            "CREATE TABLE a LIKE b WITH comment = 'x' AND INDEXES",
        ),
        (
            "COMMENT ON COLUMN ks.t.c IS ?",
            "COMMENT ON COLUMN t.c IS 'secret'",
        ),
        (
            "SECURITY LABEL FOR p ON TABLE ks.t IS NULL",
            "SECURITY LABEL FOR p ON TABLE t IS NULL",
        ),
        (
            "BEGIN TRANSACTION LET A = (SELECT * FROM ks.acct WHERE id = ?); IF A.balance >= ? AND A IS NOT NULL THEN \
             DELETE FROM ks.acct WHERE id = ?; END IF COMMIT TRANSACTION",
            "BEGIN TRANSACTION LET A = (SELECT * FROM acct WHERE id = 1); IF A.balance >= 5 AND A IS NOT NULL THEN \
             DELETE FROM acct WHERE id = 3; DELETE FROM acct WHERE id = 4; END IF COMMIT TRANSACTION",
        ),
    ] {
        let made = Template::of(&parsed(text), Some("ks"));
        assert_eq!(made.text, template);
        if !template.starts_with("COMMENT") {
            let again = syntax::parse(template);
            if let Ok(again) = again {
                assert_eq!(Template::of(&again, None).text, template);
            }
        }
    }
}

#[test]
fn constraints_are_read_kept_and_printed() {
    let cql = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'};
        CREATE TABLE ks.t (k int CHECK k > 0, c text CHECK LENGTH() > 2 AND REGEXP() = 'a''.*', v int NOT NULL, PRIMARY KEY (k, c));
        ALTER TABLE ks.t ADD x text CHECK JSON;
        CREATE TABLE ks.like_t LIKE ks.t;
        COMMENT ON TABLE ks.t IS 'orders';";
    let schema = Schema::from_cql(cql).unwrap();
    let table = schema.table("ks", "t").unwrap();
    assert_eq!(table.comment(), "orders");
    assert_eq!(table.column("v").unwrap().constraints, [Constraint::NotNull]);
    assert_eq!(table.column("x").unwrap().constraints, [Constraint::Json]);
    assert_eq!(table.column("c").unwrap().constraints.len(), 2);
    assert_eq!(schema.table("ks", "like_t").unwrap().columns, table.columns);
    assert_eq!(Schema::from_cql(&schema.to_cql()).unwrap(), schema);
}

#[test]
fn constraints_that_no_column_can_have_are_refused() {
    let keyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'};";
    for definition in [
        "CREATE TABLE ks.t (k int NOT NULL PRIMARY KEY, v int)",
        "CREATE TABLE ks.t (k int PRIMARY KEY, w text CHECK REGEXP('x') = 'y')",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int CHECK v > 'a')",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int CHECK k > 1)",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int CHECK v > 5 AND v < 3)",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int CHECK JSON)",
        "CREATE TABLE ks.t (k int PRIMARY KEY, n counter) WITH transactional_mode = 'full'",
    ] {
        assert!(
            Schema::from_cql(&format!("{keyspace}{definition}")).is_err(),
            "{definition}"
        );
    }
}

#[test]
fn a_check_is_a_function_or_a_comparison() {
    let statement =
        parsed("CREATE TABLE t (k int PRIMARY KEY, v text CHECK OCTET_LENGTH() <= 8 AND v != 'x')");
    let Body::CreateTable(create) = &statement.body else {
        panic!("{statement:?}");
    };
    let checks = &create.columns[1].checks;
    assert!(matches!(
        &checks[0],
        Check::Function {
            function: CheckFunction::OctetLength,
            operator: RelationOperator::LessOrEqual,
            ..
        }
    ));
    assert!(matches!(
        &checks[1],
        Check::Value {
            operator: RelationOperator::NotEqual,
            ..
        }
    ));
}
