//! Types as a schema defines them: with `frozen`, and with user-defined types by name.

use std::fmt;

use crate::syntax::ast::{NativeType, TypeName};

use super::quote::quote;

/// A type as a column or field is defined with it.
///
/// User-defined types are named, not resolved: altering one alters all columns of that type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DataType {
    /// `int`, `text`, ...
    Native(NativeType),
    /// `list<element>`.
    List(Box<DataType>),
    /// `set<element>`.
    Set(Box<DataType>),
    /// `map<key, value>`.
    Map(Box<DataType>, Box<DataType>),
    /// `tuple<component, ...>`, always frozen.
    Tuple(Vec<DataType>),
    /// `vector<element, dimension>`, always frozen.
    Vector(Box<DataType>, u32),
    /// `frozen<collection or user-defined type>`.
    Frozen(Box<DataType>),
    /// A user-defined type of the column's own keyspace, unquoted.
    UserDefined(String),
    /// A type that only the server knows, by its Java class.
    Custom(String),
}

impl DataType {
    /// The type that a definition writes; `varchar` is `text`, and `frozen` stays only where it says
    /// something.
    pub fn of(type_name: &TypeName<'_>) -> Self {
        let boxed = |inner: &TypeName<'_>| Box::new(Self::of(inner));
        match type_name {
            TypeName::Native(NativeType::Varchar) => Self::Native(NativeType::Text),
            TypeName::Native(native) => Self::Native(*native),
            TypeName::List(element) => Self::List(boxed(element)),
            TypeName::Set(element) => Self::Set(boxed(element)),
            TypeName::Map(key, value) => Self::Map(boxed(key), boxed(value)),
            TypeName::Tuple(components) => Self::Tuple(components.iter().map(Self::of).collect()),
            TypeName::Vector(element, dimension) => {
                Self::Vector(boxed(element), dimension.text.parse().unwrap_or(0))
            }
            TypeName::Frozen(inner) => match Self::of(inner) {
                frozen @ (Self::List(_) | Self::Set(_) | Self::Map(..) | Self::UserDefined(_)) => {
                    Self::Frozen(Box::new(frozen))
                }
                other => other,
            },
            TypeName::UserDefined(name) => Self::UserDefined(name.name.as_str().to_owned()),
            TypeName::Custom(class) => Self::Custom(class.decoded().into_owned()),
        }
    }

    /// The type without the `frozen` around it.
    pub(crate) fn thawed(&self) -> &Self {
        match self {
            Self::Frozen(inner) => inner,
            other => other,
        }
    }

    /// Whether it is `counter`.
    pub fn is_counter(&self) -> bool {
        *self == Self::Native(NativeType::Counter)
    }

    /// Whether it is a list, set or map, frozen or not.
    pub fn is_collection(&self) -> bool {
        matches!(self.thawed(), Self::List(_) | Self::Set(_) | Self::Map(..))
    }

    /// Whether a value is stored as several cells: a collection or user-defined type that is not frozen.
    pub fn is_multi_cell(&self) -> bool {
        matches!(
            self,
            Self::List(_) | Self::Set(_) | Self::Map(..) | Self::UserDefined(_)
        )
    }

    /// Whether the user-defined type `name` occurs in it.
    pub fn mentions(&self, name: &str) -> bool {
        match self {
            Self::Native(_) | Self::Custom(_) => false,
            Self::UserDefined(other) => other == name,
            Self::List(inner) | Self::Set(inner) | Self::Vector(inner, _) | Self::Frozen(inner) => {
                inner.mentions(name)
            }
            Self::Map(key, value) => key.mentions(name) || value.mentions(name),
            Self::Tuple(components) => components.iter().any(|component| component.mentions(name)),
        }
    }

    /// Gives the name of each user-defined type that occurs in it.
    pub fn for_each_name<'t>(&'t self, each: &mut dyn FnMut(&'t str)) {
        match self {
            Self::Native(_) | Self::Custom(_) => {}
            Self::UserDefined(name) => each(name),
            Self::List(inner) | Self::Set(inner) | Self::Vector(inner, _) | Self::Frozen(inner) => {
                inner.for_each_name(each);
            }
            Self::Map(key, value) => {
                key.for_each_name(each);
                value.for_each_name(each);
            }
            Self::Tuple(components) => components
                .iter()
                .for_each(|component| component.for_each_name(each)),
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(native) => formatter.write_str(native.as_str()),
            Self::List(element) => write!(formatter, "list<{element}>"),
            Self::Set(element) => write!(formatter, "set<{element}>"),
            Self::Map(key, value) => write!(formatter, "map<{key}, {value}>"),
            Self::Tuple(components) => {
                let components: Vec<String> = components.iter().map(ToString::to_string).collect();
                write!(formatter, "tuple<{}>", components.join(", "))
            }
            Self::Vector(element, dimension) => write!(formatter, "vector<{element}, {dimension}>"),
            Self::Frozen(inner) => write!(formatter, "frozen<{inner}>"),
            Self::UserDefined(name) => formatter.write_str(&quote(name)),
            Self::Custom(class) => write!(formatter, "'{}'", class.replace('\'', "''")),
        }
    }
}
