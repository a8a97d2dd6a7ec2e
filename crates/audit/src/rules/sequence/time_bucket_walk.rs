//! Reads that go from bucket to bucket until they have rows enough.

use super::{
    About, Context, Finding, Findings, GROUP, Impact, Rule, Severity, Threshold,
    bucket::{self, Buckets},
    join::round,
    number, often, rounded,
};
use crate::window::BucketUnit;

pub(in crate::rules) struct TimeBucketWalk;

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
    let width = width(buckets);
    let title = format!(
        "Reads of `{}` go from one `{}` to the next: {} partitions for each, one after the other{}; {width} would hold what one of \
         them wants",
        buckets.name,
        buckets.column,
        number::decimal(round(buckets.partitions())),
        often(buckets.times(), context.window)
    );
    found.push(
        Finding::on(&ABOUT, severity, (buckets.id, buckets.pattern), context)
            .about(format!("{} {}", buckets.id, buckets.column))
            .title(title)
            .first("operations_looked_at", buckets.reads.partitions.count())
            .first("operations", buckets.times())
            .first("rows_per_operation", round(buckets.reads.rows.mean()))
            .first("rows_of_each_bucket", round(buckets.rows_of_each()))
            .first("partitions_max", buckets.reads.partitions.max())
            .first("partitions_per_operation", round(buckets.partitions()))
            .suggest([format!(
                "-- {} with the first value of {width} instead of each; the primary key of {} stays as it is",
                buckets.column, buckets.name
            )]),
    );
}

/// The bucket that holds what one operation wants: as many steps as it takes now.
fn width(buckets: &Buckets<'_>) -> String {
    let steps = rounded(buckets.partitions().max(2.0)) * buckets.step();
    match buckets.reads.unit {
        Some(BucketUnit::Days) => format!("a range of {steps} days"),
        Some(BucketUnit::Months) => format!("a range of {steps} months"),
        Some(BucketUnit::Milliseconds) => format!("a range of {}", number::seconds(steps as f64 / 1e3)),
        Some(BucketUnit::Numbers | BucketUnit::Values) | None => format!("a range of {steps}"),
    }
}

const PARTITIONS: Threshold = Threshold {
    name: "partitions",
    unit: "partitions of each operation, the mean",
    default: 2.5,
    origin: "cqlens default: one or two are what a bucket by time is meant to cost",
};

const MEDIUM_PARTITIONS: Threshold = Threshold {
    name: "medium_partitions",
    unit: "partitions of each operation, the mean",
    default: 10.0,
    origin: "cqlens default: ten answers that are waited for one after the other",
};

pub(super) const ABOUT: About = About {
    id: "time-bucket-walk",
    group: GROUP,
    summary: "Reads go from one bucket of time to the next until they have rows enough.",
    why: "\
        Newest rows first, one partition for each day: where a day has fewer rows than a page shows, the client reads the day before, and the one before \
        that. Each is a partition of its own, on other replicas, and a client that does not know how many it needs asks for one after the other: the times add up, empty days included.",
    fix: "\
        Choose the bucket so that what one read wants lies in one or two of them, and a partition stays below 100 MB and 100,000 rows: a week or a month instead of a day. The \
        column can stay a date: the first day of its range. Where keys differ much, store the width of a key's buckets beside it.",
    before: "SELECT * FROM shop.groups_by_day WHERE groupname = ? AND join_date = ? LIMIT 10;  -- for day after day",
    after: "SELECT * FROM shop.groups_by_week WHERE groupname = ? AND join_week = ? LIMIT 10;",
    severity: "\
        From `partitions` of each operation: low, medium from `medium_partitions`, and then by the share of time and work; no more than medium. Where half of the operations or \
        more take several buckets, and most of them in equal steps.",
    thresholds: &[PARTITIONS, MEDIUM_PARTITIONS],
    needs: "\
        The schema, and the partition keys of a sample of what the same session, or application and address, asks for without a break of 50 ms. Buckets are dates, times, \
        numbers, and texts such as `2026-11-23` or `202611`. Users of one application who read the same key at the same time are taken for one.",
    source: "Basic Rules of Cassandra Data Modeling, example 3: the newest users of a group, by day",
};
