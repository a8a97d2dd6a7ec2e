//! Properties of keyspaces and tables.

use std::collections::BTreeMap;

use crate::schema::model::{Keyspace, OptionValue, Table};
use crate::syntax::ast::{Literal, LiteralKind, Property, PropertyValue};

pub(super) fn set_keyspace_options(keyspace: &mut Keyspace, options: &[Property<'_>]) {
    for property in options {
        match (property.name.as_str(), option_value(&property.value)) {
            ("replication", OptionValue::Map(map)) => keyspace.replication = map,
            ("durable_writes", OptionValue::Plain(word) | OptionValue::Text(word)) => {
                keyspace.durable_writes = !word.eq_ignore_ascii_case("false");
            }
            ("tablets", OptionValue::Map(map)) => {
                keyspace.tablets = map
                    .get("enabled")
                    .is_none_or(|enabled| enabled.eq_ignore_ascii_case("true"));
            }
            _ => {}
        }
    }
}

pub(super) fn set_table_options(table: &mut Table, options: &[Property<'_>]) {
    for property in options {
        // The table's id says which of several tables of one name it is, not what it is.
        if property.name.as_str() != "id" {
            table
                .options
                .insert(property.name.as_str().to_owned(), option_value(&property.value));
        }
    }
}

pub(super) fn option_value(value: &PropertyValue<'_>) -> OptionValue {
    let decoded = |literal: &Literal<'_>| literal.decoded().into_owned();
    match value {
        PropertyValue::Literal(literal) if literal.kind == LiteralKind::String => {
            OptionValue::Text(decoded(literal))
        }
        PropertyValue::Literal(literal) => OptionValue::Plain(literal.text.to_ascii_lowercase()),
        PropertyValue::Word(word) => OptionValue::Plain(word.as_str().to_owned()),
        // Only a SELECT has them.
        PropertyValue::Indexes(_) => OptionValue::Map(BTreeMap::new()),
        PropertyValue::Map(entries) => OptionValue::Map(
            entries
                .iter()
                .map(|(key, value)| (decoded(key), decoded(value)))
                .collect(),
        ),
    }
}
