//! Tombstones of which the server says nothing by itself are in the report where some reads are asked again
//! with tracing, and where the nodes are asked what they count.

use std::time::Duration;

use cqlens_client::{Bind, Client, ClientOptions, Run, RunOptions};
use cqlens_proto::envelope::Version;
use serde_json::Value;

use crate::node;
use crate::support::proxy::Proxy;

/// Fewer than the node warns of.
const DELETED: usize = 7;

#[test]
fn traces_of_some_reads_tell_tombstones_that_the_server_does_not_warn_of() {
    let Some(node) = node() else { return };
    let folder = tempfile::tempdir().unwrap();
    let report_file = folder.path().join("report.json");
    let report = report_file.to_str().unwrap();
    let options = [
        "--window",
        "3600s",
        "--report",
        report,
        "--trace-sample",
        "20",
        "--poll-system-views",
        "1s",
    ];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &options);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.unwrap();
    for version in [Version::V4, Version::V5] {
        runtime.block_on(read(&proxy, version));
    }
    let ended = proxy.stop(Duration::from_secs(300));
    assert_eq!(ended.code, 0, "{}", ended.log);
    for complaint in ["could not be traced", "does not report its reads"] {
        assert!(!ended.log.contains(complaint), "{}", ended.log);
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();
    for table in ["v4", "v5"] {
        let patterns = report["patterns"].as_array().unwrap().iter();
        let reads = patterns.filter(|pattern| {
            pattern["keyspace"] == "trace_sample" && pattern["table"] == table && pattern["kind"] == "select"
        });
        let reads: Vec<_> = reads.collect();
        assert_eq!(reads.len(), 2, "{report:#}");
        for read in reads {
            // What is asked again is no request of a client's.
            assert_eq!(read["count"], 40, "{read:#}");
            let tombstones = &read["tombstones"];
            assert!(tombstones["observed"].as_u64().unwrap() >= 2, "{read:#}");
            assert_eq!(tombstones["max"], DELETED, "{read:#}");
        }
        let mut tables = report["tables"].as_array().unwrap().iter();
        let read = tables
            .find(|of| of["keyspace"] == "trace_sample" && of["table"] == table)
            .unwrap();
        let counted = &read["node_reads"];
        assert!(counted["largest_partition_mib"].is_u64(), "{counted}");
        // In buckets that are a fifth apart.
        for (name, passed) in [("tombstones_max", DELETED), ("rows_max", 20 - DELETED)] {
            let count = usize::try_from(counted[name].as_u64().unwrap()).unwrap();
            assert!(
                (passed..=passed + passed / 4 + 1).contains(&count),
                "{name}: {read:#}"
            );
        }
    }
}

/// Rows, of which some are deleted, read by a prepared statement and by text, with unqualified names.
async fn read(proxy: &Proxy, version: Version) {
    let options = ClientOptions {
        version,
        timeout: Duration::from_secs(120),
        ..ClientOptions::default()
    };
    let mut client = Client::connect(proxy.address, &options).await.unwrap();
    let table = if version == Version::V4 { "v4" } else { "v5" };
    client
        .script(&format!(
            "CREATE KEYSPACE IF NOT EXISTS trace_sample WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
             USE trace_sample; CREATE TABLE {table} (k int, c int, PRIMARY KEY (k, c))"
        ))
        .await
        .unwrap();
    for c in 0..20 {
        client
            .query(&format!("INSERT INTO {table} (k, c) VALUES (1, {c})"))
            .await
            .unwrap();
    }
    for c in 0..DELETED {
        client
            .query(&format!("DELETE FROM {table} WHERE k = 1 AND c = {c}"))
            .await
            .unwrap();
    }
    let text = format!("SELECT * FROM {table} WHERE k = 1");
    let prepared = client
        .prepare(&format!("SELECT c FROM {table} WHERE k = ?"))
        .await
        .unwrap();
    for _ in 0..40 {
        client.query(&text).await.unwrap();
        let key = [Bind::int(1)];
        let answer = client
            .run(Run::Prepared(&prepared, &key), &RunOptions::default())
            .await
            .unwrap();
        assert_eq!(answer.rows.len(), 20 - DELETED);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
