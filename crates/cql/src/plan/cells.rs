//! Which cells of a statement are counted by value, worked out once: the primary key of an INSERT, and
//! columns that have an index.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use crate::syntax::ast::{AssignmentOperation, Delete, Insert, InsertSource, Literal, Name, Term, Update};
use cqlens_proto::message::Values;
use cqlens_proto::types::CqlType;
use foldhash::fast::FixedState;

use super::compile::Receiver;
use super::restriction::Test;
use super::restrictions::Restrictions;
use super::target::Target;
use super::term::{CompiledTerm, Datum};
use crate::cells::{
    Cells, IndexUse, InsertedRow, RowOfPartition, SAMPLED_PARTITIONS, SampledRow, write_value,
};
use crate::schema::{Column, ColumnKind, ColumnName, TableName};

/// The cells of a statement that are counted by value.
#[derive(Debug, Clone)]
pub(super) struct CellPlan {
    /// The table of an INSERT whose rows are counted.
    inserted: Option<Arc<TableName>>,
    /// The whole primary key, in its order; none if the statement does not name one row.
    row: Option<Vec<CompiledTerm>>,
    /// The constants of an INSERT.
    constants: Vec<CompiledTerm>,
    /// Whether the constants are bound to the plan, as markers; then no other values are.
    are_bound: bool,
    columns: Vec<PlannedColumn>,
    /// How many of the primary key's columns are the partition key, where a partition has several rows.
    partition_key: Option<usize>,
    /// The values of an INSERT into a partition of several rows.
    sampled: Option<SampledValues>,
}

/// What is compared from row to row of a partition: regular columns of one cell, and the first of several clustering columns, with
/// their values.
#[derive(Debug, Clone)]
struct SampledValues(Vec<(Arc<str>, CompiledTerm)>);

#[derive(Debug, Clone)]
struct PlannedColumn {
    name: Arc<ColumnName>,
    used: IndexUse,
    /// Its value; none where it has several, or none.
    value: Option<CompiledTerm>,
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
        let constants = columns
            .iter()
            .zip(values)
            .filter_map(|(column, value)| match value {
                Term::Literal(literal) => Some(target.constant(column, value, literal)),
                _ => None,
            });
        let plan = Self {
            inserted: counts_rows.then(|| target.name.clone()),
            partition_key: (!target.table.clustering().is_empty())
                .then(|| target.table.partition_key().len()),
            sampled: counts_rows
                .then(|| SampledValues::of(columns, values, target))
                .flatten(),
            row,
            constants: constants.collect(),
            are_bound: target.constants.is_some(),
            columns: indexed
                .map(|(column, value)| target.planned(column, IndexUse::Inserted, Some(value)))
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
            target.planned(&assignment.column, IndexUse::Updated, value)
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
        let columns = indexed.map(|deletion| target.planned(&deletion.column, IndexUse::Updated, None));
        Self::of_columns(columns.collect(), restrictions)
    }

    /// Of a read that asks indexes.
    pub(super) fn of_read(restrictions: &Restrictions<'_>, target: &Target<'_>) -> MaybeCells {
        let used = if restrictions.is_key_range {
            IndexUse::Read
        } else {
            IndexUse::ReadInPartition
        };
        let chosen = restrictions
            .indexes
            .iter()
            .filter_map(|name| target.table.indexes.get(name));
        let columns = chosen.flat_map(|index| &index.targets).filter_map(|indexed| {
            let mut all = restrictions.partition.iter().flatten();
            let mut others = restrictions.clustering.iter().chain(&restrictions.others);
            let is_about = |columns: &[&Column]| columns.iter().any(|column| column.name == indexed.column);
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
            constants: Vec::new(),
            are_bound: false,
            columns: columns.collect(),
            partition_key: None,
            sampled: None,
        }
        .unless_empty()
    }

    fn of_columns(columns: Vec<PlannedColumn>, restrictions: &Restrictions<'_>) -> MaybeCells {
        Self {
            inserted: None,
            row: row(restrictions),
            constants: Vec::new(),
            are_bound: false,
            columns,
            partition_key: None,
            sampled: None,
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
            let partition = self.partition(table, values, cells);
            cells.insert(InsertedRow {
                table: Arc::clone(table),
                row,
                contents: self.contents(row, values, cells),
                partition,
            });
            if let Some(partition) = partition {
                self.sample(table, partition.partition, row, values, cells);
            }
        }
        for column in &self.columns {
            let value = column.value.as_ref().map(std::slice::from_ref);
            let value = value.and_then(|value| hash(value, values, cells));
            cells.see(&column.name, column.used, row, value);
        }
    }

    /// The terms of the partition key, where a partition has several rows.
    fn partition_terms(&self) -> Option<&[CompiledTerm]> {
        self.row.as_ref()?.get(..self.partition_key?)
    }

    /// The partition of the row, and what the row adds to it.
    fn partition(&self, table: &TableName, values: &Values<'_>, cells: &Cells) -> Option<RowOfPartition> {
        let key = self.partition_terms()?;
        let mut hasher = cells.hasher();
        // 0xff is in no name: the three parts cannot run into each other.
        hasher.write(table.keyspace.as_bytes());
        hasher.write(&[0xff]);
        hasher.write(table.table.as_bytes());
        hasher.write(&[0xff]);
        let mut key_bytes = 0;
        for term in key {
            let Ok(Datum::Bytes(bytes)) = term.evaluate(Some(values)) else {
                return None;
            };
            key_bytes += bytes.len();
            if key.len() == 1 {
                hasher.write(&bytes);
            } else {
                hasher.write(&u16::try_from(bytes.len()).ok()?.to_be_bytes());
                hasher.write(&bytes);
                hasher.write(&[0]);
            }
        }
        // Each value has its length before it.
        let bound = match self.are_bound {
            true => 0,
            false => values.as_bytes().len().saturating_sub(values.len() * 4),
        };
        let constants: usize = self.constants(values).map(|constant| constant.len()).sum();
        Some(RowOfPartition {
            partition: hasher.finish(),
            bytes: u32::try_from((bound + constants).saturating_sub(key_bytes)).unwrap_or(u32::MAX),
        })
    }

    /// Notes the row with its values, if its partition is one of those that are sampled.
    fn sample(
        &self,
        table: &Arc<TableName>,
        partition: u64,
        row: u64,
        values: &Values<'_>,
        cells: &mut Cells,
    ) {
        let (Some(SampledValues(sampled)), Some(key)) = (&self.sampled, self.partition_terms()) else {
            return;
        };
        if !is_sampled(key, values) {
            return;
        }
        let known = sampled.iter().filter_map(|(name, value)| {
            let value = hash(std::slice::from_ref(value), values, cells)?;
            Some((Arc::clone(name), value))
        });
        let values = known.collect();
        cells.sample(SampledRow {
            table: Arc::clone(table),
            partition,
            row,
            values,
        });
    }

    /// The row with what is written into it. Values are bound in the order of the statement: their bytes as
    /// they came tell contents apart. What the server computes is left out, so contents that differ in that
    /// alone count as one.
    fn contents(&self, row: u64, values: &Values<'_>, cells: &Cells) -> u64 {
        let mut hasher = cells.hasher();
        hasher.write_u64(row);
        let bound = if self.are_bound { &[] } else { values.as_bytes() };
        write_value(&mut hasher, bound);
        self.constants(values)
            .for_each(|constant| write_value(&mut hasher, &constant));
        hasher.finish()
    }

    fn constants<'v>(&'v self, values: &Values<'v>) -> impl Iterator<Item = Cow<'v, [u8]>> {
        let constants = self
            .constants
            .iter()
            .map(|constant| constant.evaluate(Some(values)));
        constants.filter_map(|constant| match constant {
            Ok(Datum::Bytes(bytes)) => Some(bytes),
            _ => None,
        })
    }
}

impl SampledValues {
    /// None where a partition has one row, or nothing is written that could be the same in several.
    fn of(columns: &[Name<'_>], values: &[Term<'_>], target: &Target<'_>) -> Option<Self> {
        let table = target.table;
        let cells = columns.iter().zip(values).filter_map(|(column, value)| {
            let defined = table.column(column.as_str())?;
            let is_regular = defined.kind == ColumnKind::Regular && !defined.data_type.is_multi_cell();
            let is_first = matches!(table.clustering(), [first, _, ..] if first.name == defined.name);
            let value = (is_regular || is_first)
                .then(|| target.value(defined, value))
                .flatten()?;
            Some((defined.name.as_str().into(), value))
        });
        let values: Vec<_> = cells.collect();
        (!table.clustering().is_empty() && !values.is_empty()).then_some(Self(values))
    }
}

/// Whether a partition is one of those whose rows are sampled: the same ones in each run, whatever the operator's key.
fn is_sampled(key: &[CompiledTerm], values: &Values<'_>) -> bool {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    for term in key {
        match term.evaluate(Some(values)) {
            Ok(Datum::Bytes(bytes)) => hasher.write(&bytes),
            _ => return false,
        }
    }
    hasher.finish().is_multiple_of(SAMPLED_PARTITIONS)
}

impl Target<'_> {
    /// A constant that is written: its value, or where only the server knows that, its text.
    fn constant(&self, column: &Name<'_>, value: &Term<'_>, literal: &Literal<'_>) -> CompiledTerm {
        let column = self.table.column(column.as_str());
        match column.and_then(|column| self.value(column, value)) {
            Some(known @ (CompiledTerm::Constant(_) | CompiledTerm::Marker(_))) => known,
            _ => CompiledTerm::Constant(literal.text.as_bytes().into()),
        }
    }

    /// The value that a column of one cell is given.
    fn value(&self, column: &Column, value: &Term<'_>) -> Option<CompiledTerm> {
        let cql_type: CqlType = self.keyspace.resolve(&column.data_type);
        let receiver = Receiver {
            name: &column.name,
            cql_type: &cql_type,
        };
        self.compiler().term(value, receiver).ok()
    }

    /// A column with the value that it is given.
    fn planned(&self, column: &Name<'_>, used: IndexUse, value: Option<&Term<'_>>) -> PlannedColumn {
        let defined = self.table.column(column.as_str());
        // Of a collection of several cells the elements are indexed, not the value.
        let single = defined.filter(|defined| !defined.data_type.is_multi_cell());
        let value = value
            .zip(single)
            .and_then(|(value, defined)| self.value(defined, value));
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
fn row(restrictions: &Restrictions<'_>) -> Option<Vec<CompiledTerm>> {
    let table = restrictions.table;
    let partition = restrictions.partition.iter().map(Option::as_ref);
    let clustering = restrictions.clustering.iter().map(Some);
    let row: Option<Vec<CompiledTerm>> = partition
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
fn hash(terms: &[CompiledTerm], values: &Values<'_>, cells: &Cells) -> Option<u64> {
    let mut hasher = cells.hasher();
    for term in terms {
        let Ok(Datum::Bytes(bytes)) = term.evaluate(Some(values)) else {
            return None;
        };
        write_value(&mut hasher, &bytes);
    }
    Some(hasher.finish())
}
