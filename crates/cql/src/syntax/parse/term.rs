//! Terms: the values of relations, assignments and `INSERT`.

use crate::syntax::ast::{Literal, LiteralKind, Term};
use crate::syntax::{Expected, Keyword, TokenKind};

use super::expression::Form;
use super::name::{is_function_name, is_name};
use super::parser::{Parsed, Parser};

/// What kind of constant a token of that kind is, if it is one.
pub(in crate::syntax) const fn literal_kind(kind: TokenKind) -> Option<LiteralKind> {
    Some(match kind {
        TokenKind::String => LiteralKind::String,
        TokenKind::Integer => LiteralKind::Integer,
        TokenKind::Float => LiteralKind::Float,
        TokenKind::Boolean => LiteralKind::Boolean,
        TokenKind::Duration => LiteralKind::Duration,
        TokenKind::Uuid => LiteralKind::Uuid,
        TokenKind::Hex => LiteralKind::Hex,
        _ => return None,
    })
}

impl<'text> Parser<'text, '_> {
    // term ::= sum
    pub(super) fn term(&mut self) -> Parsed<Term<'text>> {
        // Nearly all terms are a single constant or marker, for which the way down through all precedences is
        // long.
        if !is_operator(self.kind_at(1)) {
            if self.kind() == TokenKind::QuestionMark {
                return self.bind_marker().map(Term::BindMarker);
            }
            if let Some(literal) = self.accept_literal() {
                return Ok(Term::Literal(literal));
            }
        }
        self.sum(Form::Term)
    }

    // literal ::= string | integer | float | boolean | duration | uuid | hex
    pub(super) fn accept_literal(&mut self) -> Option<Literal<'text>> {
        let kind = literal_kind(self.kind())?;
        let token = self.advance();
        Some(Literal {
            kind,
            text: self.text_of(token),
            span: token.span,
        })
    }

    // terms ::= (term (',' term)*)? close
    pub(super) fn terms_until(&mut self, close: TokenKind) -> Parsed<Vec<Term<'text>>> {
        self.expressions_until(Form::Term, close)
    }

    // tuple ::= '(' term (',' term)* ')'
    pub(super) fn tuple_term(&mut self) -> Parsed<Term<'text>> {
        self.tuple(Form::Term)
    }

    // int_value ::= integer | bind_marker
    pub(super) fn int_value(&mut self) -> Parsed<Term<'text>> {
        self.value_of(TokenKind::Integer)
    }

    /// A constant of that kind, or a bind marker.
    pub(super) fn value_of(&mut self, kind: TokenKind) -> Parsed<Term<'text>> {
        if self.at_bind_marker() {
            return self.bind_marker().map(Term::BindMarker);
        }
        self.expecting(Expected::Token(kind));
        match (self.kind() == kind).then(|| self.accept_literal()).flatten() {
            Some(literal) => Ok(Term::Literal(literal)),
            None => Err(self.missing(Expected::Token(TokenKind::QuestionMark))),
        }
    }

    /// Whether a simple term may begin with the token `ahead` of the next one: what may follow a type hint.
    ///
    /// A colon begins a bind marker, unless it stands between a map's key and a value that is a function.
    pub(super) fn starts_simple_term(&self, ahead: usize) -> bool {
        let calls = |ahead| matches!(self.kind_at(ahead), TokenKind::OpenParenthesis | TokenKind::Dot);
        match self.kind_at(ahead) {
            TokenKind::QuestionMark
            | TokenKind::OpenBracket
            | TokenKind::OpenBrace
            | TokenKind::OpenParenthesis
            | TokenKind::Keyword(Keyword::Null) => true,
            TokenKind::Colon => is_name(self.kind_at(ahead + 1)) && !calls(ahead + 2),
            kind if literal_kind(kind).is_some() => true,
            kind => (is_name(kind) || is_function_name(kind)) && calls(ahead + 1),
        }
    }
}

/// Whether a token of that kind can go on with an expression.
const fn is_operator(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Plus | TokenKind::Minus | TokenKind::Star | TokenKind::Slash | TokenKind::Percent
    )
}
