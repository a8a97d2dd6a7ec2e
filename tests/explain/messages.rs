//! Errors that say what to write instead.

use crate::explain::Folder;

fn explained(script: &str) -> String {
    Folder::new()
        .explain(&["--quiet", "--schema", "schema.cql"], script.as_bytes())
        .out
}

fn help(script: &str) -> String {
    let out = explained(script);
    let line = out.lines().find_map(|line| line.trim().strip_prefix("= help: "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn placeholders_of_values_are_read_as_markers() {
    for script in [
        "SELECT v FROM kv WHERE k = %s;",
        "SELECT v FROM kv WHERE k = %(key)s;",
        "SELECT v FROM kv WHERE k = ?0;",
        "INSERT INTO kv (k, v) VALUES ($1, $2);",
    ] {
        let folder = Folder::new();
        let ended = folder.explain(
            &["--fail-on", "info", "--schema", "schema.cql"],
            script.as_bytes(),
        );
        assert_eq!(ended.code, Some(0), "{script}: {}", ended.out);
        assert!(
            ended.out.contains("1 partition per execution"),
            "{script}: {}",
            ended.out
        );
    }
}

#[test]
fn other_placeholders_are_named() {
    for (script, placeholder) in [
        ("SELECT v FROM ${keyspace}.kv WHERE k = 1;", "${keyspace}"),
        ("SELECT v FROM {{keyspace}}.kv WHERE k = 1;", "{{keyspace}}"),
        ("SELECT v FROM kv WHERE k = :#{#key};", "#{#key}"),
        ("SELECT v FROM %s.kv WHERE k = 1;", "%s"),
    ] {
        let help = help(script);
        assert!(
            help.contains(&format!("{placeholder}` looks like a placeholder: fill it in")),
            "{script}: {help}"
        );
    }
}

#[test]
fn double_quotes_and_schemas_are_explained() {
    for (script, expected) in [
        (
            "CREATE KEYSPACE a WITH replication = {\"class\": 'SimpleStrategy'};",
            "strings take single quotes: 'class'",
        ),
        (
            "SELECT v FROM kv WHERE w = \"x\";",
            "strings take single quotes: 'x'",
        ),
        ("CREATE SCHEMA a;", "CQL calls it a keyspace: CREATE KEYSPACE"),
    ] {
        assert_eq!(help(script), expected, "{script}");
    }
}

#[test]
fn a_string_without_end_is_shown_where_it_begins() {
    let script =
        "SELECT v FROM kv WHERE k = 1;\nSELECT v FROM kv WHERE w = 'it;\nSELECT v FROM kv WHERE w = 'x';\n";
    let out = explained(script);
    assert!(out.contains("--> <stdin>:2:28"), "{out}");
    let in_one_line = explained("SELECT v FROM kv WHERE w = 'it;");
    assert!(in_one_line.contains("--> <stdin>:1:28"), "{in_one_line}");
}

#[test]
fn a_record_without_a_query_is_told_what_it_needs() {
    let out = Folder::new().explain(&["--json"], b"{\"id\": 1}").out;
    assert!(out.contains("a record needs a `query` or a `batch`"), "{out}");
}
