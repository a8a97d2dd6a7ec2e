//! Writes whose timestamp is that of the event that they speak of: the timestamp as data.

use super::{About, Findings, Severity, Threshold, application::impact};
use crate::{
    Context, Finding, Rule,
    application::sum,
    figures::{often, share},
    statement::{TableWrite, patterns},
};
use cqlens_cql::schema::TableName;
use cqlens_window::{WriteTimes, number};

pub(crate) struct PastTimestamp;

impl Rule for PastTimestamp {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, writes) in context.writes() {
            if let Some(finding) = finding(found, name, writes, context) {
                found.push(finding);
            }
        }
    }
}

fn finding(
    found: &Findings<'_>,
    name: &TableName,
    writes: &[TableWrite<'_>],
    context: &Context<'_>,
) -> Option<Finding> {
    let late = patterns(
        writes
            .iter()
            .filter(|write| write.pattern.write_times.day_behind > 0),
    );
    let behind = sum(&late, |pattern| pattern.write_times.day_behind);
    let of_late = share(behind, sum(&late, |pattern| pattern.count));
    if behind == 0 || of_late < found.threshold(&ABOUT, &SOME_SHARE) {
        return None;
    }
    let all = sum(&patterns(writes), |pattern| pattern.count);
    let present = all.saturating_sub(behind);
    // Where all writes have the time of their event, the latest event stays, as is meant.
    let is_mixed = share(present, all) >= found.threshold(&ABOUT, &SOME_SHARE);
    let each = if is_mixed { Severity::Low } else { Severity::Info };
    let severity = context.severity(found, &impact(each, &late).at_most(each.raised()));
    let most = late
        .iter()
        .map(|(_, pattern)| pattern.write_times.most_behind_us)
        .max();
    let most = most.unwrap_or_default();
    let stated = sum(&late, |pattern| pattern.write_times.stated);
    let against = if is_mixed {
        ", and lose against all others"
    } else {
        ""
    };
    let title = format!(
        "{} of the writes to `{name}` carry timestamps up to {} in the past{against}{}",
        number::percent(share(behind, all)),
        number::seconds((most / 1_000_000) as f64),
        often(behind, context.watch_table(name))
    );
    let finding = Finding::on_all(&ABOUT, severity, late, context)
        .of_table(name)
        .title(title)
        .first("with_using_timestamp", stated)
        .first("of_the_present", present)
        .first("most_behind_us", most)
        .first("day_behind", behind);
    Some(finding)
}

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "of the executions",
    default: 0.05,
    origin: "cqlens default: fewer are manual corrections, or requests that waited for long",
};

const ABOUT: About = About {
    id: "past-timestamp",
    group: "client habits",
    summary: "Writes carry timestamps in the past: the time of an event instead of the time of the write.",
    why: "The timestamp of a write decides which of two values of a cell wins; it is not part of the data \
        model. A write that carries the time of its event loses, without an error, against everything that \
        was written or deleted since with the current time: a correction of last week's figures vanishes, \
        and what was deleted yesterday cannot be written again. With time window compaction, it puts old \
        rows into new SSTables.",
    fix: "Store the event time in a regular or clustering column, and let the driver set the timestamp. Use \
        `USING TIMESTAMP` only in jobs that replay history into a table that nothing else writes to.",
    fix_in_short: "Correct the clocks",
    before: "-- the time of the order, years ago\nINSERT INTO shop.orders (id, total) VALUES (?, ?) USING TIMESTAMP 1577836800000000;",
    after: "INSERT INTO shop.orders (id, placed, total) VALUES (?, ?, ?);",
    severity: "\
        If at least `some_share` of a statement's executions are a day or more in the past: low, medium at \
        most, if as large a share of the table's writes carries the present time; else info, low at most, \
        since the latest event wins.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[SOME_SHARE],
    needs: "The timestamps of requests or of `USING TIMESTAMP`, compared with the clock of cqlens.",
    source: "eBay, Cassandra data modeling best practices, part 1: do not use timestamps as data; native protocol v4 §4.1.4, default timestamp",
    cause: None,
    quantity: None,
    rewrite: None,
};

const _: () = assert!(
    WriteTimes::BEHIND_US == 3_600_000_000,
    "a day is counted among the hours"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, run, write};
    use cqlens_cql::plan::StatementKind;
    use cqlens_window::Pattern;

    const INSERT: &str = "INSERT INTO shop.orders (id, total) VALUES (?, ?)";

    fn late(times: u64, behind: u64) -> Pattern {
        let cql = format!("{INSERT} USING TIMESTAMP ?");
        let mut pattern = write(&cql, StatementKind::Insert, &[], times);
        pattern.write_times = WriteTimes {
            stated: times,
            behind,
            day_behind: behind,
            most_behind_us: 31_536_000_000_000,
            ..WriteTimes::default()
        };
        pattern
    }

    fn found(patterns: impl IntoIterator<Item = Pattern>) -> Vec<(Severity, String)> {
        let findings = run(&PastTimestamp, &amid(patterns)).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn what_lies_behind_loses_against_the_others() {
        let now = write(INSERT, StatementKind::Insert, &[], 60);
        assert_eq!(
            found([late(60, 60), now]),
            [(
                Severity::Low,
                "50 % of the writes to `shop.orders` carry timestamps up to 365 days in the past, and lose against all others, \
                 1 a second"
                    .to_owned()
            )]
        );
    }

    #[test]
    fn a_table_with_the_times_of_events_alone_is_worth_knowing() {
        let history = found([late(60, 60)]);
        assert_eq!(history[0].0, Severity::Info);
        assert!(!history[0].1.contains("lose"), "{history:?}");
    }

    #[test]
    fn a_few_and_the_present_are_fine() {
        assert_eq!(found([late(100, 4)]), []);
        assert_eq!(found([late(100, 5)]).len(), 1);
        assert_eq!(found([late(100, 0)]), []);
    }
}
