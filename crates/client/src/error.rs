//! Why there is no answer, or not the one that was hoped for.

use std::io;

use cqlens_proto::{
    error::{DecodeError, EncodeError},
    message::{ErrorCode, ErrorDetails, Response},
};

/// Why a request got no answer, or not the one that was hoped for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server could not be reached.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// Where to.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// What came is not the protocol.
    #[error("the server's answer cannot be read: {0}")]
    Decode(#[from] DecodeError),
    /// The request does not fit the protocol.
    #[error("the request cannot be written: {0}")]
    Encode(#[from] EncodeError),
    /// An ERROR response. What the server says of it is not shown: it may quote the request, values included.
    #[error("the server answered {code}")]
    Server {
        /// Its code.
        code: ErrorCode,
        /// Its text.
        message: String,
        /// The id that has to be prepared again; with UNPREPARED.
        unprepared: Option<Vec<u8>>,
    },
    /// The server asks for authentication and no credentials are set.
    #[error("the server asks for a user name and password ({0})")]
    CredentialsMissing(String),
    /// The server requires a password, and others could read it on the way.
    #[error(
        "the server requires a password, which is not sent without TLS (unless --allow-plaintext-passwords)"
    )]
    PlaintextPassword,
    /// An answer, or all pages of it, that there is no room for.
    #[error("the server's answer takes more than the {limit} bytes that there are for it (memory)")]
    TooLarge {
        /// Bytes that there are.
        limit: usize,
    },
    /// Pages without an end.
    #[error("the server's pages do not end: {0}")]
    Endless(&'static str),
    /// A response of a kind that does not belong to the request.
    #[error("unexpected response {0}")]
    Unexpected(String),
}

impl ClientError {
    /// The server's ERROR, or that this response does not belong to the request.
    pub fn from_response(response: &Response<'_>) -> Self {
        match response {
            Response::Error(error) => Self::Server {
                code: error.code,
                message: error.message.chars().take(MAX_MESSAGE).collect(),
                unprepared: match error.details {
                    ErrorDetails::Unprepared(id) => Some(id.0.to_vec()),
                    _ => None,
                },
            },
            response => Self::Unexpected(response.opcode().to_string()),
        }
    }

    /// Whether the server wants to know who asks, or does not like what it was told.
    pub fn is_authentication(&self) -> bool {
        matches!(self, Self::CredentialsMissing(_)) || self.code() == Some(ErrorCode::BAD_CREDENTIALS)
    }

    /// The server's code, if it was the server that refused.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Server { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// Longer messages are cut: they stand in the log and in the status.
const MAX_MESSAGE: usize = 512;
