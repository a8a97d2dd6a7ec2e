//! The reference of the fields: a table for each type, in the order in which a reader comes to them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Name, type, unit and meaning of every field of these formats, as one Markdown document.
pub fn json_reference(schemas: &[(&str, Value)]) -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut described = BTreeSet::new();
    for (format, schema) in schemas {
        text += &section(format, schema);
        let mut names = Vec::new();
        references(&schema["properties"], &mut names);
        let mut at = 0;
        while let Some(name) = names.get(at).cloned() {
            at += 1;
            let definition = &schema["$defs"][&name];
            references(definition, &mut names);
            // All formats speak of findings' severities, of statements' ids, ...
            if described.insert(name.clone()) {
                text += &section(&name, definition);
            }
        }
    }
    text
}

const INTRODUCTION: &str = "# The JSON forms of cqlens

Written from the types of the program, like the JSON Schemas in [schema/](schema): do not edit. Fields are added without notice; \
none is renamed or removed within a version of the format.

Times are RFC 3339. The ending of a name is its unit: `_us` microseconds, `_bytes` bytes, `_share` a part of 1, `_per_second` a rate, \
`_seconds` seconds. What has no such ending is a count, a name or a text.
";

/// The names of the types that are used, each once, in order.
fn references(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            for (field, value) in fields {
                match referred(field, value) {
                    Some(name) if !names.iter().any(|known| known == name) => names.push(name.to_owned()),
                    Some(_) => {}
                    None => references(value, names),
                }
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| references(part, names)),
        _ => {}
    }
}

fn referred<'s>(field: &str, value: &'s Value) -> Option<&'s str> {
    let path = value.as_str().filter(|_| field == "$ref")?;
    path.strip_prefix("#/$defs/")
}

fn section(name: &str, schema: &Value) -> String {
    let text = description(schema);
    let heading = format!("\n## {name}\n\n{text}\n");
    if let Some(fields) = schema["properties"].as_object() {
        return heading + &field_table(schema, fields);
    }
    match schema["oneOf"].as_array() {
        Some(values) => heading + &value_table(values),
        None => heading + &format!("\nType: {}.\n", type_of(schema)),
    }
}

fn field_table(schema: &Value, fields: &Map<String, Value>) -> String {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|field| field == name));
    let mut table = "\n| field | type | unit | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for (name, field) in fields {
        let absent = if is_required(name) { "" } else { ", may be absent" };
        let (kind, unit, meaning) = (type_of(field), unit(name), cell(description(field)));
        table += &format!("| `{name}` | {kind}{absent} | {unit} | {meaning} |\n");
    }
    table
}

fn value_table(values: &[Value]) -> String {
    let mut table = "\n| value | meaning |\n| --- | --- |\n".to_owned();
    for value in values {
        let meaning = cell(description(value));
        let constants = value["const"].as_str().into_iter();
        let listed = value["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        for name in constants.chain(listed) {
            table += &format!("| `{name}` | {meaning} |\n");
        }
    }
    table
}

fn description(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// As it may stand in a table.
fn cell(text: &str) -> String {
    text.replace("\n\n", " ").replace('|', "\\|")
}

/// A type in words; others by links.
fn type_of(schema: &Value) -> String {
    if let Some(name) = referred("$ref", &schema["$ref"]) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(constant) = schema["const"].as_str() {
        return format!("`{constant}`");
    }
    let parts = schema["anyOf"].as_array().or(schema["allOf"].as_array());
    if let Some(parts) = parts {
        return parts.iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str);
            kinds
                .map(|kind| named(kind, schema))
                .collect::<Vec<_>>()
                .join(" or ")
        }
        kind => named(kind.as_str().unwrap_or("any"), schema),
    }
}

/// A JSON type with what it holds.
fn named(kind: &str, schema: &Value) -> String {
    match kind {
        "array" if schema["prefixItems"].is_array() => {
            let parts: Vec<_> = schema["prefixItems"]
                .as_array()
                .into_iter()
                .flatten()
                .map(type_of)
                .collect();
            format!("[{}]", parts.join(", "))
        }
        "array" if schema["minItems"].is_u64() => {
            format!("{} of {}", schema["minItems"], type_of(&schema["items"]))
        }
        "array" => format!("list of {}", type_of(&schema["items"])),
        "object" => match values_of(schema) {
            Some(values) => format!("object of {} by name", type_of(values)),
            None => "object".to_owned(),
        },
        "string" if schema["format"].is_string() => match schema["format"].as_str() {
            Some("date-time") => "time".to_owned(),
            format => format.unwrap_or("string").to_owned(),
        },
        kind => kind.to_owned(),
    }
}

/// What the values of a map are.
fn values_of(schema: &Value) -> Option<&Value> {
    let named = Some(&schema["additionalProperties"]).filter(|values| values.is_object());
    named.or_else(|| schema["patternProperties"].as_object()?.values().next())
}

/// What the ending of a name says.
fn unit(name: &str) -> &'static str {
    let ends = |ending: &str| name == &ending[1..] || name.ends_with(ending);
    match name {
        _ if ends("_us") => "µs",
        _ if ends("_bytes") => "bytes",
        _ if ends("_share") => "part of 1",
        _ if ends("_seconds") => "s",
        _ if ends("_rate") => "1/s",
        _ => "",
    }
}
