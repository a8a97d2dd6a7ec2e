//! AUTHENTICATE, AUTH_CHALLENGE, AUTH_RESPONSE and AUTH_SUCCESS (v5 §4.1.2, §4.2.3, §4.2.7, §4.2.8): a SASL
//! exchange.

use std::fmt;

use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::notation;

/// AUTHENTICATE: the server wants to know who it talks to. `[string]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authenticate<'a> {
    /// Class name of the server's authenticator.
    pub authenticator: &'a str,
}

impl<'a> Authenticate<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        Ok(Authenticate {
            authenticator: cursor.read("authenticator", notation::string)?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.string("authenticator", self.authenticator)
    }
}

/// A token of the exchange, from either side. `[bytes]`.
///
/// It may be a password: its debug form shows the length alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuthToken<'a> {
    /// What the mechanism sends, or null.
    pub token: Option<&'a [u8]>,
}

impl<'a> AuthToken<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        Ok(AuthToken {
            token: cursor.read("token", notation::bytes)?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.bytes("token", self.token)
    }
}

impl fmt::Debug for AuthToken<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AuthToken")
            .field("length", &self.token.map(<[u8]>::len))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debug_form_of_a_token_hides_it() {
        let token = AuthToken {
            token: Some(b"\0cassandra\0secret"),
        };
        assert_eq!(format!("{token:?}"), "AuthToken { length: Some(17), .. }");
    }
}
