//! From the traffic of a table and its definition to what a report says of it.

use std::{cmp::Reverse, collections::BTreeMap};

use cqlens_cql::schema::{ColumnKind, ColumnName, DataType, Order, Schema, Table, TableName, is_system};

use super::numbers::{observed_tombstones, quantiles};
use crate::{ColumnReport, ColumnRole, PartitionWeight, PatternReport, TableReport, TopPartition};
use cqlens_rules::Comment;
use cqlens_window::{PatternId, TableTraffic, Weights, Window};

/// How many of its busiest partitions a table shows.
const TOP_PARTITIONS: usize = 10;

/// How many of those with most rows or bytes it shows beside them.
const TOP_BY_WEIGHT: usize = 3;

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
            let definition = schema.table(&name.keyspace, &name.table);
            let columns = definition.map(|table| columns(table, name, window));
            table_report(name, traffic, patterns, definition, columns.unwrap_or_default())
        })
        .collect();
    tables.sort_by_key(|table| {
        let name = (table.keyspace.clone(), table.table.clone());
        (Reverse(table.reads + table.writes), name)
    });
    tables
}

fn is_user_defined(data_type: &DataType) -> bool {
    match data_type {
        DataType::Frozen(inner) => is_user_defined(inner),
        DataType::UserDefined(_) => true,
        _ => false,
    }
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
    columns: Vec<ColumnReport>,
) -> TableReport {
    TableReport {
        keyspace: name.keyspace.clone(),
        table: name.table.clone(),
        reads: traffic.reads,
        writes: traffic.writes,
        read_write_ratio: (traffic.writes > 0).then(|| traffic.reads as f64 / traffic.writes as f64),
        partitions_per_read: quantiles(&traffic.partitions_per_read),
        tombstones_per_read: observed_tombstones(&traffic.tombstones),
        node_reads: traffic.node_reads,
        top_partitions: top_partitions(traffic),
        distinct_partitions: traffic.distinct_partitions.estimate(),
        patterns,
        columns,
        view_of: definition.and_then(Table::base).map(str::to_owned),
        comment: definition.map_or_else(String::new, |table| Comment::of(table).text),
    }
}

/// The busiest partitions by requests, and behind them those that are so by rows or bytes only.
fn top_partitions(traffic: &TableTraffic) -> Vec<TopPartition> {
    let TableTraffic {
        top_partitions,
        weights,
        ..
    } = traffic;
    let mut keys: Vec<u64> = Vec::new();
    for top in [
        top_partitions.top(TOP_PARTITIONS),
        weights.rows.top(TOP_BY_WEIGHT),
        weights.bytes.top(TOP_BY_WEIGHT),
    ] {
        for (key, _) in top {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    let partition = |key: u64| {
        let entry = top_partitions.of(key).unwrap_or_default();
        TopPartition {
            key: format!("#{key:016x}"),
            share: entry.at_least() as f64 / top_partitions.total().max(1) as f64,
            reads: entry.reads,
            writes: entry.writes,
            error: (entry.error > 0).then_some(entry.error),
            rows: weight(&weights.rows, key),
            bytes: weight(&weights.bytes, key),
        }
    };
    keys.into_iter().map(partition).collect()
}

fn weight(weights: &Weights, key: u64) -> PartitionWeight {
    let entry = weights.of(key).unwrap_or_default();
    PartitionWeight {
        share: entry.at_least() as f64 / weights.total().max(1) as f64,
        read: entry.reads,
        written: entry.writes,
        error: entry.error,
    }
}

fn columns(table: &Table, name: &TableName, window: &Window) -> Vec<ColumnReport> {
    let targets = || table.indexes.values().flat_map(|index| &index.targets);
    let index_reads = |column: &str| {
        let column = ColumnName {
            table: name.clone(),
            column: column.to_owned(),
        };
        let traffic = window.indexed.get(&column);
        traffic.map_or(0, |traffic| traffic.reads + traffic.reads_in_partition)
    };
    let columns = table.columns.iter();
    columns
        .map(|column| ColumnReport {
            name: column.name.clone(),
            data_type: column.data_type.to_string(),
            is_user_defined: is_user_defined(&column.data_type),
            kind: match column.kind {
                ColumnKind::PartitionKey => ColumnRole::PartitionKey,
                ColumnKind::Clustering(Order::Ascending) => ColumnRole::ClusteringAscending,
                ColumnKind::Clustering(Order::Descending) => ColumnRole::ClusteringDescending,
                ColumnKind::Static => ColumnRole::Static,
                ColumnKind::Regular => ColumnRole::Regular,
            },
            indexed: targets().any(|target| target.column == column.name),
            index_reads: targets()
                .any(|target| target.column == column.name)
                .then(|| index_reads(&column.name)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_with_most_rows_or_bytes_stands_behind_the_busiest_ones() {
        let mut traffic = TableTraffic::default();
        for key in 0..20 {
            (0..100 - key).for_each(|_| traffic.top_partitions.read(key));
            traffic.weights.read(key, 100 - key, 1_000);
        }
        traffic.top_partitions.read(777);
        traffic.weights.read(777, 18_190, 0);
        traffic.weights.write(777, 0, 180_000);
        let top = top_partitions(&traffic);
        let last = top
            .last()
            .map(|one| (&*one.key, one.reads, one.rows.read, one.bytes.written));
        assert_eq!(last, Some(("#0000000000000309", 1, 18_190, 180_000)));
        assert_eq!(top.len(), TOP_PARTITIONS + 1);
        assert_eq!(
            top.last().map(|one| (one.rows.share, one.bytes.share)),
            Some((0.9095, 0.9))
        );
        assert_eq!(
            top.first().map(|one| (one.reads, one.rows.read)),
            Some((100, 100))
        );
    }
}
