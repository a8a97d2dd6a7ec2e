//! `SELECT`.

use crate::ServerVersion;
use crate::syntax::ast::{Dialect, Direction, Ordering, Property, Select, Term, Using};
use crate::syntax::{Expected, Keyword, TokenKind};

use super::name::is_name;
use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // select ::= SELECT JSON? DISTINCT? selectors FROM table where_clause?
    //            (GROUP BY unaliased_selector (',' …)*)? (ORDER BY ordering (',' ordering)*)?
    //            (PER PARTITION LIMIT int_value)? (LIMIT int_value)? (ALLOW FILTERING)?
    //            with? (BYPASS CACHE)? (USING TIMEOUT timeout)?
    pub(super) fn select(&mut self) -> Parsed<Select<'text>> {
        self.expect_keyword(Keyword::Select)?;
        let json = self.accept_modifier(Keyword::Json);
        let distinct = self.accept_modifier(Keyword::Distinct);
        let selection = self.selection()?;
        self.expect_keyword(Keyword::From)?;
        Ok(Select {
            json,
            distinct,
            selection,
            table: self.qualified_name()?,
            where_clause: self.optional_where()?,
            group_by: self.optional_list(&[Keyword::Group, Keyword::By], Self::unaliased_selector)?,
            order_by: self.optional_list(&[Keyword::Order, Keyword::By], Self::ordering)?,
            per_partition_limit: self.optional_limit(&[Keyword::Per, Keyword::Partition, Keyword::Limit])?,
            limit: self.optional_limit(&[Keyword::Limit])?,
            allow_filtering: self.optional_allow_filtering()?,
            options: self.optional_options()?,
            bypass_cache: self.optional_bypass_cache()?,
            using: self.optional_using_timeout()?,
        })
    }

    /// Takes `JSON` or `DISTINCT` unless it is a column of that name, after which no selector can begin.
    ///
    /// `JSON -1` and `JSON [1]` select a value, as Cassandra has it.
    fn accept_modifier(&mut self, keyword: Keyword) -> bool {
        if !self.at_keyword(keyword) {
            return false;
        }
        let is_modifier = match self.kind_at(1) {
            TokenKind::Star | TokenKind::Minus => true,
            // `JSON AS AS x` selects the column `AS`, `JSON AS AS` the column `JSON`.
            TokenKind::Keyword(Keyword::As) if self.keyword_at(2, Keyword::As) => is_name(self.kind_at(3)),
            _ => self.starts_selectable(1),
        };
        is_modifier && self.accept_keyword(keyword)
    }

    fn optional_list<T>(
        &mut self,
        keywords: &[Keyword],
        item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        match keywords {
            [first, rest @ ..] if self.accept_keyword(*first) => {
                self.expect_keywords(rest)?;
                self.comma_separated(item)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn optional_limit(&mut self, keywords: &[Keyword]) -> Parsed<Option<Term<'text>>> {
        match keywords {
            [first, rest @ ..] if self.accept_keyword(*first) => {
                self.expect_keywords(rest)?;
                self.int_value().map(Some)
            }
            _ => Ok(None),
        }
    }

    // ordering ::= column (ANN OF term)? (ASC | DESC)?
    fn ordering(&mut self) -> Parsed<Ordering<'text>> {
        let start = self.peek().span;
        let column = self.column()?;
        let ann_of = if self.accept_keyword(Keyword::Ann) {
            self.expect_keyword(Keyword::Of)?;
            self.since_version(ServerVersion::V5_0, self.last_span());
            Some(self.term()?)
        } else {
            None
        };
        let direction = self.optional_direction().unwrap_or_default();
        Ok(Ordering {
            column,
            ann_of,
            direction,
            span: self.since(start),
        })
    }

    // direction ::= ASC | DESC
    pub(super) fn optional_direction(&mut self) -> Option<Direction> {
        if self.accept_keyword(Keyword::Asc) {
            return Some(Direction::Ascending);
        }
        self.accept_keyword(Keyword::Desc)
            .then_some(Direction::Descending)
    }

    fn optional_allow_filtering(&mut self) -> Parsed<bool> {
        if !self.accept_keyword(Keyword::Allow) {
            return Ok(false);
        }
        self.expect_keyword(Keyword::Filtering)?;
        Ok(true)
    }

    /// `WITH`, which up to Cassandra 5.0 no `SELECT` has.
    fn optional_options(&mut self) -> Parsed<Vec<Property<'text>>> {
        let keyword = self.peek().span;
        if !self.at_keyword(Keyword::With) {
            self.expecting(Expected::Keyword(Keyword::With));
            return Ok(Vec::new());
        }
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), keyword);
        self.with_properties()
    }

    fn optional_bypass_cache(&mut self) -> Parsed<bool> {
        let start = self.peek().span;
        if !self.accept_word("BYPASS") {
            return Ok(false);
        }
        self.expect_word("CACHE")?;
        self.extend(Dialect::Scylla, self.since(start));
        Ok(true)
    }

    // using_timeout ::= USING TIMEOUT timeout
    pub(super) fn optional_using_timeout(&mut self) -> Parsed<Using<'text>> {
        let mut using = Using::default();
        if self.accept_keyword(Keyword::Using) {
            self.timeout(&mut using)?;
        }
        Ok(using)
    }
}
