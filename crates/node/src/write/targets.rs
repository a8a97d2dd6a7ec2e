//! The partitions, rows and stretches of rows that the `WHERE` clause of a write names.

use bytes::Bytes;
use cqlens_cql::schema::ColumnKind;
use cqlens_cql::syntax::ast::Relation;

use super::mutation::{CellChange, PartitionChange};
use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::{Column, Layout};
use crate::restriction::{Restrictions, Source};
use crate::store::ClusteringKey;

/// What the `WHERE` clause of an UPDATE or DELETE names.
pub(super) struct Targets {
    /// UPDATE or DELETE.
    statement: &'static str,
    /// The partition keys.
    pub(super) keys: Vec<Vec<Bytes>>,
    restrictions: Restrictions,
}

impl Targets {
    /// Reads the clause.
    ///
    /// # Errors
    /// Clauses that do not name partitions, and relations that no write may have.
    pub(super) fn of(
        statement: &'static str,
        relations: &[Relation<'_>],
        layout: &Layout,
        execution: &Execution<'_>,
    ) -> Result<Targets, Failure> {
        let restrictions = Restrictions::of(relations, layout, execution)?;
        let Source::Keys(keys) = &restrictions.source else {
            let is_named = |column: &&Column| {
                relations.iter().any(|relation| {
                    relation
                        .subject
                        .columns()
                        .iter()
                        .any(|name| *name == *column.name)
                })
            };
            let missing: Vec<_> = layout
                .partition_key()
                .iter()
                .filter(|column| !is_named(column))
                .collect();
            return Err(match missing.is_empty() {
                true if restrictions.restricts_token() => Failure::invalid(format!(
                    "The token function cannot be used in WHERE clauses for {statement} statements"
                )),
                true => Failure::invalid(format!(
                    "Only EQ and IN relation are supported on the partition key (unless you use the token() function) \
                     for {statement} statements"
                )),
                false => missing_key(&missing, "partition"),
            });
        };
        let others = restrictions.other_columns(layout);
        if !others.is_empty() {
            let others = others.join(", ");
            return Err(Failure::invalid(format!(
                "Non PRIMARY KEY columns found in where clause: {others} "
            )));
        }
        restrictions.refuse_gap(layout)?;
        if !restrictions.filters.is_empty() {
            return Err(Failure::invalid(
                "These relations are not supported in a write by this stand-in node",
            ));
        }
        Ok(Targets {
            statement,
            keys: keys.clone(),
            restrictions,
        })
    }

    /// Where cells are written: in the rows that are named one by one, or in the partition alone.
    ///
    /// # Errors
    /// Clustering columns that are missing.
    pub(super) fn places(
        &self,
        cells: &[(usize, CellChange)],
        layout: &Layout,
    ) -> Result<Vec<Option<ClusteringKey>>, Failure> {
        let is_static = |(index, _): &(usize, CellChange)| layout.columns[*index].kind == ColumnKind::Static;
        let names_rows = layout.clustering_len == 0 || self.restrictions.restricts_clustering;
        if !names_rows && !cells.is_empty() && cells.iter().all(is_static) {
            return Ok(vec![None]);
        }
        if let Some(rows) = self.restrictions.rows(layout) {
            return Ok(rows
                .into_iter()
                .map(|clustering| Some(layout.clustering_key(clustering)))
                .collect());
        }
        if self.statement == "DELETE" && self.restrictions.restricts_clustering {
            return Err(Failure::invalid(
                "Range deletions are not supported for specific columns",
            ));
        }
        let fixed = self.restrictions.fixed_clustering();
        let missing: Vec<_> = layout.clustering().iter().skip(fixed).collect();
        Err(missing_key(&missing, "clustering"))
    }

    /// The tombstones of a DELETE of whole rows: on rows, on stretches of rows, or on the partition.
    pub(super) fn deletions(&self, layout: &Layout) -> Vec<PartitionChange> {
        if !self.restrictions.restricts_clustering {
            return vec![PartitionChange::DeletePartition];
        }
        match self.restrictions.rows(layout) {
            Some(rows) => rows
                .into_iter()
                .map(|row| PartitionChange::DeleteRow(layout.clustering_key(row)))
                .collect(),
            None => self
                .restrictions
                .stretches
                .iter()
                .cloned()
                .map(PartitionChange::DeleteStretch)
                .collect(),
        }
    }
}

/// Key columns that a write does not name.
pub(super) fn missing_key(columns: &[&Column], part: &str) -> Failure {
    let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    let part = if part == "partition" {
        "partition key parts"
    } else {
        "clustering keys"
    };
    Failure::invalid(format!("Some {part} are missing: {}", names.join(", ")))
}
