//! `DESCRIBE`.

use crate::syntax::ast::{Kind, Other, QualifiedName};
use crate::syntax::{Expected, Keyword, TokenKind};

use super::name::is_name;
use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // describe ::= (DESCRIBE | DESC) described (WITH INTERNALS)?
    pub(super) fn describe(&mut self) -> Parsed<Other<'text>> {
        self.advance();
        let object = self.described()?;
        if self.accept_keyword(Keyword::With) {
            self.expect_keyword(Keyword::Internals)?;
        }
        Ok(Other {
            kind: Kind::Describe,
            object,
        })
    }

    // described ::= CLUSTER | FULL? SCHEMA | KEYSPACES | TABLES | TYPES | FUNCTIONS | AGGREGATES
    //             | ONLY? KEYSPACE name? | TABLE table | INDEX table | MATERIALIZED VIEW table
    //             | TYPE type_name | FUNCTION function_name | AGGREGATE function_name | (name '.')? name
    fn described(&mut self) -> Parsed<Option<QualifiedName<'text>>> {
        let TokenKind::Keyword(keyword) = self.kind() else {
            return self.described_by_name();
        };
        // `TYPE`, `FUNCTION` and `AGGREGATE` may themselves be names.
        let names_follow = is_name(self.kind_at(1));
        match keyword {
            Keyword::Cluster
            | Keyword::Schema
            | Keyword::Keyspaces
            | Keyword::Tables
            | Keyword::Types
            | Keyword::Functions
            | Keyword::Aggregates => {
                self.advance();
                Ok(None)
            }
            Keyword::Full => {
                self.advance();
                self.expect_keyword(Keyword::Schema)?;
                Ok(None)
            }
            Keyword::Only if self.keyword_at(1, Keyword::Keyspace) => {
                self.advance();
                self.described_keyspace()
            }
            Keyword::Keyspace => self.described_keyspace(),
            Keyword::Table | Keyword::Index => {
                self.advance();
                self.qualified_name().map(Some)
            }
            Keyword::Materialized => {
                self.advance();
                self.expect_keyword(Keyword::View)?;
                self.qualified_name().map(Some)
            }
            Keyword::Type if names_follow => {
                self.advance();
                self.user_type_name().map(Some)
            }
            Keyword::Function | Keyword::Aggregate if names_follow || self.keyword_at(1, Keyword::Token) => {
                self.advance();
                self.function_name().map(Some)
            }
            _ => self.described_by_name(),
        }
    }

    fn described_keyspace(&mut self) -> Parsed<Option<QualifiedName<'text>>> {
        self.expect_keyword(Keyword::Keyspace)?;
        let follows = is_name(self.kind()) || self.kind() == TokenKind::QuestionMark;
        if !follows {
            return Ok(None);
        }
        Ok(Some(QualifiedName {
            keyspace: None,
            name: self.object_name()?,
        }))
    }

    fn described_by_name(&mut self) -> Parsed<Option<QualifiedName<'text>>> {
        if !is_name(self.kind()) {
            return Err(self.missing(Expected::Name));
        }
        self.qualified_name().map(Some)
    }
}
