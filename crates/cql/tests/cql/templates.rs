//! Templates: which statements share one, what they say, and that nothing of a value is left.

use cqlens_cql::syntax::ast::BatchKind;
use cqlens_cql::syntax::{self, Template, Templates, Work};

/// The template of a statement in keyspace `ks`.
#[track_caller]
fn template(text: &str) -> Template {
    let statement = syntax::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Template::of(&statement, Some("ks"))
}

/// Asserts that all texts have the first one's template, which is `expected`.
#[track_caller]
fn share(expected: &str, texts: &[&str]) {
    for text in texts {
        let found = template(text);
        assert_eq!(found.text, expected, "{text}");
        assert_eq!(found.fingerprint, template(texts[0]).fingerprint, "{text}");
    }
}

#[test]
fn literals_and_markers_are_one() {
    share(
        "SELECT a FROM ks.t WHERE k = ? AND c > ? LIMIT ?",
        &[
            "SELECT a FROM t WHERE k = 1 AND c > 'x' LIMIT 10",
            "SELECT a FROM t WHERE k = ? AND c > :c LIMIT ?",
            "SELECT a FROM t WHERE k = null AND c > {'a': [1, (2, ?)]} LIMIT :l",
            "SELECT a FROM t WHERE k = {x: 1} AND c > - 1 LIMIT 10",
        ],
    );
}

#[test]
fn lists_of_any_length_are_one() {
    share(
        "SELECT * FROM ks.t WHERE k IN ?",
        &[
            "SELECT * FROM t WHERE k IN (1, 2, 3)",
            "SELECT * FROM t WHERE k IN (?, ?)",
            "SELECT * FROM t WHERE k IN ?",
            "SELECT * FROM t WHERE k IN :ks",
            "SELECT * FROM t WHERE k IN ()",
        ],
    );
    share(
        "SELECT * FROM ks.t WHERE (a, b) IN ?",
        &[
            "SELECT * FROM t WHERE (a, b) IN ((1, 2), (3, 4))",
            "SELECT * FROM t WHERE (a, b) IN (?, ?)",
            "SELECT * FROM t WHERE (a, b) IN ?",
        ],
    );
    share(
        "SELECT * FROM ks.t WHERE k IN (?, now(), f(?))",
        &["SELECT * FROM t WHERE k IN (1, now(), 2, f(1), f(2), now())"],
    );
}

#[test]
fn spelling_does_not_matter() {
    share(
        "SELECT a, \"B\" FROM ks.t WHERE token(k) > ? AND c = ? ORDER BY c DESC ALLOW FILTERING",
        &[
            "SELECT a, \"B\" FROM t WHERE token(k) > 1 AND c = 2 ORDER BY c DESC ALLOW FILTERING",
            "select\tA,\"B\"from \"ks\".\"t\"where TOKEN(K)>1 and(C=2)order by C desc allow filtering;",
            "SELECT a /* c ' */, \"B\" -- it's\nFROM t // ?\nWHERE token ( k ) > $$1$$ AND \"c\" = 2 ORDER BY c DESC ALLOW FILTERING ;",
        ],
    );
}

#[test]
fn what_cassandra_does_not_tell_apart_is_one() {
    share(
        "SELECT a FROM ks.t ORDER BY c",
        &["SELECT a FROM t ORDER BY c ASC", "SELECT a FROM t ORDER BY c"],
    );
    share(
        "UPDATE ks.t USING TIMESTAMP ? AND TTL ? SET a = a + ?, b = b - ? WHERE k = ?",
        &[
            "UPDATE t USING TTL 1 AND TIMESTAMP 2 SET a = a + 1, b = b - 1 WHERE k = 1",
            "UPDATE t USING TIMESTAMP ? AND TTL ? SET a += ?, b -= ? WHERE k = ?",
            "UPDATE t USING TIMESTAMP 1 AND TTL 1 SET a = a 1, b = b -1 WHERE k = 1",
        ],
    );
    share(
        "INSERT INTO ks.t JSON ?",
        &["INSERT INTO t JSON '{}'", "INSERT INTO t JSON ? DEFAULT NULL"],
    );
    share(
        "TRUNCATE ks.t",
        &["TRUNCATE t", "TRUNCATE TABLE t", "TRUNCATE COLUMNFAMILY ks.t"],
    );
}

#[test]
fn what_is_asked_differently_is_different() {
    let texts = [
        "SELECT a FROM t WHERE k = 1",
        "SELECT a FROM t WHERE k IN (1)",
        "SELECT a FROM t WHERE k = 1 LIMIT 1",
        "SELECT a FROM t WHERE k = 1 ALLOW FILTERING",
        "SELECT b FROM t WHERE k = 1",
        "SELECT \"A\" FROM t WHERE k = 1",
        "SELECT a FROM \"T\" WHERE k = 1",
        "SELECT a FROM other.t WHERE k = 1",
        "SELECT a FROM t WHERE k = f(1)",
        "SELECT a FROM t WHERE m[1] = 1",
        "SELECT DISTINCT a FROM t WHERE k = 1",
        "SELECT JSON a FROM t WHERE k = 1",
    ];
    let fingerprints: std::collections::HashSet<_> =
        texts.iter().map(|text| template(text).fingerprint).collect();
    assert_eq!(fingerprints.len(), texts.len());
}

#[test]
fn the_keyspace_is_part_of_the_identity_wherever_it_is_stated() {
    let unqualified = syntax::parse("SELECT * FROM t").unwrap();
    let qualified = syntax::parse("SELECT * FROM ks.t").unwrap();
    assert_eq!(
        Template::of(&unqualified, Some("ks")),
        Template::of(&qualified, None)
    );
    assert_eq!(
        Template::of(&qualified, Some("other")),
        Template::of(&qualified, None)
    );
    assert_ne!(
        Template::of(&unqualified, Some("ks")),
        Template::of(&unqualified, Some("other"))
    );
    assert_eq!(Template::of(&unqualified, None).text, "SELECT * FROM t");
    assert_eq!(
        Template::of(&unqualified, Some("My Ks")).text,
        "SELECT * FROM \"My Ks\".t"
    );
}

#[test]
fn modifications_keep_their_shape() {
    share(
        "INSERT INTO ks.t (a, b) VALUES (?, now()) IF NOT EXISTS USING TTL ?",
        &["INSERT INTO t (a, b) VALUES ([1, 2], now()) IF NOT EXISTS USING TTL 60"],
    );
    share(
        "UPDATE ks.t SET a = ?, m[?] = ?, u.f = ?, l = ? + l WHERE k = ? IF b IN ? AND c[?] != ?",
        &["UPDATE t SET a = 1, m['x'] = 2, u.f = 3, l = [4] + l WHERE k = 5 IF b IN (6, 7) AND c[8] != 9"],
    );
    share(
        "DELETE a, m[?], u.f FROM ks.t WHERE k = ? IF EXISTS",
        &["DELETE a, m['x'], u.f FROM t WHERE k = 1 IF EXISTS"],
    );
}

#[test]
fn selectors_keep_their_shape() {
    share(
        "SELECT count(*), CAST(a AS text), writetime(b), m[?], l[?..], u.f, (a + ?) * b, - c, (int) ?, f(a, ?) AS \"X\" FROM ks.t",
        &[
            "SELECT COUNT(*), cast(a as TEXT), WRITETIME(b), m['k'], l[1..], u.f, (a+1)*b, -c, (int)5, F(a, 'x') AS \"X\" FROM t",
        ],
    );
}

#[test]
fn a_batch_is_the_set_of_its_statements() {
    let expected = "BEGIN BATCH DELETE FROM ks.t WHERE k = ?; INSERT INTO ks.t (k) VALUES (?); APPLY BATCH";
    share(
        expected,
        &[
            "BEGIN BATCH INSERT INTO t (k) VALUES (1); DELETE FROM t WHERE k = 1; APPLY BATCH",
            "BEGIN BATCH DELETE FROM t WHERE k = ? INSERT INTO t (k) VALUES (?) INSERT INTO t (k) VALUES (?) APPLY BATCH",
        ],
    );
    let children = [
        "INSERT INTO t (k) VALUES (?)",
        "DELETE FROM t WHERE k = ?",
        "INSERT INTO t (k) VALUES (7)",
    ]
    .map(template);
    let message = Template::batch(BatchKind::Logged, texts(&children));
    assert_eq!(
        message,
        template("BEGIN BATCH INSERT INTO t (k) VALUES (1); DELETE FROM t WHERE k = 1; APPLY BATCH")
    );
    assert_ne!(message, Template::batch(BatchKind::Unlogged, texts(&children)));
    share(
        "BEGIN COUNTER BATCH USING TIMESTAMP ? APPLY BATCH",
        &["BEGIN COUNTER BATCH USING TIMESTAMP 5 APPLY BATCH"],
    );
}

#[test]
fn definitions_keep_names_and_types_and_lose_values() {
    share(
        "CREATE TABLE ks.t (a int, b frozen<list<ks.u>>, c vector<float, 3> STATIC, PRIMARY KEY (a, b)) WITH CLUSTERING \
         ORDER BY (b DESC) AND comment = ? AND compaction = ?",
        &[
            "CREATE TABLE t (a INT, b frozen<list<u>>, c vector<float, 3> static, PRIMARY KEY ((a), b)) WITH comment = 'x' AND \
           CLUSTERING ORDER BY (b DESC) AND compaction = {'class': 'y'}",
        ],
    );
    share(
        "CREATE INDEX i ON ks.t (keys(m)) USING ? WITH options = ?",
        &["CREATE INDEX i ON t (keys(m)) USING 'sai' WITH OPTIONS = {}"],
    );
    share("DROP TABLE IF EXISTS ks.t", &["DROP TABLE IF EXISTS t"]);
    share("DROP KEYSPACE k", &["DROP KEYSPACE k"]);
    share(
        "ALTER TABLE ks.t ADD (a int)",
        &["ALTER TABLE t ADD a int", "ALTER TABLE t ADD (a int)"],
    );
    share(
        "CREATE TRIGGER x ON ks.t USING ?",
        &["CREATE TRIGGER x ON t USING 'class'"],
    );
    share("DROP FUNCTION ks.f (INT)", &["DROP FUNCTION f ( int )"]);
}

#[test]
fn passwords_do_not_show() {
    for text in [
        "CREATE ROLE bob WITH PASSWORD = 'hunter2' AND LOGIN = true",
        "ALTER ROLE bob WITH HASHED PASSWORD = $$hunter2$$ AND OPTIONS = {'hunter2': 'hunter2'}",
        "CREATE USER bob WITH PASSWORD 'hunter2'",
        "ADD IDENTITY 'hunter2' TO ROLE 'hunter2'",
        "CREATE FUNCTION f() CALLED ON NULL INPUT RETURNS text LANGUAGE java AS 'return \"hunter2\";'",
        "CREATE TABLE t (a int PRIMARY KEY) WITH comment = 'hunter2'",
    ] {
        let found = template(text);
        assert!(!found.text.contains("hunter2"), "{}", found.text);
    }
}

#[test]
fn a_text_that_does_not_parse_keeps_keywords_signs_and_its_first_table() {
    for (text, expected) in [
        (
            "SELECT a FROM ks.users WHERE name = = 'bob'",
            "SELECT ? FROM ks.users WHERE ? = = ?",
        ),
        (
            "INSERT INTO t (a, b, c) VALUES (1, 'x', bob",
            "INSERT INTO t (?) VALUES (?",
        ),
        (
            "UPDATE t SET name = \"Bob\" WHERE k = 1 1 1",
            "UPDATE t SET ? = ? WHERE ? = ?",
        ),
        (
            "SELECT * FROM t WHERE k = 'O'Brien from secret'",
            "SELECT * FROM t WHERE ? = ? FROM ?",
        ),
        ("SELECT 'a FROM secret", "SELECT ?"),
        ("SELECT 'a' FROM secret,", "SELECT ? FROM ?,"),
        ("garbage \u{0} \u{1F600} more", "?"),
        ("", ""),
    ] {
        assert!(syntax::parse(text).is_err(), "{text}");
        assert_eq!(Template::unparsed(text).text, expected, "{text}");
    }
}

#[test]
fn the_length_of_a_template_is_bounded() {
    let columns = |count: usize| {
        (0..count)
            .map(|index| format!("column_{index}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let long = template(&format!("SELECT {} FROM t", columns(5_000)));
    assert!(long.text.len() <= Template::MAX_LEN && long.text.contains('…'));
    let longer = template(&format!("SELECT {} FROM t", columns(5_001)));
    assert_ne!(long.text, longer.text, "a hash stands behind what is left");
    assert_ne!(long.fingerprint, longer.fingerprint);
    let unparsed = Template::unparsed(&"SELECT SELECT ".repeat(5_000));
    assert!(unparsed.text.len() <= Template::MAX_UNPARSED_LEN);
    // Only the beginning is looked at, also where it stays short.
    assert_eq!(Template::unparsed(&"SELECT SELECT ".repeat(50_000)), unparsed);
    let values = "1 ".repeat(syntax::MAX_TOKENS);
    assert_eq!(
        Template::unparsed(&(values.clone() + "SELECT")),
        Template::unparsed(&values)
    );
}

#[test]
fn fingerprints_never_change() {
    for (text, fingerprint) in [
        ("SELECT * FROM t WHERE k = 1", "37a3c441b73f7f96"),
        ("SELECT a, b FROM t WHERE k IN (1, 2) LIMIT 5", "a286369a70065f7e"),
        ("INSERT INTO t (k, v) VALUES (?, ?)", "2468991b956b5f74"),
        ("UPDATE t SET v = v + 1 WHERE k = 1", "f0acbd0da89050e8"),
        ("DELETE FROM t WHERE k = 1", "8318132ddfb5e345"),
        (
            "BEGIN UNLOGGED BATCH INSERT INTO t (k) VALUES (1) APPLY BATCH",
            "d8a94ff2b784042e",
        ),
        ("CREATE TABLE t (k int PRIMARY KEY)", "c939891f2f94f619"),
    ] {
        assert_eq!(template(text).fingerprint.to_string(), fingerprint, "{text}");
    }
    assert_eq!(
        Template::unparsed("SELEC * FROM t").fingerprint.to_string(),
        "161032c5549c030e"
    );
}

fn texts(children: &[Template]) -> impl Iterator<Item = &str> {
    children.iter().map(|child| child.text.as_str())
}

/// Two INSERTs that agree in all that is shown of them.
fn long_inserts() -> [String; 2] {
    let columns: Vec<String> = (0..2_000).map(|index| format!("column_{index}")).collect();
    let values = vec!["?"; columns.len() + 1].join(", ");
    ["a", "b"].map(|last| format!("INSERT INTO t ({}, {last}) VALUES ({values})", columns.join(", ")))
}

#[test]
fn batches_of_long_statements_are_told_apart_whichever_way_they_come() {
    let batches = long_inserts().map(|insert| {
        let as_text = template(&format!("BEGIN BATCH {insert}; APPLY BATCH"));
        let child = template(&insert);
        assert!(child.text.len() <= Template::MAX_LEN);
        assert_eq!(as_text, Template::batch(BatchKind::Logged, texts(&[child])));
        as_text
    });
    assert_ne!(batches[0].text, batches[1].text);
    assert_ne!(batches[0].fingerprint, batches[1].fingerprint);
}

#[test]
fn long_names_are_cut_off_and_stay_different() {
    let name = |end: char| "n".repeat(100_000) + &end.to_string();
    for text in [
        "SELECT a FROM #",
        "SELECT # FROM t",
        "SELECT a FROM #.t",
        "UPDATE t SET a.# = 1 WHERE k = 1",
        "USE #",
        "DROP ROLE #",
        "DROP TRIGGER # ON t",
        "SELECT #(a) FROM t",
        "CREATE TABLE t (k # PRIMARY KEY)",
    ] {
        let with = |name: &str| template(&text.replace('#', name));
        let (one, other) = (with(&name('1')), with(&name('2')));
        assert!(one.text.len() < 1_000, "{text}");
        assert_ne!(one.text, other.text, "{text}");
        assert_eq!(with(&name('1').to_uppercase()), one, "{text}");
        assert_eq!(with(&format!("\"{}\"", name('1'))), one, "{text}");
    }
    let keyspace = name('k');
    let text = "SELECT a FROM t";
    assert!(
        Template::of(&syntax::parse(text).unwrap(), Some(&keyspace))
            .text
            .len()
            < 1_000
    );
    assert!(Template::unparsed(&format!("SELEC a FROM {keyspace}")).text.len() < 1_000);
}

#[test]
fn a_template_that_came_before_is_the_same() {
    let mut templates = Templates::default();
    // More different ones than are remembered, and one that is too long to be.
    let short = (0..3_000).map(|at| format!("SELECT c{at} FROM t WHERE k = {at}"));
    let texts: Vec<_> = short.chain(long_inserts()).collect();
    for text in texts.iter().chain(&texts[..2_000]).chain(&texts) {
        let statement = syntax::parse(text).unwrap();
        let again = templates.template(&statement, Some("ks"), &Work::of_text(text));
        assert_eq!(again, template(text), "{text}");
    }
}
