//! The jobs of `examples/spark` on a local master: the numbers of `cqlens report`, on the same windows.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use cqlens_testing::{Missing, available, program, tools, workspace};
use serde_json::Value;

use crate::{PROGRAM, Windows, differences, export, report, snapshot::said};

const PACKAGE: &str = "pyspark==4.0.1";

/// Runs a job to its end.
fn submit(job: &str, arguments: &[&Path]) -> Result<(), Missing> {
    program("java")?;
    let python = tools::of_python(PACKAGE, "python")?;
    let programs = Path::new(PROGRAM).parent().unwrap().display().to_string();
    let options = "--master local[2] --driver-memory 1g --conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 \
         --conf spark.driver.bindAddress=127.0.0.1 --conf spark.sql.shuffle.partitions=4 pyspark-shell";
    let mut spark = Command::new(&python);
    spark
        .arg(workspace().join("examples/spark").join(job))
        .args(arguments)
        .env("PYSPARK_SUBMIT_ARGS", options)
        .env("PYSPARK_PYTHON", &python)
        .env("SPARK_LOCAL_IP", "127.0.0.1")
        .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()));
    let output = spark.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{job}: {said}");
    Ok(())
}

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

#[test]
fn spark_merges_tables_to_what_the_report_says() {
    let windows = Windows::new();
    let (tables, merged) = (windows.path("tables"), windows.path("merged"));
    let exported = export(&windows.folders(), &["--parquet", tables.to_str().unwrap()]);
    assert!(exported.status.success(), "{exported:?}");
    let submitted = submit("fleet_tables.py", &[&tables, &merged]);
    if available("Spark", submitted).is_none() {
        return;
    }
    let report = report(&windows.folders());

    let statements = rows(&merged.join("statements"), |row| text(&row["pattern"]));
    let patterns = report["patterns"].as_array().unwrap();
    assert_eq!(statements.len(), patterns.len());
    for pattern in patterns {
        let row = &statements[pattern["id"].as_str().unwrap()];
        for column in ["cql", "keyspace", "table", "kind", "count", "errors"] {
            assert_eq!(row[column], pattern[column], "{row}");
        }
        assert_eq!(row["cluster"], "production");
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

#[test]
fn spark_has_cqlens_merge_days_to_what_the_report_finds() {
    let windows = Windows::new();
    let merged = windows.path("merged");
    let submitted = submit("merge_windows.py", &[&windows.path("snapshots"), &merged]);
    if available("Spark", submitted).is_none() {
        return;
    }
    assert_eq!(fs::read_dir(&merged).unwrap().count(), 2);
    let (of_days, of_windows) = (said(report(&[merged])), said(report(&windows.folders())));
    assert!(!of_windows["findings"].as_array().unwrap().is_empty());
    let mut found = Vec::new();
    differences("report", &of_days, &of_windows, &mut found);
    assert!(found.is_empty(), "{found:#?}");
}
