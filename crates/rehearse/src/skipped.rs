//! Why a request was not sent to the other cluster, or got no response.

use std::collections::BTreeMap;

pub use cqlens_report::Skipped;

/// How many requests were left out, by reason.
pub type SkippedCounts = BTreeMap<Skipped, u64>;
