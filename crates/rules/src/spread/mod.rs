//! Rules on how data and load are spread over partitions.

mod growth;
mod hot_partition;
mod large_partition;
mod limits;
mod uneven_token_load;

use super::{About, Finding, Findings, Rule, Severity, Threshold, figures};

pub(super) use hot_partition::HotPartition;
pub(super) use large_partition::LargePartition;
pub(super) use uneven_token_load::UnevenTokenLoad;

/// The group of these rules.
const GROUP: &str = "spread";
