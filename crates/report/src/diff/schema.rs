//! Tables and columns that are not as they were.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    super::{ColumnReport, ColumnRole},
    reading::{ReadReport, ReadTable},
};

/// A table whose definition is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ChangedDefinition {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub table: String,
    /// What is different, one sentence each.
    pub changes: Vec<String>,
}

impl ChangedDefinition {
    pub(super) fn sentence(&self) -> String {
        self.changes.join(", ")
    }
}

/// Whether a report knows any definition.
pub(super) fn is_known(report: &ReadReport) -> bool {
    let mut tables = report.seen.tables.iter();
    tables.any(|table| !table.columns.is_empty())
}

/// Of the tables that both reports know. A report has the tables that were used: one that is missing may be
/// unused, and is among the statements.
pub(super) fn changes(base: &ReadReport, new: &ReadReport) -> Vec<ChangedDefinition> {
    let known = |report: &'_ ReadReport| -> BTreeMap<(String, String), ReadTable> {
        let tables = report.seen.tables.iter();
        let known = tables.filter(|table| !table.columns.is_empty());
        known
            .map(|table| ((table.keyspace.clone(), table.table.clone()), table.clone()))
            .collect()
    };
    let (before, after) = (known(base), known(new));
    let of_both = after
        .iter()
        .filter_map(|(name, table)| Some((name, before.get(name)?, table)));
    of_both
        .map(|((keyspace, table), before, after)| ChangedDefinition {
            keyspace: keyspace.clone(),
            table: table.clone(),
            changes: column_changes(&before.columns, &after.columns),
        })
        .filter(|change| !change.changes.is_empty())
        .collect()
}

fn column_changes(before: &[ColumnReport], after: &[ColumnReport]) -> Vec<String> {
    let mut changes = Vec::new();
    let key = |columns: &[ColumnReport]| -> Vec<_> {
        let of_key = columns.iter().filter(|column| is_of_key(column.kind));
        of_key.map(|column| (column.name.clone(), column.kind)).collect()
    };
    if key(before) != key(after) {
        changes.push("the primary key has changed".to_owned());
    }
    for column in after {
        match before.iter().find(|earlier| earlier.name == column.name) {
            None => changes.push(format!("`{} {}` was added", column.name, column.data_type)),
            Some(earlier) => changes.extend(column_change(earlier, column)),
        }
    }
    let is_dropped = |column: &&ColumnReport| !after.iter().any(|later| later.name == column.name);
    let dropped = before.iter().filter(is_dropped);
    changes.extend(dropped.map(|column| format!("`{}` was dropped", column.name)));
    changes
}

fn column_change(before: &ColumnReport, after: &ColumnReport) -> Option<String> {
    let name = &after.name;
    if before.data_type != after.data_type {
        return Some(format!(
            "`{name}` was `{}` and is now `{}`",
            before.data_type, after.data_type
        ));
    }
    match (before.indexed, after.indexed) {
        (false, true) => Some(format!("`{name}` is now indexed")),
        (true, false) => Some(format!("`{name}` is no longer indexed")),
        _ => None,
    }
}

fn is_of_key(role: ColumnRole) -> bool {
    match role {
        ColumnRole::PartitionKey | ColumnRole::ClusteringAscending | ColumnRole::ClusteringDescending => true,
        ColumnRole::Static | ColumnRole::Regular => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{between, scan};
    use serde_json::json;

    #[test]
    fn columns_types_indexes_and_keys_are_compared() {
        let before = scan("items", 1_000);
        let mut after = before.clone();
        after["tables"][0]["columns"] = json!([
            {"name": "id", "type": "int", "kind": "partition-key", "indexed": false},
            {"name": "day", "type": "date", "kind": "partition-key", "indexed": false},
            {"name": "a", "type": "text", "kind": "regular", "indexed": false},
        ]);
        let diff = between(&before, &after);
        assert_eq!(
            diff.schema[0].changes,
            [
                "the primary key has changed",
                "`day date` was added",
                "`a` was `int` and is now `text`"
            ]
        );
        let back = between(&after, &before);
        assert_eq!(back.schema[0].changes[2], "`day` was dropped");
        after["tables"][0]["columns"] = before["tables"][0]["columns"].clone();
        after["tables"][0]["columns"][1]["indexed"] = true.into();
        assert_eq!(between(&before, &after).schema[0].changes, ["`a` is now indexed"]);
    }
}
