//! What of an exchange stands in the traffic of its tables.

use crate::audit::{
    HashKey,
    count::{paging::Progress, pattern::record_tombstones, tables::Tables},
    exchange::{Exchange, Execution, NamedKeys, outcome::Outcome},
    key_hash::TableHash,
    statement::{
        analysis::Analysis,
        ids::{ByTable, TableId},
    },
};
use cqlens_cql::footprint::Key;
use cqlens_cql::plan::{Plan, StatementKind};
use cqlens_window::TableTraffic;

/// Names that no schema has are believed once the server has run a statement with them.
pub(crate) fn has_tables(exchange: &Exchange<'_>, analysis: &Analysis) -> bool {
    !exchange.refused && (analysis.is_known || exchange.is_confirmed())
}

/// A read counts on its table; a write (and each write of a batch) on every table that it names. `progress` is that of
/// a read.
pub(crate) fn record_tables(
    tables: &mut Tables,
    exchange: &Exchange<'_>,
    execution: &Execution,
    keys: NamedKeys<'_>,
    progress: Option<Progress>,
    hashing: &mut Hashing,
) {
    if execution.analysis.head.kind == StatementKind::Transaction {
        return record_transaction(tables, execution, hashing);
    }
    let read = execution.analysis.head.kind.is_read();
    // The table of most statements is the only one: it is found once for them and their keys.
    if execution.analysis.tables.len() == 1
        && let Some((table, statements)) = execution.tables().next()
    {
        tables.count_in(table.id, &table.name, |table| {
            record_statements(table, statements, exchange, execution);
            for (id, key) in keys.iter() {
                let hash = hashing.hash(id, key);
                record_key(table, hash, key.bytes.len(), read);
                if !execution.is_of_one() {
                    continue;
                }
                if read {
                    record_read_weight(table, hash, exchange);
                } else {
                    let rows = u64::from(statements);
                    table.weights.write(hash, rows, exchange.request_bytes);
                }
                if let Some(progress) = progress {
                    table.partition_reads.see(hash, progress.rows, progress.bytes);
                }
            }
        });
        return;
    }
    for (table, statements) in execution.tables() {
        tables.count_in(table.id, &table.name, |table| {
            record_statements(table, statements, exchange, execution);
        });
    }
    for (id, key) in keys.iter() {
        let hash = hashing.hash(id, key);
        tables.count_in(id, key.table, |table| {
            record_key(table, hash, key.bytes.len(), read)
        });
    }
}

/// A transaction counts on each of its tables as what its statements do there; each partition once as read, once as
/// written.
#[cold]
fn record_transaction(tables: &mut Tables, execution: &Execution, hashing: &mut Hashing) {
    let known = execution.analysis.is_known;
    let plan = execution.analysis.plan.as_ref();
    let Some(named) = plan.and_then(Plan::transaction_tables) else {
        return;
    };
    let keys = execution.rare.as_ref().and_then(|rare| rare.transaction.as_ref());
    for (name, statements) in &named.read {
        let read = keys.map(|keys| keys.read.iter().filter(|key| key.table == name).count());
        tables.count(name, |table| {
            table.known |= known;
            table.reads += u64::from(*statements);
            if let Some(read) = read {
                table.partitions_per_read.record(read as u64);
            }
        });
    }
    for (name, statements) in &named.written {
        tables.count(name, |table| {
            table.known |= known;
            table.writes += u64::from(*statements);
        });
    }
    let Some(keys) = keys else { return };
    for (read, keys) in [(true, &keys.read), (false, &keys.written)] {
        for key in keys.iter() {
            let hash = hashing.hash_by_name(key);
            tables.count(key.table, |table| record_key(table, hash, key.bytes.len(), read));
        }
    }
}

fn record_statements(
    table: &mut TableTraffic,
    statements: u32,
    exchange: &Exchange<'_>,
    execution: &Execution,
) {
    table.known |= execution.analysis.is_known;
    if execution.analysis.head.kind.is_read() {
        record_read(table, exchange, execution);
    } else {
        table.writes += u64::from(statements);
    }
}

fn record_read(table: &mut TableTraffic, exchange: &Exchange<'_>, execution: &Execution) {
    table.reads += 1;
    if let Some(count) = execution.footprint.number() {
        table.partitions_per_read.record(count);
    }
    record_tombstones(&mut table.tombstones, exchange);
}

fn record_key(table: &mut TableTraffic, hash: u64, bytes: usize, read: bool) {
    table.key_sizes.count(bytes as u64);
    table.distinct_partitions.insert(hash);
    if read {
        table.top_partitions.read(hash);
    } else {
        table.top_partitions.write(hash);
    }
}

/// What a request reads of the only partition that it touches.
#[inline]
fn record_read_weight(table: &mut TableTraffic, hash: u64, exchange: &Exchange<'_>) {
    if let Outcome::Rows { count, .. } = exchange.outcome
        && count > 0
    {
        let bytes = exchange.response_bytes.unwrap_or(0);
        table.weights.read(hash, count, bytes);
    }
}

/// Hashes partition keys, with the beginning that all of a table have in common at hand.
#[derive(Debug)]
pub(crate) struct Hashing {
    key: HashKey,
    begun: ByTable<TableHash>,
}

impl Hashing {
    /// Of the operator's key.
    pub(crate) fn new(key: HashKey) -> Self {
        Self {
            key,
            begun: ByTable::default(),
        }
    }

    /// Ids of tables mean others from now on.
    #[cold]
    pub(crate) fn forget_ids(&mut self) {
        self.begun.clear();
    }

    /// As [`Hashing::hash`], of a table whose id is not at hand.
    fn hash_by_name(&self, key: Key<'_>) -> u64 {
        self.key.of_table(key.table).of(key.bytes)
    }

    fn hash(&mut self, table: TableId, key: Key<'_>) -> u64 {
        let begun = self.begun.of(table, || self.key.of_table(key.table));
        begun.of(key.bytes)
    }
}
