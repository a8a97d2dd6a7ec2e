//! The text of definitions.

use std::collections::BTreeMap;

use cqlens_cql::schema::{Column, OptionValue, Table, quote};

use crate::rules::definition;

/// The options of a table that one with the same rows needs as well.
pub(super) fn kept(table: &Table) -> BTreeMap<String, OptionValue> {
    let differs = |name: &str| match name {
        "default_time_to_live" => table.default_time_to_live() > 0,
        "gc_grace_seconds" => table.gc_grace_seconds() != Table::GC_GRACE_SECONDS,
        "compaction" => definition::compaction(table) != definition::SIZE_TIERED,
        _ => false,
    };
    let options = table.options.iter().filter(|(name, _)| differs(name));
    options
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// A name that needs no quotes.
pub(super) fn plain(name: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() {
            character.to_ascii_lowercase()
        } else {
            '_'
        }
    };
    name.chars().map(plain).collect()
}

/// `SchemaConstants.NAME_LENGTH`.
pub(super) const LONGEST_NAME: usize = 48;

/// `CREATE TABLE` in the way in which people write it.
pub(super) fn create(table: &Table) -> String {
    let columns: String = table
        .columns
        .iter()
        .map(|column| format!("  {} {},\n", quote(&column.name), column.data_type))
        .collect();
    let mut key = format!("({})", names(table.partition_key()));
    if !table.clustering().is_empty() {
        key += &format!(", {}", names(table.clustering()));
    }
    let mut with: Vec<String> = Vec::new();
    if table.clustering().iter().any(Column::is_descending) {
        let direction = |column: &Column| if column.is_descending() { "DESC" } else { "ASC" };
        let ordered = table.clustering().iter();
        let ordered: Vec<_> = ordered
            .map(|column| format!("{} {}", quote(&column.name), direction(column)))
            .collect();
        with.push(format!("CLUSTERING ORDER BY ({})", ordered.join(", ")));
    }
    let options = table.options.iter();
    with.extend(options.map(|(name, value)| format!("{name} = {value}")));
    let with = match with.is_empty() {
        true => String::new(),
        false => format!(" WITH {}", with.join("\n  AND ")),
    };
    format!(
        "CREATE TABLE {} (\n{columns}  PRIMARY KEY ({key})\n){with};",
        name(table)
    )
}

pub(super) fn names(columns: &[Column]) -> String {
    let names: Vec<_> = columns.iter().map(|column| quote(&column.name)).collect();
    names.join(", ")
}

pub(super) fn name(table: &Table) -> String {
    format!("{}.{}", quote(&table.keyspace), quote(&table.name))
}
