//! The scenarios of `tests/scenarios` that the binary carries with it.

use cqlens_node::scenario::{Scenario, ScenarioError};

/// A folder of `tests/scenarios`.
struct ScenarioSource {
    id: &'static str,
    schema: &'static str,
    traffic: &'static str,
}

// A macro, since `include_str!` takes nothing but literals.
macro_rules! sources {
    ($($id:literal,)*) => {
        &[$(ScenarioSource {
            id: $id,
            schema: include_str!(concat!("../../../tests/scenarios/", $id, "/schema.cql")),
            traffic: include_str!(concat!("../../../tests/scenarios/", $id, "/traffic.toml")),
        },)*]
    };
}

/// In the order of the tour: each model beside its alternatives.
const SOURCES: &[ScenarioSource] = sources![
    "users-two-tables",
    "users-index-tables",
    "groups-one-partition",
    "groups-giant",
    "groups-hash-prefix",
    "groups-normalised",
    "groups-normalised-updated",
    "newest-ascending",
    "newest-descending",
    "newest-by-day",
    "likes-1-relational",
    "likes-2-custom-index",
    "likes-3-denormalised",
    "likes-4-partial",
    "likes-recent",
    "lab-buckets",
    "lab-dual-write",
    "lab-batch-for-speed",
    "lab-lwt",
    "hotel",
    "lab-index",
    "lab-views",
    "hotel-overwrite",
    "time-series",
    "unpaged-read",
    "null-insert",
    "allow-filtering",
    "full-scan",
    "in-query",
    "cartesian-in",
    "multi-partition",
    "queue",
    "transactions",
    "between",
    "program-analytics",
    "program-heartbeat",
    "program-locks",
    "program-settings",
    "program-conditions",
];

/// All scenarios.
///
/// # Errors
/// None in a build that was tested.
pub(super) fn all() -> Result<Vec<Scenario>, ScenarioError> {
    SOURCES
        .iter()
        .map(|source| Scenario::parse(source.id, source.schema, source.traffic))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_folder_of_scenarios_is_carried_and_can_be_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");
        let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let folders = folders.filter(|entry| entry.path().is_dir());
        let folders: BTreeSet<_> = folders
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        let carried: BTreeSet<_> = all().unwrap().into_iter().map(|scenario| scenario.id).collect();
        assert_eq!(carried, folders);
    }
}
