//! PREPARE (v5 §4.1.5).

use super::Dialect;
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::notation;

/// PREPARE: `<query [long string]>`, from version 5 on with `<flags [int]>[<keyspace [string]>]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepare<'a> {
    /// CQL text.
    pub query: &'a str,
    /// The keyspace of unqualified names: version 5 and DSE v2.
    pub keyspace: Option<&'a str>,
    /// Flags without a meaning here, kept as sent.
    pub other_flags: u32,
}

const WITH_KEYSPACE: u32 = 0x01;

impl<'a> Prepare<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        let has_flags = dialect.version.has_result_metadata_id();
        let query = cursor.read("query", notation::long_string)?;
        let flags = cursor
            .read_if(has_flags, "flags", notation::int_flags)?
            .unwrap_or(0);
        let keyspace = cursor.read_if(flags & WITH_KEYSPACE != 0, "keyspace", notation::string)?;
        Ok(Prepare {
            query,
            keyspace,
            other_flags: flags & !WITH_KEYSPACE,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        writer.long_string("query", self.query)?;
        if dialect.version.has_result_metadata_id() {
            let keyspace_flag = if self.keyspace.is_some() { WITH_KEYSPACE } else { 0 };
            writer.int_flags(self.other_flags | keyspace_flag);
            return self
                .keyspace
                .map_or(Ok(()), |keyspace| writer.string("keyspace", keyspace));
        }
        match self.keyspace {
            Some(_) => Err(EncodeError::Unsupported {
                what: "the keyspace of PREPARE",
            }),
            None => Ok(()),
        }
    }
}
