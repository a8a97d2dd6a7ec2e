//! `INSERT`, `UPDATE`, `DELETE`, `BEGIN BATCH` and `TRUNCATE`.

use crate::syntax::ast::{
    Assignment, AssignmentOperation, Batch, BatchKind, Delete, Deletion, DeletionTarget, Dialect, Insert,
    InsertSource, JsonDefault, Literal, Modification, Name, Term, Truncate, Update, Using,
};
use crate::syntax::{Expected, Keyword, ParseErrorKind, Span, TokenKind};

use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // insert ::= INSERT INTO table (columns VALUES values | JSON json_value) (IF NOT EXISTS)? using?
    pub(super) fn insert(&mut self) -> Parsed<Insert<'text>> {
        self.expect_keywords(&[Keyword::Insert, Keyword::Into])?;
        let table = self.qualified_name()?;
        let source = if self.accept_keyword(Keyword::Json) {
            self.json_source()?
        } else {
            self.values_source()?
        };
        let if_not_exists = self.optional_if_not_exists()?;
        let using = self.optional_using()?;
        Ok(Insert {
            table,
            source,
            if_not_exists,
            using,
        })
    }

    // values ::= '(' value (',' value)* ')'
    fn values_source(&mut self) -> Parsed<InsertSource<'text>> {
        let columns = self.columns_in_parentheses()?;
        self.expect_keyword(Keyword::Values)?;
        self.expect(TokenKind::OpenParenthesis)?;
        let values = self.comma_separated(Self::term_or_reference)?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(InsertSource::Values { columns, values })
    }

    // json_value ::= (string | bind_marker) (DEFAULT (NULL | UNSET))?
    fn json_source(&mut self) -> Parsed<InsertSource<'text>> {
        let value = self.value_of(TokenKind::String)?;
        let mut default = JsonDefault::Null;
        if self.accept_keyword(Keyword::Default) {
            if self.accept_keyword(Keyword::Unset) {
                default = JsonDefault::Unset;
            } else {
                self.expect_keyword(Keyword::Null)?;
            }
        }
        Ok(InsertSource::Json { value, default })
    }

    // if_not_exists ::= IF NOT EXISTS
    pub(super) fn optional_if_not_exists(&mut self) -> Parsed<bool> {
        if !self.accept_keyword(Keyword::If) {
            return Ok(false);
        }
        self.expect_keywords(&[Keyword::Not, Keyword::Exists])?;
        Ok(true)
    }

    // using ::= USING using_objective (AND using_objective)*
    fn optional_using(&mut self) -> Parsed<Using<'text>> {
        self.using(|parser, using| {
            if parser.accept_keyword(Keyword::Ttl) {
                using.ttl = Some(parser.int_value()?);
                return Ok(());
            }
            parser.timestamp_or_timeout(using)
        })
    }

    /// The `USING` of a `DELETE`, which knows no TTL, and its timestamp only once.
    fn optional_using_of_delete(&mut self) -> Parsed<Using<'text>> {
        self.using(|parser, using| match using.timestamp {
            Some(_) => parser.timeout(using),
            None => parser.timestamp_or_timeout(using),
        })
    }

    fn using(
        &mut self,
        mut objective: impl FnMut(&mut Self, &mut Using<'text>) -> Parsed<()>,
    ) -> Parsed<Using<'text>> {
        let mut using = Using::default();
        if self.accept_keyword(Keyword::Using) {
            objective(self, &mut using)?;
            while self.accept_keyword(Keyword::And) {
                objective(self, &mut using)?;
            }
        }
        Ok(using)
    }

    // using_objective ::= TIMESTAMP int_value | TTL int_value | TIMEOUT timeout
    fn timestamp_or_timeout(&mut self, using: &mut Using<'text>) -> Parsed<()> {
        if self.accept_keyword(Keyword::Timestamp) {
            using.timestamp = Some(self.int_value()?);
            return Ok(());
        }
        self.timeout(using)
    }

    // timeout ::= duration | bind_marker
    pub(super) fn timeout(&mut self, using: &mut Using<'text>) -> Parsed<()> {
        let keyword = self.peek().span;
        self.expect_word("TIMEOUT")?;
        self.extend(Dialect::Scylla, keyword);
        using.timeout = Some(self.value_of(TokenKind::Duration)?);
        Ok(())
    }

    // update ::= UPDATE table using? SET assignment (',' assignment)* where_clause if_clause?
    pub(super) fn update(&mut self) -> Parsed<Update<'text>> {
        self.expect_keyword(Keyword::Update)?;
        let table = self.qualified_name()?;
        let using = self.optional_using()?;
        self.expect_keyword(Keyword::Set)?;
        let assignments = self.comma_separated(Self::assignment)?;
        let where_clause = self.where_clause()?;
        let condition = self.optional_if()?;
        refuse_conflicts(&assignments)?;
        Ok(Update {
            table,
            using,
            assignments,
            where_clause,
            condition,
        })
    }

    // assignment ::= column ('=' value | ('+=' | '-=') term | '[' term ']' '=' term | '.' name '=' term)
    fn assignment(&mut self) -> Parsed<Assignment<'text>> {
        let start = self.peek().span;
        let column = self.column()?;
        let operation = match self.kind() {
            TokenKind::Equal => {
                self.advance();
                self.assigned_value(&column)?
            }
            TokenKind::PlusEqual => {
                self.advance();
                AssignmentOperation::Add(self.term_or_reference()?)
            }
            TokenKind::MinusEqual => {
                self.advance();
                AssignmentOperation::Subtract(self.term_or_reference()?)
            }
            TokenKind::OpenBracket => {
                self.advance();
                let key = self.term()?;
                self.expect(TokenKind::CloseBracket)?;
                self.expect(TokenKind::Equal)?;
                AssignmentOperation::SetElement {
                    key,
                    value: self.term_or_reference()?,
                }
            }
            TokenKind::Dot => {
                self.advance();
                let field = self.name()?;
                self.expect(TokenKind::Equal)?;
                AssignmentOperation::SetField {
                    field,
                    value: self.term_or_reference()?,
                }
            }
            _ => return Err(self.missing(Expected::Token(TokenKind::Equal))),
        };
        Ok(Assignment {
            column,
            operation,
            span: self.since(start),
        })
    }

    // value ::= term | term '+' column | column ('+' | '-') term | column integer
    fn assigned_value(&mut self, column: &Name<'text>) -> Parsed<AssignmentOperation<'text>> {
        if self.at_column() {
            match self.kind_at(1) {
                TokenKind::Plus => {
                    self.own_column(column)?;
                    self.advance();
                    return self.term().map(AssignmentOperation::Add);
                }
                TokenKind::Minus => {
                    self.own_column(column)?;
                    self.advance();
                    return self.term().map(AssignmentOperation::Subtract);
                }
                // `c = c -1`: the lexer took the sign for the number's.
                TokenKind::Integer => {
                    self.own_column(column)?;
                    return self.signed_step();
                }
                _ => {}
            }
        }
        let term = self.term_or_reference()?;
        if matches!(term, Term::Reference(_)) {
            return Ok(AssignmentOperation::Set(term));
        }
        if self.accept(TokenKind::Plus).is_none() {
            return Ok(AssignmentOperation::Set(term));
        }
        self.own_column(column)?;
        Ok(AssignmentOperation::Prepend(term))
    }

    /// Takes a column, which must be the one that is assigned.
    fn own_column(&mut self, column: &Name<'text>) -> Parsed<()> {
        let source = self.column()?;
        if source.text == column.text {
            return Ok(());
        }
        Err(Self::refused(
            ParseErrorKind::AssignmentFromOtherColumn,
            source.span,
        ))
    }

    /// An integer after the column itself: `-1` is subtracted as `1`, so that `c -1` reads like `c - 1`.
    fn signed_step(&mut self) -> Parsed<AssignmentOperation<'text>> {
        let Some(literal) = self.accept_literal() else {
            return Err(self.missing(Expected::Term));
        };
        Ok(match literal.text.strip_prefix('-') {
            Some(text) => {
                let span = Span::new(literal.span.start + 1, literal.span.end);
                AssignmentOperation::Subtract(Term::Literal(Literal {
                    text,
                    span,
                    ..literal
                }))
            }
            None => AssignmentOperation::Add(Term::Literal(literal)),
        })
    }

    // delete ::= DELETE (deletion (',' deletion)*)? FROM table using? where_clause if_clause?
    pub(super) fn delete(&mut self) -> Parsed<Delete<'text>> {
        self.expect_keyword(Keyword::Delete)?;
        let deletions = if self.accept_keyword(Keyword::From) {
            Vec::new()
        } else {
            let deletions = self.comma_separated(Self::deletion)?;
            self.expect_keyword(Keyword::From)?;
            deletions
        };
        let table = self.qualified_name()?;
        let using = self.optional_using_of_delete()?;
        let where_clause = self.where_clause()?;
        let condition = self.optional_if()?;
        Ok(Delete {
            deletions,
            table,
            using,
            where_clause,
            condition,
        })
    }

    // deletion ::= column | column '[' term ']' | column '.' name
    fn deletion(&mut self) -> Parsed<Deletion<'text>> {
        let column = self.column()?;
        let target = if self.accept(TokenKind::OpenBracket).is_some() {
            let key = self.term()?;
            self.expect(TokenKind::CloseBracket)?;
            DeletionTarget::Element(key)
        } else if self.accept(TokenKind::Dot).is_some() {
            DeletionTarget::Field(self.name()?)
        } else {
            DeletionTarget::Column
        };
        Ok(Deletion { column, target })
    }

    // batch ::= BEGIN (UNLOGGED | COUNTER)? BATCH using? (modification ';'?)* APPLY BATCH
    pub(super) fn batch(&mut self) -> Parsed<Batch<'text>> {
        self.expect_keyword(Keyword::Begin)?;
        let kind = if self.accept_keyword(Keyword::Unlogged) {
            BatchKind::Unlogged
        } else if self.accept_keyword(Keyword::Counter) {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_keyword(Keyword::Batch)?;
        let using = self.optional_using()?;
        let mut statements = Vec::new();
        while !self.accept_keyword(Keyword::Apply) {
            statements.push(self.modification()?);
            self.accept(TokenKind::Semicolon);
        }
        self.expect_keyword(Keyword::Batch)?;
        Ok(Batch {
            kind,
            using,
            statements,
        })
    }

    // modification ::= insert | update | delete
    pub(super) fn modification(&mut self) -> Parsed<Modification<'text>> {
        match self.kind() {
            TokenKind::Keyword(Keyword::Insert) => self.insert().map(Modification::Insert),
            TokenKind::Keyword(Keyword::Update) => self.update().map(Modification::Update),
            TokenKind::Keyword(Keyword::Delete) => self.delete().map(Modification::Delete),
            _ => {
                self.expecting(Expected::Keyword(Keyword::Insert));
                self.expecting(Expected::Keyword(Keyword::Update));
                Err(self.missing(Expected::Keyword(Keyword::Delete)))
            }
        }
    }

    // truncate ::= TRUNCATE TABLE? table (USING TIMEOUT timeout)?
    pub(super) fn truncate(&mut self) -> Parsed<Truncate<'text>> {
        self.expect_keyword(Keyword::Truncate)?;
        self.accept_keyword(Keyword::Table);
        let table = self.qualified_name()?;
        let using = self.optional_using_timeout()?;
        Ok(Truncate { table, using })
    }
}

/// A column may be assigned twice only in parts: elements, increments, fields of which none is the same.
fn refuse_conflicts(assignments: &[Assignment<'_>]) -> Parsed<()> {
    // The usual case needs no order: no column twice, and few of them.
    let mut sorted: Vec<(&str, bool, Option<&str>, Span)> = assignments
        .iter()
        .map(|assignment| {
            let (is_whole, field) = match &assignment.operation {
                AssignmentOperation::Set(_) => (true, None),
                AssignmentOperation::SetField { field, .. } => (false, Some(field.as_str())),
                _ => (false, None),
            };
            (assignment.column.as_str(), is_whole, field, assignment.span)
        })
        .collect();
    sorted.sort_unstable();
    let excludes = |one: &(&str, bool, Option<&str>, Span), other: &(&str, bool, Option<&str>, Span)| {
        let is_one_field = one.2.is_some() && one.2 == other.2;
        one.0 == other.0 && (one.1 || other.1 || is_one_field)
    };
    match sorted.windows(2).find(|pair| excludes(&pair[0], &pair[1])) {
        Some(pair) => Err(Parser::refused(
            ParseErrorKind::ConflictingAssignment,
            pair[0].3.max(pair[1].3),
        )),
        None => Ok(()),
    }
}
