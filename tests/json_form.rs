//! What programs hold on to: the JSON Schemas and the reference of fields in `docs/` are what this version writes.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use cqlens_audit::report::{json_reference, json_schemas};

/// Set to anything, it writes the documents anew.
const WRITE: &str = "CQLENS_WRITE_DOCS";

/// The documents by their paths.
fn documents() -> Vec<(String, String)> {
    let schemas = json_schemas().map(|(format, schema)| {
        let text = serde_json::to_string_pretty(&schema).unwrap();
        (format!("docs/schema/{format}.json"), text + "\n")
    });
    let reference = ("docs/json.md".to_owned(), json_reference());
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
            "{name} is not what this version writes: `{WRITE}=1 cargo test --test json_form` writes it anew"
        );
    }
}
