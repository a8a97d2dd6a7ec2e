//! EXECUTE (v5 §4.1.6): a prepared statement with its values.

use super::Dialect;
use super::query::QueryParameters;
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::notation;

/// The server's name for a prepared statement; opaque, and valid per cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreparedId<'a>(pub &'a [u8]);

/// The server's name for the columns of a prepared statement's result; changes with the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResultMetadataId<'a>(pub &'a [u8]);

/// EXECUTE: `<id [short bytes]>[<result metadata id [short bytes]>]<parameters>`.
#[derive(Debug, Clone, PartialEq)]
pub struct Execute<'a> {
    /// What PREPARED answered.
    pub id: PreparedId<'a>,
    /// As in PREPARED, or in ROWS since then: version 5, DSE v2 and Scylla's extension.
    pub result_metadata_id: Option<ResultMetadataId<'a>>,
    /// Values and how to run the statement.
    pub parameters: QueryParameters<'a>,
}

impl<'a> Execute<'a> {
    #[inline(always)]
    pub(super) fn decode(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        let has_metadata_id = dialect.has_result_metadata_id();
        let id = cursor.read("prepared id", notation::short_bytes)?;
        let metadata_id = cursor.read_if(has_metadata_id, "result metadata id", notation::short_bytes)?;
        Ok(Execute {
            id: PreparedId(id),
            result_metadata_id: metadata_id.map(ResultMetadataId),
            parameters: QueryParameters::decode(cursor, dialect)?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        writer.short_bytes("prepared id", self.id.0)?;
        if dialect.has_result_metadata_id() {
            writer.short_bytes(
                "result metadata id",
                self.result_metadata_id.map_or(&[][..], |id| id.0),
            )?;
        }
        self.parameters.encode(writer, dialect)
    }
}
