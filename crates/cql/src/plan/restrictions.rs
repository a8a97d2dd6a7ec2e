//! What a whole `WHERE` clause says of a table's columns, and what that means for keys, rows and slices.

use super::refusal::Refusal;
use super::restriction::{Restriction, Slice, Test};
use super::term::CompiledTerm;
use crate::schema::{Column, Table, is_virtual};

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
    /// Why Cassandra refuses the clause up to 5.0, where 6.0 does not.
    pub(super) refused_before_6: Option<Refusal>,
}

/// How the token is restricted.
#[derive(Debug, Clone)]
pub(super) enum TokenTest {
    Equal(CompiledTerm),
    Slice(Slice),
}

impl<'s> Restrictions<'s> {
    /// Tables that answer from memory may be filtered without being asked for it.
    pub(super) fn needs_permission(&self) -> bool {
        !(is_virtual(&self.table.keyspace) && self.table.name != "system_logs")
    }

    pub(super) fn is_ann(&self) -> bool {
        self.others.iter().any(|other| matches!(other.test, Test::Ann))
    }

    /// Whether the token decides which part of the ring is read: not where all key columns are named beside
    /// it.
    pub(super) fn is_on_token(&self) -> bool {
        let restricted = self.partition.iter().flatten().count();
        self.token.is_some() && (self.partition_needs_filtering() || restricted < self.partition.len())
    }

    /// Whether some but not all key columns are restricted, or one in a way that names no key.
    pub(super) fn partition_needs_filtering(&self) -> bool {
        let restricted = self.partition.iter().flatten();
        let count = restricted.clone().count();
        count > 0 && (count < self.partition.len() || restricted.clone().any(|one| !one.is_equality()))
    }

    pub(super) fn clustering_needs_filtering(&self) -> bool {
        self.first_filtered_clustering().is_some() || self.clustering.iter().any(Restriction::is_contains)
    }

    /// The first clustering restriction that leaves a gap, or that no slice of a partition can express.
    pub(super) fn first_filtered_clustering(&self) -> Option<usize> {
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

    pub(super) fn unrestricted_clustering(&self) -> impl Iterator<Item = &'s Column> {
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
