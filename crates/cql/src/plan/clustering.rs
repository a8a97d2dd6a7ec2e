//! Statements of which Cassandra knows, before it looks, that they touch no row: an empty `IN` on a
//! clustering column, or a slice that ends before it begins.

use std::cmp::Ordering;

use cqlens_proto::message::{Value, Values};
use cqlens_proto::types::CqlType;

use super::keys::Counted;
use super::restriction::{Bound, Choices, Excluded, Restriction, Test};
use super::restrictions::Restrictions;
use super::term::{Datum, Marker};
use super::touched::Touched;
use super::value;
use crate::footprint::Reason;
use crate::schema::Keyspace;

/// What of a statement's clustering restrictions can be impossible.
#[derive(Debug, Clone, Default)]
pub(super) struct RowCheck {
    /// `IN ()` is in the text.
    is_empty: bool,
    /// The values of lists in the text, multiplied; none without such a list.
    listed: Option<u64>,
    /// Lists that are bound, and may be empty.
    lists: Vec<Marker>,
    /// Slices with two ends.
    slices: Vec<RowSlice>,
    /// Without a schema: it may be other columns than clustering ones that are restricted.
    is_guess: bool,
}

/// Two ends of a slice of rows.
#[derive(Debug, Clone)]
pub(super) struct RowSlice {
    pub(super) types: Vec<CqlType>,
    /// Whether one column is compared, and is stored in descending order; none if nobody knows.
    pub(super) is_descending: Option<bool>,
    pub(super) start: Bound,
    pub(super) end: Bound,
    /// What is left out of it.
    pub(super) excluded: Vec<Excluded>,
}

impl RowCheck {
    /// What is to be checked; none if rows can always be there.
    pub(super) fn of(restrictions: &Restrictions<'_>, keyspace: &Keyspace) -> Option<Self> {
        let mut check = Self::default();
        for restriction in restrictions.sliced_clustering() {
            match &restriction.test {
                Test::In(Choices::Listed(terms)) => {
                    check.is_empty |= terms.is_empty();
                    let listed = check.listed.unwrap_or(1);
                    check.listed = Some(listed.saturating_mul(terms.len() as u64));
                }
                Test::In(Choices::Bound(marker)) => check.lists.push(marker.clone()),
                Test::Slice(slice) => {
                    if let (Some(start), Some(end)) = (&slice.start, &slice.end) {
                        check.slices.push(RowSlice {
                            excluded: slice.excluded.clone(),
                            ..RowSlice::of(restriction, keyspace, start, end)
                        });
                    }
                    // What follows a slice is not part of it.
                    break;
                }
                _ => {}
            }
        }
        check.unless_empty()
    }

    /// What is to be checked where no schema says which columns are restricted.
    pub(super) fn guessed(has_empty_list: bool, lists: Vec<Marker>, slices: Vec<RowSlice>) -> Option<Self> {
        let check = Self {
            is_empty: has_empty_list,
            listed: None,
            lists,
            slices,
            is_guess: true,
        };
        check.unless_empty()
    }

    fn unless_empty(self) -> Option<Self> {
        let can_be_none = self.is_empty || !self.lists.is_empty() || !self.slices.is_empty();
        (can_be_none || self.listed.is_some()).then_some(self)
    }

    /// How many rows (or slices of rows) of each partition the lists of an execution name; none without a list.
    pub(super) fn listed(&self, values: &Values<'_>) -> Option<u64> {
        if self.is_guess || (self.listed.is_none() && self.lists.is_empty()) {
            return None;
        }
        let lengths = self.lists.iter().map(|marker| match marker.bound(Some(values)) {
            // A list begins with the number of its values.
            Ok(Value::Bytes(&[a, b, c, d, ..])) => u64::try_from(i32::from_be_bytes([a, b, c, d])).ok(),
            _ => None,
        });
        let mut all = lengths.chain([Some(self.listed.unwrap_or(1))]);
        all.try_fold(1_u64, |product, length| Some(product.saturating_mul(length?)))
    }

    /// What is touched where no row can be there: nothing, if these are rows.
    pub(super) fn without_rows(&self) -> Touched {
        if self.is_guess {
            Touched::Unknown(Reason::SchemaUnknown)
        } else {
            Touched::Counted(Counted::default())
        }
    }

    /// Whether no row can be there; what cannot be evaluated is taken for possible.
    pub(super) fn is_impossible(&self, values: Option<&Values<'_>>) -> bool {
        let empty_list = |marker: &Marker| match marker.bound(values) {
            Ok(Value::Bytes(bytes)) => bytes == [0; 4],
            _ => false,
        };
        self.is_empty
            || self.lists.iter().any(empty_list)
            || self.slices.iter().any(|slice| slice.is_impossible(values))
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
            is_descending: Some(matches!(restriction.columns.as_slice(), [only] if only.is_descending())),
            start: start.clone(),
            end: end.clone(),
            excluded: Vec::new(),
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
        let mut orders = pairs.map(|((start, end), cql_type)| match (start, end) {
            (Some(start), Some(end)) => value::compare(cql_type, start, end),
            (None, None) => Ordering::Equal,
            // Null stands before all values in the order of storage, whichever that is.
            (None, Some(_)) if self.is_descending == Some(false) => Ordering::Less,
            (Some(_), None) if self.is_descending == Some(true) => Ordering::Less,
            _ => Ordering::Greater,
        });
        match orders.find(|order| order.is_ne()) {
            Some(order) => order == Ordering::Greater,
            None => match start.len().cmp(&end.len()) {
                Ordering::Equal => {
                    !(self.start.inclusive && self.end.inclusive) || self.leaves_out(&start, values)
                }
                // The shorter end stands for all rows below it: they are left out if it is exclusive.
                Ordering::Less => !self.start.inclusive,
                Ordering::Greater => !self.end.inclusive,
            },
        }
    }

    /// Whether the only value between its ends is one that is left out.
    fn leaves_out(&self, only: &[Option<Vec<u8>>], values: Option<&Values<'_>>) -> bool {
        self.excluded.iter().any(|excluded| {
            let Choices::Listed(terms) = &excluded.choices else {
                return false;
            };
            terms.iter().any(|term| {
                let bound = Bound {
                    term: term.clone(),
                    inclusive: true,
                    is_tuple: excluded.is_tuple,
                };
                let components = self.components(&bound, values).unwrap_or_default();
                let mut pairs = components.iter().zip(only).zip(&self.types);
                let all_equal = pairs.all(|((mine, theirs), cql_type)| match (mine, theirs) {
                    (Some(mine), Some(theirs)) => value::compare(cql_type, mine, theirs).is_eq(),
                    _ => false,
                });
                components.len() == only.len() && all_equal
            })
        })
    }

    /// The values of one end, fewer than columns where it is compared with fewer; null is taken where one
    /// column is compared, and refused in a tuple.
    fn components<'v>(
        &'v self,
        bound: &'v Bound,
        values: Option<&Values<'v>>,
    ) -> Option<Vec<Option<Vec<u8>>>> {
        let bytes = match bound.term.evaluate(values) {
            Ok(Datum::Null) if !bound.is_tuple => return Some(vec![None]),
            Ok(Datum::Bytes(bytes)) if !bound.is_tuple => return Some(vec![Some(bytes.into_owned())]),
            Ok(Datum::Bytes(bytes)) => bytes,
            _ => return None,
        };
        let components = value::components(&bytes, self.types.len())?;
        components
            .into_iter()
            .map(|component| component.map(|component| Some(component.to_vec())))
            .collect()
    }
}
