//! The part of SARIF 2.1.0 that `cqlens explain` writes, as a JSON Schema: the names, types and limits of the OASIS standard
//! (sections 3.13 to 3.52), and nothing besides. With `CQLENS_SARIF_SCHEMA=FILE` the schema that OASIS publishes is checked
//! as well.

use serde_json::{Value, json};

/// Panics unless the document is valid.
pub(crate) fn check(document: &Value) {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(document)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{document:#}");
    if let Some(path) = std::env::var_os("CQLENS_SARIF_SCHEMA") {
        let published: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let validator = jsonschema::validator_for(&published).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(document)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
}

pub(crate) fn is_valid(document: &Value) -> bool {
    jsonschema::is_valid(&schema(), document)
}

fn schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let number = json!({"type": "integer", "minimum": 1});
    let message = object(&[("text", text.clone())], &[("markdown", text.clone())]);
    let level = json!({"enum": ["none", "note", "warning", "error"]});
    let rule = object(
        &[("id", text.clone()), ("shortDescription", message.clone())],
        &[
            ("fullDescription", message.clone()),
            ("help", message.clone()),
            ("defaultConfiguration", object(&[], &[("level", level.clone())])),
            ("properties", object(&[("tags", list(&text))], &[])),
        ],
    );
    let region = object(
        &[
            ("startLine", number.clone()),
            ("startColumn", number.clone()),
            ("endLine", number.clone()),
            ("endColumn", number),
        ],
        &[],
    );
    let uri = json!({"type": "string", "pattern": "^(file:///)?([A-Za-z0-9._~/-]|%[0-9A-F]{2})+$"});
    let place = object(
        &[
            ("artifactLocation", object(&[("uri", uri)], &[])),
            ("region", region),
        ],
        &[],
    );
    let result = object(
        &[
            ("ruleId", text.clone()),
            ("ruleIndex", json!({"type": "integer", "minimum": 0})),
            ("level", level),
            ("message", message),
            ("locations", list(&object(&[("physicalLocation", place)], &[]))),
            (
                "partialFingerprints",
                json!({"type": "object", "minProperties": 1, "additionalProperties": text}),
            ),
        ],
        &[("properties", json!({"type": "object"}))],
    );
    let driver = object(
        &[
            ("name", text.clone()),
            ("version", text.clone()),
            ("rules", list(&rule)),
        ],
        &[],
    );
    let run = object(
        &[
            ("tool", object(&[("driver", driver)], &[])),
            ("results", list(&result)),
            (
                "columnKind",
                json!({"enum": ["utf16CodeUnits", "unicodeCodePoints"]}),
            ),
        ],
        &[],
    );
    object(
        &[
            ("version", json!({"const": "2.1.0"})),
            ("$schema", text),
            ("runs", list(&run)),
        ],
        &[],
    )
}

/// An object with these properties, the first ones required, and no others.
fn object(required: &[(&str, Value)], others: &[(&str, Value)]) -> Value {
    let names: Vec<_> = required.iter().map(|(name, _)| *name).collect();
    let all = required.iter().chain(others);
    let properties: serde_json::Map<_, _> = all
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({"type": "object", "required": names, "properties": properties, "additionalProperties": false})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}
