//! Several snapshots as one.

use std::fs;

use crate::export::{Windows, differences, export, refused, report, windows::said};

#[test]
fn a_report_of_merged_days_is_the_report_of_their_windows() {
    let windows = Windows::new();
    let merged = windows.path("merged");
    fs::create_dir(&merged).unwrap();
    for day in ["2026-01-01", "2026-01-02"] {
        let sources: Vec<_> = windows
            .folders()
            .into_iter()
            .filter(|folder| folder.to_string_lossy().contains(day))
            .collect();
        let file = merged.join(format!("{day}.cqlens.json.gz"));
        let exported = export(&sources, &["--snapshot", file.to_str().unwrap()]);
        assert!(exported.status.success(), "{exported:?}");
    }
    let (of_days, of_windows) = (said(report(&[merged])), said(report(&windows.folders())));
    assert_eq!(of_windows["window"]["sources"].as_array().unwrap().len(), 3);
    let mut found = Vec::new();
    differences("report", &of_days, &of_windows, &mut found);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_name_that_no_report_finds_and_no_form_at_all_are_refused() {
    let windows = Windows::new();
    let error = refused(&windows.folders(), &["--snapshot", "merged.json"]);
    assert!(
        error.contains("must end in .cqlens.json.gz or .cqlens.json"),
        "{error}"
    );
    let error = refused(&windows.folders(), &[]);
    assert!(error.contains("--snapshot"), "{error}");
    let error = refused(
        &windows.folders(),
        &["--snapshot", "/no/such/folder/m.cqlens.json"],
    );
    assert!(
        error.contains("cannot write /no/such/folder/m.cqlens.json"),
        "{error}"
    );
}
