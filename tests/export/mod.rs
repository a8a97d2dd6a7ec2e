//! `cqlens export`: tables that other engines merge to what cqlens says, and several snapshots as one.

mod page;
mod snapshot;
mod tables;
mod windows;

use std::path::PathBuf;

use crate::snapshots::fleet;
use windows::{Windows, differences, export, report, write};

/// The error of an export that must fail.
fn refused(sources: &[PathBuf], arguments: &[&str]) -> String {
    let output = export(sources, arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}
