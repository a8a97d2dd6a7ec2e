//! Cassandra's own keyspaces.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::model::{Keyspace, Schema};

/// The keyspaces that Cassandra, ScyllaDB and DSE keep for themselves.
const SYSTEM: &[&str] = &[
    "system",
    "system_schema",
    "system_auth",
    "system_distributed",
    "system_traces",
    "system_views",
    "system_virtual_schema",
    "system_distributed_everywhere",
    "system_replicated_keys",
    "system_backups",
    "system_cluster_metadata",
    "dse_system",
    "dse_system_local",
    "dse_security",
    "dse_leases",
    "dse_perf",
    "dse_insights",
    "dse_insights_local",
    "dse_analytics",
    "solr_admin",
    "data_endpoint_auth",
    "datastax_sla",
];

/// Whether a keyspace is the server's own.
pub fn is_system(keyspace: &str) -> bool {
    SYSTEM.contains(&keyspace)
}

/// Whether a keyspace's tables exist only in the memory of the node that answers: system_views and its
/// schema.
pub fn is_virtual(keyspace: &str) -> bool {
    matches!(keyspace, "system_views" | "system_virtual_schema")
}

/// Definitions of the server's own tables, for statements on them where no schema was read.
pub(super) fn keyspaces() -> &'static BTreeMap<String, Keyspace> {
    static KEYSPACES: LazyLock<BTreeMap<String, Keyspace>> = LazyLock::new(|| {
        let (schema, _) = Schema::read_cql(include_str!("system.cql"));
        schema.keyspaces
    });
    &KEYSPACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_definitions_have_no_error() {
        let (schema, errors) = Schema::read_cql(include_str!("system.cql"));
        assert_eq!(errors.first, []);
        assert!(schema.keyspaces.keys().all(|name| is_system(name)));
    }
}
