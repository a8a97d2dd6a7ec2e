//! Column specifications: what columns a result has, or what markers a prepared statement has.

use bytes::BytesMut;

use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::notation;
use crate::types::CqlType;

/// `[<keyspace [string]><table [string]>]<name [string]><type [option]>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSpec<'a> {
    /// Of the table.
    pub keyspace: &'a str,
    /// Of the column or of the marker.
    pub table: &'a str,
    /// The column, alias, selector, or marker.
    pub name: &'a str,
    /// Its type.
    pub column_type: CqlType,
}

/// Column specifications as they stand in the body: `[<keyspace><table>]` for all, or for each.
///
/// They were walked once, so that iterating cannot fail, and are not copied; types are built while iterating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSpecs<'a> {
    count: usize,
    global_table: Option<(&'a str, &'a str)>,
    raw: &'a [u8],
}

impl<'a> ColumnSpecs<'a> {
    /// No columns.
    pub const NONE: ColumnSpecs<'static> = ColumnSpecs {
        count: 0,
        global_table: None,
        raw: &[],
    };

    pub(super) fn decode(
        cursor: &mut Cursor<'a>,
        count: usize,
        has_global_table: bool,
    ) -> Result<Self, DecodeError> {
        let global_table = match has_global_table && count > 0 {
            true => Some(table_spec(cursor)?),
            false => None,
        };
        let start = cursor.offset();
        // Each specification has at least four bytes: a count alone cannot make this loop long.
        for _ in 0..count {
            if global_table.is_none() {
                table_spec(cursor)?;
            }
            cursor.read("column name", notation::string)?;
            CqlType::skip(cursor)?;
        }
        Ok(ColumnSpecs {
            count,
            global_table,
            raw: cursor.since(start),
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Keyspace and table, if one table has all columns and the server said so.
    pub fn global_table(&self) -> Option<(&'a str, &'a str)> {
        self.global_table
    }

    /// As they stand in the body; keyspace and table are in them only where [`global_table`](Self::global_table) is none.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.raw
    }

    /// The specifications in order.
    pub fn iter(&self) -> ColumnSpecsIter<'a> {
        ColumnSpecsIter {
            cursor: Cursor::new(self.raw),
            global_table: self.global_table,
        }
    }

    /// The specification at a position.
    pub fn nth(&self, index: usize) -> Option<ColumnSpec<'a>> {
        self.iter().nth(index)
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        if let Some((keyspace, table)) = self.global_table {
            writer.string("keyspace", keyspace)?;
            writer.string("table", table)?;
        }
        writer.raw(self.raw);
        Ok(())
    }
}

impl<'a> IntoIterator for ColumnSpecs<'a> {
    type Item = ColumnSpec<'a>;
    type IntoIter = ColumnSpecsIter<'a>;

    fn into_iter(self) -> ColumnSpecsIter<'a> {
        self.iter()
    }
}

/// Iterates over [`ColumnSpecs`].
#[derive(Debug, Clone)]
pub struct ColumnSpecsIter<'a> {
    cursor: Cursor<'a>,
    global_table: Option<(&'a str, &'a str)>,
}

impl<'a> Iterator for ColumnSpecsIter<'a> {
    type Item = ColumnSpec<'a>;

    fn next(&mut self) -> Option<ColumnSpec<'a>> {
        // The specifications were walked when they were decoded: an error here is the end.
        let (keyspace, table) = match self.global_table {
            Some(global_table) if !self.cursor.rest().is_empty() => global_table,
            Some(_) => return None,
            None => table_spec(&mut self.cursor).ok()?,
        };
        let name = self.cursor.read("column name", notation::string).ok()?;
        let column_type = CqlType::decode(&mut self.cursor).ok()?;
        Some(ColumnSpec {
            keyspace,
            table,
            name,
            column_type,
        })
    }
}

fn table_spec<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a str, &'a str), DecodeError> {
    Ok((
        cursor.read("keyspace", notation::string)?,
        cursor.read("table", notation::string)?,
    ))
}

/// Column specifications to send. One table is named once, as servers do.
#[derive(Debug, Clone, Default)]
pub struct ColumnSpecsBuf {
    count: usize,
    global_table: Option<(String, String)>,
    raw: BytesMut,
}

impl ColumnSpecsBuf {
    /// Encodes specifications.
    ///
    /// # Errors
    /// Names of more than 65,535 bytes, types that have no form on the wire.
    pub fn new(columns: &[ColumnSpec<'_>]) -> Result<Self, EncodeError> {
        let global_table = columns
            .first()
            .filter(|first| {
                columns
                    .iter()
                    .all(|column| (column.keyspace, column.table) == (first.keyspace, first.table))
            })
            .map(|first| (first.keyspace.to_owned(), first.table.to_owned()));
        let mut raw = BytesMut::new();
        let writer = &mut Writer::new(&mut raw);
        for column in columns {
            if global_table.is_none() {
                writer.string("keyspace", column.keyspace)?;
                writer.string("table", column.table)?;
            }
            writer.string("column name", column.name)?;
            column.column_type.encode(writer)?;
        }
        Ok(ColumnSpecsBuf {
            count: columns.len(),
            global_table,
            raw,
        })
    }

    /// The specifications, to put into a message.
    pub fn columns(&self) -> ColumnSpecs<'_> {
        let global_table = self
            .global_table
            .as_ref()
            .map(|(keyspace, table)| (&keyspace[..], &table[..]));
        ColumnSpecs {
            count: self.count,
            global_table,
            raw: &self.raw,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn column(table: &'static str, name: &'static str, column_type: CqlType) -> ColumnSpec<'static> {
        ColumnSpec {
            keyspace: "k",
            table,
            name,
            column_type,
        }
    }

    #[test]
    fn columns_of_one_table_name_it_once() {
        let columns = [
            column("t", "a", CqlType::Int),
            column("t", "b", CqlType::list(CqlType::Text)),
        ];
        let buf = ColumnSpecsBuf::new(&columns).unwrap();
        assert_eq!(buf.columns().global_table(), Some(("k", "t")));
        assert_eq!(buf.columns().iter().collect::<Vec<_>>(), columns);
    }

    #[test]
    fn columns_of_two_tables_name_each() {
        let columns = [column("t", "a", CqlType::Int), column("u", "b", CqlType::Text)];
        let buf = ColumnSpecsBuf::new(&columns).unwrap();
        assert_eq!(buf.columns().global_table(), None);
        assert_eq!(buf.columns().nth(1), Some(columns[1].clone()));
    }

    #[test]
    fn a_count_without_columns_is_truncated() {
        assert!(ColumnSpecs::decode(&mut Cursor::new(&[0; 4]), usize::MAX, false).is_err());
    }
}
