//! What a `WHERE` clause asks for: which partitions, which stretches of them, and what is left to filter.
//!
//! The rules follow Cassandra's `StatementRestrictions`: equality or IN on the whole partition key names
//! partitions, equality on clustering columns and at most one slice after it name stretches, all else is
//! filtering or an index.

mod filter;
mod predicate;
mod relation;
mod slices;

use std::ops::RangeInclusive;

use bytes::Bytes;
use cqlens_cql::syntax::ast::Relation;

use super::execution::Execution;
use super::failure::{self, Failure};
use super::layout::{Column, Layout};
use super::store::{Stretch, order};

use filter::Filter;
use predicate::Predicate;
pub(super) use predicate::literal_text;
use relation::Restricted;
use slices::Slices;

/// A `WHERE` clause against a table.
#[derive(Debug)]
pub(super) struct Restrictions {
    /// Which partitions are read.
    pub(super) source: Source,
    /// Which parts of each partition, sorted and apart from each other.
    pub(super) stretches: Vec<Stretch>,
    /// What each row has to pass.
    pub(super) filters: Vec<Filter>,
    /// Whether Cassandra would ask for ALLOW FILTERING.
    pub(super) needs_filtering: bool,
    /// Whether an index finds the rows.
    pub(super) uses_index: bool,
    /// Values of the first clustering columns, as far as equality and IN name them; several after an IN.
    named_clustering: Vec<Vec<Bytes>>,
    /// Whether any clustering column is restricted.
    pub(super) restricts_clustering: bool,
    conditions: Vec<Restricted>,
}

/// Which partitions are read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// These keys, each once, in the order of their values.
    Keys(Vec<Vec<Bytes>>),
    /// All partitions with tokens in a range; it may be empty.
    Ring(RangeInclusive<i64>),
}

impl Restrictions {
    /// Reads a `WHERE` clause.
    ///
    /// # Errors
    /// Columns that there are not, values that are none of their type, and combinations that Cassandra
    /// refuses.
    pub(super) fn of(
        relations: &[Relation<'_>],
        layout: &Layout,
        execution: &Execution<'_>,
    ) -> Result<Restrictions, Failure> {
        let relations: Vec<Relation<'_>> = relations.iter().flat_map(relation::without_between).collect();
        let conditions = relations
            .iter()
            .map(|relation| Restricted::of(relation, layout, execution));
        let conditions: Vec<Restricted> = conditions.collect::<Result<_, _>>()?;
        refuse_doubles(&conditions, layout)?;
        let mut filters: Vec<Filter> = Vec::new();
        let source = source(&conditions, layout, &mut filters)?;
        let names_keys = matches!(source, Source::Keys(_));

        let on_clustering = |condition: &&Restricted| layout.columns[condition.columns[0]].is_clustering();
        let clustering: Vec<&Restricted> = conditions.iter().filter(on_clustering).collect();
        let slices = Slices::of(&clustering, layout, names_keys);
        filters.extend(slices.checked.iter().map(|condition| condition.filter()));
        // What was to be filtered so far, filters beside a slice aside, needs permission.
        let mut to_allow: Vec<Filter> = slices
            .left_over
            .iter()
            .map(|condition| condition.filter())
            .collect();
        for condition in &conditions {
            let column = &layout.columns[condition.columns[0]];
            let is_other = !column.is_primary_key() || (column.is_partition_key() && !names_keys);
            if is_other && !matches!(condition.predicate, Predicate::Token(_)) {
                to_allow.push(condition.filter());
            }
        }
        let uses_index = to_allow.iter().any(|filter| filter.is_indexed(layout));
        let needs_filtering = to_allow.len() > usize::from(uses_index);
        filters.extend(to_allow);
        Ok(Restrictions {
            source,
            stretches: slices.stretches(),
            filters,
            needs_filtering,
            uses_index,
            named_clustering: slices.named,
            restricts_clustering: !clustering.is_empty(),
            conditions,
        })
    }

    /// The clustering values of the rows that are named one by one; `None` where stretches are.
    pub(super) fn rows(&self, layout: &Layout) -> Option<Vec<Vec<Bytes>>> {
        let are_whole = self
            .named_clustering
            .iter()
            .all(|values| values.len() == layout.clustering_len);
        are_whole.then(|| self.named_clustering.clone())
    }

    /// The columns outside the primary key that the clause names.
    pub(super) fn other_columns(&self, layout: &Layout) -> Vec<String> {
        let columns = self.conditions.iter().flat_map(|condition| &condition.columns);
        let others = columns
            .map(|index| &layout.columns[*index])
            .filter(|column| !column.is_primary_key());
        others.map(|column| column.name.clone()).collect()
    }

    /// Whether the clause restricts the token.
    pub(super) fn restricts_token(&self) -> bool {
        self.conditions
            .iter()
            .any(|condition| matches!(condition.predicate, Predicate::Token(_)))
    }

    /// How many clustering columns, from the first on, have one value.
    pub(super) fn fixed_clustering(&self) -> usize {
        match &self.named_clustering[..] {
            [only] => only.len(),
            _ => 0,
        }
    }

    /// The relations that are not on the partition key, as CQL with their values, each behind `AND`.
    pub(super) fn text_beside_key(&self, layout: &Layout) -> String {
        let is_beside = |condition: &&Restricted| !layout.columns[condition.columns[0]].is_partition_key();
        let names_keys = matches!(self.source, Source::Keys(_));
        let shown = self
            .conditions
            .iter()
            .filter(|condition| is_beside(condition) || !names_keys);
        shown
            .map(|condition| format!(" AND {}", condition.text))
            .collect()
    }

    /// Refuses what would filter without permission, in Cassandra's words.
    ///
    /// # Errors
    /// If the read would filter.
    pub(super) fn check_filtering(&self, layout: &Layout) -> Result<(), Failure> {
        if !self.needs_filtering {
            return Ok(());
        }
        if matches!(self.source, Source::Keys(_)) && !self.uses_index {
            self.refuse_gap(layout)?;
        }
        Err(Failure::invalid(failure::NEEDS_FILTERING))
    }

    /// Refuses clustering columns that are restricted behind one that is not, or behind a slice, in
    /// Cassandra's words.
    ///
    /// # Errors
    /// If there is such a column.
    pub(super) fn refuse_gap(&self, layout: &Layout) -> Result<(), Failure> {
        let on = |column: &Column| {
            self.conditions
                .iter()
                .find(|condition| condition.columns.contains(&column.index))
        };
        for pair in layout.clustering().windows(2) {
            let (before, column) = (&pair[0], &pair[1]);
            if on(column).is_none() {
                continue;
            }
            match on(before) {
                None => {
                    return Err(Failure::invalid(format!(
                        "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
                        column.name, before.name
                    )));
                }
                Some(condition) if condition.is_slice() && !condition.columns.contains(&column.index) => {
                    return Err(Failure::invalid(format!(
                        "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a \
                         non-EQ relation)",
                        column.name, before.name
                    )));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// The partitions that a clause names, or the part of the ring; token relations beside named keys become
/// filters.
fn source(conditions: &[Restricted], layout: &Layout, filters: &mut Vec<Filter>) -> Result<Source, Failure> {
    let mut keys: Vec<Vec<Bytes>> = vec![Vec::new()];
    let mut is_whole = true;
    for column in layout.partition_key() {
        let values = conditions
            .iter()
            .find_map(|condition| condition.single_values(column.index));
        let Some(mut values) = values else {
            is_whole = false;
            break;
        };
        values.sort_by_cached_key(|value| order::of(&column.cql_type, value));
        values.dedup_by_key(|value| order::of(&column.cql_type, value));
        if layout.partition_key_len == 1 && values.iter().any(|value| value.is_empty()) {
            return Err(Failure::invalid("Key may not be empty"));
        }
        let extended = |key: &Vec<Bytes>, value: &Bytes| [&key[..], std::slice::from_ref(value)].concat();
        keys = keys
            .iter()
            .flat_map(|key| values.iter().map(|value| extended(key, value)))
            .collect();
    }
    let tokens = conditions
        .iter()
        .filter_map(|condition| match &condition.predicate {
            Predicate::Token(range) => Some(range.clone()),
            _ => None,
        });
    if is_whole {
        filters.extend(tokens.map(|range| Filter {
            columns: vec![0],
            predicate: Predicate::Token(range),
        }));
        return Ok(Source::Keys(keys));
    }
    let whole = i64::MIN..=i64::MAX;
    Ok(Source::Ring(tokens.fold(whole, |range, other| {
        *range.start().max(other.start())..=*range.end().min(other.end())
    })))
}

fn refuse_doubles(conditions: &[Restricted], layout: &Layout) -> Result<(), Failure> {
    for column in &layout.columns {
        let on_it = |condition: &&Restricted| {
            condition.columns == [column.index] && !matches!(condition.predicate, Predicate::Token(_))
        };
        let on_it: Vec<_> = conditions.iter().filter(on_it).collect();
        if on_it.len() < 2 {
            continue;
        }
        let has = |is: fn(&Predicate) -> bool| on_it.iter().any(|condition| is(&condition.predicate));
        // An IN of one value is an equality to Cassandra.
        let is_equality = |predicate: &Predicate| match predicate {
            Predicate::Equal(_) => true,
            Predicate::In(values) => values.len() == 1,
            _ => false,
        };
        let equality = match has(is_equality) {
            true if on_it.iter().any(|condition| condition.is_slice()) => {
                return Err(Failure::invalid(format!(
                    "Column \"{}\" cannot be restricted by both an equality and an inequality relation",
                    column.name
                )));
            }
            true => "an Equal",
            false if has(|predicate| matches!(predicate, Predicate::In(_))) => "a IN",
            false => continue,
        };
        return Err(Failure::invalid(format!(
            "{} cannot be restricted by more than one relation if it includes {equality}",
            column.name
        )));
    }
    Ok(())
}
