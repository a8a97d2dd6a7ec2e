//! Changes of list elements: the coordinator reads the list before it writes, or a repetition writes twice.

use cqlens_cql::syntax::ast::{AssignmentOperation, Body, Delete, DeletionTarget, Modification, Update};

use super::{About, Findings, Severity, user_writes};
use crate::{
    Cause, Context, Finding, Rule,
    figures::{often, table},
    severity::Impact,
};
use cqlens_cql::schema::{DataType, Schema, Table};
use cqlens_window::{Pattern, PatternId};

pub(crate) struct ListModification;

impl Rule for ListModification {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let mut unknown = 0;
        for (id, pattern) in user_writes(context) {
            let changes = changes((id, pattern), context);
            unknown += changes.without_schema * pattern.count;
            let Some((change, column)) = changes.of_lists.into_iter().max() else {
                continue;
            };
            let impact = match change {
                Change::ReadsFirst => Impact::each(Severity::Medium),
                Change::Appends | Change::Prepends => Impact::each(Severity::Info).at_most(Severity::Low),
            };
            let impact = impact.of(pattern);
            let severity = context.severity(found, &impact);
            found.push(finding(severity, change, &column, (id, pattern), context).weighing(impact));
        }
        if unknown > 0 {
            let text = format!("{unknown} writes change elements of columns in unknown tables");
            found.blind(&ABOUT, text);
        }
    }
}

/// What a statement does to a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Elements go behind all others.
    Appends,
    /// Elements go before all others.
    Prepends,
    /// Sets or removes elements by index or by value.
    ReadsFirst,
}

#[derive(Debug, Default)]
struct Changes {
    of_lists: Vec<(Change, String)>,
    /// 1 where elements are changed of a column that the schema does not know.
    without_schema: u64,
}

fn changes((id, pattern): (PatternId, &Pattern), context: &Context<'_>) -> Changes {
    let schema = context.schema;
    let mut changes = Changes::default();
    let Some(statement) = context.statement(id) else {
        return changes;
    };
    let keyspace = pattern.head.keyspace.as_deref();
    match &statement.body {
        Body::Update(update) => changes.update(update, keyspace, schema),
        Body::Delete(delete) => changes.delete(delete, keyspace, schema),
        Body::Batch(batch) => {
            for modification in &batch.statements {
                match modification {
                    Modification::Update(update) => changes.update(update, keyspace, schema),
                    Modification::Delete(delete) => changes.delete(delete, keyspace, schema),
                    Modification::Insert(_) => {}
                }
            }
        }
        _ => {}
    }
    changes
}

impl Changes {
    fn update(&mut self, update: &Update<'_>, keyspace: Option<&str>, schema: &Schema) {
        let keyspace = update.table.keyspace_or(keyspace).unwrap_or_default();
        let table = schema.table(keyspace, update.table.name.as_str());
        for assignment in &update.assignments {
            let change = match assignment.operation {
                AssignmentOperation::SetElement { .. } | AssignmentOperation::Subtract(_) => {
                    Change::ReadsFirst
                }
                AssignmentOperation::Add(_) => Change::Appends,
                AssignmentOperation::Prepend(_) => Change::Prepends,
                AssignmentOperation::Set(_) | AssignmentOperation::SetField { .. } => continue,
            };
            self.note(change, assignment.column.as_str(), table);
        }
    }

    fn delete(&mut self, delete: &Delete<'_>, keyspace: Option<&str>, schema: &Schema) {
        let keyspace = delete.table.keyspace_or(keyspace).unwrap_or_default();
        let table = schema.table(keyspace, delete.table.name.as_str());
        for deletion in &delete.deletions {
            if matches!(deletion.target, DeletionTarget::Element(_)) {
                self.note(Change::ReadsFirst, deletion.column.as_str(), table);
            }
        }
    }

    /// Maps, sets and counters change in place without being read.
    fn note(&mut self, change: Change, column: &str, table: Option<&Table>) {
        match table.and_then(|table| table.column(column)) {
            Some(column) if matches!(column.data_type, DataType::List(_)) => {
                self.of_lists.push((change, column.name.clone()));
            }
            Some(_) => {}
            None => self.without_schema = 1,
        }
    }
}

fn finding(
    severity: Severity,
    change: Change,
    column: &str,
    (id, pattern): (PatternId, &Pattern),
    context: &Context<'_>,
) -> Finding {
    let (table, often) = (table(pattern), often(pattern.count, context.watch(pattern)));
    let title = match change {
        Change::ReadsFirst => {
            format!(
                "Writes to {table} modify elements of the list `{column}`: a read before each write{often}"
            )
        }
        Change::Appends => format!("Writes to {table} append to the list `{column}`{often}"),
        Change::Prepends => format!("Writes to {table} prepend to the list `{column}`{often}"),
    };
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .first("retried", pattern.repeats.retried());
    match change {
        Change::ReadsFirst => finding,
        Change::Appends | Change::Prepends => finding.advice(
            "Adding to a list reads nothing, but it is not idempotent: a write that timed out and is sent again \
             adds its elements twice. If order does not matter, use a set; else rows with a clustering \
             column.",
        ),
    }
}

const ABOUT: About = About {
    id: "list-modification",
    group: "writes",
    summary: "A write changes elements of a list, which Cassandra has to read first.",
    why: "Elements of a list are stored under time-based ids, not under their position. To set or delete the \
        element at an index, or all elements with a value, the coordinator first reads the whole list from \
        the replicas, at the consistency level of the write, to find their ids: a read round trip before \
        each write, and a race with clients that change the list in between. Appending needs no read, but \
        repeated after a timeout it appends twice.",
    fix: "Use a set, or a map keyed by something that identifies the element, or a clustering column: all of \
        these are written without a read and can be retried. A short list that is always written as a whole \
        may be frozen.",
    fix_in_short: "Set or map",
    before: "CREATE TABLE shop.carts (id uuid PRIMARY KEY, items list<text>);\nUPDATE shop.carts SET items[?] = ? WHERE id = ?;",
    after: "CREATE TABLE shop.cart_items (id uuid, position int, item text, PRIMARY KEY ((id), position));\n\
            UPDATE shop.cart_items SET item = ? WHERE id = ? AND position = ?;",
    severity: "\
        Medium if the list is read first. If elements are only added: info, low at most. Nothing for sets \
        and maps.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "The tables' schemas, to distinguish lists from maps and sets.",
    source: "Cassandra guardrail `read_before_write_list_operations_enabled` (4.1); Cassandra documentation, \
        collections: lists",
    cause: Some(Cause::COLLECTIONS),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, run, run_with, window, write};
    use cqlens_cql::plan::StatementKind;

    fn severity(cql: &str, times: u64) -> Option<Severity> {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.carts (id int PRIMARY KEY, items list<text>, tags set<text>, sizes map<int, int>);",
        )
        .unwrap();
        let pattern = write(cql, StatementKind::Update, &[], times);
        let judgement = run_with(&ListModification, &amid([pattern]), &schema);
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn elements_that_are_set_or_removed_cost_a_read() {
        for cql in [
            "UPDATE shop.carts SET items[?] = ? WHERE id = ?",
            "UPDATE shop.carts SET items = items - ? WHERE id = ?",
            "DELETE items[?] FROM shop.carts WHERE id = ?",
            "BEGIN BATCH UPDATE shop.carts SET items[?] = ? WHERE id = ?; APPLY BATCH",
        ] {
            assert_eq!(severity(cql, 100), Some(Severity::Medium), "{cql}");
        }
    }

    #[test]
    fn what_is_only_added_is_worth_knowing() {
        for cql in [
            "UPDATE shop.carts SET items = items + ? WHERE id = ?",
            "UPDATE shop.carts SET items = ? + items WHERE id = ?",
        ] {
            assert_eq!(severity(cql, 100), Some(Severity::Info), "{cql}");
        }
    }

    #[test]
    fn whole_lists_sets_and_maps_are_fine() {
        for cql in [
            "UPDATE shop.carts SET items = ? WHERE id = ?",
            "UPDATE shop.carts SET tags = tags - ? WHERE id = ?",
            "UPDATE shop.carts SET sizes[?] = ? WHERE id = ?",
            "DELETE sizes[?] FROM shop.carts WHERE id = ?",
        ] {
            assert_eq!(severity(cql, 360_000), None, "{cql}");
        }
    }

    #[test]
    fn without_a_schema_it_says_what_it_does_not_know() {
        let cql = "UPDATE shop.carts SET items[?] = ? WHERE id = ?";
        let judgement = run(
            &ListModification,
            &window([write(cql, StatementKind::Update, &[], 60)]),
        );
        assert_eq!(judgement.findings, []);
        assert!(
            judgement.blind_spots[0]
                .text
                .starts_with("60 writes change elements")
        );
    }
}
