//! From a statement and a schema to a plan.

use std::sync::Arc;

use crate::footprint::Reason;
use crate::schema::Schema;
use crate::syntax::Work;
use crate::syntax::ast::{Body, Modification, QualifiedName, Statement};

use super::facts::{Facts, SchemaFacts};
use super::refusal::{Refusal, Stage};
use super::shape::{Plan, Shape};
use super::target::{KeyText, Target, find};
use super::text_facts::TextFacts;
use super::{batch, modification, select, transaction};

impl Plan {
    /// Plans a statement whose unqualified names are `keyspace`'s.
    ///
    /// A statement that Cassandra would refuse has a plan too: one with a [`Plan::refusal`].
    pub fn of(statement: &Statement<'_>, keyspace: Option<&str>, schema: &Schema) -> Self {
        Self::of_within(statement, keyspace, schema, &Work::of_len(statement.span.len()))
    }

    /// As [`Plan::of`], with the steps taken from `work`: a statement that takes more than are left is not
    /// counted, for [`Reason::StatementTooComplex`].
    pub fn of_within(
        statement: &Statement<'_>,
        keyspace: Option<&str>,
        schema: &Schema,
        work: &Work,
    ) -> Self {
        Self::of_text(
            &TextFacts {
                statement,
                keyspace,
                work,
                constants: None,
            },
            schema,
        )
    }

    pub(super) fn of_text(text: &TextFacts<'_, '_>, schema: &Schema) -> Self {
        let statement = text.statement;
        match &statement.body {
            Body::Select(select) => {
                let facts = text.of_select(select);
                let key_text = KeyText::Where(&select.where_clause);
                text.of_table(facts, &select.table, key_text, schema, |target| {
                    select::plan(select, target).map(|(facts, plan)| (facts, Shape::Read(plan)))
                })
            }
            // A modification of its own is one of a batch of one.
            Body::Insert(insert) => text.of_modification(&Modification::Insert(insert.clone()), schema),
            Body::Update(update) => text.of_modification(&Modification::Update(update.clone()), schema),
            Body::Delete(delete) => text.of_modification(&Modification::Delete(delete.clone()), schema),
            Body::Batch(batch) => {
                let children = batch.statements.iter();
                let children = children
                    .map(|child| text.of_modification(child, schema))
                    .collect();
                batch::plan(text, batch, children, schema)
            }
            Body::Transaction(transaction) => transaction::plan(text, transaction, schema),
            Body::Truncate(truncate) => {
                let facts = text.of_other();
                let found = find(&truncate.table, text, schema, &facts);
                let refusal = found.err().and_then(|(_, refusal)| refusal);
                let refusal = refusal.map(|refusal| Refusal {
                    stage: Stage::Validate,
                    ..refusal
                });
                Self::unknown(facts, Vec::new(), Reason::NotApplicable, refusal)
            }
            _ => Self::unknown(text.of_other(), Vec::new(), Reason::NotApplicable, None),
        }
    }
}

impl TextFacts<'_, '_> {
    pub(super) fn of_table(
        &self,
        facts: Facts,
        name: &QualifiedName<'_>,
        key_text: KeyText<'_, '_>,
        schema: &Schema,
        plan: impl FnOnce(&Target<'_>) -> Result<(SchemaFacts, Shape), Refusal>,
    ) -> Plan {
        if self.work.is_exhausted() {
            return Plan::too_complex(facts, Vec::new());
        }
        let target = match find(name, self, schema, &facts) {
            Ok(target) => target,
            Err((reason, refusal)) => return Plan::unknown(facts, Vec::new(), reason, refusal),
        };
        let target = Target {
            key_markers: key_text.markers(target.table),
            ..target
        };
        let tables = vec![(Arc::clone(&target.name), 1)];
        let planned = plan(&target);
        // What was decided without looking at all of it may be wrong.
        if self.work.is_exhausted() {
            return Plan::too_complex(facts, tables);
        }
        match planned {
            Ok((schema_facts, shape)) => Plan {
                facts: Facts {
                    schema: Some(schema_facts),
                    ..facts
                },
                tables,
                shape,
            },
            Err(refusal) => Plan::unknown(facts, tables, refusal.reason, Some(refusal)),
        }
    }

    pub(super) fn of_modification(&self, modification: &Modification<'_>, schema: &Schema) -> Plan {
        let facts = self.facts_of_modification(modification);
        self.of_table(
            facts,
            modification.table(),
            modification.into(),
            schema,
            |target| {
                let (facts, plan) = match modification {
                    Modification::Insert(insert) => modification::insert(insert, target)?,
                    Modification::Update(update) => modification::update(update, target)?,
                    Modification::Delete(delete) => modification::delete(delete, target)?,
                };
                Ok((facts, Shape::Write(plan)))
            },
        )
    }
}
