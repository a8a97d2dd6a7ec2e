//! What is in an envelope's body: one file per message, decoded and encoded field by field in wire order.
//!
//! Messages borrow from the body. What the audit reads for every request is read without allocating: the
//! values of an EXECUTE, the cells of rows and column specifications are views that are iterated. Lists that
//! are rare or short are `Vec`s. Bytes after a message are ignored, unknown flags are kept, unknown opcodes,
//! kinds and codes are values.

pub mod auth;
pub mod batch;
pub mod consistency;
pub mod error;
pub mod event;
pub mod execute;
pub mod extras;
pub mod head;
mod layout;
pub mod prepare;
pub mod query;
pub mod register;
pub mod result;
pub mod revise;
pub mod startup;
pub mod supported;
pub mod values;

use bytes::{Bytes, BytesMut};

pub use auth::{AuthToken, Authenticate};
pub use batch::{Batch, BatchKind, BatchQuery, BatchStatement};
pub use consistency::{Consistency, SerialConsistency};
pub use error::{ErrorCode, ErrorDetails, ErrorMessage, Failures, WriteType};
pub use event::{Event, NodeChange, SchemaChange, SchemaObject};
pub use execute::{Execute, PreparedId, ResultMetadataId};
pub use extras::{Extensions, Extras};
pub use head::RequestHead;
pub use layout::fits;
pub use prepare::Prepare;
pub use query::{ContinuousPaging, PagingState, Query, QueryParameters};
pub use register::Register;
pub use result::{
    BindMetadata, ColumnSpec, ColumnSpecs, Prepared, QueryResult, ResultMetadata, Row, Rows, RowsContent,
};
pub use revise::Revise;
pub use startup::Startup;
pub(crate) use startup::StartupScan;
pub use supported::Supported;
pub use values::{Value, Values, ValuesBuf};

use crate::cursor::{Cursor, Writer};
use crate::envelope::{Direction, Envelope, Header, Opcode, StreamId, Version};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};

/// What a body's layout depends on, besides its opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// The protocol version that the envelope states.
    pub version: Version,
    /// What the connection agreed on beyond the version.
    pub extensions: Extensions,
}

impl Dialect {
    /// A version as its specification has it.
    pub const fn new(version: Version) -> Dialect {
        Dialect {
            version,
            extensions: Extensions::NONE,
        }
    }

    /// A version with extensions.
    #[inline]
    pub const fn with(version: Version, extensions: Extensions) -> Dialect {
        Dialect { version, extensions }
    }

    /// True if PREPARED and EXECUTE carry a result metadata id: version 5, DSE v2, or Scylla's extension of
    /// version 4.
    #[inline]
    pub const fn has_result_metadata_id(self) -> bool {
        self.version.has_result_metadata_id() || self.extensions.result_metadata_id
    }
}

/// A message and what came with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded<'a, M> {
    /// Tracing id, warnings and custom payload.
    pub extras: Extras<'a>,
    /// The message itself.
    pub message: M,
}

/// A body that a client sends.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)] // Each is documented at its type.
pub enum Request<'a> {
    Startup(Startup<'a>),
    /// Asks for SUPPORTED; the body is empty.
    Options,
    AuthResponse(AuthToken<'a>),
    Query(Query<'a>),
    Prepare(Prepare<'a>),
    Execute(Execute<'a>),
    Batch(Batch<'a>),
    Register(Register<'a>),
    /// DSE only.
    Revise(Revise),
    /// An opcode that is not a request of the specification.
    Unknown {
        /// The opcode.
        opcode: Opcode,
        /// The body, undecoded.
        body: &'a [u8],
    },
}

/// A body that a server sends.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)] // Each is documented at its type.
pub enum Response<'a> {
    Error(ErrorMessage<'a>),
    /// The connection is set up, or events are registered for; the body is empty.
    Ready,
    Authenticate(Authenticate<'a>),
    Supported(Supported<'a>),
    Result(QueryResult<'a>),
    Event(Event<'a>),
    AuthChallenge(AuthToken<'a>),
    AuthSuccess(AuthToken<'a>),
    /// An opcode that is not a response of the specification.
    Unknown {
        /// The opcode.
        opcode: Opcode,
        /// The body, undecoded.
        body: &'a [u8],
    },
}

impl<'a> Request<'a> {
    /// What a QUERY or EXECUTE is executed with; none for other requests.
    pub fn parameters(&self) -> Option<&QueryParameters<'a>> {
        match self {
            Request::Query(query) => Some(&query.parameters),
            Request::Execute(execute) => Some(&execute.parameters),
            _ => None,
        }
    }

    /// Decodes the body of a request.
    ///
    /// # Errors
    /// A body that is not what its opcode and version say; an envelope of the other direction.
    pub fn decode(
        envelope: &'a Envelope,
        extensions: Extensions,
    ) -> Result<Decoded<'a, Request<'a>>, DecodeError> {
        let header = &envelope.header;
        let mut cursor = Cursor::new(&envelope.body);
        expect(header, Direction::Request, &cursor)?;
        let extras = Extras::decode(&mut cursor, header)?;
        let dialect = Dialect::with(header.version, extensions);
        let message = Request::decode_body(&mut cursor, header.opcode, dialect)?;
        Ok(Decoded { extras, message })
    }

    /// As [`decode`](Self::decode), without the extras. An EXECUTE that has none is decoded in place, not
    /// moved as one of many messages: with [`Response::plain_rows`], that saves 8 % of the audit of prepared
    /// reads.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    #[inline]
    pub fn decode_message(
        envelope: &'a Envelope,
        extensions: Extensions,
    ) -> Result<Request<'a>, DecodeError> {
        let header = &envelope.header;
        let is_plain = header.direction == Direction::Request && !Extras::precede(header);
        if header.opcode == Opcode::EXECUTE && is_plain {
            let mut cursor = Cursor::new(&envelope.body);
            let dialect = Dialect::with(header.version, extensions);
            return Ok(Request::Execute(Execute::decode(&mut cursor, dialect)?));
        }
        Request::decode(envelope, extensions).map(|decoded| decoded.message)
    }

    #[inline(always)]
    fn decode_body(
        cursor: &mut Cursor<'a>,
        opcode: Opcode,
        dialect: Dialect,
    ) -> Result<Request<'a>, DecodeError> {
        Ok(match opcode {
            Opcode::STARTUP => Request::Startup(Startup::decode(cursor)?),
            Opcode::OPTIONS => Request::Options,
            Opcode::AUTH_RESPONSE => Request::AuthResponse(AuthToken::decode(cursor)?),
            Opcode::QUERY => Request::Query(Query::decode(cursor, dialect)?),
            Opcode::PREPARE => Request::Prepare(Prepare::decode(cursor, dialect)?),
            Opcode::EXECUTE => Request::Execute(Execute::decode(cursor, dialect)?),
            Opcode::BATCH => Request::Batch(Batch::decode(cursor, dialect)?),
            Opcode::REGISTER => Request::Register(Register::decode(cursor)?),
            Opcode::DSE_REVISE if dialect.version.is_dse() => Request::Revise(Revise::decode(cursor)?),
            opcode => Request::Unknown {
                opcode,
                body: cursor.rest(),
            },
        })
    }

    /// The opcode that goes with the body.
    pub fn opcode(&self) -> Opcode {
        match self {
            Request::Startup(_) => Opcode::STARTUP,
            Request::Options => Opcode::OPTIONS,
            Request::AuthResponse(_) => Opcode::AUTH_RESPONSE,
            Request::Query(_) => Opcode::QUERY,
            Request::Prepare(_) => Opcode::PREPARE,
            Request::Execute(_) => Opcode::EXECUTE,
            Request::Batch(_) => Opcode::BATCH,
            Request::Register(_) => Opcode::REGISTER,
            Request::Revise(_) => Opcode::DSE_REVISE,
            Request::Unknown { opcode, .. } => *opcode,
        }
    }

    /// Appends the body, without extras.
    ///
    /// # Errors
    /// Lengths that the wire cannot say, fields that the version does not have.
    pub fn encode(&self, dialect: Dialect, out: &mut BytesMut) -> Result<(), EncodeError> {
        let writer = &mut Writer::new(out);
        match self {
            Request::Startup(startup) => startup.encode(writer),
            Request::Options => Ok(()),
            Request::AuthResponse(token) => token.encode(writer),
            Request::Query(query) => query.encode(writer, dialect),
            Request::Prepare(prepare) => prepare.encode(writer, dialect),
            Request::Execute(execute) => execute.encode(writer, dialect),
            Request::Batch(batch) => batch.encode(writer, dialect),
            Request::Register(register) => register.encode(writer),
            Request::Revise(revise) => revise.encode(writer, dialect),
            Request::Unknown { body, .. } => {
                writer.raw(body);
                Ok(())
            }
        }
    }

    /// The request in an envelope, uncompressed.
    ///
    /// # Errors
    /// As [`encode`](Self::encode) and [`Extras::encode`].
    pub fn to_envelope(
        &self,
        dialect: Dialect,
        stream_id: StreamId,
        extras: &Extras<'_>,
    ) -> Result<Envelope, EncodeError> {
        let header = Header::request(dialect.version, stream_id, self.opcode());
        to_envelope(header, extras, |out| self.encode(dialect, out))
    }
}

impl<'a> Response<'a> {
    /// Decodes the body of a response.
    ///
    /// # Errors
    /// A body that is not what its opcode and version say; an envelope of the other direction.
    pub fn decode(
        envelope: &'a Envelope,
        extensions: Extensions,
    ) -> Result<Decoded<'a, Response<'a>>, DecodeError> {
        let header = &envelope.header;
        let mut cursor = Cursor::new(&envelope.body);
        expect(header, Direction::Response, &cursor)?;
        let extras = Extras::decode(&mut cursor, header)?;
        let dialect = Dialect::with(header.version, extensions);
        let message = Response::decode_body(&mut cursor, header.opcode, dialect)?;
        Ok(Decoded { extras, message })
    }

    /// Fast path of [`decode`](Self::decode) for a RESULT of rows without extras, which most responses are:
    /// rows are not moved as one of many messages. With [`Request::decode_message`], that saves 8 % of the
    /// audit of prepared reads. `None` for other responses, and for rows that cannot be decoded: `decode`
    /// says what they are.
    #[inline(always)]
    pub fn plain_rows(envelope: &'a Envelope) -> Option<Rows<'a>> {
        let header = &envelope.header;
        if header.opcode != Opcode::RESULT
            || header.direction != Direction::Response
            || Extras::precede(header)
        {
            return None;
        }
        let mut rows = QueryResult::rows(Cursor::new(&envelope.body))?;
        Rows::decode(&mut rows).ok()
    }

    #[inline(always)]
    fn decode_body(
        cursor: &mut Cursor<'a>,
        opcode: Opcode,
        dialect: Dialect,
    ) -> Result<Response<'a>, DecodeError> {
        Ok(match opcode {
            Opcode::ERROR => Response::Error(ErrorMessage::decode(cursor, dialect)?),
            Opcode::READY => Response::Ready,
            Opcode::AUTHENTICATE => Response::Authenticate(Authenticate::decode(cursor)?),
            Opcode::SUPPORTED => Response::Supported(Supported::decode(cursor)?),
            Opcode::RESULT => Response::Result(QueryResult::decode(cursor, dialect)?),
            Opcode::EVENT => Response::Event(Event::decode(cursor)?),
            Opcode::AUTH_CHALLENGE => Response::AuthChallenge(AuthToken::decode(cursor)?),
            Opcode::AUTH_SUCCESS => Response::AuthSuccess(AuthToken::decode(cursor)?),
            opcode => Response::Unknown {
                opcode,
                body: cursor.rest(),
            },
        })
    }

    /// The opcode that goes with the body.
    pub fn opcode(&self) -> Opcode {
        match self {
            Response::Error(_) => Opcode::ERROR,
            Response::Ready => Opcode::READY,
            Response::Authenticate(_) => Opcode::AUTHENTICATE,
            Response::Supported(_) => Opcode::SUPPORTED,
            Response::Result(_) => Opcode::RESULT,
            Response::Event(_) => Opcode::EVENT,
            Response::AuthChallenge(_) => Opcode::AUTH_CHALLENGE,
            Response::AuthSuccess(_) => Opcode::AUTH_SUCCESS,
            Response::Unknown { opcode, .. } => *opcode,
        }
    }

    /// Appends the body, without extras.
    ///
    /// # Errors
    /// Lengths that the wire cannot say, fields that the version does not have.
    pub fn encode(&self, dialect: Dialect, out: &mut BytesMut) -> Result<(), EncodeError> {
        let writer = &mut Writer::new(out);
        match self {
            Response::Error(error) => error.encode(writer, dialect),
            Response::Ready => Ok(()),
            Response::Authenticate(authenticate) => authenticate.encode(writer),
            Response::Supported(supported) => supported.encode(writer),
            Response::Result(result) => result.encode(writer, dialect),
            Response::Event(event) => event.encode(writer),
            Response::AuthChallenge(token) | Response::AuthSuccess(token) => token.encode(writer),
            Response::Unknown { body, .. } => {
                writer.raw(body);
                Ok(())
            }
        }
    }

    /// The response in an envelope, uncompressed.
    ///
    /// # Errors
    /// As [`encode`](Self::encode) and [`Extras::encode`].
    pub fn to_envelope(
        &self,
        dialect: Dialect,
        stream_id: StreamId,
        extras: &Extras<'_>,
    ) -> Result<Envelope, EncodeError> {
        let header = Header::response(dialect.version, stream_id, self.opcode());
        to_envelope(header, extras, |out| self.encode(dialect, out))
    }
}

fn expect(header: &Header, direction: Direction, cursor: &Cursor<'_>) -> Result<(), DecodeError> {
    if header.direction != direction {
        return Err(cursor.error("direction", DecodeErrorKind::Invalid(i64::from(header.opcode.0))));
    }
    Ok(())
}

fn to_envelope(
    mut header: Header,
    extras: &Extras<'_>,
    encode_body: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>,
) -> Result<Envelope, EncodeError> {
    let mut body = BytesMut::new();
    header.flags = extras.encode(header.direction, &mut body)?;
    encode_body(&mut body)?;
    header.body_len = crate::envelope::body_len(body.len())?;
    Ok(Envelope {
        header,
        body: Bytes::from(body),
    })
}
