//! Why a text is not CQL: what was found where, and what could have stood there instead.
//!
//! An error holds no part of the text: it can be logged without leaking a value. Drawing it is for others.

use std::fmt;

use super::{Keyword, Span, TokenKind};

/// A syntax error, at the furthest place that the parser reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {}{}", span.start, Listed(expected))]
pub struct ParseError {
    /// What is wrong.
    pub kind: ParseErrorKind,
    /// Where: the offending token, or for lexical errors what could not be read.
    pub span: Span,
    /// What would have been right there, without duplicates; empty where nothing would help, or too much
    /// would.
    pub expected: Vec<Expected>,
}

impl ParseError {
    /// What is wrong and what would have been right, for those who say the place themselves.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!("{}{}", self.kind, Listed(&self.expected))
    }
}

/// What is wrong with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ParseErrorKind {
    /// A token that cannot stand where it stands.
    #[error("unexpected token")]
    UnexpectedToken,
    /// The text stops in the middle of a statement.
    #[error("unexpected end of the statement")]
    UnexpectedEnd,
    /// A byte that begins no token.
    #[error("unknown character")]
    UnknownCharacter,
    /// A number, UUID or duration that breaks off: `1e`, `0x` is whole but `12-` of a UUID is not.
    #[error("malformed number, UUID or duration")]
    MalformedConstant,
    /// `'…` or `$$…` without its end.
    #[error("string without end")]
    UnterminatedString,
    /// `"…` without its end.
    #[error("quoted name without end")]
    UnterminatedName,
    /// A comment without its end: `/*` without `*/`, or (as Cassandra has it) `--` without a line end.
    #[error("comment without end")]
    UnterminatedComment,
    /// `?` or `:name` where only a fixed name or value may stand.
    #[error("bind marker where none is allowed")]
    BindMarkerNotAllowed,
    /// One column is assigned twice in ways that exclude each other.
    #[error("conflicting assignments of one column")]
    ConflictingAssignment,
    /// `c = d + 1`: an assignment may only refer to the column that it assigns.
    #[error("assignment from another column")]
    AssignmentFromOtherColumn,
    /// A property, column or clause that may be given once.
    #[error("given twice")]
    Duplicate,
    /// A value that the grammar allows and the statement does not.
    #[error("value not allowed here")]
    ValueNotAllowed,
    /// Brackets nested deeper than [`super::MAX_DEPTH`].
    #[error("nested too deeply")]
    TooDeep,
    /// A text of more than [`super::MAX_TOKENS`] tokens, or longer than 4 GiB.
    #[error("text too long")]
    TooLong,
}

/// Something that could have stood at the place of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expected {
    /// A keyword.
    Keyword(Keyword),
    /// A word that is no keyword of Cassandra 5.0, in upper case.
    Word(&'static str),
    /// A sign or a constant of that kind.
    Token(TokenKind),
    /// A name.
    Name,
    /// A value or expression.
    Term,
    /// A type.
    Type,
    /// A comparison or another relation's operator.
    Operator,
    /// The beginning of a statement.
    Statement,
}

impl fmt::Display for Expected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyword(keyword) => formatter.write_str(keyword.as_str()),
            Self::Word(word) => formatter.write_str(word),
            Self::Token(kind) => match (kind.symbol(), kind) {
                (Some(symbol), _) => write!(formatter, "`{symbol}`"),
                (None, TokenKind::String) => formatter.write_str("a string"),
                (None, TokenKind::Integer) => formatter.write_str("an integer"),
                (None, TokenKind::Boolean) => formatter.write_str("a boolean"),
                (None, TokenKind::Duration) => formatter.write_str("a duration"),
                (None, TokenKind::End) => formatter.write_str("the end of the statement"),
                (None, TokenKind::Identifier | TokenKind::QuotedName) => formatter.write_str("a name"),
                (None, _) => formatter.write_str("a constant"),
            },
            Self::Name => formatter.write_str("a name"),
            Self::Term => formatter.write_str("a value"),
            Self::Type => formatter.write_str("a type"),
            Self::Operator => formatter.write_str("an operator"),
            Self::Statement => formatter.write_str("a statement"),
        }
    }
}

/// Writes `, expected a, b or c`, or nothing.
struct Listed<'a>(&'a [Expected]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, expected) in self.0.iter().enumerate() {
            let joint = match index {
                0 => ", expected ",
                _ if index + 1 == self.0.len() => " or ",
                _ => ", ",
            };
            write!(formatter, "{joint}{expected}")?;
        }
        Ok(())
    }
}
