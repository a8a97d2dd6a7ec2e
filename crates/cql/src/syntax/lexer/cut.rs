//! What the parts of the lexer return: a cut, or why a token breaks off.

use nom::IResult;
use nom::error::{ErrorKind, ParseError as NomError};

use crate::syntax::{ParseErrorKind, TokenKind};

/// Why the bytes at hand are no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LexError(pub(super) ParseErrorKind);

impl NomError<&[u8]> for LexError {
    fn from_error_kind(_: &[u8], _: ErrorKind) -> Self {
        Self(ParseErrorKind::UnknownCharacter)
    }

    fn append(_: &[u8], _: ErrorKind, other: Self) -> Self {
        other
    }
}

pub(super) type Lexed<'text, T> = IResult<&'text [u8], T, LexError>;

/// The parser gives up for good: no other kind of token is tried.
pub(super) fn broken<T>(kind: ParseErrorKind) -> Lexed<'static, T> {
    Err(nom::Err::Failure(LexError(kind)))
}

/// A token without its place.
pub(super) struct Cut {
    /// How many bytes it takes.
    pub(super) length: usize,
    pub(super) kind: TokenKind,
    pub(super) has_capitals: bool,
}

impl Cut {
    pub(super) const fn new(length: usize, kind: TokenKind) -> Self {
        Self {
            length,
            kind,
            has_capitals: false,
        }
    }
}

/// What a nom parser found at the beginning of `input`.
pub(super) fn cut(input: &[u8], found: Lexed<'_, TokenKind>) -> Result<Cut, LexError> {
    match found {
        Ok((rest, kind)) => Ok(Cut::new(input.len() - rest.len(), kind)),
        Err(nom::Err::Error(fault) | nom::Err::Failure(fault)) => Err(fault),
        Err(nom::Err::Incomplete(_)) => Err(LexError(ParseErrorKind::UnexpectedEnd)),
    }
}
