//! What a report says of the traffic, without what depends on who has seen it and when: the same for everybody who has seen the same.

use serde_json::{Map, Value};

/// Parts of a report that speak of how and when it was made, or of what only a control connection knows.
const OF_THE_OBSERVER: &[&str] = &[
    "generated_at",
    "window",
    "notices",
    "tool",
    "cluster",
    "load",
    "summary",
    "accepted",
    "idle_acceptances",
    "acceptance_mistakes",
];

/// Numbers that are times, or made of times, wherever they are.
fn is_timed(key: &str) -> bool {
    const TIMED: &[&str] = &[
        "cost",
        "cost_share",
        "executions_per_second",
        "first_seen",
        "last_seen",
        "first",
        "last",
    ];
    key.ends_with("_us") || key.contains("latency") || key.ends_with("_seconds") || TIMED.contains(&key)
}

/// The report as it would be from any other observer of the same traffic.
pub(crate) fn seen(report: &Value) -> Value {
    let mut seen = stripped(report);
    let Some(parts) = seen.as_object_mut() else {
        panic!("no report: {report}")
    };
    parts.retain(|key, _| !OF_THE_OBSERVER.contains(&key.as_str()));
    if let Some(Value::Object(coverage)) = parts.get_mut("coverage") {
        coverage.retain(|key, _| COVERAGE.contains(&key.as_str()));
    }
    // They are ranked by what they cost, which is time.
    for (list, keys) in [
        ("patterns", &["id"][..]),
        ("system_patterns", &["id"]),
        ("tables", &["keyspace", "table"]),
        ("findings", &["rule", "keyspace", "table", "patterns"]),
        ("sequences", &["kind", "from", "to"]),
    ] {
        if let Some(Value::Array(list)) = parts.get_mut(list) {
            list.sort_by_key(|entry| keys.iter().map(|key| entry[key].to_string()).collect::<Vec<_>>());
        }
    }
    seen
}

/// What both have of the requests.
const COVERAGE: &[&str] = &[
    "requests",
    "audited",
    "dropped",
    "undecoded",
    "partitions_exact",
    "partitions_bounded",
    "partitions_scan",
    "partitions_unknown",
    "unknown_reasons",
    "refused",
    "unparsed",
    "system_requests",
    "unanswered",
    "responses_lost",
];

fn stripped(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let kept = entries.iter().filter(|(key, _)| !is_timed(key));
            Value::Object(
                kept.map(|(key, value)| (key.clone(), stripped(value)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(stripped).collect();
            // Lists of names; which comes first is told by their cost.
            if list.iter().all(Value::is_string) {
                list.sort_by_key(ToString::to_string);
            }
            Value::Array(list)
        }
        other => other.clone(),
    }
}

/// What differs, a line for each place.
pub(crate) fn differences(expected: &Value, found: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", expected, found, &mut lines);
    lines
}

fn compare(place: &str, expected: &Value, found: &Value, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(left), Value::Object(right)) => {
            for key in left
                .keys()
                .chain(right.keys().filter(|key| !left.contains_key(*key)))
            {
                let place = format!("{place}.{key}");
                compare(&place, &expected[key], &found[key], lines);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                let name = left["id"]
                    .as_str()
                    .or(left["rule"].as_str())
                    .or(left["table"].as_str());
                let place = format!("{place}[{}]", name.map_or(index.to_string(), str::to_owned));
                compare(&place, left, right, lines);
            }
        }
        _ if expected == found => {}
        _ => lines.push(format!("{place}: expected {expected}, found {found}")),
    }
}

/// What speaks against the claim that all that `found` says of requests is in `original` too.
pub(crate) fn invented(original: &Value, found: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for key in ["requests", "audited"] {
        let (most, said) = (
            number(&original["coverage"][key]),
            number(&found["coverage"][key]),
        );
        if said > most {
            lines.push(format!("coverage.{key} is {said}, and was {most}"));
        }
    }
    let empty = Vec::new();
    for list in ["patterns", "system_patterns"] {
        for pattern in found[list].as_array().unwrap_or(&empty) {
            // What a statement's table is takes the schema, which may be what is missing.
            let same = original[list]
                .as_array()
                .unwrap_or(&empty)
                .iter()
                .filter(|other| other["cql"] == pattern["cql"]);
            let most: u64 = same.map(|other| number(&other["count"])).sum();
            if number(&pattern["count"]) > most {
                lines.push(format!(
                    "{} times {}, which was there {most} times",
                    pattern["count"], pattern["cql"]
                ));
            }
        }
    }
    lines
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
