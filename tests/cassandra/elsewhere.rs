//! What a real driver asks of a real node, as it arrives elsewhere: at an OpenTelemetry collector, and merged by Spark.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    merged::assert_is_merged,
    node,
    receiver::{Collector, attribute},
    support::{
        available,
        driver::{Compression, Driver, Session},
        proxy::Proxy,
        spark, with_everything,
    },
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");
const LIMIT: Duration = Duration::from_secs(300);

fn json(arguments: &[&str]) -> Value {
    let output = std::process::Command::new(PROGRAM)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

#[test]
fn a_collector_and_spark_have_what_the_report_has_of_a_driver() {
    let Some(node) = node() else { return };
    let Some(python) = available("the Python driver", Driver::python("driver.py")) else {
        return;
    };
    let mut collector = Collector::new();
    if available("an OpenTelemetry collector", collector.start()).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (snapshots, tables, merged) = (path("snapshots"), path("tables"), folder.path().join("merged"));
    let url = collector.url();
    let arguments = [
        "--window",
        "1s",
        "--snapshot-dir",
        &snapshots,
        "--otlp",
        &url,
        "--otlp-every",
        "500ms",
    ];
    let proxy = Proxy::start(PROGRAM, node.address(), &arguments);
    let session = Session {
        keyspace: "elsewhere".to_owned(),
        ..Session::new(None, Compression::None)
    };
    python.run(proxy.address, &session);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);

    let report = json(&["report", &snapshots, "--format", "json"]);
    let patterns = report["patterns"].as_array().unwrap();
    let of_keyspace = patterns
        .iter()
        .filter(|pattern| pattern["keyspace"] == "elsewhere");
    let requests: u64 = of_keyspace
        .map(|pattern| pattern["count"].as_u64().unwrap())
        .sum();
    assert!(requests > 100, "{requests}");
    let series = format!(
        "cqlens_keyspace_requests_total{{instance=\"{}\",",
        report["window"]["sources"][0].as_str().unwrap()
    );
    let begun = Instant::now();
    let told = loop {
        let exposed = collector.exposed();
        let of_keyspace = exposed
            .lines()
            .find(|line| line.starts_with(&series) && line.contains("keyspace=\"elsewhere\""));
        let value = of_keyspace.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        if value == Some(requests) || begun.elapsed() > LIMIT {
            break value;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(told, Some(requests), "{series}\n{}", collector.exposed());
    let findings = collector.findings();
    let filters = findings
        .iter()
        .find(|found| attribute(found, "cqlens.rule") == Some("allow-filtering"));
    assert_eq!(attribute(filters.unwrap(), "db.namespace"), Some("elsewhere"));

    if !with_everything("what a driver asked for, merged by Spark") {
        return;
    }
    json(&["export", &snapshots, "--parquet", &tables]);
    let submitted = spark::submit(PROGRAM, "fleet_tables.py", &[tables.as_ref(), &merged]);
    if available("Spark", submitted).is_some() {
        let cluster = report["cluster"]["name"].as_str().unwrap();
        assert_is_merged(&merged, &report, cluster);
        assert_eq!(fs::read_dir(&merged).unwrap().count(), 3);
    }
}
