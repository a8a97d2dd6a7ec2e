//! RESULT (v5 §4.2.5): `<kind [int]>` and what the kind says.

pub mod columns;
pub mod metadata;
pub mod prepared;
pub mod rows;

pub use columns::{ColumnSpec, ColumnSpecs, ColumnSpecsBuf};
pub use metadata::{ContinuousPage, ResultMetadata};
pub use prepared::{BindMetadata, Prepared};
pub use rows::{Row, Rows, RowsContent};

use super::Dialect;
use super::event::SchemaChange;
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::notation;

/// What a statement gave.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum QueryResult<'a> {
    /// Nothing: a write.
    Void,
    /// Rows: a read, or a conditional write.
    Rows(Rows<'a>),
    /// USE: `<keyspace [string]>`.
    SetKeyspace {
        /// The keyspace of unqualified names on this connection from now on.
        keyspace: &'a str,
    },
    /// The answer to PREPARE.
    Prepared(Prepared<'a>),
    /// The schema was changed.
    SchemaChange(SchemaChange<'a>),
    /// A kind that is not known.
    Unknown {
        /// The kind.
        kind: i32,
        /// What follows it, undecoded.
        rest: &'a [u8],
    },
}

mod kind {
    pub(super) const VOID: i32 = 1;
    pub(super) const ROWS: i32 = 2;
    pub(super) const SET_KEYSPACE: i32 = 3;
    pub(super) const PREPARED: i32 = 4;
    pub(super) const SCHEMA_CHANGE: i32 = 5;
}

impl<'a> QueryResult<'a> {
    /// Where the rows begin, if it has any.
    #[inline]
    pub(super) fn rows(mut cursor: Cursor<'a>) -> Option<Cursor<'a>> {
        let kind = cursor.read("result kind", notation::int);
        (kind == Ok(kind::ROWS)).then_some(cursor)
    }

    pub(super) fn decode(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        Ok(match cursor.read("result kind", notation::int)? {
            kind::VOID => QueryResult::Void,
            kind::ROWS => QueryResult::Rows(Rows::decode(cursor)?),
            kind::SET_KEYSPACE => QueryResult::SetKeyspace {
                keyspace: cursor.read("keyspace", notation::string)?,
            },
            kind::PREPARED => QueryResult::Prepared(Prepared::decode(cursor, dialect)?),
            kind::SCHEMA_CHANGE => QueryResult::SchemaChange(SchemaChange::decode(cursor)?),
            kind => QueryResult::Unknown {
                kind,
                rest: cursor.rest(),
            },
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        match self {
            QueryResult::Void => {
                writer.int(kind::VOID);
                Ok(())
            }
            QueryResult::Rows(rows) => {
                writer.int(kind::ROWS);
                rows.encode(writer)
            }
            QueryResult::SetKeyspace { keyspace } => {
                writer.int(kind::SET_KEYSPACE);
                writer.string("keyspace", keyspace)
            }
            QueryResult::Prepared(prepared) => {
                writer.int(kind::PREPARED);
                prepared.encode(writer, dialect)
            }
            QueryResult::SchemaChange(change) => {
                writer.int(kind::SCHEMA_CHANGE);
                change.encode(writer)
            }
            QueryResult::Unknown { kind, rest } => {
                writer.int(*kind);
                writer.raw(rest);
                Ok(())
            }
        }
    }
}
