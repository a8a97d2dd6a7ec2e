//! Time series that expire and are not compacted by time.

use super::{
    About, Findings, GROUP, LEVELED, Rule, SIZE_TIERED, Severity, compaction, in_cql, is_time_series,
};
use crate::{
    number,
    rules::{
        Context, Finding,
        figures::user_writes,
        statement::{modifications, written},
    },
};
use cqlens_cql::{
    schema::{Table, TableName},
    syntax::ast::Modification,
};

pub(in crate::rules) struct TtlWithoutWindows;

impl Rule for TtlWithoutWindows {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, table) in context.tables() {
            let expires = table.default_time_to_live() > 0 && table.view.is_none();
            let by_size = [SIZE_TIERED, LEVELED].contains(&compaction(table));
            if expires && by_size && is_time_series(table) && !is_deleted_from(&name, context) {
                found.push(finding(&name, table, context));
            }
        }
    }
}

/// Whether rows are deleted one by one as well, which windows are not made for.
fn is_deleted_from(name: &TableName, context: &Context<'_>) -> bool {
    user_writes(context).any(|(id, pattern)| {
        let statement = context.statement(id);
        let all = statement
            .map(|statement| modifications(&statement))
            .unwrap_or_default();
        all.iter().any(|one| {
            matches!(one, Modification::Delete(_))
                && written(one, pattern.head.keyspace.as_deref()).as_ref() == Some(name)
        })
    })
}

fn finding(name: &TableName, table: &Table, context: &Context<'_>) -> Finding {
    let ttl = table.default_time_to_live();
    let class = compaction(table);
    let (unit, size) = window(ttl);
    let alter = format!(
        "ALTER TABLE {} WITH compaction = {{'class': 'TimeWindowCompactionStrategy', \
         'compaction_window_unit': '{unit}', 'compaction_window_size': {size}}};",
        in_cql(name)
    );
    let title = format!(
        "The rows of `{name}` are in the order of time and expire after {}, but {class} mixes old with new",
        number::seconds(ttl as f64)
    );
    Finding::on_definition(&ABOUT, Severity::Low, context)
        .of_table(name)
        .title(title)
        .first("compaction", class)
        .first("default_time_to_live_seconds", ttl)
        .suggest([alter])
}

/// The window that cuts the lifetime of rows into about thirty.
fn window(ttl: u64) -> (&'static str, u64) {
    const HOUR: u64 = 3_600;
    const DAY: u64 = 24 * HOUR;
    match ttl / 30 {
        seconds if seconds >= DAY => ("DAYS", seconds / DAY),
        seconds if seconds >= HOUR => ("HOURS", seconds / HOUR),
        seconds => ("MINUTES", (seconds / 60).max(1)),
    }
}

const ABOUT: About = About {
    id: "ttl-without-windows",
    group: GROUP,
    summary: "A time series expires, and is not compacted by time windows.",
    why: "\
        Size-tiered and leveled compaction put rows of different age into one SSTable: what has expired goes only when \
        that SSTable is compacted again, row by row, so that disks hold two or three times what lives, and reads pass what has \
        expired. With time windows an SSTable holds rows of one age and is deleted as a whole, without being read.",
    fix: "\
        TimeWindowCompactionStrategy, with a window that is about a thirtieth of the lifetime. It wants rows that are \
        written once, in the order of time, with one TTL, and not deleted or updated later.",
    before: "CREATE TABLE shop.events (sensor int, at timestamp, v int, PRIMARY KEY (sensor, at))\n  WITH default_time_to_live = 2592000;\n\
             INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?);",
    after: "ALTER TABLE shop.events WITH compaction = {'class': 'TimeWindowCompactionStrategy',\n  'compaction_window_unit': 'DAYS', 'compaction_window_size': 1};\n\
            INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?);",
    severity: "Low. Nothing where rows are deleted one by one as well, or with UnifiedCompactionStrategy.",
    thresholds: &[],
    needs: "The schema: `default_time_to_live` and a first clustering column that is a time.",
    source: "Cassandra documentation, TimeWindowCompactionStrategy: 20 to 30 windows",
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::in_file;
    use super::*;

    fn events(options: &str) -> String {
        format!(
            "CREATE TABLE shop.events (sensor int, at timestamp, v int, PRIMARY KEY (sensor, at)) WITH {options};"
        )
    }

    #[test]
    fn a_time_series_that_expires_wants_windows() {
        let found = in_file(&TtlWithoutWindows, &events("default_time_to_live = 2592000"));
        assert_eq!(
            found[0].title,
            "The rows of `shop.events` are in the order of time and expire after 30 days, but SizeTieredCompactionStrategy mixes old with new"
        );
        assert_eq!(
            found[0].suggested_cql,
            [
                "ALTER TABLE shop.events WITH compaction = {'class': 'TimeWindowCompactionStrategy', \
              'compaction_window_unit': 'DAYS', 'compaction_window_size': 1};"
            ]
        );
        let leveled =
            events("default_time_to_live = 60 AND compaction = {'class': 'LeveledCompactionStrategy'}");
        assert_eq!(in_file(&TtlWithoutWindows, &leveled).len(), 1);
    }

    #[test]
    fn windows_other_tables_and_tables_that_stay_are_fine() {
        for options in [
            "comment = ''",
            "default_time_to_live = 60 AND compaction = {'class': 'TimeWindowCompactionStrategy'}",
            "default_time_to_live = 60 AND compaction = {'class': 'UnifiedCompactionStrategy'}",
        ] {
            assert_eq!(in_file(&TtlWithoutWindows, &events(options)), [], "{options}");
        }
        let by_id = "CREATE TABLE shop.sessions (id uuid PRIMARY KEY) WITH default_time_to_live = 60;";
        assert_eq!(in_file(&TtlWithoutWindows, by_id), []);
    }
}
