//! Tables that compact by time window and are written in ways that keep windows from being dropped.

use crate::{
    About, Cause, Context, Finding, Findings, Rule, Severity,
    application::{impact, sum},
    definition::{TIME_WINDOW, compaction, window_seconds},
    figures::{is_steady, often, share},
    statement::{TableWrite, modifications, patterns},
};
use cqlens_cql::{
    schema::{Table, TableName},
    syntax::ast::{Modification, Statement, Term},
};
use cqlens_window::number;

pub(crate) struct TimeWindowMisuse;

impl Rule for TimeWindowMisuse {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, writes) in context.writes() {
            let table = context.schema.table(&name.keyspace, &name.table);
            let Some(table) = table.filter(|table| compaction(table) == TIME_WINDOW) else {
                continue;
            };
            let findings = [
                deletes(found, name, writes, context),
                updates(found, name, writes, context),
                ttls(found, (name, table), writes, context),
                late(found, (name, table), writes, context),
            ];
            findings
                .into_iter()
                .flatten()
                .for_each(|finding| found.push(finding));
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
        "Rows of `{name}` are deleted by statements, although the table uses time window compaction{}",
        often(times, context.watch_table(name))
    );
    let severity = context.severity(found, &impact);
    let finding = Finding::on_all(&ABOUT, severity, deletes, context)
        .of_table(name)
        .about("deletes")
        .title(title)
        .first("deletes", times);
    Some(finding)
}

/// Rows that are written by INSERT and changed later. Where there are no INSERTs, UPDATEs write the rows.
fn updates(
    found: &Findings<'_>,
    name: &TableName,
    writes: &[TableWrite<'_>],
    context: &Context<'_>,
) -> Option<Finding> {
    let updates = patterns(writes.iter().filter(|write| write.is_update()));
    let times = sum(&updates, |pattern| pattern.count);
    let has_inserts = writes.iter().any(TableWrite::is_insert);
    if !has_inserts || !is_steady(found, times, context.watch_table(name)) {
        return None;
    }
    // How long after the row is not known: a minute later it is the same window.
    let impact = impact(Severity::Info, &updates).at_most(Severity::Low);
    let title = format!(
        "Rows of `{name}` are updated after their insert, although the table uses time window compaction{}",
        often(times, context.watch_table(name))
    );
    let severity = context.severity(found, &impact);
    let finding = Finding::on_all(&ABOUT, severity, updates, context)
        .of_table(name)
        .about("updates")
        .title(title)
        .first("updates", times);
    Some(finding)
}

/// Rows that do not all expire by the TTL of the table, or by one that each is given.
fn ttls(
    found: &Findings<'_>,
    (name, table): (&TableName, &Table),
    writes: &[TableWrite<'_>],
    context: &Context<'_>,
) -> Option<Finding> {
    match table.default_time_to_live() {
        0 => stays(found, name, writes, context),
        ttl => differs(found, (name, ttl), writes, context),
    }
}

/// Rows with a TTL of their own beside that of the table, which may be the same.
fn differs(
    found: &Findings<'_>,
    (name, ttl): (&TableName, u64),
    writes: &[TableWrite<'_>],
    context: &Context<'_>,
) -> Option<Finding> {
    let rows = || writes.iter().filter(|write| !write.is_delete());
    let own = patterns(rows().filter(|write| write.ttl().is_some()));
    let [times, all] = [&own, &patterns(rows())].map(|writes| sum(writes, |pattern| pattern.count));
    if times == 0 || context.text().is_some_and(|text| has_ttl(text, ttl)) {
        return None;
    }
    let who = match context.is_text() {
        true => format!("This write to `{name}` sets its"),
        false => format!(
            "{} of the writes to `{name}` set their",
            number::percent(share(times, all))
        ),
    };
    let title = format!(
        "{who} own TTL, not the table's of {}: a time window is dropped only after the longest TTL",
        number::seconds(ttl as f64)
    );
    let severity = context.severity(found, &impact(Severity::Info, &own).at_most(Severity::Info));
    let finding = Finding::on_all(&ABOUT, severity, own, context)
        .of_table(name)
        .about("ttl")
        .title(title)
        .first("default_time_to_live_seconds", ttl)
        .first("with_ttl", times);
    Some(finding)
}

/// Whether the statement, or each one of its batch, gives its rows this TTL, or none.
fn has_ttl(text: &Statement<'_>, ttl: u64) -> bool {
    let is_same = |term: &Term<'_>| match term {
        Term::Literal(literal) => literal.text.parse() == Ok(ttl),
        _ => false,
    };
    let writes = modifications(text);
    let mut ttls = writes.iter().filter_map(|write| match write {
        Modification::Insert(insert) => insert.using.ttl.as_ref(),
        Modification::Update(update) => update.using.ttl.as_ref(),
        Modification::Delete(_) => None,
    });
    ttls.all(is_same)
}

/// Rows whose timestamp lies in a window that has passed.
fn late(
    found: &Findings<'_>,
    (name, table): (&TableName, &Table),
    writes: &[TableWrite<'_>],
    context: &Context<'_>,
) -> Option<Finding> {
    let window = window_us(table);
    let is_late = |write: &&TableWrite<'_>| write.pattern.write_times.most_behind_us > window;
    let late = patterns(writes.iter().filter(is_late));
    let most = late
        .iter()
        .map(|(_, pattern)| pattern.write_times.most_behind_us)
        .max()?;
    // Counted from an hour and from a day on: of other windows it is the nearest that is known.
    let times = sum(&late, |pattern| match window < DAY_US {
        true => pattern.write_times.behind,
        false => pattern.write_times.day_behind,
    });
    let impact = impact(Severity::Low, &late)
        .times(times)
        .at_most(Severity::Medium);
    let title = format!(
        "Writes to `{name}` carry timestamps up to {} in the past, but a time window covers {}{}",
        number::seconds((most / 1_000_000) as f64),
        number::seconds((window / 1_000_000) as f64),
        often(times, context.watch_table(name))
    );
    let severity = context.severity(found, &impact);
    let finding = Finding::on_all(&ABOUT, severity, late, context)
        .of_table(name)
        .about("timestamps")
        .title(title)
        .first("most_behind_us", most)
        .first("late", times);
    Some(finding)
}

const DAY_US: u64 = 86_400_000_000;

/// How long a time window of the table is, in microseconds.
fn window_us(table: &Table) -> u64 {
    window_seconds(table).saturating_mul(1_000_000)
}

/// Rows without a TTL among others that have one.
fn stays(
    found: &Findings<'_>,
    name: &TableName,
    writes: &[TableWrite<'_>],
    context: &Context<'_>,
) -> Option<Finding> {
    let rows = || writes.iter().filter(|write| !write.is_delete());
    let expiring = patterns(rows().filter(|write| write.ttl().is_some()));
    let staying = patterns(rows().filter(|write| write.ttl().is_none()));
    let [expiring, times] = [&expiring, &staying].map(|writes| sum(writes, |pattern| pattern.count));
    if expiring == 0 || times == 0 {
        return None;
    }
    let impact = impact(Severity::Low, &staying).at_most(Severity::Medium);
    let who = match context.is_text() {
        true => format!("Some writes of this batch to `{name}`"),
        false => format!(
            "{} of the writes to `{name}`",
            number::percent(share(times, times + expiring))
        ),
    };
    let title = format!("{who} have no TTL and keep the rest of their time window on disk");
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
    summary: "\
        A table uses time window compaction, but its rows are deleted, updated, written late, or expire at \
        different ages.",
    why: "\
        TimeWindowCompactionStrategy drops an SSTable as a whole once all of it has expired. A tombstone is \
        in a later window than the row that it deletes: the two are never compacted together, and neither is \
        removed before its time. One row without a TTL keeps its SSTable forever, and overlapping SSTables \
        of later windows with it. An update, or a write with a timestamp in the past, spreads a row over \
        several windows, or puts rows of several ages into one: reads open more SSTables, and expired rows \
        stay until their whole SSTable has expired.",
    fix: "\
        Let all rows expire by one `default_time_to_live`, write each row once and on time, and delete none. \
        Put data that must be changed, deleted or kept into another table.",
    fix_in_short: "Change the compaction",
    before: "-- compaction = {'class': 'TimeWindowCompactionStrategy'}\n\
             INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?) USING TTL ?;\nDELETE FROM shop.events WHERE sensor = ? AND at = ?;",
    after: "ALTER TABLE shop.events WITH default_time_to_live = 2592000;\nINSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?);",
    severity: "\
        Low, medium at most. Info, low at most, for updates that come steadily, because they may fall into \
        the same window; info for a TTL in the statement, which may equal the table's.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "\
        The schema, the statements' texts, and their timestamps compared with the clock of cqlens, from an \
        hour in the past. The value of a TTL is not compared.",
    source: "Cassandra documentation, TimeWindowCompactionStrategy: TTL and out-of-order data",
    cause: Some(Cause::EXPIRY),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, run_with, write};
    use cqlens_cql::{plan::StatementKind, schema::Schema};
    use cqlens_window::{Pattern, WriteTimes};

    fn titles(class: &str, patterns: impl IntoIterator<Item = Pattern>) -> Vec<String> {
        of_table(&format!("compaction = {{'class': '{class}'}}"), patterns)
    }

    fn of_table(options: &str, patterns: impl IntoIterator<Item = Pattern>) -> Vec<String> {
        let schema = format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
             CREATE TABLE shop.events (sensor int, at timestamp, v int, PRIMARY KEY (sensor, at))
             WITH {options};"
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
                "Rows of `shop.events` are deleted by statements, although the table uses time window \
                    compaction, 1 a second"
            ]
        );
        assert_eq!(
            titles(TIME_WINDOW, [insert(" USING TTL ?", 75), insert("", 25)]),
            [
                "25 % of the writes to `shop.events` have no TTL and keep the rest of their time window \
                    on disk"
            ]
        );
    }

    #[test]
    fn rows_are_updated_where_others_are_inserted() {
        let update = |times| {
            let cql = "UPDATE shop.events SET v = ? WHERE sensor = ? AND at = ?";
            write(cql, StatementKind::Update, &[], times)
        };
        assert_eq!(
            titles(TIME_WINDOW, [insert("", 600), update(60)]),
            [
                "Rows of `shop.events` are updated after their insert, although the table uses time \
                    window compaction, 1 a second"
            ]
        );
        assert_eq!(
            titles(TIME_WINDOW, [update(60)]),
            Vec::<String>::new(),
            "these write the rows"
        );
        assert_eq!(
            titles(TIME_WINDOW, [insert("", 600), update(9)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_ttl_beside_that_of_the_table_may_differ() {
        let options =
            "default_time_to_live = 86400 AND compaction = {'class': 'TimeWindowCompactionStrategy'}";
        assert_eq!(
            of_table(options, [insert(" USING TTL ?", 75), insert("", 25)]),
            [
                "75 % of the writes to `shop.events` set their own TTL, not the table's of 1 day: a time \
                 window is dropped only after the longest TTL"
            ]
        );
        assert_eq!(of_table(options, [insert("", 25)]), Vec::<String>::new());
    }

    #[test]
    fn timestamps_of_a_window_that_has_passed_are_late() {
        let of = |window: &str, behind_us| {
            let mut late = insert(" USING TIMESTAMP ?", 60);
            late.write_times = WriteTimes {
                behind: 60,
                day_behind: if behind_us >= DAY_US { 60 } else { 0 },
                most_behind_us: behind_us,
                ..WriteTimes::default()
            };
            let options = format!("compaction = {{'class': 'TimeWindowCompactionStrategy'{window}}}");
            of_table(&options, [late])
        };
        assert_eq!(
            of("", 2 * DAY_US),
            [
                "Writes to `shop.events` carry timestamps up to 2 days in the past, but a time window \
                    covers 1 day, 1 a second"
            ]
        );
        let hours = ", 'compaction_window_unit': 'HOURS', 'compaction_window_size': '6'";
        assert_eq!(of(hours, DAY_US / 2).len(), 1);
        assert_eq!(of("", DAY_US / 2), Vec::<String>::new());
        assert_eq!(of(hours, DAY_US / 4), Vec::<String>::new());
    }

    #[test]
    fn one_ttl_and_other_strategies_are_fine() {
        let none = Vec::<String>::new();
        assert_eq!(titles(TIME_WINDOW, [insert(" USING TTL ?", 60)]), none);
        let both = [insert(" USING TTL ?", 60), insert("", 60), delete(60)];
        assert_eq!(titles("SizeTieredCompactionStrategy", both), none);
    }
}
