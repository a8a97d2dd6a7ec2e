//! PREPARED (v5 §4.2.5.4): the server's name for a statement, its markers and its columns.

use super::columns::ColumnSpecs;
use super::metadata::ResultMetadata;
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::message::Dialect;
use crate::message::execute::{PreparedId, ResultMetadataId};
use crate::notation;

/// `<id [short bytes]>[<result metadata id [short bytes]>]<bind metadata><result metadata>`.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared<'a> {
    /// What EXECUTE will name.
    pub id: PreparedId<'a>,
    /// The name of the columns as they are now: version 5, DSE v2 and Scylla's extension.
    pub result_metadata_id: Option<ResultMetadataId<'a>>,
    /// The markers.
    pub bind: BindMetadata<'a>,
    /// The columns of the rows; none for a write.
    pub result: ResultMetadata<'a>,
}

/// `<flags [int]><marker count [int]>[<pk count [int]><pk index [short]>*][<markers>]`; version 3 has no
/// indices.
#[derive(Debug, Clone, PartialEq)]
pub struct BindMetadata<'a> {
    /// The markers in order.
    pub markers: ColumnSpecs<'a>,
    /// For each partition key column in order, the marker that binds it; empty if the server did not say, for
    /// example because not every column has one, or in version 3.
    pub partition_key_indices: Vec<u16>,
    /// Flags without a meaning here, kept as sent.
    pub other_flags: u32,
}

impl<'a> Prepared<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        let has_metadata_id = dialect.has_result_metadata_id();
        let id = cursor.read("prepared id", notation::short_bytes)?;
        let metadata_id = cursor.read_if(has_metadata_id, "result metadata id", notation::short_bytes)?;
        Ok(Prepared {
            id: PreparedId(id),
            result_metadata_id: metadata_id.map(ResultMetadataId),
            bind: BindMetadata::decode(cursor, dialect)?,
            result: ResultMetadata::decode(cursor)?,
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
        self.bind.encode(writer, dialect)?;
        self.result.encode(writer)
    }
}

impl<'a> BindMetadata<'a> {
    const GLOBAL_TABLE: u32 = 0x01;

    /// True if ScyllaDB marked the statement as a lightweight transaction (its extension announces the mask).
    pub fn is_lightweight_transaction(&self, dialect: Dialect) -> bool {
        self.other_flags & dialect.extensions.lwt_mask != 0
    }

    fn decode(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        let flags = cursor.read("bind metadata flags", notation::int_flags)?;
        let count = cursor.read("marker count", notation::count)?;
        let index_count = match dialect.version.is_at_least_v4() {
            true => cursor.read("partition key index count", notation::count)?,
            false => 0,
        };
        let partition_key_indices = (0..index_count)
            .map(|_| cursor.read("partition key index", notation::short))
            .collect::<Result<_, _>>()?;
        let markers = ColumnSpecs::decode(cursor, count, flags & Self::GLOBAL_TABLE != 0)?;
        Ok(BindMetadata {
            markers,
            partition_key_indices,
            other_flags: flags & !Self::GLOBAL_TABLE,
        })
    }

    fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        let global_table = if self.markers.global_table().is_some() {
            Self::GLOBAL_TABLE
        } else {
            0
        };
        writer.int_flags(self.other_flags | global_table);
        writer.int_count("markers", self.markers.len())?;
        if dialect.version.is_at_least_v4() {
            writer.int_count("partition key indices", self.partition_key_indices.len())?;
            self.partition_key_indices
                .iter()
                .for_each(|index| writer.short(*index));
        } else if !self.partition_key_indices.is_empty() {
            return Err(EncodeError::Unsupported {
                what: "partition key indices",
            });
        }
        self.markers.encode(writer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::envelope::Version;
    use crate::message::Extensions;

    const PREPARED: &[u8] =
        b"\0\x02id\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01k\0\x01t\0\x01a\0\x09\0\0\0\x04\0\0\0\0";

    #[test]
    fn partition_key_indices_are_read_in_key_order() {
        let prepared = Prepared::decode(&mut Cursor::new(PREPARED), Dialect::new(Version::V4)).unwrap();
        assert_eq!(prepared.id, PreparedId(b"id"));
        assert_eq!(prepared.bind.partition_key_indices, [0]);
        assert_eq!(prepared.bind.markers.nth(0).unwrap().name, "a");
        assert_eq!(prepared.result.columns, None);
    }

    #[test]
    fn scyllas_lwt_mark_is_the_announced_bit() {
        let mut body = PREPARED.to_vec();
        body[4] = 0x80;
        let extensions = Extensions {
            lwt_mask: 0x8000_0000,
            ..Extensions::NONE
        };
        let dialect = Dialect::with(Version::V4, extensions);
        let prepared = Prepared::decode(&mut Cursor::new(&body), dialect).unwrap();
        assert!(prepared.bind.is_lightweight_transaction(dialect));
    }
}
