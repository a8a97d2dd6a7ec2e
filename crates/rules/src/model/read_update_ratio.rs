//! Tables whose rows are updated far more often than they are read: a number for those who decide what to
//! copy.

use std::collections::BTreeMap;

use crate::{
    About, Context, Finding, Findings, Rule, Severity, Threshold,
    figures::{is_steady, share},
    statement::{executions, patterns},
};
use cqlens_cql::{plan::Flag, schema::TableName};
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct ReadUpdateRatio;

impl Rule for ReadUpdateRatio {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let many = found.threshold(&ABOUT, &UPDATES_PER_READ);
        for (name, updates) in by_table(context) {
            let reads = context
                .window
                .tables
                .get(&name)
                .map_or(0, |traffic| traffic.reads);
            let is_steady = is_steady(found, updates.count, context.watch_table(&name));
            // What is never read has no ratio: see `unused-table`.
            if reads > 0 && is_steady && share(updates.count, reads) >= many {
                found.push(finding(&name, updates, reads, context));
            }
        }
    }
}

/// The UPDATEs of a table, but for counters: those are added to, not changed.
#[derive(Default)]
struct Updates<'a> {
    count: u64,
    patterns: Vec<(PatternId, &'a Pattern)>,
}

fn by_table<'a>(context: &Context<'a>) -> BTreeMap<TableName, Updates<'a>> {
    let tables = context.writes().iter().map(|(name, writes)| {
        let updates = || {
            let writes = writes.iter();
            writes.filter(|write| write.is_update() && !write.pattern.is(Flag::Counter))
        };
        let updates = Updates {
            count: executions(updates()),
            patterns: patterns(updates()),
        };
        (name.clone(), updates)
    });
    tables.filter(|(_, updates)| updates.count > 0).collect()
}

fn finding(name: &TableName, updates: Updates<'_>, reads: u64, context: &Context<'_>) -> Finding {
    let ratio = share(updates.count, reads);
    let title = format!(
        "Rows of `{name}` are updated {} times for each read: copies in other tables would be written \
            more often than read",
        number::decimal(ratio)
    );
    let count = updates.count;
    Finding::on_all(&ABOUT, Severity::Info, updates.patterns, context)
        .of_table(name)
        .title(title)
        .first("reads_of_the_table", reads)
        .first("updates", count)
        .first("updates_per_read", (ratio * 10.0).round() / 10.0)
}

const UPDATES_PER_READ: Threshold = Threshold {
    name: "updates_per_read",
    unit: "UPDATEs per read",
    default: 10.0,
    origin: "cqlens default: high enough for the conclusion to be safe",
};

const ABOUT: About = About {
    id: "read-update-ratio",
    group: "model",
    summary: "The rows of a table are updated far more often than they are read.",
    why: "\
        Denormalising pays off if reads are many and changes are few: a copy in another table saves a lookup \
        for each read, and costs a write for each change. If changes outnumber reads, the reverse is true: \
        looking up the row by its key costs less than keeping its copies up to date.",
    fix: "Nothing to fix. Do not copy frequently changing columns into other tables; look them up by key. If \
        only a few columns change all the time, move those into a table of their own.",
    fix_in_short: "Keep the join",
    before: "UPDATE shop.users SET last_seen = ? WHERE id = ?;  -- 500 a second\nSELECT * FROM shop.users WHERE id = ?;  -- 5 a second",
    after: "UPDATE shop.presence SET last_seen = ? WHERE user = ?;\nSELECT * FROM shop.users WHERE id = ?;",
    severity: "\
        Info, from `updates_per_read` UPDATEs per read, if UPDATEs come steadily. INSERTs and counters do \
        not count, because they add data.",
    severities: &[Severity::Info],
    thresholds: &[UPDATES_PER_READ],
    needs: "\
        Reads and writes of the same window; statements inside batches count once per batch and template.",
    source: "\
        Cassandra: The Definitive Guide, denormalization; Basic Rules of Cassandra Data Modeling (DataStax): \
        minimise the number of partitions read, and pay with writes",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::window;
    use super::*;
    use crate::testing::{run, write};
    use cqlens_cql::plan::StatementKind;

    fn judged(cql: &str, kind: StatementKind, flags: &[Flag], times: u64, reads: u64) -> Vec<Finding> {
        let pattern = write(cql, kind, flags, times);
        run(&ReadUpdateRatio, &window(1, (reads, times), [pattern])).findings
    }

    const UPDATE: &str = "UPDATE shop.users SET city = ? WHERE id = ?";

    #[test]
    fn ten_updates_for_each_read_are_worth_knowing() {
        let of = |times, reads| judged(UPDATE, StatementKind::Update, &[], times, reads).len();
        assert_eq!((of(600, 60), of(599, 60), of(600, 0), of(59, 1)), (1, 0, 0, 0));
    }

    #[test]
    fn inserts_and_counters_add_and_do_not_change() {
        let insert = "INSERT INTO shop.users (id) VALUES (?)";
        assert_eq!(judged(insert, StatementKind::Insert, &[], 600, 1), []);
        let counter = "UPDATE shop.users SET age = age + 1 WHERE id = ?";
        assert_eq!(
            judged(counter, StatementKind::Update, &[Flag::Counter], 600, 1),
            []
        );
    }

    #[test]
    fn the_title_has_the_ratio() {
        let findings = judged(UPDATE, StatementKind::Update, &[], 720, 60);
        assert_eq!(findings[0].severity, Severity::Info);
        assert!(
            findings[0]
                .title
                .starts_with("Rows of `shop.users` are updated 12 times for each read"),
            "{}",
            findings[0].title
        );
    }
}
