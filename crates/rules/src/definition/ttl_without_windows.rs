//! Time series that expire and are not compacted by time.

use super::{
    About, Findings, GROUP, LEVELED, Rule, SIZE_TIERED, Severity, Threshold, compaction, in_cql,
    is_time_series,
};
use crate::{
    Cause, Context, DefinitionPart, Finding,
    application::impact,
    figures::{is_steady, often, share},
    statement::{TableWrite, executions, patterns},
};
use cqlens_cql::schema::{Table, TableName};
use cqlens_window::number;

pub(crate) struct TtlWithoutWindows;

impl Rule for TtlWithoutWindows {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, table) in context.tables() {
            let by_size = [SIZE_TIERED, LEVELED].contains(&compaction(table));
            let writes = context.writes_to(&name);
            // Windows are not made for rows that are deleted one by one as well.
            let is_deleted_from = writes.iter().any(TableWrite::is_delete);
            if table.view.is_some() || !by_size || !is_time_series(table) || is_deleted_from {
                continue;
            }
            if table.default_time_to_live() > 0 {
                found.push(finding(&name, table, context));
            } else if let Some(finding) = by_statements(found, (&name, table), writes, context) {
                found.push(finding);
            }
        }
    }
}

/// A table whose rows expire by what statements say, nearly all of them. How long they live is in their values.
fn by_statements(
    found: &Findings<'_>,
    (name, table): (&TableName, &Table),
    writes: &[TableWrite<'_>],
    context: &Context<'_>,
) -> Option<Finding> {
    let expiring = || writes.iter().filter(|write| write.ttl().is_some());
    let (times, all) = (executions(expiring()), executions(writes));
    let is_steady = is_steady(found, times, context.watch_table(name));
    if !is_steady || share(times, all) < found.threshold(&ABOUT, &EXPIRING_SHARE) {
        return None;
    }
    let class = compaction(table);
    let title = format!(
        "The rows of `{name}` are in time order and written with a TTL, but {class} mixes old with new{}",
        often(times, context.watch_table(name))
    );
    let impact = impact(Severity::Low, &patterns(expiring())).at_most(Severity::Low);
    let severity = context.severity(found, &impact);
    let finding = Finding::on_all(&ABOUT, severity, patterns(expiring()), context)
        .of_table(name)
        .title(title)
        .first("compaction", class)
        .first("with_ttl", times)
        .first("with_ttl_share", share(times, all));
    Some(finding)
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
        "The rows of `{name}` are in time order and expire after {}, but {class} mixes old with new",
        number::seconds(ttl as f64)
    );
    Finding::on_definition(&ABOUT, Severity::Low, context)
        .of_table(name)
        .of_part(DefinitionPart::Option("default_time_to_live"))
        .title(title)
        .first("compaction", class)
        .first("default_time_to_live_seconds", ttl)
        .suggest([alter])
}

/// The window that cuts the lifetime of rows into about thirty.
pub(super) fn window(ttl: u64) -> (&'static str, u64) {
    const HOUR: u64 = 3_600;
    const DAY: u64 = 24 * HOUR;
    match ttl / 30 {
        seconds if seconds >= DAY => ("DAYS", seconds / DAY),
        seconds if seconds >= HOUR => ("HOURS", seconds / HOUR),
        seconds => ("MINUTES", (seconds / 60).max(1)),
    }
}

const EXPIRING_SHARE: Threshold = Threshold {
    name: "expiring_share",
    unit: "of the writes",
    default: 0.95,
    origin: "\
        cqlens default: a row that stays keeps a whole window on disk, so nearly all rows have to expire",
};

const ABOUT: About = About {
    id: "ttl-without-windows",
    group: GROUP,
    summary: "A time series expires, but is not compacted by time windows.",
    why: "\
        Size-tiered and leveled compaction put rows of different ages into one SSTable: expired rows go only \
        when that SSTable is compacted again, row by row, so that disks hold two or three times the live \
        data, and reads pass expired rows. With time windows, an SSTable holds rows of one age and is \
        deleted as a whole, without being read.",
    fix: "Use TimeWindowCompactionStrategy, with a window of about a thirtieth of the lifetime. It requires \
        rows that are written once, in time order, with one TTL, and neither deleted nor updated later.",
    fix_in_short: "Compact by time window",
    before: "CREATE TABLE shop.events (sensor int, at timestamp, v int, PRIMARY KEY (sensor, at))\n  WITH default_time_to_live = 2592000;\n\
             INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?);",
    after: "ALTER TABLE shop.events WITH compaction = {'class': 'TimeWindowCompactionStrategy',\n  'compaction_window_unit': 'DAYS', 'compaction_window_size': 1};\n\
            INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?);",
    severity: "\
        Low: by `default_time_to_live`, or if at least `expiring_share` of the writes have a TTL and come \
        steadily. Nothing if rows are also deleted one by one, or with UnifiedCompactionStrategy.",
    severities: &[Severity::Low],
    thresholds: &[EXPIRING_SHARE],
    needs: "The schema: `default_time_to_live` and a time as the first clustering column; else writes with \
        `USING TTL`.",
    source: "Cassandra documentation, TimeWindowCompactionStrategy: 20 to 30 windows",
    cause: Some(Cause::EXPIRY),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::in_file;
    use super::*;
    use crate::testing::{amid, run_in, write};
    use cqlens_cql::{plan::StatementKind, schema::Schema};
    use cqlens_window::Cluster;

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
            "The rows of `shop.events` are in time order and expire after 30 days, but \
                SizeTieredCompactionStrategy mixes old with new"
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
    fn statements_may_say_that_rows_expire() {
        let schema = format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': 3}}; {}",
            events("comment = ''")
        );
        let schema = Schema::from_cql(&schema).unwrap();
        let found = |with: u64, without: u64| {
            let insert = "INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?)";
            let expiring = format!("{insert} USING TTL ?");
            let writes = [(expiring.as_str(), with), (insert, without)];
            let writes = writes.map(|(cql, times)| write(cql, StatementKind::Insert, &[], times));
            let (window, cluster) = (amid(writes), Cluster::default());
            let context = Context::new(&window, &schema, &cluster).of_whole_schema();
            let findings = run_in(&TtlWithoutWindows, &context).findings.into_iter();
            findings.map(|finding| finding.title).collect::<Vec<_>>()
        };
        assert_eq!(
            found(95, 5),
            [
                "The rows of `shop.events` are in time order and written with a TTL, but \
                 SizeTieredCompactionStrategy mixes old with new, 1.6 a second"
            ]
        );
        assert_eq!(found(94, 6), Vec::<String>::new());
        assert_eq!(found(9, 0), Vec::<String>::new());
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
