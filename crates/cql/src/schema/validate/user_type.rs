//! `CREATE` and `ALTER TYPE` (`CreateTypeStatement`, `AlterTypeStatement`).

use super::type_name::check;
use super::{Validated, refused, repeated};
use crate::schema::data_type::DataType;
use crate::schema::model::{Keyspace, Schema};
use crate::syntax::ast::{AlterType, CreateType, Name, NativeType, TypeChange, TypeName};

impl Schema {
    pub(super) fn validate_new_type(&self, create: &CreateType<'_>, current: Option<&str>) -> Validated {
        let name = create.name.name.as_str();
        let keyspace = self.known_keyspace(&create.name, current);
        if create.if_not_exists && keyspace.is_some_and(|keyspace| keyspace.types.contains_key(name)) {
            return Ok(());
        }
        if let Some(field) = repeated(create.fields.iter().map(|(field, _)| field)) {
            return Err(refused(
                field.span,
                format!("Duplicate field name '{field}' in type '{name}'"),
            ));
        }
        let Some(keyspace) = keyspace else {
            return Ok(());
        };
        create
            .fields
            .iter()
            .try_for_each(|(field, type_name)| check_field(field, type_name, keyspace))
    }

    pub(super) fn validate_altered_type(&self, alter: &AlterType<'_>, current: Option<&str>) -> Validated {
        let Some(keyspace) = self.known_keyspace(&alter.name, current) else {
            return Ok(());
        };
        let name = alter.name.name.as_str();
        let Some(user_type) = keyspace.types.get(name) else {
            return Ok(());
        };
        let has_field = |field: &Name<'_>| user_type.fields.iter().any(|(own, _)| own == field.as_str());
        match &alter.change {
            TypeChange::AlterField { field, .. } => {
                Err(refused(field.span, "Altering field types is no longer supported"))
            }
            TypeChange::Add {
                if_not_exists,
                field,
                type_name,
            } => {
                if *if_not_exists && has_field(field) {
                    return Ok(());
                }
                check_field(field, type_name, keyspace)?;
                check_circle(name, field, type_name, keyspace)?;
                check_partition_keys(name, field, type_name, keyspace)
            }
            TypeChange::Rename { renames, .. } => {
                // All at once: two fields may swap their names.
                let stays = |(to, from): &(&Name<'_>, &Name<'_>)| {
                    let is_renamed = renames.iter().any(|(other, _)| other.text == to.text);
                    has_field(from) && has_field(to) && !is_renamed
                };
                match renames.iter().map(|(from, to)| (to, from)).find(stays) {
                    Some((to, _)) => Err(refused(
                        to.span,
                        format!("Duplicate field name {to} in type {}.{name}", keyspace.name),
                    )),
                    None => Ok(()),
                }
            }
        }
    }
}

fn check_field(field: &Name<'_>, type_name: &TypeName<'_>, keyspace: &Keyspace) -> Validated {
    match type_name {
        TypeName::Native(NativeType::Counter) => {
            Err(refused(field.span, "A user type cannot contain counters"))
        }
        TypeName::UserDefined(_) => Err(refused(field.span, "A user type cannot contain non-frozen UDTs")),
        other => check(other, field.span, keyspace),
    }
}

/// A type does not contain itself.
fn check_circle(name: &str, field: &Name<'_>, type_name: &TypeName<'_>, keyspace: &Keyspace) -> Validated {
    let data_type = DataType::of(type_name);
    match mentions(&data_type, name, keyspace, keyspace.types.len()) {
        true => Err(refused(
            field.span,
            format!(
                "Cannot add new field {field} of type {data_type} to user type {}.{name} as it would create a circular reference",
                keyspace.name
            ),
        )),
        false => Ok(()),
    }
}

/// Whether the user-defined type `name` occurs in a type, or in a type that occurs in it.
fn mentions(data_type: &DataType, name: &str, keyspace: &Keyspace, depth: usize) -> bool {
    if data_type.mentions(name) {
        return true;
    }
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    let mut inner = Vec::new();
    data_type.for_each_name(&mut |name| inner.push(name.to_owned()));
    let mut fields = inner
        .iter()
        .filter_map(|inner| keyspace.types.get(inner))
        .flat_map(|inner| &inner.fields);
    fields.any(|(_, field)| mentions(field, name, keyspace, depth))
}

/// The bytes of partition keys stay what they are.
fn check_partition_keys(
    name: &str,
    field: &Name<'_>,
    type_name: &TypeName<'_>,
    keyspace: &Keyspace,
) -> Validated {
    let is_in_key = |table: &&crate::schema::model::Table| {
        let mut key = table.partition_key().iter();
        key.any(|column| mentions(&column.data_type, name, keyspace, keyspace.types.len()))
    };
    let tables: Vec<String> = keyspace
        .tables
        .values()
        .filter(is_in_key)
        .map(|table| format!("{}.{}", keyspace.name, table.name))
        .collect();
    match tables.is_empty() {
        true => Ok(()),
        false => Err(refused(
            field.span,
            format!(
                "Cannot add new field {field} of type {} to user type {}.{name} as the type is being used in partition key by the \
                 following tables: {}",
                DataType::of(type_name),
                keyspace.name,
                tables.join(", ")
            ),
        )),
    }
}
