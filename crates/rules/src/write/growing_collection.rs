//! Collections that are added to and that nothing takes anything out of, or that are written with many elements.

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Findings, Severity, Threshold, table, user_writes};
use crate::{
    Cause, Context, Finding, Quantity, Rule, Unit,
    figures::often,
    severity::Impact,
    statement::{TableWrite, patterns},
};
use cqlens_cql::{
    schema::{DataType, Table, TableName},
    syntax::ast::{AssignmentOperation, Modification},
};
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct GrowingCollection;

impl Rule for GrowingCollection {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, writes) in context.writes() {
            let Some(table) = context.schema.table(&name.keyspace, &name.table) else {
                continue;
            };
            // Whole rows go, and their collections with them.
            if table.default_time_to_live() == 0 && !writes.iter().any(deletes_rows) {
                for (column, adds) in growing(table, writes) {
                    judge(name, table, &column, &adds, context, found);
                }
            }
        }
        for (id, pattern) in user_writes(context) {
            if let Some(finding) = with_many_items(found, (id, pattern), context) {
                found.push(finding);
            }
        }
    }
}

/// A statement that writes whole collections of so many elements: each is read as a whole, too.
fn with_many_items(
    found: &Findings<'_>,
    (id, pattern): (PatternId, &Pattern),
    context: &Context<'_>,
) -> Option<Finding> {
    let [some, many] = [&MANY_ITEMS, &TOO_MANY_ITEMS].map(|threshold| {
        let items = found.threshold(&ABOUT, threshold);
        number::rounded(items)
    });
    let items = &pattern.collection_items;
    let times = items.at_least(some);
    if times == 0 {
        return None;
    }
    let each = match items.max() >= many {
        true => Severity::Low,
        false => Severity::Info,
    };
    let impact = Impact::each(each)
        .of(pattern)
        .times(times)
        .at_most(Severity::Medium);
    let title = format!(
        "{} of {} to {} replace a collection with one of {some} elements or more, up to {}",
        number::count(times),
        number::plural(pattern.count, "write", "writes"),
        table(pattern),
        number::count(items.max())
    );
    let severity = context.severity(found, &impact);
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .weighing(impact);
    Some(
        finding
            .first("elements_max", items.max())
            .first("writes_with_many_elements", times),
    )
}

/// The collections of the table that writes add to and none shrinks or replaces, with those that add.
fn growing<'w, 'a>(table: &Table, writes: &'w [TableWrite<'a>]) -> BTreeMap<String, Vec<&'w TableWrite<'a>>> {
    let mut growing: BTreeMap<String, Vec<_>> = BTreeMap::new();
    let mut bounded = BTreeSet::new();
    for write in writes {
        for (column, adds) in touched(write) {
            let is_collection = table
                .column(&column)
                .is_some_and(|column| column.data_type.is_multi_cell());
            match adds && write.ttl().is_none() {
                true if is_collection => growing.entry(column).or_default().push(write),
                true => {}
                false => drop(bounded.insert(column)),
            }
        }
    }
    growing.retain(|column, _| !bounded.contains(column));
    growing
}

/// The columns that a write changes, and whether it only adds to them.
fn touched(write: &TableWrite<'_>) -> Vec<(String, bool)> {
    match &write.modification {
        // A row may come with its first elements.
        Modification::Insert(_) => Vec::new(),
        Modification::Update(update) => {
            let each = update.assignments.iter().map(|assignment| {
                let adds = matches!(
                    assignment.operation,
                    AssignmentOperation::Add(_)
                        | AssignmentOperation::Prepend(_)
                        | AssignmentOperation::SetElement { .. }
                );
                (assignment.column.as_str().to_owned(), adds)
            });
            each.collect()
        }
        Modification::Delete(delete) => {
            let each = delete.deletions.iter();
            each.map(|deletion| (deletion.column.as_str().to_owned(), false))
                .collect()
        }
    }
}

fn is_list(table: &Table, column: &str) -> bool {
    let column = table.column(column);
    column.is_some_and(|column| matches!(column.data_type, DataType::List(_)))
}

fn deletes_rows(write: &TableWrite<'_>) -> bool {
    matches!(&write.modification, Modification::Delete(delete) if delete.deletions.is_empty())
}

fn judge(
    name: &TableName,
    table: &Table,
    column: &str,
    adds: &[&TableWrite<'_>],
    context: &Context<'_>,
    found: &mut Findings<'_>,
) {
    let adding = patterns(adds.iter().copied());
    let times: u64 = adding.iter().map(|(_, pattern)| pattern.count).sum();
    let partitions = context
        .window
        .tables
        .get(name)
        .map_or(0, |traffic| traffic.distinct_partitions.estimate());
    let each = times as f64 / partitions.max(1) as f64;
    if each < found.threshold(&ABOUT, &TIMES) {
        return;
    }
    // What is in a set or a map already is there once.
    let (each_one, at_most) = match is_list(table, column) {
        true => (Severity::Low, Severity::Medium),
        false => (Severity::Info, Severity::Low),
    };
    let impact = adding
        .iter()
        .fold(Impact::each(each_one).at_most(at_most), |impact, (_, pattern)| {
            impact.of(pattern)
        });
    let severity = context.severity(found, &impact);
    let title = format!(
        "Updates add to `{column}` of `{name}`{}, {} per partition, and no statement removes anything",
        often(times, context.watch_table(name)),
        match each.round() {
            1.0 => "once".to_owned(),
            _ => format!("{} times", number::decimal(each)),
        }
    );
    let finding = Finding::on_all(&ABOUT, severity, adding, context)
        .of_table(name)
        .about(column)
        .title(title)
        .first("partitions", partitions)
        .first("additions", times);
    found.push(finding);
}

const TIMES: Threshold = Threshold {
    name: "additions",
    unit: "per partition",
    default: 3.0,
    origin: "cqlens default: a collection that is set once per row does not grow",
};

const MANY_ITEMS: Threshold = Threshold {
    name: "many_elements",
    unit: "elements",
    default: 100.0,
    origin: "Cassandra documentation: collections are for small amounts of data; `items_per_collection` has no default",
};

const TOO_MANY_ITEMS: Threshold = Threshold {
    name: "too_many_elements",
    unit: "elements",
    default: 1_000.0,
    origin: "cqlens default: as many as the rows of a large page, but without paging",
};

const ABOUT: About = About {
    id: "growing-collection",
    group: "writes",
    summary: "Statements add to a collection and none removes from it, or they write one with many elements.",
    why: "\
        A collection is always read as a whole, even if a query needs one element, and has no paging: it is \
        meant for a few dozen elements. One that grows over time makes each read of its row slower, until it \
        does not fit into a response.",
    fix: "Store the elements as rows of a table, with a clustering column that distinguishes them: rows have \
        paging, ranges and individual TTLs. If the collection has a natural limit (the roles of a user), \
        there is nothing to do.",
    fix_in_short: "Rows, not elements",
    before: "UPDATE shop.users SET visited = visited + ? WHERE id = ?;",
    after: "INSERT INTO shop.visits_by_user (user, at, page) VALUES (?, ?, ?) USING TTL 7776000;",
    severity: "\
        From `additions` per partition in statements, if no statement removes elements, sets or deletes the \
        column, deletes rows or sets a TTL: low, medium at most, for lists; info, low at most, for sets and \
        maps, where the same element may be added repeatedly. Info for statements that write collections of \
        `many_elements` or more, low from `too_many_elements`, medium at most.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[TIMES, MANY_ITEMS, TOO_MANY_ITEMS],
    needs: "The schema, and all writes to the table: what another program removes is not seen. Elements are \
        counted in collections that are bound as a whole, from 32 on.",
    source: "Cassandra documentation on collections; guardrails `items_per_collection` and `collection_size` (4.1)",
    cause: Some(Cause::COLLECTIONS),
    quantity: Some(Quantity::new("elements per collection", Unit::Count, |pattern| {
        &pattern.collection_items
    })),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, run, run_with, write};
    use cqlens_cql::{plan::StatementKind, schema::Schema};

    const SCHEMA: &str = "
        CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
        CREATE TABLE shop.users (id int PRIMARY KEY, visited list<text>, roles set<text>, n int);";
    const ADD: &str = "UPDATE shop.users SET visited = visited + ? WHERE id = ?";

    fn found(updates: &[(&str, StatementKind)]) -> Vec<(Severity, String)> {
        let patterns = updates.iter().map(|(cql, kind)| write(cql, *kind, &[], 600));
        let mut window = amid(patterns);
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: "users".to_owned(),
        };
        let traffic = window.tables.entry(name).or_default();
        (0..100_u64).for_each(|user| {
            traffic
                .distinct_partitions
                .insert(user.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        });
        let schema = Schema::from_cql(SCHEMA).expect("a schema");
        let findings = run_with(&GrowingCollection, &window, &schema)
            .findings
            .into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn what_is_only_added_to_grows() {
        assert_eq!(
            found(&[(ADD, StatementKind::Update)]),
            [(
                Severity::Low,
                "Updates add to `visited` of `shop.users`, 10 a second, 6 times per partition, and no \
                    statement removes anything"
                    .to_owned()
            )]
        );
    }

    #[test]
    fn whole_collections_of_many_elements_are_found() {
        let of = |items| {
            let cql = "UPDATE shop.users SET roles = ? WHERE id = ?";
            let mut pattern = write(cql, StatementKind::Update, &[], 600);
            pattern.collection_items.record_n(items, 300);
            let findings = run(&GrowingCollection, &amid([pattern])).findings.into_iter();
            let told = findings.map(|finding| (finding.severity, finding.title));
            told.collect::<Vec<_>>()
        };
        assert_eq!(
            of(1_000),
            [(
                Severity::Low,
                "300 of 600 writes to `shop.users` replace a collection with one of 100 elements or more, \
                    up to 1,000"
                    .to_owned()
            )]
        );
        assert_eq!(of(999)[0].0, Severity::Info);
        assert_eq!(of(99), []);
    }

    #[test]
    fn what_is_removed_from_replaced_or_expires_does_not() {
        for bound in [
            "UPDATE shop.users SET visited = visited - ? WHERE id = ?",
            "UPDATE shop.users SET visited = ? WHERE id = ?",
            "UPDATE shop.users USING TTL 60 SET visited = visited + ? WHERE id = ?",
        ] {
            assert_eq!(
                found(&[(ADD, StatementKind::Update), (bound, StatementKind::Update)]),
                [],
                "{bound}"
            );
        }
        for bound in [
            "DELETE visited[?] FROM shop.users WHERE id = ?",
            "DELETE FROM shop.users WHERE id = ?",
        ] {
            assert_eq!(
                found(&[(ADD, StatementKind::Update), (bound, StatementKind::Delete)]),
                [],
                "{bound}"
            );
        }
        assert_eq!(
            found(&[("UPDATE shop.users SET n = ? WHERE id = ?", StatementKind::Update)]),
            []
        );
    }
}
