//! `cqlens explain` as a user and a CI job run it: what is read, what is answered, which exit code comes
//! back.

mod advice;
mod ci;
mod claims;
mod exit_codes;
mod formats;
mod hostile;
mod inputs;
mod messages;
mod migrations;
mod products;
mod sarif_schema;
mod schemas;
mod versions;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const SCHEMA: &str = "\
    CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};\n\
    CREATE TABLE shop.kv (k int PRIMARY KEY, v int, w text);\n\
    CREATE INDEX kv_w ON shop.kv (w);\n\
    CREATE TABLE shop.pair (a int, b int, v int, PRIMARY KEY ((a, b)));\n";

/// A folder with `schema.cql` and what a test writes beside it.
struct Folder(TempDir);

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.with("schema.cql", SCHEMA)
    }

    fn with(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Runs `cqlens explain --keyspace shop` there.
    fn explain(&self, arguments: &[&str], input: &[u8]) -> Ended {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cqlens"))
            .args(["explain", "--keyspace", "shop"])
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Whoever is refused at once does not read.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!err.contains("panicked"), "{err}");
        Ended {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err,
        }
    }

    /// The answers to records, with the schema; none but these are printed.
    fn answers(&self, records: &[Value]) -> Vec<Value> {
        let ended = self.explain(&["--json", "--schema", "schema.cql"], lines(records).as_bytes());
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        let answers: Vec<Value> = ended
            .out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(answers.len(), records.len(), "{}", ended.out);
        answers
    }

    fn answer(&self, record: Value) -> Value {
        self.answers(&[record]).remove(0)
    }

    fn findings(&self, query: &str) -> Value {
        let answer = self.answer(json!({"query": query}));
        assert_eq!(answer["error"], Value::Null, "{query}");
        answer["findings"].clone()
    }
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

#[test]
fn findings_are_rule_ids_in_order() {
    let folder = Folder::new();
    assert_eq!(folder.findings("SELECT v FROM kv WHERE k = 1"), json!([]));
    assert_eq!(folder.findings("INSERT INTO kv (k, v) VALUES (1, 2)"), json!([]));
    assert_eq!(folder.findings("SELECT * FROM kv"), json!(["full-scan"]));
    assert_eq!(
        folder.findings("SELECT * FROM kv WHERE v = 1 ALLOW FILTERING"),
        json!(["allow-filtering"])
    );
    assert_eq!(
        folder.findings("SELECT v FROM kv WHERE k IN (1, 2, 1)"),
        json!(["in-partition-key"])
    );
    assert_eq!(
        folder.findings("SELECT v FROM pair WHERE a IN (1, 2) AND b IN (1, 2)"),
        json!(["in-cartesian-product"])
    );
    assert_eq!(
        folder.findings("SELECT v FROM kv WHERE w = 'x'"),
        json!(["secondary-index-read"])
    );
    assert_eq!(
        folder.findings("SELECT v FROM kv WHERE k IN (1, 2) AND v = 1 ALLOW FILTERING"),
        json!(["allow-filtering", "in-partition-key"])
    );
    // The same key twice is one partition.
    assert_eq!(folder.findings("SELECT v FROM kv WHERE k IN (1, 1)"), json!([]));
    assert_eq!(
        folder.findings("SELECT * FROM system.local"),
        json!([]),
        "not the application's own"
    );
}

#[test]
fn what_the_shape_tells_is_found_before_anything_is_bound() {
    let folder = Folder::new();
    assert_eq!(
        folder.findings("SELECT * FROM kv WHERE v = ? ALLOW FILTERING"),
        json!(["allow-filtering"])
    );
    assert_eq!(folder.findings("SELECT * FROM kv LIMIT ?"), json!(["full-scan"]));
    assert_eq!(
        folder.findings("SELECT v FROM kv WHERE w = ?"),
        json!(["secondary-index-read"])
    );
    assert_eq!(
        folder.findings("SELECT * FROM kv WHERE token(k) > ?"),
        json!(["token-range-scan"])
    );
    assert_eq!(
        folder.findings("SELECT v FROM pair WHERE a = ? AND b IN (1, 2)"),
        json!(["in-partition-key"])
    );
    assert_eq!(
        folder.findings("SELECT v FROM pair WHERE a = ? AND b IN (1, 1)"),
        json!([])
    );
    assert_eq!(folder.findings("SELECT v FROM kv WHERE k = ?"), json!([]));
}

#[test]
fn without_a_schema_only_the_text_is_judged() {
    let folder = Folder::new();
    let record = json!({"query": "SELECT * FROM kv WHERE v = 1 ALLOW FILTERING"});
    let ended = folder.explain(&["--json"], record.to_string().as_bytes());
    let answer: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(answer["findings"], json!(["allow-filtering"]));
    assert_eq!(answer["partitions_class"], "unknown");
    assert_eq!(answer["reason"], "schema-unknown");
    assert_eq!(answer["error"], Value::Null);
}

#[test]
fn a_batch_message_is_judged_as_one_statement() {
    let folder = Folder::new();
    let write = |key: i32| json!({"query": format!("INSERT INTO kv (k, v) VALUES ({key}, 0)")});
    let answer = folder.answer(json!({"batch": {"kind": "unlogged", "statements": [write(1), write(2)]}}));
    assert_eq!(answer["partitions_class"], "multi");
    assert!(answer["findings"].is_array(), "{answer}");
    assert_eq!(answer["error"], Value::Null);
}

#[test]
fn every_class_has_its_name_and_every_missing_count_its_reason() {
    let folder = Folder::new();
    let ask = |query: &str| {
        let answer = folder.answer(json!({"query": query}));
        let text = |name: &str| answer[name].as_str().map(ToOwned::to_owned);
        (text("partitions_class").unwrap(), text("reason"))
    };
    let known = |class: &str| (class.to_owned(), None);
    let because = |class: &str, reason: &str| (class.to_owned(), Some(reason.to_owned()));
    assert_eq!(ask("SELECT v FROM kv WHERE k = 1"), known("single"));
    assert_eq!(ask("SELECT v FROM kv WHERE k IN (1, 2)"), known("multi"));
    assert_eq!(ask("SELECT v FROM kv"), known("scan"));
    assert_eq!(ask("SELECT v FROM kv WHERE token(k) > 0"), known("token-range"));
    assert_eq!(ask("SELECT v FROM kv WHERE w = 'x'"), known("index"));
    assert_eq!(ask("SELECT v FROM kv WHERE k = ?"), because("single", "unbound"));
    assert_eq!(ask("SELECT v FROM kv WHERE k IN ?"), because("multi", "unbound"));
    assert_eq!(
        ask("SELECT v FROM nothing WHERE k = 1"),
        because("unknown", "table-unknown")
    );
    assert_eq!(
        ask("SELECT v FROM kv WHERE nothing = 1"),
        because("unknown", "invalid-statement")
    );
}

#[test]
fn an_error_has_stage_message_and_offset_and_the_next_statement_is_answered() {
    let folder = Folder::new();
    let answers = folder.answers(&[
        json!({"id": "a", "query": "SELECT v FORM kv"}),
        json!({"id": "b", "query": "SELECT nothing FROM kv"}),
        json!({"id": "c", "query": "SELECT v FROM kv WHERE k = ?", "values": [null]}),
        json!({"id": "d", "query": "SELECT v FROM kv WHERE k = 1"}),
    ]);
    let stages: Vec<_> = answers.iter().map(|answer| &answer["error"]["stage"]).collect();
    assert_eq!(
        stages,
        [&json!("parse"), &json!("prepare"), &json!("bind"), &Value::Null]
    );
    assert_eq!(answers[0]["error"]["offset"], 9);
    assert_eq!(answers[1]["error"]["offset"], 7);
    for answer in &answers[..3] {
        assert!(
            !answer["error"]["message"].as_str().unwrap().is_empty(),
            "{answer}"
        );
        assert_eq!(answer["findings"], json!([]), "{answer}");
    }
    let ids: Vec<_> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, ["a", "b", "c", "d"]);
}

#[test]
fn lines_that_are_no_records_are_answered_too() {
    let folder = Folder::new();
    let input = b"not json\n\xff\xfe\n\n{\"id\": 1, \"query\": \"SELECT v FROM kv WHERE k = 1\"}\n{}";
    let ended = folder.explain(&["--json", "--schema", "schema.cql"], input);
    let answers: Vec<Value> = ended
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let stages: Vec<_> = answers
        .iter()
        .map(|answer| answer["error"]["stage"].as_str())
        .collect();
    assert_eq!(stages, [Some("input"), Some("input"), None, Some("input")]);
    assert_eq!(ended.code, Some(0));
}

#[test]
fn nothing_in_is_nothing_out() {
    let folder = Folder::new().with("empty.cql", "");
    for arguments in [
        &[][..],
        &["--json"],
        &["empty.cql"],
        &["--schema", "schema.cql", "--fail-on", "info"],
    ] {
        let ended = folder.explain(arguments, b"");
        let summary = match arguments {
            ["--json"] => "",
            _ => "0 statements in 1 input: no findings\n",
        };
        assert_eq!(
            (ended.code, ended.out.as_str(), ended.err.as_str()),
            (Some(0), summary, ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn several_files_and_standard_input_are_read_in_order() {
    let folder = Folder::new().with("1.cql", "SELECT v FROM kv WHERE k = 1").with(
        "2.cql",
        "-- the second\nSELECT v FROM kv WHERE k = 2;\nSELECT v FROM kv WHERE k = 3;",
    );
    let arguments = ["--schema", "schema.cql", "1.cql", "-", "2.cql"];
    let ended = folder.explain(&arguments, b"DELETE FROM kv WHERE k = 1;");
    let places: Vec<_> = ended
        .out
        .lines()
        .filter(|line| line.contains(": select") || line.contains(": delete"))
        .filter_map(|line| line.split_once(": "))
        .map(|(place, _)| place)
        .collect();
    assert_eq!(places, ["1.cql:1", "<stdin>:1", "2.cql:2", "2.cql:3"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

#[test]
fn a_finding_is_drawn_with_its_severity_rule_and_what_would_help() {
    let folder = Folder::new().with("q.cql", "\nSELECT k FROM kv\n WHERE v = ? ALLOW FILTERING;");
    let ended = folder.explain(&["--schema", "schema.cql", "q.cql"], b"");
    for part in [
        "medium[allow-filtering]: Reads of `shop.kv` filter the whole table row by row\n",
        "--> q.cql:2:1",
        "help: Create a table whose partition key is the restricted column",
        "CREATE TABLE shop.kv_by_v (",
        "SELECT k FROM shop.kv_by_v WHERE v = ?;",
    ] {
        assert!(ended.out.contains(part), "{part}:\n{}", ended.out);
    }
    assert!(!ended.out.contains('\x1b'), "no colour in a pipe");
    assert_eq!(ended.code, Some(0), "findings alone are no failure");
}

#[test]
fn definitions_are_judged_where_they_stand() {
    let definitions = "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};\nUSE shop;\n\
                       CREATE TABLE tasks (done boolean, id timeuuid, PRIMARY KEY (done, id));\n";
    let folder = Folder::new().with("model.cql", definitions);
    let arguments = ["--schema", "model.cql", "--fail-on", "medium"];
    let ended = folder.explain(&arguments, b"");
    for part in [
        "medium[few-partitions]: `shop.tasks` can have no more than 2 partitions",
        "--> model.cql:3:1",
    ] {
        assert!(ended.out.contains(part), "{part}:\n{}", ended.out);
    }
    assert_eq!(ended.code, Some(1));
    let clean = folder.explain(&["--schema", "schema.cql", "--fail-on", "info"], b"");
    let summary = "0 statements in 1 input: no findings\n";
    assert_eq!((clean.out.as_str(), clean.code), (summary, Some(0)));
}

#[test]
fn what_the_text_alone_shows_is_judged_without_a_schema() {
    let rules = |query: &str| {
        let record = serde_json::json!({ "query": query }).to_string();
        Folder::new().explain(&["--json"], record.as_bytes()).out
    };
    for (query, rule) in [
        ("SELECT a FROM shop.kv", "full-scan"),
        (
            "SELECT a FROM shop.kv WHERE a = 1 ALLOW FILTERING",
            "allow-filtering",
        ),
    ] {
        let found = rules(query);
        assert!(found.contains(rule), "{query}: {found}");
    }
    let innocent = rules("SELECT a FROM shop.kv WHERE k = 1");
    assert!(innocent.contains("\"findings\":[]"), "{innocent}");
    // Tables of the node itself have few rows.
    assert!(!rules("SELECT peer FROM system.peers").contains("full-scan"));
}

/// The attack: an input without an end.
#[test]
fn statements_that_never_end_are_refused_at_a_limit() {
    let folder = Folder::new();
    for (arguments, limit) in [
        (&["/dev/zero"][..], "64 MiB, the limit for statements"),
        (&["--json", "/dev/zero"], "64 MiB, the limit for a record"),
    ] {
        let ended = folder.explain(arguments, b"");
        assert_eq!(ended.code, Some(2));
        assert!(ended.err.contains(limit), "{}", ended.err);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told_and_the_next_one_is_read() {
    let folder = Folder::new()
        .with("latin.cql", b"SELECT v FROM kv WHERE w = '\xe9'")
        .with("good.cql", "SELECT v FROM kv WHERE k = 1");
    for (name, cause) in [("missing.cql", "No such file"), ("latin.cql", "UTF-8")] {
        let ended = folder.explain(&[name, "good.cql"], b"");
        let lines: Vec<_> = ended.err.lines().collect();
        assert_eq!(lines.len(), 1, "{}", ended.err);
        assert!(
            lines[0].starts_with(&format!("cqlens: cannot read {name}: ")) && lines[0].contains(cause),
            "{}",
            ended.err
        );
        assert!(ended.out.starts_with("good.cql:1: select"), "{}", ended.out);
        assert_eq!(ended.code, Some(2));
    }
    let missing = folder.explain(&["--json", "missing.jsonl"], b"");
    assert_eq!(missing.code, Some(2));
    assert!(
        missing.err.contains("cannot read missing.jsonl"),
        "{}",
        missing.err
    );
}

#[test]
fn a_schema_that_cannot_be_read_is_refused_by_name() {
    let folder = Folder::new().with("broken.cql", "CREATE TABEL shop.kv (k int);");
    for name in ["missing.cql", "broken.cql"] {
        let ended = folder.explain(&["--schema", name], b"SELECT 1");
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
        assert!(ended.err.contains(name), "{}", ended.err);
    }
}

#[test]
fn definitions_in_a_script_count_for_what_follows() {
    let folder = Folder::new();
    let script = b"CREATE TABLE shop.later (k int PRIMARY KEY);\nSELECT k FROM later;\nUSE other;\nSELECT k FROM later;";
    let ended = folder.explain(&["--schema", "schema.cql"], script);
    assert!(
        ended.out.contains("Full table scan of `shop.later`"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("error[prepare]"), "{}", ended.out);
    assert_eq!(ended.code, Some(2));
}

#[test]
fn the_help_tells_how_it_is_used_as_a_linter() {
    let help = Folder::new().explain(&["--help"], b"").out;
    for part in ["--fail-on medium", "Exit codes: 0 done; 1 a finding", "- high:"] {
        assert!(help.contains(part), "{part}:\n{help}");
    }
}

/// A megabyte of what stopped the lexer for hours, and a thousand errors in one line.
#[test]
fn long_texts_are_explained_at_once() {
    let digits = format!("SELECT {}n FROM kv;", "1".repeat(1 << 20));
    let float = format!("SELECT v FROM kv WHERE k = 1{}e99999;", "1".repeat(1 << 20));
    let nested = format!(
        "SELECT v FROM kv WHERE k = {}1{};",
        "(1 + ".repeat(100),
        ")".repeat(100)
    );
    let line = "SELEC * FROM kv; ".repeat(1_000);
    let folder = Folder::new();
    for text in [&digits, &float, &line] {
        let ended = folder.explain(&["--schema", "schema.cql", "-"], text.as_bytes());
        assert_eq!(
            ended.code,
            Some(2),
            "{}",
            ended.err.chars().take(500).collect::<String>()
        );
    }
    let ended = folder.explain(&["--schema", "schema.cql", "-"], nested.as_bytes());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("statement-too-complex"), "{}", ended.out);
}
