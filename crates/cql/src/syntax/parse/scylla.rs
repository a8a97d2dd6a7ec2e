//! What only ScyllaDB reads (and Amazon Keyspaces): statements, of which kind and name are kept, and parts of definitions.

use crate::syntax::ast::{Dialect, Kind, Literal, LiteralKind, Name, Other, Property, QualifiedName};
use crate::syntax::{Expected, Keyword, Span, TokenKind};

use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // partition_of_index ::= '(' column (',' column)* ')' ','
    pub(super) fn optional_partition_of_index(&mut self) -> Parsed<Vec<Name<'text>>> {
        let start = self.peek().span;
        if self.accept(TokenKind::OpenParenthesis).is_none() {
            return Ok(Vec::new());
        }
        let columns = self.comma_separated(Self::column)?;
        self.expect(TokenKind::CloseParenthesis)?;
        self.extend(Dialect::Scylla, self.since(start));
        self.expect(TokenKind::Comma)?;
        Ok(columns)
    }

    /// The options of a keyspace, which ScyllaDB has defaults for.
    pub(super) fn properties_of_new_keyspace(&mut self, name: Span) -> Parsed<Vec<Property<'text>>> {
        if matches!(self.kind(), TokenKind::End | TokenKind::Semicolon) {
            self.expecting(Expected::Keyword(Keyword::With));
            self.extend(Dialect::Scylla, name);
            return Ok(Vec::new());
        }
        self.with_properties()
    }

    // nested ::= '[' (literal (',' literal)*)? ']' | '{' … '}'   as a value of a map of options
    pub(super) fn optional_nested_option(&mut self) -> Parsed<Option<Literal<'text>>> {
        let start = self.peek().span;
        match self.kind() {
            TokenKind::OpenBracket => {
                self.advance();
                self.comma_separated(|parser| parser.expect(TokenKind::String))?;
                self.expect(TokenKind::CloseBracket)?;
                self.extend(Dialect::Scylla, self.since(start));
            }
            TokenKind::OpenBrace => {
                self.nested(Self::literal_map)?;
                self.extend(Dialect::Keyspaces, self.since(start));
            }
            _ => return Ok(None),
        }
        let span = self.since(start);
        Ok(Some(Literal {
            kind: LiteralKind::Nested,
            text: self.covered(span),
            span,
        }))
    }

    // prune_view ::= PRUNE MATERIALIZED VIEW table …
    pub(super) fn prune_view(&mut self) -> Parsed<Other<'text>> {
        let start = self.peek().span;
        self.expect_word("PRUNE")?;
        self.expect_keywords(&[Keyword::Materialized, Keyword::View])?;
        self.extend(Dialect::Scylla, self.since(start));
        let object = Some(self.qualified_name()?);
        self.rest(Kind::PruneView, object)
    }

    /// Whether `SERVICE LEVEL`, `SERVICE_LEVEL` or the plural of either follows.
    pub(super) fn at_service_level(&self) -> bool {
        self.at_word("SERVICE") || self.at_word("SERVICE_LEVEL") || self.at_word("SERVICE_LEVELS")
    }

    // service_level ::= (CREATE | ALTER | DROP | ATTACH | DETACH) service_level_words (IF NOT? EXISTS)? name
    // …
    pub(super) fn service_level(&mut self, kind: Kind) -> Parsed<Other<'text>> {
        self.service_level_words()?;
        if self.accept_keyword(Keyword::If) {
            self.accept_keyword(Keyword::Not);
            self.expect_keyword(Keyword::Exists)?;
        }
        let object = match kind {
            Kind::DetachServiceLevel => None,
            _ => Some(QualifiedName {
                keyspace: None,
                name: self.name()?,
            }),
        };
        self.rest(kind, object)
    }

    // service_level_words ::= SERVICE LEVEL | SERVICE LEVELS | SERVICE_LEVEL | SERVICE_LEVELS
    fn service_level_words(&mut self) -> Parsed<()> {
        let start = self.peek().span;
        if !self.accept_word("SERVICE_LEVEL") && !self.accept_word("SERVICE_LEVELS") {
            self.expect_word("SERVICE")?;
            if !self.accept_word("LEVELS") {
                self.expect_word("LEVEL")?;
            }
        }
        self.extend(Dialect::Scylla, self.since(start));
        Ok(())
    }

    /// After `LIST`: whether service levels are to be listed.
    pub(super) fn at_service_levels(&self) -> bool {
        let after_all = usize::from(self.at_keyword(Keyword::All));
        let words = [
            "SERVICE",
            "SERVICE_LEVEL",
            "SERVICE_LEVELS",
            "ATTACHED",
            "EFFECTIVE",
        ];
        words.iter().any(|word| self.word_at(after_all, word))
    }

    // list_service_levels ::= LIST ALL? (ATTACHED | EFFECTIVE)? service_level_words …
    pub(super) fn list_service_levels(&mut self) -> Parsed<Other<'text>> {
        self.accept_keyword(Keyword::All);
        if !self.accept_word("ATTACHED") {
            self.accept_word("EFFECTIVE");
        }
        self.service_level_words()?;
        self.rest(Kind::ListServiceLevel, None)
    }

    fn rest(&mut self, kind: Kind, object: Option<QualifiedName<'text>>) -> Parsed<Other<'text>> {
        while !matches!(self.kind(), TokenKind::End | TokenKind::Semicolon) {
            if self.at_bind_marker() && self.kind() == TokenKind::QuestionMark {
                self.bind_marker()?;
            } else {
                self.advance();
            }
        }
        Ok(Other { kind, object })
    }
}
