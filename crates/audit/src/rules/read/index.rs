//! What the rules on single indexes have in common: the columns that have one, who asks it, and how much that
//! costs.

use crate::{
    rules::{
        About, Findings, Severity, Threshold,
        figures::{OFTEN_PER_SECOND, per_hour},
        statement::{restricted, select, table_of},
    },
    window::{Distribution, IndexedColumn, Pattern, PatternId, Window},
};
use cqlens_cql::{
    plan::Flag,
    schema::{ColumnName, Index, IndexClass, Schema},
};

use super::user_reads;

/// A column with its index, and what was counted of it.
pub(super) struct Indexed<'a> {
    pub(super) name: &'a ColumnName,
    pub(super) index: &'a Index,
    pub(super) column: &'a IndexedColumn,
}

/// The columns of the window that (still) have an index of which values can be told apart. Indexes of classes
/// that are not known, and those that look for something else than values, are left out.
pub(super) fn indexed<'a>(window: &'a Window, schema: &'a Schema) -> impl Iterator<Item = Indexed<'a>> {
    window.indexed.iter().filter_map(|(name, column)| {
        let table = schema.table(&name.table.keyspace, &name.table.table)?;
        let mut indexes = table.indexes.values();
        let index = indexes.find(|index| {
            let known = !matches!(index.class, IndexClass::Custom(_));
            let by_words = index
                .options
                .keys()
                .any(|option| option.contains("analyzer") || option == "mode");
            let [target] = index.targets.as_slice() else {
                return false;
            };
            known && !by_words && target.column == name.column
        })?;
        Some(Indexed { name, index, column })
    })
}

impl Indexed<'_> {
    /// The column as a title writes it.
    pub(super) fn title(&self) -> String {
        format!("`{}.{}`", self.name.table, self.name.column)
    }

    /// The reads that ask the index, and rows of theirs.
    pub(super) fn reads<'w>(&self, window: &'w Window) -> Vec<(PatternId, &'w Pattern)> {
        let asks = |pattern: &Pattern| {
            pattern.is(Flag::Index)
                && table_of(pattern).as_ref() == Some(&self.name.table)
                && select(&pattern.head).is_some_and(|select| restricted(&select).contains(&self.name.column))
        };
        user_reads(window).filter(|(_, pattern)| asks(pattern)).collect()
    }

    /// The severity by how often the index is asked on all nodes; storage-attached indexes cost a step less.
    ///
    /// The rule's thresholds must hold [`INDEX_PER_HOUR`] and [`OFTEN_PER_SECOND`].
    pub(super) fn severity(&self, found: &Findings<'_>, about: &About, window: &Window) -> Severity {
        let per_hour = per_hour(self.column.reads, window);
        let severity = if per_hour >= found.threshold(about, &OFTEN_PER_SECOND) * 3_600.0 {
            Severity::High
        } else if per_hour >= found.threshold(about, &INDEX_PER_HOUR) {
            Severity::Medium
        } else {
            Severity::Low
        };
        self.of_class(severity)
    }

    /// One step less for storage-attached indexes, which keep no table of their own.
    pub(super) fn of_class(&self, severity: Severity) -> Severity {
        if self.index.class == IndexClass::Sai {
            severity.lowered()
        } else {
            severity
        }
    }
}

/// Rows of the answers of all these reads.
pub(super) fn rows(reads: &[(PatternId, &Pattern)]) -> Distribution {
    let mut rows = Distribution::default();
    reads.iter().for_each(|(_, pattern)| rows.merge(&pattern.rows));
    rows
}

/// So few reads say nothing of an index.
pub(super) const FEWEST_READS: u64 = 20;

pub(super) const INDEX_PER_HOUR: Threshold = Threshold {
    name: "index_per_hour",
    unit: "reads an hour",
    default: 60.0,
    origin: "own choice: one a minute is part of the load, not an occasion",
};

#[cfg(test)]
pub(super) mod testing {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rules::testing;
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind, schema::TableName};

    /// `lab.orders` with an index on each of three columns, one of them storage-attached.
    pub(in crate::rules::read) fn schema() -> Schema {
        Schema::from_cql(
            "CREATE KEYSPACE lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE lab.orders (id int PRIMARY KEY, email text, status text, kind text);
             CREATE INDEX by_email ON lab.orders (email);
             CREATE INDEX by_status ON lab.orders (status);
             CREATE INDEX by_kind ON lab.orders (kind) USING 'sai';",
        )
        .unwrap()
    }

    /// An hour in which so many rows were given so many values of the column, and the index was asked on all
    /// nodes so often.
    pub(in crate::rules::read) fn window(column: &str, rows: u64, values: u64, reads: u64) -> Window {
        let insert = format!("INSERT INTO lab.orders (id, {column}) VALUES (?, ?)");
        let read = format!("SELECT * FROM lab.orders WHERE {column} = ?");
        let mut window = testing::window([
            testing::write(&insert, StatementKind::Insert, &[], rows),
            testing::read(&read, &[Flag::Index], PartitionClass::Index, reads),
        ]);
        let name = ColumnName {
            table: TableName {
                keyspace: "lab".to_owned(),
                table: "orders".to_owned(),
            },
            column: column.to_owned(),
        };
        window.count_indexed(&name, |counted| {
            counted.inserts = rows;
            counted.known = rows;
            counted.reads = reads;
            (0..rows).for_each(|row| {
                counted.rows.insert(row);
                counted.values.insert(row % values.max(1));
            });
        });
        window
    }
}
