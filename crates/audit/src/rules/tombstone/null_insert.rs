//! INSERTs that bind nulls: each of them is a delete.

use crate::{
    number,
    rules::{
        About, Finding, Findings, Rule, Severity, Threshold,
        figures::{OFTEN_PER_SECOND, STEADY_PER_HOUR, by_load, often, share, table, user_writes},
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::{plan::StatementKind, schema::Schema};

pub(in crate::rules) struct NullInsert;

impl Rule for NullInsert {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        let inserts = |pattern: &Pattern| pattern.head.kind == StatementKind::Insert;
        for (id, pattern) in user_writes(window).filter(|(_, pattern)| inserts(pattern)) {
            let executions = pattern.nulls.executions;
            if executions == 0 || share(executions, pattern.count) < found.threshold(&ABOUT, &SOME_SHARE) {
                continue;
            }
            // Each null is a tombstone of its own.
            let severity = by_load(found, &ABOUT, nulls(pattern), window);
            found.push(finding(severity, id, pattern, window));
        }
    }
}

/// Nulls that were bound, of all columns.
fn nulls(pattern: &Pattern) -> u64 {
    pattern.nulls.by_column.values().sum()
}

/// The columns that are null most often: `phone 60, email 3`.
fn columns(pattern: &Pattern) -> String {
    let mut columns: Vec<_> = pattern.nulls.by_column.iter().collect();
    columns.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
    let shown = columns.iter().take(MOST_COLUMNS);
    let shown: Vec<_> = shown
        .map(|(name, count)| format!("{name} {}", number::count(**count)))
        .collect();
    match columns.len().saturating_sub(MOST_COLUMNS) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

const MOST_COLUMNS: usize = 8;

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let (nulls, share) = (nulls(pattern), share(pattern.nulls.executions, pattern.count));
    let title = format!(
        "{} of the INSERTs into {} bind nulls, which are deletes: {}{}",
        number::percent(share),
        table(pattern),
        number::plural(nulls, "tombstone", "tombstones"),
        often(nulls, window)
    );
    Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .first("evidence_level", "inferred from bound values")
        .first("nulls_by_column", columns(pattern))
        .first("nulls", nulls)
        .first("inserts_with_nulls_share", share)
}

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "of the executions",
    default: 0.01,
    origin: "own choice: below one in a hundred a null is an exception, and may be meant as a delete",
};

const ABOUT: About = About {
    id: "null-insert",
    group: "tombstones",
    summary: "INSERTs bind null for columns that have no value, which deletes what was never there.",
    why: "\
        Null is how CQL deletes a column: Cassandra does not look whether there is something to delete, it \
        writes a tombstone. An INSERT of ten columns of which eight are null writes eight tombstones and two \
        values. Reads of the row pass them until they are compacted away, at the earliest after \
        `gc_grace_seconds`.",
    fix: "\
        Leave the value unset (protocol version 4: a bound value that is not set is not written), as most \
        drivers do for values that are never bound; mappers need to be told to. Or prepare an INSERT for the \
        columns that are there.",
    before: "-- phone and fax bound as null\nINSERT INTO shop.users (id, name, phone, fax) VALUES (?, ?, ?, ?);",
    after: "-- phone and fax left unset, or\nINSERT INTO shop.users (id, name) VALUES (?, ?);",
    severity: "\
        From `some_share` of the executions: info; low from `steady_per_hour` nulls an hour, medium from \
        `often_per_second` a second. Nothing for values that are not set.",
    thresholds: &[SOME_SHARE, STEADY_PER_HOUR, OFTEN_PER_SECOND],
    needs: "\
        Bound values. Nulls that are written in the text, those of statements in a batch and values that are \
        bound by name are not counted; of the markers of a statement the first 64 are.",
    source: "\
        native protocol v4 §4.1.4, values that are not set (CASSANDRA-7304); Cassandra documentation, \
        tombstones",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{run, window, write};

    fn insert(with_nulls: u64, times: u64) -> Pattern {
        let cql = "INSERT INTO shop.users (id, name, phone, fax) VALUES (?, ?, ?, ?)";
        let mut pattern = write(cql, StatementKind::Insert, &[], times);
        pattern.nulls.executions = with_nulls;
        pattern.nulls.by_column = [("phone".to_owned(), with_nulls), ("fax".to_owned(), with_nulls)].into();
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&NullInsert, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_share_and_the_number_of_nulls() {
        assert_eq!(severity(insert(29, 60)), Some(Severity::Info));
        assert_eq!(severity(insert(30, 60)), Some(Severity::Low));
        assert_eq!(severity(insert(180_000, 200_000)), Some(Severity::Medium));
        assert_eq!(severity(insert(30, 3_001)), None);
    }

    #[test]
    fn whole_and_unset_values_are_fine() {
        assert_eq!(severity(insert(0, 1_000_000)), None);
    }

    #[test]
    fn the_evidence_names_the_columns() {
        let judgement = run(&NullInsert, &window([insert(30, 60)]));
        let finding = &judgement.findings[0];
        assert_eq!(
            finding.title,
            "50 % of the INSERTs into `shop.users` bind nulls, which are deletes: 60 tombstones, 1 a minute"
        );
        assert_eq!(
            finding.evidence[2],
            ("nulls_by_column", "fax 30, phone 30".into())
        );
    }
}
