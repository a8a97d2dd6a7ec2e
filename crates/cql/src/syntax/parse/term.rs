//! Terms: the values of relations, assignments and `INSERT`.

use crate::syntax::ast::{ArithmeticOperator, FunctionCall, Literal, LiteralKind, Term};
use crate::syntax::{Expected, Keyword, Span, TokenKind};

use super::name::{is_function_name, is_name};
use super::parser::{Parsed, Parser};

/// What kind of constant a token of that kind is, if it is one.
pub(super) const fn literal_kind(kind: TokenKind) -> Option<LiteralKind> {
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
    // term ::= product (('+' | '-') product)*
    pub(super) fn term(&mut self) -> Parsed<Term<'text>> {
        // Nearly all terms are a single constant or marker, for which the way down through all precedences is long.
        if !is_operator(self.kind_at(1)) {
            if self.kind() == TokenKind::QuestionMark {
                return self.bind_marker().map(Term::BindMarker);
            }
            if let Some(literal) = self.accept_literal() {
                return Ok(Term::Literal(literal));
            }
        }
        let first = self.term_product()?;
        let mut rest = Vec::new();
        while let Some(operator) = self.sum_operator() {
            // In `c = [1] + c` the sign belongs to the assignment, not to the term.
            let names_a_column = is_name(self.kind_at(1)) || self.kind_at(1) == TokenKind::EmptyQuotedName;
            if operator == ArithmeticOperator::Add && names_a_column && !self.starts_simple_term(1) {
                break;
            }
            self.advance();
            rest.push((operator, self.term_product()?));
        }
        Ok(arithmetic(first, rest))
    }

    // product ::= signed (('*' | '/' | '%') signed)*
    fn term_product(&mut self) -> Parsed<Term<'text>> {
        let first = self.signed_term()?;
        let mut rest = Vec::new();
        while let Some(operator) = self.product_operator() {
            self.advance();
            rest.push((operator, self.signed_term()?));
        }
        Ok(arithmetic(first, rest))
    }

    // signed ::= '-'? simple_term
    fn signed_term(&mut self) -> Parsed<Term<'text>> {
        let start = self.peek().span;
        if self.accept(TokenKind::Minus).is_none() {
            return self.simple_term();
        }
        let term = Box::new(self.simple_term()?);
        Ok(Term::Negation {
            term,
            span: self.since(start),
        })
    }

    // simple_term ::= literal | NULL | bind_marker | collection | tuple | type_hint | cast | function
    fn simple_term(&mut self) -> Parsed<Term<'text>> {
        if let Some(literal) = self.accept_literal() {
            return Ok(Term::Literal(literal));
        }
        self.nested(|parser| match parser.kind() {
            TokenKind::QuestionMark | TokenKind::Colon => parser.bind_marker().map(Term::BindMarker),
            TokenKind::Keyword(Keyword::Null) => Ok(Term::Null(parser.advance().span)),
            TokenKind::OpenBracket => parser.list_term(),
            TokenKind::OpenBrace => parser.braced_term(),
            TokenKind::OpenParenthesis if parser.at_type_hint(Self::starts_simple_term) => {
                parser.hinted_term()
            }
            TokenKind::OpenParenthesis => parser.tuple_term(),
            TokenKind::Keyword(Keyword::Cast) => parser.cast_term(),
            kind if is_name(kind) || is_function_name(kind) => parser.function_term(),
            _ => Err(parser.missing(Expected::Term)),
        })
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

    // list ::= '[' (term (',' term)*)? ']'
    fn list_term(&mut self) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenBracket)?.span;
        let items = self.terms_until(TokenKind::CloseBracket)?;
        Ok(Term::List {
            items,
            span: self.since(start),
        })
    }

    // terms ::= (term (',' term)*)? close
    pub(super) fn terms_until(&mut self, close: TokenKind) -> Parsed<Vec<Term<'text>>> {
        if self.accept(close).is_some() {
            return Ok(Vec::new());
        }
        let terms = self.comma_separated(Self::term)?;
        self.expect(close)?;
        Ok(terms)
    }

    // braced ::= '{' '}' | user_type | '{' term (set | map) '}'
    fn braced_term(&mut self) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenBrace)?.span;
        if self.accept(TokenKind::CloseBrace).is_some() {
            return Ok(Term::Set {
                items: Vec::new(),
                span: self.since(start),
            });
        }
        // A term is never a bare name, so a name before a colon is a field.
        if is_name(self.kind()) && self.kind_at(1) == TokenKind::Colon {
            return self.user_type_term(start);
        }
        let first = self.term()?;
        if self.accept(TokenKind::Colon).is_some() {
            self.map_term(first, start)
        } else {
            self.set_term(first, start)
        }
    }

    // user_type ::= '{' name ':' term (',' name ':' term)* '}'
    fn user_type_term(&mut self, start: Span) -> Parsed<Term<'text>> {
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

    // map ::= ':' term (',' term ':' term)*
    fn map_term(&mut self, first: Term<'text>, start: Span) -> Parsed<Term<'text>> {
        let mut entries = vec![(first, self.term()?)];
        while self.accept(TokenKind::Comma).is_some() {
            let key = self.term()?;
            self.expect(TokenKind::Colon)?;
            entries.push((key, self.term()?));
        }
        self.expect(TokenKind::CloseBrace)?;
        Ok(Term::Map {
            entries,
            span: self.since(start),
        })
    }

    // set ::= (',' term)*
    fn set_term(&mut self, first: Term<'text>, start: Span) -> Parsed<Term<'text>> {
        let mut items = vec![first];
        while self.accept(TokenKind::Comma).is_some() {
            items.push(self.term()?);
        }
        self.expect(TokenKind::CloseBrace)?;
        Ok(Term::Set {
            items,
            span: self.since(start),
        })
    }

    // tuple ::= '(' term (',' term)* ')'
    pub(super) fn tuple_term(&mut self) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenParenthesis)?.span;
        let items = self.comma_separated(Self::term)?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(Term::Tuple {
            items,
            span: self.since(start),
        })
    }

    // type_hint ::= '(' type ')' simple_term
    fn hinted_term(&mut self) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenParenthesis)?.span;
        let type_name = Box::new(self.type_name()?);
        self.expect(TokenKind::CloseParenthesis)?;
        let term = Box::new(self.simple_term()?);
        Ok(Term::TypeHint {
            type_name,
            term,
            span: self.since(start),
        })
    }

    // cast ::= CAST '(' simple_term AS native_type ')'
    fn cast_term(&mut self) -> Parsed<Term<'text>> {
        let start = self.peek().span;
        self.expect_keyword(Keyword::Cast)?;
        self.expect(TokenKind::OpenParenthesis)?;
        let term = Box::new(self.simple_term()?);
        self.expect_keyword(Keyword::As)?;
        let target = self.native_type()?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(Term::Cast {
            term,
            target,
            span: self.since(start),
        })
    }

    // function ::= function_name '(' (term (',' term)*)? ')'
    fn function_term(&mut self) -> Parsed<Term<'text>> {
        let start = self.peek().span;
        let name = self.function_name()?;
        self.expect(TokenKind::OpenParenthesis)?;
        let arguments = self.terms_until(TokenKind::CloseParenthesis)?;
        Ok(Term::Function(Box::new(FunctionCall {
            name,
            arguments,
            span: self.since(start),
        })))
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
    fn starts_simple_term(&self, ahead: usize) -> bool {
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

    /// The operator of a sum, if one follows.
    pub(super) fn sum_operator(&mut self) -> Option<ArithmeticOperator> {
        match self.kind() {
            TokenKind::Plus => Some(ArithmeticOperator::Add),
            TokenKind::Minus => Some(ArithmeticOperator::Subtract),
            _ => None,
        }
    }

    /// The operator of a product, if one follows.
    pub(super) fn product_operator(&mut self) -> Option<ArithmeticOperator> {
        match self.kind() {
            TokenKind::Star => Some(ArithmeticOperator::Multiply),
            TokenKind::Slash => Some(ArithmeticOperator::Divide),
            TokenKind::Percent => Some(ArithmeticOperator::Modulo),
            _ => None,
        }
    }
}

/// Whether a token of that kind can go on with an expression.
pub(super) const fn is_operator(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Plus | TokenKind::Minus | TokenKind::Star | TokenKind::Slash | TokenKind::Percent
    )
}

/// One operand is itself, more are a sum or a product.
pub(super) fn arithmetic<'text>(
    first: Term<'text>,
    rest: Vec<(ArithmeticOperator, Term<'text>)>,
) -> Term<'text> {
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
