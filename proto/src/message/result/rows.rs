//! ROWS (v5 §4.2.5.2): metadata and cells. Cells are found by their lengths when they are asked for, never
//! copied.

use bytes::BytesMut;

use super::metadata::ResultMetadata;
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::notation;

/// `<metadata><row count [int]><cell [bytes]>*`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rows<'a> {
    /// What the columns are, and whether more pages follow.
    pub metadata: ResultMetadata<'a>,
    row_count: usize,
    cells: &'a [u8],
}

impl<'a> Rows<'a> {
    /// Rows to send.
    ///
    /// # Errors
    /// If the content has another number of columns than the metadata.
    pub fn new(metadata: ResultMetadata<'a>, content: &'a RowsContent) -> Result<Self, EncodeError> {
        if content.column_count != metadata.column_count {
            return Err(EncodeError::TypeMismatch {
                what: "rows of the metadata's columns",
            });
        }
        Ok(Rows {
            metadata,
            row_count: content.row_count,
            cells: &content.cells,
        })
    }

    #[inline(always)]
    pub(in crate::message) fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        Self::decode_head(cursor, 0)
    }

    /// The same for a body whose last `missing` bytes are not there.
    #[inline(always)]
    pub(in crate::message) fn decode_head(
        cursor: &mut Cursor<'a>,
        missing: usize,
    ) -> Result<Self, DecodeError> {
        let metadata = ResultMetadata::decode(cursor)?;
        let row_count = cursor.read("row count", notation::count)?;
        let cells = cursor.rest();
        // Each cell has a length of four bytes; rows without columns would be rows without bytes.
        let cell_count = row_count.saturating_mul(metadata.column_count.max(1));
        if cell_count.saturating_mul(4) > cells.len() + missing {
            return Err(cursor.error("rows", DecodeErrorKind::Truncated));
        }
        Ok(Rows {
            metadata,
            row_count,
            cells,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        self.metadata.encode(writer)?;
        writer.int_count("rows", self.row_count)?;
        writer.raw(self.cells);
        Ok(())
    }

    /// How many rows there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.row_count
    }

    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// Length of all cells in bytes, with the length of each.
    pub fn byte_len(&self) -> usize {
        self.cells.len()
    }

    /// The rows in order.
    #[inline]
    pub fn iter(&self) -> RowsIter<'a> {
        RowsIter {
            cursor: Cursor::new(self.cells),
            column_count: self.metadata.column_count,
            rows_left: self.row_count,
        }
    }

    /// One column of all rows.
    pub fn column(&self, index: usize) -> impl Iterator<Item = Result<Option<&'a [u8]>, DecodeError>> {
        self.iter()
            .map(move |row| row.map(|row| row.cell(index).flatten()))
    }
}

impl<'a> IntoIterator for Rows<'a> {
    type Item = Result<Row<'a>, DecodeError>;
    type IntoIter = RowsIter<'a>;

    fn into_iter(self) -> RowsIter<'a> {
        self.iter()
    }
}

/// Iterates over [`Rows`]; ends after the first error.
#[derive(Debug, Clone)]
pub struct RowsIter<'a> {
    cursor: Cursor<'a>,
    column_count: usize,
    rows_left: usize,
}

impl<'a> Iterator for RowsIter<'a> {
    type Item = Result<Row<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.rows_left = self.rows_left.checked_sub(1)?;
        let start = self.cursor.offset();
        for _ in 0..self.column_count {
            if let Err(error) = self.cursor.read("cell", notation::bytes) {
                self.rows_left = 0;
                return Some(Err(error));
            }
        }
        Some(Ok(Row {
            cells: self.cursor.since(start),
        }))
    }
}

/// The cells of one row, as they stand in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    cells: &'a [u8],
}

impl<'a> Row<'a> {
    /// The cells in order; `None` is null.
    #[inline]
    pub fn iter(&self) -> RowIter<'a> {
        RowIter { rest: self.cells }
    }

    /// The cell of a column; `None` if there is no such column.
    #[inline]
    pub fn cell(&self, index: usize) -> Option<Option<&'a [u8]>> {
        self.iter().nth(index)
    }

    /// Length of the cells in bytes, with the length of each.
    pub fn byte_len(&self) -> usize {
        self.cells.len()
    }
}

impl<'a> IntoIterator for Row<'a> {
    type Item = Option<&'a [u8]>;
    type IntoIter = RowIter<'a>;

    fn into_iter(self) -> RowIter<'a> {
        self.iter()
    }
}

/// Iterates over the cells of a [`Row`].
#[derive(Debug, Clone)]
pub struct RowIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for RowIter<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // The cells were walked when the row was found: an error here is the end.
        let (rest, cell) = notation::bytes(self.rest).ok()?;
        self.rest = rest;
        Some(cell)
    }
}

/// Cells to send, added row by row.
#[derive(Debug, Clone)]
pub struct RowsContent {
    column_count: usize,
    row_count: usize,
    cells: BytesMut,
}

impl RowsContent {
    /// No rows yet, of so many columns.
    pub fn new(column_count: usize) -> Self {
        RowsContent {
            column_count,
            row_count: 0,
            cells: BytesMut::new(),
        }
    }

    /// Adds a row; `None` is null.
    ///
    /// # Errors
    /// Another number of cells than columns, or a cell of more than 2 GiB.
    pub fn push<'c>(&mut self, cells: impl IntoIterator<Item = Option<&'c [u8]>>) -> Result<(), EncodeError> {
        let mut written = 0;
        for cell in cells {
            Writer::new(&mut self.cells).bytes("cell", cell)?;
            written += 1;
        }
        if written != self.column_count {
            return Err(EncodeError::TypeMismatch {
                what: "a row of the announced columns",
            });
        }
        self.row_count += 1;
        Ok(())
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.row_count
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn two_columns() -> ResultMetadata<'static> {
        ResultMetadata {
            column_count: 2,
            ..ResultMetadata::none()
        }
    }

    #[test]
    fn a_column_is_read_without_the_others() {
        let mut content = RowsContent::new(2);
        content.push([Some(&b"a"[..]), None]).unwrap();
        content.push([None, Some(&b"b"[..])]).unwrap();
        let rows = Rows::new(two_columns(), &content).unwrap();
        assert_eq!(
            rows.column(1).collect::<Result<Vec<_>, _>>().unwrap(),
            [None, Some(&b"b"[..])]
        );
        assert_eq!(rows.iter().next().unwrap().unwrap().cell(2), None);
    }

    #[test]
    fn two_billion_rows_in_a_small_body_are_refused() {
        for columns in [0, 1] {
            let body = [0, 0, 0, 4, 0, 0, 0, columns, 0x7f, 0xff, 0xff, 0xff];
            let error = Rows::decode(&mut Cursor::new(&body)).unwrap_err();
            assert_eq!((error.what, error.kind), ("rows", DecodeErrorKind::Truncated));
        }
    }

    #[test]
    fn a_damaged_cell_ends_the_rows_with_an_error() {
        let body = [0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9];
        let rows = Rows::decode(&mut Cursor::new(&body)).unwrap();
        let read: Vec<_> = rows.iter().map(|row| row.is_ok()).collect();
        assert_eq!(read, [true, false]);
    }
}
