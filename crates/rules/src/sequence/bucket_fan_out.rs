//! Keys in buckets, all of which every read asks for.

use super::{
    About, Context, Finding, Findings, GROUP, Impact, Rule, Sent, Severity, Threshold,
    bucket::{self, Buckets},
    bucket_size::BucketSize,
    join::round,
    number, often,
};
use crate::Cause;

pub(crate) struct BucketFanOut;

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
        "Each read of a key of `{}` fetches all {partitions} buckets (`{}`), {}{}",
        buckets.name,
        buckets.column,
        buckets.sent().words(),
        often(buckets.times(), context.watch(buckets.pattern))
    );
    let others = BucketSize::of(buckets, context).map(|size| size.others(width.round().max(2.0)));
    found.push(
        Finding::on(&ABOUT, severity, (buckets.id, buckets.pattern), context)
            .about(format!("{} {}", buckets.id, buckets.column))
            .title(title)
            .advice(
                [ABOUT.fix.to_owned()]
                    .into_iter()
                    .chain(others)
                    .collect::<Vec<_>>()
                    .join(" "),
            )
            .first("operations_looked_at", buckets.reads.partitions.count())
            .first("operations", buckets.times())
            .first("rows_of_each_bucket", round(buckets.rows_of_each()))
            .first("keys", buckets.reads.keys.estimate())
            .first("buckets", buckets.reads.values.len()),
    );
}

const MEDIUM_BUCKETS: Threshold = Threshold {
    name: "medium_buckets",
    unit: "buckets per read, on average",
    default: 20.0,
    origin: "cqlens default, as `medium_fan_out` of `client-join`",
};

pub(super) const ABOUT: About = About {
    id: "bucket-fan-out",
    group: GROUP,
    summary: "Every read of a key fetches all of its buckets.",
    why: "A bucket in the partition key spreads a large key over several partitions, which is its purpose. \
        Every read of the key pays for that: it reads as many partitions as there are buckets, on different \
        replicas, and waits for the slowest. Data is spread evenly (rule 1) at the price of reading more \
        partitions (rule 2).",
    fix: "Use only as many buckets as it takes to keep a partition below 100 MB and 100,000 rows. Small keys \
        need none: split only large ones, and store the number of buckets beside the key. Send the reads in \
        parallel, one key each, and not with `IN`. If readers want the newest rows, use time as the bucket, \
        so that most reads end in the first one.",
    fix_in_short: "Fewer buckets",
    before: "SELECT * FROM shop.groups WHERE groupname = ? AND hash_prefix IN (0, 1, 2, 3);",
    after: "SELECT * FROM shop.groups WHERE groupname = ? AND hash_prefix = ?;  -- one bucket for small groups",
    severity: "\
        Low, medium from `medium_buckets`, one step more if the buckets are read one after the other; then \
        by the share of time and work. Never more than medium, because the cost buys something. Only if at \
        least half of the operations fetch all buckets that have been seen.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[MEDIUM_BUCKETS],
    needs: "The schema; rows that reads return or INSERTs write, for the sizes; and the partition keys of a \
        sample of operations: what one session (or application and address) reads without a break of 50 ms, \
        or of 250 ms before the next of the same steps. Buckets are numbers and short texts; \
        `time-bucket-walk` covers dates.",
    source: "Basic Rules of Cassandra Data Modeling, example 2: user groups, splitting up large groups by the prefix of a hash",
    cause: Some(Cause::SEVERAL_PARTITIONS_A_READ),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run_with};
    use cqlens_cql::{
        footprint::PartitionClass,
        schema::{Schema, TableName},
    };
    use cqlens_window::{BucketReads, BucketUnit, PatternId, TableTraffic, Window};

    const SCHEMA: &str = "
        CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
        CREATE TABLE shop.groups (groupname text, bucket int, id uuid, age int, PRIMARY KEY ((groupname, bucket), id));";

    const ALL: &str = "SELECT * FROM shop.groups WHERE groupname = ? AND bucket = ?";

    /// A hundred keys, of which all buckets are read at the same time, of so many rows each.
    fn window(cql: &str, buckets: u64, rows: u64) -> Window {
        let mut window = amid([read(cql, &[], PartitionClass::Single, 100 * buckets)]);
        let mut reads = BucketReads {
            concurrent: 100,
            unit: Some(BucketUnit::Numbers),
            values: (0..buckets.cast_signed()).collect(),
            ..BucketReads::default()
        };
        reads.partitions.record_n(buckets, 100);
        reads.rows.record_n(buckets * rows, 100);
        (0..100_u64).for_each(|key| reads.keys.insert(key.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let columns = [("bucket".to_owned(), reads)].into();
        window.sequences.buckets.insert(PatternId(1), columns);
        window
    }

    fn traffic(window: &mut Window) -> &mut TableTraffic {
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: "groups".to_owned(),
        };
        window.tables.entry(name).or_default()
    }

    fn found(window: &Window) -> Option<Finding> {
        let schema = Schema::from_cql(SCHEMA).unwrap();
        run_with(&BucketFanOut, window, &schema).findings.pop()
    }

    fn others(window: &Window) -> String {
        let finding = found(window).unwrap();
        finding.advice.strip_prefix(ABOUT.fix).unwrap().trim().to_owned()
    }

    #[test]
    fn fewer_and_more_buckets_cost_reads_and_size() {
        let finding = found(&window(ALL, 4, 50)).unwrap();
        assert_eq!(finding.severity, Severity::Low);
        assert_eq!(
            finding.title,
            "Each read of a key of `shop.groups` fetches all 4 buckets (`bucket`), in parallel, 1.7 a second"
        );
        // A row has a uuid, an int and the timestamp of the latter: 28 bytes; a key 20.
        assert_eq!(
            others(&window(ALL, 4, 50)),
            "With 2 buckets, a read would fetch 2 partitions of about 100 rows (2.8 KiB) each, with 10 for \
             10 of 20 rows (580 B); now it is 4 of 50 rows (1.4 KiB)."
        );
        let five = others(&window(ALL, 5, 50));
        assert!(
            five.starts_with("With 3 buckets, a read would fetch 3 partitions of about 83 rows"),
            "{five}"
        );
        assert!(five.contains("with 10 for 10 of 25 rows"), "{five}");
        let eight = others(&window(ALL, 8, 50));
        assert!(eight.contains("with 20 for 20 of 20 rows"), "{eight}");
    }

    #[test]
    fn where_reads_return_a_part_a_bucket_has_so_much_at_least() {
        for end in [" LIMIT ?", " AND id > ?"] {
            let text = others(&window(&format!("{ALL}{end}"), 4, 50));
            assert!(text.contains("2 partitions of at least 100 rows"), "{text}");
        }
        let mut written = window(ALL, 4, 50);
        let table = traffic(&mut written);
        (0..10_u64).for_each(|key| {
            table
                .distinct_partitions
                .insert(key.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        });
        (0..800_u64).for_each(|row| {
            table
                .inserted
                .rows
                .insert((row + 1).wrapping_mul(0xBF58_476D_1CE4_E5B9))
        });
        let text = others(&written);
        assert!(text.contains("2 partitions of at least 15"), "{text}");
    }

    #[test]
    fn the_largest_bucket_says_what_half_of_them_would_hold() {
        let mut window = window(ALL, 4, 50);
        traffic(&mut window).partition_reads.see(7, 60_000, 0);
        let text = others(&window);
        let expected = " The largest bucket that was read has 60,000 rows or more; with 2 buckets it would have 120,000.";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn buckets_of_which_one_is_read_have_no_price() {
        let mut single = window(ALL, 4, 50);
        let reads = single
            .sequences
            .buckets
            .values_mut()
            .flat_map(|columns| columns.values_mut());
        reads.for_each(|reads| reads.single = 101);
        assert_eq!(found(&single), None);
        assert_eq!(found(&window(ALL, 20, 50)).unwrap().severity, Severity::Medium);
    }
}
