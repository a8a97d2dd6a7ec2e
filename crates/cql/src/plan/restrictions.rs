//! A whole `WHERE` clause under a schema: what Cassandra's `StatementRestrictions` concludes from it.
//!
//! The steps and their order are Cassandra's own: what an index serves, what needs filtering and what is refused
//! depends on the order in which it looks.

use crate::syntax::ast::{Comparand, Relation, RelationOperator, Subject, Where};

use super::compile::Receiver;
use super::index::Indexes;
use super::refusal::Refusal;
use super::restriction::{Restriction, Slice, Test, Translator};
use super::term::Term;
use crate::schema::{Column, ColumnKind, DataType, Table, is_virtual};

/// What a statement does with the rows that its `WHERE` clause names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Select { allow_filtering: bool },
    Insert,
    Update,
    Delete,
}

/// What a `WHERE` clause says of a table's columns, and what follows.
#[derive(Debug, Clone)]
pub(super) struct Restrictions<'s> {
    pub(super) table: &'s Table,
    /// By position in the partition key.
    pub(super) partition: Vec<Option<Restriction<'s>>>,
    pub(super) token: Option<TokenTest>,
    /// In the order of their first columns.
    pub(super) clustering: Vec<Restriction<'s>>,
    /// Of static and regular columns.
    pub(super) others: Vec<Restriction<'s>>,
    /// Reads a range of the ring instead of named partitions.
    pub(super) is_key_range: bool,
    pub(super) uses_index: bool,
    pub(super) indexes: Vec<String>,
}

/// How the token is restricted.
#[derive(Debug, Clone)]
pub(super) enum TokenTest {
    Equal(Term),
    Slice(Slice),
}

const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have \
    unpredictable performance. If you want to execute this query despite the performance unpredictability, use ALLOW \
    FILTERING";

impl<'s> Restrictions<'s> {
    /// Reads a `WHERE` clause.
    ///
    /// `ann` is the column of an `ORDER BY … ANN OF`; `only_static` says that all columns that are read or written are
    /// static.
    pub(super) fn of(
        translator: &Translator<'s>,
        clause: &Where<'_>,
        purpose: Purpose,
        ann: Option<&'s Column>,
        only_static: bool,
    ) -> Result<Self, Refusal> {
        let mut restrictions = Self {
            table: translator.table,
            partition: vec![None; translator.table.partition_key().len()],
            token: None,
            clustering: Vec::new(),
            others: Vec::new(),
            is_key_range: false,
            uses_index: false,
            indexes: Vec::new(),
        };
        let indexes = Indexes {
            table: translator.table,
            keyspace: translator.keyspace,
        };
        for relation in &clause.relations {
            restrictions.add_relation(translator, relation, purpose, indexes)?;
        }
        if let Some(column) = ann {
            let restriction = Restriction {
                columns: vec![column],
                is_multi_column: false,
                test: Test::Ann,
            };
            merge(&mut restrictions.others, restriction, translator.table)?;
        }
        restrictions.conclude(clause, purpose, indexes, only_static)?;
        Ok(restrictions)
    }

    fn add_relation(
        &mut self,
        translator: &Translator<'s>,
        relation: &Relation<'_>,
        purpose: Purpose,
        indexes: Indexes<'s>,
    ) -> Result<(), Refusal> {
        if let Subject::Token(names) = &relation.subject {
            return self.add_token(translator, names, relation);
        }
        let restriction = translator.restriction(relation)?;
        let is_write = matches!(purpose, Purpose::Update | Purpose::Delete);
        if restriction.is_contains() && is_write && !matches!(relation.subject, Subject::Element(..)) {
            return Err(Refusal::at(
                "Cannot use CONTAINS with this statement",
                relation.span,
            ));
        }
        if matches!(restriction.test, Test::IsNotNull) {
            return Err(Refusal::at("Unsupported restriction: IS NOT NULL", relation.span));
        }
        let is_select = matches!(purpose, Purpose::Select { .. });
        if matches!(restriction.test, Test::Like) && !(is_select && indexes.serve(&restriction)) {
            let message = "LIKE restriction is only supported on properly indexed columns";
            return Err(Refusal::at(message, relation.span));
        }
        match restriction.kind() {
            ColumnKind::PartitionKey => self.add_partition(restriction),
            ColumnKind::Clustering(_) => {
                let allow_filtering = purpose
                    == Purpose::Select {
                        allow_filtering: true,
                    };
                let may_filter = allow_filtering || (is_select && indexes.serve(&restriction));
                self.add_clustering(restriction, may_filter)
            }
            ColumnKind::Static | ColumnKind::Regular => merge(&mut self.others, restriction, self.table),
        }
    }

    fn add_partition(&mut self, restriction: Restriction<'s>) -> Result<(), Refusal> {
        let name = &restriction.columns[0].name;
        let position = self
            .table
            .partition_key()
            .iter()
            .position(|column| column.name == *name)
            .unwrap_or(0);
        let slot = &mut self.partition[position];
        *slot = Some(match slot.take() {
            Some(existing) => existing.and(restriction)?,
            None => restriction,
        });
        Ok(())
    }

    /// `ClusteringColumnRestrictions.mergeWith`.
    fn add_clustering(&mut self, restriction: Restriction<'s>, may_filter: bool) -> Result<(), Refusal> {
        let last = self
            .clustering
            .last()
            .map(|last| (last.positions(self.table).0, last.is_slice()));
        let (first, _) = restriction.positions(self.table);
        let is_slice = restriction.is_slice();
        let name = restriction.columns[0].name.clone();
        merge(&mut self.clustering, restriction, self.table)?;
        if let (Some((last_first, last_is_slice)), false) = (last, may_filter) {
            let after_slice = last_is_slice && first > last_first;
            let slice_before = is_slice && first < last_first;
            if after_slice || slice_before {
                let message = "cannot be restricted (preceding column is restricted by a non-EQ relation)";
                return Err(Refusal::new(format!("Clustering column \"{name}\" {message}")));
            }
        }
        Ok(())
    }

    fn add_token(
        &mut self,
        translator: &Translator<'s>,
        names: &[crate::syntax::ast::Name<'_>],
        relation: &Relation<'_>,
    ) -> Result<(), Refusal> {
        for name in names {
            translator.column(name.as_str(), name.span)?;
        }
        let key = self.table.partition_key();
        let in_order =
            names.len() == key.len() && names.iter().zip(key).all(|(name, column)| *name == *column.name);
        if !in_order {
            let message =
                "The token() function must be applied to all partition key components, in their order";
            return Err(Refusal::at(message, relation.span));
        }
        let Comparand::One(term) = &relation.comparand else {
            return Err(Refusal::at(
                "the operator cannot be used with the token function",
                relation.span,
            ));
        };
        let receiver = Receiver {
            name: "partition key token",
            cql_type: translator.compiler.token_type,
        };
        let term = translator.compiler.term(term, receiver)?;
        let test = match relation.operator {
            RelationOperator::Equal => TokenTest::Equal(term),
            RelationOperator::LessThan
            | RelationOperator::LessOrEqual
            | RelationOperator::GreaterThan
            | RelationOperator::GreaterOrEqual => TokenTest::Slice(Slice::of(relation.operator, term, false)),
            _ => {
                return Err(Refusal::at(
                    "the operator cannot be used with the token function",
                    relation.span,
                ));
            }
        };
        self.token = Some(match (self.token.take(), test) {
            (None, test) => test,
            (Some(TokenTest::Slice(mine)), TokenTest::Slice(theirs)) => {
                TokenTest::Slice(mine.and(theirs, "token")?)
            }
            _ => {
                let message =
                    "the token cannot be restricted by more than one relation if it includes an Equal";
                return Err(Refusal::at(message, relation.span));
            }
        });
        Ok(())
    }

    fn conclude(
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

    /// Tables that answer from memory may be filtered without being asked for it.
    fn needs_permission(&self) -> bool {
        !(is_virtual(&self.table.keyspace) && self.table.name != "system_logs")
    }

    fn is_ann(&self) -> bool {
        self.others.iter().any(|other| matches!(other.test, Test::Ann))
    }

    /// Whether the token decides which part of the ring is read: not where all key columns are named beside it.
    pub(super) fn is_on_token(&self) -> bool {
        let restricted = self.partition.iter().flatten().count();
        self.token.is_some() && (self.partition_needs_filtering() || restricted < self.partition.len())
    }

    /// Whether some but not all key columns are restricted, or one in a way that names no key.
    fn partition_needs_filtering(&self) -> bool {
        let restricted = self.partition.iter().flatten();
        let count = restricted.clone().count();
        count > 0 && (count < self.partition.len() || restricted.clone().any(|one| !one.is_equality()))
    }

    fn clustering_needs_filtering(&self) -> bool {
        self.first_filtered_clustering().is_some() || self.clustering.iter().any(Restriction::is_contains)
    }

    /// The first clustering restriction that leaves a gap, or that no slice of a partition can express.
    fn first_filtered_clustering(&self) -> Option<usize> {
        let mut next = 0;
        for (index, restriction) in self.clustering.iter().enumerate() {
            let (first, last) = restriction.positions(self.table);
            if restriction.is_contains() || matches!(restriction.test, Test::Like) || first != next {
                return Some(index);
            }
            if !restriction.is_slice() {
                next = last + 1;
            }
        }
        None
    }

    /// The clustering restrictions that say which slices or rows of a partition are read.
    pub(super) fn sliced_clustering(&self) -> &[Restriction<'s>] {
        &self.clustering[..self.first_filtered_clustering().unwrap_or(self.clustering.len())]
    }

    fn unrestricted_clustering(&self) -> impl Iterator<Item = &'s Column> {
        let restricted = |name: &str| {
            self.clustering
                .iter()
                .flat_map(|restriction| &restriction.columns)
                .any(|column| column.name == name)
        };
        self.table
            .clustering()
            .iter()
            .filter(move |column| !restricted(&column.name))
    }

    pub(super) fn has_partition_in(&self) -> bool {
        !self.is_on_token() && self.partition.iter().flatten().any(Restriction::is_in)
    }

    pub(super) fn has_clustering_in(&self) -> bool {
        self.clustering.iter().any(Restriction::is_in)
    }

    /// Whether every primary key column is restricted by `=` or `IN`.
    pub(super) fn names_rows(&self) -> bool {
        let all_equal = |restriction: &Option<Restriction<'_>>| {
            restriction.as_ref().is_some_and(Restriction::is_equality)
        };
        !self.is_on_token()
            && self.partition.iter().all(all_equal)
            && self.unrestricted_clustering().next().is_none()
            && self.clustering.iter().all(Restriction::is_equality)
    }

    /// Whether rows are read by slices: some clustering column is not restricted by `=` or `IN`.
    pub(super) fn is_column_range(&self) -> bool {
        self.unrestricted_clustering().next().is_some()
            || !self.clustering.iter().all(Restriction::is_equality)
    }

    /// Whether a column is restricted by `=`.
    pub(super) fn is_equal(&self, column: &Column) -> bool {
        let all = self
            .partition
            .iter()
            .flatten()
            .chain(&self.clustering)
            .chain(&self.others);
        let mut of_column =
            all.filter(|restriction| restriction.columns.iter().any(|one| one.name == column.name));
        of_column.any(|restriction| matches!(restriction.test, Test::Equal(_)))
    }
}

/// Adds a restriction, merged with those that share a column with it.
fn merge<'s>(
    into: &mut Vec<Restriction<'s>>,
    restriction: Restriction<'s>,
    table: &Table,
) -> Result<(), Refusal> {
    let shares = |one: &Restriction<'_>, other: &Restriction<'_>| {
        one.columns
            .iter()
            .any(|column| other.columns.iter().any(|mine| mine.name == column.name))
    };
    let mut merged = restriction;
    while let Some(index) = into.iter().position(|existing| shares(existing, &merged)) {
        merged = into.remove(index).and(merged)?;
    }
    into.push(merged);
    into.sort_by(|left, right| match left.kind() {
        ColumnKind::Clustering(_) => left.positions(table).0.cmp(&right.positions(table).0),
        _ => left.columns[0].name.cmp(&right.columns[0].name),
    });
    Ok(())
}
