//! What the text of a statement says without a schema.

use crate::syntax::ast::{
    AnnotatedObject, Annotation, Body, InsertSource, Kind, Modification, QualifiedName, Select, Selection,
    Statement, Using,
};
use crate::syntax::{Work, cut_name};

use super::constants::BoundConstants;
use super::facts::Facts;

/// What the text alone says of a statement.
pub(super) struct TextFacts<'t, 'a> {
    pub(super) statement: &'t Statement<'a>,
    pub(super) keyspace: Option<&'t str>,
    /// What planning may cost.
    pub(super) work: &'t Work,
    /// The constants that are taken for markers; see [`BoundConstants`].
    pub(super) constants: Option<&'t BoundConstants<'t>>,
}

impl TextFacts<'_, '_> {
    fn named(&self, name: &QualifiedName<'_>) -> Facts {
        Facts {
            keyspace: name.keyspace_or(self.keyspace).map(kept),
            table: Some(kept(name.name.as_str())),
            ..Facts::new(self.statement.kind(), self.statement.bind_markers.len())
        }
    }

    pub(super) fn of_select(&self, select: &Select<'_>) -> Facts {
        Facts {
            allow_filtering: select.allow_filtering,
            distinct: select.distinct,
            json: select.json,
            select_star: is_star(select),
            has_limit: select.limit.is_some(),
            groups: !select.group_by.is_empty(),
            ..self.named(&select.table)
        }
    }

    pub(super) fn facts_of_modification(&self, modification: &Modification<'_>) -> Facts {
        let facts = self.named(modification.table());
        let (kind, using, lwt): (_, &Using<'_>, bool) = match modification {
            Modification::Insert(insert) => (Kind::Insert, &insert.using, insert.if_not_exists),
            Modification::Update(update) => (Kind::Update, &update.using, update.condition.is_some()),
            Modification::Delete(delete) => (Kind::Delete, &delete.using, delete.condition.is_some()),
        };
        let json = matches!(
            modification,
            Modification::Insert(insert)
                if matches!(insert.source, InsertSource::Json { .. })
        );
        Facts {
            kind,
            json,
            lwt,
            timestamp_set: using.timestamp.is_some(),
            ttl_set: using.ttl.is_some(),
            ..facts
        }
    }

    /// Names of everything that is neither read nor written.
    pub(super) fn of_other(&self) -> Facts {
        let facts = Facts::new(self.statement.kind(), self.statement.bind_markers.len());
        let name = match &self.statement.body {
            Body::Truncate(truncate) => &truncate.table,
            Body::CreateTable(create) => &create.table,
            Body::CopyTable(copy) => &copy.table,
            Body::Annotate(Annotation {
                object: AnnotatedObject::Table(table) | AnnotatedObject::Column(table, _),
                ..
            }) => table,
            Body::AlterTable(alter) => &alter.table,
            Body::CreateView(create) => &create.view,
            Body::AlterView(alter) => &alter.view,
            Body::CreateIndex(create) => &create.table,
            Body::Drop(drop) if facts.kind == Kind::DropTable => &drop.name,
            Body::Drop(drop) if facts.kind == Kind::DropView => &drop.name,
            _ => {
                let keyspace = self.keyspace_itself().or(self.keyspace);
                return Facts {
                    keyspace: keyspace.map(kept),
                    ..facts
                };
            }
        };
        Facts {
            kind: facts.kind,
            ..self.named(name)
        }
    }

    /// The keyspace that the statement is about.
    fn keyspace_itself(&self) -> Option<&str> {
        match &self.statement.body {
            Body::Use(using) => Some(using.keyspace.as_str()),
            Body::CreateKeyspace(create) => Some(create.name.as_str()),
            Body::AlterKeyspace(alter) => Some(alter.name.as_str()),
            Body::Drop(drop) if self.statement.kind() == Kind::DropKeyspace => Some(drop.name.name.as_str()),
            Body::Annotate(Annotation {
                object: AnnotatedObject::Keyspace(name),
                ..
            }) => Some(name.as_str()),
            _ => None,
        }
    }
}

/// Whether a `SELECT` asks for all columns.
fn is_star(select: &Select<'_>) -> bool {
    select.selection == Selection::All
}

/// A name as it is kept, whatever its length; no schema has one that is cut off.
pub(super) fn kept(name: &str) -> String {
    cut_name(name).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{plan::Plan, schema::Schema, syntax};

    #[test]
    fn a_statement_about_a_keyspace_names_it_wherever_the_client_is() {
        for text in [
            "USE ks",
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "ALTER KEYSPACE ks WITH durable_writes = true",
            "DROP KEYSPACE ks",
            "COMMENT ON KEYSPACE ks IS 'a comment'",
            "SECURITY LABEL ON KEYSPACE ks IS 'secret'",
        ] {
            let statement = syntax::parse(text).unwrap();
            let plan = Plan::of(&statement, Some("elsewhere"), &Schema::default());
            assert_eq!(plan.facts().keyspace.as_deref(), Some("ks"), "{text}");
        }
    }
}
