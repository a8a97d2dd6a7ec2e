//! What programs hold on to: the JSON Schemas of what the commands themselves write, kept in `docs/schema`. Those of reports are
//! compared by `tests/json_form.rs`, which also writes the reference of all fields.

use std::path::Path;

use cqlens_report::json_schema_of;
use schemars::JsonSchema;

/// Set to anything, it writes the documents anew.
const WRITE: &str = "CQLENS_WRITE_DOCS";

/// Whether the schema that is kept is that of the type.
pub(super) fn check_schema<Form: JsonSchema>(format: &str) {
    let schema = json_schema_of::<Form>(format);
    let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/schema/{format}.json"));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &text).expect("docs/schema can be written to");
    }
    // Not assert_eq: it would print two documents.
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == text,
        "docs/schema/{format}.json is not what this version writes: `{WRITE}=1 cargo test --lib schema` writes it anew"
    );
}
