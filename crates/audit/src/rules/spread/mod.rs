//! Rules on how data and load are spread over partitions.

mod hot_partition;

use super::{About, Finding, Findings, Rule, Severity, Threshold, figures};

pub(super) use hot_partition::HotPartition;

/// The group of these rules.
const GROUP: &str = "spread";
