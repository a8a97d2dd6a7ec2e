//! Batches, as text and as messages: several modifications whose partitions are counted together.

use crate::syntax::ast::{Batch, BatchKind, Term, Using};
use cqlens_proto::message::Values;

use super::batch_sum::{BatchSum, Rules};
use super::facts::{Facts, SchemaFacts};
use super::refusal::{Refusal, Stage};
use super::{KeyText, Plan, Shape, TextFacts, Touched, markers_in_key_order, summed};
use crate::cells::Cells;
use crate::footprint::Keys;
use crate::schema::{Schema, Table};

/// A batch in CQL text.
#[derive(Debug, Clone)]
pub(super) struct BatchPlan {
    kind: BatchKind,
    children: Vec<Plan>,
    refusal: Option<Refusal>,
}

/// Plans `BEGIN … BATCH`.
pub(super) fn plan(text: &TextFacts<'_, '_>, batch: &Batch<'_>, schema: &Schema) -> Plan {
    let markers = text.statement.bind_markers.len();
    let children: Vec<Plan> = batch
        .statements
        .iter()
        .map(|child| text.of_modification(child, schema))
        .collect();
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

impl BatchPlan {
    pub(super) fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// What each statement tells of rows and of columns that have an index.
    pub(super) fn note_cells(&self, values: &Values<'_>, cells: &mut Cells) {
        if self.refusal.is_none() {
            self.children
                .iter()
                .for_each(|child| child.note_cells(values, cells));
        }
    }

    /// All statements of a batch in text share the batch's values.
    pub(super) fn touch(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let mut sum = BatchSum::new(self.kind);
        for child in &self.children {
            sum.add(child, values, keys)?;
        }
        sum.touched(keys)
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
