//! Same traffic, same report.

use std::time::Duration;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use cqlens_client::ClientOptions;
use cqlens_node::{self, scenario::Scenario};
use cqlens_testing::with_everything;
use serde_json::{Value, json};

use crate::sniff::{
    conversation::Relay,
    report::{WHATEVER_THE_LATENCY, contradictions},
    sniff::{PROGRAM, Place, Recorded, recorded},
    support::proxy::Proxy,
    verdict,
};

/// What differs between what a capture's report says and what the proxy has said.
pub(crate) fn complaints(name: &str, proxy: &Value, sniffed: &Value) -> Vec<String> {
    let lines = contradictions(proxy, sniffed);
    lines.iter().map(|line| format!("{name}{line}")).collect()
}

/// What a report of an older version and one of today both state of the traffic. What is concluded from it may
/// change with every version; it is compared where both reports are made today.
fn facts_of_both(then: &Value, now: &Value) -> (Value, Value) {
    const CONCLUDED: [&str; 4] = ["rules", "findings", "problems", "blind_spots"];
    let (mut then, mut now) = (then.clone(), now.clone());
    let (Some(old), Some(new)) = (then.as_object_mut(), now.as_object_mut()) else {
        panic!("no reports: {then} {now}")
    };
    old.retain(|part, _| !CONCLUDED.contains(&part.as_str()));
    new.retain(|part, _| old.contains_key(part));
    // Of the load sums are compared, whatever they are made of.
    for (part, old) in old.iter_mut().filter(|(part, _)| *part != "load") {
        let (mut of_old, mut of_new) = (BTreeSet::new(), BTreeSet::new());
        paths(old, "", &mut of_old);
        paths(&new[part], "", &mut of_new);
        let common = &of_old & &of_new;
        (*old, new[part]) = (only(old, "", &common), only(&new[part], "", &common));
    }
    keep_partitions(&then, &mut now);
    for report in [&mut then, &mut now] {
        count_what_is_refused_or_unparsed(&mut report["coverage"]);
    }
    (then, now)
}

/// A text that the server could not parse either was counted as unparsed, and is counted as refused.
fn count_what_is_refused_or_unparsed(coverage: &mut Value) {
    let [refused, unparsed] = ["refused", "unparsed"].map(|name| coverage[name].as_u64().unwrap());
    coverage["refused"] = json!(refused + unparsed);
    coverage["unparsed"] = json!(0);
}

/// Leaves of the busiest partitions those that the older report names: it named those with most reads and writes, and none
/// for their rows.
fn keep_partitions(then: &Value, now: &mut Value) {
    let tables = then["tables"].as_array().into_iter().flatten();
    let partitions = tables.filter_map(|table| table["top_partitions"].as_array());
    let named: BTreeSet<String> = partitions
        .flatten()
        .map(|partition| partition["key"].to_string())
        .collect();
    for table in now["tables"].as_array_mut().into_iter().flatten() {
        if let Some(partitions) = table["top_partitions"].as_array_mut() {
            partitions.retain(|partition| named.contains(&partition["key"].to_string()));
        }
    }
}

/// The paths of all keys of the objects in a value, however deep; lists are no part of a path.
fn paths(value: &Value, at: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let path = format!("{at}.{key}");
                paths(value, &path, all);
                all.insert(path);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| paths(value, at, all)),
        _ => {}
    }
}

/// The value without what is at other paths than these.
fn only(value: &Value, at: &str, common: &BTreeSet<String>) -> Value {
    match value {
        Value::Object(object) => {
            let with_paths = object
                .iter()
                .map(|(key, value)| (key, value, format!("{at}.{key}")));
            let kept = with_paths.filter(|(.., path)| common.contains(path));
            let kept = kept.map(|(key, value, path)| (key.clone(), only(value, &path, common)));
            Value::Object(kept.collect())
        }
        Value::Array(list) => list.iter().map(|value| only(value, at, common)).collect(),
        other => other.clone(),
    }
}

fn of_the_recorded(wanted: impl Fn(&Recorded) -> bool) {
    let mut all = Vec::new();
    let mut looked_at = 0;
    for recorded in recorded().iter().filter(|recorded| wanted(recorded)) {
        let sniffed = Place::new().sniff(&[&recorded.file], &[]);
        assert_eq!(sniffed.code(), Some(0), "{}: {}", recorded.name, sniffed.said());
        let (then, now) = facts_of_both(&recorded.report(), sniffed.report());
        all.extend(complaints(&recorded.name, &then, &now));
        looked_at += 1;
    }
    assert!(looked_at >= 6, "{looked_at} captures");
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn a_capture_of_the_python_driver_says_what_the_proxy_has_said() {
    of_the_recorded(|recorded| recorded.name.starts_with("python"));
}

#[test]
fn a_capture_of_the_java_driver_says_what_the_proxy_has_said() {
    of_the_recorded(|recorded| recorded.name.starts_with("java"));
}

#[test]
fn a_capture_of_gocql_says_what_the_proxy_has_said() {
    of_the_recorded(|recorded| recorded.name.starts_with("gocql"));
}

/// Drivers ask for tables and for columns apart, and again after each change: no table has another key
/// meanwhile.
#[test]
fn what_drivers_read_of_the_schema_gives_no_table_another_key() {
    let place = Place::new();
    for recorded in recorded() {
        let sniffed = place.sniff(&[&recorded.file], &[]);
        let notices = sniffed.report()["coverage"]["notices"].to_string();
        assert!(!notices.contains("recreated"), "{}: {notices}", recorded.name);
    }
}

/// Which partitions were read and written, by token and by node: what takes a node that tells who holds
/// which.
fn placed(report: &Value) -> Value {
    let load = &report["load"];
    let nodes = load["nodes"].as_array().into_iter().flatten();
    let nodes = nodes.map(|node| json!([node["id"], node["reads"], node["writes"]]));
    json!({
        "ring": load["ring"],
        "nodes": nodes.collect::<Vec<_>>(),
        "unplaced": load["unplaced"],
        "without_keys": load["without_keys"],
    })
}

/// The report without its points of time: the proxy's clock is read a moment after the capture's, in which a minute may begin.
fn without_timeline(report: &Value) -> Value {
    let mut report = report.clone();
    report.as_object_mut().unwrap().remove("timeline");
    // Of several statements the one that took the most time is drawn, whichever that was.
    for finding in report["findings"].as_array_mut().unwrap() {
        if finding["patterns"]
            .as_array()
            .is_some_and(|patterns| patterns.len() > 1)
        {
            finding.as_object_mut().unwrap().remove("chart");
        }
    }
    report
}

fn whatever_the_latency(place: &Place) -> PathBuf {
    place.write("cqlens.toml", WHATEVER_THE_LATENCY.as_bytes())
}

/// Every rule has something to say of one of all scenarios, or is to say nothing.
#[test]
fn a_capture_of_scenarios_says_what_the_proxy_has_said() {
    let one_in = if with_everything("captures of two thirds of the scenarios") {
        1
    } else {
        3
    };
    // What only the newest server reads is always in.
    let (newest, others): (Vec<_>, Vec<_>) = verdict::ids()
        .into_iter()
        .partition(|id| verdict::text(id, "traffic.toml").contains("\nserver = "));
    let ids: Vec<String> = others.into_iter().step_by(one_in).chain(newest).collect();
    let place = Place::new();
    let report_file = place.path("proxy.json");
    let settings = whatever_the_latency(&place).display().to_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let node = runtime
        .block_on(cqlens_node::Node::start(cqlens_node::Options::default()))
        .unwrap();
    let arguments = [
        "--window",
        "3600s",
        // Both look at all: a sample is another one at each place.
        "--sequence-budget",
        "100000",
        "--report",
        report_file.to_str().unwrap(),
        "--hash-key-file",
        &place.path("hash.key").display().to_string(),
        "--config",
        &settings,
    ];
    let proxy = Proxy::start(PROGRAM, node.address(), &arguments);
    let relay = Relay::start(proxy.address);
    for id in &ids {
        let scenario = Scenario::parse(
            id,
            &verdict::text(id, "schema.cql"),
            &verdict::text(id, "traffic.toml"),
        );
        let options = ClientOptions {
            timeout: Duration::from_secs(30),
            ..ClientOptions::default()
        };
        let ran = runtime.block_on(scenario.unwrap().run(relay.address, &options));
        assert_eq!(ran.unwrap().refused, verdict::read(id).refused, "{id}");
    }
    let capture = relay.capture();
    let ended = proxy.stop(Duration::from_secs(60));
    assert_eq!(ended.code, 0, "{}", ended.log);
    let file = place.write("scenarios.pcap", &capture.plain());
    let sniffed = place.sniff(
        &[Path::new(&file)],
        &["--config", &settings, "--sequence-budget", "100000"],
    );
    assert_eq!(sniffed.code(), Some(0), "{}", sniffed.said());
    let proxy = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();
    let all = complaints(
        "scenarios",
        &without_timeline(&proxy),
        &without_timeline(sniffed.report()),
    );
    assert!(all.is_empty(), "{}", all.join("\n"));
    let contact = node.address().to_string();
    let asked = Place::new().sniff(&[Path::new(&file)], &["--contact", &contact]);
    let placed = placed(asked.report());
    assert_eq!(placed, self::placed(&proxy));
    assert!(
        placed["ring"]["loads"].as_array().unwrap().len() > 100,
        "{placed}"
    );
    let verdicts: Vec<_> = ids
        .iter()
        .flat_map(|id| verdict::read(id).complaints(id, sniffed.report()))
        .collect();
    assert!(verdicts.is_empty(), "{verdicts:#?}");
}
