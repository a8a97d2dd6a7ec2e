//! When a job fails: `--fail-on`, what could not be judged, settings.

use serde_json::{Value, json};

use crate::explain::{Folder, SCHEMA};

#[test]
fn a_linter_without_a_schema_does_not_pass_what_it_cannot_judge() {
    let query = b"SELECT a FROM shop.kv WHERE k = 1;";
    let explain =
        |more: &[&str], query: &[u8]| Folder::new().explain(&[&["--fail-on", "high"], more].concat(), query);
    let ended = explain(&[], query);
    assert!(
        ended.err.contains("1 of 1 statement could not be judged"),
        "{}",
        ended.err
    );
    assert_eq!(ended.code, Some(2));
    let allowed = explain(&["--allow-unjudged"], query);
    assert!(allowed.err.contains("could not be judged"), "{}", allowed.err);
    assert_eq!(allowed.code, Some(0));
    let record = br#"{"query": "SELECT a FROM shop.kv WHERE k = 1"}"#;
    assert_eq!(explain(&["--json"], record).code, Some(2));
    assert_eq!(explain(&["--json", "--allow-unjudged"], record).code, Some(0));
    let without_limit = Folder::new().explain(&[], query);
    assert_eq!((without_limit.err.as_str(), without_limit.code), ("", Some(0)));
    assert_eq!(Folder::new().explain(&["--allow-unjudged"], query).code, Some(2));
}

#[test]
fn fail_on_decides_from_which_severity_on_the_exit_code_is_one() {
    let folder = Folder::new();
    let code = |limit: &str, json: bool, query: &str| {
        let mut arguments = vec!["--schema", "schema.cql", "--fail-on", limit];
        let record = json!({ "query": query }).to_string();
        let input = if json {
            arguments.push("--json");
            record.as_bytes()
        } else {
            query.as_bytes()
        };
        folder.explain(&arguments, input).code
    };
    let range = "SELECT * FROM kv WHERE token(k) > 0";
    for json in [false, true] {
        assert_eq!(code("info", json, range), Some(1));
        assert_eq!(code("low", json, range), Some(0));
        assert_eq!(code("medium", json, "SELECT * FROM kv"), Some(1));
        assert_eq!(code("high", json, "SELECT * FROM kv"), Some(0));
        assert_eq!(code("info", json, "SELECT v FROM kv WHERE k = 1"), Some(0));
        let twenty = (0..20).map(|key| key.to_string()).collect::<Vec<_>>().join(", ");
        let listed = format!("SELECT v FROM kv WHERE k IN ({twenty})");
        assert_eq!(code("high", json, &listed), Some(1));
        // What is no CQL counts more than what was found.
        assert_eq!(code("high", json, "SELECT FROM"), Some(2));
    }
    let both = folder.explain(
        &["--schema", "schema.cql", "--fail-on", "low"],
        b"SELECT * FROM kv; SELECT FROM; SELECT v FROM kv WHERE k = 1",
    );
    assert_eq!(both.code, Some(2));
    assert!(
        both.out.contains("[full-scan]") && both.out.contains("error[parse]"),
        "{}",
        both.out
    );
    let unknown = folder.explain(&["--fail-on", "worst"], b"");
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("high"), "{}", unknown.err);
}

#[test]
fn a_rule_is_switched_off_or_limited_by_a_setting() {
    // One of a statement, one of a definition.
    let definitions =
        format!("{SCHEMA}CREATE TABLE shop.flags (on_off boolean, k int, PRIMARY KEY (on_off, k));");
    let judged = |severity: &str| {
        let settings = format!(
            "[rules.allow-filtering]\nseverity = '{severity}'\n[rules.few-partitions]\nseverity = '{severity}'\n"
        );
        let folder = Folder::new()
            .with("model.cql", &definitions)
            .with("cqlens.toml", settings);
        let arguments = [
            "--schema",
            "model.cql",
            "--config",
            "cqlens.toml",
            "--fail-on",
            "low",
        ];
        folder.explain(&arguments, b"SELECT k FROM kv WHERE v = ? ALLOW FILTERING")
    };
    for (severity, filtering, few, code) in [
        ("medium", "medium[allow-filtering]", "medium[few-partitions]", 1),
        ("info", "info[allow-filtering]", "info[few-partitions]", 0),
    ] {
        let ended = judged(severity);
        assert!(ended.out.contains(filtering), "{}", ended.out);
        assert!(ended.out.contains(few), "{}", ended.out);
        assert_eq!(ended.code, Some(code), "{}", ended.out);
    }
    let off = judged("off");
    assert!(!off.out.contains("[allow-filtering]"), "{}", off.out);
    assert!(!off.out.contains("[few-partitions]"), "{}", off.out);
    assert_eq!(off.code, Some(0));
    assert_eq!(judged("sometimes").code, Some(2));
}

#[test]
fn what_cassandra_would_refuse_is_exit_code_two_without_any_limit() {
    let folder = Folder::new();
    let ended = folder.explain(&["--schema", "schema.cql"], b"SELECT nothing FROM kv");
    assert_eq!(ended.code, Some(2));
    assert!(ended.out.contains("error[prepare]"), "{}", ended.out);
}

#[test]
fn how_many_keys_a_marker_lists_is_no_reason_to_fail_until_it_is_bound() {
    let folder = Folder::new();
    let query = "SELECT v FROM kv WHERE k IN ?";
    assert_eq!(folder.findings(query), json!(["in-partition-key"]));
    let code = |record: &Value, limit| {
        let arguments = ["--json", "--schema", "schema.cql", "--fail-on", limit];
        folder.explain(&arguments, record.to_string().as_bytes()).code
    };
    let unbound = json!({"query": query});
    assert_eq!(
        (code(&unbound, "low"), code(&unbound, "info")),
        (Some(0), Some(1))
    );
    let bound = |keys: &str| json!({"query": query, "values": [keys]});
    let two = bound("00000002000000040000000100000004000000ff");
    assert_eq!((code(&two, "low"), code(&two, "info")), (Some(0), Some(1)));
    let one = bound("000000010000000400000001");
    assert_eq!(code(&one, "info"), Some(0));
}
