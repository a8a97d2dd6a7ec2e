//! How a rehearsal goes, and what is known of the first cluster.

use std::time::Duration;

use cqlens_capture::memory::Part;

use crate::{budget::separate, compare::ExcludedColumns, gate::Permissions, target::Target};

/// How a rehearsal goes.
#[derive(Debug, Clone)]
pub struct RehearsalSettings {
    /// What may be sent.
    pub permissions: Permissions,
    /// Columns that are not compared.
    pub excluded: ExcludedColumns,
    /// How long after a difference both are asked again; each further time after twice as long.
    pub ask_again_after: Duration,
    /// The share of reads of which the first cluster is asked twice, from 0 to 1.
    pub noise_share: f64,
    /// For how long writes that were not sent make reads of their table incomparable, where the first cluster
    /// cannot be asked again; none means for ever.
    pub unsent_writes_count_for: Option<Duration>,
    /// What may be kept.
    pub memory: Part,
}

impl Default for RehearsalSettings {
    fn default() -> Self {
        Self {
            permissions: Permissions::default(),
            excluded: ExcludedColumns::new(),
            ask_again_after: Duration::from_secs(1),
            noise_share: 0.0,
            unsent_writes_count_for: None,
            memory: separate(),
        }
    }
}

/// The first cluster, where it can be asked.
#[derive(Debug)]
pub enum First {
    /// Only what was recorded of it is known.
    Recorded,
    /// It has answered, and may be asked again.
    CanRepeat(Target),
    /// It is asked the same at the same time: what was recorded does not count.
    Beside(Target),
}
