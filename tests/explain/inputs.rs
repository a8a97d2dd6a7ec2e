//! What is read: folders of migrations, texts that say where they are from, what editors and cqlsh leave in files.

use crate::explain::Folder;

/// The places and rules of what is drawn: `q.cql:2:1 full-scan`.
pub(super) fn drawn(out: &str) -> Vec<String> {
    let mut rule = "";
    let mut all = Vec::new();
    for line in out.lines() {
        if let Some((_, id)) = line.split_once('[')
            && let Some((id, _)) = id.split_once("]:")
            && !line.starts_with(' ')
        {
            rule = id;
        }
        if let Some(place) = line.trim().strip_prefix("--> ") {
            all.push(format!("{place} {rule}"));
        }
    }
    all
}

#[test]
fn migrations_are_read_in_order_and_judged_as_they_stand_at_the_end() {
    let folder = Folder::new()
        .with(
            "m/V1__orders.cql",
            "CREATE TABLE orders (id int PRIMARY KEY, a int) WITH gc_grace_seconds = 0;\n\
                                    CREATE TABLE flags (f boolean, c int, PRIMARY KEY (f, c));",
        )
        .with(
            "m/V10__read.cql",
            "SELECT b FROM orders WHERE id = 1;\nSELECT c FROM orders WHERE id = 1;",
        )
        .with("m/V9__b.cql", "ALTER TABLE orders ADD b int;")
        .with(
            "m/V11__repair.cql",
            "ALTER TABLE orders WITH gc_grace_seconds = 864000;",
        )
        .with(
            "m/V12__worse.cql",
            "\nALTER TABLE flags WITH gc_grace_seconds = 0;",
        )
        .with("m/U1__orders.cql", "DROP TABLE orders;")
        .with("m/notes.txt", "no CQL");
    let ended = folder.explain(&["--quiet", "m"], b"");
    let expected = [
        "m/V10__read.cql:2:8 prepare",
        "m/V1__orders.cql:2:1 few-partitions",
        "m/V12__worse.cql:2:1 gc-grace-zero",
    ];
    assert_eq!(drawn(&ended.out), expected, "{}", ended.out);
    assert!(
        ended.out.contains("Undefined column name c in table orders"),
        "{}",
        ended.out
    );
    assert!(
        ended
            .out
            .contains("7 statements in 5 inputs: 1 error, 2 medium\n"),
        "{}",
        ended.out
    );
    assert_eq!(ended.code, Some(2));
}

#[test]
fn a_bootstrap_comes_first_and_a_folder_without_cql_is_no_success() {
    let folder = Folder::new()
        .with(
            "m/bootstrap.cql",
            "CREATE KEYSPACE app WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};",
        )
        .with(
            "m/a.cql",
            "CREATE TABLE app.t (k int PRIMARY KEY);\nSELECT k FROM app.u WHERE k = 1;",
        )
        .with("empty/readme.md", "");
    let ended = folder.explain(&["--quiet", "m"], b"");
    assert_eq!(
        drawn(&ended.out),
        ["m/a.cql:2:15 prepare"],
        "a keyspace that is created here is known as a whole"
    );
    let empty = folder.explain(&["empty"], b"");
    assert_eq!(empty.code, Some(2));
    assert!(
        empty.err.contains("there is no .cql file in empty"),
        "{}",
        empty.err
    );
}

#[test]
fn definitions_that_do_not_fit_are_errors_where_the_schema_is_known() {
    let folder = Folder::new();
    let script = b"ALTER TABLE shop.kv DROP vv;\nALTER TABLE shop.kvs ADD x int;\nCREATE TABLE shop.kv (k int PRIMARY KEY);\n\
                   CREATE TABLE IF NOT EXISTS shop.kv (k int PRIMARY KEY);";
    let ended = folder.explain(&["--quiet", "--schema", "schema.cql"], script);
    let expected = [
        "<stdin>:1:26 definition",
        "<stdin>:2:18 definition",
        "<stdin>:3:19 definition",
    ];
    assert_eq!(drawn(&ended.out), expected, "{}", ended.out);
    assert!(ended.out.contains("help: did you mean `kv`?"), "{}", ended.out);
    assert_eq!(ended.code, Some(2));
    let unknown = folder.explain(&["--fail-on", "high"], b"ALTER TABLE other ADD x int;");
    assert_eq!(unknown.code, Some(2), "not green by omission");
    assert!(
        unknown.err.contains("1 of 1 statement could not be judged"),
        "{}",
        unknown.err
    );
    // The file of --schema among the inputs.
    let itself = folder.explain(&["--quiet", "--schema", "schema.cql", "schema.cql"], b"");
    assert_eq!(itself.code, Some(0), "{}", itself.out);
}

#[test]
fn what_a_view_costs_is_said_where_it_is_created() {
    let script =
        b"CREATE TYPE shop.t (a int);\nCREATE MATERIALIZED VIEW shop.kv_by_v AS SELECT * FROM shop.kv\n\
                   WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k);";
    let ended = Folder::new().explain(&["--quiet", "--schema", "schema.cql"], script);
    let expected = ["<stdin>:2:1 materialized-view-write"];
    assert_eq!(drawn(&ended.out), expected, "{}", ended.out);
}

#[test]
fn what_is_defined_in_a_file_is_known_and_other_tables_may_be_elsewhere() {
    let folder = Folder::new();
    let script =
        b"CREATE TABLE t (k int PRIMARY KEY, a int);\nSELECT a FROM t;\nSELECT b FROM t WHERE k = 1;\n\
                   SELECT a FROM elsewhere WHERE k = 1;";
    let ended = folder.explain(&["--quiet"], script);
    let expected = ["<stdin>:2:1 full-scan", "<stdin>:3:8 prepare"];
    assert_eq!(drawn(&ended.out), expected, "{}", ended.out);
    assert!(
        ended.out.ends_with("1 error, 1 medium; 1 not judged\n"),
        "{}",
        ended.out
    );
}

#[test]
fn names_that_are_near_are_offered() {
    let folder = Folder::new();
    let help = |script: &str| {
        let ended = folder.explain(&["--quiet", "--schema", "schema.cql"], script.as_bytes());
        let line = ended
            .out
            .lines()
            .find_map(|line| line.trim().strip_prefix("= help: "));
        line.unwrap_or_default().to_owned()
    };
    for (script, expected) in [
        ("SELECT ww FROM kv WHERE k = 1", "did you mean `w`?"),
        ("SELECT v FROM pairs WHERE a = 1", "did you mean `pair`?"),
        ("SELECT v FROM shopp.pair WHERE a = 1", "did you mean `shop`?"),
        ("UPDATE kv SET vv = 1 WHERE k = 1", "did you mean `v`?"),
        ("INSERT INTO kv (k, \"V\") VALUES (1, 2)", "did you mean `v`?"),
        ("SELECT price FROM kv WHERE k = 1", ""),
        (
            "BEGIN BATCH UPDATE pair SET vv = 1 WHERE a = 1 AND b = 2; APPLY BATCH",
            "did you mean `v`?",
        ),
        ("SELECT v FORM kv", "did you mean `FROM`?"),
        (
            "SELECT v FROM kv WHERE k = 1\nSELECT w FROM kv",
            "is a `;` missing before SELECT?",
        ),
    ] {
        assert_eq!(help(script), expected, "{script}");
    }
}

#[test]
fn findings_point_to_where_a_line_is_from() {
    let folder = Folder::new();
    let input = b"src/A.java:40:SELECT v FROM kv\nsrc/A.java:41: WHERE v = 1 ALLOW FILTERING\n\
                  src/A.java:60:SELECT v FROM kv WHERE k = 1\nb c.py:7:13:SELECT v FROM kv LIMIT ?\n";
    let arguments = ["--quiet", "--located", "--schema", "schema.cql"];
    let ended = folder.explain(&arguments, input);
    let expected = ["src/A.java:40:1 allow-filtering", "b c.py:7:13 full-scan"];
    assert_eq!(drawn(&ended.out), expected, "{}", ended.out);
    assert!(ended.out.contains("3 statements in 1 input"), "{}", ended.out);
    let github = folder.explain(&[&arguments[..], &["--format", "github"]].concat(), input);
    let starts = [
        "::warning file=src/A.java,line=40,endLine=41,title=",
        "::warning file=b c.py,line=7,endLine=7,col=13,endColumn=37,title=",
    ];
    for (line, start) in github.out.lines().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
    let unmarked = folder.explain(&["--located"], b"SELECT v FROM kv");
    assert_eq!(unmarked.code, Some(2));
    assert!(
        unmarked.err.contains("does not begin with `file:line:`"),
        "{}",
        unmarked.err
    );
}

#[test]
fn commands_of_cqlsh_marks_and_line_ends_of_windows_do_no_harm() {
    let folder = Folder::new().with(
        "w.cql",
        "\u{feff}CONSISTENCY QUORUM\r\nSOURCE 'x.cql'\r\n-- note\r\nSELECT v\r\n  FROM kv;\r\nPAGING OFF;\r\n\tSELECT v FROM kv WHERE v = 1;\r\n",
    );
    let arguments = ["--verbose", "--schema", "schema.cql", "w.cql"];
    let ended = folder.explain(&arguments, b"");
    assert_eq!(
        drawn(&ended.out),
        ["w.cql:4:1 full-scan", "w.cql:7:2 prepare"],
        "{}",
        ended.out
    );
    for part in [
        "reading w.cql",
        "w.cql:1: skipped CONSISTENCY, which is a cqlsh command",
        "w.cql:6: skipped PAGING",
        "4 | / SELECT v\n5 | |   FROM kv;\n",
        "Why: ",
    ] {
        assert!(ended.out.contains(part), "{part}:\n{}", ended.out);
    }
    let schema = format!("\u{feff}{}", crate::explain::SCHEMA.replace('\n', "\r\n"));
    let folder = folder.with("windows.cql", schema);
    let ended = folder.explain(&["--schema", "windows.cql"], b"SELECT v FROM kv WHERE k = 1");
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
}

#[test]
fn batches_are_judged_by_their_text() {
    let rules = |cql: &str| {
        let record = serde_json::json!({ "query": cql }).to_string();
        let ended = Folder::new().explain(&["--json"], record.as_bytes());
        let answer: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        answer["findings"].clone()
    };
    let batch = |kind: &str, tables: [&str; 2]| {
        let [first, second] = tables;
        rules(&format!(
            "BEGIN {kind} BATCH DELETE FROM {first} WHERE k = ?; DELETE FROM {second} WHERE k = ?; APPLY BATCH"
        ))
    };
    assert_eq!(
        batch("", ["a", "b"]),
        serde_json::json!(["logged-batch-multi-partition"])
    );
    assert_eq!(
        batch("UNLOGGED", ["a", "b"]),
        serde_json::json!(["unlogged-batch-multi-partition"])
    );
    assert_eq!(batch("COUNTER", ["a", "b"]), serde_json::json!(["counter-batch"]));
    assert_eq!(
        batch("UNLOGGED", ["a", "a"]),
        serde_json::json!([]),
        "perhaps one partition"
    );
    assert_eq!(
        rules("SELECT * FROM t WHERE k = ?"),
        serde_json::json!(["select-star"])
    );
    // The statements of a BATCH message.
    let record = r#"{"batch": {"kind": "unlogged", "statements": [{"query": "DELETE FROM a WHERE k = ?"}, {"query": "DELETE FROM b WHERE k = ?"}]}}"#;
    let ended = Folder::new().explain(&["--json"], record.as_bytes());
    let found = "[\"unlogged-batch-multi-partition\"]";
    assert!(ended.out.contains(found), "{}", ended.out);
}
