//! INSERT, UPDATE and DELETE as mutations.
//!
//! Statements become mutations before anything is written: a batch is written whole or not at all.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_cql::syntax::ast::{Delete, Modification, Update};

use super::assignment::{assignment, deletion};
use super::insert::insert;
use super::mutation::{Mutation, PartitionChange};
use super::targets::Targets;
use super::times::Times;
use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::Layout;

/// The mutations of a statement: one for each partition and row, or stretch of rows, that it names.
///
/// # Errors
/// What Cassandra refuses, in its words, and what this node does not have.
pub(crate) fn mutations(
    modification: &Modification<'_>,
    layout: &Arc<Layout>,
    execution: &Execution<'_>,
) -> Result<Vec<Mutation>, Failure> {
    match modification {
        Modification::Insert(statement) => insert(statement, layout, execution),
        Modification::Update(statement) => update(statement, layout, execution),
        Modification::Delete(statement) => delete(statement, layout, execution),
    }
}

fn update(
    update: &Update<'_>,
    layout: &Arc<Layout>,
    execution: &Execution<'_>,
) -> Result<Vec<Mutation>, Failure> {
    let times = Times::of(&update.using, layout, execution)?;
    let mut cells = Vec::new();
    for assigned in &update.assignments {
        let column = layout.column(assigned.column.as_str())?;
        if column.is_primary_key() {
            return Err(Failure::invalid(format!(
                "PRIMARY KEY part {} found in SET part",
                column.name
            )));
        }
        if let Some(change) = assignment(assigned, column, execution)? {
            cells.push((column.index, change));
        }
    }
    let targets = Targets::of("UPDATE", &update.where_clause.relations, layout, execution)?;
    let places = targets.places(&cells, layout)?;
    let mut mutations = Vec::new();
    for key in &targets.keys {
        for place in &places {
            let change = PartitionChange::Row {
                place: place.clone(),
                liveness: None,
                cells: cells.clone(),
                expiry: times.expiry,
            };
            let layout = Arc::clone(layout);
            mutations.push(Mutation {
                layout,
                key: key.clone(),
                change,
                timestamp: times.timestamp,
            });
        }
    }
    Ok(mutations)
}

fn delete(
    delete: &Delete<'_>,
    layout: &Arc<Layout>,
    execution: &Execution<'_>,
) -> Result<Vec<Mutation>, Failure> {
    let timestamp = Times::of(&delete.using, layout, execution)?.timestamp;
    let mut cells = Vec::new();
    for deleted in &delete.deletions {
        let column = layout.column(deleted.column.as_str())?;
        if column.is_primary_key() {
            return Err(Failure::invalid(format!(
                "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
                column.name
            )));
        }
        cells.push((column.index, deletion(deleted, column, execution)?));
    }
    let targets = Targets::of("DELETE", &delete.where_clause.relations, layout, execution)?;
    let changes = if cells.is_empty() {
        targets.deletions(layout)
    } else {
        let row = |place| PartitionChange::Row {
            place,
            liveness: None,
            cells: cells.clone(),
            expiry: None,
        };
        targets.places(&cells, layout)?.into_iter().map(row).collect()
    };
    let mutation = |key: &Vec<Bytes>, change: &PartitionChange| Mutation {
        layout: Arc::clone(layout),
        key: key.clone(),
        change: change.clone(),
        timestamp,
    };
    Ok(targets
        .keys
        .iter()
        .flat_map(|key| changes.iter().map(move |change| mutation(key, change)))
        .collect())
}
