//! Keys in buckets, all of which every read asks for.

use super::{
    About, Context, Finding, Findings, GROUP, Impact, Rule, Sent, Severity, Threshold,
    bucket::{self, Buckets},
    join::round,
    number, often, rounded,
};

pub(in crate::rules) struct BucketFanOut;

impl Rule for BucketFanOut {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for buckets in bucket::all(context, found) {
            if buckets.is_of_all() {
                judge(&buckets, context, found);
            }
        }
    }
}

fn judge(buckets: &Buckets<'_>, context: &Context<'_>, found: &mut Findings<'_>) {
    let width = buckets.partitions();
    let each = match width >= found.threshold(&ABOUT, &MEDIUM_BUCKETS) {
        true => Severity::Medium,
        false => Severity::Low,
    };
    // Their times add up.
    let each = match buckets.sent() {
        Sent::OneAfterTheOther => each.raised(),
        _ => each,
    };
    let impact = Impact::each(each).of(buckets.pattern).at_most(Severity::Medium);
    let severity = context.severity(found, &impact);
    let partitions = number::decimal(round(width));
    let title = format!(
        "Each read of a key of `{}` asks for all {partitions} buckets (`{}`), {}{}",
        buckets.name,
        buckets.column,
        buckets.sent().words(),
        often(buckets.times(), context.window)
    );
    found.push(
        Finding::on(&ABOUT, severity, (buckets.id, buckets.pattern), context)
            .about(format!("{} {}", buckets.id, buckets.column))
            .title(title)
            .advice(format!("{} {}", ABOUT.fix, others(buckets)))
            .first("operations_looked_at", buckets.reads.partitions.count())
            .first("operations", buckets.times())
            .first("rows_of_each_bucket", round(buckets.rows_of_each()))
            .first("keys", buckets.reads.keys.estimate())
            .first("buckets", buckets.reads.values.len()),
    );
}

/// What fewer and more buckets would do.
fn others(buckets: &Buckets<'_>) -> String {
    let (width, rows) = (buckets.partitions().round().max(2.0), buckets.rows_of_each());
    let about = |rows: f64| number::decimal(round(rows));
    format!(
        "With {} buckets a read would ask for {} with about {} rows of each, with {} for {} with about {}; now it is {} with {}.",
        number::decimal((width / 2.0).ceil()),
        number::plural(rounded((width / 2.0).ceil()), "partition", "partitions"),
        about(rows * width / (width / 2.0).ceil()),
        number::decimal(width * 2.0),
        number::plural(rounded(width * 2.0), "partition", "partitions"),
        about(rows / 2.0),
        number::decimal(width),
        about(rows),
    )
}

const MEDIUM_BUCKETS: Threshold = Threshold {
    name: "medium_buckets",
    unit: "buckets of each read, the mean",
    default: 20.0,
    origin: "cqlens default, as `medium_fan_out` of `client-join`",
};

pub(super) const ABOUT: About = About {
    id: "bucket-fan-out",
    group: GROUP,
    summary: "Every read of a key asks for all of its buckets.",
    why: "\
        A bucket in the partition key spreads a large key over several partitions, which is what it is for. It has its price at every read of the \
        key: as many partitions as there are buckets, on different replicas, the slowest of which decides. Data is spread evenly (rule 1) by \
        reading more partitions (rule 2).",
    fix: "\
        Keep as few buckets as keep a partition below 100 MB and 100,000 rows. Small keys need none: give only large ones several, and store how many beside \
        the key. Send the reads at the same time, each by one key, and not by `IN`. Where readers want the newest rows, let time be the bucket, so that most reads end in the first one.",
    before: "SELECT * FROM shop.groups WHERE groupname = ? AND hash_prefix IN (0, 1, 2, 3);",
    after: "SELECT * FROM shop.groups WHERE groupname = ? AND hash_prefix = ?;  -- one bucket for small groups",
    severity: "\
        Low, medium from `medium_buckets`, a step more where the buckets are read one after the other; then by the share of time and work. No more than \
        medium: it is the price of something. Where half of the operations or more ask for all buckets that were ever asked for.",
    thresholds: &[MEDIUM_BUCKETS],
    needs: "\
        The schema, and the partition keys of a sample of what the same session, or application and address, asks for without a break of 50 ms. Buckets are numbers and short texts; those that are dates are looked at by `time-bucket-walk`.",
    source: "Basic Rules of Cassandra Data Modeling, example 2: user groups, splitting up large groups by the prefix of a hash",
};
