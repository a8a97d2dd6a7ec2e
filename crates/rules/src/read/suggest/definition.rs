//! The text of definitions.

use std::{collections::BTreeMap, hash::Hasher};

use cqlens_cql::schema::{Column, ColumnKind, OptionValue, Schema, Table, quote};
use siphasher::sip::SipHasher13;

use crate::definition;

/// The options of a table that one with the same rows needs as well: how long they live, how their tombstones
/// go, and how they are compacted where that was chosen. The others go with the other table: `comment` and `id`
/// are its own, CDC has its consumers, caching and the sizes of chunks and filters fit its reads, and all of
/// them can be altered later.
pub(super) fn kept(table: &Table, schema: &Schema) -> BTreeMap<String, OptionValue> {
    // The rows of a view live as long as those of its base.
    let base = table.base().and_then(|base| schema.table(&table.keyspace, base));
    let base = base.filter(|base| base.default_time_to_live() > 0);
    let lifetime = base.and_then(|base| base.options.get_key_value("default_time_to_live"));

    let differs = |name: &str| match name {
        "default_time_to_live" => table.default_time_to_live() > 0,
        "gc_grace_seconds" => table.gc_grace_seconds() != Table::GC_GRACE_SECONDS,
        "compaction" => definition::compaction(table) != definition::SIZE_TIERED,
        _ => false,
    };
    let options = table.options.iter().filter(|(name, _)| differs(name));
    options
        .chain(lifetime)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// What a table like this one is called by what it is read by; none where that is taken. It needs no quotes.
///
/// A name that is too long is cut, and ends in a hash of the whole: names that differ later stay different.
pub(super) fn free_name(table: &Table, by: &str, schema: &Schema) -> Option<String> {
    let plain = |character: char| match character.is_ascii_alphanumeric() {
        true => character.to_ascii_lowercase(),
        false => '_',
    };
    let full: String = format!("{}_by_{by}", table.name).chars().map(plain).collect();
    let name = match full.get(..LONGEST_NAME - 5) {
        Some(begin) if full.len() > LONGEST_NAME => format!("{begin}_{:04x}", hash(&full)),
        _ => full,
    };
    schema.table(&table.keyspace, &name).is_none().then_some(name)
}

fn hash(text: &str) -> u16 {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    (hasher.finish() & 0xFFFF) as u16
}

/// `SchemaConstants.NAME_LENGTH`.
const LONGEST_NAME: usize = 48;

/// `CREATE TABLE` in the way in which people write it.
pub(super) fn create(table: &Table) -> String {
    let columns: String = table
        .columns
        .iter()
        .map(|column| {
            let kind = if column.kind == ColumnKind::Static {
                " static"
            } else {
                ""
            };
            format!("  {} {}{kind},\n", quote(&column.name), column.data_type)
        })
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

/// The statement that writes a row, all of its columns, with this `USING` behind it.
pub(super) fn insert(table: &Table, using: &str) -> String {
    let marks = vec!["?"; table.columns.len()];
    format!(
        "INSERT INTO {} ({}) VALUES ({}){using};",
        name(table),
        names(&table.columns),
        marks.join(", ")
    )
}
