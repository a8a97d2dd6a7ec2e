//! `BEGIN TRANSACTION` (Cassandra 6.0).

use crate::ServerVersion;
use crate::syntax::ast::{
    Dialect, Let, Modification, Name, RelationOperator, Returning, RowCondition, RowReference, Select, Term,
    Transaction, Using, Where,
};
use crate::syntax::{Expected, Keyword, TokenKind};

use super::name::{is_function_name, is_name};
use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // transaction ::= BEGIN TRANSACTION (let ';')* (returning ';')? (IF conditions THEN)? (modification ';')*
    //                 (END IF)? COMMIT TRANSACTION        where END IF stands if IF does
    pub(super) fn transaction(&mut self) -> Parsed<Transaction<'text>> {
        let start = self.peek().span;
        self.expect_keyword(Keyword::Begin)?;
        self.expect_word("TRANSACTION")?;
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), self.since(start));
        self.within_transaction(|parser| {
            let mut lets = Vec::new();
            while parser.at_word("LET") {
                lets.push(parser.row_read()?);
                parser.expect(TokenKind::Semicolon)?;
            }
            let returning = parser.optional_returning()?;
            let conditions = parser.optional_conditions()?;
            let updates = parser.updates()?;
            if !conditions.is_empty() {
                parser.expect_word("END")?;
                parser.expect_keyword(Keyword::If)?;
            }
            parser.expect_word("COMMIT")?;
            parser.expect_word("TRANSACTION")?;
            Ok(Transaction {
                lets,
                returning,
                conditions,
                updates,
            })
        })
    }

    // let ::= LET identifier '=' '(' SELECT selectors FROM table where_clause (LIMIT int_value)? ')'
    pub(super) fn row_read(&mut self) -> Parsed<Let<'text>> {
        let start = self.peek().span;
        self.expect_word("LET")?;
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), start);
        if self.kind() != TokenKind::Identifier || self.at_new_word() {
            return Err(self.missing(Expected::Name));
        }
        let name = self.take_written_name();
        self.expect(TokenKind::Equal)?;
        self.expect(TokenKind::OpenParenthesis)?;
        self.expect_keyword(Keyword::Select)?;
        let selection = self.unaliased_selection()?;
        self.expect_keyword(Keyword::From)?;
        let table = self.qualified_name()?;
        let where_clause: Where<'text> = self.where_clause()?;
        let limit = match self.accept_keyword(Keyword::Limit) {
            true => Some(self.int_value()?),
            false => None,
        };
        self.expect(TokenKind::CloseParenthesis)?;
        let select = Select {
            json: false,
            distinct: false,
            selection,
            table,
            where_clause,
            group_by: Vec::new(),
            order_by: Vec::new(),
            per_partition_limit: None,
            limit,
            allow_filtering: false,
            options: Vec::new(),
            bypass_cache: false,
            using: Using::default(),
        };
        Ok(Let { name, select })
    }

    // returning ::= select | SELECT reference (',' reference)*
    fn optional_returning(&mut self) -> Parsed<Option<Returning<'text>>> {
        if !self.at_keyword(Keyword::Select) {
            return Ok(None);
        }
        let returning = if self.reads_from_table() {
            Returning::Select(Box::new(self.select()?))
        } else {
            self.advance();
            Returning::References(self.comma_separated(Self::reference)?)
        };
        self.expect(TokenKind::Semicolon)?;
        Ok(Some(returning))
    }

    /// Whether `FROM` follows before the next semicolon: no name is called so.
    fn reads_from_table(&self) -> bool {
        let kinds = (0..).map(|ahead| self.kind_at(ahead));
        let mut clause = kinds.take_while(|kind| !matches!(kind, TokenKind::Semicolon | TokenKind::End));
        clause.any(|kind| kind == TokenKind::Keyword(Keyword::From))
    }

    // conditions ::= condition (AND condition)*
    fn optional_conditions(&mut self) -> Parsed<Vec<RowCondition<'text>>> {
        if !self.accept_keyword(Keyword::If) {
            return Ok(Vec::new());
        }
        let conditions = self.and_separated(Self::row_condition)?;
        self.expect_word("THEN")?;
        Ok(conditions)
    }

    // condition ::= reference (IS NOT? NULL | comparison term) | term comparison reference
    fn row_condition(&mut self) -> Parsed<RowCondition<'text>> {
        let start = self.peek().span;
        let is_value_first = !self.at_reference();
        let (reference, operator, value) = if is_value_first {
            let value = self.term()?;
            let operator = self.comparison()?;
            (self.reference()?, operator, Some(value))
        } else {
            let reference = self.reference()?;
            if self.accept_keyword(Keyword::Is) {
                let operator = match self.accept_keyword(Keyword::Not) {
                    true => RelationOperator::IsNotNull,
                    false => RelationOperator::IsNull,
                };
                self.expect_keyword(Keyword::Null)?;
                (reference, operator, None)
            } else {
                let operator = self.comparison()?;
                (reference, operator, Some(self.term()?))
            }
        };
        Ok(RowCondition {
            reference,
            operator,
            value,
            is_value_first,
            span: self.since(start),
        })
    }

    // updates ::= (modification ';')*
    fn updates(&mut self) -> Parsed<Vec<Modification<'text>>> {
        let mut updates = Vec::new();
        while !self.at_word("COMMIT") && !self.at_word("END") {
            updates.push(self.modification()?);
            self.expect(TokenKind::Semicolon)?;
        }
        Ok(updates)
    }

    // value ::= term | reference      the latter within a transaction
    pub(super) fn term_or_reference(&mut self) -> Parsed<Term<'text>> {
        if self.is_in_transaction() && self.at_reference() {
            return self.reference().map(Term::Reference);
        }
        self.term()
    }

    /// Whether a name follows that is not a function's.
    pub(super) fn at_reference(&self) -> bool {
        let is_call = |name: usize| {
            is_function_name(self.kind_at(name)) && self.kind_at(name + 1) == TokenKind::OpenParenthesis
        };
        let is_qualified_call = self.kind_at(1) == TokenKind::Dot && is_call(2);
        is_name(self.kind()) && !is_call(0) && !is_qualified_call
    }

    // reference ::= name ('.' name modifier*)?
    fn reference(&mut self) -> Parsed<RowReference<'text>> {
        let start = self.peek().span;
        let row = self.written_name()?;
        let part = if self.accept(TokenKind::Dot).is_some() {
            let column = Term::Column(self.written_name()?);
            Some(Box::new(self.modifiers(column)?))
        } else {
            None
        };
        Ok(RowReference {
            row,
            part,
            span: self.since(start),
        })
    }

    /// A name of which the letters stay as they are written.
    fn written_name(&mut self) -> Parsed<Name<'text>> {
        if is_name(self.kind()) {
            Ok(self.take_written_name())
        } else {
            Err(self.missing(Expected::Name))
        }
    }
}
