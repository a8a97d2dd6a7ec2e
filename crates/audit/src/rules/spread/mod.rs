//! Rules on how data and load are spread over partitions.

mod growth;
mod hot_partition;
mod large_partition;

use super::{About, Finding, Findings, Rule, Severity, Threshold, figures};

pub(super) use hot_partition::HotPartition;
pub(super) use large_partition::LargePartition;

/// The group of these rules.
const GROUP: &str = "spread";
