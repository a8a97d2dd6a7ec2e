//! Reads that go from bucket to bucket until they have rows enough.

use super::{
    About, Context, Finding, Findings, GROUP, Impact, Rule, Severity, Threshold,
    bucket::{self, Buckets},
    join::round,
    number, often, rounded,
};
use cqlens_window::BucketUnit;

pub(crate) struct TimeBucketWalk;

impl Rule for TimeBucketWalk {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for buckets in bucket::all(context, found) {
            if buckets.is_walk() && buckets.partitions() >= found.threshold(&ABOUT, &PARTITIONS) {
                judge(&buckets, context, found);
            }
        }
    }
}

fn judge(buckets: &Buckets<'_>, context: &Context<'_>, found: &mut Findings<'_>) {
    let each = match buckets.partitions() >= found.threshold(&ABOUT, &MEDIUM_PARTITIONS) {
        true => Severity::Medium,
        false => Severity::Low,
    };
    let impact = Impact::each(each).of(buckets.pattern).at_most(Severity::Medium);
    let severity = context.severity(found, &impact);
    let limit = limit(buckets);
    let width = width(buckets, limit);
    let holds = match limit {
        Some(limit) => format!(
            "the {} that one of them requests",
            number::plural(limit, "row", "rows")
        ),
        None => "what one of them reads now".to_owned(),
    };
    let title = format!(
        "Reads of `{}` walk from one `{}` to the next: {} partitions each, one after the other{}; {width} \
            would hold {holds}",
        buckets.name,
        buckets.column,
        number::decimal(round(buckets.partitions())),
        often(buckets.times(), context.watch(buckets.pattern))
    );
    let mut finding = Finding::on(&ABOUT, severity, (buckets.id, buckets.pattern), context);
    match limit {
        Some(limit) => finding = finding.first("limit", limit),
        None => finding.advice += " No LIMIT ends these reads, so the width is based on what they read now.",
    }
    found.push(
        finding
            .about(format!("{} {}", buckets.id, buckets.column))
            .title(title)
            .first("operations_looked_at", buckets.reads.partitions.count())
            .first("operations", buckets.times())
            .first("rows_per_operation", round(buckets.reads.rows.mean()))
            .first("rows_of_each_bucket", round(buckets.rows_of_each()))
            .first("partitions_max", buckets.reads.partitions.max())
            .first("partitions_per_operation", round(buckets.partitions()))
            .suggest([format!(
                "-- {} holds the first value of {width}; the primary key of {} stays the same",
                buckets.column, buckets.name
            )]),
    );
}

/// Rows that an operation wants, where most operations say so and have got about as many: then it is what ends them.
fn limit(buckets: &Buckets<'_>) -> Option<u64> {
    let reads = buckets.reads;
    let is_known = reads.limit.count() * 2 > reads.partitions.count();
    let limit = reads.limit.quantile(0.5);
    let is_end = reads.rows.mean() <= MORE_THAN_WANTED * limit as f64;
    (is_known && is_end && buckets.rows_of_each() > 0.0).then_some(limit)
}

/// Rows of an operation for each row of its LIMIT, beyond which something else ends it: the last bucket brings some more
/// than are wanted.
const MORE_THAN_WANTED: f64 = 2.0;

/// The bucket that holds what one operation wants: as many steps as hold the rows of its LIMIT, else as many as it takes
/// now.
fn width(buckets: &Buckets<'_>, limit: Option<u64>) -> String {
    let steps = match limit {
        Some(limit) => rounded((limit as f64 / buckets.rows_of_each()).ceil()).max(2),
        None => rounded(buckets.partitions().max(2.0)),
    };
    let (unit, step) = (buckets.reads.unit, buckets.step());
    let is_month = unit
        .and_then(BucketUnit::month)
        .is_some_and(|(least, most, _)| (least + 1..=most).contains(&step));
    let all = steps * step;
    match unit {
        Some(BucketUnit::Months) => format!("a range of {all} months"),
        _ if is_month => format!("a range of {steps} months"),
        Some(BucketUnit::Days) => format!("a range of {all} days"),
        Some(BucketUnit::Milliseconds) => format!("a range of {}", number::seconds(all as f64 / 1e3)),
        Some(BucketUnit::Numbers | BucketUnit::Values) | None => format!("a range of {all}"),
    }
}

const PARTITIONS: Threshold = Threshold {
    name: "partitions",
    unit: "partitions per operation, on average",
    default: 2.5,
    origin: "cqlens default: one or two is the intended cost of a time bucket",
};

const MEDIUM_PARTITIONS: Threshold = Threshold {
    name: "medium_partitions",
    unit: "partitions per operation, on average",
    default: 10.0,
    origin: "cqlens default: ten responses that the client waits for one after the other",
};

pub(super) const ABOUT: About = About {
    id: "time-bucket-walk",
    group: GROUP,
    summary: "Reads walk from one time bucket to the next until they have enough rows.",
    why: "With the newest rows first and one partition per day, a client that finds fewer rows in a day than \
        it shows on a page reads the day before, and the one before that. Each day is a partition of its \
        own, on other replicas, and a client that does not know how many it needs reads one after the other: \
        the latencies add up, including those of empty days.",
    fix: "\
        Choose the bucket so that one read finds its rows in one or two of them, and a partition stays below \
        100 MB and 100,000 rows: a week or a month instead of a day. The column can stay a date: the first \
        day of its range. If keys vary much in size, store the bucket width of each key beside it.",
    fix_in_short: "Wider buckets",
    before: "\
        SELECT * FROM shop.groups_by_day WHERE groupname = ? AND join_date = ? LIMIT 10;  -- day after day",
    after: "SELECT * FROM shop.groups_by_week WHERE groupname = ? AND join_week = ? LIMIT 10;",
    severity: "\
        From `partitions` per operation: low, medium from `medium_partitions`, and then by the share of time \
        and work; never more than medium. Only if at least half of the operations read several buckets, most \
        of them in equal steps.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[PARTITIONS, MEDIUM_PARTITIONS],
    needs: "\
        The schema, and the partition keys of a sample of operations: what one session (or application and \
        address) reads without a break of 50 ms, or of 250 ms before the next of the same steps. Buckets are \
        dates, times, numbers, and texts such as `2026-11-23` or `202611`; the width is derived from the \
        LIMIT, if reads have one, and from the rows per bucket. Users of one application who read the same \
        key at the same time are counted as one.",
    source: "Basic Rules of Cassandra Data Modeling, example 3: the newest users of a group, by day",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run_with};
    use cqlens_cql::{footprint::PartitionClass, schema::Schema};
    use cqlens_window::{BucketReads, Distribution, PatternId};

    const SCHEMA: &str = "
        CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
        CREATE TABLE shop.groups (groupname text, day date, at timestamp, PRIMARY KEY ((groupname, day), at));";

    /// A hundred operations that walk so many buckets each, of so many rows each, in steps of this size.
    fn found(
        (partitions, rows): (u64, u64),
        limit: Option<u64>,
        (unit, step): (BucketUnit, u64),
    ) -> Option<Finding> {
        let cql = "SELECT at FROM shop.groups WHERE groupname = ? AND day = ? LIMIT ?";
        let mut window = amid([read(cql, &[], PartitionClass::Single, 100 * partitions)]);
        let mut reads = BucketReads {
            steps: 100,
            step_sizes: [(step, 100)].into(),
            unit: Some(unit),
            ..BucketReads::default()
        };
        let all = |each: u64| {
            let mut all = Distribution::default();
            all.record_n(each, 100);
            all
        };
        reads.partitions = all(partitions);
        reads.rows = all(partitions * rows);
        reads.limit = limit.map(all).unwrap_or_default();
        (0..100_u64).for_each(|key| reads.keys.insert(key.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let columns = [("day".to_owned(), reads)].into();
        window.sequences.buckets.insert(PatternId(1), columns);
        let schema = Schema::from_cql(SCHEMA).unwrap();
        run_with(&TimeBucketWalk, &window, &schema).findings.pop()
    }

    fn end(finding: Option<Finding>) -> String {
        finding.unwrap().title.split("; ").nth(1).unwrap().to_owned()
    }

    const DAYS: (BucketUnit, u64) = (BucketUnit::Days, 1);

    #[test]
    fn the_width_holds_the_rows_that_are_wanted() {
        let finding = found((4, 3), Some(10), DAYS).unwrap();
        assert_eq!(finding.severity, Severity::Low);
        assert_eq!(
            finding.title,
            "Reads of `shop.groups` walk from one `day` to the next: 4 partitions each, one after the other, \
             1.7 a second; a range of 4 days would hold the 10 rows that one of them requests"
        );
        assert_eq!(
            finding
                .evidence
                .iter()
                .find(|(name, _)| *name == "limit")
                .unwrap()
                .1,
            10.into()
        );
        // The client gives up after five days, with half of what it wants.
        let expected = "a range of 10 days would hold the 10 rows that one of them requests";
        assert_eq!(end(found((5, 1), Some(10), DAYS)), expected);
    }

    #[test]
    fn without_a_limit_that_ends_them_operations_read_what_they_read() {
        let expected = "a range of 4 days would hold what one of them reads now";
        assert_eq!(end(found((4, 3), None, DAYS)), expected);
        assert_eq!(end(found((4, 50), Some(50), DAYS)), expected);
        assert!(found((2, 3), Some(10), DAYS).is_none());
    }

    #[test]
    fn months_are_counted_as_such() {
        for (unit, step) in [
            (BucketUnit::Milliseconds, 2_629_746_000),
            (BucketUnit::Days, 30),
            (BucketUnit::Days, 31),
            (BucketUnit::Months, 1),
        ] {
            let expected = "a range of 4 months would hold the 10 rows that one of them requests";
            assert_eq!(end(found((4, 3), Some(10), (unit, step))), expected, "{unit:?}");
        }
        let weeks = end(found((4, 3), Some(10), (BucketUnit::Days, 7)));
        assert!(weeks.starts_with("a range of 28 days"), "{weeks}");
        let hours = end(found((4, 3), Some(10), (BucketUnit::Milliseconds, 3_600_000)));
        assert!(hours.starts_with("a range of 4 h "), "{hours}");
    }
}
