//! From the traffic of a table and its definition to what a report says of it.

use std::{cmp::Reverse, collections::BTreeMap};

use cqlens_cql::schema::{ColumnKind, Order, Schema, Table, TableName, is_system};

use super::numbers::{observed_tombstones, quantiles};
use crate::{
    report::{ColumnReport, ColumnRole, PatternReport, TableReport, TopPartition},
    rules::Comment,
    window::{PatternId, TableTraffic, Window},
};

/// How many of its busiest partitions a table shows.
const TOP_PARTITIONS: usize = 10;

/// The application's tables, the busiest first.
pub(super) fn tables(window: &Window, schema: &Schema, patterns: &[PatternReport]) -> Vec<TableReport> {
    let mut by_table: BTreeMap<TableName, Vec<PatternId>> = BTreeMap::new();
    for pattern in patterns {
        if let Some(name) = table_name(pattern) {
            by_table.entry(name).or_default().push(pattern.id);
        }
    }
    let of_users = window
        .tables
        .iter()
        .filter(|(name, _)| !is_system(&name.keyspace));
    let mut tables: Vec<_> = of_users
        .map(|(name, traffic)| {
            let patterns = by_table.remove(name).unwrap_or_default();
            table_report(name, traffic, patterns, schema.table(&name.keyspace, &name.table))
        })
        .collect();
    tables.sort_by_key(|table| {
        let name = (table.keyspace.clone(), table.table.clone());
        (Reverse(table.reads + table.writes), name)
    });
    tables
}

fn table_name(pattern: &PatternReport) -> Option<TableName> {
    Some(TableName {
        keyspace: pattern.keyspace.clone()?,
        table: pattern.table.clone()?,
    })
}

fn table_report(
    name: &TableName,
    traffic: &TableTraffic,
    patterns: Vec<PatternId>,
    definition: Option<&Table>,
) -> TableReport {
    let all = traffic.top_partitions.total();
    let top_partitions = traffic.top_partitions.top(TOP_PARTITIONS).into_iter();
    TableReport {
        keyspace: name.keyspace.clone(),
        table: name.table.clone(),
        reads: traffic.reads,
        writes: traffic.writes,
        read_write_ratio: (traffic.writes > 0).then(|| traffic.reads as f64 / traffic.writes as f64),
        partitions_per_read: quantiles(&traffic.partitions_per_read),
        tombstones_per_read: observed_tombstones(&traffic.tombstones),
        node_reads: traffic.node_reads,
        top_partitions: top_partitions
            .map(|(key, entry)| TopPartition {
                key: format!("#{key:016x}"),
                share: entry.at_least() as f64 / all.max(1) as f64,
                reads: entry.reads,
                writes: entry.writes,
                error: (entry.error > 0).then_some(entry.error),
            })
            .collect(),
        distinct_partitions: traffic.distinct_partitions.estimate(),
        patterns,
        columns: definition.map(columns).unwrap_or_default(),
        view_of: definition.and_then(Table::base).map(str::to_owned),
        comment: definition.map_or_else(String::new, |table| Comment::of(table).text),
    }
}

fn columns(table: &Table) -> Vec<ColumnReport> {
    let targets = || table.indexes.values().flat_map(|index| &index.targets);
    let columns = table.columns.iter();
    columns
        .map(|column| ColumnReport {
            name: column.name.clone(),
            data_type: column.data_type.to_string(),
            kind: match column.kind {
                ColumnKind::PartitionKey => ColumnRole::PartitionKey,
                ColumnKind::Clustering(Order::Ascending) => ColumnRole::ClusteringAscending,
                ColumnKind::Clustering(Order::Descending) => ColumnRole::ClusteringDescending,
                ColumnKind::Static => ColumnRole::Static,
                ColumnKind::Regular => ColumnRole::Regular,
            },
            indexed: targets().any(|target| target.column == column.name),
        })
        .collect()
}
