//! Selectors: what a `SELECT` computes of each row. They look like terms, but columns are among them.

use crate::ServerVersion;
use crate::syntax::ast::{Dialect, MetadataFunction, Selection, Selector, Term};
use crate::syntax::{Expected, Keyword, TokenKind};

use super::expression::Form;
use super::name::{is_function_name, is_name};
use super::parser::{Parsed, Parser};
use super::term::literal_kind;

impl<'text> Parser<'text, '_> {
    // selectors ::= '*' | selector (',' selector)*
    pub(super) fn selection(&mut self) -> Parsed<Selection<'text>> {
        if self.accept(TokenKind::Star).is_some() {
            return Ok(Selection::All);
        }
        self.comma_separated(Self::selector).map(Selection::Selectors)
    }

    // unaliased_selection ::= '*' | unaliased_selector (',' unaliased_selector)*
    pub(super) fn unaliased_selection(&mut self) -> Parsed<Selection<'text>> {
        if self.accept(TokenKind::Star).is_some() {
            return Ok(Selection::All);
        }
        let selectors = self.comma_separated(|parser| {
            let term = parser.unaliased_selector()?;
            Ok(Selector { term, alias: None })
        })?;
        Ok(Selection::Selectors(selectors))
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

    // unaliased_selector ::= sum
    pub(super) fn unaliased_selector(&mut self) -> Parsed<Term<'text>> {
        self.sum(Form::Selector)
    }

    // modifier ::= '.' name | '[' sub_selection ']'
    pub(super) fn modifiers(&mut self, mut receiver: Term<'text>) -> Parsed<Term<'text>> {
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

    // column   ::= name
    // function ::= COUNT '(' '*' ')' | metadata | cast | function_name '(' (unaliased_selector (',' …)*)? ')'
    pub(super) fn column_or_function(&mut self) -> Parsed<Term<'text>> {
        let is_call = self.kind_at(1) == TokenKind::OpenParenthesis;
        let is_qualified_call = self.kind_at(1) == TokenKind::Dot
            && self.kind_at(3) == TokenKind::OpenParenthesis
            && is_function_name(self.kind_at(2));
        match self.kind() {
            TokenKind::Keyword(Keyword::Cast) if is_call => self.cast(Form::Selector),
            TokenKind::Keyword(Keyword::Count) if is_call && self.kind_at(2) == TokenKind::Star => {
                self.count_rows()
            }
            TokenKind::Keyword(Keyword::Writetime) if is_call => self.metadata(MetadataFunction::WriteTime),
            TokenKind::Keyword(Keyword::Maxwritetime) if is_call => {
                let name = self.peek().span;
                self.extend(Dialect::Cassandra(ServerVersion::V5_0), name);
                self.metadata(MetadataFunction::MaxWriteTime)
            }
            TokenKind::Keyword(Keyword::Ttl) if is_call => self.metadata(MetadataFunction::Ttl),
            TokenKind::Keyword(Keyword::Token) => self.function(Form::Selector),
            kind if is_call && is_function_name(kind) || is_qualified_call => self.function(Form::Selector),
            _ => self.name().map(Term::Column),
        }
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

    /// Whether a selector without sign may begin with the token `ahead` of the next one.
    ///
    /// `AS` may be a column; before another name it is the keyword, except that `AS AS` and `AS PER` are not
    /// aliases to Cassandra. `PER` may be a column unless a limit follows. A bracket that encloses a range is
    /// no list but a slice of what stands before it.
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

    /// Whether the brackets that open with the token `ahead` hold a range, not counting further brackets in
    /// them.
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
