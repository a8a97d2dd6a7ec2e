//! Nodes that do not have the same schema.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::sketch::meter;

/// The longest time in a window for which nodes had different versions of the schema, as `system.local` and
/// `system.peers` of one of them tell. A node that is down has the version there that it had last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongestDisagreement {
    /// From when it was seen to when it was seen last.
    pub seconds: u64,
    /// The nodes of each version, as it was seen last.
    #[serde(deserialize_with = "meter::nested")]
    pub versions: BTreeMap<String, Vec<String>>,
}
