//! What programs hold on to: the JSON Schemas and the reference of fields in `docs/` are what this version writes, and what the
//! commands print is what the schemas say.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use cqlens_report::{json_reference, json_schemas};
use serde_json::Value;

/// Set to anything, it writes the documents anew.
const WRITE: &str = "CQLENS_WRITE_DOCS";

/// Forms of commands, whose schemas the tests beside their types compare (`cargo test --lib schema`).
const OF_COMMANDS: [&str; 2] = ["cqlens.explain.v1", "cqlens.rules.v1"];

fn path_of(format: &str) -> String {
    format!("docs/schema/{format}.json")
}

/// The documents by their paths.
fn documents() -> Vec<(String, String)> {
    let of_commands = OF_COMMANDS.map(|format| {
        let kept = std::fs::read_to_string(path_of(format)).unwrap();
        (format, serde_json::from_str(&kept).unwrap())
    });
    let all: Vec<_> = json_schemas().into_iter().chain(of_commands).collect();
    let reference = ("docs/json.md".to_owned(), json_reference(&all));
    let schemas = json_schemas().map(|(format, schema)| {
        let text = serde_json::to_string_pretty(&schema).unwrap();
        (path_of(format), text + "\n")
    });
    schemas.into_iter().chain([reference]).collect()
}

#[test]
fn schemas_and_reference_are_what_the_program_writes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, text) in documents() {
        let path = root.join(&name);
        if std::env::var_os(WRITE).is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        // Not assert_eq: it would print two documents of a thousand lines each.
        assert!(
            kept == text,
            "{name} is not what this version writes: `{WRITE}=1 cargo test --test hermetic json_form` writes it anew"
        );
    }
}

/// The errors of a document that its schema names, or of a field that the schema does not know.
fn faults(format: &str, document: &Value) -> Vec<String> {
    let kept = std::fs::read_to_string(path_of(format)).unwrap();
    let mut schema: Value = serde_json::from_str(&kept).unwrap();
    close(&mut schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors = validator.iter_errors(document);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// No object may have a field that is not described: the schemas themselves leave room for those of later versions.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties") {
                fields.insert("additionalProperties".to_owned(), false.into());
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(parts) => parts.iter_mut().for_each(close),
        _ => {}
    }
}

/// What the program writes for these arguments and this standard input.
fn written(arguments: &[&str], input: &str) -> Value {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn findings_of_the_linter_are_what_their_schema_says() {
    const FORMAT: &str = "cqlens.explain.v1";
    let schema =
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.kv (k int PRIMARY KEY, v int) WITH gc_grace_seconds = 0;";
    let queries = "SELECT v FROM shop.kv WHERE v = 1 ALLOW FILTERING; SELECT nothing FROM shop.kv; SELEKT 1;
        UPDATE shop.kv SET v = 2 WHERE k = 1; SELECT * FROM elsewhere.t WHERE a = 1;";
    let inserts: String = (0..60)
        .map(|k| format!("INSERT INTO shop.kv (k, v) VALUES ({k}, 1);"))
        .collect();
    let batch = format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH;");
    let explain = ["explain", "--format", "json"];
    let records = [&explain[..], &["--json"]].concat();
    let mut findings = Vec::new();
    for (arguments, input) in [
        (&explain[..], &*format!("{schema}\n{queries}{batch}")),
        (&explain, queries),
        (&explain, ""),
        (
            &records,
            r#"{"query": "SELECT * FROM shop.kv", "keyspace": "shop"}"#,
        ),
    ] {
        let mut document = written(arguments, input);
        assert_eq!(faults(FORMAT, &document), Vec::<String>::new(), "{input}");
        assert_eq!(document["format"], FORMAT);
        findings.extend(document["findings"].as_array().unwrap().clone());
        document["summary"]["unheard_of"] = true.into();
        assert!(!faults(FORMAT, &document).is_empty(), "{input}");
    }
    let optional = ["table", "example", "reference"]
        .map(|field| findings.iter().any(|finding| finding[field] != Value::Null));
    assert_eq!(
        optional, [true; 3],
        "the schema was tried with all that it describes"
    );
}

#[test]
fn the_catalogue_of_rules_is_what_its_schema_says() {
    let catalogue = written(&["rules", "--format", "json"], "");
    assert_eq!(faults("cqlens.rules.v1", &catalogue), Vec::<String>::new());
    let one = written(&["rules", "timeouts", "--format", "json"], "");
    assert!(catalogue["rules"].as_array().unwrap().contains(&one));
}
