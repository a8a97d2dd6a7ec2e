//! Functions, aggregates and triggers: kind and name.

use crate::syntax::ast::{Dialect, Kind, Other, QualifiedName};
use crate::syntax::{Keyword, TokenKind};

use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // create_function ::= CREATE (OR REPLACE)? FUNCTION (IF NOT EXISTS)? function_name
    //                     '(' (name type (',' name type)*)? ')' (RETURNS NULL | CALLED) ON NULL INPUT
    //                     RETURNS type LANGUAGE identifier AS string
    pub(super) fn create_function(&mut self) -> Parsed<Other<'text>> {
        self.optional_if_not_exists()?;
        let object = Some(self.function_name()?);
        self.expect(TokenKind::OpenParenthesis)?;
        if self.accept(TokenKind::CloseParenthesis).is_none() {
            self.comma_separated(|parser| {
                parser.name()?;
                parser.type_name()
            })?;
            self.expect(TokenKind::CloseParenthesis)?;
        }
        if self.accept_keyword(Keyword::Returns) {
            self.expect_keyword(Keyword::Null)?;
        } else {
            self.expect_keyword(Keyword::Called)?;
        }
        self.expect_keywords(&[Keyword::On, Keyword::Null, Keyword::Input, Keyword::Returns])?;
        self.type_name()?;
        self.expect_keyword(Keyword::Language)?;
        self.expect(TokenKind::Identifier)?;
        self.expect_keyword(Keyword::As)?;
        self.expect(TokenKind::String)?;
        Ok(Other {
            kind: Kind::CreateFunction,
            object,
        })
    }

    // create_aggregate ::= CREATE (OR REPLACE)? AGGREGATE (IF NOT EXISTS)? function_name '(' types? ')'
    //                      SFUNC function STYPE type (REDUCEFUNC function)? (FINALFUNC function)? (INITCOND term)?
    pub(super) fn create_aggregate(&mut self) -> Parsed<Other<'text>> {
        self.optional_if_not_exists()?;
        let object = Some(self.function_name()?);
        self.types_in_parentheses()?;
        self.expect_keyword(Keyword::Sfunc)?;
        self.unqualified_function_name()?;
        self.expect_keyword(Keyword::Stype)?;
        self.type_name()?;
        let start = self.peek().span;
        if self.accept_word("REDUCEFUNC") {
            self.unqualified_function_name()?;
            self.extend(Dialect::Scylla, start);
        }
        if self.accept_keyword(Keyword::Finalfunc) {
            self.unqualified_function_name()?;
        }
        if self.accept_keyword(Keyword::Initcond) {
            self.term()?;
        }
        Ok(Other {
            kind: Kind::CreateAggregate,
            object,
        })
    }

    // drop_function ::= DROP (FUNCTION | AGGREGATE) (IF EXISTS)? function_name ('(' types? ')')?
    pub(super) fn drop_function(&mut self, kind: Kind) -> Parsed<Other<'text>> {
        self.optional_if_exists()?;
        let object = Some(self.function_name()?);
        if self.kind() == TokenKind::OpenParenthesis {
            self.types_in_parentheses()?;
        }
        Ok(Other { kind, object })
    }

    // types ::= '(' (type (',' type)*)? ')'
    pub(super) fn types_in_parentheses(&mut self) -> Parsed<()> {
        self.expect(TokenKind::OpenParenthesis)?;
        if self.accept(TokenKind::CloseParenthesis).is_none() {
            self.comma_separated(Self::type_name)?;
            self.expect(TokenKind::CloseParenthesis)?;
        }
        Ok(())
    }

    // create_trigger ::= CREATE TRIGGER (IF NOT EXISTS)? name ON table USING string
    pub(super) fn create_trigger(&mut self) -> Parsed<Other<'text>> {
        self.optional_if_not_exists()?;
        let name = self.trigger_on_table()?;
        self.expect_keyword(Keyword::Using)?;
        self.expect(TokenKind::String)?;
        Ok(Other {
            kind: Kind::CreateTrigger,
            object: Some(name),
        })
    }

    // drop_trigger ::= DROP TRIGGER (IF EXISTS)? name ON table
    pub(super) fn drop_trigger(&mut self) -> Parsed<Other<'text>> {
        self.optional_if_exists()?;
        let name = self.trigger_on_table()?;
        Ok(Other {
            kind: Kind::DropTrigger,
            object: Some(name),
        })
    }

    /// The object of a trigger's statement is the table, since a trigger has no keyspace of its own.
    fn trigger_on_table(&mut self) -> Parsed<QualifiedName<'text>> {
        self.name()?;
        self.expect_keyword(Keyword::On)?;
        self.qualified_name()
    }
}
