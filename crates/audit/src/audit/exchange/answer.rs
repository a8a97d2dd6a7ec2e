//! What came back: a response, decoded as far as it is there.

use std::borrow::Cow;

use cqlens_proto::{
    envelope::{Envelope, HEADER_LEN, Opcode},
    error::DecodeError,
    message::{
        Decoded, ErrorCode, ErrorDetails, ErrorMessage, Extensions, Failures, QueryResult, Response, Rows,
    },
};

use crate::audit::{
    connection::event::ReceivedResponse,
    exchange::{ServerMessages, outcome::Outcome, warning},
};
use cqlens_capture::Moment;
use cqlens_window::Pattern;

/// What came back.
pub(crate) struct Answer<'a> {
    /// When its first byte came.
    pub(crate) at: Option<Moment>,
    /// Size of its envelope, uncompressed.
    pub(crate) bytes: Option<u64>,
    pub(crate) warnings: &'a [&'a str],
    pub(crate) rows: Option<&'a Rows<'a>>,
    /// What is no rows; none where it could not be decoded.
    pub(crate) message: Option<&'a Response<'a>>,
    pub(crate) outcome: Outcome,
}

impl<'a> Answer<'a> {
    /// Nothing.
    pub(crate) const NONE: Self = Self {
        at: None,
        bytes: None,
        warnings: &[],
        rows: None,
        message: None,
        outcome: Outcome::Unanswered,
    };

    /// Rows and nothing else, in an envelope of so many bytes.
    #[inline]
    pub(crate) fn of_rows(rows: &'a Rows<'a>, bytes: u64, at: Option<Moment>) -> Self {
        if rows.metadata.continuous_page.is_some_and(|page| !page.is_last) {
            return Self::of_first_page(bytes, at);
        }
        Self {
            at,
            bytes: Some(bytes),
            rows: Some(rows),
            outcome: Outcome::Rows {
                count: rows.len() as u64,
                more: rows.metadata.paging_state.is_some(),
            },
            ..Self::NONE
        }
    }

    /// The first of DSE's continuous pages: how many rows the later ones have, which come without a request of their own, is
    /// not known.
    #[cold]
    fn of_first_page(bytes: u64, at: Option<Moment>) -> Self {
        Self {
            at,
            bytes: Some(bytes),
            outcome: Outcome::Unread,
            ..Self::NONE
        }
    }

    /// What `response` says, whose first byte came `at` then, decoded as far as it could be.
    pub(crate) fn of(
        decoded: &'a DecodedResponse<'a>,
        response: &ReceivedResponse,
        at: Option<Moment>,
    ) -> Self {
        let bytes = size(response.body_len());
        match decoded {
            Ok(Decoded { extras, message }) => {
                let warnings = extras.warnings.as_slice();
                match message {
                    Response::Result(QueryResult::Rows(rows)) => Self {
                        warnings,
                        ..Self::of_rows(rows, bytes, at)
                    },
                    message => Self {
                        at,
                        bytes: Some(bytes),
                        warnings,
                        outcome: outcome(message),
                        message: Some(message),
                        ..Self::NONE
                    },
                }
            }
            Err(error) => Self {
                at,
                bytes: Some(bytes),
                outcome: undecoded(response, error),
                ..Self::NONE
            },
        }
    }

    /// Whether the condition of a conditional statement did not hold: its rows begin with `[applied]`.
    #[inline]
    pub(crate) fn is_not_applied(&self) -> bool {
        let first = self.rows.and_then(|rows| rows.iter().next());
        first.is_some_and(|row| row.is_ok_and(|row| row.cell(0) == Some(Some(&[0]))))
    }

    /// What warnings and the text of an error say; nothing in most answers.
    #[inline]
    pub(crate) fn messages(&self) -> Option<Box<ServerMessages>> {
        let error = match self.message {
            Some(Response::Error(error)) => Some(error.message),
            _ => None,
        };
        if self.warnings.is_empty() && error.is_none() {
            return None;
        }
        Some(messages(self.warnings, error))
    }
}

#[cold]
fn messages(warnings: &[&str], error: Option<&str>) -> Box<ServerMessages> {
    let texts = warnings.iter().copied();
    Box::new(ServerMessages {
        warnings: texts.clone().filter_map(warning::warning).collect(),
        tombstones: texts.chain(error).filter_map(warning::tombstones).collect(),
    })
}

/// How an exchange with this answer, which is no rows, ended.
fn outcome(answer: &Response<'_>) -> Outcome {
    match answer {
        Response::Error(error) => Outcome::Error {
            code: match error.details {
                ErrorDetails::RateLimit { .. } => Pattern::RATE_LIMIT,
                _ => u32::try_from(error.code.0).unwrap_or(0),
            },
            too_many_tombstones: too_many_tombstones(error),
        },
        _ => Outcome::Done,
    }
}

/// How an exchange ended whose answer could not be decoded.
#[cold]
fn undecoded(response: &ReceivedResponse, error: &DecodeError) -> Outcome {
    tracing::debug!(%error, "a response could not be decoded");
    match response {
        // The head of a result: an answer, whatever else it may not say.
        ReceivedResponse::Head(head) if head.envelope.header.opcode == Opcode::RESULT => Outcome::Unread,
        ReceivedResponse::Whole(envelope) if envelope.header.opcode == Opcode::ERROR => failure(envelope),
        ReceivedResponse::Head(head) if head.envelope.header.opcode == Opcode::ERROR => {
            failure(&head.envelope)
        }
        _ => Outcome::Unanswered,
    }
}

/// What an error says that is not there as a whole: its code, if that is.
fn failure(error: &Envelope) -> Outcome {
    let code = ErrorCode::of_begun(&error.header, &error.body);
    match code.and_then(|code| u32::try_from(code.0).ok()) {
        Some(code) => Outcome::Error {
            code,
            too_many_tombstones: false,
        },
        None => Outcome::Failed,
    }
}

/// READ_FAILURE with `READ_TOO_MANY_TOMBSTONES`: as a reason code from version 5 on, in the text before.
fn too_many_tombstones(error: &ErrorMessage<'_>) -> bool {
    const READ_TOO_MANY_TOMBSTONES: u16 = 1;
    if error.code != ErrorCode::READ_FAILURE {
        return false;
    }
    match &error.details {
        ErrorDetails::ReadFailure {
            failures: Failures::Reasons(reasons),
            ..
        } => reasons
            .iter()
            .any(|(_, reason)| reason.0 == READ_TOO_MANY_TOMBSTONES),
        _ => warning::names_too_many_tombstones(error.message),
    }
}

/// A response, if it could be decoded.
pub(crate) type DecodedResponse<'a> = Result<Decoded<'a, Response<'a>>, DecodeError>;

/// Decodes a response, of which `readable` is as much as is needed.
pub(crate) fn decode<'a>(
    response: &ReceivedResponse,
    readable: &'a Envelope,
    extensions: Extensions,
) -> DecodedResponse<'a> {
    match response {
        ReceivedResponse::Head(head) => Response::decode_head(readable, head.body_len, extensions),
        ReceivedResponse::Whole(_) | ReceivedResponse::Long(_) => Response::decode(readable, extensions),
    }
}

/// As much of a response as is needed: all of it if its rows are read.
pub(crate) fn readable(
    response: &ReceivedResponse,
    extensions: Extensions,
    rows_are_read: bool,
) -> Cow<'_, Envelope> {
    match response {
        ReceivedResponse::Whole(envelope) => Cow::Borrowed(envelope),
        ReceivedResponse::Head(head) => Cow::Borrowed(&head.envelope),
        ReceivedResponse::Long(long) => {
            let head = long.head();
            // The head may end before the metadata does.
            let is_enough = !rows_are_read && Response::decode(&head, extensions).is_ok();
            Cow::Owned(if is_enough { head } else { long.join() })
        }
    }
}

/// Of an envelope, in bytes.
#[inline]
pub(crate) fn size(body_len: usize) -> u64 {
    (HEADER_LEN + body_len) as u64
}
