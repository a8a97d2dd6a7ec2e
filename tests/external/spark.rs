//! The jobs of `examples/spark` on a local master: the numbers of `cqlens report`, on the same windows.

use std::fs;

use cqlens_testing::{available, spark};

use crate::{
    merged::assert_is_merged,
    windows::{PROGRAM, Windows, differences, export, report, said},
};

#[test]
fn spark_merges_tables_to_what_the_report_says() {
    let windows = Windows::new();
    let (tables, merged) = (windows.path("tables"), windows.path("merged"));
    let exported = export(&windows.folders(), &["--parquet", tables.to_str().unwrap()]);
    assert!(exported.status.success(), "{exported:?}");
    let submitted = spark::submit(PROGRAM, "fleet_tables.py", &[&tables, &merged]);
    if available("Spark", submitted).is_none() {
        return;
    }
    let report = report(&windows.folders());

    assert_is_merged(&merged, &report, "production");
}

#[test]
fn spark_has_cqlens_merge_days_to_what_the_report_finds() {
    let windows = Windows::new();
    let merged = windows.path("merged");
    let submitted = spark::submit(
        PROGRAM,
        "merge_windows.py",
        &[&windows.path("snapshots"), &merged],
    );
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
