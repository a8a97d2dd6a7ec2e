//! Columns whose values come again from row to row of a partition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{counts::raise, sketch::meter};

/// What INSERTs write into the columns of a table, of one partition in
/// [`SAMPLED_PARTITIONS`](cqlens_cql::cells::SAMPLED_PARTITIONS): whether a row has the value of the row before it,
/// in the same partition and in another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedValues(#[serde(deserialize_with = "meter::map")] BTreeMap<String, RepeatedValue>);

/// The same of one column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedValue {
    /// Rows that were compared with another one of their partition.
    pub within: u64,
    /// Those with the same value.
    pub same_within: u64,
    /// Rows that were compared with one of another partition.
    pub across: u64,
    /// Those with the same value.
    pub same_across: u64,
}

impl RepeatedValue {
    fn add(&mut self, more: Self) {
        raise(&mut self.within, more.within);
        raise(&mut self.same_within, more.same_within);
        raise(&mut self.across, more.across);
        raise(&mut self.same_across, more.same_across);
    }
}

/// How many columns of a table are told apart.
const MOST_COLUMNS: usize = 64;

impl RepeatedValues {
    /// Whether nothing was compared.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each column with its values.
    pub fn columns(&self) -> impl Iterator<Item = (&str, RepeatedValue)> {
        self.0.iter().map(|(column, value)| (column.as_str(), *value))
    }

    /// Counts what was found of a column.
    pub fn count(&mut self, column: &str, more: RepeatedValue) {
        if let Some(value) = self.0.get_mut(column) {
            value.add(more);
        } else if self.0.len() < MOST_COLUMNS {
            self.0.insert(column.to_owned(), more);
        }
    }

    /// Adds the columns of `other`. Where there are too many, the first ones by name stay, whatever the order.
    pub(super) fn merge(&mut self, other: &Self) {
        for (column, value) in &other.0 {
            self.0.entry(column.clone()).or_default().add(*value);
        }
        while self.0.len() > MOST_COLUMNS {
            self.0.pop_last();
        }
    }
}
