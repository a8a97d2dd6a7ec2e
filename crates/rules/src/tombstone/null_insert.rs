//! INSERTs that write nulls: each of them is a delete.

use crate::{
    About, Context, EvidenceValue, Finding, Findings, KnownFrom, Rule, Severity, Threshold,
    figures::{at_rate, share, table, user_writes},
    severity::Impact,
};
use cqlens_cql::plan::StatementKind;
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct NullInsert;

impl Rule for NullInsert {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // An UPDATE that sets null means to delete.
        let inserts =
            |pattern: &Pattern| matches!(pattern.head.kind, StatementKind::Insert | StatementKind::Batch);
        for (id, pattern) in user_writes(context).filter(|(_, pattern)| inserts(pattern)) {
            let executions = pattern.nulls.executions;
            if executions == 0 || share(executions, pattern.count) < found.threshold(&ABOUT, &SOME_SHARE) {
                continue;
            }
            // Each null is a tombstone of its own.
            let impact = Impact::each(Severity::Low).of(pattern).times(executions);
            let impact = impact.at_most(Severity::Medium);
            let severity = context.severity(found, &impact);
            found.push(finding(severity, id, pattern, context).weighing(impact));
        }
    }
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, context: &Context<'_>) -> Finding {
    let (nulls, share) = (
        pattern.nulls.sum(),
        share(pattern.nulls.executions, pattern.count),
    );
    let what = match pattern.head.kind {
        StatementKind::Batch => "batches on",
        _ => "INSERTs into",
    };
    if context.is_text() {
        let title = format!(
            "Each execution of this INSERT into {} writes {}, which {}",
            table(pattern),
            number::plural(nulls, "null", "nulls"),
            if nulls == 1 { "is a delete" } else { "are deletes" }
        );
        return Finding::on(&ABOUT, severity, (id, pattern), context)
            .title(title)
            .first(
                "nulls_of_columns",
                EvidenceValue::Counts(pattern.nulls.by_column.clone()),
            )
            .first("nulls", nulls);
    }
    let title = format!(
        "{} of the {what} {} write nulls, which are deletes: {}{}",
        number::percent(share),
        table(pattern),
        number::plural(nulls, "tombstone", "tombstones"),
        at_rate(nulls, context.watch(pattern))
    );
    Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .first(
            "known_from",
            EvidenceValue::KnownFrom(vec![KnownFrom::WrittenValues]),
        )
        .first(
            "nulls_of_columns",
            EvidenceValue::Counts(pattern.nulls.by_column.clone()),
        )
        .first("nulls", nulls)
        .first("inserts_with_nulls_share", share)
}

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "of the executions",
    default: 0.01,
    origin: "cqlens default: below one in a hundred a null is an exception, and may be an intended delete",
};

const ABOUT: About = About {
    id: "null-insert",
    group: "tombstones",
    summary: "INSERTs bind null for columns without a value, which deletes values that never existed.",
    why: "\
        Writing null deletes a column in CQL: Cassandra does not check whether there is anything to delete, \
        it writes a tombstone. An INSERT of ten columns of which eight are null writes eight tombstones and \
        two values. Reads of the row scan them until they are compacted away, at the earliest after \
        `gc_grace_seconds`.",
    fix: "Leave the value unset (protocol version 4: an unset value is not written), as most drivers do for \
        values that are never bound; mappers have to be configured for it. Or prepare an INSERT for only the \
        columns that have values. `INSERT ... JSON` needs `DEFAULT UNSET`.",
    fix_in_short: "Leave columns unset",
    before: "-- phone and fax bound as null\nINSERT INTO shop.users (id, name, phone, fax) VALUES (?, ?, ?, ?);",
    after: "-- phone and fax left unset, or\nINSERT INTO shop.users (id, name) VALUES (?, ?);",
    severity: "Low from `some_share` of the executions, medium at most. Nothing for unset values.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[SOME_SHARE],
    needs: "\
        The values of INSERTs and of statements in batches, in the text or bound; only the first 64 markers \
        of a statement count. `INSERT ... JSON` deletes the columns that it leaves out, unless it specifies \
        `DEFAULT UNSET`: counted if the schema is known, except in batches.",
    source: "native protocol v4 §4.1.4, unset values (CASSANDRA-7304); Cassandra documentation, tombstones",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, run, window, write};

    fn insert(with_nulls: u64, times: u64) -> Pattern {
        let cql = "INSERT INTO shop.users (id, name, phone, fax) VALUES (?, ?, ?, ?)";
        let mut pattern = write(cql, StatementKind::Insert, &[], times);
        pattern.nulls.executions = with_nulls;
        pattern.nulls.by_column = [("phone".to_owned(), with_nulls), ("fax".to_owned(), with_nulls)].into();
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&NullInsert, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_share_and_the_number_of_nulls() {
        assert_eq!(severity(insert(100, 100)), Some(Severity::Low));
        let idle = run(&NullInsert, &window([insert(30, 60)]));
        assert_eq!(idle.findings[0].severity, Severity::Info);
        let all_of_the_load = run(&NullInsert, &window([insert(200_000, 200_000)]));
        assert_eq!(all_of_the_load.findings[0].severity, Severity::Medium);
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
            "50 % of the INSERTs into `shop.users` write nulls, which are deletes: 60 tombstones, 1 a minute"
        );
        assert_eq!(
            finding.evidence[2],
            (
                "nulls_of_columns",
                EvidenceValue::Counts([("fax".to_owned(), 30), ("phone".to_owned(), 30)].into())
            )
        );
    }
}
