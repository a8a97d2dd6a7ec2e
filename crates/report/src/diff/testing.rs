//! Reports to compare.
#![allow(clippy::unwrap_used)]

use serde_json::Value;

use super::{ReadReport, ReportDiff};
use crate::{Format, Report, testing};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::Flag,
    schema::{Schema, TableName},
};
use cqlens_rules::testing::{read, window};
use cqlens_window::TableTraffic;

/// A filtering read of `table`, so many times in an hour.
pub(super) fn scan(table: &str, times: u64) -> Value {
    let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
    let cql = format!("SELECT * FROM shop.{table} WHERE a = ? ALLOW FILTERING");
    let mut window = window([read(&cql, &flags, PartitionClass::Scan, times)]);
    let name = TableName {
        keyspace: "shop".to_owned(),
        table: table.to_owned(),
    };
    let reads = TableTraffic {
        reads: times,
        ..TableTraffic::default()
    };
    window.tables.insert(name, reads);
    let (schema, errors) = Schema::read_cql(&format!(
        "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': 3}};
         CREATE TABLE shop.{table} (id int PRIMARY KEY, a int);"
    ));
    assert!(errors.is_empty(), "{errors:?}");
    // Windows of tests number their patterns: here each statement has an id of its own.
    let id = format!("{:0>16x}", table.len());
    let report = json(&testing::under(&window, &schema)).to_string();
    serde_json::from_str(&report.replace("0000000000000001", &id)).unwrap()
}

/// The JSON form.
pub(super) fn json(report: &Report) -> Value {
    let mut json = Vec::new();
    report.render(Format::Json, &mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

pub(super) fn between(base: &Value, new: &Value) -> ReportDiff {
    let [base, new] = [base, new].map(|report| ReadReport::read(report.to_string().as_bytes()).unwrap());
    ReportDiff::between(&base, &new).unwrap()
}
