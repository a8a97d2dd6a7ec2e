//! Which cells the writes of a transaction set: Cassandra 6.0 refuses a transaction that sets one of them twice
//! (`TransactionStatement.validateOnlyModifyPrimaryKeyColumnPairOnce`).

use std::collections::{BTreeSet, HashSet};

use cqlens_proto::message::{Value, Values};
use cqlens_proto::types::CqlType;

use super::deferred::{deletes_by_index, is_deferred};
use crate::footprint::{Keys, Reason};
use crate::plan::compile::{Receiver, marker_of};
use crate::plan::json::JsonKey;
use crate::plan::keys::{KeyColumn, KeyPlan};
use crate::plan::refusal::Refusal;
use crate::plan::restrictions::Restrictions;
use crate::plan::shape::{Plan, Shape, Writes};
use crate::plan::target::{Target, direct_marker};
use crate::plan::term::Marker;
use crate::schema::{Column, ColumnKind};
use crate::syntax::ast::{Assignment, Delete, Deletion, Name, Term, Update};

/// The cells that a write of a transaction sets: some columns of some rows, and static columns of its partitions.
#[derive(Debug, Clone)]
pub(in crate::plan) struct SetCells {
    columns: BTreeSet<SetColumn>,
    /// The primary keys of its rows; none where they are not named by single columns, or where only what Accord reads
    /// makes cells of them.
    rows: Option<Writes>,
    /// Markers of which one has to be set so that there are rows; empty where there are rows anyway.
    needs_one_of: Vec<Marker>,
    /// How many columns the partition key has, and how many the primary key.
    key_lengths: (usize, usize),
}

/// Boxed, since only writes of transactions have some.
pub(in crate::plan) type MaybeSetCells = Option<Box<SetCells>>;

/// A column as Cassandra compares it: by name, whatever its table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct SetColumn {
    name: Box<str>,
    is_static: bool,
    is_multi_cell: bool,
}

impl SetCells {
    /// Of an `INSERT … VALUES`.
    pub(in crate::plan) fn of_insert(
        names: &[Name<'_>],
        restrictions: &Restrictions<'_>,
        target: &Target<'_>,
    ) -> MaybeSetCells {
        let columns = names.iter().filter_map(|name| target.table.column(name.as_str()));
        Self::of(columns, target, || named_rows(restrictions, target))
    }

    /// Of an `INSERT … JSON`, which sets all columns.
    pub(in crate::plan) fn of_json(value: &Term<'_>, target: &Target<'_>) -> MaybeSetCells {
        Self::of(target.table.columns.iter(), target, || {
            let key = target
                .table
                .partition_key()
                .iter()
                .chain(target.table.clustering());
            let key = key.map(|column| (column.name.clone(), target.keyspace.resolve(&column.data_type)));
            let rows = JsonKey::of(value, key.collect(), Vec::new(), target.name.clone());
            Some(Writes::Json(rows))
        })
    }

    /// Of an `UPDATE`.
    pub(in crate::plan) fn of_update(
        update: &Update<'_>,
        restrictions: &Restrictions<'_>,
        target: &Target<'_>,
    ) -> MaybeSetCells {
        let column = |assignment: &Assignment<'_>| target.table.column(assignment.column.as_str());
        let at_once = update.assignments.iter().filter_map(|assignment| {
            let column = column(assignment)?;
            let at_once = column.kind == ColumnKind::Regular && !is_deferred(assignment, column);
            at_once.then(|| marker(assignment.value(), column))
        });
        let makes_rows = at_once.clone().next().is_some();
        let mut cells = Self::of(update.assignments.iter().filter_map(column), target, || {
            makes_rows.then(|| named_rows(restrictions, target)).flatten()
        })?;
        cells.needs_one_of = at_once.collect::<Option<_>>().unwrap_or_default();
        Some(cells)
    }

    /// Of a `DELETE`, which sets the columns that it names.
    pub(in crate::plan) fn of_delete(
        delete: &Delete<'_>,
        restrictions: &Restrictions<'_>,
        target: &Target<'_>,
    ) -> MaybeSetCells {
        let column = |deletion: &Deletion<'_>| target.table.column(deletion.column.as_str());
        let makes_rows = delete.deletions.iter().any(|deletion| {
            column(deletion).is_some_and(|column| {
                column.kind == ColumnKind::Regular && !deletes_by_index(deletion, column)
            })
        });
        Self::of(delete.deletions.iter().filter_map(column), target, || {
            makes_rows.then(|| named_rows(restrictions, target)).flatten()
        })
    }

    fn of<'s>(
        columns: impl Iterator<Item = &'s Column>,
        target: &Target<'_>,
        rows: impl FnOnce() -> Option<Writes>,
    ) -> MaybeSetCells {
        if !target.in_transaction {
            return None;
        }
        let columns = columns
            .filter(|column| !column.is_primary_key())
            .map(|column| SetColumn {
                name: column.name.as_str().into(),
                is_static: column.kind == ColumnKind::Static,
                is_multi_cell: column.data_type.is_multi_cell(),
            });
        // Elements of a map are of one column.
        let columns: BTreeSet<SetColumn> = columns.collect();
        let partition = target.table.partition_key().len();
        Some(Box::new(Self {
            columns,
            rows: rows(),
            needs_one_of: Vec::new(),
            key_lengths: (partition, partition + target.table.clustering().len()),
        }))
    }

    /// Whether there are rows: an `UPDATE` of which nothing is set makes none.
    fn has_rows(&self, values: Option<&Values<'_>>) -> bool {
        let is_set = |marker: &Marker| marker.bound(values) != Ok(Value::NotSet);
        self.needs_one_of.is_empty() || self.needs_one_of.iter().any(is_set)
    }
}

/// The marker that a column is set to, if it is one.
fn marker(value: &Term<'_>, column: &Column) -> Option<Marker> {
    let receiver = Receiver {
        name: &column.name,
        cql_type: &CqlType::Blob,
    };
    direct_marker(value).map(|marker| marker_of(marker, receiver))
}

/// The primary keys of the rows that a `WHERE` clause names, column by column.
fn named_rows(restrictions: &Restrictions<'_>, target: &Target<'_>) -> Option<Writes> {
    let table = target.table;
    let partition = restrictions.partition.iter().flatten();
    let named = partition.chain(&restrictions.clustering).map(|restriction| {
        let [column] = restriction.columns.as_slice() else {
            return None;
        };
        let cql_type = target.keyspace.resolve(&column.data_type);
        KeyColumn::of(restriction, cql_type).filter(|_| !restriction.is_multi_column)
    });
    let columns: Vec<KeyColumn> = named.collect::<Option<_>>()?;
    let is_whole = columns.len() == table.partition_key().len() + table.clustering().len();
    is_whole.then(|| {
        Writes::Keys(KeyPlan {
            table: target.name.clone(),
            columns,
            token: None,
        })
    })
}

/// Whether several writes set columns of one name.
pub(super) fn sets_column_twice<'p>(writes: impl Iterator<Item = &'p Plan>) -> bool {
    let mut seen = HashSet::new();
    let mut set = writes.filter_map(set_cells);
    set.any(|(_, cells)| {
        let known = seen.len();
        seen.extend(&cells.columns);
        seen.len() < known + cells.columns.len()
    })
}

/// A write with what it sets.
fn set_cells(plan: &Plan) -> Option<(&Writes, &SetCells)> {
    match &plan.shape {
        Shape::Write(write) => Some((&write.writes, write.set_cells.as_deref()?)),
        _ => None,
    }
}

/// The cells that the writes of one execution set so far.
#[derive(Debug, Default)]
pub(super) struct CellsSet<'p> {
    cells: HashSet<Cell<'p>>,
    keys: Keys,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Cell<'p> {
    /// How many columns are in the key, and how many of them are the partition key: others of the same bytes are another.
    key_lengths: (usize, usize),
    key: Box<[u8]>,
    column: &'p SetColumn,
}

impl<'p> CellsSet<'p> {
    /// Adds what a write sets, as far as its keys are known.
    pub(super) fn add(&mut self, write: &'p Plan, values: Option<&Values<'_>>) -> Result<(), Refusal> {
        let Some((partitions, set)) = set_cells(write) else {
            return Ok(());
        };
        let (statics, regular): (Vec<_>, Vec<_>) = set.columns.iter().partition(|column| column.is_static);
        let (partition, whole) = set.key_lengths;
        self.add_columns(&statics, partitions, (partition, partition), values)?;
        match &set.rows {
            Some(rows) if set.has_rows(values) => {
                self.add_columns(&regular, rows, (partition, whole), values)
            }
            _ => Ok(()),
        }
    }

    fn add_columns(
        &mut self,
        columns: &[&'p SetColumn],
        keys: &Writes,
        key_lengths: (usize, usize),
        values: Option<&Values<'_>>,
    ) -> Result<(), Refusal> {
        self.keys.clear();
        // A key that is refused or computed is another's business.
        if columns.is_empty() || keys.count(values, &mut self.keys).is_err() {
            return Ok(());
        }
        for key in self.keys.iter() {
            for column in columns {
                // Very large transactions are compared in part.
                if self.cells.len() >= Keys::MAX_KEYS {
                    return Ok(());
                }
                let cell = Cell {
                    key_lengths,
                    key: key.bytes.into(),
                    column,
                };
                if !self.cells.insert(cell) {
                    return Err(Refusal::bind(Reason::InvalidStatement, SET_TWICE));
                }
            }
        }
        Ok(())
    }
}

const SET_TWICE: &str = "Transaction contains multiple updates to the same key and fields";
