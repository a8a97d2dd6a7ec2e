//! Where windows and reports go: files that are replaced as a whole, folders of snapshots.

mod file;
mod snapshot_dir;

pub use file::{directory, remove_leftovers, replace};
pub use snapshot_dir::{Retention, SNAPSHOT_ENDINGS, SnapshotDir};
