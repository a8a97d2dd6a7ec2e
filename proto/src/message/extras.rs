//! What may stand before a message in its body (tracing id, warnings, custom payload), and what a connection
//! may have agreed on beyond its version.

use bytes::BytesMut;

use super::{Startup, Supported};
use crate::cursor::{Cursor, Writer};
use crate::envelope::{Direction, Flags, Header};
use crate::error::{DecodeError, EncodeError};
use crate::notation;
use crate::types::Uuid;

/// What precedes a message: `[tracing id (response)] [warnings (response)] [custom payload]`, each if its
/// flag is set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extras<'a> {
    /// A request asks for tracing. On a response it equals `tracing_id.is_some()`.
    pub tracing: bool,
    /// The id under which a response was traced.
    pub tracing_id: Option<Uuid>,
    /// Texts from the server, version 4 and later.
    pub warnings: Vec<&'a str>,
    /// Keys and values that the server's query handler may understand, version 4 and later; empty if there is
    /// none.
    pub custom_payload: CustomPayload<'a>,
}

/// `[bytes map]`, in the order of the body.
pub type CustomPayload<'a> = Vec<(&'a str, Option<&'a [u8]>)>;

impl<'a> Extras<'a> {
    /// Whether the header's flags announce any.
    #[inline]
    pub(super) fn precede(header: &Header) -> bool {
        const ANY: u8 = Flags::TRACING.0 | Flags::WARNING.0 | Flags::CUSTOM_PAYLOAD.0;
        header.flags.0 & ANY != 0
    }

    /// Reads what the header's flags announce.
    ///
    /// # Errors
    /// A body that ends early or text that is not UTF-8.
    pub fn decode(cursor: &mut Cursor<'a>, header: &Header) -> Result<Self, DecodeError> {
        if !Extras::precede(header) {
            return Ok(Extras::default());
        }
        let is_response = header.direction == Direction::Response;
        let tracing = header.flags.contains(Flags::TRACING);
        let has_warnings = is_response && header.flags.contains(Flags::WARNING);
        let has_payload = header.flags.contains(Flags::CUSTOM_PAYLOAD);

        let tracing_id = cursor
            .read_if(is_response && tracing, "tracing id", notation::uuid)?
            .map(Uuid);
        let warnings = if has_warnings {
            string_list(cursor, "warnings")?
        } else {
            Vec::new()
        };
        let custom_payload = if has_payload {
            bytes_map(cursor, "custom payload")?
        } else {
            Vec::new()
        };
        Ok(Extras {
            tracing,
            tracing_id,
            warnings,
            custom_payload,
        })
    }

    /// Appends the extras and returns the flags that announce them.
    ///
    /// # Errors
    /// Lengths that the wire cannot say; a tracing id or warnings on a request.
    pub fn encode(&self, direction: Direction, out: &mut BytesMut) -> Result<Flags, EncodeError> {
        let writer = &mut Writer::new(out);
        let mut flags = Flags::NONE;
        if direction == Direction::Request {
            if self.tracing_id.is_some() || !self.warnings.is_empty() {
                return Err(EncodeError::Unsupported {
                    what: "tracing id or warnings of a request",
                });
            }
            if self.tracing {
                flags = flags.with(Flags::TRACING);
            }
        }
        if let Some(id) = self.tracing_id {
            flags = flags.with(Flags::TRACING);
            writer.raw(&id.0);
        }
        if !self.warnings.is_empty() {
            flags = flags.with(Flags::WARNING);
            write_string_list(writer, "warnings", &self.warnings)?;
        }
        if !self.custom_payload.is_empty() {
            flags = flags.with(Flags::CUSTOM_PAYLOAD);
            writer.short_count("custom payload", self.custom_payload.len())?;
            for (key, value) in &self.custom_payload {
                writer.string("custom payload key", key)?;
                writer.bytes("custom payload value", *value)?;
            }
        }
        Ok(flags)
    }
}

/// Extensions of the protocol that change how bodies are laid out; Scylla announces them in SUPPORTED and a
/// driver opts in by naming them in STARTUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extensions {
    /// `SCYLLA_USE_METADATA_ID`: PREPARED and EXECUTE carry a result metadata id in version 4 too.
    pub result_metadata_id: bool,
    /// `SCYLLA_RATE_LIMIT_ERROR`: the code of the error whose body says what was limited.
    pub rate_limit_error: Option<i32>,
    /// `SCYLLA_LWT_ADD_METADATA_MARK`: the bits of the bind metadata flags that mark a lightweight
    /// transaction.
    pub lwt_mask: u32,
}

impl Extensions {
    /// The specification alone.
    pub const NONE: Extensions = Extensions {
        result_metadata_id: false,
        rate_limit_error: None,
        lwt_mask: 0,
    };

    /// The specification and result metadata ids.
    pub const RESULT_METADATA_ID: Extensions = Extensions {
        result_metadata_id: true,
        ..Extensions::NONE
    };

    /// What a server announces; what of it is in force, the client's STARTUP decides
    /// ([`agreed`](Self::agreed)).
    pub fn announced(supported: &Supported<'_>) -> Extensions {
        Extensions::stated(|key| supported.values(key).map(<[_]>::to_vec))
    }

    /// By the values that stand with each key.
    fn stated<'a>(values: impl Fn(&str) -> Option<Vec<&'a str>>) -> Extensions {
        let number = |key, prefix| stated_number(&values(key)?, prefix);
        let rate_limit_error = number("SCYLLA_RATE_LIMIT_ERROR", "ERROR_CODE=");
        let lwt_mask = number("SCYLLA_LWT_ADD_METADATA_MARK", "LWT_OPTIMIZATION_META_BIT_MASK=");
        Extensions {
            result_metadata_id: values("SCYLLA_USE_METADATA_ID").is_some(),
            rate_limit_error: rate_limit_error.and_then(|code| i32::try_from(code).ok()),
            lwt_mask: lwt_mask.and_then(|mask| u32::try_from(mask).ok()).unwrap_or(0),
        }
    }

    /// What is in force on a connection of which only the STARTUP is known: a driver names what the server has
    /// announced, some with the value.
    pub fn named(startup: &Startup<'_>) -> Extensions {
        Extensions::stated(|key| startup.get(key).map(|value| vec![value]))
    }

    /// What is in force on a connection whose STARTUP names these keys.
    #[must_use]
    pub fn agreed(self, startup: &Startup<'_>) -> Extensions {
        Extensions {
            result_metadata_id: self.result_metadata_id && startup.get("SCYLLA_USE_METADATA_ID").is_some(),
            rate_limit_error: self
                .rate_limit_error
                .filter(|_| startup.get("SCYLLA_RATE_LIMIT_ERROR").is_some()),
            lwt_mask: startup
                .get("SCYLLA_LWT_ADD_METADATA_MARK")
                .map_or(0, |_| self.lwt_mask),
        }
    }
}

/// The number after `prefix` in one of the values, such as `ERROR_CODE=61440`.
fn stated_number(values: &[&str], prefix: &str) -> Option<i64> {
    values
        .iter()
        .find_map(|value| value.strip_prefix(prefix)?.parse().ok())
}

/// `[string list]`.
pub(crate) fn string_list<'a>(
    cursor: &mut Cursor<'a>,
    what: &'static str,
) -> Result<Vec<&'a str>, DecodeError> {
    let count = cursor.read(what, notation::short)?;
    // Collected one by one: a count alone gets no memory.
    (0..count).map(|_| cursor.read(what, notation::string)).collect()
}

/// `[bytes map]`.
pub(crate) fn bytes_map<'a>(
    cursor: &mut Cursor<'a>,
    what: &'static str,
) -> Result<CustomPayload<'a>, DecodeError> {
    let count = cursor.read(what, notation::short)?;
    let mut pair = |_| {
        Ok((
            cursor.read(what, notation::string)?,
            cursor.read(what, notation::bytes)?,
        ))
    };
    (0..count).map(&mut pair).collect()
}

/// Appends a `[string list]`.
pub(crate) fn write_string_list(
    writer: &mut Writer<'_>,
    what: &'static str,
    texts: &[&str],
) -> Result<(), EncodeError> {
    writer.short_count(what, texts.len())?;
    texts.iter().try_for_each(|text| writer.string(what, text))
}
