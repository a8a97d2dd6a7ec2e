//! Rows of cqlens' own questions, by column name.

use std::collections::BTreeMap;

use bytes::Bytes;
use cqlens_proto::types::CqlValue;

use super::client::{Client, ClientError, Column, Run, RunOptions};
use crate::memory::Part;

/// One row: values by column name. A missing column reads as if it were null.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Record(BTreeMap<String, CqlValue>);

/// Rows a page.
const PAGE_SIZE: i32 = 200;

/// Pages that are read of one table at the most: a bound on how long a damaged or hostile server can keep us busy.
const MAX_PAGES: usize = 5_000;

/// What was made of the rows that were read, and the memory that it counts in for as long as it is kept.
#[derive(Debug)]
pub(super) struct Records<T> {
    pub(super) rows: Vec<T>,
    /// Whether there was room for all of them.
    pub(super) is_whole: bool,
    pub(super) kept: Kept,
}

/// Memory that is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Kept {
    part: Part,
    bytes: usize,
}

impl Kept {
    fn take(&mut self, bytes: usize) -> bool {
        let has_room = self.part.has_room_for(bytes);
        if has_room {
            self.part.take(bytes);
            self.bytes += bytes;
        } else {
            self.part.count_evicted(1);
        }
        has_room
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.part.give_back(self.bytes);
    }
}

impl Client {
    /// All rows of a statement without values, over all pages.
    ///
    /// # Errors
    /// The connection's and the server's, cells that are no values of their columns, and rows that there is no room for.
    pub(super) async fn records(&mut self, cql: &str) -> Result<Vec<Record>, ClientError> {
        let records = self
            .records_that_fit(cql, Record::weight, |record| record)
            .await?;
        match records.is_whole {
            true => Ok(records.rows),
            false => Err(self.too_large()),
        }
    }

    /// What `make` makes of each row, which takes up `weight`, or of as many rows as there is room for.
    ///
    /// # Errors
    /// The connection's and the server's, and cells that are no values of their columns.
    pub(super) async fn records_that_fit<T>(
        &mut self,
        cql: &str,
        weight: impl Fn(&Record) -> usize,
        make: impl Fn(Record) -> T,
    ) -> Result<Records<T>, ClientError> {
        let mut records = Records {
            rows: Vec::new(),
            is_whole: true,
            kept: Kept {
                part: self.memory.clone(),
                bytes: 0,
            },
        };
        self.each_record(cql, |record| {
            records.is_whole = records.kept.take(weight(&record));
            if records.is_whole {
                records.rows.push(make(record));
            }
            records.is_whole
        })
        .await?;
        Ok(records)
    }

    /// Hands over each row of a statement without values, over all pages, until `each` wants no more.
    ///
    /// # Errors
    /// The connection's and the server's, cells that are no values of their columns, and pages without an end.
    pub(super) async fn each_record(
        &mut self,
        cql: &str,
        mut each: impl FnMut(Record) -> bool,
    ) -> Result<(), ClientError> {
        let mut options = RunOptions {
            page_size: Some(PAGE_SIZE),
            ..RunOptions::default()
        };
        for _ in 0..MAX_PAGES {
            let page = self.run(Run::Text(cql, &[]), &options).await?;
            for row in &page.rows {
                if !each(Record::of(&page.columns, row)?) {
                    return Ok(());
                }
            }
            if page.paging_state.is_none() {
                return Ok(());
            }
            if page.paging_state == options.paging_state {
                return Err(ClientError::Endless("a page leads to itself"));
            }
            options.paging_state = page.paging_state;
        }
        Err(ClientError::Endless("there are thousands of them"))
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

    /// What it takes up, about.
    pub(super) fn weight(&self) -> usize {
        const ROW: usize = 512;
        const CELL: usize = 96;
        let cells = self.0.iter();
        let cells = cells.map(|(name, value)| CELL + name.len() + value_weight(value));
        ROW + cells.sum::<usize>()
    }

    /// What its values take up without the names of their columns, about.
    pub(super) fn content_weight(&self) -> usize {
        const EACH: usize = 64;
        EACH + self
            .0
            .values()
            .map(|value| EACH + value_weight(value))
            .sum::<usize>()
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
