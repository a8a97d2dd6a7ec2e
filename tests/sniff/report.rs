//! What a report says of the traffic, without what depends on who has seen it and when: the same for
//! everybody who has seen the same.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Parts of a report that speak of how and when it was made, or of what only a control connection knows.
const OF_THE_OBSERVER: &[&str] = &[
    "generated_at",
    "window",
    "notices",
    "tool",
    "cluster",
    "summary",
    "accepted",
    "idle_acceptances",
    "acceptance_mistakes",
    // Findings put together, which are compared one by one.
    "problems",
    // Its points are as long as the source's windows.
    "timeline",
];

/// Rules that go by how many nodes or tables there are, or which tokens are whose, which a capture tells nobody.
const OF_THE_CLUSTER: &[&str] = &[
    "simple-strategy",
    "replication-factor",
    "many-tables",
    "uneven-token-load",
];

/// Rules on what belongs together, which is told by when it came: two places see the same of it and not the same
/// number of times.
const BY_TIME: &[&str] = &[
    "client-join",
    "index-table-lookup",
    "bucket-fan-out",
    "time-bucket-walk",
    "dual-write-without-batch",
    "read-before-write",
    "redundant-reads",
];

/// Rules that show one of several statements as an example: the costliest, which is told by time.
const BY_EXAMPLE: &[&str] = &["unprepared-statement"];

/// Settings with which no latency changes what a rule says: it is taken at two places here, and on a machine
/// with other work only one of them may see half a second.
pub(crate) const WHATEVER_THE_LATENCY: &str = "[severity]
large_share = 1.0
small_share = 1e-12
negligible_share = 1e-12
idle_ms_per_second = 1e-12
idle_work_per_second = 1e-12
slow_ms = 86400000

[rules.reversed-read]
slower = 1e12
";

/// Numbers that are times, or made of times, wherever they are.
fn is_timed(key: &str) -> bool {
    const TIMED: &[&str] = &[
        "time_us",
        "time_share",
        "of_measured_time_share",
        "executions_per_second",
        "first_seen",
        "last_seen",
        "first",
        "last",
    ];
    key.ends_with("_seconds") || TIMED.contains(&key)
}

/// Durations: how long they are depends on where the clock is read, but not whether there are any, and how
/// many.
fn is_duration(key: &str) -> bool {
    key.ends_with("_us") || key.contains("latency")
}

/// Of durations whether there are any, and how many where that is said.
fn durations(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let durations = entries.iter().filter(|(key, _)| *key != "count");
            let any = durations.into_iter().any(|(_, value)| is_some_time(value));
            json!({ "any": any, "count": entries.get("count") })
        }
        Value::Number(_) => is_some_time(value).into(),
        other => other.clone(),
    }
}

fn is_some_time(duration: &Value) -> bool {
    duration.as_f64() > Some(0.0)
}

/// Says how many latencies there are, where a report is older than that: each of what was executed, if all of
/// it was answered.
fn count_latencies(report: &mut Value) {
    if number(&report["coverage"]["unanswered"]) > 0 {
        return;
    }
    let say = |latency: &mut Value, count: u64| {
        if latency["count"].is_null() {
            latency["count"] = count.into();
        }
    };
    for list in ["patterns", "system_patterns"] {
        for pattern in report[list].as_array_mut().into_iter().flatten() {
            let count = number(&pattern["count"]);
            say(&mut pattern["latency_us"], count);
        }
    }
    let totals = &mut report["totals"];
    let [reads, writes, batches] = ["reads", "writes", "batches"].map(|key| number(&totals[key]));
    say(&mut totals["read_latency_us"], reads);
    say(&mut totals["write_latency_us"], writes + batches);
}

/// Where the traffic went, as far as keys tell it: who holds which token is on no driver's wire if it does
/// not ask for it, and an execution whose coordinator or replica one observer knows is one that the other
/// counts as not known. What takes the partitioner (the ring) is compared where a capture is read with
/// `--contact`.
fn load(load: &Value) -> Value {
    let nodes = || load["nodes"].as_array().into_iter().flatten();
    let of_nodes = |key: &str| nodes().map(|node| number(&node[key])).sum::<u64>();
    // With more nodes each partition is on several of them, or on nobody knows how many.
    let unplaced = load["unplaced"].as_object().into_iter().flatten();
    let unplaced = unplaced.map(|(_, partitions)| number(partitions)).sum::<u64>();
    let partitions = (nodes().count() <= 1).then(|| of_nodes("reads") + of_nodes("writes") + unplaced);
    json!({
        "without_keys": load["without_keys"],
        "routing": routed(&load["routing"]),
        "coordinated": of_nodes("coordinated") + number(&load["coordinator_unknown"]),
        "partitions": partitions,
    })
}

/// What rules cannot see: but for what takes the ring or the number of nodes, and without how long the observer has looked.
fn blind_spots(spots: &Value) -> Value {
    let spots = spots.as_array().into_iter().flatten();
    let of_nodes = |spot: &&Value| {
        spot["rule"] == "not-token-aware" || OF_THE_CLUSTER.iter().any(|rule| spot["rule"] == **rule)
    };
    let seen = spots.filter(|spot| !of_nodes(spot));
    let untimed = seen.map(|spot| {
        let rule = spot["rule"].as_str().unwrap_or("");
        let text = spot["text"].as_str().unwrap_or("");
        let (said, _) = text
            .split_once(" in ")
            .filter(|_| rule.starts_with("unused-"))
            .unwrap_or((text, ""));
        json!([rule, said])
    });
    untimed.collect()
}

/// Executions that touch one partition, by whomever they were coordinated.
fn routed(routing: &Value) -> Value {
    ["replica", "other", "unknown"]
        .map(|key| number(&routing[key]))
        .iter()
        .sum::<u64>()
        .into()
}

/// The busiest partitions: not of tables with more partitions than are followed at a time
/// (`cqlens_window::Heavy`), since which ones stay is told by their order, and requests of several
/// clients are in no order.
fn busiest(table: &Value) -> Value {
    const FOLLOWED: u64 = 512;
    // An estimate, with a standard error of 2.3 %.
    let all_are_followed = number(&table["distinct_partitions"]) < FOLLOWED * 9 / 10;
    if all_are_followed {
        table["top_partitions"].clone()
    } else {
        Value::Null
    }
}

/// The report as it would be from any other observer of the same traffic.
pub(crate) fn seen(report: &Value) -> Value {
    let mut report = report.clone();
    count_latencies(&mut report);
    let mut seen = stripped(&report);
    let Some(parts) = seen.as_object_mut() else {
        panic!("no report: {report}")
    };
    parts.retain(|key, _| !OF_THE_OBSERVER.contains(&key.as_str()));
    if let Some(Value::Object(coverage)) = parts.get_mut("coverage") {
        coverage.retain(|key, _| COVERAGE.contains(&key.as_str()));
    }
    unname_refused(parts);
    if let Some(Value::Array(findings)) = parts.get_mut("findings") {
        let is_told = |finding: &Value| !OF_THE_CLUSTER.iter().any(|rule| finding["rule"] == **rule);
        findings.retain(is_told);
        for finding in findings {
            if BY_TIME.iter().any(|rule| finding["rule"] == **rule) {
                keep(finding, &["rule", "id", "severity", "table", "patterns"]);
            }
            if BY_EXAMPLE.iter().any(|rule| finding["rule"] == **rule) {
                let shown = finding["suggested_cql"].as_array().map_or(0, Vec::len);
                finding["suggested_cql"] = shown.into();
            }
        }
    }
    for sequence in parts
        .get_mut("sequences")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        keep(sequence, &["kind", "tables", "patterns"]);
    }
    for table in parts
        .get_mut("tables")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        table["top_partitions"] = busiest(table);
    }
    // They are ranked by what they cost, which is time.
    for (list, keys) in [
        ("patterns", &["id"][..]),
        ("system_patterns", &["id"]),
        ("tables", &["keyspace", "table"]),
        ("findings", &["rule", "id", "patterns"]),
        ("sequences", &["kind", "tables", "patterns"]),
    ] {
        if let Some(Value::Array(list)) = parts.get_mut(list) {
            list.sort_by_key(|entry| keys.iter().map(|key| entry[key].to_string()).collect::<Vec<_>>());
        }
    }
    seen
}

/// Leaves nothing but these parts.
fn keep(value: &mut Value, names: &[&str]) {
    if let Some(parts) = value.as_object_mut() {
        parts.retain(|name, _| names.contains(&name.as_str()));
    }
}

/// Whether a table that was asked for in vain is one takes the whole schema, which a capture has not: it is
/// named or not.
fn unname_refused(parts: &mut Map<String, Value>) {
    let mut refused = Vec::new();
    for pattern in parts
        .get_mut("patterns")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if pattern["count"] == pattern["errors"] {
            refused.push(pattern["id"].clone());
            pattern["keyspace"] = Value::Null;
            pattern["table"] = Value::Null;
        }
    }
    for finding in parts
        .get_mut("findings")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let mut patterns = finding["patterns"].as_array().into_iter().flatten();
        if patterns.all(|pattern| refused.contains(pattern)) {
            for name in ["id", "keyspace", "table", "title"] {
                finding[name] = Value::Null;
            }
        }
    }
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
            let stripped = kept.filter_map(|(key, value)| {
                let value = match (key.as_str(), value) {
                    (key, value) if is_duration(key) => durations(value),
                    ("load", value) => load(value),
                    ("blind_spots", value) => blind_spots(value),
                    ("routing", value) => routed(value),
                    ("title", Value::String(title)) => Value::from(untimed(title)),
                    // One value alone is not drawn: even whether there is one depends on the clock.
                    ("chart", chart) if chart["unit"] == "micros" => return None,
                    // Those that meet in flight are compared on their own.
                    ("repeats", repeats) => repeats["retries"]
                        .as_object()
                        .filter(|all| !all.is_empty())?
                        .clone()
                        .into(),
                    _ => stripped(value),
                };
                Some((key.clone(), value))
            });
            Value::Object(stripped.collect::<Map<_, _>>())
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

/// A title without how often and how long.
fn untimed(title: &str) -> String {
    let title = without_separators(title);
    let is_rate = |part: &str| {
        let mut units = ["second", "minute", "hour", "day"].iter();
        units.any(|unit| part.trim_end().ends_with(&format!(" a {unit}")) || part.ends_with(" an hour"))
            || part.contains("times that of plain writes")
    };
    let untimed = title.split([',', ';']).filter_map(|part| {
        let counted = match part.rsplit_once(" in ") {
            Some((counted, time)) if is_time(time) => counted,
            _ => part,
        };
        let words: Vec<_> = counted.split_whitespace().collect();
        let says_nothing_else = match words[..] {
            ["once"] => true,
            [times, "times"] => times.parse::<u64>().is_ok(),
            _ => is_rate(part),
        };
        (!says_nothing_else).then_some(counted)
    });
    untimed.collect::<Vec<_>>().join(",")
}

/// `1,300 times` is one part of a title.
fn without_separators(title: &str) -> String {
    let bytes = title.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let kept = title
        .char_indices()
        .filter(|&(at, letter)| letter != ',' || !is_digit(at.checked_sub(1)) || !is_digit(Some(at + 1)));
    kept.map(|(_, letter)| letter).collect()
}

/// `21 s` or `1 min 7 s`.
fn is_time(text: &str) -> bool {
    let words: Vec<_> = text.split_whitespace().collect();
    let is_pair = |pair: &[&str]| match pair {
        [number, unit] => number.parse::<f64>().is_ok() && ["s", "min", "h", "day", "days"].contains(unit),
        _ => false,
    };
    !words.is_empty() && words.chunks(2).all(is_pair)
}

#[test]
fn titles_are_compared_without_their_times() {
    for (title, untimed) in [
        (
            "Full scan of `a.b`, 60 times in 21 s, 600 rows",
            "Full scan of `a.b`, 600 rows",
        ),
        (
            "Full scan of `a.b`, 1,300 times in 1 min 7 s",
            "Full scan of `a.b`",
        ),
        (
            "Full scan of `a.b`, 3.2 a minute; more",
            "Full scan of `a.b`, more",
        ),
        ("Reads in 3 partitions, once in 7.2 s", "Reads in 3 partitions"),
        (
            "A queue: 1,400 appended in 21 s, and each",
            "A queue: 1400 appended, and each",
        ),
    ] {
        assert_eq!(self::untimed(title), untimed);
    }
}

#[test]
fn what_is_drawn_of_durations_is_not_compared() {
    let report = |unit: &str, value: u64| {
        let chart = json!({ "label": "of each", "unit": unit, "histogram": [[value, 3], [9_000, 1]] });
        json!({ "findings": [{ "rule": "large-result", "id": "1", "chart": chart }] })
    };
    let differ = |unit| differences(&seen(&report(unit, 1_851)), &seen(&report(unit, 3_859)));
    assert_eq!(differ("micros"), Vec::<String>::new());
    assert_eq!(differ("bytes").len(), 1);
}

/// What speaks against the claim that a capture of what clients send to a proxy says what the proxy says, a
/// line for each place.
pub(crate) fn contradictions(proxy: &Value, sniffed: &Value) -> Vec<String> {
    let mut lines = differences(&seen(proxy), &seen(sniffed));
    let (fewer, more) = (met_in_flight(proxy), met_in_flight(sniffed));
    for (pattern, met) in fewer {
        let found = more.get(&pattern).copied().unwrap_or(0);
        if found < met {
            lines.push(format!(
                "{pattern}: {found} met the same one in flight, and {met} at the proxy"
            ));
        }
    }
    lines
}

/// How often an execution came while the same one was in flight, by pattern. Closer to the client a request
/// begins earlier and its answer comes later: what meets at the proxy meets there too, and more of them do.
fn met_in_flight(report: &Value) -> BTreeMap<String, u64> {
    let patterns = report["patterns"].as_array().into_iter().flatten();
    let counts = patterns.map(|pattern| {
        let id = pattern["id"].as_str().unwrap_or("");
        (id.to_owned(), number(&pattern["repeats"]["in_flight"]))
    });
    counts.collect()
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
    let (had, has) = (counts(original), counts(found));
    let all: u64 = had.values().sum();
    for (text, count) in has {
        // The statement of a prepared id may be what is missing.
        let most = if text.contains("that was not seen") {
            all
        } else {
            had.get(&text).copied().unwrap_or(0)
        };
        if count > most {
            lines.push(format!("{count} times {text}, which was there {most} times"));
        }
    }
    lines
}

/// How often each statement was executed. What its keyspace is takes what the connection said before, which
/// may be what is missing.
fn counts(report: &Value) -> BTreeMap<String, u64> {
    let lists = ["patterns", "system_patterns"].into_iter();
    let patterns = lists.filter_map(|list| report[list].as_array()).flatten();
    let mut counts = BTreeMap::new();
    for pattern in patterns {
        let text = pattern["cql"].as_str().unwrap_or("");
        *counts.entry(unqualified(text)).or_insert(0) += number(&pattern["count"]);
    }
    counts
}

/// The statement without keyspaces. Those of a batch stand in alphabetical order, keyspaces included.
fn unqualified(text: &str) -> String {
    let text = text.replace("golden.", "").replace("captured.", "");
    let Some(begin) = text.find("BATCH ").filter(|_| text.starts_with("BEGIN ")) else {
        return text;
    };
    let (begin, statements) = text.split_at(begin + "BATCH ".len());
    let mut statements: Vec<_> = statements.split("; ").collect();
    statements.sort_unstable();
    format!("{begin}{}", statements.join("; "))
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
