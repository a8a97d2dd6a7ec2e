//! A window in which one statement was executed once: what the rules can say of it before there is traffic.
//!
//! What only traffic shows (a rate, latencies, rows, clients) is not there, so that no rule speaks of it.

use std::sync::Arc;

use cqlens_cql::{
    syntax::Template,
    syntax::ast::{BatchKind, Body, LiteralKind, Modification, Statement, Term, Using},
};
use cqlens_proto::message::Values;
use jiff::Timestamp;

use crate::audit::statement::{
    analysis::{Analysis, null_columns},
    batch::{Children, batch_analysis},
    ids::Ids,
};
use cqlens_cql::footprint::{PartitionClass, Reason};
use cqlens_cql::{
    footprint::{Count, Footprint},
    plan::Plan,
};
use cqlens_window::{Pattern, PatternId, Window};

/// A window with one execution, and which pattern that is of.
#[derive(Debug)]
pub struct Once {
    /// The statement's pattern.
    pub id: PatternId,
    /// The window; no time passes in it, so that there is no rate.
    pub window: Window,
}

impl Once {
    /// An execution of a statement that touches `footprint`; where that is not known because nothing was
    /// bound, what every execution touches counts.
    pub fn of(statement: &Statement<'_>, template: Template, plan: Plan, footprint: &Footprint) -> Self {
        let touched = touched(footprint, Some(&plan));
        let nulls = nulls(statement, &plan);
        let facts = plan.facts();
        let (keyspace, table) = (facts.keyspace.clone(), facts.table.clone());
        let mut analysis = Analysis::of_plan(template, plan, &mut Ids::default());
        if analysis.tables.is_empty() {
            // Without a schema the text alone says what is read.
            (analysis.head.keyspace, analysis.head.table) = (keyspace, table);
        }
        let mut once = Self::window(analysis, touched);
        if let Some(pattern) = once.window.patterns.get_mut(&once.id) {
            nulls
                .iter()
                .for_each(|column| pattern.nulls.count(Some(column), 1));
            pattern.nulls.executions = u64::from(!nulls.is_empty());
            timestamps(statement).for_each(|timestamp| pattern.write_times.count_text(timestamp));
        }
        once
    }

    /// An execution of a BATCH message of these statements.
    pub fn of_batch(
        kind: BatchKind,
        statements: impl IntoIterator<Item = (Template, Plan)>,
        footprint: &Footprint,
    ) -> Self {
        let (mut ids, mut children) = (Ids::default(), Children::default());
        for (template, plan) in statements {
            children.add(Arc::new(Analysis::of_plan(template, plan, &mut ids)));
        }
        let analysis = batch_analysis(kind, &children, &mut ids);
        Self::window(analysis, touched(footprint, None))
    }

    fn window(analysis: Analysis, (class, partitions): (PartitionClass, Option<u64>)) -> Self {
        let touches = analysis.touches_partitions;
        let Analysis { id, head, flags, .. } = analysis;
        let mut pattern = Pattern::new(head, flags);
        pattern.count = 1;
        // How it will be sent is not known: nothing is claimed of a statement that was not prepared.
        pattern.prepared = 1;
        if touches {
            pattern.logical_reads = u64::from(pattern.head.kind.is_read());
            pattern.classes.insert(class, 1);
            partitions
                .into_iter()
                .for_each(|count| pattern.partitions.record(count));
        }
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "statement");
        window.patterns.insert(id, pattern);
        Self { id, window }
    }
}

/// The columns that every execution sets to null: by a constant, or by a document that leaves them out.
fn nulls(statement: &Statement<'_>, plan: &Plan) -> Vec<Box<str>> {
    let mut columns = null_columns(statement);
    if statement.bind_markers.is_empty() {
        columns.extend(plan.json_nulls(&Values::NONE).into_iter().map(Into::into));
    }
    columns
}

/// The timestamps that stand in a text.
fn timestamps(statement: &Statement<'_>) -> impl Iterator<Item = i64> {
    let of_modification = |modification: &Modification<'_>| match modification {
        Modification::Insert(insert) => timestamp(&insert.using),
        Modification::Update(update) => timestamp(&update.using),
        Modification::Delete(delete) => timestamp(&delete.using),
    };
    let stated: Vec<_> = match &statement.body {
        Body::Insert(insert) => vec![timestamp(&insert.using)],
        Body::Update(update) => vec![timestamp(&update.using)],
        Body::Delete(delete) => vec![timestamp(&delete.using)],
        Body::Batch(batch) => {
            let of_children = batch.statements.iter().map(of_modification);
            of_children.chain([timestamp(&batch.using)]).collect()
        }
        _ => Vec::new(),
    };
    stated.into_iter().flatten()
}

fn timestamp(using: &Using<'_>) -> Option<i64> {
    match &using.timestamp {
        Some(Term::Literal(literal)) if literal.kind == LiteralKind::Integer => literal.text.parse().ok(),
        _ => None,
    }
}

/// The class and the number of partitions, as far as they are known; where markers decide, the most that there can be.
fn touched(footprint: &Footprint, plan: Option<&Plan>) -> (PartitionClass, Option<u64>) {
    if let (Count::Unknown(Reason::Unbound), Some(plan)) = (footprint.count, plan) {
        return match plan.foreseen_partitions() {
            Some(count) => (Footprint::exact(count).class(), Some(count)),
            None => (plan.class(), plan.most_partitions()),
        };
    }
    (footprint.class(), footprint.number())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use cqlens_cql::syntax;
    use cqlens_proto::message::Values;

    use super::*;
    use cqlens_cql::footprint::Keys;
    use cqlens_cql::schema::Schema;

    const SCHEMA: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy'};
        CREATE TABLE shop.kv (k int PRIMARY KEY, v int);
        CREATE TABLE shop.pair (a int, b int, c int, PRIMARY KEY ((a, b), c));";

    /// Class and partitions of the pattern.
    fn touched(cql: &str, schema: &str) -> (PartitionClass, Option<u64>) {
        let statement = syntax::parse(cql).unwrap();
        let plan = Plan::of(&statement, Some("shop"), &Schema::from_cql(schema).unwrap());
        let values = statement.bind_markers.is_empty().then_some(&Values::NONE);
        let footprint = plan.execute(values, &mut Keys::new());
        let footprint = footprint.unwrap_or(Footprint::unknown(Reason::SchemaUnknown));
        let once = Once::of(
            &statement,
            Template::of(&statement, Some("shop")),
            plan,
            &footprint,
        );
        let pattern = &once.window.patterns[&once.id];
        assert_eq!(
            (pattern.head.keyspace.as_deref(), pattern.count),
            (Some("shop"), 1)
        );
        let known = !pattern.partitions.is_empty();
        (pattern.class(), known.then(|| pattern.partitions.max()))
    }

    #[test]
    fn what_depends_on_values_is_not_known() {
        let known = |cql| touched(cql, SCHEMA);
        use PartitionClass::{Index, Multi, Scan, Single, TokenRange};
        assert_eq!(known("SELECT * FROM kv WHERE k IN (1, 2, 1)"), (Multi, Some(2)));
        assert_eq!(
            known("SELECT * FROM kv WHERE k IN (1, 2) LIMIT ?"),
            (Multi, Some(2))
        );
        assert_eq!(
            known("SELECT * FROM pair WHERE a = ? AND b IN (1, 2, 3)"),
            (Multi, Some(3))
        );
        assert_eq!(
            known("SELECT * FROM pair WHERE a IN ? AND b IN (1, 2, 3)"),
            (Multi, None)
        );
        assert_eq!(
            known("SELECT * FROM kv WHERE k IN (?, ?)"),
            (Multi, Some(2)),
            "as many at most"
        );
        assert_eq!(known("SELECT * FROM kv WHERE k IN ?"), (Multi, None));
        assert_eq!(
            known("UPDATE kv SET v = 1 WHERE k IN (?, 2, ?)"),
            (Multi, Some(3))
        );
        assert_eq!(
            known("SELECT * FROM kv WHERE k IN (1, 2) AND token(k) > ?"),
            (Multi, None)
        );
        assert_eq!(known("SELECT * FROM kv WHERE k = ?"), (Single, Some(1)));
        assert_eq!(known("SELECT * FROM kv LIMIT ?"), (Scan, None));
        assert_eq!(known("SELECT * FROM kv WHERE token(k) > ?"), (TokenRange, None));
        assert_ne!(known("SELECT * FROM kv WHERE k = ?").0, Index);
    }

    #[test]
    fn without_a_schema_the_text_names_the_table() {
        assert_eq!(
            touched("SELECT * FROM kv WHERE k = 1", ""),
            (PartitionClass::Unknown, None)
        );
    }
}
