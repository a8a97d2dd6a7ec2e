//! `COMMENT ON` and `SECURITY LABEL ON`: what is said about an object of the schema.

use super::{Kind, Literal, Name, QualifiedName};

/// `COMMENT ON object IS 'text'` or `SECURITY LABEL [FOR provider] ON object IS 'text'` (Cassandra 6.0).
#[derive(Debug, Clone, PartialEq)]
pub struct Annotation<'text> {
    /// Which of the two.
    pub kind: AnnotationKind,
    /// `FOR provider`.
    pub provider: Option<Name<'text>>,
    /// About what.
    pub object: AnnotatedObject<'text>,
    /// A string literal; none for `NULL`, which takes the annotation away.
    pub text: Option<Literal<'text>>,
}

/// Which annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnnotationKind {
    /// `COMMENT`
    Comment,
    /// `SECURITY LABEL`
    SecurityLabel,
}

/// What an annotation is about.
#[derive(Debug, Clone, PartialEq)]
pub enum AnnotatedObject<'text> {
    /// `KEYSPACE name`
    Keyspace(Name<'text>),
    /// `TABLE name`
    Table(QualifiedName<'text>),
    /// `COLUMN table.column`
    Column(QualifiedName<'text>, Name<'text>),
    /// `TYPE name`
    Type(QualifiedName<'text>),
    /// `FIELD type.field`
    Field(QualifiedName<'text>, Name<'text>),
}

impl Annotation<'_> {
    /// The kind of the statement.
    #[must_use]
    pub const fn statement_kind(&self) -> Kind {
        match (self.kind, &self.object) {
            (AnnotationKind::Comment, AnnotatedObject::Keyspace(_)) => Kind::CommentOnKeyspace,
            (AnnotationKind::Comment, AnnotatedObject::Table(_)) => Kind::CommentOnTable,
            (AnnotationKind::Comment, AnnotatedObject::Column(..)) => Kind::CommentOnColumn,
            (AnnotationKind::Comment, AnnotatedObject::Type(_)) => Kind::CommentOnUserType,
            (AnnotationKind::Comment, AnnotatedObject::Field(..)) => Kind::CommentOnUserTypeField,
            (AnnotationKind::SecurityLabel, AnnotatedObject::Keyspace(_)) => Kind::SecurityLabelOnKeyspace,
            (AnnotationKind::SecurityLabel, AnnotatedObject::Table(_)) => Kind::SecurityLabelOnTable,
            (AnnotationKind::SecurityLabel, AnnotatedObject::Column(..)) => Kind::SecurityLabelOnColumn,
            (AnnotationKind::SecurityLabel, AnnotatedObject::Type(_)) => Kind::SecurityLabelOnUserType,
            (AnnotationKind::SecurityLabel, AnnotatedObject::Field(..)) => Kind::SecurityLabelOnUserTypeField,
        }
    }
}
