//! From a transaction and a schema to a plan (`TransactionStatement.Parsed.prepare`).

use crate::schema::{Keyspace, Schema, Table, TableName};
use crate::syntax::ast::{BindMarker, Modification, QualifiedName, Returning, Select, Term, Transaction};

use super::deferred::reads_itself;
use super::row_scope::RowScope;
use super::set_cells::sets_column_twice;
use super::{
    NO_LIMIT, ONE_ROW, ReadOfTransaction, TransactionFacts, TransactionPlan, TransactionReturns,
    WriteOfTransaction,
};
use crate::plan::batch::summed;
use crate::plan::facts::{Facts, SchemaFacts};
use crate::plan::refusal::Refusal;
use crate::plan::select;
use crate::plan::shape::{Plan, Shape};
use crate::plan::target::KeyText;
use crate::plan::text_facts::TextFacts;

/// Plans a transaction.
pub(in crate::plan) fn plan(
    text: &TextFacts<'_, '_>,
    transaction: &Transaction<'_>,
    schema: &Schema,
) -> Plan {
    let mut refusal = refused_by_text(transaction);
    let mut reads = Vec::new();
    for read in &transaction.lets {
        let (plan, checked) = read_plan(text, &read.select, true, schema);
        refusal = refusal.or(checked.as_ref().err().cloned());
        reads.push(ReadOfTransaction {
            plan,
            is_let: true,
            needs_limit: checked.unwrap_or(false),
        });
    }
    if let Some(Returning::Select(select)) = &transaction.returning {
        let (plan, checked) = read_plan(text, select, false, schema);
        refusal = refusal.or(checked.err());
        reads.push(ReadOfTransaction {
            plan,
            is_let: false,
            needs_limit: false,
        });
    }
    let mut writes = Vec::new();
    for update in &transaction.updates {
        let plan = text.of_modification(update, schema);
        let table = table_of(update, text, schema);
        let reads_itself = table.is_some_and(|(_, table)| reads_itself(update, table));
        refusal = refusal.or_else(|| refused_write(&plan, update, table.map(|(_, table)| table)));
        writes.push(WriteOfTransaction { plan, reads_itself });
    }
    let plans = reads.iter().map(|read| &read.plan);
    let plans: Vec<&Plan> = plans.chain(writes.iter().map(|write| &write.plan)).collect();
    let refusal = refusal.or_else(|| plans.iter().find_map(|plan| plan.refusal()).cloned());
    let is_known = plans.iter().all(|plan| plan.facts.schema.is_some());
    let refusal = refusal.or_else(|| {
        let scope = RowScope::of(transaction, text, schema);
        is_known.then(|| scope.check(transaction).err()).flatten()
    });
    let tables = summed(plans.iter().flat_map(|plan| plan.tables()));
    let sets_column_twice = sets_column_twice(writes.iter().map(|write| &write.plan));
    let is_disabled = |name: &TableName| {
        let table = schema.table(&name.keyspace, &name.table);
        table.is_some_and(|table| !table.is_transactional())
    };
    let disabled = tables.iter().any(|(name, _)| is_disabled(name));
    let disabled = disabled.then(|| Refusal::new(DISABLED));
    let schema_facts = (is_known && refusal.is_none()).then(|| SchemaFacts {
        in_on_partition_key: plans.iter().any(|plan| {
            plan.facts
                .schema
                .as_ref()
                .is_some_and(|facts| facts.in_on_partition_key)
        }),
        partition_key_markers: key_markers(&reads, &writes),
        markers_of_one_table: markers_of_one_table(text, transaction),
        ..SchemaFacts::default()
    });
    let facts = Facts {
        transaction: Some(facts_of(transaction)),
        schema: schema_facts,
        ..Facts::new(text.statement.kind(), text.statement.bind_markers.len())
    };
    if text.work.is_exhausted() {
        return Plan::too_complex(facts, tables);
    }
    Plan {
        facts,
        tables,
        shape: Shape::Transaction(TransactionPlan {
            reads,
            writes,
            sets_column_twice,
            refusal,
            disabled,
        }),
    }
}

fn refused_by_text(transaction: &Transaction<'_>) -> Option<Refusal> {
    if transaction.returning.is_none() && transaction.updates.is_empty() {
        return Some(Refusal::new("Transaction contains no reads or writes"));
    }
    let mut names: Vec<&str> = transaction.lets.iter().map(|read| read.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1])?;
    let message = format!(
        "The name '{}' has already been used by a LET assignment.",
        twice[0]
    );
    Some(Refusal::new(message))
}

/// The plan of a read, and whether only its limit, which is bound, decides if it is one row.
fn read_plan(
    text: &TextFacts<'_, '_>,
    select: &Select<'_>,
    is_let: bool,
    schema: &Schema,
) -> (Plan, Result<bool, Refusal>) {
    let facts = text.of_select(select);
    let key_text = KeyText::Where(&select.where_clause);
    let plan = text.of_table(facts, &select.table, key_text, schema, |target| {
        select::plan(select, target).map(|(facts, plan)| (facts, Shape::Read(plan)))
    });
    let checked = match plan.refusal() {
        Some(refusal) => Err(refusal.clone()),
        None => check_read(&plan, select, is_let),
    };
    (plan, checked)
}

fn check_read(plan: &Plan, select: &Select<'_>, is_let: bool) -> Result<bool, Refusal> {
    let refuse = |message: &'static str| Err(Refusal::at(message, select.table.span()));
    let Some(facts) = &plan.facts.schema else {
        return Ok(false);
    };
    if !select.order_by.is_empty() {
        return refuse("No ORDER BY clause allowed within a transaction");
    }
    if !select.group_by.is_empty() {
        return refuse("No GROUP BY clause allowed within a transaction");
    }
    if facts.counter {
        return refuse(NO_COUNTERS);
    }
    if facts.aggregate {
        return refuse("No aggregation functions allowed within a transaction");
    }
    let limit = match &select.limit {
        Some(Term::Literal(literal)) => literal.text.parse::<i64>().ok(),
        _ => None,
    };
    if facts.in_on_partition_key && limit.is_some() {
        return refuse(NO_LIMIT);
    }
    if !facts.full_partition_key {
        return refuse(match is_let {
            true => "Range queries are not allowed for reads within a transaction",
            false => "SELECT must specify either all partition key elements",
        });
    }
    if !is_let || facts.names_rows {
        return Ok(false);
    }
    match &select.limit {
        Some(Term::BindMarker(_)) => Ok(true),
        _ if limit == Some(1) => Ok(false),
        _ => refuse(ONE_ROW),
    }
}

const DISABLED: &str = "Accord transactions are disabled on table (See transactional_mode in table options)";
const NO_COUNTERS: &str = "Counter columns cannot be accessed within a transaction";

fn refused_write(plan: &Plan, update: &Modification<'_>, table: Option<&Table>) -> Option<Refusal> {
    if let Some(refusal) = plan.refusal() {
        return Some(refusal.clone());
    }
    let table = table?;
    let message = if plan.facts.lwt {
        "Updates within transactions may not specify their own conditions"
    } else if plan.facts.timestamp_set {
        "Updates within transactions may not specify custom timestamps"
    } else if plan.facts.ttl_set {
        "Updates within transactions may not specify custom ttls"
    } else if table.is_counter() {
        NO_COUNTERS
    } else {
        return None;
    };
    Some(Refusal::at(message, update.table().span()))
}

/// The table that a write names.
pub(super) fn table_of<'s>(
    update: &Modification<'_>,
    text: &TextFacts<'_, '_>,
    schema: &'s Schema,
) -> Option<(&'s Keyspace, &'s Table)> {
    let name = update.table();
    named_table(name.keyspace_or(text.keyspace)?, name.name.as_str(), schema)
}

/// A table of the schema.
pub(super) fn named_table<'s>(
    keyspace: &str,
    table: &str,
    schema: &'s Schema,
) -> Option<(&'s Keyspace, &'s Table)> {
    let keyspace = schema.keyspace(keyspace)?;
    Some((keyspace, keyspace.tables.get(table)?))
}

fn facts_of(transaction: &Transaction<'_>) -> TransactionFacts {
    TransactionFacts {
        lets: transaction.lets.len(),
        returns: match &transaction.returning {
            None => TransactionReturns::Nothing,
            Some(Returning::Select(_)) => TransactionReturns::Rows,
            Some(Returning::References(_)) => TransactionReturns::References,
        },
        conditions: transaction.conditions.len(),
        updates: transaction.updates.len(),
        unused_lets: transaction.unused_lets().count(),
    }
}

/// Which markers are values of the partition key: those of the `SELECT`, else of the first write that has some.
fn key_markers(reads: &[ReadOfTransaction], writes: &[WriteOfTransaction]) -> Option<Vec<usize>> {
    let returning = reads.iter().filter(|read| !read.is_let).map(|read| &read.plan);
    let mut described = returning.chain(writes.iter().map(|write| &write.plan));
    described.find_map(|plan| plan.facts.schema.as_ref()?.partition_key_markers.clone())
}

/// Whether all markers are values of one table: each belongs to the part of the text that began last before it.
fn markers_of_one_table(text: &TextFacts<'_, '_>, transaction: &Transaction<'_>) -> bool {
    let named = |name: &QualifiedName<'_>| {
        let keyspace = name.keyspace_or(text.keyspace).map(str::to_owned);
        (keyspace, name.name.as_str().to_owned())
    };
    let mut parts = Vec::new();
    for read in &transaction.lets {
        parts.push((read.select.table.span().start, named(&read.select.table)));
    }
    if let Some(Returning::Select(select)) = &transaction.returning {
        parts.push((select.table.span().start, named(&select.table)));
    }
    for condition in &transaction.conditions {
        let mut lets = transaction.lets.iter();
        if let Some(read) = lets.find(|read| read.name.text == condition.reference.row.text) {
            parts.push((condition.span.start, named(&read.select.table)));
        }
    }
    for update in &transaction.updates {
        parts.push((update.table().span().start, named(update.table())));
    }
    let table_of = |marker: &BindMarker<'_>| {
        let before = parts.iter().take_while(|(start, _)| *start <= marker.span.start);
        before.last().or(parts.first()).map(|(_, table)| table)
    };
    let mut tables = text.statement.bind_markers.iter().map(table_of);
    let first = tables.next();
    tables.all(|table| Some(table) == first)
}
