//! Reads of which Cassandra knows, before it reads, that they return no row: an empty `IN` on a clustering column, or a
//! slice that ends before it begins.

use std::borrow::Cow;
use std::cmp::Ordering;

use cqlens_proto::message::{Value, Values};
use cqlens_proto::types::CqlType;

use super::restriction::{Bound, Choices, Restriction, Test};
use super::restrictions::Restrictions;
use super::term::{Datum, Marker};
use super::value;
use crate::catalog::schema::Keyspace;

/// What of a statement's clustering restrictions can be impossible.
#[derive(Debug, Clone, Default)]
pub(super) struct RowCheck {
    /// `IN ()` is in the text.
    is_empty: bool,
    /// Lists that may be bound empty.
    lists: Vec<Marker>,
    /// A slice with two ends.
    slice: Option<RowSlice>,
}

#[derive(Debug, Clone)]
struct RowSlice {
    types: Vec<CqlType>,
    start: Bound,
    end: Bound,
}

impl RowCheck {
    /// What is to be checked; none if rows can always be there.
    pub(super) fn of(restrictions: &Restrictions<'_>, keyspace: &Keyspace) -> Option<Self> {
        let mut check = Self::default();
        for restriction in restrictions.sliced_clustering() {
            match &restriction.test {
                Test::In(Choices::Listed(terms)) => check.is_empty |= terms.is_empty(),
                Test::In(Choices::Bound(marker)) => check.lists.push(marker.clone()),
                Test::Slice(slice) => {
                    if let (Some(start), Some(end)) = (&slice.start, &slice.end) {
                        check.slice = Some(RowSlice::of(restriction, keyspace, start, end));
                    }
                    // What follows a slice is not part of it.
                    break;
                }
                _ => {}
            }
        }
        (check.is_empty || !check.lists.is_empty() || check.slice.is_some()).then_some(check)
    }

    /// Whether no row can be there; what cannot be evaluated is taken for possible.
    pub(super) fn is_impossible(&self, values: Option<&Values<'_>>) -> bool {
        let empty_list = |marker: &Marker| match marker.bound(values) {
            Ok(Value::Bytes(bytes)) => bytes == [0; 4],
            _ => false,
        };
        self.is_empty
            || self.lists.iter().any(empty_list)
            || self
                .slice
                .as_ref()
                .is_some_and(|slice| slice.is_impossible(values))
    }
}

impl RowSlice {
    fn of(restriction: &Restriction<'_>, keyspace: &Keyspace, start: &Bound, end: &Bound) -> Self {
        let types = restriction
            .columns
            .iter()
            .map(|column| keyspace.resolve(&column.data_type))
            .collect();
        Self {
            types,
            start: start.clone(),
            end: end.clone(),
        }
    }

    fn is_impossible(&self, values: Option<&Values<'_>>) -> bool {
        let (Some(start), Some(end)) = (
            self.components(&self.start, values),
            self.components(&self.end, values),
        ) else {
            return false;
        };
        let pairs = start.iter().zip(&end).zip(&self.types);
        let mut orders = pairs.map(|((start, end), cql_type)| value::compare(cql_type, start, end));
        match orders.find(|order| order.is_ne()) {
            Some(order) => order == Ordering::Greater,
            None => match start.len().cmp(&end.len()) {
                Ordering::Equal => !(self.start.inclusive && self.end.inclusive),
                // The shorter end stands for all rows below it: they are left out if it is exclusive.
                Ordering::Less => !self.start.inclusive,
                Ordering::Greater => !self.end.inclusive,
            },
        }
    }

    /// The values of one end, fewer than columns where it is compared with fewer.
    fn components<'v>(&'v self, bound: &'v Bound, values: Option<&Values<'v>>) -> Option<Vec<Vec<u8>>> {
        let Ok(Datum::Bytes(bytes)) = bound.term.evaluate(values) else {
            return None;
        };
        if !bound.is_tuple {
            return Some(vec![bytes.into_owned()]);
        }
        let bytes: Cow<'_, [u8]> = bytes;
        let components = value::components(&bytes, self.types.len())?;
        components
            .into_iter()
            .map(|component| component.map(<[u8]>::to_vec))
            .collect()
    }
}
