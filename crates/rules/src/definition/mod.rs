//! Rules on definitions: they need the schema and no traffic, so that they judge a file as well
//! ([`super::lint`]).

mod compact_storage;
mod endless_partition;
mod few_partitions;
mod gc_grace_zero;
mod many_indexes;
mod many_tables;
mod materialized_view_write;
mod replication_factor;
mod sasi_index;
mod simple_strategy;
mod time_window_settings;
mod ttl_without_windows;

use super::{About, Context, Findings, Rule, Severity, Threshold};
use cqlens_cql::schema::{Column, DataType, Keyspace, OptionValue, Table, TableName, quote};

pub(super) use compact_storage::CompactStorage;
pub(super) use endless_partition::EndlessPartition;
pub(super) use few_partitions::FewPartitions;
pub(super) use gc_grace_zero::GcGraceZero;
pub(super) use many_indexes::ManyIndexes;
pub(super) use many_tables::ManyTables;
pub(super) use materialized_view_write::MaterializedViewWrite;
pub(super) use replication_factor::ReplicationFactor;
pub(super) use sasi_index::SasiIndex;
pub(super) use simple_strategy::SimpleStrategy;
pub(super) use time_window_settings::TimeWindowSettings;
pub(super) use ttl_without_windows::TtlWithoutWindows;

/// The group of these rules.
pub(super) const GROUP: &str = "definitions";

/// The name as CQL writes it.
pub(super) fn in_cql(name: &TableName) -> String {
    format!("{}.{}", quote(&name.keyspace), quote(&name.table))
}

/// How a table compacts: the class without its package; what servers take where a definition says nothing.
pub(super) fn compaction(table: &Table) -> &str {
    let class = match table.options.get("compaction") {
        Some(OptionValue::Map(options)) => options.get("class").map(String::as_str),
        _ => None,
    };
    class.map_or(SIZE_TIERED, |class| class.rsplit('.').next().unwrap_or(class))
}

pub(super) const SIZE_TIERED: &str = "SizeTieredCompactionStrategy";

pub(super) const LEVELED: &str = "LeveledCompactionStrategy";

pub(super) const TIME_WINDOW: &str = "TimeWindowCompactionStrategy";

/// How long a time window of the table is: a day where it does not say.
pub(super) fn window_seconds(table: &Table) -> u64 {
    const DAY: u64 = 86_400;
    let option = |name: &str| match table.options.get("compaction") {
        Some(OptionValue::Map(options)) => options.get(name).map(String::as_str),
        _ => None,
    };
    let unit = match option("compaction_window_unit") {
        Some("MINUTES") => DAY / 24 / 60,
        Some("HOURS") => DAY / 24,
        _ => DAY,
    };
    let size = option("compaction_window_size").and_then(|size| size.parse().ok());
    unit.saturating_mul(size.unwrap_or(1))
}

/// Whether the rows of a partition are in the order of time.
fn is_time_series(table: &Table) -> bool {
    let first = table.clustering().first();
    first.is_some_and(|column| is_time(&column.data_type))
}

pub(super) fn is_time(data_type: &DataType) -> bool {
    ["timestamp", "timeuuid", "date"].contains(&data_type.to_string().as_str())
}

/// How many partitions there can be of keys of these columns, where their types limit them.
pub(super) fn most_partitions<'c>(columns: impl IntoIterator<Item = &'c Column>) -> Option<u64> {
    let values = |column: &Column| match column.data_type.to_string().as_str() {
        "boolean" => Some(2),
        "tinyint" => Some(256_u64),
        _ => None,
    };
    let mut columns = columns.into_iter();
    columns.try_fold(1_u64, |all, column| all.checked_mul(values(column)?))
}

/// The class of the keyspace's replication, without its package.
fn strategy(keyspace: &Keyspace) -> &str {
    let class = keyspace.replication.get("class").map_or("", String::as_str);
    class.rsplit('.').next().unwrap_or(class)
}

/// The statement that gives a keyspace what it ought to have, whichever rule finds that it has not: a strategy that knows
/// datacenters, and three replicas where there is one.
fn replicated(keyspace: &Keyspace, context: &Context<'_>) -> String {
    let data_centers = &context.cluster.data_centers;
    let several = |count: usize| if count == 1 { 3 } else { count };
    let counts: Vec<_> = match replicas(keyspace).as_slice() {
        [("", count)] if !data_centers.is_empty() => data_centers
            .keys()
            .map(|name| (name.as_str(), several(*count)))
            .collect(),
        counts => counts
            .iter()
            .map(|(name, count)| (*name, several(*count)))
            .collect(),
    };
    let counts: String = counts
        .into_iter()
        .map(|(name, count)| match name {
            "" => format!(", 'replication_factor': {count}"),
            name => format!(", '{name}': {count}"),
        })
        .collect();
    let class = match strategy(keyspace) {
        "SimpleStrategy" => "NetworkTopologyStrategy",
        class => class,
    };
    let name = &keyspace.name;
    format!(
        "ALTER KEYSPACE {} WITH replication = {{'class': '{class}'{counts}}};\n\
         -- then, on every node: nodetool repair --full {name}",
        quote(name)
    )
}

/// How many replicas each datacenter has; below an empty name those of a strategy that knows no datacenters.
fn replicas(keyspace: &Keyspace) -> Vec<(&str, usize)> {
    let counts = keyspace.replication.iter().filter(|(name, _)| *name != "class");
    let count = |text: &str| text.split('/').next()?.trim().parse().ok();
    counts
        .filter_map(|(name, text)| {
            let name = if name == "replication_factor" { "" } else { name };
            Some((name, count(text)?))
        })
        .collect()
}

#[cfg(test)]
mod testing {
    #![allow(clippy::unwrap_used)]
    use crate::{Context, Finding, Rule, testing};
    use cqlens_cql::schema::Schema;
    use cqlens_window::Cluster;

    /// What a rule finds in the definitions of a file.
    pub(super) fn in_file(rule: &dyn Rule, cql: &str) -> Vec<Finding> {
        in_cluster(rule, cql, &Cluster::default())
    }

    /// What a rule finds in the definitions of a cluster.
    pub(super) fn in_cluster(rule: &dyn Rule, cql: &str, cluster: &Cluster) -> Vec<Finding> {
        let keyspace =
            "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};";
        let text = match cql.contains("CREATE KEYSPACE") {
            true => cql.to_owned(),
            false => format!("{keyspace} {cql}"),
        };
        let schema = Schema::from_cql(&text).unwrap();
        let window = testing::window([]);
        let context = Context::new(&window, &schema, cluster).of_whole_schema();
        testing::run_in(rule, &context).findings
    }

    /// A cluster with so many nodes in each datacenter.
    pub(super) fn cluster(data_centers: &[(&str, usize)]) -> Cluster {
        let named = |&(name, nodes): &(&str, usize)| (name.to_owned(), nodes);
        Cluster {
            nodes: Some(data_centers.iter().map(|(_, nodes)| nodes).sum()),
            data_centers: data_centers.iter().map(named).collect(),
            ..Cluster::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RULES;

    #[test]
    fn what_stands_here_is_in_the_group() {
        let group = RULES.iter().filter(|rule| rule.about().group == GROUP);
        assert_eq!(group.count(), 12);
    }
}
