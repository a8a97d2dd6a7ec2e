//! INSERTs that keep hitting rows that are there already: either the key lacks something, or an update is
//! meant.

use super::{About, Findings, Severity, Threshold};
use crate::{
    Context, Finding, Rule,
    figures::{is_steady, often, share},
    severity::Impact,
    statement::patterns,
};
use cqlens_cql::schema::TableName;
use cqlens_window::{InsertedRows, Pattern, PatternId, number};

pub(crate) struct OverwritingInsert;

impl Rule for OverwritingInsert {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let schema = context.schema;
        let mut judged: Vec<_> = Vec::new();
        for (name, traffic) in &context.window.tables {
            // A row that expires is written again to keep it.
            let table = schema.table(&name.keyspace, &name.table);
            let expires = table.is_some_and(|table| table.default_time_to_live() > 0);
            let rows_of_partitions = table.is_some_and(|table| !table.clustering().is_empty()) && !expires;
            if let Some(severity) = severity(found, &traffic.inserted, rows_of_partitions, (name, context)) {
                judged.push((name, &traffic.inserted, severity));
            }
        }
        if judged.is_empty() {
            return;
        }
        for (name, inserted, severity) in judged {
            let inserts = context.writes_to(name).iter();
            let patterns = patterns(inserts.filter(|write| write.is_insert()));
            found.push(finding(severity, name, inserted, patterns, context));
        }
    }
}

/// Info where the same rows come again, or where a handful does; where their values differ, a key with clustering columns is likely to
/// lack one, while a row that is its partition may well be meant to be replaced.
fn severity(
    found: &Findings<'_>,
    inserted: &InsertedRows,
    rows_of_partitions: bool,
    (name, context): (&TableName, &Context<'_>),
) -> Option<Severity> {
    let overwrites = inserted.overwrites();
    let share_of = |part: u64| share(part, inserted.inserts);
    let some = found.threshold(&ABOUT, &SOME_SHARE);
    if share_of(overwrites) < some || !is_steady(found, overwrites, context.watch_table(name)) {
        return None;
    }
    let times_a_row = overwrites as f64 / inserted.rows.estimate().max(1) as f64;
    let keeps_last_value = times_a_row >= found.threshold(&ABOUT, &LAST_VALUE);
    let are_few = (overwrites as f64) < found.threshold(&ABOUT, &FEWEST);
    let many = share_of(inserted.changes()) >= found.threshold(&ABOUT, &MANY_SHARE);
    let each = match (share_of(inserted.changes()) >= some, rows_of_partitions) {
        (false, _) => Severity::Info,
        // Whoever meant to keep every value would have missed them by now.
        (true, _) if keeps_last_value || are_few => Severity::Info,
        (true, true) if many => Severity::Medium,
        (true, true) => Severity::Low,
        (true, false) if many => Severity::Low,
        (true, false) => Severity::Info,
    };
    Some(context.severity(found, &Impact::beside_cost(each, overwrites)))
}

fn finding(
    severity: Severity,
    name: &TableName,
    inserted: &InsertedRows,
    patterns: Vec<(PatternId, &Pattern)>,
    context: &Context<'_>,
) -> Finding {
    let (overwrites, changes) = (inserted.overwrites(), inserted.changes());
    let with = if changes == 0 {
        "with the same values".to_owned()
    } else {
        format!("{} of them with other values", number::count(changes))
    };
    let title = format!(
        "{} of the INSERTs into `{name}` overwrite an existing row, {with}{}",
        number::percent(share(overwrites, inserted.inserts)),
        often(overwrites, context.watch_table(name))
    );
    let finding = Finding::on_all(&ABOUT, severity, patterns, context)
        .of_table(name)
        .title(title)
        .first("distinct_primary_keys", inserted.rows.estimate())
        .first("inserts", inserted.inserts)
        .first("overwrites_with_other_values", changes)
        .first("overwrites", overwrites)
        .first("overwrites_share", share(overwrites, inserted.inserts));
    if changes == 0 {
        return finding.advice(
            "The same rows are written again: nothing is lost, but each of them is stored once more until it \
             is compacted. Check for a job or a retry that writes unchanged data.",
        );
    }
    finding
}

const FEWEST: Threshold = Threshold {
    name: "fewest",
    unit: "overwrites",
    default: 50.0,
    origin: "cqlens default: fewer may be occasional corrections",
};

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "of the INSERTs",
    default: 0.1,
    origin: "cqlens default: retries and corrections are fewer",
};

const LAST_VALUE: Threshold = Threshold {
    name: "last_value",
    unit: "overwrites per row",
    default: 10.0,
    origin: "\
        cqlens default: colliding keys overwrite each other a few times; a last value is replaced all the \
        time",
};

const MANY_SHARE: Threshold = Threshold {
    name: "many_share",
    unit: "of the INSERTs",
    default: 0.3,
    origin: "cqlens default: every second or third INSERT replaces a row",
};

const ABOUT: About = About {
    id: "overwriting-insert",
    group: "writes",
    summary: "INSERTs keep overwriting existing rows without an error.",
    why: "\
        An INSERT in Cassandra does not check whether the row exists: same primary key, same row. If the key \
        lacks what distinguishes two things (two guests with the same name, two orders in the same second), \
        the later one replaces the earlier one without an error. Even where this is intended, each row is \
        stored in as many SSTables as it was written to, and reads merge them.",
    fix: "Add a clustering column that distinguishes the rows: a number, an id, a time-based UUID. If \
        replacing rows is intended, an upsert is right: accept this finding for the table. If it must never \
        happen, and seldom does, use INSERT … IF NOT EXISTS.",
    fix_in_short: "Make keys unique",
    before: "CREATE TABLE hotel.reservations_by_guest (name text, hotel text, room int,\n  PRIMARY KEY ((name), hotel));\n\
             INSERT INTO hotel.reservations_by_guest (name, hotel, room) VALUES (?, ?, ?);",
    after: "CREATE TABLE hotel.reservations_by_guest (name text, hotel text, number text, room int,\n  PRIMARY KEY ((name), hotel, number));\n\
            INSERT INTO hotel.reservations_by_guest (name, hotel, number, room) VALUES (?, ?, ?, ?);",
    severity: "\
        From `some_share` of the INSERTs, if overwrites come steadily; cost does not matter, because rows \
        are lost. Info if the values are the same as before, and if a row was overwritten `last_value` times \
        on average (such a table keeps the last value on purpose) or fewer than `fewest` times in all. If \
        values differ: low, medium from `many_share`; one step down for tables whose rows expire, or without \
        clustering columns, because their rows may be meant to be replaced. Nothing for conditional INSERTs.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[SOME_SHARE, MANY_SHARE, LAST_VALUE, FEWEST],
    needs: "\
        INSERTs that specify the whole primary key, with a known schema, and their rows in the same window: \
        rows that existed before it, and deletes in between, are not seen. Distinct rows are counted by a \
        sketch with an error of 2.3 %; only the excess over that error counts as overwritten. JSON is left \
        out.",
    source: "Cassandra: The Definitive Guide, hotel data model: reservations_by_guest; CQL documentation, INSERT",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{run_with, window, write};
    use cqlens_cql::plan::StatementKind;
    use cqlens_cql::schema::Schema;

    fn schema() -> Schema {
        Schema::from_cql(
            "CREATE KEYSPACE hotel WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE hotel.reservations (name text, hotel text, room int, PRIMARY KEY ((name), hotel));
             CREATE TABLE hotel.rooms (room int PRIMARY KEY, state text);",
        )
        .unwrap()
    }

    /// So many INSERTs into so many rows with so many contents.
    fn judged(table: &str, inserts: u64, rows: u64, contents: u64) -> Vec<Finding> {
        let cql = format!("INSERT INTO hotel.{table} (name, hotel) VALUES (?, ?)");
        let mut window = window([write(&cql, StatementKind::Insert, &[], inserts)]);
        let name = TableName {
            keyspace: "hotel".to_owned(),
            table: table.to_owned(),
        };
        window.count_table(&name, |traffic| {
            traffic.inserted.inserts = inserts;
            (0..rows).for_each(|row| traffic.inserted.rows.insert(row));
            (0..contents).for_each(|content| traffic.inserted.contents.insert(content));
        });
        run_with(&OverwritingInsert, &window, &schema()).findings
    }

    fn severity(table: &str, inserts: u64, rows: u64, contents: u64) -> Option<Severity> {
        let findings = judged(table, inserts, rows, contents);
        findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_share_the_values_and_the_key() {
        assert_eq!(severity("reservations", 200, 100, 200), Some(Severity::Medium));
        assert_eq!(severity("reservations", 400, 320, 400), Some(Severity::Low));
        assert_eq!(severity("reservations", 200, 100, 100), Some(Severity::Info));
        assert_eq!(severity("rooms", 200, 100, 200), Some(Severity::Low));
        assert_eq!(severity("rooms", 400, 320, 400), Some(Severity::Info));
        // A last value: each row comes again and again.
        assert_eq!(severity("reservations", 2_000, 100, 2_000), Some(Severity::Info));
    }

    #[test]
    fn rows_of_their_own_are_fine_and_so_are_a_few_that_are_not() {
        assert_eq!(severity("reservations", 200, 200, 200), None);
        assert_eq!(severity("reservations", 100_000, 100_000, 100_000), None);
        assert_eq!(severity("reservations", 1_000, 930, 1_000), None);
        assert_eq!(severity("reservations", 118, 59, 118), None, "59 an hour");
    }

    #[test]
    fn the_finding_names_the_statement_and_what_was_lost() {
        let findings = judged("reservations", 200, 50, 50);
        assert_eq!(
            findings[0].title,
            "75 % of the INSERTs into `hotel.reservations` overwrite an existing row, with the same values, \
             2.5 a minute"
        );
        assert_eq!(findings[0].patterns, [PatternId(1)]);
        assert!(
            judged("reservations", 200, 50, 200)[0]
                .title
                .contains("of them with other values")
        );
    }
}
