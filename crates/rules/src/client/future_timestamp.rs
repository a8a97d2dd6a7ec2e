//! Writes whose timestamp is not the time at which they are written.

use std::collections::BTreeSet;

use super::{About, Findings, Patterns, Severity, Threshold, application, by_application, user_statements};
use crate::{
    Context, Finding, Rule,
    example::write_time,
    figures::{often, table},
    severity::Impact,
    statement::{modifications, written},
};
use cqlens_cql::schema::TableName;
use cqlens_window::{Pattern, WriteTimes, number};

pub(crate) struct FutureTimestamp;

impl Rule for FutureTimestamp {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let odd = |pattern: &Pattern| pattern.write_times.ahead + pattern.write_times.other_units > 0;
        let writes = user_statements(context).filter(|(_, pattern)| odd(pattern));
        if context.is_text() {
            writes.for_each(|(id, pattern)| {
                let title = format!(
                    "The timestamp of this write to {} is not in microseconds",
                    table(pattern)
                );
                let finding = Finding::on(&ABOUT, Severity::Medium, (id, pattern), context)
                    .title(title)
                    .fix_in_short("One unit of timestamps")
                    .advice(IN_TEXT);
                found.push(finding);
            });
            return;
        }
        for (application, patterns) in by_application(writes) {
            let (wrong_unit, ahead): (Patterns<'_>, _) = patterns
                .into_iter()
                .partition(|(_, pattern)| pattern.write_times.other_units > 0);
            if !wrong_unit.is_empty() {
                found.push(of_unit(found, (&application, wrong_unit), context));
            }
            if !ahead.is_empty() {
                found.push(of_clocks(found, (&application, ahead), context));
            }
        }
    }
}

/// A finding on timestamps in another unit: high where microseconds meet them in one table, since one of the two then
/// wins for good.
fn of_unit(
    found: &Findings<'_>,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let other_units = application::sum(&patterns, |pattern| pattern.write_times.other_units);
    let stated = application::sum(&patterns, |pattern| pattern.write_times.stated);
    let tables = written_tables(&patterns, context);
    let mixed = tables
        .iter()
        .filter(|table| has_microseconds(table, context))
        .count() as u64;
    let each = match mixed {
        0 => Severity::Medium,
        _ => Severity::High,
    };
    let severity = context.severity(found, &Impact::beside_cost(each, other_units));
    let (to, meets) = match tables.iter().collect::<Vec<_>>()[..] {
        [table] if mixed > 0 => (
            format!("`{table}`"),
            "; it is also written in microseconds".to_owned(),
        ),
        _ if mixed > 0 => (
            number::plural(tables.len() as u64, "table", "tables"),
            format!("; {} of them also get microseconds", number::count(mixed)),
        ),
        [table] => (format!("`{table}`"), String::new()),
        [] => (application::tables(&patterns), String::new()),
        _ => (
            number::plural(tables.len() as u64, "table", "tables"),
            String::new(),
        ),
    };
    let title = format!(
        "{} writes to {} with timestamps that are not in microseconds{}{meets}",
        application::subject(application, context),
        to,
        often(other_units, application::watch(&patterns, context))
    );
    let finding = application::finding(&ABOUT, severity, (application, patterns), context)
        .title(title)
        .fix_in_short("One unit of timestamps")
        .first("with_using_timestamp", stated)
        .first("tables_with_both_units", mixed)
        .first("not_microseconds", other_units);
    match mixed {
        0 => finding.advice(ONE_UNIT),
        _ => finding.advice(TWO_UNITS),
    }
}

/// The tables that these statements write, those inside batches included.
fn written_tables(patterns: &Patterns<'_>, context: &Context<'_>) -> BTreeSet<TableName> {
    let mut tables = BTreeSet::new();
    for (id, pattern) in patterns {
        let Some(statement) = context.statement(*id) else {
            continue;
        };
        let keyspace = pattern.head.keyspace.as_deref();
        let writes = modifications(&statement).into_iter();
        tables.extend(writes.filter_map(|write| written(&write, keyspace)));
    }
    tables
}

/// Whether a table gets writes whose timestamps are not in another unit.
fn has_microseconds(table: &TableName, context: &Context<'_>) -> bool {
    let mut writes = context.writes_to(table).iter();
    writes.any(|write| write.pattern.write_times.other_units < write.pattern.count)
}

/// A finding on timestamps in the future.
fn of_clocks(
    found: &Findings<'_>,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let ahead = application::sum(&patterns, |pattern| pattern.write_times.ahead);
    let stated = application::sum(&patterns, |pattern| pattern.write_times.stated);
    let most = most_ahead(&patterns);
    let each = match most as f64 >= found.threshold(&ABOUT, &FAR_AHEAD) * 1e6 {
        true => Severity::High,
        false => Severity::Medium,
    };
    let severity = context.severity(found, &Impact::beside_cost(each, ahead));
    let title = format!(
        "{} writes to {} with timestamps up to {} in the future{}",
        application::subject(application, context),
        application::tables(&patterns),
        number::seconds(most as f64 / 1e6),
        often(ahead, application::watch(&patterns, context))
    );
    application::finding(&ABOUT, severity, (application, patterns), context)
        .title(title)
        .first("with_using_timestamp", stated)
        .first("most_ahead_us", most)
        .first("ahead", ahead)
}

fn most_ahead(patterns: &Patterns<'_>) -> u64 {
    let most = patterns
        .iter()
        .map(|(_, pattern)| pattern.write_times.most_ahead_us);
    most.max().unwrap_or_default()
}

/// Where all writers use the same unit.
const ONE_UNIT: &str = "\
    Do not mix units: nothing is lost while all writers use the same one, but a single write or delete in \
    microseconds, from cqlsh, Spark or a migration, hides all later writes to its cells. Until the unit is \
    changed in all writers at once, never back, give every tool `USING TIMESTAMP` in the writers' unit.";

/// Where nothing is known of other writes.
const IN_TEXT: &str = "\
    Write `USING TIMESTAMP` in microseconds since 1970, or leave it out. Of two values, the one with the larger \
    timestamp wins: drivers and cqlsh write microseconds, so that a value in milliseconds or seconds is hidden by \
    any of theirs, even an older one or a delete.";

/// Where two units meet in one table.
const TWO_UNITS: &str = "\
    Use one unit, microseconds since 1970, in all writers of a table: change the timestamp generator of the \
    driver, or leave out `USING TIMESTAMP`. Of two values, the one in the smaller unit wins for good, \
    whichever was written last: compare `WRITETIME` of the rows, and write those that lost again.";

const FAR_AHEAD: Threshold = Threshold {
    name: "far_ahead_seconds",
    unit: "seconds",
    default: 60.0,
    origin: "\
        cassandra.yaml `maximum_timestamp_warn_threshold`, which is off by default: clocks do not drift by a \
        minute",
};

const ABOUT: About = About {
    id: "future-timestamp",
    group: "client habits",
    summary: "Writes carry timestamps in the future, or in a unit other than microseconds.",
    why: "Of two values for a cell, the one with the higher timestamp wins, whenever it arrived. A value \
        written with a timestamp in the future cannot be overwritten or deleted until that time has come, \
        and no error is raised; milliseconds instead of microseconds lose against every other write, \
        nanoseconds win for thousands of years.",
    fix: "Synchronise the clients' clocks (chrony, ntpd): drivers take timestamps from them. Leave `USING \
        TIMESTAMP` to jobs that replay history, in microseconds since 1970. To remove what was written with \
        a wrong timestamp, delete it with a timestamp at least as high.",
    fix_in_short: "Correct the clocks",
    before: "-- milliseconds\nINSERT INTO shop.orders (id, total) VALUES (?, ?) USING TIMESTAMP 1795000000000;",
    after: "-- the server or the driver sets the time\nINSERT INTO shop.orders (id, total) VALUES (?, ?);",
    severity: "\
        High from `far_ahead_seconds`, or if a table gets timestamps of two units, else medium: synchronised \
        clocks do not differ by more than a second, and one unit loses nothing as long as all writers use it. Cost does not matter, because writes are lost; one step less for a few writes.",
    severities: &[Severity::Medium, Severity::High],
    thresholds: &[FAR_AHEAD],
    needs: "The timestamps of requests or of `USING TIMESTAMP`, compared with the clock of cqlens.",
    source: "Cassandra guardrail `maximum_timestamp` (5.0); native protocol v4 §4.1.4, default timestamp",
    cause: None,
    quantity: None,
    rewrite: Some(|patterns, context| write_time::kept(patterns.first()?, context)),
};

const _: () = assert!(WriteTimes::TOLERATED_US == 1_000_000, "the page says a second");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, window, write};
    use cqlens_cql::plan::StatementKind;

    fn found(write_times: WriteTimes) -> Vec<(Severity, String)> {
        let cql = "INSERT INTO shop.orders (id, total) VALUES (?, ?)";
        let mut pattern = write(cql, StatementKind::Insert, &[], 60);
        pattern.write_times = write_times;
        let findings = run(&FutureTimestamp, &window([pattern])).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn the_future_is_medium_and_far_ahead_high_and_one_unit_is_medium() {
        let ahead = |most_ahead_us| WriteTimes {
            ahead: 60,
            most_ahead_us,
            ..WriteTimes::default()
        };
        assert_eq!(
            found(ahead(2_000_000)),
            [(
                Severity::Medium,
                "A client writes to `shop.orders` with timestamps up to 2 s in the future, 1 a minute"
                    .to_owned()
            )]
        );
        assert_eq!(found(ahead(3_600_000_000))[0].0, Severity::High);
        let other_units = WriteTimes {
            other_units: 60,
            ..WriteTimes::default()
        };
        assert_eq!(
            found(other_units),
            [(
                Severity::Medium,
                "A client writes to `shop.orders` with timestamps that are not in microseconds, 1 a minute"
                    .to_owned()
            )]
        );
    }

    #[test]
    fn two_units_in_one_table_are_high() {
        let mut of_unit = write(
            "INSERT INTO shop.orders (id, total) VALUES (?, ?)",
            StatementKind::Insert,
            &[],
            60,
        );
        of_unit.write_times.other_units = 60;
        let delete = write(
            "DELETE FROM shop.orders WHERE id = ?",
            StatementKind::Delete,
            &[],
            1,
        );
        let findings = run(&FutureTimestamp, &window([of_unit, delete])).findings;
        assert_eq!(findings[0].severity, Severity::High);
        assert!(
            findings[0]
                .title
                .ends_with("; it is also written in microseconds"),
            "{}",
            findings[0].title
        );
        assert_eq!(findings[0].advice, TWO_UNITS);
    }

    #[test]
    fn a_few_writes_are_one_step_less() {
        let ahead = |ahead| WriteTimes {
            ahead,
            most_ahead_us: 3_600_000_000,
            ..WriteTimes::default()
        };
        assert_eq!(found(ahead(10))[0].0, Severity::High);
        assert_eq!(found(ahead(9))[0].0, Severity::Medium);
    }

    #[test]
    fn the_present_and_the_past_are_fine() {
        let stated = WriteTimes {
            stated: 60,
            ..WriteTimes::default()
        };
        assert_eq!(found(stated), []);
    }
}
