//! Reads of several partitions that differ in one column of the key: what both rules on them go by.

use super::{
    Context, Findings, Pattern, PatternId, Sent, Sequence, SequenceStep, TableName, applications, estimate,
    join, rounded, share, table_of,
};
use cqlens_window::{BucketReads, BucketUnit};

/// Reads of a pattern that ask for several buckets of a key.
pub(super) struct Buckets<'a> {
    pub(super) id: PatternId,
    pub(super) pattern: &'a Pattern,
    pub(super) name: TableName,
    /// The column of the bucket.
    pub(super) column: &'a str,
    pub(super) reads: &'a BucketReads,
    /// The part of the executions that its operations are, where it is known.
    share: Option<f64>,
    /// Its place in the partition key.
    position: usize,
}

/// Operations of several partitions, of all: below that most are served by one.
const HABIT: f64 = 0.5;

/// Operations whose partitions follow each other in equal steps.
const STEPS: f64 = 0.8;

/// So many of all buckets that are known, at least, are all of them.
const ALL: f64 = 0.9;

/// All reads of a window that ask for several buckets of a key.
pub(super) fn all<'a>(context: &Context<'a>, found: &Findings<'_>) -> Vec<Buckets<'a>> {
    let operations = found.threshold(&super::client_join::ABOUT, &join::OPERATIONS);
    let mut all = Vec::new();
    for (id, columns) in &context.window.sequences.buckets {
        let Some(pattern) = context.window.patterns.get(id) else {
            continue;
        };
        let Some(name) = table_of(pattern) else { continue };
        let Some(table) = context.schema.table(&name.keyspace, &name.table) else {
            continue;
        };
        for (column, reads) in columns {
            let mut key = table.partition_key().iter();
            let Some(position) = key.position(|of_key| of_key.name == *column) else {
                continue;
            };
            let several = reads.partitions.count();
            if several as f64 >= operations && share(several, several + reads.single) >= HABIT {
                all.push(Buckets {
                    id: *id,
                    pattern,
                    name: name.clone(),
                    column,
                    reads,
                    share: context.window.sequences.share_of_requests(*id, several),
                    position,
                });
            }
        }
    }
    all
}

impl Buckets<'_> {
    /// Whether each operation asks for all buckets that there are: the same few values for every key.
    pub(super) fn is_of_all(&self) -> bool {
        let values = self.reads.values.len();
        if !(2..BucketReads::MOST_VALUES).contains(&values) || self.is_by_time() {
            return false;
        }
        let asks_for_all = self.reads.partitions.quantile(0.5) as f64 >= ALL * values as f64;
        let keys = self.reads.keys.estimate();
        let ends = self.reads.values.first().zip(self.reads.values.last());
        // 0, 1, 2, 3: nobody numbers anything else like that, behind the key that is asked for.
        let is_numbered = self.reads.unit == Some(BucketUnit::Numbers)
            && self.position > 0
            && ends.is_some_and(|(first, last)| {
                (0..=1).contains(first) && last - first + 1 == i64::try_from(values).unwrap_or(0)
            });
        asks_for_all && (is_numbered || keys >= 3 * values as u64)
    }

    fn is_by_time(&self) -> bool {
        self.reads.unit.is_some_and(BucketUnit::is_time)
    }

    /// Whether each operation goes from one bucket to the next.
    pub(super) fn is_walk(&self) -> bool {
        let is_in_steps = share(self.reads.steps, self.reads.partitions.count()) >= STEPS;
        self.reads.unit != Some(BucketUnit::Values) && is_in_steps && !self.is_of_all()
    }

    /// Partitions of an operation, the mean.
    pub(super) fn partitions(&self) -> f64 {
        self.reads.partitions.mean()
    }

    /// Rows of an operation for each partition that it asks for.
    pub(super) fn rows_of_each(&self) -> f64 {
        share(self.reads.rows.total(), self.reads.partitions.total())
    }

    /// The steps that are taken most often.
    pub(super) fn step(&self) -> u64 {
        let sizes = self.reads.step_sizes.iter();
        sizes
            .max_by_key(|(_, times)| **times)
            .map_or(1, |(size, _)| *size)
    }

    pub(super) fn sent(&self) -> Sent {
        let several = self.reads.partitions.count();
        if self.reads.lists * 2 > several {
            Sent::InOneRequest
        } else if self.reads.concurrent * 2 > several {
            Sent::AtTheSameTime
        } else {
            Sent::OneAfterTheOther
        }
    }

    /// Operations, of all executions.
    pub(super) fn times(&self) -> u64 {
        let several = self.reads.partitions.count();
        let requests = match self.sent() {
            Sent::InOneRequest => several + self.reads.single,
            _ => self.reads.partitions.total() + self.reads.single,
        };
        let share = self.share.unwrap_or_else(|| share(several, requests));
        rounded(self.pattern.count as f64 * share)
    }

    pub(super) fn sequence(&self, kind: &'static str) -> Sequence {
        Sequence {
            kind,
            path: join::times(self.partitions(), &self.name),
            tables: vec![self.name.clone()],
            patterns: vec![self.id],
            count: self.times(),
            count_range: self.times_range(),
            steps: vec![SequenceStep {
                from: self.name.clone(),
                to: self.name.clone(),
                fan_out: self.reads.partitions.clone(),
                sent: self.sent(),
            }],
            applications: applications(&[(self.id, self.pattern)]),
            sampled: self.reads.partitions.count(),
            fan_out: self.reads.partitions.clone(),
            partitions: join::round(self.partitions()),
            elapsed_us: self.reads.elapsed_us.clone(),
            sent: self.sent(),
            serial_share: 1.0
                - share(
                    self.reads.concurrent + self.reads.lists,
                    self.reads.partitions.count(),
                ),
        }
    }

    /// Between how many and how many operations there were.
    fn times_range(&self) -> (u64, u64) {
        let several = self.reads.partitions.count();
        let looked_at = several + self.reads.single;
        // As many were looked at as requests, where all of them were.
        let all = match self.sent() {
            Sent::InOneRequest => looked_at,
            _ => self.reads.partitions.total() + self.reads.single,
        };
        let is_all = all >= self.pattern.count;
        let executions = if is_all { looked_at } else { self.pattern.count };
        estimate::range(self.times(), (several, looked_at), executions)
    }
}
