//! Keyspaces, types, indexes, materialized views, and the dropping of all of them.

use crate::syntax::ast::{
    AlterKeyspace, AlterType, AlterView, CreateIndex, CreateKeyspace, CreateType, CreateView, Drop, Dropped,
    IndexTargetDefinition, IndexTargetKind, Literal, LiteralKind, Name, QualifiedName, TypeChange, TypeName,
    Use, Where,
};
use crate::syntax::{Keyword, ParseErrorKind, TokenKind};

use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // use ::= USE keyspace
    pub(super) fn use_keyspace(&mut self) -> Parsed<Use<'text>> {
        self.expect_keyword(Keyword::Use)?;
        Ok(Use {
            keyspace: self.object_name()?,
        })
    }

    // create_keyspace ::= CREATE KEYSPACE (IF NOT EXISTS)? keyspace with?
    pub(super) fn create_keyspace(&mut self) -> Parsed<CreateKeyspace<'text>> {
        let if_not_exists = self.optional_if_not_exists()?;
        let name = self.object_name()?;
        Ok(CreateKeyspace {
            if_not_exists,
            options: self.properties_of_new_keyspace(name.span)?,
            name,
        })
    }

    // alter_keyspace ::= ALTER KEYSPACE (IF EXISTS)? keyspace with
    pub(super) fn alter_keyspace(&mut self) -> Parsed<AlterKeyspace<'text>> {
        let if_exists = self.optional_if_exists_of_alter()?;
        let name = self.object_name()?;
        Ok(AlterKeyspace {
            if_exists,
            name,
            options: self.with_properties()?,
        })
    }

    // create_type ::= CREATE TYPE (IF NOT EXISTS)? type_name '(' field (',' field?)* ')'
    pub(super) fn create_type(&mut self) -> Parsed<CreateType<'text>> {
        let if_not_exists = self.optional_if_not_exists()?;
        let name = self.user_type_name()?;
        self.expect(TokenKind::OpenParenthesis)?;
        let mut fields = vec![self.field()?];
        while self.accept(TokenKind::Comma).is_some() {
            if !matches!(self.kind(), TokenKind::Comma | TokenKind::CloseParenthesis) {
                fields.push(self.field()?);
            }
        }
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(CreateType {
            if_not_exists,
            name,
            fields,
        })
    }

    // field ::= name type
    fn field(&mut self) -> Parsed<(Name<'text>, TypeName<'text>)> {
        let name = self.name()?;
        Ok((name, self.type_name()?))
    }

    // alter_type ::= ALTER TYPE (IF EXISTS)? type_name
    //                (ALTER name TYPE type | ADD (IF NOT EXISTS)? field | RENAME renames)
    pub(super) fn alter_type(&mut self) -> Parsed<AlterType<'text>> {
        let if_exists = self.optional_if_exists_of_alter()?;
        let name = self.user_type_name()?;
        let change = if self.accept_keyword(Keyword::Alter) {
            let field = self.name()?;
            self.expect_keyword(Keyword::Type)?;
            TypeChange::AlterField {
                field,
                type_name: self.type_name()?,
            }
        } else if self.accept_keyword(Keyword::Add) {
            let if_not_exists = self.optional_if_not_exists_of_alter()?;
            let (field, type_name) = self.field()?;
            TypeChange::Add {
                if_not_exists,
                field,
                type_name,
            }
        } else {
            self.expect_keyword(Keyword::Rename)?;
            let (if_exists, renames) = self.renames()?;
            TypeChange::Rename { if_exists, renames }
        };
        Ok(AlterType {
            if_exists,
            name,
            change,
        })
    }

    // create_index ::= CREATE CUSTOM? INDEX (IF NOT EXISTS)? name? ON table '(' (target (',' target)*)? ')'
    //                  (USING string)? with?
    pub(super) fn create_index(&mut self, custom: bool) -> Parsed<CreateIndex<'text>> {
        let if_not_exists = self.optional_if_not_exists()?;
        let name = if self.at_keyword(Keyword::On) {
            None
        } else {
            Some(self.object_name()?)
        };
        self.expect_keyword(Keyword::On)?;
        let table = self.qualified_name()?;
        self.expect(TokenKind::OpenParenthesis)?;
        let partition_key = self.optional_partition_of_index()?;
        let mut targets = Vec::new();
        if self.accept(TokenKind::CloseParenthesis).is_none() {
            targets = self.comma_separated(Self::index_target)?;
            self.expect(TokenKind::CloseParenthesis)?;
        }
        let using = if self.accept_keyword(Keyword::Using) {
            Some(self.string()?)
        } else {
            None
        };
        let options = if self.at_keyword(Keyword::With) {
            self.with_properties()?
        } else {
            Vec::new()
        };
        Ok(CreateIndex {
            custom,
            if_not_exists,
            name,
            table,
            partition_key,
            targets,
            using,
            options,
        })
    }

    // target ::= column | (VALUES | KEYS | ENTRIES | FULL) '(' column ')'
    fn index_target(&mut self) -> Parsed<IndexTargetDefinition<'text>> {
        let kind = match self.kind() {
            _ if self.kind_at(1) != TokenKind::OpenParenthesis => IndexTargetKind::Simple,
            TokenKind::Keyword(Keyword::Values) => IndexTargetKind::Values,
            TokenKind::Keyword(Keyword::Keys) => IndexTargetKind::Keys,
            TokenKind::Keyword(Keyword::Entries) => IndexTargetKind::Entries,
            TokenKind::Keyword(Keyword::Full) => IndexTargetKind::Full,
            _ => IndexTargetKind::Simple,
        };
        if kind == IndexTargetKind::Simple {
            return Ok(IndexTargetDefinition {
                column: self.column()?,
                kind,
            });
        }
        self.advance();
        self.expect(TokenKind::OpenParenthesis)?;
        let column = self.column()?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(IndexTargetDefinition { column, kind })
    }

    /// A string literal.
    pub(super) fn string(&mut self) -> Parsed<Literal<'text>> {
        let token = self.expect(TokenKind::String)?;
        Ok(Literal {
            kind: LiteralKind::String,
            text: self.text_of(token),
            span: token.span,
        })
    }

    // create_view ::= CREATE MATERIALIZED VIEW (IF NOT EXISTS)? table AS SELECT selectors FROM table
    // where_clause?
    //                 PRIMARY KEY primary_key (WITH table_property (AND table_property)*)?
    pub(super) fn create_view(&mut self) -> Parsed<CreateView<'text>> {
        let if_not_exists = self.optional_if_not_exists()?;
        let view = self.qualified_name()?;
        self.expect_keywords(&[Keyword::As, Keyword::Select])?;
        let selection = self.selection()?;
        self.expect_keyword(Keyword::From)?;
        let base = self.qualified_name()?;
        let where_clause: Where<'text> = self.optional_where()?;
        self.expect_keywords(&[Keyword::Primary, Keyword::Key])?;
        let key = self.primary_key()?;
        let start = self.peek().span;
        let properties = self.optional_table_properties()?;
        if properties.compact_storage {
            return Err(Self::refused(ParseErrorKind::ValueNotAllowed, self.since(start)));
        }
        Ok(CreateView {
            if_not_exists,
            view,
            selection,
            base,
            where_clause,
            partition_key: key.partition_key,
            clustering: key.clustering,
            clustering_order: properties.clustering_order,
            options: properties.options,
        })
    }

    // alter_view ::= ALTER MATERIALIZED VIEW (IF EXISTS)? table with
    pub(super) fn alter_view(&mut self) -> Parsed<AlterView<'text>> {
        let if_exists = self.optional_if_exists_of_alter()?;
        let view = self.qualified_name()?;
        Ok(AlterView {
            if_exists,
            view,
            options: self.with_properties()?,
        })
    }

    // drop ::= DROP (KEYSPACE | TABLE | TYPE | INDEX | MATERIALIZED VIEW) (IF EXISTS)? name
    pub(super) fn drop_schema(&mut self, dropped: Dropped) -> Parsed<Drop<'text>> {
        let if_exists = self.optional_if_exists()?;
        let name = match dropped {
            Dropped::Keyspace => QualifiedName {
                keyspace: None,
                name: self.object_name()?,
            },
            Dropped::Type => self.user_type_name()?,
            Dropped::Table | Dropped::Index | Dropped::View => self.qualified_name()?,
        };
        Ok(Drop {
            dropped,
            if_exists,
            name,
        })
    }
}
