//! `CREATE TABLE` and `ALTER TABLE`.

use crate::ServerVersion;
use crate::syntax::ast::{
    AlterTable, Body, ColumnDefinition, CopyTable, CreateTable, Dialect, Direction, Literal, LiteralKind,
    Mask, Name, Property, QualifiedName, TableChange,
};
use crate::syntax::{Keyword, ParseErrorKind, TokenKind};

use super::parser::{Parsed, Parser};
use super::property::refuse_duplicates;

/// The columns of a primary key.
#[derive(Default)]
pub(super) struct PrimaryKey<'text> {
    pub(super) partition_key: Vec<Name<'text>>,
    pub(super) clustering: Vec<Name<'text>>,
}

/// What follows `WITH` in the definition of a table or a view.
#[derive(Default)]
pub(super) struct TableProperties<'text> {
    pub(super) clustering_order: Vec<(Name<'text>, Direction)>,
    pub(super) compact_storage: bool,
    pub(super) options: Vec<Property<'text>>,
}

impl<'text> Parser<'text, '_> {
    // create_table ::= CREATE TABLE (IF NOT EXISTS)? table
    //                  '(' table_item (',' table_item?)* ')' (WITH table_property (AND table_property)*)?
    pub(super) fn create_table(&mut self) -> Parsed<Body<'text>> {
        let if_not_exists = self.optional_if_not_exists()?;
        let table = self.qualified_name()?;
        if self.at_keyword(Keyword::Like) {
            return self.copy_table(if_not_exists, table).map(Body::CopyTable);
        }
        let mut columns = Vec::new();
        let mut key = None;
        self.expect(TokenKind::OpenParenthesis)?;
        self.table_item(&mut columns, &mut key)?;
        while self.accept(TokenKind::Comma).is_some() {
            if !matches!(self.kind(), TokenKind::Comma | TokenKind::CloseParenthesis) {
                self.table_item(&mut columns, &mut key)?;
            }
        }
        self.expect(TokenKind::CloseParenthesis)?;
        let properties = self.optional_table_properties()?;
        refuse_duplicates(columns.iter().map(|column| &column.name))?;
        let key = key.unwrap_or_default();
        Ok(Body::CreateTable(CreateTable {
            if_not_exists,
            table,
            columns,
            partition_key: key.partition_key,
            clustering: key.clustering,
            clustering_order: properties.clustering_order,
            compact_storage: properties.compact_storage,
            options: properties.options,
        }))
    }

    // copy_table ::= CREATE TABLE (IF NOT EXISTS)? table LIKE table (WITH copied (AND copied)*)?
    // copied     ::= INDEXES | COMMENTS | SECURITY LABELS | property
    fn copy_table(&mut self, if_not_exists: bool, table: QualifiedName<'text>) -> Parsed<CopyTable<'text>> {
        let keyword = self.peek().span;
        self.expect_keyword(Keyword::Like)?;
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), keyword);
        let mut copy = CopyTable {
            if_not_exists,
            table,
            source: self.qualified_name()?,
            indexes: false,
            comments: false,
            security_labels: false,
            options: Vec::new(),
        };
        if !self.accept_keyword(Keyword::With) {
            return Ok(copy);
        }
        loop {
            // Before `=`, all of them are properties of that name.
            if self.kind_at(1) == TokenKind::Equal {
                copy.options.push(self.property()?);
            } else if self.accept_word("INDEXES") {
                copy.indexes = true;
            } else if self.accept_word("COMMENTS") {
                copy.comments = true;
            } else if self.accept_word("SECURITY") {
                self.expect_word("LABELS")?;
                copy.security_labels = true;
            } else {
                copy.options.push(self.property()?);
            }
            if !self.accept_keyword(Keyword::And) {
                refuse_duplicates(copy.options.iter().map(|property| &property.name))?;
                return Ok(copy);
            }
        }
    }

    // table_item ::= name type STATIC? not_null? mask? checks? (PRIMARY KEY)? | PRIMARY KEY primary_key
    fn table_item(
        &mut self,
        columns: &mut Vec<ColumnDefinition<'text>>,
        key: &mut Option<PrimaryKey<'text>>,
    ) -> Parsed<()> {
        let start = self.peek().span;
        let found = if self.accept_keywords(&[Keyword::Primary, Keyword::Key]) {
            self.primary_key()?
        } else {
            let column = self.column_definition(true)?;
            let name = column.name.clone();
            columns.push(column);
            if !self.accept_keyword(Keyword::Primary) {
                return Ok(());
            }
            self.expect_keyword(Keyword::Key)?;
            PrimaryKey {
                partition_key: vec![name],
                clustering: Vec::new(),
            }
        };
        if key.replace(found).is_some() {
            return Err(Self::refused(ParseErrorKind::Duplicate, self.since(start)));
        }
        Ok(())
    }

    // column_definition ::= name type STATIC? not_null? mask? checks?      NOT NULL only where a table is created
    fn column_definition(&mut self, of_new_table: bool) -> Parsed<ColumnDefinition<'text>> {
        let name = self.name()?;
        let type_name = self.type_name()?;
        let is_static = self.accept_keyword(Keyword::Static);
        let not_null = of_new_table && self.optional_not_null()?;
        let mask = self.optional_mask()?;
        let checks = self.optional_checks()?;
        Ok(ColumnDefinition {
            name,
            type_name,
            is_static,
            not_null,
            mask,
            checks,
        })
    }

    // mask ::= MASKED WITH (DEFAULT | function_name '(' (term (',' term)*)? ')')
    fn optional_mask(&mut self) -> Parsed<Option<Mask<'text>>> {
        let start = self.peek().span;
        if !self.accept_keyword(Keyword::Masked) {
            return Ok(None);
        }
        self.expect_keyword(Keyword::With)?;
        self.since_version(ServerVersion::V5_0, start);
        let next_is_call = matches!(self.kind_at(1), TokenKind::OpenParenthesis | TokenKind::Dot);
        if !next_is_call && self.accept_keyword(Keyword::Default) {
            return Ok(Some(Mask::Default));
        }
        let name = self.function_name()?;
        self.expect(TokenKind::OpenParenthesis)?;
        let arguments = self.terms_until(TokenKind::CloseParenthesis)?;
        Ok(Some(Mask::Function { name, arguments }))
    }

    // primary_key ::= '(' partition_key (',' name)* ')'
    // partition_key ::= name | '(' name (',' name)* ')'
    pub(super) fn primary_key(&mut self) -> Parsed<PrimaryKey<'text>> {
        self.expect(TokenKind::OpenParenthesis)?;
        let partition_key = if self.kind() == TokenKind::OpenParenthesis {
            self.names_in_parentheses()?
        } else {
            vec![self.name()?]
        };
        let mut clustering = Vec::new();
        while self.accept(TokenKind::Comma).is_some() {
            clustering.push(self.name()?);
        }
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(PrimaryKey {
            partition_key,
            clustering,
        })
    }

    // names ::= '(' name (',' name)* ')'
    fn names_in_parentheses(&mut self) -> Parsed<Vec<Name<'text>>> {
        self.expect(TokenKind::OpenParenthesis)?;
        let names = self.comma_separated(Self::name)?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(names)
    }

    // table_property ::= property | COMPACT STORAGE | CLUSTERING ORDER BY '(' clustering_order (',' …)* ')'
    pub(super) fn optional_table_properties(&mut self) -> Parsed<TableProperties<'text>> {
        let mut properties = TableProperties::default();
        if !self.accept_keyword(Keyword::With) {
            return Ok(properties);
        }
        loop {
            if self.accept_keywords(&[Keyword::Compact, Keyword::Storage]) {
                properties.compact_storage = true;
            } else if self.accept_keywords(&[Keyword::Clustering, Keyword::Order, Keyword::By]) {
                self.expect(TokenKind::OpenParenthesis)?;
                properties
                    .clustering_order
                    .extend(self.comma_separated(Self::clustering_order)?);
                self.expect(TokenKind::CloseParenthesis)?;
            } else {
                properties.options.push(self.property()?);
            }
            if !self.accept_keyword(Keyword::And) {
                refuse_duplicates(properties.options.iter().map(|property| &property.name))?;
                refuse_duplicates(properties.clustering_order.iter().map(|(name, _)| name))?;
                return Ok(properties);
            }
        }
    }

    // clustering_order ::= name (ASC | DESC)
    fn clustering_order(&mut self) -> Parsed<(Name<'text>, Direction)> {
        let name = self.name()?;
        match self.optional_direction() {
            Some(direction) => Ok((name, direction)),
            None => Err(self.unexpected()),
        }
    }

    // alter_table ::= ALTER TABLE (IF EXISTS)? table table_change
    pub(super) fn alter_table(&mut self) -> Parsed<AlterTable<'text>> {
        let if_exists = self.optional_if_exists_of_alter()?;
        let table = self.qualified_name()?;
        let change = self.table_change()?;
        Ok(AlterTable {
            if_exists,
            table,
            change,
        })
    }

    // table_change ::= ALTER … | ADD … | DROP … | RENAME … | WITH properties
    fn table_change(&mut self) -> Parsed<TableChange<'text>> {
        if self.accept_keyword(Keyword::Alter) {
            self.alter_column()
        } else if self.accept_keyword(Keyword::Add) {
            self.add_columns()
        } else if self.accept_keyword(Keyword::Drop) {
            self.drop_columns()
        } else if self.accept_keyword(Keyword::Rename) {
            let (if_exists, renames) = self.renames()?;
            Ok(TableChange::Rename { if_exists, renames })
        } else {
            self.with_properties().map(TableChange::With)
        }
    }

    // alter ::= ALTER column TYPE type | ALTER (IF EXISTS)? column (mask | checks | DROP MASKED | DROP CHECK)
    fn alter_column(&mut self) -> Parsed<TableChange<'text>> {
        let if_exists = self.optional_if_exists_of_alter()?;
        let column = self.column()?;
        if !if_exists && self.accept_keyword(Keyword::Type) {
            return Ok(TableChange::AlterType {
                column,
                type_name: self.type_name()?,
            });
        }
        let checks = self.optional_checks()?;
        let start = self.peek().span;
        let drops_check = checks.is_empty() && self.keyword_at(0, Keyword::Drop) && self.word_at(1, "CHECK");
        if drops_check {
            self.advance();
            self.advance();
            self.extend(Dialect::Cassandra(ServerVersion::V6_0), self.since(start));
        }
        if drops_check || !checks.is_empty() {
            return Ok(TableChange::AlterChecks {
                if_exists,
                column,
                checks,
            });
        }
        if self.accept_keyword(Keyword::Drop) {
            self.expect_keyword(Keyword::Masked)?;
            return Ok(TableChange::AlterMask {
                if_exists,
                column,
                mask: None,
            });
        }
        match self.optional_mask()? {
            mask @ Some(_) => Ok(TableChange::AlterMask {
                if_exists,
                column,
                mask,
            }),
            None => Err(self.unexpected()),
        }
    }

    // add ::= ADD (IF NOT EXISTS)? (column_definition | '(' column_definition (',' column_definition)* ')')
    fn add_columns(&mut self) -> Parsed<TableChange<'text>> {
        let if_not_exists = self.optional_if_not_exists_of_alter()?;
        let columns = if self.accept(TokenKind::OpenParenthesis).is_some() {
            let columns = self.comma_separated(|parser| parser.column_definition(false))?;
            self.expect(TokenKind::CloseParenthesis)?;
            columns
        } else {
            vec![self.column_definition(false)?]
        };
        Ok(TableChange::Add {
            if_not_exists,
            columns,
        })
    }

    // drop ::= DROP COMPACT STORAGE | DROP (IF EXISTS)? (name | names) (USING TIMESTAMP integer)?
    fn drop_columns(&mut self) -> Parsed<TableChange<'text>> {
        if self.accept_keywords(&[Keyword::Compact, Keyword::Storage]) {
            return Ok(TableChange::DropCompactStorage);
        }
        let if_exists = self.optional_if_exists_of_alter()?;
        let columns = if self.kind() == TokenKind::OpenParenthesis {
            self.names_in_parentheses()?
        } else {
            vec![self.name()?]
        };
        let mut timestamp = None;
        if self.accept_keyword(Keyword::Using) {
            self.expect_keyword(Keyword::Timestamp)?;
            timestamp = Some(self.fixed_timestamp()?);
        }
        Ok(TableChange::Drop {
            if_exists,
            columns,
            timestamp,
        })
    }

    /// Cassandra reads this timestamp as a 64-bit number while it parses.
    fn fixed_timestamp(&mut self) -> Parsed<Literal<'text>> {
        let token = self.expect(TokenKind::Integer)?;
        let text = self.text_of(token);
        if text.parse::<i64>().is_err() {
            return Err(Self::refused(ParseErrorKind::ValueNotAllowed, token.span));
        }
        Ok(Literal {
            kind: LiteralKind::Integer,
            text,
            span: token.span,
        })
    }

    // renames ::= (IF EXISTS)? name TO name (AND name TO name)*
    pub(super) fn renames(&mut self) -> Parsed<(bool, Vec<(Name<'text>, Name<'text>)>)> {
        let if_exists = self.optional_if_exists_of_alter()?;
        let renames = self.and_separated(|parser| {
            let from = parser.name()?;
            parser.expect_keyword(Keyword::To)?;
            Ok((from, parser.name()?))
        })?;
        Ok((if_exists, renames))
    }

    // if_exists ::= IF EXISTS      of `ALTER`, and of the columns and fields that it names
    pub(super) fn optional_if_exists_of_alter(&mut self) -> Parsed<bool> {
        let start = self.peek().span;
        let if_exists = self.optional_if_exists()?;
        if if_exists {
            self.since_version(ServerVersion::V4_1, start);
        }
        Ok(if_exists)
    }

    // if_not_exists ::= IF NOT EXISTS      of what `ALTER` adds
    pub(super) fn optional_if_not_exists_of_alter(&mut self) -> Parsed<bool> {
        let start = self.peek().span;
        let if_not_exists = self.optional_if_not_exists()?;
        if if_not_exists {
            self.since_version(ServerVersion::V4_1, start);
        }
        Ok(if_not_exists)
    }

    // if_exists ::= IF EXISTS
    pub(super) fn optional_if_exists(&mut self) -> Parsed<bool> {
        if !self.accept_keyword(Keyword::If) {
            return Ok(false);
        }
        self.expect_keyword(Keyword::Exists)?;
        Ok(true)
    }
}
