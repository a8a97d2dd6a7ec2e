//! The forms that programs read, whatever the input.

use serde_json::{Value, json};

use crate::explain::{Folder, sarif_schema};

const SCRIPT: &str = "SELECT v FROM kv WHERE k = 1;\nSELECT v FROM kv WHERE v = 1 ALLOW FILTERING;\nSELECT é FROM kv;\nSELECT x FROM kv;\n";

fn written(form: &str, more: &[&str]) -> crate::explain::Ended {
    let folder = Folder::new()
        .with("q.cql", SCRIPT)
        .with("clean.cql", "SELECT v FROM kv WHERE k = 1");
    let arguments = ["--schema", "schema.cql", "--format", form, "q.cql", "clean.cql"];
    folder.explain(&[&arguments, more].concat(), b"")
}

/// What is no CQL is no statement.
const SUMMARY: &str = "4 statements in 2 inputs: 2 errors, 1 medium\n";

#[test]
fn the_summary_is_last_and_leaves_standard_output_to_programs() {
    let text = written("text", &[]);
    assert!(text.out.ends_with(SUMMARY), "{}", text.out);
    assert_eq!(text.err, "");
    for form in ["json", "github", "sarif", "junit"] {
        let ended = written(form, &[]);
        assert_eq!(ended.err, SUMMARY, "{form}");
        assert_eq!(ended.code, Some(2), "{form}");
    }
}

#[test]
fn quiet_leaves_out_what_statements_touch() {
    let (usual, quiet) = (written("text", &[]), written("text", &["--quiet"]));
    assert!(
        usual.out.contains("q.cql:1: select on shop.kv: 1 partition"),
        "{}",
        usual.out
    );
    assert!(!quiet.out.contains("1 partition"), "{}", quiet.out);
    assert!(quiet.out.starts_with("medium[allow-filtering]"), "{}", quiet.out);
}

#[test]
fn json_has_all_that_is_known_of_a_finding() {
    let ended = written("json", &[]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["format"], "cqlens.explain.v1");
    assert_eq!(document["summary"]["errors"], 2);
    assert_eq!(document["summary"]["medium"], 1);
    let findings = document["findings"].as_array().unwrap();
    let ids: Vec<_> = findings
        .iter()
        .map(|finding| finding["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["allow-filtering", "parse", "prepare"]);
    let finding = &findings[0];
    assert_eq!(finding["severity"], "medium");
    assert_eq!(finding["table"], "shop.kv");
    let span = json!({"file": "q.cql", "line": 2, "column": 1, "end_line": 2, "end_column": 45});
    assert_eq!(finding["span"], span);
    assert_eq!(finding["cql"], "SELECT v FROM kv WHERE v = 1 ALLOW FILTERING");
    assert!(
        finding["advice"].as_str().unwrap().contains("Create a table"),
        "{finding}"
    );
    assert!(
        !finding["suggested_cql"].as_array().unwrap().is_empty(),
        "{finding}"
    );
    assert_eq!(findings[1]["span"]["column"], 8);
    assert_eq!(findings[1]["severity"], "error");
}

#[test]
fn sarif_is_what_its_schema_says() {
    let ended = written("sarif", &[]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    sarif_schema::check(&document);
    let run = &document["runs"][0];
    let levels: Vec<_> = run["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["level"])
        .collect();
    assert_eq!(levels, ["warning", "error", "error"]);
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let help = rules.iter().find(|rule| rule["id"] == "allow-filtering").unwrap();
    assert!(
        help["help"]["markdown"].as_str().unwrap().contains("```sql"),
        "{help}"
    );
    let empty = Folder::new().explain(&["--format", "sarif"], b"");
    sarif_schema::check(&serde_json::from_str(&empty.out).unwrap());
}

#[test]
fn the_check_of_sarif_notices_what_is_wrong() {
    let ended = written("sarif", &[]);
    let mut document: Value = serde_json::from_str(&ended.out).unwrap();
    document["runs"][0]["results"][0]["level"] = json!("medium");
    assert!(!sarif_schema::is_valid(&document));
}

#[test]
fn junit_has_a_suite_for_each_input_and_fails_what_fails_the_job() {
    let failures = |more: &[&str]| {
        let ended = written("junit", more);
        let document = roxmltree::Document::parse(&ended.out).unwrap();
        let suites = document
            .descendants()
            .filter(|node| node.has_tag_name("testsuite"));
        suites
            .map(|suite| {
                ["name", "tests", "errors", "failures"]
                    .map(|name| suite.attribute(name).unwrap())
                    .join(" ")
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(failures(&[]), ["clean.cql 1 0 0", "q.cql 3 2 1"]);
    assert_eq!(
        failures(&["--fail-on", "high"]),
        ["clean.cql 1 0 0", "q.cql 3 2 0"]
    );
}

#[test]
fn records_are_written_in_these_forms_too() {
    let records =
        "{\"query\": \"SELECT v FROM kv WHERE k = 1\"}\nno JSON\n\n{\"query\": \"SELECT v\\nFROM kv\"}\n";
    let arguments = [
        "--schema",
        "schema.cql",
        "--json",
        "--format",
        "json",
        "--fail-on",
        "high",
    ];
    let ended = Folder::new().explain(&arguments, records.as_bytes());
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let places: Vec<_> = findings
        .iter()
        .map(|finding| {
            (
                finding["id"].as_str().unwrap(),
                finding["span"]["line"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(places, [("input", 2), ("full-scan", 4)]);
    assert_eq!(ended.code, Some(2));
    let github = Folder::new().explain(&["--json", "--format", "github"], records.as_bytes());
    assert!(
        github.out.starts_with("::error line=2,endLine=2,"),
        "{}",
        github.out
    );
}
