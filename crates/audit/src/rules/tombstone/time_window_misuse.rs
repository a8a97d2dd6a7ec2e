//! Tables that compact by time window and are written in ways that keep windows from being dropped.

use crate::{
    number,
    rules::{
        About, Context, Finding, Findings, Rule, Severity,
        application::{impact, sum},
        definition::{TIME_WINDOW, compaction},
        figures::{often, share},
        statement::{TableWrite, patterns, writes_by_table},
    },
};
use cqlens_cql::schema::{Table, TableName};

pub(in crate::rules) struct TimeWindowMisuse;

impl Rule for TimeWindowMisuse {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, writes) in writes_by_table(context) {
            let table = context.schema.table(&name.keyspace, &name.table);
            let Some(table) = table.filter(|table| compaction(table) == TIME_WINDOW) else {
                continue;
            };
            if let Some(finding) = deletes(found, &name, &writes, context) {
                found.push(finding);
            }
            if let Some(finding) = stays(found, (&name, table), &writes, context) {
                found.push(finding);
            }
        }
    }
}

/// Rows that are deleted one by one.
fn deletes(
    found: &Findings<'_>,
    name: &TableName,
    writes: &[TableWrite<'_>],
    context: &Context<'_>,
) -> Option<Finding> {
    let deletes = patterns(writes.iter().filter(|write| write.is_delete()));
    let times = sum(&deletes, |pattern| pattern.count);
    if times == 0 {
        return None;
    }
    let impact = impact(Severity::Low, &deletes).at_most(Severity::Medium);
    let title = format!(
        "Rows of `{name}` are deleted by statements, though it compacts by time window{}",
        often(times, context.window)
    );
    let severity = context.severity(found, &impact);
    let finding = Finding::on_all(&ABOUT, severity, deletes, context)
        .of_table(name)
        .about("deletes")
        .title(title)
        .first("deletes", times);
    Some(finding)
}

/// Rows without a TTL among others that have one.
fn stays(
    found: &Findings<'_>,
    (name, table): (&TableName, &Table),
    writes: &[TableWrite<'_>],
    context: &Context<'_>,
) -> Option<Finding> {
    if table.default_time_to_live() > 0 {
        return None;
    }
    let rows = || writes.iter().filter(|write| !write.is_delete());
    let expiring = patterns(rows().filter(|write| write.ttl().is_some()));
    let staying = patterns(rows().filter(|write| write.ttl().is_none()));
    let [expiring, times] = [&expiring, &staying].map(|writes| sum(writes, |pattern| pattern.count));
    if expiring == 0 || times == 0 {
        return None;
    }
    let impact = impact(Severity::Low, &staying).at_most(Severity::Medium);
    let title = format!(
        "{} of the writes to `{name}` have no TTL, and keep the others of their time window on disk",
        number::percent(share(times, times + expiring))
    );
    let severity = context.severity(found, &impact);
    let finding = Finding::on_all(&ABOUT, severity, staying, context)
        .of_table(name)
        .about("ttl")
        .title(title)
        .first("with_ttl", expiring)
        .first("without_ttl", times);
    Some(finding)
}

const ABOUT: About = About {
    id: "time-window-misuse",
    group: "tombstones",
    summary: "A table compacts by time window, and its rows are deleted by statements or do not all expire.",
    why: "\
        TimeWindowCompactionStrategy deletes an SSTable as a whole once all of it has expired. A tombstone lies in a later \
        window than the row that it deletes: the two never meet in one SSTable, and neither goes before its time. One \
        row without a TTL keeps its SSTable for ever, and SSTables of later windows with it where they overlap.",
    fix: "\
        Let all rows expire by one `default_time_to_live` and delete none of them. What must be deleted, or kept, belongs into \
        another table.",
    before: "-- compaction = {'class': 'TimeWindowCompactionStrategy'}\n\
             INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?) USING TTL ?;\nDELETE FROM shop.events WHERE sensor = ? AND at = ?;",
    after: "ALTER TABLE shop.events WITH default_time_to_live = 2592000;\nINSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?);",
    severity: "Low, medium at most.",
    thresholds: &[],
    needs: "The schema, and the statements' texts: the value of a TTL that is bound is not compared.",
    source: "Cassandra documentation, TimeWindowCompactionStrategy: TTL and out-of-order data",
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rules::testing::{amid, run_with, write};
    use crate::window::Pattern;
    use cqlens_cql::{plan::StatementKind, schema::Schema};

    fn titles(class: &str, patterns: impl IntoIterator<Item = Pattern>) -> Vec<String> {
        let schema = format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
             CREATE TABLE shop.events (sensor int, at timestamp, v int, PRIMARY KEY (sensor, at))
             WITH compaction = {{'class': '{class}'}};"
        );
        let schema = Schema::from_cql(&schema).unwrap();
        let judgement = run_with(&TimeWindowMisuse, &amid(patterns), &schema);
        judgement
            .findings
            .into_iter()
            .map(|finding| finding.title)
            .collect()
    }

    fn insert(using: &str, times: u64) -> Pattern {
        let cql = format!("INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?){using}");
        write(&cql, StatementKind::Insert, &[], times)
    }

    fn delete(times: u64) -> Pattern {
        let cql = "DELETE FROM shop.events WHERE sensor = ? AND at = ?";
        write(cql, StatementKind::Delete, &[], times)
    }

    #[test]
    fn deletes_and_rows_that_stay_are_found() {
        assert_eq!(
            titles(TIME_WINDOW, [insert(" USING TTL ?", 60), delete(60)]),
            [
                "Rows of `shop.events` are deleted by statements, though it compacts by time window, 1 a second"
            ]
        );
        assert_eq!(
            titles(TIME_WINDOW, [insert(" USING TTL ?", 75), insert("", 25)]),
            [
                "25 % of the writes to `shop.events` have no TTL, and keep the others of their time window on disk"
            ]
        );
    }

    #[test]
    fn one_ttl_and_other_strategies_are_fine() {
        let none = Vec::<String>::new();
        assert_eq!(titles(TIME_WINDOW, [insert(" USING TTL ?", 60)]), none);
        let both = [insert(" USING TTL ?", 60), insert("", 60), delete(60)];
        assert_eq!(titles("SizeTieredCompactionStrategy", both), none);
    }
}
