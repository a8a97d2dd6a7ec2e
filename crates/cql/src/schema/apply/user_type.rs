//! `CREATE` and `ALTER TYPE`.

use super::found::{Result, absent, exists, field_of};
use crate::schema::data_type::DataType;
use crate::schema::error::SchemaErrorKind;
use crate::schema::model::{Schema, UserType};
use crate::syntax::ast::{AlterType, CreateType, TypeChange};

impl Schema {
    pub(super) fn create_type(&mut self, create: &CreateType<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = self.keyspace_of(&create.name, current)?;
        let name = create.name.name.as_str();
        if keyspace.types.contains_key(name) {
            return exists(create.if_not_exists, &create.name.name);
        }
        let fields = create.fields.iter();
        let fields = fields.map(|(field, type_name)| (field.as_str().to_owned(), DataType::of(type_name)));
        let user_type = UserType {
            name: name.to_owned(),
            fields: fields.collect(),
        };
        keyspace.types.insert(name.to_owned(), user_type);
        Ok(())
    }

    pub(super) fn alter_type(&mut self, alter: &AlterType<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = match self.keyspace_of(&alter.name, current) {
            Err(_) if alter.if_exists => return Ok(()),
            other => other?,
        };
        let Some(user_type) = keyspace.types.get_mut(alter.name.name.as_str()) else {
            return absent(alter.if_exists, &alter.name.name, SchemaErrorKind::TypeUnknown);
        };
        match &alter.change {
            TypeChange::AlterField { field, type_name } => {
                field_of(user_type, field)?.1 = DataType::of(type_name);
            }
            TypeChange::Add {
                if_not_exists,
                field,
                type_name,
            } => {
                if user_type.fields.iter().any(|(name, _)| name == field.as_str()) {
                    return exists(*if_not_exists, field);
                }
                user_type
                    .fields
                    .push((field.as_str().to_owned(), DataType::of(type_name)));
            }
            TypeChange::Rename { if_exists, renames } => {
                for (from, to) in renames {
                    match field_of(user_type, from) {
                        Ok(field) => to.as_str().clone_into(&mut field.0),
                        Err(_) if *if_exists => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }
}
