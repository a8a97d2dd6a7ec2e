//! EXECUTE and BATCH: acceptance, and the partitions that the server's trace shows.

use cqlens_cql::footprint::Count;
use cqlens_cql::plan::BatchSum;
use cqlens_cql::plan::StatementKind;
use cqlens_cql::schema::Schema;
use cqlens_cql::schema::{Table, is_virtual};
use cqlens_cql::syntax::ast::{BatchKind, Body, Comparand, RelationOperator, Subject, Term};
use cqlens_proto::message::Values;

use super::super::ask::{Executed, Observation, Outcome};
use super::super::case::{Case, Text};
use super::super::trace::Trace;
use super::{Category, Footprint, KEYSPACE, Keys, Plan, Statement, Verdict, Verdicts};

pub(super) fn judge(
    case: &Case,
    plans: &[(Statement<'_>, Plan)],
    observation: &Observation,
    verdicts: &mut Verdicts,
) {
    filtering(plans, observation, verdicts);
    let Some(executed) = &observation.executed else {
        return;
    };
    let mut keys = Keys::new();
    let values: Vec<Values<'_>> = observation.bound.iter().map(|values| values.values()).collect();
    let ours = match &case.text {
        Text::Statement(_) => plans[0].1.execute(Some(&values[0]), &mut keys),
        Text::Message { kind, .. } => {
            let mut sum = BatchSum::new(kind_of_batch(*kind));
            let added = plans
                .iter()
                .zip(&values)
                .try_for_each(|((_, plan), values)| sum.add(plan, Some(values), &mut keys));
            added.and_then(|()| sum.footprint(&keys))
        }
    };
    let refusal = ours.as_ref().err().map(ToString::to_string);
    let (Text::Statement(_), [(_, plan)]) = (&case.text, plans) else {
        verdicts.add(
            Category::Execution,
            Verdict::of_refusal(refusal, executed.result.as_ref().err()),
        );
        if let (Ok(footprint), Ok(_), Some(trace)) = (ours, &executed.result, &executed.trace) {
            let tables: Vec<&str> = plans
                .iter()
                .flat_map(|(_, plan)| plan.tables())
                .map(|(table, _)| table.table.as_str())
                .collect();
            let is_conditional = plans.iter().any(|(_, plan)| plan.facts().lwt);
            verdicts.add(
                Category::Partitions,
                written(&footprint, &tables, is_conditional, trace),
            );
        }
        return;
    };
    if matches!(
        plan.facts().statement_kind(),
        StatementKind::Ddl | StatementKind::Other
    ) {
        schema_change(plan, executed, verdicts);
        return;
    }
    verdicts.add(
        Category::Execution,
        Verdict::of_refusal(refusal, executed.result.as_ref().err()),
    );
    let (Ok(footprint), Ok(outcome)) = (ours, &executed.result) else {
        return;
    };
    lwt(plan, outcome, verdicts);
    aggregate(&plans[0].0, plan, executed, &observation.schema, verdicts);
    if let Some(trace) = &executed.trace
        && !slices_by_the_clock(&plans[0].0)
        && !may_stop_early(&plans[0].0)
        && !plan.tables().iter().any(|(table, _)| is_virtual(&table.keyspace))
    {
        verdicts.add(Category::Partitions, touched(plan, &footprint, trace));
        if plan.facts().statement_kind() == StatementKind::Select {
            read(plan, &footprint, trace, verdicts);
        }
        without_schema(&plans[0].0, observation, trace, verdicts);
    }
}

/// Whether groups are read partition after partition until there are as many as the limit allows: how many
/// partitions that takes depends on what is stored.
fn may_stop_early(statement: &Statement<'_>) -> bool {
    matches!(&statement.body, Body::Select(select) if !select.group_by.is_empty() && select.limit.is_some())
}

/// Whether the end of a slice of rows or tokens is the server's clock: only the server knows whether it ends
/// before it begins, and how far it goes.
fn slices_by_the_clock(statement: &Statement<'_>) -> bool {
    let clause = match &statement.body {
        Body::Select(select) => &select.where_clause,
        Body::Delete(delete) => &delete.where_clause,
        _ => return false,
    };
    let is_clock = |name: &str| {
        let name = name.to_ascii_lowercase();
        name == "now" || name.starts_with("current")
    };
    clause.relations.iter().any(|relation| {
        let is_slice = matches!(
            relation.operator,
            RelationOperator::LessThan
                | RelationOperator::LessOrEqual
                | RelationOperator::GreaterThan
                | RelationOperator::GreaterOrEqual
        );
        let Comparand::One(term) = &relation.comparand else {
            return false;
        };
        let terms = match term {
            Term::Tuple { items, .. } => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut calls = terms.iter().flat_map(|term| match term {
            Term::Function(call) => {
                let inner = call.arguments.iter().filter_map(|argument| match argument {
                    Term::Function(inner) => Some(inner),
                    _ => None,
                });
                inner.chain([call]).collect()
            }
            _ => Vec::new(),
        });
        is_slice && calls.any(|call| is_clock(call.name.name.as_str()))
    })
}

/// Whether Cassandra takes the statement without `ALLOW FILTERING`.
fn filtering(plans: &[(Statement<'_>, Plan)], observation: &Observation, verdicts: &mut Verdicts) {
    let (Some(theirs), Some(facts)) = (&observation.without_filtering, &plans[0].1.facts().schema) else {
        return;
    };
    let theirs = match theirs {
        Ok(()) => false,
        Err(refused) if refused.message.contains("ALLOW FILTERING") => true,
        // Refused for another reason, which filtering hides: there is no such question.
        Err(_) => return,
    };
    verdicts.add(Category::Filtering, Verdict::of(&facts.filtering_needed, &theirs));
}

fn touched(plan: &Plan, footprint: &Footprint, trace: &Trace) -> Verdict {
    let tables: Vec<&str> = plan
        .tables()
        .iter()
        .map(|(table, _)| table.table.as_str())
        .collect();
    if plan.facts().statement_kind() == StatementKind::Transaction {
        return given_to_accord(footprint, trace);
    }
    if plan.facts().statement_kind() != StatementKind::Select {
        return written(footprint, &tables, plan.facts().lwt, trace);
    }
    let (table, _) = &plan.tables()[0];
    let partitions = trace.partitions_read(&table.keyspace, &table.table) as u64;
    let holds = match footprint.count {
        Count::Exact(count) => !trace.reads_range() && partitions == count,
        Count::AtLeast(count, _) => !trace.reads_range() && partitions >= count,
        Count::Scan | Count::TokenRange { .. } => trace.reads_range() && trace.indexes().is_empty(),
        Count::Index => trace.reads_range() && !trace.indexes().is_empty(),
        // What is judged is a read as a whole.
        Count::Page { .. } | Count::Unknown(_) => false,
    };
    Verdict::that(holds, || {
        format!("cqlens says {:?}, Cassandra did: {trace}", footprint.count)
    })
}

/// Without a condition every table and key is written; with one, the one partition is read, whatever follows.
fn written(footprint: &Footprint, tables: &[&str], is_conditional: bool, trace: &Trace) -> Verdict {
    let partitions = if is_conditional {
        tables
            .first()
            .map_or(0, |table| trace.partitions_read(KEYSPACE, table).min(1))
    } else {
        let mut tables = tables.to_vec();
        tables.sort_unstable();
        tables.dedup();
        trace.partitions_written(&tables)
    };
    let partitions = partitions as u64;
    let holds = match footprint.count {
        Count::Exact(count) => partitions == count,
        Count::AtLeast(count, _) => partitions >= count,
        _ => false,
    };
    Verdict::that(holds, || {
        format!("cqlens says {:?}, Cassandra did: {trace}", footprint.count)
    })
}

/// Accord is given all keys of a transaction, whatever its conditions say.
fn given_to_accord(footprint: &Footprint, trace: &Trace) -> Verdict {
    let partitions = trace.keys_of_accord() as u64;
    let holds = match footprint.count {
        Count::Exact(0) => !trace.touches(),
        Count::Exact(count) => partitions == count,
        Count::AtLeast(count, _) => partitions >= count,
        _ => false,
    };
    Verdict::that(holds, || {
        format!("cqlens says {:?}, Cassandra did: {trace}", footprint.count)
    })
}

fn read(plan: &Plan, footprint: &Footprint, trace: &Trace, verdicts: &mut Verdicts) {
    if let Some(facts) = &plan.facts().schema
        && footprint.count != Count::Exact(0)
    {
        let mut ours: Vec<&str> = facts.indexes.iter().map(String::as_str).collect();
        ours.sort_unstable();
        verdicts.add(Category::Indexes, Verdict::of(&ours, &trace.indexes()));
    }
    let ours = match footprint.count {
        Count::Scan => 1.0,
        Count::TokenRange { share } => share,
        _ => return,
    };
    if let Some(theirs) = trace.ring_share() {
        let verdict = Verdict::that((ours - theirs).abs() < 1e-9, || {
            format!("cqlens says {ours}, Cassandra {theirs}: {trace}")
        });
        verdicts.add(Category::RingShare, verdict);
    }
}

/// What the PREPARED response alone tells must not be wrong either, where it tells anything.
fn without_schema(
    statement: &Statement<'_>,
    observation: &Observation,
    trace: &Trace,
    verdicts: &mut Verdicts,
) {
    let Ok(prepared) = &observation.prepared[0] else {
        return;
    };
    let plan = Plan::without_schema(statement, Some(KEYSPACE), &prepared.markers);
    let mut keys = Keys::new();
    let Ok(footprint) = plan.execute(Some(&observation.bound[0].values()), &mut keys) else {
        return;
    };
    if matches!(footprint.count, Count::Exact(_) | Count::AtLeast(..)) {
        verdicts.add(Category::WithoutSchema, touched(&plan, &footprint, trace));
    }
}

/// The answer to a condition begins with the column `[applied]`.
fn lwt(plan: &Plan, outcome: &Outcome, verdicts: &mut Verdicts) {
    if matches!(
        plan.facts().statement_kind(),
        StatementKind::Select | StatementKind::Transaction
    ) {
        return;
    }
    let theirs = matches!(outcome, Outcome::Rows(columns) if columns.first().is_some_and(|first| first == "[applied]"));
    verdicts.add(Category::Lwt, Verdict::of(&plan.facts().lwt, &theirs));
}

/// A read that folds rows, and was asked for in pages, comes with a warning, unless it is of one partition or
/// range.
fn aggregate(
    statement: &Statement<'_>,
    plan: &Plan,
    executed: &Executed,
    schema: &Schema,
    verdicts: &mut Verdicts,
) {
    let (Body::Select(select), Some(facts)) = (&statement.body, &plan.facts().schema) else {
        return;
    };
    let Some(key) = plan
        .tables()
        .first()
        .and_then(|(table, _)| schema.table(&table.keyspace, &table.table))
        .map(Table::partition_key)
    else {
        return;
    };
    let on_key = select
        .where_clause
        .relations
        .iter()
        .any(|relation| match &relation.subject {
            Subject::Token(_) => true,
            Subject::Column(name) => key.iter().any(|column| column.name == name.as_str()),
            _ => false,
        });
    if !executed.is_paged || (on_key && !facts.in_on_partition_key) {
        return;
    }
    let theirs = executed
        .warnings
        .iter()
        .any(|warning| warning.starts_with("Aggregation query used"));
    let ours = facts.aggregate || !select.group_by.is_empty();
    verdicts.add(Category::Aggregate, Verdict::of(&ours, &theirs));
}

/// What the server says has changed is what the text names.
fn schema_change(plan: &Plan, executed: &Executed, verdicts: &mut Verdicts) {
    let facts = plan.facts();
    let (ours, theirs) = match &executed.result {
        Ok(Outcome::Keyspace(theirs)) => ((facts.keyspace.as_deref(), None), (Some(theirs.as_str()), None)),
        Ok(Outcome::SchemaChange(keyspace, object)) => {
            let object = object.as_ref().map(|(_, name)| name.as_str());
            (
                (facts.keyspace.as_deref(), facts.table.as_deref()),
                (Some(keyspace.as_str()), object),
            )
        }
        _ => return,
    };
    // cqlens keeps the names of tables and views only.
    if facts.table.is_some() || theirs.1.is_none() {
        verdicts.add(Category::SchemaChange, Verdict::of(&ours, &theirs));
    }
}

fn kind_of_batch(kind: u8) -> BatchKind {
    match kind {
        0 => BatchKind::Logged,
        1 => BatchKind::Unlogged,
        _ => BatchKind::Counter,
    }
}
