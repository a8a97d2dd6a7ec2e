//! Plans of batches in CQL text, made of the plans of their statements.

use std::collections::HashMap;
use std::sync::Arc;

use crate::syntax::ast::{Batch, Term, Using};

use super::batch_sum::Rules;
use super::facts::{Facts, SchemaFacts};
use super::refusal::Stage;
use super::shape::{BatchPlan, Plan, Shape};
use super::target::{KeyText, markers_in_key_order};
use super::text_facts::TextFacts;
use crate::schema::{Schema, Table, TableName};

/// Plans `BEGIN … BATCH` of the plans of its statements.
pub(super) fn plan(
    text: &TextFacts<'_, '_>,
    batch: &Batch<'_>,
    children: Vec<Plan>,
    schema: &Schema,
) -> Plan {
    let markers = text.statement.bind_markers.len();
    let tables = summed(children.iter().flat_map(Plan::tables));
    if text.work.is_exhausted() {
        let facts = Facts {
            batch: Some((batch.kind, children.len())),
            ..Facts::new(text.statement.kind(), markers)
        };
        return Plan::too_complex(facts, tables);
    }
    let mut rules = Rules::new(batch.kind);
    (rules.timestamp, rules.ttl) = (batch.using.timestamp.is_some(), batch.using.ttl.is_some());
    let refusal = children.iter().find_map(Plan::refusal).cloned();
    let refusal = refusal.or_else(|| children.iter().try_for_each(|child| rules.add(child)).err());
    let refusal = refusal.or_else(|| rules.check().err());
    let names: Vec<_> = children
        .iter()
        .map(|child| (&child.facts.keyspace, &child.facts.table))
        .collect();
    let one_table = names
        .first()
        .filter(|first| names.iter().all(|name| name == *first))
        .copied();
    let (keyspace, table) = one_table.map_or((None, None), |(keyspace, table)| {
        (keyspace.clone(), table.clone())
    });
    let schema_facts = children
        .iter()
        .all(|child| child.facts.schema.is_some())
        .then(|| SchemaFacts {
            counter: rules.writes_counters(),
            partition_key_markers: match (tables.as_slice(), one_table.is_some()) {
                ([(only, _)], true) => schema
                    .table(&only.keyspace, &only.table)
                    .and_then(|table| key_markers(batch, table)),
                _ => None,
            },
            markers_of_one_table: one_table.is_some() && !binds_using(&batch.using),
            ..SchemaFacts::default()
        });
    let facts = Facts {
        keyspace,
        table,
        lwt: children.iter().any(|child| child.facts.lwt),
        timestamp_set: batch.using.timestamp.is_some(),
        ttl_set: batch.using.ttl.is_some(),
        batch: Some((batch.kind, children.len())),
        schema: schema_facts.filter(|_| {
            refusal
                .as_ref()
                .is_none_or(|refusal| refusal.stage != Stage::Prepare)
        }),
        ..Facts::new(text.statement.kind(), markers)
    };
    Plan {
        facts,
        tables,
        shape: Shape::Batch(BatchPlan {
            kind: batch.kind,
            children,
            refusal,
        }),
    }
}

/// Whether a marker stands behind the `USING` of the batch: it is a value of no table.
fn binds_using(using: &Using<'_>) -> bool {
    let is_marker = |term: &Option<Term<'_>>| matches!(term, Some(Term::BindMarker(_)));
    is_marker(&using.timestamp) || is_marker(&using.ttl)
}

/// Markers of a batch on one table that are values of its partition key.
fn key_markers(batch: &Batch<'_>, table: &Table) -> Option<Vec<usize>> {
    let markers: Vec<_> = batch
        .statements
        .iter()
        .flat_map(|child| KeyText::from(child).markers(table))
        .collect();
    markers_in_key_order(table, &markers)
}

/// Tables in the order of their first appearance, with the sums of their counts.
pub fn summed<'t>(all: impl Iterator<Item = &'t (Arc<TableName>, u32)>) -> Vec<(Arc<TableName>, u32)> {
    let mut sums: Vec<(Arc<TableName>, u32)> = Vec::new();
    // Of a batch on thousands of tables each is looked for thousands of times.
    let mut places: HashMap<&TableName, usize> = HashMap::new();
    for (table, count) in all {
        let place = *places.entry(table).or_insert(sums.len());
        match sums.get_mut(place) {
            Some((_, sum)) => *sum += count,
            None => sums.push((Arc::clone(table), *count)),
        }
    }
    sums
}
