//! SUPPORTED (v5 §4.2.4): the answer to OPTIONS.

use super::extras::{string_list, write_string_list};
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::notation;

/// SUPPORTED: `[string multimap]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supported<'a> {
    /// Keys and their values in the order of the body, such as `CQL_VERSION`, `COMPRESSION`,
    /// `PROTOCOL_VERSIONS`.
    pub options: Vec<(&'a str, Vec<&'a str>)>,
}

impl<'a> Supported<'a> {
    /// The values of an option, `None` if the server does not name it.
    pub fn values(&self, key: &str) -> Option<&[&'a str]> {
        self.options
            .iter()
            .find(|(its_key, _)| *its_key == key)
            .map(|(_, values)| &values[..])
    }

    pub(super) fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let count = cursor.read("number of options", notation::short)?;
        let mut option = |_| {
            Ok((
                cursor.read("option", notation::string)?,
                string_list(cursor, "option values")?,
            ))
        };
        Ok(Supported {
            options: (0..count).map(&mut option).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.short_count("options", self.options.len())?;
        for (key, values) in &self.options {
            writer.string("option", key)?;
            write_string_list(writer, "option values", values)?;
        }
        Ok(())
    }
}
