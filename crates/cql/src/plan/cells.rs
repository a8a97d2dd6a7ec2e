//! Which cells of a statement are counted by value, worked out once: the primary key of an INSERT, and
//! columns that have an index.

use std::hash::Hasher;
use std::sync::Arc;

use crate::syntax::ast::{AssignmentOperation, Delete, Insert, InsertSource, Name, Term as AstTerm, Update};
use cqlens_proto::message::Values;
use cqlens_proto::types::CqlType;

use super::compile::Receiver;
use super::restriction::Test;
use super::restrictions::Restrictions;
use super::target::Target;
use super::term::{Datum, Term};
use crate::cells::{Cells, Use, write_value};
use crate::schema::{ColumnName, TableName};

/// The cells of a statement that are counted by value.
#[derive(Debug, Clone)]
pub(super) struct CellPlan {
    /// The table of an INSERT whose rows are counted.
    inserted: Option<Arc<TableName>>,
    /// The whole primary key, in its order; none if the statement does not name one row.
    row: Option<Vec<Term>>,
    /// The values that stand in the text of an INSERT.
    literals: Vec<Box<str>>,
    columns: Vec<PlannedColumn>,
}

#[derive(Debug, Clone)]
struct PlannedColumn {
    name: Arc<ColumnName>,
    used: Use,
    /// Its value; none where it has several, or none.
    value: Option<Term>,
}

/// Boxed, since most plans have none.
pub(super) type MaybeCells = Option<Box<CellPlan>>;

impl CellPlan {
    /// Of an `INSERT … VALUES` under these restrictions of its primary key.
    pub(super) fn of_insert(
        insert: &Insert<'_>,
        restrictions: &Restrictions<'_>,
        target: &Target<'_>,
    ) -> MaybeCells {
        let InsertSource::Values { columns, values } = &insert.source else {
            return None;
        };
        let row = row(restrictions);
        // A conditional INSERT overwrites nothing.
        let counts_rows = row.is_some() && !insert.if_not_exists;
        let cells = columns.iter().zip(values);
        let indexed = cells.filter(|(column, _)| is_indexed(target, column));
        let literals = values.iter().filter_map(|value| match value {
            AstTerm::Literal(literal) => Some(literal.text.into()),
            _ => None,
        });
        let plan = Self {
            inserted: counts_rows.then(|| target.name.clone()),
            row,
            literals: literals.collect(),
            columns: indexed
                .map(|(column, value)| target.planned(column, Use::Inserted, Some(value)))
                .collect(),
        };
        plan.unless_empty()
    }

    /// Of an `UPDATE`.
    pub(super) fn of_update(
        update: &Update<'_>,
        restrictions: &Restrictions<'_>,
        target: &Target<'_>,
    ) -> MaybeCells {
        let assignments = update.assignments.iter();
        let indexed = assignments.filter(|assignment| is_indexed(target, &assignment.column));
        let columns = indexed.map(|assignment| {
            let value = match &assignment.operation {
                AssignmentOperation::Set(value) => Some(value),
                _ => None,
            };
            target.planned(&assignment.column, Use::Updated, value)
        });
        Self::of_columns(columns.collect(), restrictions)
    }

    /// Of a `DELETE` of columns.
    pub(super) fn of_delete(
        delete: &Delete<'_>,
        restrictions: &Restrictions<'_>,
        target: &Target<'_>,
    ) -> MaybeCells {
        let deletions = delete.deletions.iter();
        let indexed = deletions.filter(|deletion| is_indexed(target, &deletion.column));
        let columns = indexed.map(|deletion| target.planned(&deletion.column, Use::Updated, None));
        Self::of_columns(columns.collect(), restrictions)
    }

    /// Of a read that asks indexes.
    pub(super) fn of_read(restrictions: &Restrictions<'_>, target: &Target<'_>) -> MaybeCells {
        let used = if restrictions.is_key_range {
            Use::Read
        } else {
            Use::ReadInPartition
        };
        let chosen = restrictions
            .indexes
            .iter()
            .filter_map(|name| target.table.indexes.get(name));
        let columns = chosen.flat_map(|index| &index.targets).filter_map(|indexed| {
            let mut all = restrictions.partition.iter().flatten();
            let mut others = restrictions.clustering.iter().chain(&restrictions.others);
            let is_about = |columns: &[&crate::schema::Column]| {
                columns.iter().any(|column| column.name == indexed.column)
            };
            let restriction = all
                .find(|restriction| is_about(&restriction.columns))
                .or_else(|| others.find(|restriction| is_about(&restriction.columns)))?;
            let value = match &restriction.test {
                Test::Equal(term) if restriction.columns.len() == 1 => Some(term.clone()),
                _ => None,
            };
            Some(PlannedColumn {
                name: column_name(target, &indexed.column),
                used,
                value,
            })
        });
        Self {
            inserted: None,
            row: None,
            literals: Vec::new(),
            columns: columns.collect(),
        }
        .unless_empty()
    }

    fn of_columns(columns: Vec<PlannedColumn>, restrictions: &Restrictions<'_>) -> MaybeCells {
        Self {
            inserted: None,
            row: row(restrictions),
            literals: Vec::new(),
            columns,
        }
        .unless_empty()
    }

    fn unless_empty(self) -> MaybeCells {
        (self.inserted.is_some() || !self.columns.is_empty()).then(|| Box::new(self))
    }

    /// Notes the cells of one execution.
    pub(super) fn note(&self, values: &Values<'_>, cells: &mut Cells) {
        let row = self.row.as_ref().and_then(|row| hash(row, values, cells));
        if let (Some(table), Some(row)) = (&self.inserted, row) {
            cells.insert(table, row, self.contents(row, values, cells));
        }
        for column in &self.columns {
            let value = column.value.as_ref().map(std::slice::from_ref);
            let value = value.and_then(|value| hash(value, values, cells));
            cells.see(&column.name, column.used, row, value);
        }
    }

    /// The row with what is written into it. Values are bound in the order of the statement: their bytes as
    /// they came tell contents apart. What the server computes is left out, so contents that differ in that
    /// alone count as one.
    fn contents(&self, row: u64, values: &Values<'_>, cells: &Cells) -> u64 {
        let mut hasher = cells.hasher();
        hasher.write_u64(row);
        write_value(&mut hasher, values.as_bytes());
        self.literals
            .iter()
            .for_each(|literal| write_value(&mut hasher, literal.as_bytes()));
        hasher.finish()
    }
}

impl Target<'_> {
    /// A column with the value that it is given.
    fn planned(&self, column: &Name<'_>, used: Use, value: Option<&AstTerm<'_>>) -> PlannedColumn {
        let defined = self.table.column(column.as_str());
        // Of a collection of several cells the elements are indexed, not the value.
        let single = defined.filter(|defined| !defined.data_type.is_multi_cell());
        let value = value.zip(single).and_then(|(value, defined)| {
            let cql_type: CqlType = self.keyspace.resolve(&defined.data_type);
            let receiver = Receiver {
                name: &defined.name,
                cql_type: &cql_type,
            };
            self.compiler().term(value, receiver).ok()
        });
        PlannedColumn {
            name: column_name(self, column.as_str()),
            used,
            value,
        }
    }
}

fn column_name(target: &Target<'_>, column: &str) -> Arc<ColumnName> {
    Arc::new(ColumnName {
        table: TableName::clone(&target.name),
        column: column.to_owned(),
    })
}

fn is_indexed(target: &Target<'_>, column: &Name<'_>) -> bool {
    let mut targets = target.table.indexes.values().flat_map(|index| &index.targets);
    targets.any(|indexed| indexed.column == column.as_str())
}

/// The values of the whole primary key; none if one of them is not given by `=`.
fn row(restrictions: &Restrictions<'_>) -> Option<Vec<Term>> {
    let table = restrictions.table;
    let partition = restrictions.partition.iter().map(Option::as_ref);
    let clustering = restrictions.clustering.iter().map(Some);
    let row: Option<Vec<Term>> = partition
        .chain(clustering)
        .map(
            |restriction| match (restriction?.columns.as_slice(), &restriction?.test) {
                ([_], Test::Equal(term)) => Some(term.clone()),
                _ => None,
            },
        )
        .collect();
    let whole = table.partition_key().len() + table.clustering().len();
    row.filter(|row| row.len() == whole)
}

/// The hash of values; none if one of them is null, not set or not known.
fn hash(terms: &[Term], values: &Values<'_>, cells: &Cells) -> Option<u64> {
    let mut hasher = cells.hasher();
    for term in terms {
        let Ok(Datum::Bytes(bytes)) = term.evaluate(Some(values)) else {
            return None;
        };
        write_value(&mut hasher, &bytes);
    }
    Some(hasher.finish())
}
