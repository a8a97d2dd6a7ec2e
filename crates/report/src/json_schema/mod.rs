//! The JSON Schemas of a report, of a diff of two reports and of a comparison of clusters, and a reference of the fields of these
//! and other forms: out of the types and their comments, so that neither says anything else than the code.
//!
//! Schemas leave objects open: a later version may add fields.

mod reference;

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::Value;

use super::{COMPARISON_FORMAT, Comparison, FORMAT, Report, ReportDiff, diff::DIFF_FORMAT};

pub use reference::json_reference;

/// The formats with their JSON Schemas (draft 2020-12).
pub fn json_schemas() -> [(&'static str, Value); 3] {
    [
        (FORMAT, json_schema_of::<Report>(FORMAT)),
        (DIFF_FORMAT, json_schema_of::<ReportDiff>(DIFF_FORMAT)),
        (COMPARISON_FORMAT, json_schema_of::<Comparison>(COMPARISON_FORMAT)),
    ]
}

/// The JSON Schema (draft 2020-12) of a form, with its format as the title.
pub fn json_schema_of<Form: JsonSchema>(format: &str) -> Value {
    let settings = SchemaSettings::draft2020_12()
        .for_serialize()
        .with_transform(RecursiveTransform(in_plain_words));
    let mut schema = settings.into_generator().into_root_schema_for::<Form>();
    schema.insert("title".to_owned(), format.into());
    schema.to_value()
}

/// Descriptions as sentences instead of lines of source, and no defaults: they are those of reading snapshots.
fn in_plain_words(schema: &mut Schema) {
    schema.remove("default");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = sentences(text);
    }
}

/// The lines of each paragraph put together; names that link to code stand in backticks alone.
fn sentences(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    let text: Vec<_> = paragraphs.collect();
    text.join("\n\n").replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{ReadReport, comparison, testing};
    use cqlens_rules::testing as windows;

    #[test]
    fn descriptions_are_sentences_without_links() {
        assert_eq!(
            sentences("What adds\nup: [`SUMS`].\n\nMore."),
            "What adds up: `SUMS`.\n\nMore."
        );
    }

    /// Whether a form is what its schema says, without any field that the schema does not know.
    fn check(schema: &Value, form: &impl serde::Serialize) {
        let mut closed = schema.clone();
        close(&mut closed);
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&closed)
            .unwrap();
        let form = serde_json::to_value(form).unwrap();
        let errors: Vec<_> = validator.iter_errors(&form).collect();
        let errors = errors
            .iter()
            .map(|error| format!("{}: {error}", error.instance_path()));
        assert_eq!(errors.collect::<Vec<_>>(), Vec::<String>::new());
    }

    /// Lets no object have other fields than those that are named.
    fn close(schema: &mut Value) {
        match schema {
            Value::Object(parts) => {
                parts.values_mut().for_each(close);
                if parts.get("properties").is_some_and(Value::is_object) && !parts.contains_key("const") {
                    parts.entry("additionalProperties").or_insert(Value::Bool(false));
                }
            }
            Value::Array(parts) => parts.iter_mut().for_each(close),
            _ => {}
        }
    }

    #[test]
    fn reports_are_what_their_schema_says() {
        let [(_, schema), ..] = json_schemas();
        for report in [
            testing::small_report(),
            testing::busy_report(),
            testing::report(&windows::window([])),
            testing::small_report().compared(Some(comparison::testing::comparison())),
        ] {
            check(&schema, &report);
        }
    }

    #[test]
    fn comparisons_of_clusters_are_what_their_schema_says() {
        let [.., (_, schema)] = json_schemas();
        check(&schema, &comparison::testing::comparison());
        check(&schema, &comparison::testing::replay());
    }

    #[test]
    fn comparisons_of_reports_are_what_their_schema_says() {
        let [_, (_, schema), _] = json_schemas();
        let read = |report: &Report| ReadReport::read(&serde_json::to_vec(report).unwrap()).unwrap();
        let (small, busy) = (testing::small_report(), testing::busy_report());
        check(
            &schema,
            &ReportDiff::between(&read(&small), &read(&busy)).unwrap(),
        );
        check(
            &schema,
            &ReportDiff::between(&read(&busy), &read(&small)).unwrap(),
        );
    }

    #[test]
    fn what_the_contract_does_not_say_is_seen() {
        let [(_, schema), ..] = json_schemas();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let mut report = serde_json::to_value(testing::small_report()).unwrap();
        assert!(validator.is_valid(&report));
        report["added"] = 1.into();
        assert!(validator.is_valid(&report), "a later version may add fields");
        report["totals"]["reads"] = "many".into();
        assert!(!validator.is_valid(&report));
    }

    #[test]
    fn every_field_has_a_meaning() {
        fn undescribed(schema: &Value, path: &str) -> Vec<String> {
            let fields = schema["properties"].as_object().into_iter().flatten();
            fields
                .filter(|(_, field)| field["description"].as_str().is_none_or(str::is_empty))
                .map(|(name, _)| format!("{path}.{name}"))
                .collect()
        }
        for (format, schema) in json_schemas() {
            let mut bare = undescribed(&schema, format);
            for (name, definition) in schema["$defs"].as_object().unwrap() {
                bare.extend(undescribed(definition, name));
            }
            assert_eq!(bare, Vec::<String>::new());
        }
    }
}
