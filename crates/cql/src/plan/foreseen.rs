//! What a statement alone tells of the number of its partitions, before anything is bound.

use super::keys::{Choice, KeyColumn, KeyPlan};
use super::restriction::Choices;
use super::term::Datum;
use super::{Plan, ReadPlan, Reads, Shape, WritePlan, Writes, value};

impl Plan {
    /// How many distinct partitions every execution names, whatever is bound: `a = ? AND b IN (1, 2)` are two.
    ///
    /// None where that depends on the values (`IN ?`, a marker in a list, `token()` beside the key), and where no key is
    /// named.
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
            Shape::Read(_) | Shape::Batch(_) | Shape::Unknown(..) => None,
        }
    }
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
