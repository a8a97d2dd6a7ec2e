//! Tables whose writes keep materialized views up to date.

use std::collections::BTreeMap;

use super::{About, Findings, GROUP, Rule, Severity, Threshold};
use crate::{
    Cause, Context, DefinitionPart, Finding,
    application::{impact, sum},
    figures::often,
    statement::patterns,
};
use cqlens_cql::schema::TableName;
use cqlens_window::number;

pub(crate) struct MaterializedViewWrite;

impl Rule for MaterializedViewWrite {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let mut views: BTreeMap<TableName, Vec<&str>> = BTreeMap::new();
        for (name, table) in context.tables() {
            if let Some(base) = table.base() {
                let base = TableName {
                    keyspace: name.keyspace,
                    table: base.to_owned(),
                };
                views.entry(base).or_default().push(&table.name);
            }
        }
        for (base, views) in views {
            let writes = context.writes_to(&base);
            let several = views.len() as f64 > found.threshold(&ABOUT, &FEW_VIEWS);
            let each = match (several, context.is_scylladb()) {
                (true, false) => Severity::Medium,
                (true, true) | (false, false) => Severity::Low,
                (false, true) => Severity::Info,
            };
            let on = patterns(writes);
            let times = sum(&on, |pattern| pattern.count);
            let severity = context.severity(found, &impact(each, &on).at_most(Severity::Medium));
            let deleting = patterns(writes.iter().filter(|write| write.is_delete()));
            let last = views.last().map_or_else(String::new, |view| (*view).to_owned());
            let finding = Finding::on_all(&ABOUT, severity, on, context)
                .of_table(&base)
                .of_part(DefinitionPart::View(last))
                .title(title(&base, &views, times, context))
                .first("deletes", sum(&deleting, |pattern| pattern.count))
                .first("writes", times)
                .first("views", views.len() as u64);
            found.push(finding);
        }
    }
}

fn title(base: &TableName, views: &[&str], times: u64, context: &Context<'_>) -> String {
    let number = number::plural(views.len() as u64, "materialized view", "materialized views");
    if times == 0 {
        return format!("Each write to `{base}` has to keep {number} up to date");
    }
    format!(
        "Each write to `{base}` reads the row first to keep {number} up to date{}",
        often(times, context.watch_table(base))
    )
}

const FEW_VIEWS: Threshold = Threshold {
    name: "few_views",
    unit: "views on one table",
    default: 2.0,
    origin: "cqlens default: with three, one write becomes seven reads and writes on each replica",
};

const ABOUT: About = About {
    id: "materialized-view-write",
    group: GROUP,
    summary: "Writes to a table keep materialized views up to date.",
    why: "For each write, every replica of the base table locks the partition, reads the old row, writes the \
        new one, and sends an update to a replica of each view: a delete of the old row and a write of the \
        new one if a key column of the view has changed, so that views on frequently changing columns are \
        full of tombstones. If an update is lost, view and base table diverge, and no repair of the base \
        table detects it; Cassandra calls views experimental and has disabled them by default since 4.0.",
    fix: "Write the second table from the application, in one logged batch with the base row, where the cost \
        is visible. Keep a view for columns that never change, on tables with few writes.",
    fix_in_short: "A table instead",
    before: "CREATE MATERIALIZED VIEW shop.users_by_city AS\n  SELECT * FROM shop.users WHERE city IS NOT NULL AND id IS NOT NULL\n  \
             PRIMARY KEY (city, id);\nUPDATE shop.users SET city = ? WHERE id = ?;",
    after: "BEGIN BATCH\n  UPDATE shop.users SET city = ? WHERE id = ?;\n  INSERT INTO shop.users_by_city (city, id, name) VALUES (?, ?, ?);\n  \
            DELETE FROM shop.users_by_city WHERE city = ? AND id = ?;\nAPPLY BATCH;",
    severity: "\
        Low, medium with more than `few_views` on one table, and never more; one step less on ScyllaDB, \
        where views are not experimental.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[FEW_VIEWS],
    needs: "The schema; the writes to the base table, for their cost.",
    source: "cassandra.yaml `materialized_views_enabled`: false; guardrail `materialized_views_per_table` (4.1); CASSANDRA-13959",
    cause: Some(Cause::VIEWS),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::in_file;
    use super::*;
    use crate::testing::{amid, run_with, write};
    use cqlens_cql::{plan::StatementKind, schema::Schema};

    fn schema(views: usize) -> String {
        let views = (0..views).map(|n| {
            format!(
                "CREATE MATERIALIZED VIEW shop.by_city{n} AS SELECT * FROM shop.users
                 WHERE city IS NOT NULL AND id IS NOT NULL PRIMARY KEY (city, id);"
            )
        });
        format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': 3}};
             CREATE TABLE shop.users (id int PRIMARY KEY, city text); {}",
            views.collect::<String>()
        )
    }

    #[test]
    fn the_number_of_views_counts_in_a_file() {
        let found = |views| {
            let found = in_file(&MaterializedViewWrite, &schema(views));
            found.first().map(|finding| finding.severity)
        };
        assert_eq!(found(0), None);
        assert_eq!(found(1), Some(Severity::Low));
        assert_eq!(found(3), Some(Severity::Medium));
    }

    #[test]
    fn writes_of_the_base_count_in_traffic() {
        let cql = "UPDATE shop.users SET city = ? WHERE id = ?";
        let mut window = amid([write(cql, StatementKind::Update, &[], 60)]);
        let users = TableName {
            keyspace: "shop".to_owned(),
            table: "users".to_owned(),
        };
        window.count_table(&users, |table| table.writes = 60);
        let found = run_with(
            &MaterializedViewWrite,
            &window,
            &Schema::from_cql(&schema(1)).unwrap(),
        );
        assert_eq!(
            found.findings[0].title,
            "Each write to `shop.users` reads the row first to keep 1 materialized view up to date, 1 a \
                second"
        );
        assert_eq!(found.findings[0].severity, Severity::Low);
    }
}
