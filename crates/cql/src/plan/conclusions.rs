//! What follows from the restrictions of a whole `WHERE` clause: whether Cassandra refuses it, reads a range
//! of the ring, or needs an index or `ALLOW FILTERING` (`StatementRestrictions`).
//!
//! The steps and their order are Cassandra's own: what an index serves, what needs filtering and what is
//! refused depends on the order in which it looks.

use crate::syntax::ast::Where;

use super::index::Indexes;
use super::refusal::Refusal;
use super::restriction::{Restriction, Test};
use super::restrictions::{Purpose, Restrictions};
use crate::schema::{Column, DataType};

const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have \
    unpredictable performance. If you want to execute this query despite the performance unpredictability, use ALLOW \
    FILTERING";

impl<'s> Restrictions<'s> {
    pub(super) fn conclude(
        &mut self,
        clause: &Where<'_>,
        purpose: Purpose,
        indexes: Indexes<'s>,
        only_static: bool,
    ) -> Result<(), Refusal> {
        let is_select = matches!(purpose, Purpose::Select { .. });
        let allow_filtering = purpose
            == Purpose::Select {
                allow_filtering: true,
            };
        let custom = self.custom_index(clause, is_select)?;
        let clustering_index = is_select
            && self
                .clustering
                .iter()
                .any(|restriction| indexes.serve(restriction));
        let has_index = is_select
            && (custom.is_some()
                || clustering_index
                || self
                    .partition
                    .iter()
                    .flatten()
                    .any(|restriction| indexes.serve(restriction))
                || self.others.iter().any(|restriction| indexes.serve(restriction)));
        self.conclude_partition(is_select, allow_filtering, has_index)?;
        // What the row filter has to check.
        let filters_partition = self.uses_index || self.partition_needs_filtering();
        if only_static && !self.clustering.is_empty() && purpose != Purpose::Insert {
            let message =
                "Clustering columns cannot be restricted where only static columns are read or written";
            return Err(Refusal::new(message));
        }
        self.conclude_clustering(purpose, allow_filtering, has_index, only_static)?;
        if self.is_key_range && clustering_index {
            self.uses_index = true;
        }
        let filters_clustering = self.uses_index || self.clustering_needs_filtering();
        if !self.others.is_empty() {
            self.conclude_others(is_select, allow_filtering, has_index, indexes)?;
        }
        if self.uses_index && self.has_partition_in() {
            let message =
                "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported";
            return Err(Refusal::new(message));
        }
        let partition = self.partition.iter().flatten().filter(|_| filters_partition);
        let clustering = self.clustering.iter().filter(|_| filters_clustering);
        let filtered = partition.chain(clustering).chain(&self.others);
        let on_token_alone = filters_partition && self.token.is_some();
        let count = filtered.clone().count() + usize::from(on_token_alone);
        let has_filter = count > 0 || custom.is_some() || filters_partition || filters_clustering;
        let needs_filtering = (has_filter && indexes.need_filtering(filtered.clone()))
            || (count == 0 && custom.is_none() && !self.clustering.is_empty());
        let must_not_filter = is_select && !allow_filtering && (self.is_key_range || self.uses_index);
        if must_not_filter && needs_filtering && custom.is_none() && self.needs_permission() {
            return Err(Refusal::new(NEEDS_FILTERING));
        }
        if self.uses_index {
            let chosen = indexes
                .chosen(filtered)
                .into_iter()
                .map(|index| index.name.clone())
                .collect();
            self.indexes = custom.map_or(chosen, |custom| vec![custom]);
        }
        Ok(())
    }

    /// The index of an `expr(index, value)`.
    fn custom_index(&self, clause: &Where<'_>, is_select: bool) -> Result<Option<String>, Refusal> {
        use crate::schema::IndexClass;
        let [expression] = clause.custom_index_expressions.as_slice() else {
            return match clause.custom_index_expressions.get(1) {
                Some(second) => Err(Refusal::at(
                    "Multiple custom index expressions in a single query",
                    second.span,
                )),
                None => Ok(None),
            };
        };
        if !is_select {
            return Err(Refusal::at(
                "Custom index expressions cannot be used in this statement",
                expression.span,
            ));
        }
        let name = expression.index.name.as_str();
        match self.table.indexes.get(name).map(|index| &index.class) {
            None => Err(Refusal::at(
                format!("Invalid index expression, index {name} not found"),
                expression.span,
            )),
            Some(IndexClass::Custom(_)) => Ok(Some(name.to_owned())),
            Some(_) => Err(Refusal::at(
                format!("Index {name} does not support custom expressions"),
                expression.span,
            )),
        }
    }

    /// `StatementRestrictions.processPartitionKeyRestrictions`.
    fn conclude_partition(
        &mut self,
        is_select: bool,
        allow_filtering: bool,
        has_index: bool,
    ) -> Result<(), Refusal> {
        if !is_select {
            return self.check_written_partition();
        }
        if self.is_on_token() {
            self.is_key_range = true;
        }
        let restricted = self.partition.iter().flatten().count();
        if restricted == 0 && self.token.is_none() {
            self.is_key_range = true;
            self.uses_index = has_index;
        }
        if self.partition_needs_filtering() {
            if !allow_filtering && !has_index && self.needs_permission() {
                return Err(Refusal::new(NEEDS_FILTERING));
            }
            self.is_key_range = true;
            self.uses_index = has_index;
        }
        Ok(())
    }

    fn check_written_partition(&self) -> Result<(), Refusal> {
        if self.is_on_token() || (self.token.is_some() && self.partition.iter().all(Option::is_none)) {
            return Err(Refusal::new(
                "The token function cannot be used in WHERE clauses of writes",
            ));
        }
        let missing = self.partition.iter().zip(self.table.partition_key());
        let missing: Vec<&str> = missing
            .filter(|(slot, _)| slot.is_none())
            .map(|(_, column)| column.name.as_str())
            .collect();
        if !missing.is_empty() {
            let message = format!("Some partition key parts are missing: {}", missing.join(", "));
            return Err(Refusal::new(message));
        }
        if self.partition.iter().flatten().any(Restriction::is_slice) {
            return Err(Refusal::new(
                "Only EQ and IN relation are supported on the partition key of writes",
            ));
        }
        Ok(())
    }

    /// `StatementRestrictions.processClusteringColumnsRestrictions`.
    fn conclude_clustering(
        &mut self,
        purpose: Purpose,
        allow_filtering: bool,
        has_index: bool,
        only_static: bool,
    ) -> Result<(), Refusal> {
        if matches!(purpose, Purpose::Insert | Purpose::Update) {
            if self.clustering.iter().any(Restriction::is_slice) {
                return Err(Refusal::new(
                    "Slice restrictions are not supported on the clustering columns of writes",
                ));
            }
            // A row of a compact table may have a part of its clustering columns only.
            if self.table.compact_storage && !self.clustering.is_empty() {
                return Ok(());
            }
            let missing: Vec<&str> = self
                .unrestricted_clustering()
                .map(|column| column.name.as_str())
                .collect();
            if !only_static && !missing.is_empty() {
                return Err(Refusal::new(format!(
                    "Some clustering keys are missing: {}",
                    missing.join(", ")
                )));
            }
            return Ok(());
        }
        if self.clustering.iter().any(Restriction::is_contains) && !has_index && !allow_filtering {
            let message =
                "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering";
            return Err(Refusal::new(message));
        }
        if !self.clustering.is_empty() && self.clustering_needs_filtering() {
            if has_index {
                self.uses_index = true;
            } else if !allow_filtering {
                let restricted = self
                    .clustering
                    .iter()
                    .flat_map(|restriction| &restriction.columns);
                for (restricted, column) in restricted.zip(self.table.clustering()) {
                    if restricted.name != column.name {
                        return Err(Refusal::new(format!(
                            "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
                            restricted.name, column.name
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    fn conclude_others(
        &mut self,
        is_select: bool,
        allow_filtering: bool,
        has_index: bool,
        indexes: Indexes<'_>,
    ) -> Result<(), Refusal> {
        if !is_select {
            let names: Vec<&str> = self
                .others
                .iter()
                .map(|other| other.columns[0].name.as_str())
                .collect();
            let message = format!(
                "Non PRIMARY KEY columns found in where clause: {}",
                names.join(", ")
            );
            return Err(Refusal::new(message));
        }
        if self.is_ann() {
            self.check_ann(indexes)?;
        } else {
            let is_vector = |column: &Column| matches!(column.data_type.thawed(), DataType::Vector(..));
            let indexed_vector = self
                .others
                .iter()
                .map(|other| other.columns[0])
                .find(|column| is_vector(column));
            if indexed_vector.is_some_and(|column| indexes.depends_on(&column.name)) {
                return Err(Refusal::new("Vector indexes only support ANN queries"));
            }
        }
        if has_index {
            self.uses_index = true;
        } else if !allow_filtering && self.needs_permission() {
            return Err(Refusal::new(NEEDS_FILTERING));
        }
        Ok(())
    }

    /// An ANN ordering needs an index on its column, and on every other column that is restricted.
    fn check_ann(&self, indexes: Indexes<'_>) -> Result<(), Refusal> {
        let ann = self
            .others
            .iter()
            .find(|other| matches!(other.test, Test::Ann))
            .map(|other| other.columns[0]);
        let Some(ann) = ann else { return Ok(()) };
        use crate::syntax::ast::NativeType::Float;
        let is_float_vector =
            matches!(&ann.data_type, DataType::Vector(element, _) if **element == DataType::Native(Float));
        if !is_float_vector {
            return Err(Refusal::new(
                "ANN ordering is only supported on float vector indexes",
            ));
        }
        if !indexes.depends_on(&ann.name) {
            return Err(Refusal::new(
                "ANN ordering by vector requires the column to be indexed",
            ));
        }
        let refusal = || {
            Err(Refusal::new(
                "ANN ordering by vector requires all restricted column(s) to be indexed",
            ))
        };
        if self.partition_needs_filtering() {
            return refusal();
        }
        let others = self
            .others
            .iter()
            .filter(|other| !matches!(other.test, Test::Ann));
        let unindexed = |restriction: &&Restriction<'_>| {
            restriction
                .columns
                .iter()
                .any(|column| !indexes.depends_on(&column.name))
        };
        let complete_key = self.partition.iter().all(Option::is_some);
        let clustering_is_fine = complete_key && !self.clustering_needs_filtering();
        let clustering_unindexed = self.clustering.iter().any(|restriction| unindexed(&restriction));
        if others.clone().any(|other| unindexed(&other)) || (clustering_unindexed && !clustering_is_fine) {
            return refusal();
        }
        Ok(())
    }
}
