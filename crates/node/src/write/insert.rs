//! INSERT: one mutation of one row, or of the static columns of a partition.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_cql::schema::ColumnKind;
use cqlens_cql::syntax::ast::{Insert, InsertSource, Name, Term};

use super::assignment::put;
use super::mutation::{CellChange, Mutation, PartitionChange};
use super::targets::missing_key;
use super::times::Times;
use crate::bind::{self, Bound};
use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::{Column, Layout};
use crate::store::{ClusteringKey, Liveness};

/// The mutation of an INSERT.
///
/// # Errors
/// What Cassandra refuses, in its words, and what this node does not have.
pub(super) fn insert(
    insert: &Insert<'_>,
    layout: &Arc<Layout>,
    execution: &Execution<'_>,
) -> Result<Vec<Mutation>, Failure> {
    let InsertSource::Values { columns, values } = &insert.source else {
        return Err(Failure::invalid(
            "INSERT JSON is not supported by this stand-in node",
        ));
    };
    if layout.is_counter {
        return Err(Failure::invalid(
            "INSERT statements are not allowed on counter tables, use UPDATE instead",
        ));
    }
    if columns.len() != values.len() {
        return Err(Failure::invalid("Unmatched column names/values"));
    }
    let given = Given {
        columns,
        values,
        execution,
    };
    let key = given.key(layout.partition_key(), "partition")?;
    let place = given.place(layout)?;
    let times = Times::of(&insert.using, layout, execution)?;
    let cells = given.cells(layout)?;
    let liveness = Some(Liveness {
        timestamp: times.timestamp,
        expiry: times.expiry,
    });
    let change = PartitionChange::Row {
        place,
        liveness,
        cells,
        expiry: times.expiry,
    };
    Ok(vec![Mutation {
        layout: Arc::clone(layout),
        key,
        change,
        timestamp: times.timestamp,
    }])
}

/// The columns and values of an INSERT.
struct Given<'a> {
    columns: &'a [Name<'a>],
    values: &'a [Term<'a>],
    execution: &'a Execution<'a>,
}

impl Given<'_> {
    /// The values of key columns, all of which must be there.
    fn key(&self, columns: &[Column], part: &str) -> Result<Vec<Bytes>, Failure> {
        let place = |column: &Column| self.columns.iter().position(|name| name.as_str() == column.name);
        let missing: Vec<_> = columns.iter().filter(|column| place(column).is_none()).collect();
        if !missing.is_empty() {
            return Err(missing_key(&missing, part));
        }
        let value = |column: &Column| {
            let place = place(column).unwrap_or(0);
            bind::term(&self.values[place], &column.cql_type, self.execution)?.required(&column.name)
        };
        let key: Vec<Bytes> = columns.iter().map(value).collect::<Result<_, _>>()?;
        match (&key[..], part) {
            ([only], "partition") if only.is_empty() => Err(Failure::invalid("Key may not be empty")),
            _ => Ok(key),
        }
    }

    /// The row that is written. Static columns alone need no clustering column.
    fn place(&self, layout: &Layout) -> Result<Option<ClusteringKey>, Failure> {
        let writes_rows = self.columns.iter().any(|name| {
            layout
                .column(name.as_str())
                .is_ok_and(|column| column.kind == ColumnKind::Regular || column.is_clustering())
        });
        match writes_rows || !layout.has_static() {
            true => Ok(Some(
                layout.clustering_key(self.key(layout.clustering(), "clustering")?),
            )),
            false => Ok(None),
        }
    }

    /// What happens to the cells of the other columns.
    fn cells(&self, layout: &Layout) -> Result<Vec<(usize, CellChange)>, Failure> {
        let mut cells = Vec::new();
        for (name, value) in self.columns.iter().zip(self.values) {
            let column = layout.column(name.as_str())?;
            if !column.is_primary_key() {
                let change = match bind::term(value, &column.cql_type, self.execution)? {
                    Bound::NotSet => continue,
                    Bound::Null => CellChange::Delete,
                    Bound::Value(value) => put(column, value),
                };
                cells.push((column.index, change));
            }
        }
        Ok(cells)
    }
}
