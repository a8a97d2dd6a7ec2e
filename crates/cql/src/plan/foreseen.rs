//! What a statement alone tells of the number of its partitions, before anything is bound.

use std::collections::BTreeSet;

use crate::footprint::PartitionClass;

use super::keys::{Choice, KeyColumn, KeyPlan};
use super::restriction::Choices;
use super::shape::{Plan, ReadPlan, Reads, Shape, WritePlan, Writes};
use super::term::Datum;
use super::value;

impl Plan {
    /// What every execution touches, as far as that does not depend on what is bound: `WHERE k = ?` is one
    /// partition, `k IN ?` may be any number.
    pub fn class(&self) -> PartitionClass {
        let of_keys = |plan: &KeyPlan| {
            if plan.is_one() {
                PartitionClass::Single
            } else {
                PartitionClass::Multi
            }
        };
        match &self.shape {
            _ if self.refusal().is_some() => PartitionClass::Unknown,
            Shape::Read(ReadPlan {
                reads: Reads::Keys { keys, .. },
                ..
            }) => of_keys(keys),
            Shape::Read(ReadPlan {
                reads: Reads::Range { by_index: true, .. },
                ..
            }) => PartitionClass::Index,
            Shape::Read(ReadPlan {
                reads: Reads::Range { token: Some(_), .. },
                ..
            }) => PartitionClass::TokenRange,
            Shape::Read(ReadPlan {
                reads: Reads::Range { .. },
                ..
            }) => PartitionClass::Scan,
            Shape::Write(WritePlan {
                writes: Writes::Keys(keys),
                ..
            }) => of_keys(keys),
            Shape::Write(WritePlan {
                writes: Writes::Json(_) | Writes::Unnamed,
                ..
            }) => PartitionClass::Single,
            Shape::Batch(_) | Shape::Transaction(_) => match self.foreseen_partitions() {
                Some(1) => PartitionClass::Single,
                Some(_) => PartitionClass::Multi,
                None => PartitionClass::Unknown,
            },
            Shape::Unknown(..) => PartitionClass::Unknown,
        }
    }

    /// How many distinct partitions every execution names, whatever is bound: `a = ? AND b IN (1, 2)` are
    /// two.
    ///
    /// None where that depends on the values (`IN ?`, a marker in a list, `token()` beside the key), and
    /// where no key is named.
    pub fn foreseen_partitions(&self) -> Option<u64> {
        match &self.shape {
            _ if self.refusal().is_some() => None,
            Shape::Read(ReadPlan {
                reads: Reads::Keys { keys, .. },
                ..
            })
            | Shape::Write(WritePlan {
                writes: Writes::Keys(keys),
                ..
            }) => of_keys(keys),
            Shape::Write(WritePlan {
                writes: Writes::Json(_) | Writes::Unnamed,
                ..
            }) => Some(1),
            Shape::Batch(batch) => of_batch(batch.children.iter()),
            Shape::Transaction(transaction) => of_batch(transaction.children()),
            Shape::Read(_) | Shape::Unknown(..) => None,
        }
    }
}

impl Plan {
    /// How many distinct partitions one execution of a statement names at most: a list has no more keys than items, whatever
    /// is bound to them. None of `IN ?` and of batches, whose statements may all be of one partition.
    pub fn most_partitions(&self) -> Option<u64> {
        match &self.shape {
            _ if self.refusal().is_some() => None,
            Shape::Read(ReadPlan {
                reads: Reads::Keys { keys, .. },
                ..
            })
            | Shape::Write(WritePlan {
                writes: Writes::Keys(keys),
                ..
            }) => most_of_keys(keys),
            _ => None,
        }
    }
}

fn most_of_keys(keys: &KeyPlan) -> Option<u64> {
    if keys.token.is_some() {
        return None;
    }
    keys.columns.iter().try_fold(1_u64, |product, column| {
        let most = match &column.choice {
            Choice::One(_) => 1,
            Choice::Several(Choices::Listed(terms)) => of_column(column).unwrap_or(terms.len() as u64),
            Choice::Several(Choices::Bound(_)) => return None,
        };
        Some(product.saturating_mul(most))
    })
}

/// Those of the statements of a batch together, where no two write one table: two keys of a table may be the same.
fn of_batch<'p>(mut children: impl Iterator<Item = &'p Plan>) -> Option<u64> {
    let mut tables = BTreeSet::new();
    children.try_fold(0_u64, |sum, child| {
        let [(table, _)] = child.tables() else {
            return None;
        };
        let is_first = tables.insert(table.as_ref());
        is_first
            .then(|| child.foreseen_partitions())
            .flatten()
            .map(|partitions| sum.saturating_add(partitions))
    })
}

fn of_keys(keys: &KeyPlan) -> Option<u64> {
    if keys.token.is_some() {
        return None;
    }
    keys.columns
        .iter()
        .map(of_column)
        .try_fold(1_u64, |product, column| Some(product.saturating_mul(column?)))
}

fn of_column(column: &KeyColumn) -> Option<u64> {
    match &column.choice {
        Choice::One(_) => Some(1),
        Choice::Several(Choices::Listed(terms)) => {
            let written: Option<Vec<_>> = terms
                .iter()
                .map(|term| match term.evaluate(None) {
                    Ok(Datum::Bytes(bytes)) => Some(bytes),
                    _ => None,
                })
                .collect();
            Some(value::sorted_set(&column.cql_type, written?).len() as u64)
        }
        Choice::Several(Choices::Bound(_)) => None,
    }
}
