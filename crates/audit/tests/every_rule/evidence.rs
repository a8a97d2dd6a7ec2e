//! What findings give as evidence is for programs, too: numbers, names and words of fixed lists, no sentences and no lists that
//! would have to be taken apart.

use serde_json::Value;

use crate::FOUND;

/// Fields whose texts others have chosen, and CQL (see `EvidenceValue`).
const CHOSEN_BY_OTHERS: [&str; 5] = [
    "statement",
    "application",
    "version",
    "driver",
    "successor_driver",
];

#[test]
fn no_value_of_evidence_is_prose() {
    let (mut complaints, mut texts) = (Vec::new(), 0);
    for finding in FOUND.iter().flatten() {
        for (name, value) in &finding.evidence {
            let all = strings(name, &serde_json::to_value(value).unwrap());
            texts += all.len();
            let prose = all.into_iter().filter(|(field, text)| is_prose(field, text));
            complaints.extend(prose.map(|(field, text)| format!("{}: {field}: {text}", finding.rule)));
        }
    }
    assert!(texts > 1_000, "{texts}");
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn sentences_lists_and_written_numbers_are_prose() {
    for text in ["inferred from writes", "ONE,TWO", "49 %", "49%", "12", "1.5"] {
        assert!(is_prose("known_from", text), "{text}");
    }
    for text in [
        "LOCAL_QUORUM",
        "shop.users",
        "#00ff",
        "1970-01-01T00:00:00Z",
        "10.0.0.1",
    ] {
        assert!(!is_prose("name", text), "{text}");
    }
    assert!(!is_prose("statement", "SELECT a FROM b"));
}

fn is_prose(field: &str, text: &str) -> bool {
    let is_list = text.contains([' ', ',', ';', '%', '`']);
    !CHOSEN_BY_OTHERS.contains(&field) && (is_list || text.parse::<f64>().is_ok())
}

/// All strings in a value with the fields that they stand in, names of counts among them.
fn strings(field: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::String(text) => vec![(field.to_owned(), text.clone())],
        Value::Array(parts) => parts.iter().flat_map(|part| strings(field, part)).collect(),
        Value::Object(fields) => {
            let names = fields.keys().map(|name| (field.to_owned(), name.clone()));
            let values = fields.iter().flat_map(|(name, value)| strings(name, value));
            names.chain(values).collect()
        }
        _ => Vec::new(),
    }
}
