//! Names, and which keywords may stand as one where.

use std::borrow::Cow;

use crate::ServerVersion;
use crate::syntax::ast::{BindMarker, Dialect, Name, QualifiedName};
use crate::syntax::{Expected, ParseErrorKind, TokenKind};

use super::parser::{Parsed, Parser};

/// Whether a token of that kind may be the name of a column, table or keyspace.
pub(super) fn is_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Identifier | TokenKind::QuotedName => true,
        TokenKind::Keyword(keyword) => !keyword.is_reserved(),
        _ => false,
    }
}

/// Whether a token of that kind may be the name of a function.
pub(super) fn is_function_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Identifier | TokenKind::QuotedName => true,
        TokenKind::Keyword(keyword) => keyword.may_name_function(),
        _ => false,
    }
}

/// Whether a token of that kind may be the name of a user-defined type.
pub(super) fn is_type_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Identifier | TokenKind::QuotedName => true,
        TokenKind::Keyword(keyword) => keyword.may_name_type(),
        _ => false,
    }
}

impl<'text> Parser<'text, '_> {
    // name ::= identifier | quoted_name | unreserved_keyword
    pub(super) fn name(&mut self) -> Parsed<Name<'text>> {
        if is_name(self.kind()) {
            Ok(self.take_name())
        } else {
            Err(self.missing(Expected::Name))
        }
    }

    // column ::= name | '""'
    pub(super) fn column(&mut self) -> Parsed<Name<'text>> {
        if self.at_column() {
            Ok(self.take_name())
        } else {
            Err(self.missing(Expected::Name))
        }
    }

    /// Whether a column's name follows.
    pub(super) fn at_column(&self) -> bool {
        is_name(self.kind()) || self.kind() == TokenKind::EmptyQuotedName
    }

    // columns ::= '(' column (',' column)* ')'
    pub(super) fn columns_in_parentheses(&mut self) -> Parsed<Vec<Name<'text>>> {
        self.expect(TokenKind::OpenParenthesis)?;
        let columns = self.comma_separated(Self::column)?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(columns)
    }

    // object_name ::= name      (a bind marker parses in Cassandra, and is refused)
    pub(super) fn object_name(&mut self) -> Parsed<Name<'text>> {
        if self.kind() == TokenKind::QuestionMark {
            return Err(Self::refused(
                ParseErrorKind::BindMarkerNotAllowed,
                self.peek().span,
            ));
        }
        self.name()
    }

    // table ::= (object_name '.')? object_name
    pub(super) fn qualified_name(&mut self) -> Parsed<QualifiedName<'text>> {
        let first = self.object_name()?;
        if self.accept(TokenKind::Dot).is_none() {
            return Ok(QualifiedName {
                keyspace: None,
                name: first,
            });
        }
        Ok(QualifiedName {
            keyspace: Some(first),
            name: self.object_name()?,
        })
    }

    // function_name ::= (object_name '.')? function
    pub(super) fn function_name(&mut self) -> Parsed<QualifiedName<'text>> {
        let keyspace = if self.kind_at(1) == TokenKind::Dot {
            let keyspace = self.object_name()?;
            self.expect(TokenKind::Dot)?;
            Some(keyspace)
        } else {
            None
        };
        Ok(QualifiedName {
            keyspace,
            name: self.unqualified_function_name()?,
        })
    }

    // function ::= identifier | quoted_name | basic_unreserved_keyword | native_type | TOKEN | COUNT
    pub(super) fn unqualified_function_name(&mut self) -> Parsed<Name<'text>> {
        if is_function_name(self.kind()) {
            Ok(self.take_name())
        } else {
            Err(self.missing(Expected::Name))
        }
    }

    // type_name ::= (name '.')? (identifier | quoted_name | basic_unreserved_keyword | KEY)
    pub(super) fn user_type_name(&mut self) -> Parsed<QualifiedName<'text>> {
        let keyspace = if self.kind_at(1) == TokenKind::Dot {
            let keyspace = self.name()?;
            self.expect(TokenKind::Dot)?;
            Some(keyspace)
        } else {
            None
        };
        if !is_type_name(self.kind()) {
            return Err(self.missing(Expected::Type));
        }
        let token = self.peek();
        // Cassandra compares the text as written: `BYTE` passes.
        if token.kind == TokenKind::Identifier && RESERVED_TYPE_NAMES.contains(&self.text_of(token)) {
            return Err(Self::refused(ParseErrorKind::ValueNotAllowed, token.span));
        }
        Ok(QualifiedName {
            keyspace,
            name: self.take_name(),
        })
    }

    // bind_marker ::= '?' | ':' name
    pub(super) fn bind_marker(&mut self) -> Parsed<BindMarker<'text>> {
        let start = self.peek().span;
        if self.accept(TokenKind::QuestionMark).is_some() {
            return Ok(self.push_bind_marker(None, start));
        }
        self.expect(TokenKind::Colon)?;
        let name = self.name()?;
        let span = start.to(name.span);
        Ok(self.push_bind_marker(Some(name), span))
    }

    /// Whether a bind marker follows.
    pub(super) fn at_bind_marker(&self) -> bool {
        matches!(self.kind(), TokenKind::QuestionMark | TokenKind::Colon)
    }

    /// Takes the next token, which is known to be a name.
    #[inline]
    pub(super) fn take_name(&mut self) -> Name<'text> {
        let token = self.advance();
        let is_quoted = matches!(token.kind, TokenKind::QuotedName | TokenKind::EmptyQuotedName);
        let text = self.text_of(token);
        let text = if is_quoted {
            unquoted(text)
        } else if token.has_capitals {
            lowered(text)
        } else {
            Cow::Borrowed(text)
        };
        if is_index_hint(&text) && !is_quoted && !token.has_capitals {
            self.extend(Dialect::CassandraUpTo(ServerVersion::V5_0), token.span);
        }
        Name {
            text,
            is_quoted,
            span: token.span,
        }
    }

    /// Takes the next token, which is known to be a name, with its letters as they are written.
    pub(super) fn take_written_name(&mut self) -> Name<'text> {
        let token = self.peek();
        let name = self.take_name();
        let text = match name.is_quoted {
            true => name.text,
            false => Cow::Borrowed(self.text_of(token)),
        };
        Name { text, ..name }
    }
}

/// Whether a word, written in lower case, begins an index hint to Cassandra 6.0, to which it is no name any more.
pub(super) fn is_index_hint(word: &str) -> bool {
    word.len() == "included_indexes".len() && matches!(word, "included_indexes" | "excluded_indexes")
}

/// Names that Cassandra keeps for types to come.
const RESERVED_TYPE_NAMES: [&str; 6] = ["byte", "complex", "enum", "interval", "macaddr", "bitstring"];

#[cold]
pub(in crate::syntax) fn unquoted(text: &str) -> Cow<'_, str> {
    let inner = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(text);
    if inner.contains('"') {
        Cow::Owned(inner.replace("\"\"", "\""))
    } else {
        Cow::Borrowed(inner)
    }
}

#[cold]
fn lowered(text: &str) -> Cow<'_, str> {
    Cow::Owned(text.to_ascii_lowercase())
}
