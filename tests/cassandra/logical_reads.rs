//! What a driver reads in many requests is in the report what it is to the program: so many reads, pages,
//! rows, one sweep.

use std::time::Duration;

use serde_json::{Value, json};

use crate::node;
use crate::support::available;
use crate::support::driver::Driver;
use crate::support::proxy::Proxy;

#[test]
fn pages_sweeps_and_repetitions_are_what_the_program_asked_for() {
    let Some(python) = available("the Python driver", Driver::python("logical_reads.py")) else {
        return;
    };
    let Some(node) = node() else { return };
    let folder = tempfile::tempdir().unwrap();
    let report_file = folder.path().join("report.json");
    let options = ["--window", "3600s", "--report", report_file.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &options);
    let arguments = vec![proxy.address.ip().to_string(), proxy.address.port().to_string()];
    let asked = python.run_with(arguments);
    let ended = proxy.stop(Duration::from_secs(300));
    assert_eq!(ended.code, 0, "{}", ended.log);
    let asked: Value = serde_json::from_str(&asked[0]).unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();

    let paged = select(&report, "paged");
    let expected = &asked["paged"];
    assert_eq!(paged["count"], expected["requests"], "{paged}");
    assert_eq!(paged["logical_reads"], expected["reads"], "{paged}");
    let reads = &paged["per_read"];
    assert_eq!(reads["pages"]["max"], expected["pages"], "{paged}");
    assert_eq!(reads["rows"]["max"], expected["rows"], "{paged}");
    assert_eq!((&reads["reads"], &reads["abandoned"]), (&json!(2), &json!(1)));
    assert_eq!(reads["unlinked_pages"], 0);
    assert_scanned(paged, expected);
    assert_eq!(
        paged["scanned"]["partitions_per_read"]["max"], expected["partitions"],
        "{paged}"
    );

    let swept = select(&report, "swept");
    let expected = &asked["swept"];
    assert_eq!(
        swept["token_ranges"],
        json!({"ring_share": 1.0, "sweeps": 1, "sweep_reads": expected["requests"]}),
        "{swept}"
    );
    assert_eq!(swept["rows"]["total"], expected["rows"], "{swept}");
    assert_scanned(swept, expected);

    let altered = select(&report, "altered");
    assert_eq!(
        altered["repeats"],
        json!({"in_flight": 0, "retries": {"unprepared": 1}}),
        "{altered}"
    );
    assert_eq!(
        altered["logical_reads"], asked["altered"]["answered"],
        "{altered}"
    );
}

fn select<'a>(report: &'a Value, table: &str) -> &'a Value {
    let patterns = report["patterns"].as_array().unwrap();
    let found: Vec<_> = patterns
        .iter()
        .filter(|pattern| pattern["keyspace"] == "logical_reads" && pattern["table"] == table)
        .filter(|pattern| pattern["kind"] == "select")
        .collect();
    assert_eq!(found.len(), 1, "{patterns:#?}");
    found[0]
}

/// The driver leaves out the columns of rows: they are those of PREPARED.
fn assert_scanned(pattern: &Value, expected: &Value) {
    let scanned = &pattern["scanned"];
    assert_eq!(
        scanned["distinct_partitions"], expected["partitions"],
        "{pattern}"
    );
    assert_eq!(scanned["answers_without_keys"], 0, "{pattern}");
}
