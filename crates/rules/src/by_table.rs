//! What a window has of each table, found once for all rules: a rule that looked through all patterns for each table,
//! or for each pattern, would take their square.

use std::{cell::OnceCell, collections::BTreeMap};

use cqlens_cql::{
    plan::Flag,
    schema::{ColumnName, Schema, Table, TableName},
};

use super::{
    Context, figures, read,
    statement::{self, TableWrite, restricted, selected, table_of},
    transaction,
};
use cqlens_window::{Pattern, PatternId};

/// Patterns with their ids.
pub(super) type PatternList<'a> = Vec<(PatternId, &'a Pattern)>;

/// What was looked up by tables so far.
#[derive(Debug, Default)]
pub(super) struct PatternsByTable<'a> {
    patterns: OnceCell<BTreeMap<TableName, PatternList<'a>>>,
    writes: OnceCell<BTreeMap<TableName, Vec<TableWrite<'a>>>>,
    backwards: OnceCell<BTreeMap<TableName, bool>>,
    index_reads: OnceCell<BTreeMap<ColumnName, PatternList<'a>>>,
    keys: OnceCell<BTreeMap<String, Vec<&'a Table>>>,
    transactions: OnceCell<BTreeMap<TableName, PatternList<'a>>>,
}

impl<'a> Context<'a> {
    /// The application's own patterns that name this table first.
    pub(super) fn patterns_of(&self, table: &TableName) -> &[(PatternId, &'a Pattern)] {
        let all = self.by_table.patterns.get_or_init(|| {
            let mut tables: BTreeMap<_, PatternList<'a>> = BTreeMap::new();
            for (id, pattern) in figures::user_patterns(self) {
                if let Some(table) = table_of(pattern) {
                    tables.entry(table).or_default().push((id, pattern));
                }
            }
            tables
        });
        let patterns = all.get(table).map_or(&[][..], Vec::as_slice);
        self.count_steps(patterns.len());
        patterns
    }

    /// The application's own SELECTs of this table, but for those that the server always refused.
    pub(super) fn reads_of(&self, table: &TableName) -> impl Iterator<Item = (PatternId, &'a Pattern)> {
        let patterns = self.patterns_of(table).iter().copied();
        patterns.filter(|(_, pattern)| read::is_judged(pattern))
    }

    /// Whether all reads of the table go against its order.
    pub(super) fn is_read_backwards(&self, table: &TableName) -> bool {
        let all = self.by_table.backwards.get_or_init(|| {
            let mut tables = BTreeMap::new();
            let reads = figures::user_patterns(self).filter(|(_, pattern)| pattern.head.kind.is_read());
            for (table, pattern) in reads.filter_map(|(_, pattern)| Some((table_of(pattern)?, pattern))) {
                *tables.entry(table).or_insert(true) &= pattern.is(Flag::Reversed);
            }
            tables
        });
        all.get(table).copied().unwrap_or(true)
    }

    /// The application's reads by an index that restrict this column.
    pub(super) fn reads_by_index(&self, column: &ColumnName) -> &[(PatternId, &'a Pattern)] {
        let all = self.by_table.index_reads.get_or_init(|| index_reads(self));
        let reads = all.get(column).map_or(&[][..], Vec::as_slice);
        self.count_steps(reads.len());
        reads
    }

    /// What the application writes, by table: what the server always refused is left out.
    pub(super) fn writes(&self) -> &BTreeMap<TableName, Vec<TableWrite<'a>>> {
        self.by_table
            .writes
            .get_or_init(|| statement::writes_by_table(self))
    }

    /// What the application writes to this table.
    pub(super) fn writes_to(&self, table: &TableName) -> &[TableWrite<'a>] {
        let writes = self.writes().get(table).map_or(&[][..], Vec::as_slice);
        self.count_steps(writes.len());
        writes
    }

    /// The application's transactions, by each of the tables that they read or write.
    pub(super) fn transactions(&self) -> &BTreeMap<TableName, PatternList<'a>> {
        self.by_table
            .transactions
            .get_or_init(|| transaction::by_table(self))
    }

    /// Those on this table.
    pub(super) fn transactions_on(&self, table: &TableName) -> &[(PatternId, &'a Pattern)] {
        self.transactions().get(table).map_or(&[], Vec::as_slice)
    }

    /// The tables of the keyspace that have these columns as their partition key, in any order.
    pub(super) fn tables_by_key<'n>(
        &self,
        keyspace: &str,
        columns: impl IntoIterator<Item = &'n str>,
    ) -> &[&'a Table] {
        let all = self.by_table.keys.get_or_init(|| tables_by_key(self.schema));
        let tables = all.get(&key(keyspace, columns)).map_or(&[][..], Vec::as_slice);
        self.count_steps(tables.len());
        tables
    }
}

fn tables_by_key(schema: &Schema) -> BTreeMap<String, Vec<&Table>> {
    let mut tables: BTreeMap<String, Vec<&Table>> = BTreeMap::new();
    for keyspace in schema.keyspaces.values() {
        for table in keyspace.tables.values() {
            let columns = table.partition_key().iter().map(|column| &*column.name);
            tables
                .entry(key(&keyspace.name, columns))
                .or_default()
                .push(table);
        }
    }
    tables
}

/// A keyspace and the names of columns in alphabetical order, as one text.
fn key<'n>(keyspace: &str, columns: impl IntoIterator<Item = &'n str>) -> String {
    let mut columns: Vec<_> = columns.into_iter().collect();
    columns.sort_unstable();
    format!("{keyspace}\0{}", columns.join("\0"))
}

fn index_reads<'a>(context: &Context<'a>) -> BTreeMap<ColumnName, PatternList<'a>> {
    let mut columns: BTreeMap<_, PatternList<'a>> = BTreeMap::new();
    for (id, pattern) in read::user_reads(context).filter(|(_, pattern)| pattern.is(Flag::Index)) {
        let Some((table, select)) = table_of(pattern).zip(selected(id, context)) else {
            continue;
        };
        for column in restricted(&select) {
            let table = table.clone();
            let name = ColumnName { table, column };
            columns.entry(name).or_default().push((id, pattern));
        }
    }
    columns
}
