//! What the rules on single indexes have in common: the columns that have one, who asks it, and how much that
//! costs.

use crate::{About, Context, Findings, Severity, Threshold, Wish, severity::Impact, statement::selected};
use cqlens_cql::{
    schema::{ColumnName, Index, IndexClass, Schema, quote},
    syntax::ast::RelationOperator,
};
use cqlens_window::{Distribution, IndexedColumn, Pattern, PatternId};

/// A column with its index, and what was counted of it.
pub(super) struct Indexed<'a> {
    pub(super) name: &'a ColumnName,
    pub(super) index: &'a Index,
    pub(super) column: &'a IndexedColumn,
}

/// The columns of the window that (still) have an index of which values can be told apart. Indexes of classes
/// that are not known, and those that look for something else than values, are left out.
pub(super) fn indexed<'a>(context: &Context<'a>, schema: &'a Schema) -> impl Iterator<Item = Indexed<'a>> {
    context.window.indexed.iter().filter_map(|(name, column)| {
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
    pub(super) fn reads<'w>(&self, context: &Context<'w>) -> Vec<(PatternId, &'w Pattern)> {
        context.reads_by_index(self.name).to_vec()
    }

    /// Whether a read asks for values of the column; also where no read is seen that asks it at all.
    pub(super) fn is_asked_for_values(&self, context: &Context<'_>) -> bool {
        let reads = self.reads(context);
        let equals = |id: PatternId| {
            selected(id, context).is_some_and(|select| {
                select.where_clause.relations.iter().any(|relation| {
                    matches!(relation.operator, RelationOperator::Equal | RelationOperator::In)
                        && relation
                            .subject
                            .columns()
                            .iter()
                            .any(|name| name.as_str() == self.name.column)
                })
            })
        };
        reads.is_empty() || reads.iter().any(|(id, _)| equals(*id))
    }

    /// The severity of what these statements do with the index: how much one of them costs does not grow with
    /// what it finds. Storage-attached indexes cost a step less.
    pub(super) fn severity(
        &self,
        found: &Findings<'_>,
        statements: &[(PatternId, &Pattern)],
        context: &Context<'_>,
    ) -> Severity {
        let impact = Impact::each(self.of_class(Severity::Medium));
        let impact = statements
            .iter()
            .fold(impact, |impact, (_, pattern)| impact.of(pattern));
        context.severity(found, &impact)
    }

    /// The statements that put a table in the place of the index, and as the last step, as a comment, to drop
    /// it: where no unseen traffic may need it. Nothing where no table would serve the reads.
    ///
    /// The rule's thresholds must hold [`DROP_AFTER_HOURS`].
    pub(super) fn migration(
        &self,
        (found, about): (&Findings<'_>, &About),
        reads: &[(PatternId, &Pattern)],
        context: &Context<'_>,
    ) -> Wish {
        let hours = context.window.seconds() / 3_600.0;
        let is_certain = !context.may_have_missed() && hours >= found.threshold(about, &DROP_AFTER_HOURS);
        let (keyspace, index) = (quote(&self.name.table.keyspace), quote(&self.index.name));
        Wish::ReplaceIndex {
            reads: reads.iter().map(|(id, _)| *id).collect(),
            drop: is_certain.then(|| format!("{keyspace}.{index}")),
        }
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

/// Earlier, nothing is said of dropping an index.
pub(super) const DROP_AFTER_HOURS: Threshold = Threshold {
    name: "drop_after_hours",
    unit: "hours of observation",
    default: 24.0,
    origin: "cqlens default: long enough for nightly jobs, as for `unused-index`",
};

/// From so many reads on, what they find says something of an index.
pub(super) const FEWEST_READS: Threshold = Threshold {
    name: "fewest_reads",
    unit: "reads",
    default: 20.0,
    origin: "cqlens default: fewer may find one row, or many, by chance",
};

#[cfg(test)]
pub(super) mod testing {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing;
    use cqlens_cql::{
        footprint::PartitionClass,
        plan::{Flag, StatementKind},
        schema::TableName,
    };
    use cqlens_window::Window;

    /// `lab.orders` with an index on each of three columns, one of them storage-attached.
    pub(in crate::read) fn schema() -> Schema {
        Schema::from_cql(
            "CREATE KEYSPACE lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE lab.orders (id int PRIMARY KEY, email text, status text, kind text);
             CREATE INDEX by_email ON lab.orders (email);
             CREATE INDEX by_status ON lab.orders (status);
             CREATE INDEX by_kind ON lab.orders (kind) USING 'sai';",
        )
        .unwrap()
    }

    /// A minute of a busy cluster in which so many rows were given so many values of the column, and the index was asked on all
    /// nodes so often.
    pub(in crate::read) fn window(column: &str, rows: u64, values: u64, reads: u64) -> Window {
        let insert = format!("INSERT INTO lab.orders (id, {column}) VALUES (?, ?)");
        let read = format!("SELECT * FROM lab.orders WHERE {column} = ?");
        let mut window = testing::amid([
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
