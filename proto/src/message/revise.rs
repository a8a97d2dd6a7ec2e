//! REVISE_REQUEST, opcode 0xFF, DSE only (version 1 calls it CANCEL): steers the continuous pages of another
//! stream.

use super::Dialect;
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::notation;

/// REVISE_REQUEST: `<revision [int]><stream [int]>[<next pages [int]>]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revise {
    /// 1 stops the pages, 2 asks for more.
    pub revision: i32,
    /// The stream whose pages are meant.
    pub target_stream: i32,
    /// How many more pages, with revision 2.
    pub next_pages: Option<i32>,
}

const MORE_PAGES: i32 = 2;

impl Revise {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let revision = cursor.read("revision", notation::int)?;
        let target_stream = cursor.read("target stream", notation::int)?;
        let next_pages = cursor.read_if(revision == MORE_PAGES, "next pages", notation::int)?;
        Ok(Revise {
            revision,
            target_stream,
            next_pages,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        if !dialect.version.is_dse() {
            return Err(EncodeError::Unsupported {
                what: "REVISE_REQUEST",
            });
        }
        writer.int(self.revision);
        writer.int(self.target_stream);
        if self.revision == MORE_PAGES {
            writer.int(self.next_pages.unwrap_or(0));
        }
        Ok(())
    }
}
