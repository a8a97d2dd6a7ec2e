//! The fields of a transaction in an answer: its parts, and which partitions it reads and writes.

use std::sync::Arc;

use cqlens_cql::footprint::{Count, Footprint, Keys};
use cqlens_cql::plan::{Plan, TransactionReturns};
use cqlens_cql::schema::TableName;
use cqlens_proto::message::Values;
use serde::Serialize;

use super::touched::{MAX_KEYS_SHOWN, hex};

/// The properties of a transaction.
#[derive(Debug, Serialize)]
pub(super) struct TransactionFields {
    txn_lets: usize,
    /// `rows`, `references`, or null.
    txn_select: Option<&'static str>,
    txn_conditions: usize,
    txn_updates: usize,
    #[serde(flatten)]
    known: Option<KnownTransaction>,
}

/// The properties of a transaction that need the schema.
#[derive(Debug, Serialize)]
struct KnownTransaction {
    in_on_partition_key: bool,
    pk_bind_indexes: Option<Vec<usize>>,
    pk_bind_indexes_wire: Option<Vec<usize>>,
    /// `keyspace.table`
    read_tables: Vec<String>,
    write_tables: Vec<String>,
    read_partitions: Option<u64>,
    write_partitions: Option<u64>,
    /// `keyspace.table/key`, the key in hexadecimal digits; where all are known and few.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_keys: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_keys: Option<Vec<String>>,
}

/// The fields of a transaction with its values; none for other statements.
pub(super) fn transaction_of(plan: &Plan, values: Option<&Values<'_>>) -> Option<TransactionFields> {
    let facts = plan.facts();
    let parts = facts.transaction?;
    Some(TransactionFields {
        txn_lets: parts.lets,
        txn_select: match parts.returns {
            TransactionReturns::Nothing => None,
            TransactionReturns::Rows => Some("rows"),
            TransactionReturns::References => Some("references"),
        },
        txn_conditions: parts.conditions,
        txn_updates: parts.updates,
        known: known(plan, values),
    })
}

fn known(plan: &Plan, values: Option<&Values<'_>>) -> Option<KnownTransaction> {
    let schema = plan.facts().schema.as_ref()?;
    let tables = plan.transaction_tables()?;
    let (mut read, mut written) = (Keys::new(), Keys::new());
    let footprint = plan.transaction_footprint(values, &mut read, &mut written);
    let footprint = footprint.ok().flatten();
    let (reads, writes) = (
        footprint.map(|both| both.read),
        footprint.map(|both| both.written),
    );
    Some(KnownTransaction {
        in_on_partition_key: schema.in_on_partition_key,
        pk_bind_indexes: schema.partition_key_markers.clone(),
        pk_bind_indexes_wire: schema
            .partition_key_markers
            .clone()
            .filter(|_| schema.markers_of_one_table),
        read_tables: names(&tables.read),
        write_tables: names(&tables.written),
        read_partitions: exact(reads),
        write_partitions: exact(writes),
        read_keys: listed(reads, &read),
        write_keys: listed(writes, &written),
    })
}

/// `reads 2 partitions of six.acct; writes 3 of six.acct, six.ledger`; none for other statements. What is not bound is not
/// known.
pub(super) fn in_words(plan: &Plan) -> Option<String> {
    let tables = plan.transaction_tables()?;
    let (mut read, mut written) = (Keys::new(), Keys::new());
    let values = (plan.facts().bind_markers == 0).then_some(&Values::NONE);
    let footprint = plan.transaction_footprint(values, &mut read, &mut written);
    let footprint = footprint.ok().flatten();
    let side = |verb: &str, tables: &[(Arc<TableName>, u32)], footprint: Option<Footprint>| {
        let names: Vec<_> = names(tables);
        let partitions = match exact(footprint) {
            Some(1) => "1 partition".to_owned(),
            Some(count) => format!("{count} partitions"),
            None => "partitions".to_owned(),
        };
        (!names.is_empty()).then(|| format!("{verb} {partitions} of {}", names.join(", ")))
    };
    let sides = [
        side("reads", &tables.read, footprint.map(|both| both.read)),
        side("writes", &tables.written, footprint.map(|both| both.written)),
    ];
    let sides: Vec<_> = sides.into_iter().flatten().collect();
    (!sides.is_empty()).then(|| sides.join("; "))
}

fn names(tables: &[(Arc<TableName>, u32)]) -> Vec<String> {
    let names = tables
        .iter()
        .map(|(name, _)| format!("{}.{}", name.keyspace, name.table));
    names.collect()
}

fn exact(footprint: Option<Footprint>) -> Option<u64> {
    match footprint?.count {
        Count::Exact(count) => Some(count),
        _ => None,
    }
}

fn listed(footprint: Option<Footprint>, keys: &Keys) -> Option<Vec<String>> {
    let footprint = footprint?;
    let all_known = matches!(footprint.count, Count::Exact(_)) && footprint.keys_missing.is_none();
    (all_known && keys.len() <= MAX_KEYS_SHOWN).then(|| {
        let keys = keys.iter().map(|key| {
            let table = &key.table;
            format!("{}.{}/{}", table.keyspace, table.table, hex(key.bytes))
        });
        keys.collect()
    })
}
