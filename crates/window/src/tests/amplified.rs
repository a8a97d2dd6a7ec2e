//! Snapshots of which a few characters become many bytes in memory.

use serde_json::{Value, json};

use super::*;

/// So many items of any list or map take more than [`SPARE`] bytes, and twice as many characters.
const ITEMS: usize = 500;
const SPARE: u64 = 4_000;

/// As files have it, with something of everything that has lists or maps.
fn document() -> Value {
    let mut window = window(0, 2..3, 2);
    window.connections_mut("client").open(4, true);
    let at = window.start;
    let snapshot = Snapshot::new(window, Cluster::default(), String::new(), String::new());
    let mut document = serde_json::to_value(snapshot).unwrap_or_default();
    let pattern = "0000000000000002";
    let distribution = json!({"sum": "0"});
    let link = json!({
        "keys": distribution, "rows": 0, "requests": 0, "lists": 0, "overlapping": 0, "elapsed_us": distribution, "by_chance": 0,
        "compared": 0, "in_order": 0, "values": distinct(), "columns": {"a": {}},
    });
    let buckets = json!({
        "single": 0, "partitions": distribution, "concurrent": 0, "lists": 0, "steps": 0, "step_sizes": {}, "unit": null,
        "rows": distribution, "elapsed_us": distribution, "values": [], "keys": distinct(),
    });
    document["window"]["sequences"] = json!({
        "followed": {pattern: {"reads": 0, "rows": 0, "links": {pattern: link}}},
        "buckets": {pattern: {"a": buckets}},
        "copies": {pattern: {"writes": 0, "pairs": {}}},
        "rewrites": {pattern: {}},
        "batched": {}, "repeats": {}, "requests": {},
    });
    document["window"]["sightings"] = json!({"clients": {"client": []}, "tables": {"k.t": []}});
    document["window"]["schema_disagreement"] = json!({"seconds": 0, "versions": {"a": []}});
    document["window"]["observed"] = json!({"a": [{"start": at, "end": at}]});
    document["window"]["coverage"]["evicted"] = json!({});
    document["cluster"]["data_centers"] = json!({});
    document["parts"] = json!([at]);
    document
}

fn distinct() -> Value {
    serde_json::to_value(Distinct::default()).unwrap_or_default()
}

/// All lists and objects, by their pointers.
fn collections(value: &Value, at: &str, found: &mut Vec<String>) {
    let items: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, item)| (key.clone(), item)).collect(),
        Value::Array(items) => (0..)
            .zip(items)
            .map(|(at, item): (usize, _)| (at.to_string(), item))
            .collect(),
        _ => return,
    };
    found.push(at.to_owned());
    for (key, item) in items {
        collections(item, &format!("{at}/{key}"), found);
    }
}

/// The same list or map with many items, in each form that its keys and items may have; fields that are required stay.
fn many(collection: &Value) -> Vec<Value> {
    let mut forms = vec![
        json!(0),
        json!("a"),
        json!([]),
        json!({}),
        json!([0, 1]),
        Value::Null,
    ];
    let keys: [fn(usize) -> String; 4] = [
        |at| format!("{at:016x}"),
        |at| at.to_string(),
        |at| format!("k.t{at}"),
        |at| format!("k.t.c{at}"),
    ];
    match collection {
        Value::Object(fields) => {
            forms.extend(fields.values().next().cloned());
            let with = |key: fn(usize) -> String, item: &Value| {
                let mut fields = fields.clone();
                fields.extend((0..ITEMS).map(|at| (key(at), item.clone())));
                Value::Object(fields)
            };
            forms
                .iter()
                .flat_map(|item| keys.map(|key| with(key, item)))
                .collect()
        }
        Value::Array(items) => {
            forms.extend(items.first().cloned());
            // Items of a set differ; others may be the same.
            let item = |form: &Value, at: usize| match form {
                Value::String(text) if text == "a" => json!(at.to_string()),
                Value::Number(_) => json!(at),
                other => other.clone(),
            };
            forms
                .iter()
                .map(|form| (0..ITEMS).map(|at| item(form, at)).collect())
                .collect()
        }
        _ => Vec::new(),
    }
}

fn read(document: &Value, memory: u64) -> Result<Snapshot, SnapshotError> {
    Snapshot::read_within(memory, document.to_string().as_bytes())
}

/// How long it is when it is written again: without keys that are not known, and without what stood for the same thing twice.
fn kept(snapshot: &Snapshot) -> usize {
    serde_json::to_string(snapshot).map_or(0, |text| text.len())
}

#[test]
fn no_list_or_map_of_a_document_becomes_more_than_is_allowed() {
    let document = document();
    let needed = (0..64)
        .map(|step| step * 4_000)
        .find(|memory| read(&document, *memory).is_ok());
    let whole = read(&document, u64::MAX).map(|whole| kept(&whole));
    let whole = whole.unwrap_or_default();
    assert!(whole > 0, "it is read");
    let mut pointers = Vec::new();
    collections(&document, "", &mut pointers);
    let mut unseen = BTreeSet::new();
    for at in &pointers {
        for many in document.pointer(at).map(many).unwrap_or_default() {
            let mut changed = document.clone();
            if let Some(place) = changed.pointer_mut(at) {
                *place = many;
            }
            let grown = read(&changed, needed.unwrap_or_default() + SPARE);
            if grown.is_ok_and(|grown| kept(&grown) > whole + ITEMS) {
                unseen.insert(at.clone());
            }
        }
    }
    assert_eq!(unseen, BTreeSet::new());
}

#[test]
fn what_merging_would_not_keep_is_not_kept_of_a_document() {
    let mut document = document();
    let many: serde_json::Map<_, _> = (0..Sequences::MOST + 1)
        .map(|at| (format!("{at:016x}"), json!(1)))
        .collect();
    document["window"]["sequences"]["requests"] = many.into();
    let columns: serde_json::Map<_, _> = (0..100).map(|at| (format!("c{at}"), json!({}))).collect();
    let link = "/window/sequences/followed/0000000000000002/links/0000000000000002/columns";
    if let Some(place) = document.pointer_mut(link) {
        *place = columns.into();
    }
    let sources: Vec<_> = (0..257).map(|at| json!(at.to_string())).collect();
    document["window"]["sightings"]["clients"]["client"] = sources.into();
    let read = read(&document, u64::MAX).map(|read| read.window);
    let counts = read.map(|window| {
        let links = window
            .sequences
            .followed
            .values()
            .flat_map(|reads| reads.links.values());
        let sources = window.sightings.clients().map(|(_, sources)| sources.is_none());
        (
            window.sequences.requests.len(),
            links.map(|link| link.columns.len()).collect::<Vec<_>>(),
            sources.collect::<Vec<_>>(),
        )
    });
    assert_eq!(counts.ok(), Some((Sequences::MOST, vec![64], vec![true])));
}

#[test]
fn lists_that_are_longer_than_what_they_stand_for_are_refused() {
    let with = |at: &str, list: Value| {
        let mut changed = document();
        if let Some(place) = changed.pointer_mut(at) {
            *place = list;
        }
        read(&changed, u64::MAX).is_ok()
    };
    let zeros = |items: usize| Value::from(vec![0; items]);
    assert!(with("/window/load/ring/reads", zeros(256)));
    assert!(!with("/window/load/ring/reads", zeros(257)));
    let cover = "/window/patterns/0000000000000002/token_ranges/cover";
    let stretches = |many: usize| Value::from(vec![json!([0, 1]); many]);
    assert!(with(cover, stretches(2_048)));
    assert!(!with(cover, stretches(2_049)));
}

/// The value of an unknown key is kept until its pattern has been read.
#[test]
fn a_pattern_has_as_many_values_as_one_may_have() {
    let with = |values: Value| {
        let mut changed = document();
        changed["window"]["patterns"]["0000000000000002"]["later"] = values;
        read(&changed, u64::MAX).is_ok()
    };
    assert!(with(json!(vec![0; 1_000])));
    assert!(!with(json!(vec![0; 16_384])));
    assert!(!with(json!({"few": vec![0; 16_384]})));
}
