//! CQL types as written: native types, collections, tuples, vectors, user-defined and custom ones.

use super::{Literal, QualifiedName};

/// A type in a column definition, cast, type hint or function signature.
#[derive(Debug, Clone, PartialEq)]
pub enum TypeName<'text> {
    /// `int`, `text`, …
    Native(NativeType),
    /// `list<element>`.
    List(Box<TypeName<'text>>),
    /// `set<element>`.
    Set(Box<TypeName<'text>>),
    /// `map<key, value>`.
    Map(Box<TypeName<'text>>, Box<TypeName<'text>>),
    /// `tuple<component, …>`.
    Tuple(Vec<TypeName<'text>>),
    /// `vector<element, dimension>`; the dimension as written: an integer literal of any size.
    Vector(Box<TypeName<'text>>, Literal<'text>),
    /// `frozen<type>`.
    Frozen(Box<TypeName<'text>>),
    /// A user-defined type.
    UserDefined(QualifiedName<'text>),
    /// `'java.class.Name'`, a string literal.
    Custom(Literal<'text>),
}

/// The types that need no definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the CQL type of that name")]
pub enum NativeType {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    Smallint,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    Varchar,
    Varint,
}

impl NativeType {
    /// The type's name in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ascii => "ascii",
            Self::Bigint => "bigint",
            Self::Blob => "blob",
            Self::Boolean => "boolean",
            Self::Counter => "counter",
            Self::Date => "date",
            Self::Decimal => "decimal",
            Self::Double => "double",
            Self::Duration => "duration",
            Self::Float => "float",
            Self::Inet => "inet",
            Self::Int => "int",
            Self::Smallint => "smallint",
            Self::Text => "text",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::Timeuuid => "timeuuid",
            Self::Tinyint => "tinyint",
            Self::Uuid => "uuid",
            Self::Varchar => "varchar",
            Self::Varint => "varint",
        }
    }
}
