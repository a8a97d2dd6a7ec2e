//! Time windows that never end, or of which there are thousands.

use super::{
    About, Findings, GROUP, Rule, Severity, TIME_WINDOW, Threshold, compaction, in_cql,
    ttl_without_windows::window, window_seconds,
};
use crate::{Context, DefinitionPart, Finding, statement::TableWrite};
use cqlens_cql::schema::{Table, TableName};
use cqlens_window::number;

pub(crate) struct TimeWindowSettings;

impl Rule for TimeWindowSettings {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let by_window = context
            .tables()
            .filter(|(_, table)| compaction(table) == TIME_WINDOW);
        for (name, table) in by_window {
            let finding = match table.default_time_to_live() {
                0 => without_ttl(&name, context),
                ttl => many(found, (&name, table), ttl, context),
            };
            finding.into_iter().for_each(|finding| found.push(finding));
        }
    }
}

/// Statements may give each row its own TTL.
fn without_ttl(name: &TableName, context: &Context<'_>) -> Option<Finding> {
    let writes = context.writes_to(name);
    if writes.iter().any(|write: &TableWrite<'_>| write.ttl().is_some()) {
        return None;
    }
    let title = format!("`{name}` uses time window compaction but has no TTL: no window is ever dropped");
    let finding = Finding::on_definition(&ABOUT, Severity::Low, context)
        .of_table(name)
        .of_part(DefinitionPart::Option("compaction"))
        .about("ttl")
        .title(title)
        .advice(WITHOUT_TTL);
    Some(finding)
}

fn many(
    found: &Findings<'_>,
    (name, table): (&TableName, &Table),
    ttl: u64,
    context: &Context<'_>,
) -> Option<Finding> {
    let windows = ttl / window_seconds(table).max(1);
    let reaches = |threshold: &Threshold| windows as f64 >= found.threshold(&ABOUT, threshold);
    let severity = if reaches(&TOO_MANY) {
        Severity::Medium
    } else if reaches(&MANY) {
        Severity::Low
    } else {
        return None;
    };
    let (unit, size) = window(ttl);
    let alter = format!(
        "ALTER TABLE {} WITH compaction = {{'class': 'TimeWindowCompactionStrategy', \
         'compaction_window_unit': '{unit}', 'compaction_window_size': {size}}};",
        in_cql(name)
    );
    let title = format!(
        "Rows of `{name}` live for {} in windows of {}: {} of them, each at least one SSTable",
        number::seconds(ttl as f64),
        number::seconds(window_seconds(table) as f64),
        number::count(windows)
    );
    let finding = Finding::on_definition(&ABOUT, severity, context)
        .of_table(name)
        .of_part(DefinitionPart::Option("compaction"))
        .about("windows")
        .title(title)
        .first("default_time_to_live_seconds", ttl)
        .first("windows", windows)
        .suggest([alter]);
    Some(finding)
}

const MANY: Threshold = Threshold {
    name: "many",
    unit: "windows",
    default: 100.0,
    origin: "Cassandra documentation, TimeWindowCompactionStrategy: 20 to 30 windows; cqlens default: three times as many",
};

const TOO_MANY: Threshold = Threshold {
    name: "too_many",
    unit: "windows",
    default: 1_000.0,
    origin: "cqlens default: each window has an SSTable or more with its own files, filters and summaries",
};

/// Where a table has no TTL, and no statement sets one.
const WITHOUT_TTL: &str = "\
    Let rows expire (`default_time_to_live`, or `USING TTL` in all writes): time windows are made to be dropped as a whole \
    once all of their rows have expired. If rows are to stay, use another compaction: reads of a partition open one SSTable \
    of each window that it has rows in.";

const ABOUT: About = About {
    id: "time-window-settings",
    group: GROUP,
    summary: "A table compacts by time window and has no TTL, or far too many windows.",
    why: "\
        TimeWindowCompactionStrategy keeps at least one SSTable for each window and never compacts two windows \
        together. Without a TTL the number of SSTables grows forever; with windows of minutes and a TTL of months \
        there are thousands at any time. Each has its own files, bloom filter and index summary, and a read of a \
        whole partition opens one for each window.",
    fix: "Choose the window so that the TTL covers 20 to 30 of them.",
    fix_in_short: "20 to 30 windows",
    before: "\
        ALTER TABLE shop.events WITH default_time_to_live = 31536000 AND compaction = {\n  'class': 'TimeWindowCompactionStrategy',\n  'compaction_window_unit': 'MINUTES', 'compaction_window_size': 1};\n\
        SELECT * FROM shop.events WHERE sensor = ?;",
    after: "\
        ALTER TABLE shop.events WITH default_time_to_live = 31536000 AND compaction = {\n  'class': 'TimeWindowCompactionStrategy',\n  'compaction_window_unit': 'DAYS', 'compaction_window_size': 12};\n\
        SELECT * FROM shop.events WHERE sensor = ?;",
    severity: "Low without a TTL. By the number of windows: low from `many`, medium from `too_many`.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[MANY, TOO_MANY],
    needs: "The schema; the statements' texts, for a TTL of their own.",
    source: "Cassandra documentation, TimeWindowCompactionStrategy: choosing the window",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::in_file;
    use super::*;

    fn titles(options: &str) -> Vec<String> {
        let table = format!(
            "CREATE TABLE shop.events (sensor int, day date, at timestamp, PRIMARY KEY ((sensor, day), at))
             WITH compaction = {{'class': 'TimeWindowCompactionStrategy'{options};"
        );
        let found = in_file(&TimeWindowSettings, &table);
        found.into_iter().map(|finding| finding.title).collect()
    }

    #[test]
    fn windows_without_a_ttl_and_thousands_of_windows_are_found() {
        assert_eq!(
            titles("}"),
            ["`shop.events` uses time window compaction but has no TTL: no window is ever dropped"]
        );
        let minutes = ", 'compaction_window_unit': 'MINUTES', 'compaction_window_size': 1} \
                       AND default_time_to_live = 31536000";
        let found = titles(minutes);
        assert!(found[0].contains("525,600 of them"), "{found:?}");
    }

    #[test]
    fn thirty_windows_and_other_compactions_are_fine() {
        assert_eq!(titles("} AND default_time_to_live = 2592000"), [""; 0]);
        let other = "CREATE TABLE shop.t (k int PRIMARY KEY) WITH default_time_to_live = 2592000;";
        assert_eq!(in_file(&TimeWindowSettings, other), []);
    }
}
