//! Properties: `WITH name = value AND …`.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::ServerVersion;
use crate::syntax::ast::{Dialect, Literal, Name, Property, PropertyValue, Term};
use crate::syntax::{Expected, Keyword, KeywordClass, ParseErrorKind, TokenKind};

use super::name::is_index_hint;
use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // with ::= WITH property (AND property)*
    pub(super) fn with_properties(&mut self) -> Parsed<Vec<Property<'text>>> {
        self.expect_keyword(Keyword::With)?;
        let properties = self.and_separated(Self::property)?;
        refuse_duplicates(properties.iter().map(|property| &property.name))?;
        Ok(properties)
    }

    // property ::= name '=' (literal | unreserved_keyword | map)
    pub(super) fn property(&mut self) -> Parsed<Property<'text>> {
        if self.at_index_hint() {
            return self.index_hint();
        }
        let name = self.name()?;
        self.expect(TokenKind::Equal)?;
        let value = match self.kind() {
            TokenKind::OpenBrace => PropertyValue::Map(self.literal_map()?),
            TokenKind::Keyword(keyword) if keyword.class() != KeywordClass::Reserved => {
                PropertyValue::Word(self.take_name())
            }
            _ if self.at_new_word() => {
                self.extend(Dialect::Cassandra(ServerVersion::V6_0), self.peek().span);
                PropertyValue::Word(self.take_name())
            }
            _ => match self.accept_literal() {
                Some(literal) => PropertyValue::Literal(literal),
                None => return Err(self.missing(Expected::Term)),
            },
        };
        Ok(Property { name, value })
    }

    fn at_index_hint(&self) -> bool {
        let token = self.peek();
        let is_hint = token.kind == TokenKind::Identifier && is_index_hint(self.text_of(token));
        is_hint && self.kind_at(1) == TokenKind::Equal && self.kind_at(2) == TokenKind::OpenBrace
            // A map of options, as the property of some index could have had it.
            && self.kind_at(4) != TokenKind::Colon
    }

    // index_hint ::= (included_indexes | excluded_indexes) '=' '{' (table (',' table)*)? '}'
    fn index_hint(&mut self) -> Parsed<Property<'text>> {
        let token = self.advance();
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), token.span);
        let name = Name {
            text: Cow::Borrowed(self.text_of(token)),
            is_quoted: false,
            span: token.span,
        };
        self.expect(TokenKind::Equal)?;
        self.expect(TokenKind::OpenBrace)?;
        let indexes = match self.kind() {
            TokenKind::CloseBrace => Vec::new(),
            _ => self.comma_separated(Self::qualified_name)?,
        };
        self.expect(TokenKind::CloseBrace)?;
        let value = PropertyValue::Indexes(indexes);
        Ok(Property { name, value })
    }

    // map ::= '{' (term ':' term (',' term ':' term)*)? '}'      where every term is a literal
    pub(super) fn literal_map(&mut self) -> Parsed<Vec<(Literal<'text>, Literal<'text>)>> {
        self.expect(TokenKind::OpenBrace)?;
        let mut entries = Vec::new();
        if self.accept(TokenKind::CloseBrace).is_some() {
            return Ok(entries);
        }
        let mut keys = HashSet::new();
        loop {
            let key = self.literal_term()?;
            self.expect(TokenKind::Colon)?;
            let value = match self.optional_nested_option()? {
                Some(nested) => nested,
                None => self.literal_term()?,
            };
            // `1` and `'1'` are one key: Cassandra compares the texts.
            if !keys.insert(key.decoded()) {
                return Err(Self::refused(ParseErrorKind::Duplicate, key.span));
            }
            entries.push((key, value));
            if self.accept(TokenKind::Comma).is_none() {
                self.expect(TokenKind::CloseBrace)?;
                return Ok(entries);
            }
        }
    }

    fn literal_term(&mut self) -> Parsed<Literal<'text>> {
        match self.term()? {
            Term::Literal(literal) => Ok(literal),
            Term::BindMarker(marker) => Err(Self::refused(ParseErrorKind::BindMarkerNotAllowed, marker.span)),
            other => Err(Self::refused(ParseErrorKind::ValueNotAllowed, other.span())),
        }
    }
}

/// Refuses a name that is given twice.
pub(super) fn refuse_duplicates<'a, 'text: 'a>(names: impl Iterator<Item = &'a Name<'text>>) -> Parsed<()> {
    let mut given: HashSet<&str> = HashSet::new();
    for name in names {
        if !given.insert(name.as_str()) {
            return Err(Parser::refused(ParseErrorKind::Duplicate, name.span));
        }
    }
    Ok(())
}
