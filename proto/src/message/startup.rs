//! STARTUP (v5 §4.1.1): the first message of a connection, which describes the client.

use crate::compress::Compression;
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::notation;

/// STARTUP: `[string map]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Startup<'a> {
    /// Keys and values in the order of the body, such as `CQL_VERSION`, `COMPRESSION`, `DRIVER_NAME`,
    /// `CLIENT_ID`.
    pub options: Vec<(&'a str, &'a str)>,
}

impl<'a> Startup<'a> {
    /// The value of an option; keys are written in capitals.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.options
            .iter()
            .find(|(its_key, _)| *its_key == key)
            .map(|(_, value)| *value)
    }

    /// The compression that the connection will use.
    pub fn compression(&self) -> Compression {
        self.get("COMPRESSION")
            .map_or(Compression::None, Compression::from_name)
    }

    /// Reads a body that has nothing before the message.
    ///
    /// # Errors
    /// A body that is not a `[string map]`.
    pub(crate) fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let count = cursor.read("number of options", notation::short)?;
        let mut option = |_| {
            Ok((
                cursor.read("option", notation::string)?,
                cursor.read("option value", notation::string)?,
            ))
        };
        Ok(Startup {
            options: (0..count).map(&mut option).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.short_count("options", self.options.len())?;
        for (key, value) in &self.options {
            writer.string("option", key)?;
            writer.string("option value", value)?;
        }
        Ok(())
    }
}
