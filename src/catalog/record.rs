//! Rows of cqlens' own questions, by column name.

use std::collections::BTreeMap;

use bytes::Bytes;
use cqlens_proto::types::CqlValue;

use super::client::{Client, ClientError, Column, Run, RunOptions};

/// One row: values by column name. A missing column reads as if it were null.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Record(BTreeMap<String, CqlValue>);

/// Rows a page.
const PAGE_SIZE: i32 = 1_000;

/// Rows that are read at the most: a bound on what a damaged or hostile server can make us keep.
const MAX_ROWS: usize = 500_000;

impl Client {
    /// All rows of a statement without values, over all pages.
    ///
    /// # Errors
    /// The connection's and the server's, and cells that are no values of their columns.
    pub(super) async fn records(&mut self, cql: &str) -> Result<Vec<Record>, ClientError> {
        let mut options = RunOptions {
            page_size: Some(PAGE_SIZE),
            ..RunOptions::default()
        };
        let mut records = Vec::new();
        loop {
            let page = self.run(Run::Text(cql, &[]), &options).await?;
            for row in &page.rows {
                records.push(Record::of(&page.columns, row)?);
            }
            options.paging_state = page.paging_state;
            if options.paging_state.is_none() || records.len() >= MAX_ROWS {
                return Ok(records);
            }
        }
    }
}

impl Record {
    /// The cells of a row.
    ///
    /// # Errors
    /// One that is no value of its column.
    pub(super) fn of(columns: &[Column], row: &[Option<Bytes>]) -> Result<Self, ClientError> {
        let cells = columns.iter().zip(row).map(|(column, cell)| {
            Ok((
                column.name.clone(),
                CqlValue::decode_nullable(&column.column_type, cell.as_deref())?,
            ))
        });
        cells.collect::<Result<_, _>>().map(Self)
    }

    /// Whether there is such a column.
    pub(super) fn has(&self, column: &str) -> bool {
        self.0.contains_key(column)
    }

    /// Whether it says all that `other` does.
    pub(super) fn says(&self, other: &Self) -> bool {
        other
            .0
            .iter()
            .all(|(column, value)| self.0.get(column) == Some(value))
    }

    /// A text column; empty where null.
    pub(super) fn text(&self, column: &str) -> String {
        self.optional_text(column).unwrap_or_default()
    }

    /// A text column.
    pub(super) fn optional_text(&self, column: &str) -> Option<String> {
        match self.0.get(column)? {
            CqlValue::Text(text) | CqlValue::Ascii(text) => Some(text.clone()),
            CqlValue::Inet(address) => Some(address.to_string()),
            _ => None,
        }
    }

    /// A uuid column, in its usual form.
    pub(super) fn uuid(&self, column: &str) -> Option<String> {
        match self.0.get(column)? {
            CqlValue::Uuid(uuid) | CqlValue::TimeUuid(uuid) => Some(uuid.to_string()),
            _ => None,
        }
    }

    /// An int column; `default` where null.
    pub(super) fn int(&self, column: &str, default: i32) -> i32 {
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
    pub(super) fn count(&self, column: &str) -> u64 {
        match self.0.get(column) {
            Some(CqlValue::BigInt(number)) => u64::try_from(*number).unwrap_or(0),
            Some(CqlValue::Int(number)) => u64::try_from(*number).unwrap_or(0),
            Some(CqlValue::Double(number)) => number.round() as u64,
            _ => 0,
        }
    }

    /// A boolean column; `default` where null.
    pub(super) fn boolean(&self, column: &str, default: bool) -> bool {
        match self.0.get(column) {
            Some(CqlValue::Boolean(boolean)) => *boolean,
            _ => default,
        }
    }

    /// A blob column; empty where null.
    pub(super) fn blob(&self, column: &str) -> Vec<u8> {
        match self.0.get(column) {
            Some(CqlValue::Blob(bytes)) => bytes.clone(),
            _ => Vec::new(),
        }
    }

    /// A list or set of text; empty where null.
    pub(super) fn texts(&self, column: &str) -> Vec<String> {
        match self.0.get(column) {
            Some(CqlValue::List(items) | CqlValue::Set(items)) => items.iter().filter_map(text_of).collect(),
            _ => Vec::new(),
        }
    }

    /// A map of text to text; empty where null.
    pub(super) fn text_map(&self, column: &str) -> BTreeMap<String, String> {
        match self.0.get(column) {
            Some(CqlValue::Map(entries)) => text_map(entries),
            _ => BTreeMap::new(),
        }
    }

    /// All columns.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &CqlValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
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
