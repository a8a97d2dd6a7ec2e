//! `COMMENT ON` and `SECURITY LABEL ON` (Cassandra 6.0).

use crate::ServerVersion;
use crate::syntax::ast::{AnnotatedObject, Annotation, AnnotationKind, Dialect, Name, QualifiedName};
use crate::syntax::{Expected, Keyword, TokenKind};

use super::name::is_type_name;
use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // comment ::= COMMENT ON object IS (string | NULL)
    pub(super) fn comment_on(&mut self) -> Parsed<Annotation<'text>> {
        let start = self.peek().span;
        self.expect_word("COMMENT")?;
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), start);
        self.annotation(AnnotationKind::Comment, None)
    }

    // security_label ::= SECURITY LABEL (FOR name)? ON object IS (string | NULL)
    pub(super) fn security_label(&mut self) -> Parsed<Annotation<'text>> {
        let start = self.peek().span;
        self.expect_word("SECURITY")?;
        self.expect_word("LABEL")?;
        self.extend(Dialect::Cassandra(ServerVersion::V6_0), self.since(start));
        let provider = match self.accept_word("FOR") {
            true => Some(self.name()?),
            false => None,
        };
        self.annotation(AnnotationKind::SecurityLabel, provider)
    }

    fn annotation(
        &mut self,
        kind: AnnotationKind,
        provider: Option<Name<'text>>,
    ) -> Parsed<Annotation<'text>> {
        self.expect_keyword(Keyword::On)?;
        let object = self.annotated_object()?;
        self.expect_keyword(Keyword::Is)?;
        let text = match self.accept_keyword(Keyword::Null) {
            true => None,
            false => Some(self.string()?),
        };
        Ok(Annotation {
            kind,
            provider,
            object,
            text,
        })
    }

    // object ::= KEYSPACE name | TABLE table | COLUMN table '.' column | TYPE type | FIELD type '.' name
    fn annotated_object(&mut self) -> Parsed<AnnotatedObject<'text>> {
        if self.accept_keyword(Keyword::Keyspace) {
            return self.object_name().map(AnnotatedObject::Keyspace);
        }
        if self.accept_keyword(Keyword::Table) {
            return self.qualified_name().map(AnnotatedObject::Table);
        }
        if self.accept_keyword(Keyword::Type) {
            return self.user_type_name().map(AnnotatedObject::Type);
        }
        if self.accept_word("COLUMN") {
            let (table, column) = self.member(Self::object_name, Self::column)?;
            return Ok(AnnotatedObject::Column(table, column));
        }
        if !self.accept_word("FIELD") {
            return Err(self.unexpected());
        }
        let (user_type, field) = self.member(Self::type_or_keyspace, Self::name)?;
        Ok(AnnotatedObject::Field(user_type, field))
    }

    // member ::= (keyspace '.')? owner '.' member
    fn member(
        &mut self,
        owner: impl Fn(&mut Self) -> Parsed<Name<'text>>,
        member: impl FnOnce(&mut Self) -> Parsed<Name<'text>>,
    ) -> Parsed<(QualifiedName<'text>, Name<'text>)> {
        let is_qualified = self.kind_at(3) == TokenKind::Dot;
        let keyspace = match is_qualified {
            true => {
                let keyspace = self.object_name()?;
                self.expect(TokenKind::Dot)?;
                Some(keyspace)
            }
            false => None,
        };
        let name = owner(self)?;
        self.expect(TokenKind::Dot)?;
        Ok((QualifiedName { keyspace, name }, member(self)?))
    }

    fn type_or_keyspace(&mut self) -> Parsed<Name<'text>> {
        if is_type_name(self.kind()) {
            Ok(self.take_name())
        } else {
            Err(self.missing(Expected::Type))
        }
    }
}
