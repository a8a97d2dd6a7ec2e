//! Relations: `WHERE` and `IF`.

use crate::ServerVersion;
use crate::syntax::ast::{
    Comparand, CustomIndexExpression, Dialect, If, QualifiedName, Relation, RelationOperator, Subject, Term,
    Where,
};
use crate::syntax::{Expected, Keyword, Span, TokenKind};

use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // where_clause ::= WHERE condition (AND condition)*
    pub(super) fn optional_where(&mut self) -> Parsed<Where<'text>> {
        if self.at_keyword(Keyword::Where) {
            self.where_clause()
        } else {
            self.expecting(Expected::Keyword(Keyword::Where));
            Ok(Where::default())
        }
    }

    // condition ::= relation | custom_index_expression
    pub(super) fn where_clause(&mut self) -> Parsed<Where<'text>> {
        self.expect_keyword(Keyword::Where)?;
        let mut clause = Where::default();
        loop {
            if self.kind() == TokenKind::ExprOpen {
                clause
                    .custom_index_expressions
                    .push(self.custom_index_expression()?);
            } else {
                clause.relations.push(self.relation()?);
            }
            if !self.accept_keyword(Keyword::And) {
                return Ok(clause);
            }
        }
    }

    // custom_index_expression ::= 'expr(' object_name ',' term ')'
    fn custom_index_expression(&mut self) -> Parsed<CustomIndexExpression<'text>> {
        let start = self.expect(TokenKind::ExprOpen)?.span;
        let index = QualifiedName {
            keyspace: None,
            name: self.object_name()?,
        };
        self.expect(TokenKind::Comma)?;
        let value = self.term()?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(CustomIndexExpression {
            index,
            value,
            span: self.since(start),
        })
    }

    // relation ::= column_relation | token_relation | tuple_relation | '(' relation ')'
    fn relation(&mut self) -> Parsed<Relation<'text>> {
        match self.kind() {
            TokenKind::Keyword(Keyword::Token) => self.token_relation(),
            TokenKind::OpenParenthesis if self.at_tuple_of_columns() => self.tuple_relation(),
            TokenKind::OpenParenthesis => self.nested(|parser| {
                parser.advance();
                let relation = parser.relation()?;
                parser.expect(TokenKind::CloseParenthesis)?;
                Ok(relation)
            }),
            _ => self.column_relation(),
        }
    }

    /// Whether the parenthesis encloses columns; else it encloses a relation.
    fn at_tuple_of_columns(&self) -> bool {
        matches!(self.kind_at(2), TokenKind::Comma | TokenKind::CloseParenthesis)
    }

    // token_relation ::= TOKEN columns (comparison term | BETWEEN term AND term)
    fn token_relation(&mut self) -> Parsed<Relation<'text>> {
        let start = self.peek().span;
        self.expect_keyword(Keyword::Token)?;
        let subject = Subject::Token(self.columns_in_parentheses()?);
        if self.at_word("BETWEEN") {
            return self.between(subject, start, Self::term);
        }
        self.comparison_with(subject, start, Self::term)
    }

    // column_relation ::= column tail | column '[' term ']' comparison term
    fn column_relation(&mut self) -> Parsed<Relation<'text>> {
        let start = self.peek().span;
        let column = self.column()?;
        if self.accept(TokenKind::OpenBracket).is_some() {
            let key = Box::new(self.term()?);
            self.expect(TokenKind::CloseBracket)?;
            return self.comparison_with(Subject::Element(column, key), start, Self::term);
        }
        let subject = Subject::Column(column);
        match self.kind() {
            TokenKind::Keyword(Keyword::In) => self.in_list(subject, start),
            TokenKind::Keyword(Keyword::Contains) => self.contains(subject, start),
            TokenKind::Keyword(Keyword::Like) => {
                self.advance();
                let term = self.term()?;
                Ok(self.related(subject, RelationOperator::Like, Comparand::One(term), start))
            }
            TokenKind::Keyword(Keyword::Is) => {
                self.advance();
                self.expect_keywords(&[Keyword::Not, Keyword::Null])?;
                Ok(self.related(subject, RelationOperator::IsNotNull, Comparand::None, start))
            }
            TokenKind::Keyword(Keyword::Not) if self.keyword_at(1, Keyword::Contains) => {
                self.not_contains(subject, start)
            }
            TokenKind::Keyword(Keyword::Not) => self.not_in(subject, start, Self::in_list),
            _ if self.at_word("BETWEEN") => self.between(subject, start, Self::term),
            _ => self.comparison_with(subject, start, Self::term),
        }
    }

    // tuple_relation ::= columns (IN tuple_list | comparison (tuple | bind_marker))
    fn tuple_relation(&mut self) -> Parsed<Relation<'text>> {
        let start = self.peek().span;
        let subject = Subject::Columns(self.columns_in_parentheses()?);
        match self.kind() {
            TokenKind::Keyword(Keyword::In) => self.in_tuples(subject, start),
            TokenKind::Keyword(Keyword::Not) => self.not_in(subject, start, Self::in_tuples),
            _ if self.at_word("BETWEEN") => self.between(subject, start, Self::tuple_or_marker),
            _ => self.comparison_with(subject, start, Self::tuple_or_marker),
        }
    }

    fn tuple_or_marker(&mut self) -> Parsed<Term<'text>> {
        if self.at_bind_marker() {
            self.bind_marker().map(Term::BindMarker)
        } else {
            self.tuple_term()
        }
    }

    // comparison ::= '=' | '!=' | '<' | '<=' | '>' | '>='
    fn comparison_with(
        &mut self,
        subject: Subject<'text>,
        start: Span,
        comparand: impl FnOnce(&mut Self) -> Parsed<Term<'text>>,
    ) -> Parsed<Relation<'text>> {
        let operator = self.comparison()?;
        let comparand = Comparand::One(comparand(self)?);
        Ok(self.related(subject, operator, comparand, start))
    }

    pub(super) fn comparison(&mut self) -> Parsed<RelationOperator> {
        let operator = match self.kind() {
            TokenKind::Equal => RelationOperator::Equal,
            TokenKind::NotEqual => RelationOperator::NotEqual,
            TokenKind::Less => RelationOperator::LessThan,
            TokenKind::LessOrEqual => RelationOperator::LessOrEqual,
            TokenKind::Greater => RelationOperator::GreaterThan,
            TokenKind::GreaterOrEqual => RelationOperator::GreaterOrEqual,
            _ => return Err(self.missing(Expected::Operator)),
        };
        self.advance();
        Ok(operator)
    }

    // in ::= IN (bind_marker | '(' (term (',' term)*)? ')')
    fn in_list(&mut self, subject: Subject<'text>, start: Span) -> Parsed<Relation<'text>> {
        self.expect_keyword(Keyword::In)?;
        let comparand = if self.at_bind_marker() {
            Comparand::Marker(self.bind_marker()?)
        } else {
            self.expect(TokenKind::OpenParenthesis)?;
            Comparand::List(self.terms_until(TokenKind::CloseParenthesis)?)
        };
        Ok(self.related(subject, RelationOperator::In, comparand, start))
    }

    // tuple_list ::= bind_marker | '(' ')' | '(' tuple (',' tuple)* ')' | '(' bind_marker (',' bind_marker)*
    // ')'
    fn in_tuples(&mut self, subject: Subject<'text>, start: Span) -> Parsed<Relation<'text>> {
        self.expect_keyword(Keyword::In)?;
        if self.at_bind_marker() {
            let marker = Comparand::Marker(self.bind_marker()?);
            return Ok(self.related(subject, RelationOperator::In, marker, start));
        }
        self.expect(TokenKind::OpenParenthesis)?;
        let items = match self.kind() {
            TokenKind::CloseParenthesis => Vec::new(),
            TokenKind::OpenParenthesis => self.comma_separated(Self::tuple_term)?,
            _ => self.comma_separated(|parser| parser.bind_marker().map(Term::BindMarker))?,
        };
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(self.related(subject, RelationOperator::In, Comparand::List(items), start))
    }

    /// `NOT IN`, by way of `IN`.
    fn not_in(
        &mut self,
        subject: Subject<'text>,
        start: Span,
        in_relation: impl FnOnce(&mut Self, Subject<'text>, Span) -> Parsed<Relation<'text>>,
    ) -> Parsed<Relation<'text>> {
        let keyword = self.peek().span;
        self.expect_keyword(Keyword::Not)?;
        let relation = in_relation(self, subject, start)?;
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), keyword);
        Ok(Relation {
            operator: RelationOperator::NotIn,
            ..relation
        })
    }

    // between ::= BETWEEN term AND term
    fn between(
        &mut self,
        subject: Subject<'text>,
        start: Span,
        mut end: impl FnMut(&mut Self) -> Parsed<Term<'text>>,
    ) -> Parsed<Relation<'text>> {
        let keyword = self.peek().span;
        self.expect_word("BETWEEN")?;
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), keyword);
        let lower = end(self)?;
        self.expect_keyword(Keyword::And)?;
        let range = Comparand::Range(Box::new((lower, end(self)?)));
        Ok(self.related(subject, RelationOperator::Between, range, start))
    }

    // contains ::= CONTAINS KEY? term
    fn contains(&mut self, subject: Subject<'text>, start: Span) -> Parsed<Relation<'text>> {
        self.expect_keyword(Keyword::Contains)?;
        let operator = if self.accept_keyword(Keyword::Key) {
            RelationOperator::ContainsKey
        } else {
            RelationOperator::Contains
        };
        let comparand = Comparand::One(self.term()?);
        Ok(self.related(subject, operator, comparand, start))
    }

    // not_contains ::= NOT contains
    fn not_contains(&mut self, subject: Subject<'text>, start: Span) -> Parsed<Relation<'text>> {
        let keyword = self.peek().span;
        self.expect_keyword(Keyword::Not)?;
        let relation = self.contains(subject, start)?;
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), keyword);
        let operator = match relation.operator {
            RelationOperator::ContainsKey => RelationOperator::NotContainsKey,
            _ => RelationOperator::NotContains,
        };
        Ok(Relation { operator, ..relation })
    }

    fn related(
        &self,
        subject: Subject<'text>,
        operator: RelationOperator,
        comparand: Comparand<'text>,
        start: Span,
    ) -> Relation<'text> {
        Relation {
            subject,
            operator,
            comparand,
            span: self.since(start),
        }
    }

    // if_clause ::= IF (EXISTS | column_condition (AND column_condition)*)
    pub(super) fn optional_if(&mut self) -> Parsed<Option<If<'text>>> {
        if !self.accept_keyword(Keyword::If) {
            return Ok(None);
        }
        if self.at_keyword(Keyword::Exists) && !self.starts_condition_tail(1) {
            self.advance();
            return Ok(Some(If::Exists));
        }
        self.expecting(Expected::Keyword(Keyword::Exists));
        self.and_separated(Self::column_condition)
            .map(|conditions| Some(If::Conditions(conditions)))
    }

    // column_condition ::= column (tail | '[' term ']' tail | '.' name tail)
    // tail             ::= comparison term | CONTAINS KEY? term | IN (bind_marker | '(' … ')')
    fn column_condition(&mut self) -> Parsed<Relation<'text>> {
        let start = self.peek().span;
        let column = self.column()?;
        let subject = if self.accept(TokenKind::OpenBracket).is_some() {
            let key = Box::new(self.term()?);
            self.expect(TokenKind::CloseBracket)?;
            Subject::Element(column, key)
        } else if self.accept(TokenKind::Dot).is_some() {
            Subject::Field(column, self.name()?)
        } else {
            Subject::Column(column)
        };
        match self.kind() {
            TokenKind::Keyword(Keyword::In) => self.in_list(subject, start),
            TokenKind::Keyword(Keyword::Contains) if matches!(subject, Subject::Column(_)) => {
                self.contains(subject, start)
            }
            TokenKind::Keyword(Keyword::Like) if matches!(subject, Subject::Column(_)) => {
                let keyword = self.advance().span;
                self.extend(Dialect::Scylla, keyword);
                let term = self.term()?;
                Ok(self.related(subject, RelationOperator::Like, Comparand::One(term), start))
            }
            _ => self.comparison_with(subject, start, Self::term),
        }
    }

    /// Whether the token `ahead` goes on with a condition on the column before it.
    fn starts_condition_tail(&self, ahead: usize) -> bool {
        matches!(
            self.kind_at(ahead),
            TokenKind::Equal
                | TokenKind::NotEqual
                | TokenKind::Less
                | TokenKind::LessOrEqual
                | TokenKind::Greater
                | TokenKind::GreaterOrEqual
                | TokenKind::OpenBracket
                | TokenKind::Dot
                | TokenKind::Keyword(Keyword::In | Keyword::Contains)
        )
    }
}
