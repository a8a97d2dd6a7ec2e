//! Constraints of columns (Cassandra 6.0): `CHECK` and `NOT NULL`.

use crate::ServerVersion;
use crate::syntax::ast::{Check, CheckFunction, Dialect, Name, Term};
use crate::syntax::{Keyword, ParseErrorKind, TokenKind};

use super::name::is_name;
use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // not_null ::= NOT NULL
    pub(super) fn optional_not_null(&mut self) -> Parsed<bool> {
        let start = self.peek().span;
        if !self.accept_keyword(Keyword::Not) {
            return Ok(false);
        }
        self.expect_keyword(Keyword::Null)?;
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), self.since(start));
        Ok(true)
    }

    // checks ::= CHECK check (AND check)*
    pub(super) fn optional_checks(&mut self) -> Parsed<Vec<Check<'text>>> {
        let start = self.peek().span;
        if !self.accept_word("CHECK") {
            return Ok(Vec::new());
        }
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), start);
        self.and_separated(Self::check)
    }

    // check ::= NOT NULL | name arguments (comparison value)? | name comparison value | name
    fn check(&mut self) -> Parsed<Check<'text>> {
        if self.accept_keyword(Keyword::Not) {
            self.expect_keyword(Keyword::Null)?;
            return Ok(Check::NotNull { has_arguments: false });
        }
        let name = self.name()?;
        if self.accept(TokenKind::OpenParenthesis).is_none() {
            if !self.at_comparison() {
                return unary(&name, false);
            }
            let operator = self.comparison()?;
            return Ok(Check::Value {
                column: name,
                operator,
                value: self.check_value()?,
            });
        }
        let has_arguments = self.check_arguments()?;
        if !self.at_comparison() {
            return unary(&name, has_arguments);
        }
        let Some(function) = function(&name) else {
            return Err(Self::refused(ParseErrorKind::ValueNotAllowed, name.span));
        };
        let operator = self.comparison()?;
        Ok(Check::Function {
            function,
            has_arguments,
            operator,
            value: self.check_value()?,
        })
    }

    /// Passes over the values in the brackets of a function, of which a name must be none; whether there are any.
    fn check_arguments(&mut self) -> Parsed<bool> {
        let is_call = self.kind_at(1) == TokenKind::OpenParenthesis || self.kind_at(1) == TokenKind::Dot;
        if is_name(self.kind()) && !is_call {
            return Err(Self::refused(ParseErrorKind::ValueNotAllowed, self.peek().span));
        }
        Ok(!self.terms_until(TokenKind::CloseParenthesis)?.is_empty())
    }

    /// A value that nothing is computed of.
    fn check_value(&mut self) -> Parsed<Term<'text>> {
        match self.accept_literal() {
            Some(literal) => Ok(Term::Literal(literal)),
            None => self.term(),
        }
    }

    fn at_comparison(&self) -> bool {
        matches!(
            self.kind(),
            TokenKind::Equal
                | TokenKind::NotEqual
                | TokenKind::Less
                | TokenKind::LessOrEqual
                | TokenKind::Greater
                | TokenKind::GreaterOrEqual
        )
    }
}

/// A function that is compared with nothing. Cassandra knows no others while it parses.
fn unary<'text>(name: &Name<'text>, has_arguments: bool) -> Parsed<Check<'text>> {
    if name.as_str().eq_ignore_ascii_case("NOT_NULL") {
        return Ok(Check::NotNull { has_arguments });
    }
    if name.as_str().eq_ignore_ascii_case("JSON") {
        return Ok(Check::Json { has_arguments });
    }
    Err(Parser::refused(ParseErrorKind::ValueNotAllowed, name.span))
}

fn function(name: &Name<'_>) -> Option<CheckFunction> {
    let functions = [
        CheckFunction::Length,
        CheckFunction::OctetLength,
        CheckFunction::Regexp,
    ];
    functions
        .into_iter()
        .find(|function| name.as_str().eq_ignore_ascii_case(function.as_str()))
}
