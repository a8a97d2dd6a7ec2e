//! Expressions: the one grammar behind terms and selectors, which differ in their operands alone.

use crate::syntax::ast::{ArithmeticOperator, FunctionCall, Term};
use crate::syntax::{Expected, Keyword, Span, TokenKind};

use super::name::{is_function_name, is_name};
use super::parser::{Parsed, Parser};

/// Where an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A value of a relation, an assignment or an `INSERT`: no columns.
    Term,
    /// What a `SELECT` computes of each row: columns and their parts are operands.
    Selector,
}

impl<'text> Parser<'text, '_> {
    fn expression(&mut self, form: Form) -> Parsed<Term<'text>> {
        match form {
            Form::Term => self.term(),
            Form::Selector => self.sum(form),
        }
    }

    // sum ::= product (('+' | '-') product)*
    pub(super) fn sum(&mut self, form: Form) -> Parsed<Term<'text>> {
        let first = self.product(form)?;
        let mut rest = Vec::new();
        while let Some(operator) = self.sum_operator() {
            if form == Form::Term && self.sign_belongs_to_assignment(operator) {
                break;
            }
            self.advance();
            rest.push((operator, self.product(form)?));
        }
        Ok(arithmetic(first, rest))
    }

    /// Whether the sign is that of an assignment, not of a term: in `c = [1] + c`.
    fn sign_belongs_to_assignment(&self, operator: ArithmeticOperator) -> bool {
        let names_a_column = is_name(self.kind_at(1)) || self.kind_at(1) == TokenKind::EmptyQuotedName;
        operator == ArithmeticOperator::Add && names_a_column && !self.starts_simple_term(1)
    }

    // product ::= signed (('*' | '/' | '%') signed)*
    fn product(&mut self, form: Form) -> Parsed<Term<'text>> {
        let first = self.signed(form)?;
        let mut rest = Vec::new();
        while let Some(operator) = self.product_operator() {
            self.advance();
            rest.push((operator, self.signed(form)?));
        }
        Ok(arithmetic(first, rest))
    }

    // signed (term)     ::= '-'? operand
    // signed (selector) ::= '-' signed | operand modifier*
    fn signed(&mut self, form: Form) -> Parsed<Term<'text>> {
        let start = self.peek().span;
        let is_negated = self.accept(TokenKind::Minus).is_some();
        let term = match form {
            Form::Term => self.operand(form)?,
            Form::Selector if is_negated => self.nested(|parser| parser.signed(form))?,
            Form::Selector => {
                let receiver = self.operand(form)?;
                self.modifiers(receiver)?
            }
        };
        if !is_negated {
            return Ok(term);
        }
        Ok(Term::Negation {
            term: Box::new(term),
            span: self.since(start),
        })
    }

    // operand            ::= literal | NULL | bind_marker | list | braced | type_hint | tuple | …
    // operand (term)     ::= … | cast | function
    // operand (selector) ::= … | column | function
    fn operand(&mut self, form: Form) -> Parsed<Term<'text>> {
        if let Some(literal) = self.accept_literal() {
            return Ok(Term::Literal(literal));
        }
        self.nested(|parser| match (form, parser.kind()) {
            (_, TokenKind::QuestionMark | TokenKind::Colon) => parser.bind_marker().map(Term::BindMarker),
            (_, TokenKind::Keyword(Keyword::Null)) => Ok(Term::Null(parser.advance().span)),
            (_, TokenKind::OpenBracket) => parser.bracketed(form),
            (_, TokenKind::OpenBrace) => parser.braced(form),
            (_, TokenKind::OpenParenthesis) if parser.is_hinted(form) => parser.hinted(form),
            (_, TokenKind::OpenParenthesis) => parser.tuple(form),
            (Form::Term, TokenKind::Keyword(Keyword::Cast)) => parser.cast(form),
            (Form::Term, kind) if is_name(kind) || is_function_name(kind) => parser.function(form),
            (Form::Selector, kind) if is_name(kind) || kind == TokenKind::Keyword(Keyword::Token) => {
                parser.column_or_function()
            }
            _ => Err(parser.missing(Expected::Term)),
        })
    }

    fn is_hinted(&self, form: Form) -> bool {
        self.at_type_hint(|parser, ahead| match form {
            Form::Term => parser.starts_simple_term(ahead),
            Form::Selector => parser.starts_selectable(ahead),
        })
    }

    // list ::= '[' expressions ']'
    fn bracketed(&mut self, form: Form) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenBracket)?.span;
        let items = self.expressions_until(form, TokenKind::CloseBracket)?;
        Ok(Term::List {
            items,
            span: self.since(start),
        })
    }

    // expressions ::= (expression (',' expression)*)? close
    pub(super) fn expressions_until(&mut self, form: Form, close: TokenKind) -> Parsed<Vec<Term<'text>>> {
        if self.accept(close).is_some() {
            return Ok(Vec::new());
        }
        let items = self.comma_separated(|parser| parser.expression(form))?;
        self.expect(close)?;
        Ok(items)
    }

    // braced        ::= '{' '}' | '{' expression (set | map) '}'
    // braced (term) ::= … | user_type
    fn braced(&mut self, form: Form) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenBrace)?.span;
        if self.accept(TokenKind::CloseBrace).is_some() {
            return Ok(Term::Set {
                items: Vec::new(),
                span: self.since(start),
            });
        }
        // A term is never a bare name, so a name before a colon is a field.
        if form == Form::Term && is_name(self.kind()) && self.kind_at(1) == TokenKind::Colon {
            return self.user_type(start);
        }
        let first = self.expression(form)?;
        if self.accept(TokenKind::Colon).is_some() {
            self.map(form, first, start)
        } else {
            self.set(form, first, start)
        }
    }

    // user_type ::= '{' name ':' term (',' name ':' term)* '}'
    fn user_type(&mut self, start: Span) -> Parsed<Term<'text>> {
        let fields = self.comma_separated(|parser| {
            let field = parser.name()?;
            parser.expect(TokenKind::Colon)?;
            Ok((field, parser.term()?))
        })?;
        self.expect(TokenKind::CloseBrace)?;
        Ok(Term::UserType {
            fields,
            span: self.since(start),
        })
    }

    // map ::= ':' expression (',' expression ':' expression)*
    fn map(&mut self, form: Form, first: Term<'text>, start: Span) -> Parsed<Term<'text>> {
        let mut entries = vec![(first, self.expression(form)?)];
        while self.accept(TokenKind::Comma).is_some() {
            let key = self.expression(form)?;
            self.expect(TokenKind::Colon)?;
            entries.push((key, self.expression(form)?));
        }
        self.expect(TokenKind::CloseBrace)?;
        Ok(Term::Map {
            entries,
            span: self.since(start),
        })
    }

    // set ::= (',' expression)*
    fn set(&mut self, form: Form, first: Term<'text>, start: Span) -> Parsed<Term<'text>> {
        let mut items = vec![first];
        while self.accept(TokenKind::Comma).is_some() {
            items.push(self.expression(form)?);
        }
        self.expect(TokenKind::CloseBrace)?;
        Ok(Term::Set {
            items,
            span: self.since(start),
        })
    }

    // tuple ::= '(' expression (',' expression)* ')'
    pub(super) fn tuple(&mut self, form: Form) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenParenthesis)?.span;
        let items = self.comma_separated(|parser| parser.expression(form))?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(Term::Tuple {
            items,
            span: self.since(start),
        })
    }

    // type_hint ::= '(' type ')' operand
    fn hinted(&mut self, form: Form) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenParenthesis)?.span;
        let type_name = Box::new(self.type_name()?);
        self.expect(TokenKind::CloseParenthesis)?;
        let term = Box::new(self.operand(form)?);
        Ok(Term::TypeHint {
            type_name,
            term,
            span: self.since(start),
        })
    }

    // cast (term)     ::= CAST '(' operand AS native_type ')'
    // cast (selector) ::= CAST '(' expression AS native_type ')'
    pub(super) fn cast(&mut self, form: Form) -> Parsed<Term<'text>> {
        let start = self.peek().span;
        self.expect_keyword(Keyword::Cast)?;
        self.expect(TokenKind::OpenParenthesis)?;
        let term = Box::new(match form {
            Form::Term => self.operand(form)?,
            Form::Selector => self.expression(form)?,
        });
        self.expect_keyword(Keyword::As)?;
        let target = self.native_type()?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(Term::Cast {
            term,
            target,
            span: self.since(start),
        })
    }

    // function ::= function_name '(' expressions ')'
    pub(super) fn function(&mut self, form: Form) -> Parsed<Term<'text>> {
        let start = self.peek().span;
        let name = self.function_name()?;
        self.expect(TokenKind::OpenParenthesis)?;
        let arguments = self.expressions_until(form, TokenKind::CloseParenthesis)?;
        Ok(Term::Function(Box::new(FunctionCall {
            name,
            arguments,
            span: self.since(start),
        })))
    }

    /// The operator of a sum, if one follows.
    fn sum_operator(&self) -> Option<ArithmeticOperator> {
        match self.kind() {
            TokenKind::Plus => Some(ArithmeticOperator::Add),
            TokenKind::Minus => Some(ArithmeticOperator::Subtract),
            _ => None,
        }
    }

    /// The operator of a product, if one follows.
    fn product_operator(&self) -> Option<ArithmeticOperator> {
        match self.kind() {
            TokenKind::Star => Some(ArithmeticOperator::Multiply),
            TokenKind::Slash => Some(ArithmeticOperator::Divide),
            TokenKind::Percent => Some(ArithmeticOperator::Modulo),
            _ => None,
        }
    }
}

/// One operand is itself, more are a sum or a product.
fn arithmetic<'text>(first: Term<'text>, rest: Vec<(ArithmeticOperator, Term<'text>)>) -> Term<'text> {
    let Some((_, last)) = rest.last() else {
        return first;
    };
    let span = first.span().to(last.span());
    Term::Arithmetic {
        first: Box::new(first),
        rest,
        span,
    }
}
