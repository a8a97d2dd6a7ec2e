//! `[value]`s (v5 §3): what a client binds to the markers of a statement.

use bytes::BytesMut;

use super::Dialect;
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::notation::{self, Parsed, malformed};

/// A bound value: an `[int]` length and that many bytes; −1 is null, −2 is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value<'a> {
    /// The bytes of a value of the marker's type.
    Bytes(&'a [u8]),
    /// Null: writes a tombstone.
    Null,
    /// Leaves a column as it is; version 4 and later.
    NotSet,
}

impl<'a> Value<'a> {
    /// The bytes, unless null or not set.
    #[inline]
    pub const fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            Value::Null | Value::NotSet => None,
        }
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Value::Bytes(bytes)
    }
}

impl<'a> From<Option<&'a [u8]>> for Value<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Value::Null, Value::Bytes)
    }
}

/// The values of one statement, as they stand in the body: `<n>` of `[name] <value>`.
///
/// They were walked once, so that iterating cannot fail, and are not copied.
#[derive(Debug, Clone, Copy, Default)]
pub struct Values<'a> {
    count: u16,
    form: Form,
    raw: &'a [u8],
    /// Where each value begins, in their order or by name, where it was computed: see [`Values::with_index`].
    index: &'a [u32],
}

/// What the bytes of values look like.
#[derive(Debug, Clone, Copy, Default)]
struct Form {
    named: bool,
    /// Version 3 reads every negative length as null.
    has_not_set: bool,
}

impl Form {
    #[inline(always)]
    fn new(named: bool, dialect: Dialect) -> Self {
        Self {
            named,
            has_not_set: dialect.version.is_at_least_v4(),
        }
    }
}

impl<'a> Values<'a> {
    /// No values.
    pub const NONE: Values<'static> = Values {
        count: 0,
        form: Form {
            named: false,
            has_not_set: false,
        },
        raw: &[],
        index: &[],
    };

    /// Reads a `[short]` count and the values.
    #[inline(always)]
    pub(super) fn decode(
        cursor: &mut Cursor<'a>,
        named: bool,
        dialect: Dialect,
    ) -> Result<Self, DecodeError> {
        let form = Form::new(named, dialect);
        let count = cursor.read("number of values", notation::short)?;
        let start = cursor.offset();
        for _ in 0..count {
            if named {
                cursor.read("name of a value", notation::string)?;
            }
            cursor.read("value", |input| value(input, form))?;
        }
        Ok(Values {
            count,
            form,
            raw: cursor.since(start),
            index: &[],
        })
    }

    /// The values that are there as a whole, of a body that may end early; the cursor stands at its end then.
    ///
    /// # Errors
    /// If their number is not there.
    pub(super) fn decode_head(
        cursor: &mut Cursor<'a>,
        named: bool,
        dialect: Dialect,
    ) -> Result<Self, DecodeError> {
        let form = Form::new(named, dialect);
        let announced = cursor.read("number of values", notation::short)?;
        let start = *cursor;
        let mut count = 0;
        let mut end = cursor.offset();
        while count < announced {
            let name = cursor.read_if(named, "name of a value", notation::string);
            if name.is_err() || cursor.read("value", |input| value(input, form)).is_err() {
                cursor.take("value", cursor.rest().len())?;
                break;
            }
            count += 1;
            end = cursor.offset();
        }
        Ok(Values {
            count,
            form,
            raw: start.rest().get(..end - start.offset()).unwrap_or_default(),
            index: &[],
        })
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// True if each value names its marker.
    #[inline]
    pub fn is_named(&self) -> bool {
        self.form.named
    }

    /// The values in the order of the body.
    #[inline]
    pub fn iter(&self) -> ValuesIter<'a> {
        ValuesIter {
            rest: self.raw,
            form: self.form,
        }
    }

    /// Where each value begins, for [`Values::with_index`]: in their order, or where they have names, by
    /// name; of several with one name the first comes first.
    pub fn offsets(&self) -> Vec<u32> {
        let mut values = self.iter();
        let offset = |values: &ValuesIter<'_>| u32::try_from(self.raw.len() - values.rest.len()).ok();
        let offsets = std::iter::from_fn(|| {
            let offset = offset(&values)?;
            values.next().map(|_| offset)
        });
        let mut offsets: Vec<u32> = offsets.collect();
        if self.form.named {
            offsets.sort_by_key(|offset| self.name_at(*offset));
        }
        offsets
    }

    /// The same values, of which each is found without a walk over those before it: a list of 65,535 markers
    /// asks for each of them.
    #[must_use]
    pub fn with_index<'b>(&self, offsets: &'b [u32]) -> Values<'b>
    where
        'a: 'b,
    {
        Values {
            index: offsets,
            ..*self
        }
    }

    /// Whether they are found by an index.
    pub fn has_index(&self) -> bool {
        !self.index.is_empty()
    }

    fn at(&self, offset: u32) -> ValuesIter<'a> {
        ValuesIter {
            rest: self.raw.get(offset as usize..).unwrap_or_default(),
            form: self.form,
        }
    }

    fn name_at(&self, offset: u32) -> Option<&'a str> {
        self.at(offset).next().and_then(|(name, _)| name)
    }

    /// The value at a position, without looking at the later ones.
    #[inline(always)]
    pub fn nth(&self, index: usize) -> Option<Value<'a>> {
        if !self.index.is_empty() && !self.form.named {
            let offset = self.index.get(index)?;
            return self.at(*offset).next().map(|(_, value)| value);
        }
        let mut values = self.iter();
        for _ in 0..index {
            values.next()?;
        }
        values.next().map(|(_, value)| value)
    }

    /// The value with a name; `None` if values have no names.
    pub fn named(&self, name: &str) -> Option<Value<'a>> {
        if !self.index.is_empty() && self.form.named {
            let first = self
                .index
                .partition_point(|offset| self.name_at(*offset) < Some(name));
            let (its_name, value) = self.at(*self.index.get(first)?).next()?;
            return (its_name == Some(name)).then_some(value);
        }
        self.iter()
            .find(|(its_name, _)| *its_name == Some(name))
            .map(|(_, value)| value)
    }

    /// The bytes in the body, names and lengths included: equal bytes of one statement are equal values.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.raw
    }

    /// Their length in the body, in bytes, names and lengths included.
    pub fn byte_len(&self) -> usize {
        self.raw.len()
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        writer.short(self.count);
        if !dialect.version.is_at_least_v4() && self.iter().any(|(_, value)| value == Value::NotSet) {
            return Err(EncodeError::Unsupported {
                what: "a value that is not set",
            });
        }
        writer.raw(self.raw);
        Ok(())
    }
}

impl PartialEq for Values<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count
            && (self.form.named == other.form.named || self.is_empty())
            && self.raw == other.raw
    }
}

impl Eq for Values<'_> {}

impl<'a> IntoIterator for Values<'a> {
    type Item = (Option<&'a str>, Value<'a>);
    type IntoIter = ValuesIter<'a>;

    fn into_iter(self) -> ValuesIter<'a> {
        self.iter()
    }
}

/// Iterates over [`Values`]: names, where they are given, and values.
#[derive(Debug, Clone)]
pub struct ValuesIter<'a> {
    rest: &'a [u8],
    form: Form,
}

impl<'a> Iterator for ValuesIter<'a> {
    type Item = (Option<&'a str>, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut name = None;
        if self.form.named {
            let (rest, its_name) = notation::string(self.rest).ok()?;
            (self.rest, name) = (rest, Some(its_name));
        }
        // The values were walked when they were decoded: an error here is the end.
        let (rest, value) = value(self.rest, self.form).ok()?;
        self.rest = rest;
        Some((name, value))
    }
}

#[inline]
fn value(input: &[u8], form: Form) -> Parsed<'_, Value<'_>> {
    let (rest, length) = notation::int(input)?;
    match length {
        0.. => notation::raw(rest, length.unsigned_abs() as usize)
            .map(|(rest, bytes)| (rest, Value::Bytes(bytes))),
        -1 => Ok((rest, Value::Null)),
        _ if !form.has_not_set => Ok((rest, Value::Null)),
        -2 => Ok((rest, Value::NotSet)),
        _ => malformed(input, DecodeErrorKind::NegativeLength(length)),
    }
}

/// Values to send, built one by one.
#[derive(Debug, Clone, Default)]
pub struct ValuesBuf {
    count: usize,
    named: bool,
    raw: BytesMut,
}

impl ValuesBuf {
    /// No values yet.
    pub fn new() -> Self {
        ValuesBuf::default()
    }

    /// Values by position.
    ///
    /// # Errors
    /// More than 65,535 of them, or one of more than 2 GiB.
    pub fn positional<'v>(values: impl IntoIterator<Item = Value<'v>>) -> Result<Self, EncodeError> {
        let mut buf = ValuesBuf::new();
        values.into_iter().try_for_each(|value| buf.push(None, value))?;
        Ok(buf)
    }

    /// Values by name.
    ///
    /// # Errors
    /// As [`positional`](Self::positional), and names of more than 65,535 bytes.
    pub fn by_name<'v>(values: impl IntoIterator<Item = (&'v str, Value<'v>)>) -> Result<Self, EncodeError> {
        let mut buf = ValuesBuf {
            named: true,
            ..ValuesBuf::default()
        };
        values
            .into_iter()
            .try_for_each(|(name, value)| buf.push(Some(name), value))?;
        Ok(buf)
    }

    fn push(&mut self, name: Option<&str>, value: Value<'_>) -> Result<(), EncodeError> {
        let limit = usize::from(u16::MAX);
        if self.count == limit {
            return Err(EncodeError::TooLong {
                what: "values",
                length: self.count + 1,
                limit,
            });
        }
        let mut writer = Writer::new(&mut self.raw);
        if let Some(name) = name {
            writer.string("name of a value", name)?;
        }
        match value {
            Value::Bytes(bytes) => writer.bytes("value", Some(bytes))?,
            Value::Null => writer.int(-1),
            Value::NotSet => writer.int(-2),
        }
        self.count += 1;
        Ok(())
    }

    /// The values, to put into a message.
    pub fn values(&self) -> Values<'_> {
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        Values {
            count,
            form: Form {
                named: self.named,
                has_not_set: true,
            },
            raw: &self.raw,
            index: &[],
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::envelope::Version;

    const TWO_NEGATIVE: &[u8] = &[0, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 1, 7];

    fn decode(bytes: &[u8], version: Version) -> Result<Values<'_>, DecodeError> {
        Values::decode(&mut Cursor::new(bytes), false, Dialect::new(version))
    }

    #[test]
    fn a_length_of_minus_two_is_not_set_from_version_4_on_and_null_before() {
        let v4 = decode(TWO_NEGATIVE, Version::V4).unwrap();
        assert_eq!(
            v4.iter().map(|(_, value)| value).collect::<Vec<_>>(),
            [Value::NotSet, Value::Bytes(&[7])]
        );
        assert_eq!(
            decode(TWO_NEGATIVE, Version::V3).unwrap().nth(0),
            Some(Value::Null)
        );
    }

    #[test]
    fn other_negative_lengths_are_refused() {
        let error = decode(&[0, 1, 0xff, 0xff, 0xff, 0xfd], Version::V4).unwrap_err();
        assert_eq!(
            error,
            DecodeError {
                what: "value",
                offset: 2,
                kind: DecodeErrorKind::NegativeLength(-3)
            }
        );
    }

    #[test]
    fn values_are_found_by_name_and_by_position() {
        let buf = ValuesBuf::by_name([("a", Value::Bytes(b"1")), ("b", Value::Null)]).unwrap();
        let values = buf.values();
        assert_eq!(values.named("b"), Some(Value::Null));
        assert_eq!(values.named("c"), None);
        assert_eq!(values.nth(0), Some(Value::Bytes(b"1")));
        assert_eq!(values.nth(2), None);
    }

    #[test]
    fn values_are_the_same_with_an_index() {
        let bytes: Vec<[u8; 2]> = (0..300_u16).map(u16::to_be_bytes).collect();
        let positional = ValuesBuf::positional(bytes.iter().map(|value| Value::Bytes(value))).unwrap();
        let names: Vec<String> = (0..300_u16).map(|place| format!("v{}", place % 200)).collect();
        let named = names
            .iter()
            .map(String::as_str)
            .zip(bytes.iter().map(|value| Value::Bytes(value)));
        let named = ValuesBuf::by_name(named).unwrap();
        for values in [positional.values(), named.values()] {
            let offsets = values.offsets();
            let indexed = values.with_index(&offsets);
            assert!(indexed.has_index() && !values.has_index() && indexed == values);
            for place in [0, 1, 199, 250, 299, 300] {
                assert_eq!(indexed.nth(place), values.nth(place), "{place}");
            }
            for name in ["v0", "v7", "v199", "v200", ""] {
                assert_eq!(indexed.named(name), values.named(name), "{name}");
            }
        }
    }
}
