//! The files of an export: where they are, and that there is all of it or nothing.

use std::{fs, path::Path};

use crate::export::{Windows, export, fleet, refused, write};

/// All files below a folder, by their paths in it.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(folder).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn each_table_has_a_folder_for_each_cluster_and_day() {
    let windows = Windows::new();
    let tables = windows.path("tables");
    let exported = export(&windows.folders(), &["--parquet", tables.to_str().unwrap()]);
    assert!(exported.status.success(), "{exported:?}");
    let mut expected = Vec::new();
    for table in ["clients", "patterns", "tables", "windows"] {
        for day in ["2026-01-01", "2026-01-02"] {
            expected.push(format!("{table}/cluster=production/day={day}/part-0.parquet"));
        }
    }
    assert_eq!(files(&tables), expected);
    for file in &expected {
        let bytes = fs::read(tables.join(file)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{file}");
        assert!(
            String::from_utf8_lossy(&bytes).contains("cqlens.parquet.v1"),
            "{file}"
        );
    }
}

#[test]
fn another_day_is_added_and_no_day_twice() {
    let windows = Windows::new();
    let tables = windows.path("tables");
    let into = ["--parquet", tables.to_str().unwrap()];
    let first = [&into[..], &["--until", "2026-01-02"]].concat();
    assert!(export(&windows.folders(), &first).status.success());
    let before = files(&tables);
    assert_eq!(before.len(), 4);
    let error = refused(&windows.folders(), &into);
    assert!(error.contains("day=2026-01-01 is there already"), "{error}");
    assert_eq!(files(&tables), before, "nothing is left of it");
    let second = [&into[..], &["--since", "2026-01-02"]].concat();
    assert!(export(&windows.folders(), &second).status.success());
    assert_eq!(files(&tables).len(), 8);
}

#[test]
fn names_of_clusters_cannot_leave_the_folder() {
    let windows = Windows::new();
    let mut snapshot = fleet::snapshot("a", 0, 1);
    snapshot.cluster.name = Some("../prod=1 /x".to_owned());
    let named = windows.path("named.cqlens.json");
    write(&snapshot, &named);
    snapshot.cluster.name = None;
    let unnamed = windows.path("unnamed.cqlens.json");
    write(&snapshot, &unnamed);
    for (file, folder) in [
        (named, "cluster=..%2Fprod%3D1%20%2Fx"),
        (unnamed, "cluster=__HIVE_DEFAULT_PARTITION__"),
    ] {
        let tables = windows.path("tables");
        let exported = export(&[file], &["--parquet", tables.to_str().unwrap()]);
        assert!(exported.status.success(), "{exported:?}");
        let expected = format!("windows/{folder}/day=2026-01-01/part-0.parquet");
        assert!(files(&tables).contains(&expected), "{:?}", files(&tables));
        assert!(
            files(&windows.path(""))
                .iter()
                .all(|file| !file.starts_with("prod"))
        );
    }
}

#[test]
fn what_cannot_be_exported_leaves_nothing() {
    let windows = Windows::new();
    let mut other = fleet::snapshot("b", 60 * 40, 1);
    other.cluster.name = Some("staging".to_owned());
    let other_file = windows.path("other.cqlens.json");
    write(&other, &other_file);
    let sources = [windows.folders(), vec![other_file]].concat();
    let tables = windows.path("tables");
    let error = refused(&sources, &["--parquet", tables.to_str().unwrap()]);
    assert!(error.contains("report them separately"), "{error}");
    assert_eq!(files(&tables), Vec::<String>::new());
    // One cluster of several.
    let one = export(
        &sources,
        &["--parquet", tables.to_str().unwrap(), "--cluster", "staging"],
    );
    assert!(one.status.success(), "{one:?}");
    assert_eq!(files(&tables).len(), 4);
    let error = refused(&windows.folders(), &["--parquet", "/dev/null/tables"]);
    assert!(error.contains("cannot write tables"), "{error}");
}
