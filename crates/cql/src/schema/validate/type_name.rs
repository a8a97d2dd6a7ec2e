//! Which types may stand where (`CQL3Type.Raw`).

use super::{Validated, refused};
use crate::schema::data_type::DataType;
use crate::schema::error::{SchemaError, SchemaErrorKind};
use crate::schema::model::Keyspace;
use crate::syntax::Span;
use crate::syntax::ast::{NativeType, TypeName};

/// Refuses a type that no column of the keyspace can have; `place` is the column, the type has no place of its own.
pub(super) fn check(type_name: &TypeName<'_>, place: Span, keyspace: &Keyspace) -> Validated {
    Place {
        span: place,
        keyspace,
    }
    .check(type_name, false)
}

const fn is_counter(type_name: &TypeName<'_>) -> bool {
    matches!(type_name, TypeName::Native(NativeType::Counter))
}

const fn is_duration(type_name: &TypeName<'_>) -> bool {
    matches!(type_name, TypeName::Native(NativeType::Duration))
}

struct Place<'k> {
    span: Span,
    keyspace: &'k Keyspace,
}

impl Place<'_> {
    fn check(&self, type_name: &TypeName<'_>, is_frozen: bool) -> Validated {
        match type_name {
            TypeName::Native(_) | TypeName::Custom(_) => Ok(()),
            TypeName::List(element) | TypeName::Set(element) => {
                self.collection(type_name, None, element, is_frozen)
            }
            TypeName::Map(key, value) => self.collection(type_name, Some(key), value, is_frozen),
            TypeName::Tuple(components) => components.iter().try_for_each(|component| {
                if is_counter(component) {
                    return Err(self.refused("Counters are not allowed inside tuples"));
                }
                self.check(component, true)
            }),
            TypeName::Vector(element, dimension) => {
                if dimension.text.parse() == Ok(0) {
                    return Err(self.refused("vectors may only have positive dimensions; given 0"));
                }
                self.check(element, true)
            }
            TypeName::Frozen(inner) => self.check(inner, true),
            TypeName::UserDefined(name) => match &name.keyspace {
                Some(other) if other.as_str() != self.keyspace.name => Err(self.refused(format!(
                    "Statement on keyspace {} cannot refer to a user type in keyspace {other}; user types can only be used in \
                     the keyspace they are defined in",
                    self.keyspace.name
                ))),
                _ if self.keyspace.types.contains_key(name.name.as_str()) => Ok(()),
                _ => Err(SchemaError {
                    kind: SchemaErrorKind::TypeUnknown(name.name.as_str().to_owned()),
                    span: name.span(),
                }),
            },
        }
    }

    /// `RawCollection.prepare`
    fn collection(
        &self,
        whole: &TypeName<'_>,
        key: Option<&TypeName<'_>>,
        value: &TypeName<'_>,
        is_frozen: bool,
    ) -> Validated {
        let written = || {
            let data_type = DataType::of(whole);
            match is_frozen {
                true => format!("frozen<{data_type}>"),
                false => data_type.to_string(),
            }
        };
        if is_counter(value) || key.is_some_and(is_counter) {
            return Err(self.refused(format!(
                "Counters are not allowed inside collections: {}",
                written()
            )));
        }
        if is_duration(value) && matches!(whole, TypeName::Set(_)) {
            return Err(self.refused(format!("Durations are not allowed inside sets: {}", written())));
        }
        if key.is_some_and(is_duration) {
            return Err(self.refused(format!("Durations are not allowed as map keys: {}", written())));
        }
        let mut inner = key.into_iter().chain([value]);
        if let Some(nested) = inner
            .clone()
            .find(|inner| !is_frozen && DataType::of(inner).is_multi_cell())
        {
            let what = match nested {
                TypeName::UserDefined(_) => "UDTs",
                _ => "collections",
            };
            return Err(self.refused(format!(
                "Non-frozen {what} are not allowed inside collections: {}",
                written()
            )));
        }
        inner.try_for_each(|inner| self.check(inner, is_frozen))
    }

    fn refused(&self, message: impl Into<String>) -> SchemaError {
        refused(self.span, message)
    }
}

/// Refuses a type that no column of a primary key can have (`CreateTableStatement.validatePrimaryKeyColumn` and its like).
pub(super) fn check_key(name: &str, data_type: &DataType, place: Span, keyspace: &Keyspace) -> Validated {
    let not_supported = |what: &str| {
        refused(
            place,
            format!("{what} type is not supported for PRIMARY KEY column '{name}'"),
        )
    };
    if data_type.is_counter() {
        return Err(not_supported("counter"));
    }
    if has_duration(data_type, keyspace) {
        return Err(not_supported("duration"));
    }
    if data_type.is_multi_cell() {
        let what = match data_type {
            DataType::UserDefined(_) => "user-defined",
            _ => "collection",
        };
        return Err(refused(
            place,
            format!("Invalid non-frozen {what} type {data_type} for PRIMARY KEY column '{name}'"),
        ));
    }
    Ok(())
}

/// Whether durations occur in the type (`AbstractType.referencesDuration`).
pub(super) fn has_duration(data_type: &DataType, keyspace: &Keyspace) -> bool {
    /// No server accepts types nested so deeply.
    const DEPTH: usize = 32;
    fn within(data_type: &DataType, keyspace: &Keyspace, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match data_type {
            DataType::Native(native) => *native == NativeType::Duration,
            DataType::List(inner) | DataType::Set(inner) | DataType::Frozen(inner) => {
                within(inner, keyspace, depth)
            }
            DataType::Map(key, value) => within(key, keyspace, depth) || within(value, keyspace, depth),
            DataType::Tuple(components) => components
                .iter()
                .any(|component| within(component, keyspace, depth)),
            DataType::UserDefined(name) => keyspace.types.get(name).is_some_and(|user_type| {
                user_type
                    .fields
                    .iter()
                    .any(|(_, field)| within(field, keyspace, depth))
            }),
            // Not in those of vectors.
            DataType::Vector(..) | DataType::Custom(_) => false,
        }
    }
    within(data_type, keyspace, DEPTH)
}
