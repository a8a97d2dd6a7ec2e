//! Partitions that are too large, or will be.

use super::{
    About, Finding, Findings, GROUP, Rule, Severity, Threshold, figures,
    growth::{Growth, collects_for, rows_go},
    limits::{DAY, Limits, MIB, forecast},
};
use crate::{
    number::{self, rounded},
    rules::{
        Context,
        figures::user_patterns,
        partition_size::PartitionSize,
        read::suggest::{BucketSpan, BucketWidth, with_bucket},
        statement::{TableWrite, table_of, writes_by_table},
    },
    window::{Pattern, PatternId, TableTraffic},
};
use cqlens_cql::schema::{Table, TableName, is_system};

pub(in crate::rules) struct LargePartition;

impl Rule for LargePartition {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let writes = writes_by_table(context);
        for (name, traffic) in &context.window.tables {
            let Some(table) = context.schema.table(&name.keyspace, &name.table) else {
                continue;
            };
            if is_system(&name.keyspace) || table.clustering().is_empty() || table.view.is_some() {
                continue;
            }
            let subject = Subject {
                name,
                table,
                traffic,
                writes: writes.get(name).map_or(&[], Vec::as_slice),
            };
            let finding = subject
                .large(context, found)
                .or_else(|| subject.growing(context, found));
            finding.into_iter().for_each(|finding| found.push(finding));
        }
    }
}

/// A table whose partitions have several rows.
struct Subject<'a> {
    name: &'a TableName,
    table: &'a Table,
    traffic: &'a TableTraffic,
    writes: &'a [TableWrite<'a>],
}

impl Subject<'_> {
    /// A partition that is too large already: the nodes say so, or reads have returned so much.
    fn large(&self, context: &Context<'_>, found: &Findings<'_>) -> Option<Finding> {
        let (most_rows, most_mib) = (found.threshold(&ABOUT, &ROWS), found.threshold(&ABOUT, &SIZE));
        let reads = &self.traffic.partition_reads;
        let rows = reads.rows.ranked().first().copied();
        let bytes = reads.bytes.ranked().first().copied();
        let on_disk = self
            .traffic
            .node_reads
            .and_then(|node| node.largest_partition_mib);
        let of_limits = [
            on_disk.map(|mib| mib as f64 / most_mib),
            rows.map(|(_, rows)| rows as f64 / most_rows),
            bytes.map(|(_, bytes)| bytes as f64 / MIB / most_mib),
        ];
        let times = of_limits.into_iter().flatten().fold(0.0, f64::max);
        if times < 1.0 {
            return None;
        }
        let severity = match times >= found.threshold(&ABOUT, &FAR) {
            true => Severity::High,
            false => Severity::Medium,
        };
        let mut sizes = Vec::new();
        if let Some((_, rows)) = rows.filter(|(_, rows)| *rows as f64 >= most_rows) {
            sizes.push(format!("{} rows or more", number::count(rows)));
        }
        if let Some(mib) = on_disk.filter(|mib| *mib as f64 >= most_mib) {
            sizes.push(format!("{} on disk", number::bytes(mib << 20)));
        } else if let Some((_, bytes)) = bytes.filter(|(_, bytes)| *bytes as f64 >= most_mib * MIB) {
            sizes.push(format!("{} or more in one read", number::bytes(bytes)));
        }
        let title = format!("A partition of `{}` has {}", self.name, sizes.join(", "));
        let growth = self.growth(found);
        let width = self.width(growth.as_ref(), times, found);
        let mut finding = Finding::on_all(&ABOUT, severity, self.patterns(context), context)
            .of_table(self.name)
            .title(title)
            .suggest(with_bucket(self.table, width, context));
        if let Some(mib) = on_disk {
            finding = finding.first("largest_partition_on_disk_mib", mib);
        }
        if let Some((_, bytes)) = bytes {
            finding = finding.first("bytes_of_one_partition_read", bytes);
        }
        if let Some((partition, rows)) = rows {
            finding = finding
                .first("rows_of_the_partition_at_least", rows)
                .first("partition", format!("#{partition:016x}"));
        }
        Some(finding)
    }

    /// How fast a partition grows, where nothing makes room in it.
    fn growth(&self, found: &Findings<'_>) -> Option<Growth> {
        if rows_go(self.writes) {
            return None;
        }
        let growth = Growth::of(&self.traffic.inserted, self.table)?;
        (growth.rows >= found.threshold(&ABOUT, &NEW_ROWS)).then_some(growth)
    }

    /// A partition that will be too large.
    fn growing(&self, context: &Context<'_>, found: &Findings<'_>) -> Option<Finding> {
        let growth = self.growth(found)?;
        let limits = Limits::of(growth.size, found);
        let observed = context.watch_table(self.name).seconds();
        // From a burst nobody can tell what goes on.
        let is_lasting =
            observed >= found.threshold(&ABOUT, &OBSERVED) * 3_600.0 && growth.seconds >= observed * LASTING;
        let (severity, what) = match (collects_for(self.table), growth.rows_per_second()) {
            (Some((seconds, why)), Some(rate)) if is_lasting => {
                let rows = rate * seconds;
                if rows < limits.rows {
                    return None;
                }
                let severity = match rows >= limits.rows * found.threshold(&ABOUT, &FAR) {
                    true => Severity::Medium,
                    false => Severity::Low,
                };
                (
                    severity,
                    format!("; at this rate it has {} in {why}", limits.in_words(rows)),
                )
            }
            (Some(_), _) => return None,
            (None, Some(rate)) if is_lasting => {
                let days = (limits.rows - growth.rows).max(0.0) / rate / DAY;
                let severity = match days {
                    days if days <= found.threshold(&ABOUT, &SOON) => Severity::Medium,
                    days if days <= found.threshold(&ABOUT, &LATER) => Severity::Low,
                    _ => return None,
                };
                let (limit, when) = (limits.in_words(limits.rows), forecast(days, &growth));
                (severity, format!("; at this rate it has {limit} {when}"))
            }
            (None, _) => (Severity::Info, ", and nothing in the key bounds it".to_owned()),
        };
        let title = format!(
            "One partition of `{}` got {} new rows{}{what}",
            self.name,
            growth.rows_in_words(),
            figures::at_rate(rounded(growth.rows), context.watch_table(self.name))
        );
        let width = self.width(is_lasting.then_some(&growth), 0.0, found);
        let finding = Finding::on_all(&ABOUT, severity, self.patterns(context), context)
            .of_table(self.name)
            .title(title)
            .first("new_rows_of_the_table", self.traffic.inserted.rows.estimate())
            .first("row_bytes", rounded(growth.size.row_bytes()))
            .first("share_of_the_partition", growth.share)
            .first("new_rows_error", rounded(growth.error))
            .first("new_rows", rounded(growth.rows))
            .first("partition", format!("#{:016x}", growth.partition))
            .suggest(with_bucket(self.table, width, context));
        Some(finding)
    }

    /// The bucket that keeps a partition below half of the limits: a span of time, and, where rows do not come in its
    /// order, so many partitions. A partition has so many times as much as it should have already.
    fn width(&self, growth: Option<&Growth>, times: f64, found: &Findings<'_>) -> BucketWidth {
        let rate = growth.and_then(Growth::rows_per_second);
        let size = match growth {
            Some(growth) => growth.size,
            None => PartitionSize::of_sample(self.table, &self.traffic.inserted.sample),
        };
        let limit = Limits::of(size, found).rows.max(1.0);
        let half = limit / 2.0;
        let fits = |span: &&BucketSpan| rate.is_none_or(|rate| rate * span.seconds() <= half);
        let spans = BucketSpan::ALL
            .iter()
            .filter(|span| rate.is_some() || **span != BucketSpan::Year);
        let seconds = match collects_for(self.table) {
            Some((seconds, _)) => seconds,
            None => found.threshold(&ABOUT, &LATER) * DAY,
        };
        let new = rate.map_or(0.0, |rate| rate * seconds);
        let rows = new + times * limit;
        BucketWidth {
            span: spans.into_iter().find(fits).copied().unwrap_or(BucketSpan::Hour),
            buckets: (rows > half).then(|| rounded((rows / half).ceil())),
        }
    }

    fn patterns<'w>(&self, context: &Context<'w>) -> Vec<(PatternId, &'w Pattern)> {
        let of_table = |(id, pattern): &(PatternId, &Pattern)| {
            table_of(pattern).as_ref() == Some(self.name) || self.writes.iter().any(|write| write.id == *id)
        };
        user_patterns(context).filter(of_table).collect()
    }
}

/// A partition that grew for less of the observed time got a load, and no traffic.
const LASTING: f64 = 0.5;

pub(super) const ROWS: Threshold = Threshold {
    name: "rows",
    unit: "rows of a partition",
    default: 100_000.0,
    origin: "DataStax, data modelling: partitions below 100,000 rows and 100 MB",
};

pub(super) const SIZE: Threshold = Threshold {
    name: "mib",
    unit: "MiB of a partition",
    default: 100.0,
    origin: "Cassandra, `compaction_large_partition_warning_threshold`: 100 MiB until 4.1",
};

const FAR: Threshold = Threshold {
    name: "far",
    unit: "times as much as `rows` or `mib`",
    default: 10.0,
    origin: "cqlens default: a GiB, at which repair, compaction and reads of a partition take minutes",
};

const NEW_ROWS: Threshold = Threshold {
    name: "new_rows",
    unit: "new rows of one partition",
    default: 500.0,
    origin: "cqlens default: fewer are a list that people read, whoever writes it",
};

const OBSERVED: Threshold = Threshold {
    name: "observed_hours",
    unit: "hours",
    default: 1.0,
    origin: "cqlens default: from less nobody can tell what goes on; the finding is info then",
};

const SOON: Threshold = Threshold {
    name: "soon_days",
    unit: "days until `rows` or `mib` is passed",
    default: 30.0,
    origin: "cqlens default: a table with another key takes that long to be written, filled and switched to",
};

const LATER: Threshold = Threshold {
    name: "later_days",
    unit: "days until `rows` or `mib` is passed",
    default: 365.0,
    origin: "cqlens default: what takes longer is not forecast from a few days",
};

pub(super) const ABOUT: About = About {
    id: "large-partition",
    group: GROUP,
    summary: "A partition is too large, or grows until it is.",
    why: "\
        A partition is on one set of replicas and never split. Compaction and repair take it as a whole, a read goes through an index of it that grows with it, \
        and one replica that streams it has nothing else to give. Until some tens of megabytes nobody notices; at a gigabyte reads time out \
        and compaction falls behind. More nodes do not help: only a key that ends partitions does.",
    fix: "\
        Add a bucket to the partition key: the day, week or month of rows that come in the order of time, else a hash of a clustering column modulo a \
        fixed number. Choose it so that a partition stays below half of the limit, and one read asks for one or two of them.",
    before: "CREATE TABLE shop.orders (lab text, at timestamp, id int, PRIMARY KEY (lab, at, id));\n\
             SELECT * FROM shop.orders WHERE lab = ? LIMIT 20;",
    after: "CREATE TABLE shop.orders_by_month (\n  lab text, month date, at timestamp, id int,\n  PRIMARY KEY ((lab, month), at, id)\n);\n\
            SELECT * FROM shop.orders_by_month WHERE lab = ? AND month = ? LIMIT 20;",
    severity: "\
        Medium from `rows` or `mib`, high from `far` times as much. Where a partition got `new_rows` and nothing ends it: medium if it passes a limit within \
        `soon_days`, low within `later_days`, nothing beyond. Where the key has a span of time, or rows expire: low if a partition gets `rows` until then, medium \
        from `far` times as much. A burst, or less than `observed_hours`, is info.",
    thresholds: &[ROWS, SIZE, FAR, NEW_ROWS, OBSERVED, SOON, LATER],
    needs: "\
        The schema. Rows that reads return of one partition, all their pages together: it has as many, at least. Primary keys of INSERTs: a sample of 512 different rows of a \
        table, of which the partition that grows has 16 or more, and so a thirtieth of all; UPDATEs that write new rows are not counted. With `--poll-system-views` \
        the nodes say how large the largest partition on disk is.",
    source: "Data Modeling in Cassandra, the pathology lab: buckets of 1000 orders; Cassandra documentation, partition size",
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        rules::testing::{amid, run_with, write},
        window::{NodeReads, Window, WrittenRow},
    };
    use cqlens_cql::{plan::StatementKind, schema::Schema};

    const ORDERS: &str =
        "CREATE TABLE shop.orders (lab text, at timestamp, id int, test text, PRIMARY KEY (lab, at, id));";

    fn window() -> Window {
        let cql = "INSERT INTO shop.orders (lab, at, id, test) VALUES (?, ?, ?, ?)";
        let mut window = amid([write(cql, StatementKind::Insert, &[], 1_000)]);
        window.observed_seconds = 10.0 * 3_600.0;
        window
    }

    fn traffic(window: &mut Window) -> &mut TableTraffic {
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: "orders".to_owned(),
        };
        window.tables.entry(name).or_default()
    }

    /// So many rows of fifty bytes, from one second to another one.
    fn grow(window: &mut Window, partition: u64, rows: u64, span: (i64, i64)) {
        grow_by(window, partition, (rows, 50), span);
    }

    fn grow_by(window: &mut Window, partition: u64, (rows, bytes): (u64, u32), (from, to): (i64, i64)) {
        let inserted = &mut traffic(window).inserted;
        for row in 0..rows {
            let hash = (partition * 1_000_000 + row).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let at = from * 1_000 + (to - from) * 1_000 * row.cast_signed() / rows.cast_signed();
            inserted.inserts += 1;
            inserted.rows.insert(hash);
            inserted.sample.insert(hash, WrittenRow { partition, bytes, at });
        }
    }

    fn found(window: &Window, table: &str) -> Vec<(Severity, String)> {
        let keyspace =
            "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};";
        let schema = Schema::from_cql(&format!("{keyspace}{table}")).unwrap();
        let findings = run_with(&LargePartition, window, &schema).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    const DAY_SECONDS: (i64, i64) = (0, 36_000);

    #[test]
    fn what_reads_have_returned_is_there_at_least() {
        let mut window = window();
        traffic(&mut window).partition_reads.see(7, 120_000, 20 << 20);
        let expected = "A partition of `shop.orders` has 120,000 rows or more";
        assert_eq!(found(&window, ORDERS), [(Severity::Medium, expected.to_owned())]);
        traffic(&mut window).node_reads = Some(NodeReads {
            largest_partition_mib: Some(2_000),
            ..NodeReads::default()
        });
        let [(severity, title)] = &found(&window, ORDERS)[..] else {
            unreachable!("one finding")
        };
        assert_eq!(*severity, Severity::High);
        assert!(
            title.ends_with("120,000 rows or more, 2.0 GiB on disk"),
            "{title}"
        );
        let mut small = self::window();
        traffic(&mut small).partition_reads.see(7, 20_000, 20 << 20);
        assert_eq!(found(&small, ORDERS), []);
    }

    #[test]
    fn a_partition_that_grows_without_end_is_forecast() {
        let mut window = window();
        grow(&mut window, 1, 300, DAY_SECONDS);
        grow(&mut window, 2, 10_000, DAY_SECONDS);
        let [(severity, title)] = &found(&window, ORDERS)[..] else {
            unreachable!("one finding")
        };
        assert_eq!(*severity, Severity::Medium);
        assert!(
            title.starts_with("One partition of `shop.orders` got about "),
            "{title}"
        );
        assert!(
            title.contains("; at this rate it has 100,000 rows in "),
            "{title}"
        );
    }

    #[test]
    fn a_key_with_a_day_a_ttl_and_partitions_that_end_are_bounded() {
        let by_day = "CREATE TABLE shop.orders (lab text, day date, at timestamp, id int, test text, PRIMARY KEY ((lab, day), at, id));";
        let mut window = window();
        grow(&mut window, 2, 10_000, DAY_SECONDS);
        assert_eq!(found(&window, by_day), []);
        let by_month = by_day.replace("day", "month");
        let [(severity, title)] = &found(&window, &by_month)[..] else {
            unreachable!("one finding")
        };
        assert_eq!(*severity, Severity::Low);
        assert!(title.ends_with("rows in the month of its key"), "{title}");
        let expires = ORDERS.replace(";", " WITH default_time_to_live = 86400;");
        assert_eq!(found(&window, &expires), []);
        // The last bucket is filled, and before it those that are full.
        let mut buckets = self::window();
        grow(&mut buckets, 1, 1_000, (0, 18_000));
        grow(&mut buckets, 2, 1_000, (18_000, 36_000));
        assert_eq!(found(&buckets, ORDERS), []);
    }

    #[test]
    fn where_rows_are_large_bytes_are_forecast() {
        let mut window = window();
        // Of rows of 20 kB five thousand are 100 MiB.
        grow_by(&mut window, 2, (400, 20_000), DAY_SECONDS);
        grow_by(&mut window, 3, (100, 20_000), DAY_SECONDS);
        assert_eq!(found(&window, ORDERS), [], "few rows");
        grow_by(&mut window, 2, (500, 20_000), DAY_SECONDS);
        let [(severity, title)] = &found(&window, ORDERS)[..] else {
            unreachable!("one finding")
        };
        assert_eq!(*severity, Severity::Medium);
        assert!(title.contains("; at this rate it has 100 MiB in "), "{title}");
        let by_month = "CREATE TABLE shop.orders (lab text, month date, at timestamp, id int, test text, PRIMARY KEY ((lab, month), at, id));";
        let [(_, title)] = &found(&window, by_month)[..] else {
            unreachable!("one finding")
        };
        assert!(title.ends_with(" MiB in the month of its key"), "{title}");
    }

    #[test]
    fn a_bucket_that_is_a_hash_has_a_number() {
        let by_number = ORDERS.replace("(lab, at, id)", "(lab, id, at)");
        let cql = |window: &Window| {
            let keyspace =
                "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};";
            let schema = Schema::from_cql(&format!("{keyspace}{by_number}")).unwrap();
            let finding = run_with(&LargePartition, window, &schema).findings.pop().unwrap();
            finding.suggested_cql[0].lines().nth(1).unwrap().to_owned()
        };
        // 2.4 times as much as it should have: five partitions have less than half each.
        let mut large = window();
        traffic(&mut large).partition_reads.see(7, 240_000, 20 << 20);
        assert_eq!(cql(&large), "-- bucket: hash of id modulo 5");
        // A hundred rows an hour are 876,000 in a year.
        let mut growing = window();
        grow(&mut growing, 2, 510, (0, 18_360));
        growing.observed_seconds = 5.1 * 3_600.0;
        assert_eq!(cql(&growing), "-- bucket: hash of id modulo 18");
        // Of a burst nobody knows.
        let mut burst = window();
        grow(&mut burst, 2, 900, (0, 5));
        assert_eq!(cql(&burst), "-- bucket: hash of id modulo 16");
    }

    #[test]
    fn a_burst_is_info_and_a_few_rows_are_nothing() {
        let mut window = window();
        grow(&mut window, 2, 900, (0, 5));
        let [(severity, title)] = &found(&window, ORDERS)[..] else {
            unreachable!("one finding")
        };
        assert_eq!(*severity, Severity::Info);
        assert!(title.ends_with("nothing in the key bounds it"), "{title}");
        let mut few = self::window();
        grow(&mut few, 2, 300, DAY_SECONDS);
        assert_eq!(found(&few, ORDERS), []);
    }
}
