//! Partitions that are too large, or will be.

use std::collections::BTreeMap;

use super::{
    About, Finding, Findings, GROUP, Rule, Severity, Threshold, figures,
    growth::{Growth, collects_for, has_bucket, rows_go},
    limits::{DAY, MIB, PartitionLimits, forecast},
};
use crate::{
    Cause, Context,
    partition_size::PartitionSize,
    read::suggest::{BucketSpan, BucketWidth, by_bucket},
    statement::{TableWrite, patterns},
};
use cqlens_cql::schema::{Table, TableName, is_system};
use cqlens_window::{
    Pattern, PatternId, TableTraffic,
    number::{self, rounded},
};

pub(crate) struct LargePartition;

impl Rule for LargePartition {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
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
                writes: context.writes_to(name),
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
            .title(title);
        finding = by_bucket(finding, self.table, width, context);
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
        let limits = PartitionLimits::of(growth.size, found);
        let observed = context.watch_table(self.name).seconds();
        // From a burst nobody can tell what goes on.
        let is_lasting = observed >= LEAST_OBSERVED && growth.seconds >= observed * LASTING;
        let is_short = observed < found.threshold(&ABOUT, &OBSERVED) * 3_600.0;
        if is_short && has_bucket(self.table) {
            return None;
        }
        let judged = |severity| match (is_short, severity) {
            (false, severity) => severity,
            (true, Severity::Medium | Severity::High) => Severity::Low,
            (true, _) => Severity::Info,
        };
        let assumption = match is_short {
            true => format!("if it goes on as in these {}", number::seconds(observed)),
            false => "at this rate".to_owned(),
        };
        let (severity, what, line) = match (collects_for(self.table), growth.rows_per_second()) {
            (Some((seconds, why)), Some(rate)) if is_lasting => {
                let rows = rate * seconds;
                if rows < limits.rows {
                    return None;
                }
                let severity = match rows >= limits.rows * found.threshold(&ABOUT, &FAR) {
                    true => Severity::Medium,
                    false => Severity::Low,
                };
                let forecast = format!("{} in {why}", limits.in_words(rows));
                let what = format!(", and {assumption} will have {forecast}");
                (
                    judged(severity),
                    what,
                    Some(limits.line(&growth, rate, Some(seconds), forecast)),
                )
            }
            (Some(_), _) => return None,
            (None, Some(rate)) if is_lasting => {
                let days = (limits.rows - growth.rows).max(0.0) / rate / DAY;
                let severity = match days {
                    days if days <= found.threshold(&ABOUT, &SOON) => Severity::Medium,
                    days if days <= found.threshold(&ABOUT, &LATER) => Severity::Low,
                    _ if is_short => Severity::Info,
                    _ => return None,
                };
                let forecast = format!("{} {}", limits.in_words(limits.rows), forecast(days, &growth));
                let what = format!(", and {assumption} will have {forecast}");
                let line = limits.line(&growth, rate, None, forecast);
                (judged(severity), what, Some(line))
            }
            (None, _) => (
                Severity::Info,
                ", and nothing in the key limits it".to_owned(),
                None,
            ),
        };
        let title = format!(
            "One partition of `{}` got {} new rows{}{what}",
            self.name,
            growth.rows_in_words(),
            figures::at_rate(rounded(growth.rows), context.watch_table(self.name))
        );
        let width = self.width(is_lasting.then_some(&growth).filter(|_| !is_short), 0.0, found);
        let finding = Finding::on_all(&ABOUT, severity, self.patterns(context), context)
            .of_table(self.name)
            .title(title)
            .first("new_rows_of_the_table", self.traffic.inserted.rows.estimate())
            .first("row_bytes", rounded(growth.size.row_bytes()))
            .first("share_of_the_partition", growth.share)
            .first("new_rows_error", rounded(growth.error))
            .first("new_rows", rounded(growth.rows))
            .first("partition", format!("#{:016x}", growth.partition))
            .growing(line);
        Some(by_bucket(finding, self.table, width, context))
    }

    /// The bucket that keeps a partition below half of the limits: a span of time, and, where rows do not come in its
    /// order, so many partitions. A partition has so many times as much as it should have already.
    fn width(&self, growth: Option<&Growth>, times: f64, found: &Findings<'_>) -> BucketWidth {
        let rate = growth.and_then(Growth::rows_per_second);
        let size = match growth {
            Some(growth) => growth.size,
            None => PartitionSize::of_sample(self.table, &self.traffic.inserted.sample),
        };
        let limit = PartitionLimits::of(size, found).rows.max(1.0);
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
        let named = context.patterns_of(self.name).iter().copied();
        let written = patterns(context.writes_to(self.name));
        let all: BTreeMap<_, _> = named.chain(written).collect();
        all.into_iter().collect()
    }
}

/// A partition that grew for less of the observed time got a load, and no traffic.
const LASTING: f64 = 0.5;

/// Seconds; from less nothing is projected.
const LEAST_OBSERVED: f64 = 60.0;

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
    unit: "times `rows` or `mib`",
    default: 10.0,
    origin: "cqlens default: a GiB, at which repair, compaction and reads of a partition take minutes",
};

const NEW_ROWS: Threshold = Threshold {
    name: "new_rows",
    unit: "new rows of one partition",
    default: 500.0,
    origin: "cqlens default: fewer are a list made for people to read, even if a program writes it",
};

const OBSERVED: Threshold = Threshold {
    name: "observed_hours",
    unit: "hours",
    default: 1.0,
    origin: "cqlens default: a shorter observation does not show a trend; the severity is a step lower then",
};

const SOON: Threshold = Threshold {
    name: "soon_days",
    unit: "days until `rows` or `mib` is exceeded",
    default: 30.0,
    origin: "cqlens default: the time it takes to create, fill and switch to a table with another key",
};

const LATER: Threshold = Threshold {
    name: "later_days",
    unit: "days until `rows` or `mib` is exceeded",
    default: 365.0,
    origin: "cqlens default: a few days of traffic allow no longer forecast",
};

pub(super) const ABOUT: About = About {
    id: "large-partition",
    group: GROUP,
    summary: "A partition is too large, or keeps growing.",
    why: "A partition lives on one set of replicas and is never split. Compaction and repair process it as a \
        whole, reads go through a partition index that grows with it, and a replica that streams it is busy \
        with nothing else. Up to a few tens of megabytes this goes unnoticed; at a gigabyte, reads time out \
        and compaction falls behind. More nodes do not help, only a key that limits the size of partitions.",
    fix: "\
        Add a bucket to the partition key: the day, week or month for rows that arrive in time order, else a \
        hash of a clustering column modulo a fixed number. Choose it so that a partition stays below half of \
        the limit, and a read needs only one or two buckets.",
    fix_in_short: "Add a bucket",
    before: "CREATE TABLE shop.orders (lab text, at timestamp, id int, PRIMARY KEY (lab, at, id));\n\
             SELECT * FROM shop.orders WHERE lab = ? LIMIT 20;",
    after: "CREATE TABLE shop.orders_by_month (\n  lab text, month date, at timestamp, id int,\n  PRIMARY KEY ((lab, month), at, id)\n);\n\
            SELECT * FROM shop.orders_by_month WHERE lab = ? AND month = ? LIMIT 20;",
    severity: "Medium from `rows` or `mib`, high from `far` times as much. If a partition got `new_rows` and \
        nothing limits it: medium if it exceeds a limit within `soon_days`, low within `later_days`, nothing \
        beyond. If the key contains a span of time, or rows expire: low if a partition gets `rows` in that \
        time, medium from `far` times as much. In less than `observed_hours` this is a projection, and a step \
        lower; a burst, or less than a minute, is info.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[ROWS, SIZE, FAR, NEW_ROWS, OBSERVED, SOON, LATER],
    needs: "\
        The schema. The rows that reads return from one partition, over all pages: it has at least as many. \
        The primary keys of INSERTs: a sample of 512 distinct rows per table, of which the growing partition \
        has 16 or more, and so at least one in thirty; UPDATEs that write new rows are not counted. With \
        `--poll-system-views`, the nodes report the size of the largest partition on disk.",
    source: "Data Modeling in Cassandra, the pathology lab: buckets of 1000 orders; Cassandra documentation, partition size",
    cause: Some(Cause::UNEVEN_PARTITIONS),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests;
