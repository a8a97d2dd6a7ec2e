//! The partitions of every request that a driver sends are counted as the server's own traces say, or the
//! report says why not.
//!
//! The program `counting.py` knows what each of its requests touches, and holds that against the traces. It
//! asks through two proxies, so that one of them executes what only the other has seen prepared. The program
//! `go/counting` does the same, through one, with what gocql sends otherwise.

mod raw;
mod without_schema;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::node;
use crate::support::driver::Driver;
use crate::support::proxy::Proxy;
use crate::support::{available, with_everything};

/// Cases that the Python program has in every version: fewer are a program that has lost some.
const CASES: usize = 100;
/// The same of the program on gocql, without values by name.
const GOCQL_CASES: usize = 45;

/// All requests of one proxy whose statements have the word `case`, or are `case`.
#[derive(Debug, Deserialize)]
struct Asked {
    proxy: String,
    case: String,
    /// Those that the server has executed, or begun to.
    requests: u64,
    refused: u64,
    /// Of all requests together; `min` and `max` of one, 0 where none has a number.
    partitions: u64,
    min: u64,
    max: u64,
    class: String,
    /// Requests that the server has executed by what is known of their partitions: `exact`, `bounded`,
    /// `scan`, `unknown`.
    coverage: BTreeMap<String, u64>,
    /// Requests that were sent while the same was unanswered.
    #[serde(default)]
    in_flight: u64,
    /// Of the requests those that failed where nobody knows.
    #[serde(default)]
    errors: u64,
    /// Reads that the requests are together, where the program says so.
    reads: Option<u64>,
}

#[test]
fn partitions_are_counted_as_the_server_does_in_version_3() {
    if with_everything("partitions of the Python driver in version 3") {
        python_is_counted_in(3);
    }
}

#[test]
fn partitions_are_counted_as_the_server_does_in_version_4() {
    if with_everything("partitions of the Python driver in version 4") {
        python_is_counted_in(4);
    }
}

#[test]
fn partitions_are_counted_as_the_server_does_in_version_5() {
    python_is_counted_in(5);
}

fn python_is_counted_in(version: u8) {
    if let Some(python) = available("the Python driver", Driver::python("counting.py")) {
        assert_counted(
            &python,
            &["a", "b"],
            version,
            &format!("counting_v{version}"),
            CASES,
        );
    }
}

#[test]
fn partitions_are_counted_as_gocql_and_the_server_do_in_version_3() {
    if with_everything("partitions of gocql in version 3") {
        gocql_is_counted_in(3);
    }
}

#[test]
fn partitions_are_counted_as_gocql_and_the_server_do_in_version_4() {
    gocql_is_counted_in(4);
}

#[test]
fn partitions_are_counted_as_gocql_and_the_server_do_in_version_5() {
    if with_everything("partitions of gocql in version 5") {
        gocql_is_counted_in(5);
    }
}

fn gocql_is_counted_in(version: u8) {
    if let Some(gocql) = available("gocql", Driver::go("counting")) {
        assert_counted(
            &gocql,
            &["a"],
            version,
            &format!("gocql_counting_v{version}"),
            GOCQL_CASES,
        );
    }
}

/// Runs the program with the node's address, those of the proxies, the version and the keyspace, and holds
/// what it says of at least so many cases against the reports of the proxies.
fn assert_counted(program: &Driver, proxies: &[&str], version: u8, keyspace: &str, cases: usize) {
    let Some(node) = node() else { return };
    let folder = tempfile::tempdir().unwrap();
    let proxies: Vec<(&str, Proxy, PathBuf)> = proxies
        .iter()
        .map(|&name| {
            let report_file = folder.path().join(format!("{name}.json"));
            let options = ["--window", "3600s", "--report", report_file.to_str().unwrap()];
            let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &options);
            (name, proxy, report_file)
        })
        .collect();
    let mut arguments = vec![node.address().ip().to_string(), node.address().port().to_string()];
    for (_, proxy, _) in &proxies {
        arguments.extend([proxy.address.ip().to_string(), proxy.address.port().to_string()]);
    }
    arguments.extend([version.to_string(), keyspace.to_owned()]);
    let asked = asked(&program.run_with(arguments));
    let found: BTreeSet<&str> = asked.iter().map(|asked| asked.case.as_str()).collect();
    assert!(found.len() >= cases, "{} cases: {found:?}", found.len());
    for (name, proxy, report_file) in proxies {
        let ended = proxy.stop(Duration::from_secs(300));
        assert_eq!(ended.code, 0, "{}", ended.log);
        let report: Value = serde_json::from_slice(&std::fs::read(report_file).unwrap()).unwrap();
        let asked: Vec<&Asked> = asked.iter().filter(|asked| asked.proxy == name).collect();
        assert!(!asked.is_empty(), "nothing was asked through {name}");
        let disagreements = disagreements(&report, keyspace, &asked);
        assert!(
            disagreements.is_empty(),
            "version {version}, proxy {name}:\n{}",
            disagreements.join("\n")
        );
        assert_covered(&report, &asked);
    }
}

fn asked(output: &[String]) -> Vec<Asked> {
    output
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|mut line| serde_json::from_value(line["asked"].take()).unwrap())
        .collect()
}

/// What the report says otherwise than the program, and patterns that no case has asked for.
fn disagreements(report: &Value, keyspace: &str, asked: &[&Asked]) -> Vec<String> {
    let patterns: Vec<&Value> = report["patterns"].as_array().into_iter().flatten().collect();
    // Definitions and USE are no case; what the driver reads for itself is of another keyspace.
    let patterns = patterns
        .into_iter()
        .filter(|pattern| {
            pattern["keyspace"]
                .as_str()
                .is_none_or(|of| of.starts_with(keyspace))
        })
        .filter(|pattern| pattern["kind"] != "ddl" && !text(pattern).starts_with("USE "));
    let mut unclaimed: Vec<&Value> = patterns.collect();
    let mut disagreements = Vec::new();
    for asked in asked {
        let (found, rest) = unclaimed
            .into_iter()
            .partition::<Vec<_>, _>(|pattern| is_of(&asked.case, text(pattern)));
        unclaimed = rest;
        match found[..] {
            [pattern]
                if reported(pattern) == expected(asked)
                    && asked.reads.is_none_or(|reads| pattern["logical_reads"] == reads) => {}
            _ => disagreements.push(format!(
                "{asked:?}\n  expected {}, the report has {:?}",
                expected(asked),
                found
                    .iter()
                    .map(|pattern| (text(pattern), reported(pattern)))
                    .collect::<Vec<_>>()
            )),
        }
    }
    disagreements.extend(unclaimed.iter().map(|pattern| format!("of no case: {pattern}")));
    disagreements
}

fn text(pattern: &Value) -> &str {
    pattern["cql"].as_str().unwrap_or_default()
}

/// Whether the statement is the case, or has it as a word.
fn is_of(case: &str, cql: &str) -> bool {
    let mut words = cql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    case == cql || words.any(|word| word == case)
}

fn expected(asked: &Asked) -> Value {
    serde_json::json!({
        "count": asked.requests + asked.refused,
        "errors": asked.refused + asked.errors,
        "total": asked.partitions,
        "min": asked.min,
        "max": asked.max,
        "class": asked.class,
        "in_flight": asked.in_flight,
    })
}

fn reported(pattern: &Value) -> Value {
    let partitions = &pattern["partitions"];
    serde_json::json!({
        "count": pattern["count"],
        "errors": pattern["errors"],
        "total": partitions["total"],
        "min": partitions["min"],
        "max": partitions["max"],
        "class": partitions["class"],
        "in_flight": pattern["repeats"]["in_flight"].as_u64().unwrap_or_default(),
    })
}

/// Nothing was missed, and every execution is known as well as it can be.
fn assert_covered(report: &Value, asked: &[&Asked]) {
    let coverage = &report["coverage"];
    assert_eq!(coverage["requests"], coverage["audited"], "{coverage}");
    for missed in ["dropped", "undecoded", "responses_lost", "unanswered", "unparsed"] {
        assert_eq!(coverage[missed], 0, "{missed}: {coverage}");
    }
    let refused: u64 = asked.iter().map(|asked| asked.refused).sum();
    assert_eq!(coverage["refused"], refused, "{coverage}");
    for kind in ["exact", "bounded", "scan", "unknown"] {
        let expected: u64 = asked.iter().filter_map(|asked| asked.coverage.get(kind)).sum();
        assert_eq!(
            coverage[format!("partitions_{kind}")],
            expected,
            "{kind}: {coverage}"
        );
    }
}
