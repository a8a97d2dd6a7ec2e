//! What the jobs of `examples/spark` have made, beside what cqlens says of the same windows.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

/// The rows of a table that a job has written, by the value of a column.
fn rows(folder: &Path, key: impl Fn(&Value) -> String) -> BTreeMap<String, Value> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let written = files.filter(|file| file.extension().is_some_and(|extension| extension == "json"));
    let text: String = written.map(|file| fs::read_to_string(file).unwrap()).collect();
    let rows = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| (key(&row), row)).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// What both have, with numbers that are off by less than a part.
fn assert_near(row: &Value, column: &str, reported: &Value, part: f64) {
    let (merged, reported) = (row[column].as_f64().unwrap(), reported.as_f64().unwrap());
    assert!(
        (merged - reported).abs() <= reported * part,
        "{column}: {merged} is not {reported}: {row}"
    );
}

/// That the tables of a job have the numbers of a report.
pub(crate) fn assert_is_merged(merged: &Path, report: &Value, cluster: &str) {
    let statements = rows(&merged.join("statements"), |row| text(&row["pattern"]));
    let patterns = report["patterns"].as_array().unwrap();
    assert_eq!(statements.len(), patterns.len());
    for pattern in patterns {
        let row = &statements[pattern["id"].as_str().unwrap()];
        for column in ["cql", "keyspace", "table", "kind", "count", "errors"] {
            assert_eq!(row[column], pattern[column], "{row}");
        }
        assert_eq!(row["cluster"], cluster);
        let latency = &pattern["latency_us"];
        assert_near(row, "latency_us_mean", &latency["mean"], 1e-9);
        assert_near(row, "latency_us_max", &latency["max"], 0.0);
        assert_near(row, "latency_us_p50", &latency["p50"], 0.01);
        assert_near(row, "latency_us_p99", &latency["p99"], 0.01);
    }

    let of_tables = rows(&merged.join("tables"), |row| {
        format!("{}.{}", text(&row["keyspace"]), text(&row["table"]))
    });
    let reported = report["tables"].as_array().unwrap();
    assert_eq!(of_tables.len(), reported.len());
    for table in reported {
        let name = format!("{}.{}", text(&table["keyspace"]), text(&table["table"]));
        let row = &of_tables[&name];
        for column in ["reads", "writes", "distinct_partitions"] {
            assert_eq!(row[column], table[column], "{row}");
        }
    }

    let applications = rows(&merged.join("applications"), |row| text(&row["application"]));
    let reported = report["applications"].as_array().unwrap();
    assert_eq!(applications.len(), reported.len());
    for application in reported {
        let row = &applications[application["name"].as_str().unwrap()];
        assert_eq!(row["requests"], application["requests"], "{row}");
    }
}
