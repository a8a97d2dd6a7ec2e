//! Where windows and reports go: files that are replaced as a whole, folders of snapshots.

mod figures;
mod file;
mod roll_up;
mod snapshot_dir;
mod snapshot_file;
#[cfg(feature = "fleet")]
mod spool;

pub use figures::SinkFigures;
pub use file::{directory, remove_leftovers, replace, replace_while, resolve};
pub use roll_up::RollUp;
pub use snapshot_dir::{Retention, SnapshotDir};
#[cfg(feature = "fleet")]
pub(crate) use snapshot_file::part_of_name;
pub use snapshot_file::{SNAPSHOT_ENDINGS, compress, snapshots_in, write_snapshot};
#[cfg(feature = "fleet")]
pub use spool::{OpenStore, Spool, SpoolSettings};
