//! What came back, in a few bytes that can be compared: never a value.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use cqlens_proto::message::{QueryResult, Response, Rows};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::column_types::{self, ColumnTypes, ColumnTypesCache};

/// The key of a recording's digests: those of two keys cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestKey(pub u128);

/// A response without its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseDigest {
    /// Rows, maybe none; of a conditional write whether it was applied, and what was there.
    Rows(RowsDigest),
    /// A write was done, or there is nothing to say.
    Void,
    /// The keyspace was set.
    SetKeyspace,
    /// The schema was changed.
    SchemaChange,
    /// An error: its code.
    Error(i32),
    /// The response did not come, or was too long to be kept.
    Missing,
}

/// Rows without their values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsDigest {
    /// How many.
    pub count: u64,
    /// Of all rows in their order.
    pub ordered: u128,
    /// Of all rows whatever their order: a sum.
    pub unordered: u128,
    /// Of each column whatever the order of rows, for comparisons that leave columns out; empty where there are
    /// more than [`MOST_COLUMNS`].
    pub columns: Vec<u128>,
    /// Name and type of each column as CQL has them, where the response says them.
    pub column_types: Option<ColumnTypes>,
    /// Whether more pages follow.
    pub has_more: bool,
}

/// Columns that are digested one by one.
pub const MOST_COLUMNS: usize = 64;

/// Bytes of the names and types of columns as they stand in a response; those of one that has more are not kept.
const MOST_COLUMN_BYTES: usize = 32 << 10;

impl ResponseDigest {
    /// The digest of a response.
    pub fn of(response: &Response<'_>, key: DigestKey, types: &mut ColumnTypesCache) -> Self {
        match response {
            Response::Result(QueryResult::Rows(rows)) => Self::Rows(RowsDigest::of(rows, key, types)),
            Response::Result(QueryResult::SetKeyspace { .. }) => Self::SetKeyspace,
            Response::Result(QueryResult::SchemaChange(_)) => Self::SchemaChange,
            Response::Result(QueryResult::Void) => Self::Void,
            Response::Error(error) => Self::Error(error.code.0),
            _ => Self::Missing,
        }
    }
}

impl ResponseDigest {
    /// What it takes up, about.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.weight(),
            _ => size_of::<Self>(),
        }
    }
}

impl RowsDigest {
    /// What it takes up, about, were its column types its own.
    pub(crate) fn weight(&self) -> usize {
        let types = self.column_types.as_deref().map_or(0, column_types::weight);
        size_of::<ResponseDigest>() + size_of::<u128>() * self.columns.len() + types
    }

    /// The digest of a page of rows; rows after one that cannot be read are left out.
    pub fn of(rows: &Rows<'_>, key: DigestKey, types: &mut ColumnTypesCache) -> Self {
        let mut digester = RowsDigester::new(key);
        digester.add(rows, types);
        digester.finish()
    }
}

/// Digests rows page by page: the same digest wherever pages end.
#[derive(Debug, Clone)]
pub struct RowsDigester {
    key: DigestKey,
    ordered: SipHasher13,
    digest: RowsDigest,
    has_begun: bool,
}

impl RowsDigester {
    /// No rows yet.
    pub fn new(key: DigestKey) -> Self {
        Self {
            key,
            ordered: key.hasher(),
            digest: RowsDigest::default(),
            has_begun: false,
        }
    }

    /// Adds a page; rows after one that cannot be read are left out.
    pub fn add(&mut self, rows: &Rows<'_>, types: &mut ColumnTypesCache) {
        let digest = &mut self.digest;
        if !self.has_begun {
            self.has_begun = true;
            let column_count = rows.metadata.column_count;
            if column_count <= MOST_COLUMNS {
                digest.columns = vec![0; column_count];
            }
        }
        if digest.column_types.is_none() {
            let columns = rows.metadata.columns;
            let columns = columns.filter(|columns| columns.as_bytes().len() <= MOST_COLUMN_BYTES);
            digest.column_types = columns.map(|columns| types.of(columns));
        }
        digest.count += rows.len() as u64;
        digest.has_more = rows.metadata.paging_state.is_some();
        for row in rows.iter().map_while(Result::ok) {
            let mut whole = self.key.hasher();
            let mut columns = digest.columns.iter_mut();
            for cell in row.iter() {
                let cell = self.key.of_cell(cell);
                whole.write_u128(cell);
                if let Some(column) = columns.next() {
                    *column = column.wrapping_add(cell);
                }
            }
            let whole = whole.finish128().as_u128();
            digest.unordered = digest.unordered.wrapping_add(whole);
            self.ordered.write_u128(whole);
        }
    }

    /// The digest of all pages.
    pub fn finish(self) -> RowsDigest {
        RowsDigest {
            ordered: self.ordered.finish128().as_u128(),
            ..self.digest
        }
    }
}

/// A number that is not known outside of this process.
pub(crate) fn random() -> u64 {
    // Each `RandomState` is seeded by the operating system.
    RandomState::new().build_hasher().finish()
}

impl DigestKey {
    /// A key that is not known outside of this process.
    pub fn random() -> Self {
        Self(u128::from(random()) << 64 | u128::from(random()))
    }

    fn hasher(self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0.to_le_bytes())
    }

    /// The digest of a cell; a null is no empty value.
    fn of_cell(self, cell: Option<&[u8]>) -> u128 {
        let mut hasher = self.hasher();
        match cell {
            None => hasher.write_u8(0),
            Some(bytes) => {
                hasher.write_u8(1);
                hasher.write(bytes);
            }
        }
        hasher.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use cqlens_proto::{
        message::{ColumnSpec, ResultMetadata, RowsContent, result::ColumnSpecsBuf},
        types::CqlType,
    };

    use super::*;

    const KEY: DigestKey = DigestKey(7);

    fn digest(rows: &[[Option<&[u8]>; 2]]) -> RowsDigest {
        let column = |name, column_type| ColumnSpec {
            keyspace: "k",
            table: "t",
            name,
            column_type,
        };
        let columns = ColumnSpecsBuf::new(&[column("a", CqlType::Int), column("b", CqlType::Text)]).unwrap();
        let mut content = RowsContent::new(2);
        for row in rows {
            content.push(row.iter().copied()).unwrap();
        }
        RowsDigest::of(
            &Rows::new(ResultMetadata::new(columns.columns()), &content).unwrap(),
            KEY,
            &mut ColumnTypesCache::default(),
        )
    }

    #[test]
    fn rows_in_another_order_differ_in_order_alone() {
        let (one, two) = ([Some(&b"1"[..]), None], [Some(&b"2"[..]), Some(&b"x"[..])]);
        let (forth, back) = (digest(&[one, two]), digest(&[two, one]));
        assert_ne!(forth.ordered, back.ordered);
        assert_eq!((forth.unordered, &forth.columns), (back.unordered, &back.columns));
        assert_eq!(
            *forth.column_types.unwrap(),
            [("a", "int"), ("b", "text")].map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }

    #[test]
    fn a_cell_that_differs_shows_in_its_column() {
        let (one, two) = (digest(&[[Some(b"1"), Some(b"")]]), digest(&[[Some(b"1"), None]]));
        assert_ne!(one.unordered, two.unordered);
        assert_eq!(one.columns[0], two.columns[0]);
        assert_ne!(one.columns[1], two.columns[1], "an empty value is no null");
    }

    #[test]
    fn rows_that_are_there_twice_are_not_rows_that_are_not_there() {
        let one = [Some(&b"1"[..]), None];
        assert_ne!(digest(&[one, one]).unordered, digest(&[]).unordered);
    }
}
