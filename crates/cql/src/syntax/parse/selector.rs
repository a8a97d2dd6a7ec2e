//! Selectors: what a `SELECT` computes of each row. They look like terms, but columns are among them.

use crate::syntax::ast::{FunctionCall, MetadataFunction, Selection, Selector, Term};
use crate::syntax::{Expected, Keyword, Span, TokenKind};

use super::name::{is_function_name, is_name};
use super::parser::{Parsed, Parser};
use super::term::{arithmetic, literal_kind};

impl<'text> Parser<'text, '_> {
    // selectors ::= '*' | selector (',' selector)*
    pub(super) fn selection(&mut self) -> Parsed<Selection<'text>> {
        if self.accept(TokenKind::Star).is_some() {
            return Ok(Selection::All);
        }
        self.comma_separated(Self::selector).map(Selection::Selectors)
    }

    // selector ::= unaliased_selector (AS name)?
    fn selector(&mut self) -> Parsed<Selector<'text>> {
        // Nearly all selectors are a single column.
        if is_name(self.kind())
            && matches!(
                self.kind_at(1),
                TokenKind::Comma | TokenKind::Keyword(Keyword::From)
            )
        {
            return Ok(Selector {
                term: Term::Column(self.take_name()),
                alias: None,
            });
        }
        let term = self.unaliased_selector()?;
        let alias = if self.accept_keyword(Keyword::As) {
            Some(self.name()?)
        } else {
            None
        };
        Ok(Selector { term, alias })
    }

    // unaliased_selector ::= selection_product (('+' | '-') selection_product)*
    pub(super) fn unaliased_selector(&mut self) -> Parsed<Term<'text>> {
        let first = self.selection_product()?;
        let mut rest = Vec::new();
        while let Some(operator) = self.sum_operator() {
            self.advance();
            rest.push((operator, self.selection_product()?));
        }
        Ok(arithmetic(first, rest))
    }

    // selection_product ::= selection_group (('*' | '/' | '%') selection_group)*
    fn selection_product(&mut self) -> Parsed<Term<'text>> {
        let first = self.selection_group()?;
        let mut rest = Vec::new();
        while let Some(operator) = self.product_operator() {
            self.advance();
            rest.push((operator, self.selection_group()?));
        }
        Ok(arithmetic(first, rest))
    }

    // selection_group ::= '-' selection_group | selectable modifier*
    fn selection_group(&mut self) -> Parsed<Term<'text>> {
        let start = self.peek().span;
        if self.accept(TokenKind::Minus).is_some() {
            let term = Box::new(self.nested(Self::selection_group)?);
            return Ok(Term::Negation {
                term,
                span: self.since(start),
            });
        }
        let receiver = self.selectable()?;
        self.modifiers(receiver)
    }

    // modifier ::= '.' name | '[' sub_selection ']'
    fn modifiers(&mut self, mut receiver: Term<'text>) -> Parsed<Term<'text>> {
        let mut length = 0;
        loop {
            receiver = match self.kind() {
                TokenKind::Dot => self.field_of(receiver)?,
                TokenKind::OpenBracket => self.part_of(receiver)?,
                _ => return Ok(receiver),
            };
            // A chain is a tree as deep as it is long.
            length += 1;
            self.check_depth(length)?;
        }
    }

    fn field_of(&mut self, receiver: Term<'text>) -> Parsed<Term<'text>> {
        self.expect(TokenKind::Dot)?;
        let field = self.name()?;
        let span = self.since(receiver.span());
        Ok(Term::Field {
            receiver: Box::new(receiver),
            field,
            span,
        })
    }

    // sub_selection ::= term ('..' term?)? | '..' term
    fn part_of(&mut self, receiver: Term<'text>) -> Parsed<Term<'text>> {
        let start = receiver.span();
        let receiver = Box::new(receiver);
        self.expect(TokenKind::OpenBracket)?;
        let from = if self.kind() == TokenKind::Range {
            None
        } else {
            Some(Box::new(self.term()?))
        };
        if self.accept(TokenKind::Range).is_none() {
            self.expect(TokenKind::CloseBracket)?;
            let Some(key) = from else {
                return Err(self.missing(Expected::Term));
            };
            return Ok(Term::Element {
                receiver,
                key,
                span: self.since(start),
            });
        }
        let is_open = from.is_some() && self.kind() == TokenKind::CloseBracket;
        let to = if is_open {
            None
        } else {
            Some(Box::new(self.term()?))
        };
        self.expect(TokenKind::CloseBracket)?;
        Ok(Term::Slice {
            receiver,
            from,
            to,
            span: self.since(start),
        })
    }

    // selectable ::= literal | NULL | bind_marker | column | function | type_hint | tuple | list | set | map
    fn selectable(&mut self) -> Parsed<Term<'text>> {
        if let Some(literal) = self.accept_literal() {
            return Ok(Term::Literal(literal));
        }
        self.nested(|parser| match parser.kind() {
            TokenKind::QuestionMark | TokenKind::Colon => parser.bind_marker().map(Term::BindMarker),
            TokenKind::Keyword(Keyword::Null) => Ok(Term::Null(parser.advance().span)),
            TokenKind::OpenBracket => parser.list_selector(),
            TokenKind::OpenBrace => parser.braced_selector(),
            TokenKind::OpenParenthesis if parser.at_type_hint(Self::starts_selectable) => {
                parser.hinted_selector()
            }
            TokenKind::OpenParenthesis => parser.tuple_selector(),
            kind if is_name(kind) || kind == TokenKind::Keyword(Keyword::Token) => {
                parser.column_or_function()
            }
            _ => Err(parser.missing(Expected::Term)),
        })
    }

    // column   ::= name
    // function ::= COUNT '(' '*' ')' | metadata | cast | function_name '(' (unaliased_selector (',' …)*)? ')'
    fn column_or_function(&mut self) -> Parsed<Term<'text>> {
        let is_call = self.kind_at(1) == TokenKind::OpenParenthesis;
        let is_qualified_call = self.kind_at(1) == TokenKind::Dot
            && self.kind_at(3) == TokenKind::OpenParenthesis
            && is_function_name(self.kind_at(2));
        match self.kind() {
            TokenKind::Keyword(Keyword::Cast) if is_call => self.cast_selector(),
            TokenKind::Keyword(Keyword::Count) if is_call && self.kind_at(2) == TokenKind::Star => {
                self.count_rows()
            }
            TokenKind::Keyword(Keyword::Writetime) if is_call => self.metadata(MetadataFunction::WriteTime),
            TokenKind::Keyword(Keyword::Maxwritetime) if is_call => {
                self.metadata(MetadataFunction::MaxWriteTime)
            }
            TokenKind::Keyword(Keyword::Ttl) if is_call => self.metadata(MetadataFunction::Ttl),
            TokenKind::Keyword(Keyword::Token) => self.function_selector(),
            kind if is_call && is_function_name(kind) || is_qualified_call => self.function_selector(),
            _ => self.name().map(Term::Column),
        }
    }

    // cast ::= CAST '(' unaliased_selector AS native_type ')'
    fn cast_selector(&mut self) -> Parsed<Term<'text>> {
        let start = self.advance().span;
        self.expect(TokenKind::OpenParenthesis)?;
        let term = Box::new(self.unaliased_selector()?);
        self.expect_keyword(Keyword::As)?;
        let target = self.native_type()?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(Term::Cast {
            term,
            target,
            span: self.since(start),
        })
    }

    fn count_rows(&mut self) -> Parsed<Term<'text>> {
        let start = self.advance().span;
        self.expect(TokenKind::OpenParenthesis)?;
        self.expect(TokenKind::Star)?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(Term::CountRows(self.since(start)))
    }

    // metadata ::= (WRITETIME | MAXWRITETIME | TTL) '(' name modifier* ')'
    fn metadata(&mut self, function: MetadataFunction) -> Parsed<Term<'text>> {
        let start = self.advance().span;
        self.expect(TokenKind::OpenParenthesis)?;
        let column = Term::Column(self.name()?);
        let column = Box::new(self.modifiers(column)?);
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(Term::Metadata {
            function,
            column,
            span: self.since(start),
        })
    }

    fn function_selector(&mut self) -> Parsed<Term<'text>> {
        let start = self.peek().span;
        let name = self.function_name()?;
        self.expect(TokenKind::OpenParenthesis)?;
        let arguments = self.selectors_until(TokenKind::CloseParenthesis)?;
        Ok(Term::Function(Box::new(FunctionCall {
            name,
            arguments,
            span: self.since(start),
        })))
    }

    fn selectors_until(&mut self, close: TokenKind) -> Parsed<Vec<Term<'text>>> {
        if self.accept(close).is_some() {
            return Ok(Vec::new());
        }
        let selectors = self.comma_separated(Self::unaliased_selector)?;
        self.expect(close)?;
        Ok(selectors)
    }

    // list ::= '[' (unaliased_selector (',' unaliased_selector)*)? ']'
    fn list_selector(&mut self) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenBracket)?.span;
        let items = self.selectors_until(TokenKind::CloseBracket)?;
        Ok(Term::List {
            items,
            span: self.since(start),
        })
    }

    // set ::= '{' (unaliased_selector (',' unaliased_selector)*)? '}'
    // map ::= '{' unaliased_selector ':' unaliased_selector (',' unaliased_selector ':' unaliased_selector)* '}'
    fn braced_selector(&mut self) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenBrace)?.span;
        if self.accept(TokenKind::CloseBrace).is_some() {
            return Ok(Term::Set {
                items: Vec::new(),
                span: self.since(start),
            });
        }
        let first = self.unaliased_selector()?;
        if self.accept(TokenKind::Colon).is_some() {
            return self.map_selector(first, start);
        }
        let mut items = vec![first];
        while self.accept(TokenKind::Comma).is_some() {
            items.push(self.unaliased_selector()?);
        }
        self.expect(TokenKind::CloseBrace)?;
        Ok(Term::Set {
            items,
            span: self.since(start),
        })
    }

    fn map_selector(&mut self, first: Term<'text>, start: Span) -> Parsed<Term<'text>> {
        let mut entries = vec![(first, self.unaliased_selector()?)];
        while self.accept(TokenKind::Comma).is_some() {
            let key = self.unaliased_selector()?;
            self.expect(TokenKind::Colon)?;
            entries.push((key, self.unaliased_selector()?));
        }
        self.expect(TokenKind::CloseBrace)?;
        Ok(Term::Map {
            entries,
            span: self.since(start),
        })
    }

    // tuple ::= '(' unaliased_selector (',' unaliased_selector)* ')'
    fn tuple_selector(&mut self) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenParenthesis)?.span;
        let items = self.comma_separated(Self::unaliased_selector)?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(Term::Tuple {
            items,
            span: self.since(start),
        })
    }

    // type_hint ::= '(' type ')' selectable
    fn hinted_selector(&mut self) -> Parsed<Term<'text>> {
        let start = self.expect(TokenKind::OpenParenthesis)?.span;
        let type_name = Box::new(self.type_name()?);
        self.expect(TokenKind::CloseParenthesis)?;
        let term = Box::new(self.selectable()?);
        Ok(Term::TypeHint {
            type_name,
            term,
            span: self.since(start),
        })
    }

    /// Whether a selector without sign may begin with the token `ahead` of the next one.
    ///
    /// `AS` may be a column; before another name it is the keyword, except that `AS AS` and `AS PER` are not aliases to
    /// Cassandra. `PER` may be a column unless a limit follows. A bracket that encloses a range is no list but a slice
    /// of what stands before it.
    pub(super) fn starts_selectable(&self, ahead: usize) -> bool {
        match self.kind_at(ahead) {
            TokenKind::QuestionMark
            | TokenKind::OpenBrace
            | TokenKind::OpenParenthesis
            | TokenKind::Keyword(Keyword::Null | Keyword::Token) => true,
            TokenKind::Colon => is_name(self.kind_at(ahead + 1)),
            TokenKind::OpenBracket => !self.encloses_range(ahead),
            TokenKind::Keyword(Keyword::Per) => !self.keyword_at(ahead + 1, Keyword::Partition),
            TokenKind::Keyword(Keyword::As) => {
                let next = self.kind_at(ahead + 1);
                !is_name(next) || matches!(next, TokenKind::Keyword(Keyword::As | Keyword::Per))
            }
            kind => literal_kind(kind).is_some() || is_name(kind),
        }
    }

    /// Whether the brackets that open with the token `ahead` hold a range, not counting further brackets in them.
    fn encloses_range(&self, ahead: usize) -> bool {
        let mut depth = 0usize;
        for ahead in ahead.. {
            match self.kind_at(ahead) {
                TokenKind::OpenBracket | TokenKind::OpenBrace | TokenKind::OpenParenthesis => depth += 1,
                TokenKind::CloseBracket | TokenKind::CloseBrace | TokenKind::CloseParenthesis => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return false;
                    }
                }
                TokenKind::Range if depth == 1 => return true,
                TokenKind::End => return false,
                _ => {}
            }
        }
        false
    }
}
