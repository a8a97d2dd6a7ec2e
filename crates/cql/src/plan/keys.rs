//! Partition keys of an execution: from compiled terms and bound values to distinct routing keys.

use std::borrow::Cow;
use std::sync::Arc;

use cqlens_proto::message::{Value, Values};
use cqlens_proto::types::CqlType;

use super::restriction::{Choices, Restriction, Test};
use super::term::{CompiledTerm, Datum, Fault, Marker};
use super::token::TokenRange;
use super::value;
use crate::footprint::{Keys, Pushed};
use crate::murmur3;
use crate::{footprint::Reason, schema::TableName};

/// The values of every column of a partition key.
#[derive(Debug, Clone)]
pub(super) struct KeyPlan {
    pub(super) table: Arc<TableName>,
    /// In key order; never empty.
    pub(super) columns: Vec<KeyColumn>,
    /// `token(k) > … AND k IN (…)`: named keys outside the range are not read.
    pub(super) token: Option<TokenRange>,
}

/// The values of one column of a partition key.
#[derive(Debug, Clone)]
pub(super) struct KeyColumn {
    pub(super) cql_type: CqlType,
    pub(super) choice: Choice,
}

/// One value or several.
#[derive(Debug, Clone)]
pub(super) enum Choice {
    One(CompiledTerm),
    Several(Choices),
}

/// How many keys were named, and how many of them are in the buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Distinct keys, duplicates within the statement folded.
    pub(super) named: u64,
    /// Keys of them that nobody but the server knows, each its own.
    pub(super) generated: u64,
    /// Whether the keys of `named` are more than the buffer was given, and why.
    pub(super) incomplete: Option<Reason>,
    /// Whether `named` is only a lower bound.
    pub(super) is_bound: bool,
}

/// What is said of an empty key: Cassandra notices it later than other faults.
pub(super) const EMPTY_KEY: &str = "Key may not be empty";

/// Cassandra's limit: the length of a key is an unsigned short.
const MAX_KEY_LENGTH: usize = u16::MAX as usize;

impl KeyColumn {
    /// The column's values; none if it is not restricted by `=` or `IN`.
    pub(super) fn of(restriction: &Restriction<'_>, cql_type: CqlType) -> Option<Self> {
        let choice = match &restriction.test {
            Test::Equal(term) => Choice::One(term.clone()),
            Test::In(choices) => Choice::Several(choices.clone()),
            _ => return None,
        };
        Some(Self { cql_type, choice })
    }
}

impl KeyPlan {
    /// Whether it names one key at most, whatever is bound.
    pub(super) fn is_one(&self) -> bool {
        self.columns
            .iter()
            .all(|column| matches!(column.choice, Choice::One(_)))
    }

    /// The way of most executions: one column, whose value is bound by position and is the key as it is. None
    /// where it is not, or where it is refused: [`Self::count`] says what it is then.
    #[inline]
    pub(super) fn push_bound(&self, values: &Values<'_>, keys: &mut Keys) -> Option<Pushed> {
        let ([column], None) = (self.columns.as_slice(), &self.token) else {
            return None;
        };
        let Value::Bytes(bytes) = values.nth(column.marker_as_it_is()?.index)? else {
            return None;
        };
        let is_key = matches!(bytes.len(), 1..=MAX_KEY_LENGTH) && value::is_valid(&column.cql_type, bytes);
        (is_key && !values.is_named()).then(|| keys.push(&self.table, bytes))
    }

    /// Pushes the keys of one execution. Where a key is refused, so is the execution.
    pub(super) fn count(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Counted, Fault> {
        match values {
            Some(values) if self.is_bound_as_it_is() => self.count_one(values, keys),
            _ => self.count_product(values, keys),
        }
    }

    /// Whether every column is one marker whose bytes become the key without being packed again.
    fn is_bound_as_it_is(&self) -> bool {
        let mut columns = self.columns.iter();
        self.token.is_none() && columns.all(|column| column.marker_as_it_is().is_some())
    }

    /// Where each column is one value: nothing is allocated.
    fn count_one(&self, values: &Values<'_>, keys: &mut Keys) -> Result<Counted, Fault> {
        let pushed = if let [only] = self.columns.as_slice() {
            let bytes = only.bound(values)?;
            check_whole_key(bytes)?;
            keys.push(&self.table, bytes)
        } else {
            keys.try_push_with(&self.table, |key| self.write_bound(values, key))?
        };
        Ok(Counted {
            named: 1,
            incomplete: overflow(pushed),
            ..Counted::default()
        })
    }

    /// Appends the components of a composite key. Each is looked at before the length of all of them is.
    fn write_bound(&self, values: &Values<'_>, key: &mut Vec<u8>) -> Result<(), Fault> {
        let start = key.len();
        let mut fits = true;
        for column in &self.columns {
            fits &= murmur3::push_component(key, column.bound(values)?);
        }
        if fits && key.len() - start <= MAX_KEY_LENGTH {
            Ok(())
        } else {
            Err(too_long())
        }
    }

    fn count_product(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Counted, Fault> {
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut generated: u64 = 0;
        let mut opaque = None;
        for column in &self.columns {
            match column.values(values) {
                // Cassandra stops at an empty list: what the later columns say is not looked at.
                Ok(distinct) if distinct.known.is_empty() && distinct.generated == 0 => {
                    return Ok(Counted::default());
                }
                Ok(distinct) => {
                    generated += distinct.generated;
                    columns.push(distinct);
                }
                Err(fault @ Fault::NotFollowed) => opaque = Some(fault.reason()),
                Err(fault) => return Err(fault),
            }
        }
        if let Some(reason) = opaque {
            // At least one value is there; a list of them may hold several.
            let one = self
                .columns
                .iter()
                .all(|column| matches!(column.choice, Choice::One(_)));
            return Ok(Counted {
                named: u64::from(self.token.is_none()),
                incomplete: Some(reason),
                is_bound: !one || self.token.is_some(),
                generated: 0,
            });
        }
        let total = columns
            .iter()
            .fold(1_u64, |product, column| product.saturating_mul(column.len()));
        if generated > 0 {
            // Which of them the token leaves is not known.
            let is_bound = self.token.is_some();
            let named = if is_bound { 0 } else { total };
            return Ok(Counted {
                named,
                generated: named,
                incomplete: Some(Reason::FunctionValue),
                is_bound,
            });
        }
        let columns: Vec<_> = columns.into_iter().map(|column| column.known).collect();
        let token = match self.token.as_ref().map(|token| token.evaluate(values)) {
            Some(Err(fault @ (Fault::Generated(_) | Fault::NotFollowed))) => {
                return Ok(Counted {
                    incomplete: Some(fault.reason()),
                    is_bound: true,
                    ..Counted::default()
                });
            }
            token => token.transpose()?,
        };
        self.push_product(&columns, total, token, keys)
    }

    fn push_product(
        &self,
        columns: &[Vec<Cow<'_, [u8]>>],
        total: u64,
        token: Option<super::token::TokenInterval>,
        keys: &mut Keys,
    ) -> Result<Counted, Fault> {
        let mut counted = Counted::default();
        let mut choice = vec![0_usize; columns.len()];
        let mut key = Vec::new();
        let mut all = total <= Keys::MAX_KEYS as u64;
        for _ in 0..total.min(Keys::MAX_KEYS as u64) {
            key.clear();
            write_key(&mut key, columns, &choice)?;
            if columns.len() > 1 && !keys.combine(key.len()) {
                all = false;
                break;
            }
            // Cassandra looks at the length of those keys only that the token leaves.
            if token
                .as_ref()
                .is_none_or(|token| token.contains(murmur3::token(&key)))
            {
                check_whole_key(&key)?;
                counted.named += 1;
                counted.incomplete = counted.incomplete.or(overflow(keys.push(&self.table, &key)));
            }
            advance(&mut choice, columns);
        }
        if !all {
            counted.incomplete = Some(Reason::TooManyKeys);
            if token.is_some() {
                counted.is_bound = true;
            } else {
                counted.named = total;
            }
        }
        Ok(counted)
    }
}

/// The distinct values of one column.
struct Distinct<'v> {
    known: Vec<Cow<'v, [u8]>>,
    generated: u64,
}

impl Distinct<'_> {
    fn len(&self) -> u64 {
        self.known.len() as u64 + self.generated
    }
}

impl KeyColumn {
    /// The only marker of the column, if what is bound to it becomes the key without being packed again.
    #[inline]
    fn marker_as_it_is(&self) -> Option<&Marker> {
        match &self.choice {
            Choice::One(CompiledTerm::Marker(marker)) => match marker.cql_type {
                CqlType::List(_) | CqlType::Set(_) | CqlType::Map(_) => None,
                _ => Some(marker),
            },
            _ => None,
        }
    }

    /// The valid bytes that are bound to the column's one marker.
    fn bound<'v>(&self, values: &Values<'v>) -> Result<&'v [u8], Fault> {
        let Choice::One(CompiledTerm::Marker(marker)) = &self.choice else {
            return Err(Fault::NotFollowed);
        };
        let bytes = not_null(marker.bound(Some(values))?)?;
        if value::is_valid(&self.cql_type, bytes) {
            Ok(bytes)
        } else {
            Err(invalid_value(&self.cql_type))
        }
    }

    fn values<'v>(&'v self, values: Option<&Values<'v>>) -> Result<Distinct<'v>, Fault> {
        match &self.choice {
            Choice::One(term) => {
                let listed = std::slice::from_ref(term);
                self.listed(listed, values)
            }
            Choice::Several(Choices::Listed(terms)) => {
                let mut distinct = self.listed(terms, values)?;
                distinct.known = value::sorted_set(&self.cql_type, distinct.known);
                Ok(distinct)
            }
            Choice::Several(Choices::Bound(marker)) => {
                let list = not_null(marker.bound(values)?)?;
                let items =
                    value::elements(list, 1).ok_or_else(|| Fault::undecodable("invalid list for IN"))?;
                let known: Result<Vec<_>, Fault> = items.into_iter().map(|item| self.element(item)).collect();
                Ok(Distinct {
                    known: value::sorted_set(&self.cql_type, known?),
                    generated: 0,
                })
            }
        }
    }

    fn listed<'v>(
        &self,
        terms: &'v [CompiledTerm],
        values: Option<&Values<'v>>,
    ) -> Result<Distinct<'v>, Fault> {
        let mut distinct = Distinct {
            known: Vec::with_capacity(terms.len()),
            generated: 0,
        };
        let mut clocks = Vec::new();
        for term in terms {
            match term.evaluate(values) {
                Ok(Datum::Bytes(bytes)) => distinct.known.push(bytes),
                Ok(Datum::Null) => return Err(null()),
                Ok(Datum::NotSet) => return Err(not_set()),
                Err(Fault::Generated(Some(clock))) if clocks.contains(&clock) => {}
                Err(Fault::Generated(clock)) => {
                    clocks.extend(clock);
                    distinct.generated += 1;
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(distinct)
    }

    /// An element of a bound list, as Cassandra packs it again.
    fn element<'v>(&self, item: Option<&'v [u8]>) -> Result<Cow<'v, [u8]>, Fault> {
        let bytes = item.ok_or_else(null)?;
        if !value::is_valid(&self.cql_type, bytes) {
            return Err(invalid_value(&self.cql_type));
        }
        value::repacked(&self.cql_type, bytes).ok_or_else(null)
    }
}

fn write_key(key: &mut Vec<u8>, columns: &[Vec<Cow<'_, [u8]>>], choice: &[usize]) -> Result<(), Fault> {
    if let ([only], [index]) = (columns, choice) {
        key.extend_from_slice(&only[*index]);
        return Ok(());
    }
    for (column, &index) in columns.iter().zip(choice) {
        if !murmur3::push_component(key, &column[index]) {
            return Err(too_long());
        }
    }
    Ok(())
}

/// The next combination, the last column turning fastest.
fn advance(choice: &mut [usize], columns: &[Vec<Cow<'_, [u8]>>]) {
    for (index, column) in choice.iter_mut().zip(columns).rev() {
        *index += 1;
        if *index < column.len() {
            return;
        }
        *index = 0;
    }
}

fn check_whole_key(bytes: &[u8]) -> Result<(), Fault> {
    match bytes.len() {
        0 => Err(Fault::invalid(EMPTY_KEY)),
        1..=MAX_KEY_LENGTH => Ok(()),
        _ => Err(too_long()),
    }
}

pub(super) fn overflow(pushed: Pushed) -> Option<Reason> {
    (pushed == Pushed::Overflow).then_some(Reason::TooManyKeys)
}

fn not_null(value: Value<'_>) -> Result<&[u8], Fault> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Null => Err(null()),
        Value::NotSet => Err(not_set()),
    }
}

#[cold]
fn invalid_value(cql_type: &CqlType) -> Fault {
    Fault::undecodable(format!("invalid value of type {cql_type}"))
}

#[cold]
fn null() -> Fault {
    Fault::invalid("Invalid null value in condition for a partition key column")
}

#[cold]
fn not_set() -> Fault {
    Fault::invalid("Invalid unset value for a partition key column")
}

#[cold]
fn too_long() -> Fault {
    Fault::invalid("Key length is longer than maximum of 65535")
}
