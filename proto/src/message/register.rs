//! REGISTER (v5 §4.1.8): which events a client wants on this connection.

use super::extras::{string_list, write_string_list};
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};

/// REGISTER: `[string list]` of event types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register<'a> {
    /// `TOPOLOGY_CHANGE`, `STATUS_CHANGE`, `SCHEMA_CHANGE`.
    pub event_types: Vec<&'a str>,
}

impl<'a> Register<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        Ok(Register {
            event_types: string_list(cursor, "event types")?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        write_string_list(writer, "event types", &self.event_types)
    }
}
