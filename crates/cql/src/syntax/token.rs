//! What CQL is made of: tokens, each with its place in the text.
//!
//! A token holds no text; its span says where to read it. Comments and white space are not tokens.

use super::{Keyword, Span};

/// A token and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Where it stands, quotes included.
    pub span: Span,
    /// Whether it is a word with letters in upper case: as a name it is not what it looks like. The lexer,
    /// which sees every letter anyhow, spares the parser to look again.
    pub(super) has_capitals: bool,
}

impl Token {
    /// A token that is no word with letters in upper case.
    pub(super) const fn new(kind: TokenKind, span: Span) -> Self {
        Self {
            kind,
            span,
            has_capitals: false,
        }
    }
}

/// The kinds of token of Cassandra's lexer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A letter, then letters, digits and `_`, and no keyword.
    Identifier,
    /// `"…"` with at least one character.
    QuotedName,
    /// `""`: the column of some tables that were made without CQL.
    EmptyQuotedName,
    /// A keyword in any case.
    Keyword(Keyword),
    /// `'…'` or `$$…$$`.
    String,
    /// `-?[0-9]+`.
    Integer,
    /// A number with point or exponent, `NaN`, `Infinity`.
    Float,
    /// `true` or `false`.
    Boolean,
    /// `1h30m`, `P1Y2M`, `P0001-02-03T04:05:06`.
    Duration,
    /// `123e4567-e89b-12d3-a456-426655440000`.
    Uuid,
    /// `0x…`.
    Hex,
    /// `?`
    QuestionMark,
    /// `..`
    Range,
    /// `expr(`, in lower case and without a blank: one token to Cassandra.
    ExprOpen,
    /// `,`
    Comma,
    /// `.`
    Dot,
    /// `:`
    Colon,
    /// `;`
    Semicolon,
    /// `(`
    OpenParenthesis,
    /// `)`
    CloseParenthesis,
    /// `[`
    OpenBracket,
    /// `]`
    CloseBracket,
    /// `{`
    OpenBrace,
    /// `}`
    CloseBrace,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Star,
    /// `/`
    Slash,
    /// `%`
    Percent,
    /// `+=`
    PlusEqual,
    /// `-=`
    MinusEqual,
    /// The end of the text.
    End,
}

impl TokenKind {
    /// How the token is written, where there is one way only.
    #[must_use]
    pub(crate) const fn symbol(self) -> Option<&'static str> {
        Some(match self {
            Self::Keyword(keyword) => keyword.as_str(),
            Self::EmptyQuotedName => "\"\"",
            Self::QuestionMark => "?",
            Self::Range => "..",
            Self::ExprOpen => "expr(",
            Self::Comma => ",",
            Self::Dot => ".",
            Self::Colon => ":",
            Self::Semicolon => ";",
            Self::OpenParenthesis => "(",
            Self::CloseParenthesis => ")",
            Self::OpenBracket => "[",
            Self::CloseBracket => "]",
            Self::OpenBrace => "{",
            Self::CloseBrace => "}",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Star => "*",
            Self::Slash => "/",
            Self::Percent => "%",
            Self::PlusEqual => "+=",
            Self::MinusEqual => "-=",
            Self::Identifier
            | Self::QuotedName
            | Self::String
            | Self::Integer
            | Self::Float
            | Self::Boolean
            | Self::Duration
            | Self::Uuid
            | Self::Hex
            | Self::End => return None,
        })
    }
}
