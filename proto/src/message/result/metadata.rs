//! The metadata of rows (v5 §4.2.5.2), in ROWS and in PREPARED.

use super::columns::ColumnSpecs;
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::message::execute::ResultMetadataId;
use crate::message::query::PagingState;
use crate::notation;

/// `<flags [int]><column count [int]>[<paging state>][<new metadata id>][<continuous page>][<columns>]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResultMetadata<'a> {
    /// How many columns each row has.
    pub column_count: usize,
    /// What they are; `None` if the client asked to leave it out (then it is what PREPARED said).
    pub columns: Option<ColumnSpecs<'a>>,
    /// Where the next page starts; `None` on the last page.
    pub paging_state: Option<PagingState<'a>>,
    /// The columns changed since PREPARED and have this id now: version 5.
    pub new_metadata_id: Option<ResultMetadataId<'a>>,
    /// DSE: this is one of many pages that answer one request.
    pub continuous_page: Option<ContinuousPage>,
    /// Flags without a meaning here, kept as sent.
    pub other_flags: u32,
}

/// The place of a page among those that answer one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContinuousPage {
    /// From 1.
    pub number: i32,
    /// No more will come.
    pub is_last: bool,
}

mod flag {
    pub(super) const GLOBAL_TABLE: u32 = 0x01;
    pub(super) const HAS_MORE_PAGES: u32 = 0x02;
    pub(super) const NO_METADATA: u32 = 0x04;
    pub(super) const METADATA_CHANGED: u32 = 0x08;
    pub(super) const CONTINUOUS_PAGE: u32 = 0x4000_0000;
    pub(super) const LAST_CONTINUOUS_PAGE: u32 = 0x8000_0000;
    const KNOWN: u32 = GLOBAL_TABLE
        | HAS_MORE_PAGES
        | NO_METADATA
        | METADATA_CHANGED
        | CONTINUOUS_PAGE
        | LAST_CONTINUOUS_PAGE;

    /// Cassandra sets the flag of a global table also where it leaves out the columns that would have one.
    pub(super) const fn with_meaning(has_no_columns: bool) -> u32 {
        if has_no_columns {
            KNOWN & !GLOBAL_TABLE
        } else {
            KNOWN
        }
    }
}

impl<'a> ResultMetadata<'a> {
    /// Metadata that names its columns, without paging.
    pub fn new(columns: ColumnSpecs<'a>) -> Self {
        ResultMetadata {
            column_count: columns.len(),
            columns: Some(columns),
            ..ResultMetadata::none()
        }
    }

    /// The metadata of a statement without rows: no columns, and none named.
    pub const fn none() -> Self {
        ResultMetadata {
            column_count: 0,
            columns: None,
            paging_state: None,
            new_metadata_id: None,
            continuous_page: None,
            other_flags: 0,
        }
    }

    #[inline(always)]
    pub(super) fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let flags = cursor.read("metadata flags", notation::int_flags)?;
        let has = |flag: u32| flags & flag != 0;
        let column_count = cursor.read("column count", notation::count)?;
        let paging_state = cursor.read_if(has(flag::HAS_MORE_PAGES), "paging state", notation::bytes)?;
        let new_metadata_id = cursor.read_if(
            has(flag::METADATA_CHANGED),
            "new result metadata id",
            notation::short_bytes,
        )?;
        let page_number = cursor.read_if(has(flag::CONTINUOUS_PAGE), "page number", notation::int)?;
        let columns = match has(flag::NO_METADATA) {
            true => None,
            false => Some(ColumnSpecs::decode(
                cursor,
                column_count,
                has(flag::GLOBAL_TABLE),
            )?),
        };
        Ok(ResultMetadata {
            column_count,
            columns,
            paging_state: paging_state.map(|state| PagingState(state.unwrap_or_default())),
            new_metadata_id: new_metadata_id.map(ResultMetadataId),
            continuous_page: page_number.map(|number| ContinuousPage {
                number,
                is_last: has(flag::LAST_CONTINUOUS_PAGE),
            }),
            other_flags: flags & !flag::with_meaning(has(flag::NO_METADATA)),
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        if self
            .columns
            .is_some_and(|columns| columns.len() != self.column_count)
        {
            return Err(EncodeError::TypeMismatch {
                what: "the announced number of columns",
            });
        }
        writer.int_flags(self.flags());
        writer.int_count("columns", self.column_count)?;
        if let Some(PagingState(state)) = self.paging_state {
            writer.bytes("paging state", Some(state))?;
        }
        if let Some(ResultMetadataId(id)) = self.new_metadata_id {
            writer.short_bytes("new result metadata id", id)?;
        }
        if let Some(page) = self.continuous_page {
            writer.int(page.number);
        }
        self.columns.map_or(Ok(()), |columns| columns.encode(writer))
    }

    fn flags(&self) -> u32 {
        let flag = |flag: u32, is_set: bool| if is_set { flag } else { 0 };
        let has_global_table = self
            .columns
            .is_some_and(|columns| columns.global_table().is_some());
        self.other_flags
            | flag(flag::GLOBAL_TABLE, has_global_table)
            | flag(flag::HAS_MORE_PAGES, self.paging_state.is_some())
            | flag(flag::NO_METADATA, self.columns.is_none())
            | flag(flag::METADATA_CHANGED, self.new_metadata_id.is_some())
            | flag(flag::CONTINUOUS_PAGE, self.continuous_page.is_some())
            | flag(
                flag::LAST_CONTINUOUS_PAGE,
                self.continuous_page.is_some_and(|page| page.is_last),
            )
    }
}
