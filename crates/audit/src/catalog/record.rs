//! Rows of system tables, by column name.

use std::collections::BTreeMap;

use bytes::Bytes;
use cqlens_proto::{
    error::DecodeError,
    types::{CqlType, CqlValue},
};

/// One row: values by column name. A missing column reads as if it were null.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record(BTreeMap<String, CqlValue>);

impl Record {
    /// The cells of a row.
    ///
    /// # Errors
    /// One that is no value of its column.
    pub fn new<'a>(
        columns: impl IntoIterator<Item = (&'a str, &'a CqlType)>,
        row: &[Option<Bytes>],
    ) -> Result<Self, DecodeError> {
        let cells = columns.into_iter().zip(row).map(|((name, column_type), cell)| {
            Ok((
                name.to_owned(),
                CqlValue::decode_nullable(column_type, cell.as_deref())?,
            ))
        });
        cells.collect::<Result<_, _>>().map(Self)
    }

    /// What it takes up, about.
    pub fn weight(&self) -> usize {
        const ROW: usize = 512;
        const CELL: usize = 96;
        let cells = self.0.iter();
        let cells = cells.map(|(name, value)| CELL + name.len() + value_weight(value));
        ROW + cells.sum::<usize>()
    }

    /// What its values take up without the names of their columns, about.
    pub fn content_weight(&self) -> usize {
        const EACH: usize = 64;
        EACH + self
            .0
            .values()
            .map(|value| EACH + value_weight(value))
            .sum::<usize>()
    }

    /// Whether there is such a column.
    pub fn has(&self, column: &str) -> bool {
        self.0.contains_key(column)
    }

    /// Whether it says all that `other` does.
    pub fn says(&self, other: &Self) -> bool {
        other
            .0
            .iter()
            .all(|(column, value)| self.0.get(column) == Some(value))
    }

    /// A text column; empty where null.
    pub fn text(&self, column: &str) -> String {
        self.optional_text(column).unwrap_or_default()
    }

    /// A text column.
    pub fn optional_text(&self, column: &str) -> Option<String> {
        match self.0.get(column)? {
            CqlValue::Text(text) | CqlValue::Ascii(text) => Some(text.clone()),
            CqlValue::Inet(address) => Some(address.to_string()),
            _ => None,
        }
    }

    /// A uuid column, in its usual form.
    pub fn uuid(&self, column: &str) -> Option<String> {
        match self.0.get(column)? {
            CqlValue::Uuid(uuid) | CqlValue::TimeUuid(uuid) => Some(uuid.to_string()),
            _ => None,
        }
    }

    /// An int column; `default` where null.
    pub fn int(&self, column: &str, default: i32) -> i32 {
        match self.0.get(column) {
            Some(CqlValue::Int(number)) => *number,
            _ => default,
        }
    }

    /// A number that counts something, in whatever type; 0 where null.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and takes what is no number for none"
    )]
    pub fn count(&self, column: &str) -> u64 {
        match self.0.get(column) {
            Some(CqlValue::BigInt(number)) => u64::try_from(*number).unwrap_or(0),
            Some(CqlValue::Int(number)) => u64::try_from(*number).unwrap_or(0),
            Some(CqlValue::Double(number)) => number.round() as u64,
            _ => 0,
        }
    }

    /// A boolean column; `default` where null.
    pub fn boolean(&self, column: &str, default: bool) -> bool {
        match self.0.get(column) {
            Some(CqlValue::Boolean(boolean)) => *boolean,
            _ => default,
        }
    }

    /// A blob column; empty where null.
    pub fn blob(&self, column: &str) -> Vec<u8> {
        match self.0.get(column) {
            Some(CqlValue::Blob(bytes)) => bytes.clone(),
            _ => Vec::new(),
        }
    }

    /// A list or set of text; empty where null.
    pub fn texts(&self, column: &str) -> Vec<String> {
        match self.0.get(column) {
            Some(CqlValue::List(items) | CqlValue::Set(items)) => items.iter().filter_map(text_of).collect(),
            _ => Vec::new(),
        }
    }

    /// A map of text to text; empty where null.
    pub fn text_map(&self, column: &str) -> BTreeMap<String, String> {
        match self.0.get(column) {
            Some(CqlValue::Map(entries)) => text_map(entries),
            _ => BTreeMap::new(),
        }
    }

    /// All columns.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &CqlValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// What a value takes up beside itself.
fn value_weight(value: &CqlValue) -> usize {
    let of_all = |values: &[CqlValue]| {
        values
            .iter()
            .map(|value| size_of::<CqlValue>() + value_weight(value))
            .sum()
    };
    match value {
        CqlValue::Text(text) | CqlValue::Ascii(text) => text.len(),
        CqlValue::Blob(bytes) | CqlValue::Custom(bytes) => bytes.len(),
        CqlValue::List(values)
        | CqlValue::Set(values)
        | CqlValue::Tuple(values)
        | CqlValue::Vector(values) => of_all(values),
        CqlValue::Map(entries) => entries
            .iter()
            .map(|(key, value)| 2 * size_of::<CqlValue>() + value_weight(key) + value_weight(value))
            .sum(),
        CqlValue::Udt(fields) => fields
            .iter()
            .map(|(name, value)| 2 * size_of::<CqlValue>() + name.len() + value_weight(value))
            .sum(),
        // A number of any length.
        CqlValue::Varint(number) => number.bits().try_into().unwrap_or(usize::MAX) / 8,
        _ => 32,
    }
}

fn text_of(value: &CqlValue) -> Option<String> {
    match value {
        CqlValue::Text(text) | CqlValue::Ascii(text) => Some(text.clone()),
        _ => None,
    }
}

/// The entries of a map of text to text; others are left out.
pub(super) fn text_map(entries: &[(CqlValue, CqlValue)]) -> BTreeMap<String, String> {
    entries
        .iter()
        .filter_map(|(key, value)| text_of(key).zip(text_of(value)))
        .collect()
}
