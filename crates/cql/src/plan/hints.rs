//! `WITH included_indexes` and `excluded_indexes` of a `SELECT` (`IndexHints`, Cassandra 6.0).

use crate::schema::Table;
use crate::syntax::ast::{Property, PropertyValue, Select};

use super::refusal::{Refusal, Stage};

/// Which indexes a statement wants to be used, and which not.
#[derive(Debug, Default)]
pub(super) struct IndexHints {
    included: Vec<String>,
    pub(super) excluded: Vec<String>,
}

impl IndexHints {
    /// The hints of a statement on a table, all of which are indexes of it.
    pub(super) fn of(select: &Select<'_>, table: &Table) -> Result<Self, Refusal> {
        let mut hints = Self::default();
        for option in &select.options {
            let names = names(option, table)?;
            match option.name.as_str() {
                "included_indexes" => hints.included = names,
                "excluded_indexes" => hints.excluded = names,
                other => {
                    let message = format!("Unknown property '{other}'");
                    return Err(Refusal {
                        span: Some(option.name.span),
                        ..Refusal::validate(message)
                    });
                }
            }
        }
        match hints.included.iter().find(|name| hints.excluded.contains(name)) {
            Some(both) => Err(Refusal::new(format!(
                "Indexes cannot be both included and excluded: {both}"
            ))),
            None => Ok(hints),
        }
    }

    /// Why a statement is refused that uses these indexes only: not all are used that are wanted.
    pub(super) fn refusal(&self, used: &[String]) -> Option<Refusal> {
        let unused = self.included.iter().any(|name| !used.contains(name));
        unused.then(|| Refusal {
            stage: Stage::Bind,
            ..Refusal::new("It's not possible to use all the specified included indexes with this query.")
        })
    }
}

fn names(option: &Property<'_>, table: &Table) -> Result<Vec<String>, Refusal> {
    let PropertyValue::Indexes(indexes) = &option.value else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for index in indexes {
        let name = index.name.as_str();
        let is_elsewhere = index
            .keyspace
            .as_ref()
            .is_some_and(|keyspace| *keyspace != *table.keyspace.as_str());
        if is_elsewhere || !table.indexes.contains_key(name) {
            let message = format!(
                "Table {}.{} doesn't have an index named {name}",
                table.keyspace, table.name
            );
            return Err(Refusal::at(message, index.span()));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}
