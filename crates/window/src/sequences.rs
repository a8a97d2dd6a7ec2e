//! Statements that belong together: what one operation of an application sends one after the other, or at once.

mod limits;
mod pair_room;
mod repeated_reads;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::{Distinct, Distribution, PatternId, counts::raise, sketch::meter};

pub use pair_room::PairRoom;
pub use repeated_reads::{Bursts, RepeatedReads};

/// What was seen of operations of several statements, in samples that say how large they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sequences {
    /// What was read by the values of rows, by the pattern that read the rows.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "meter::map")]
    pub followed: BTreeMap<PatternId, FollowedReads>,
    /// Reads of several partitions of one bucketed key, by pattern and column of the bucket.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "meter::nested"
    )]
    pub buckets: BTreeMap<PatternId, BTreeMap<String, BucketReads>>,
    /// Writes of the same values into two tables, by the pattern with the lower id and then by the other one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "meter::map")]
    pub copies: BTreeMap<PatternId, CopiedWrites>,
    /// Writes of the same values into several tables by one batch.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "meter::map")]
    pub batched: BTreeMap<PatternId, BatchedCopies>,
    /// Writes of partitions that were read just before, by the pattern of the write and then by that of the read.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "meter::nested"
    )]
    pub rewrites: BTreeMap<PatternId, BTreeMap<PatternId, Rewrites>>,
    /// Reads that were sent again and again with the same values, by pattern.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "meter::map")]
    pub repeats: BTreeMap<PatternId, RepeatedReads>,
    /// Requests that may have begun an operation, by pattern: all of those times in which all were looked at, those
    /// for further pages, without rows and with errors among them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "meter::map")]
    pub requests: BTreeMap<PatternId, u64>,
}

/// Reads whose rows were compared with the keys that their client asked for next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FollowedReads {
    /// How many were: a sample of the pattern's executions.
    pub reads: u64,
    /// Rows of all of them.
    pub rows: u64,
    /// Reads with rows that were not remembered.
    #[serde(default)]
    pub passed_over: u64,
    /// From the time that a read was asked to the answer of the last request that followed it, itself or another one that did,
    /// in microseconds; of those that were followed.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub operation_us: Distribution,
    /// Of the reads those that could be compared with another execution, of other values.
    #[serde(default)]
    pub controlled: u64,
    /// What was sent by values of their rows, by pattern.
    #[serde(deserialize_with = "meter::map")]
    pub links: BTreeMap<PatternId, Link>,
}

/// Statements whose partition keys are values of the rows of a read that their client made just before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// How many different keys followed a read, of those reads that were followed at all.
    pub keys: Distribution,
    /// Rows of the reads that were followed.
    pub rows: u64,
    /// Requests that asked for the keys, for some of them more than once.
    pub requests: u64,
    /// Those that asked for several at once.
    pub lists: u64,
    /// Keys of all those lists.
    #[serde(default)]
    pub listed: u64,
    /// Those of them that are values of the rows.
    #[serde(default)]
    pub listed_found: u64,
    /// Reads that were followed by a program that had waited before it went on.
    #[serde(default)]
    pub late: u64,
    /// Those that were sent while another one of the same operation was in flight.
    pub overlapping: u64,
    /// From the answer of the read to the answer of the last request, in microseconds.
    pub elapsed_us: Distribution,
    /// Values of their rows that were asked for in as much time before the read was answered: what chance brings.
    pub by_chance: u64,
    /// Values of another execution of the read that were asked for, of as many as its own: what chance brings, of
    /// [`FollowedReads::controlled`] reads.
    #[serde(default)]
    pub by_control: u64,
    /// Requests that were compared with the one before them that followed the same read.
    pub compared: u64,
    /// Those that came in the order of the rows.
    pub in_order: u64,
    /// The different values that linked.
    pub values: Distinct,
    /// Which column of the rows became which column of the key, and how many keys did.
    #[serde(deserialize_with = "meter::nested")]
    pub columns: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Reads of a pattern that differ in one column of the partition key, and were made by one client without a break.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BucketReads {
    /// Operations of a single partition.
    pub single: u64,
    /// Partitions of each operation of several.
    pub partitions: Distribution,
    /// Operations of several partitions whose requests were in flight at the same time.
    pub concurrent: u64,
    /// Operations of several partitions that were one request, by `IN`.
    pub lists: u64,
    /// Operations of several partitions, one after the other, whose values rose or fell in equal steps.
    pub steps: u64,
    /// The size of such steps, in [`BucketReads::unit`], and how often it was.
    #[serde(deserialize_with = "meter::map")]
    pub step_sizes: BTreeMap<u64, u64>,
    /// What values are; none before the first.
    pub unit: Option<BucketUnit>,
    /// Rows of each operation of several partitions.
    pub rows: Distribution,
    /// The LIMIT of the first read of each operation of several partitions, where it has one.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub limit: Distribution,
    /// From the first request of an operation of several partitions to its last answer, in microseconds.
    pub elapsed_us: Distribution,
    /// Different values of the column, of those that are known: at most [`BucketReads::MOST_VALUES`].
    #[serde(deserialize_with = "meter::set")]
    pub values: BTreeSet<i64>,
    /// Keys without the bucket.
    pub keys: Distinct,
}

/// What the values of a bucket's column count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BucketUnit {
    /// Texts that are no dates.
    Values,
    /// Whole numbers.
    Numbers,
    /// Months of the calendar.
    Months,
    /// Days.
    Days,
    /// Milliseconds.
    Milliseconds,
}

impl BucketUnit {
    /// What values are, some of which are this and others that: dates only if all are.
    pub fn and(self, other: Option<Self>) -> Self {
        other.map_or(self, |other| self.min(other))
    }

    /// What a month has of it, where that is not always the same: at least, at most (an hour more or less where clocks
    /// change) and the mean.
    pub fn month(self) -> Option<(u64, u64, u64)> {
        const HOUR: u64 = 3_600_000;
        match self {
            Self::Days => Some((28, 31, 30)),
            Self::Milliseconds => Some((28 * 24 * HOUR - HOUR, 31 * 24 * HOUR + HOUR, 2_629_746_000)),
            Self::Values | Self::Numbers | Self::Months => None,
        }
    }

    /// Whether values are points in time.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Months | Self::Days | Self::Milliseconds)
    }
}

impl BucketReads {
    /// More different values are no set of buckets that anybody reads as a whole.
    pub const MOST_VALUES: usize = 257;

    /// More sizes of steps are not told apart.
    pub const MOST_STEPS: usize = 16;

    fn merge(&mut self, other: &Self) {
        raise(&mut self.single, other.single);
        self.partitions.merge(&other.partitions);
        raise(&mut self.concurrent, other.concurrent);
        raise(&mut self.lists, other.lists);
        raise(&mut self.steps, other.steps);
        for (size, times) in &other.step_sizes {
            raise(self.step_sizes.entry(*size).or_default(), *times);
        }
        self.unit = self.unit.map_or(other.unit, |unit| Some(unit.and(other.unit)));
        self.rows.merge(&other.rows);
        self.limit.merge(&other.limit);
        self.elapsed_us.merge(&other.elapsed_us);
        self.values.extend(&other.values);
        self.keys.merge(&other.keys);
    }
}

/// Writes of a pattern that were compared with those that the same client made just before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CopiedWrites {
    /// How many were: a sample of the pattern's executions.
    pub writes: u64,
    /// Pairs with writes of another pattern, of a higher id.
    #[serde(deserialize_with = "meter::map")]
    pub pairs: BTreeMap<PatternId, WritePairs>,
}

/// Writes of the same values by two patterns, into two tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WritePairs {
    /// How many.
    pub pairs: u64,
    /// What came later than a copy does and had the same values, in [`WritePairs::LATE`] times as much time: what chance
    /// brings.
    pub late: u64,
    /// Pairs of which one failed and the other did not.
    pub one_failed: u64,
    /// Of which the second was sent before the first was answered.
    pub concurrent: u64,
    /// From the first request to the second, in microseconds.
    pub apart_us: Distribution,
}

/// Batches of several tables, as far as it is known which statement writes which.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchedCopies {
    /// How many were looked at: a sample of the pattern's executions.
    pub batches: u64,
    /// Those whose statements all write the same values.
    pub copies: u64,
    /// Of the copies those that failed: none of them may have been written, or some.
    pub failed: u64,
}

/// Writes of partitions that their client has read just before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rewrites {
    /// How many.
    pub writes: u64,
    /// Those that came later than a program goes on, in as much time again: what chance brings.
    pub late: u64,
    /// From the answer of the read to the write, in microseconds.
    pub elapsed_us: Distribution,
}

/// What an entry takes up beside what it holds.
const EACH: usize = 128;

impl WritePairs {
    /// How much longer late writes are looked for than copies.
    pub const LATE: i64 = 1;
}

impl Sequences {
    /// More patterns are not told apart.
    pub const MOST: usize = 4_096;

    /// More links, columns of buckets or pairs are left out; those are a few kilobytes each.
    pub const MOST_LINKS: usize = 1_024;

    /// Counts reads with rows that are not remembered.
    pub fn pass_over(&mut self, id: PatternId, reads: u64) {
        if self.followed.len() < Self::MOST || self.followed.contains_key(&id) {
            raise(&mut self.followed.entry(id).or_default().passed_over, reads);
        }
    }

    /// Adds reads of a pattern that were looked at.
    pub fn count_requests(&mut self, id: PatternId, requests: u64) {
        raise(self.requests.entry(id).or_default(), requests);
    }

    /// The part of the executions of a pattern that so many operations are, of which each begins with one of them; none where
    /// it is not known how many were looked at.
    pub fn share_of_requests(&self, id: PatternId, operations: u64) -> Option<f64> {
        let requests = self.requests.get(&id).filter(|requests| **requests > 0)?;
        Some((operations as f64 / *requests as f64).min(1.0))
    }

    /// How many links there are.
    pub fn links(&self) -> usize {
        self.followed.values().map(|reads| reads.links.len()).sum()
    }

    /// More columns of one statement are not told apart.
    const MOST_COLUMNS: usize = 64;

    /// Counts a batch of several tables.
    pub fn note_batch(&mut self, id: PatternId, are_copies: bool, succeeded: bool) {
        if self.batched.len() >= Self::MOST && !self.batched.contains_key(&id) {
            return;
        }
        let batched = self.batched.entry(id).or_default();
        batched.batches += 1;
        batched.copies += u64::from(are_copies);
        batched.failed += u64::from(are_copies && !succeeded);
    }

    /// The repeated reads of a pattern; none where there are too many patterns.
    pub fn repeated(&mut self, id: PatternId) -> Option<&mut RepeatedReads> {
        let has_room = self.repeats.len() < Self::MOST_LINKS || self.repeats.contains_key(&id);
        has_room.then(|| self.repeats.entry(id).or_default())
    }

    /// Forgets patterns that have left the window: all at once, since each of them may be in what others have.
    pub(super) fn forget(&mut self, gone: &FxHashSet<PatternId>) {
        let stays = |id: &PatternId| !gone.contains(id);
        self.buckets.retain(|id, _| stays(id));
        self.batched.retain(|id, _| stays(id));
        self.requests.retain(|id, _| stays(id));
        self.repeats.retain(|id, _| stays(id));
        self.rewrites.retain(|id, reads| {
            reads.retain(|id, _| stays(id));
            stays(id)
        });
        self.followed.retain(|id, reads| {
            reads.links.retain(|id, _| stays(id));
            stays(id)
        });
        self.copies.retain(|id, writes| {
            writes.pairs.retain(|id, _| stays(id));
            stays(id)
        });
    }

    /// What it takes up, about.
    pub(super) fn bytes(&self) -> usize {
        let links = self.followed.values().flat_map(|reads| reads.links.values());
        let links = links.map(|link| {
            let numbers = link.keys.bytes() + link.elapsed_us.bytes() + link.values.bytes();
            size_of::<Link>() + numbers + link.columns.len() * EACH
        });
        let buckets = self.buckets.values().flat_map(BTreeMap::values).map(|reads| {
            let numbers = [&reads.partitions, &reads.rows, &reads.limit, &reads.elapsed_us]
                .map(Distribution::bytes)
                .iter()
                .sum::<usize>()
                + reads.keys.bytes();
            size_of::<BucketReads>() + numbers + reads.values.len() * EACH / 4
        });
        let pairs = self.copies.values().flat_map(|writes| writes.pairs.values());
        let pairs = pairs.map(|pair| size_of::<WritePairs>() + pair.apart_us.bytes());
        let patterns = self.followed.len() + self.buckets.len() + self.copies.len();
        let patterns = patterns + self.batched.len() + self.requests.len();
        let patterns = patterns * EACH;
        let rewrites = self.rewrites.values().flat_map(BTreeMap::values);
        let rewrites = rewrites.map(|writes| size_of::<Rewrites>() + EACH + writes.elapsed_us.bytes());
        let repeats = self.repeats.values();
        let repeats = repeats.map(|reads| size_of::<RepeatedReads>() + EACH + reads.keys.bytes());
        let sums = [
            links.sum(),
            buckets.sum(),
            pairs.sum(),
            rewrites.sum(),
            repeats.sum::<usize>(),
        ];
        patterns + sums.iter().sum::<usize>()
    }

    /// All of them, those that are empty, too.
    pub(super) fn distributions_mut(&mut self) -> impl Iterator<Item = &mut Distribution> {
        let followed = self.followed.values_mut().flat_map(|reads| {
            let links = reads.links.values_mut();
            let links = links.flat_map(|link| [&mut link.keys, &mut link.elapsed_us]);
            links.chain([&mut reads.operation_us])
        });
        let buckets = self.buckets.values_mut().flat_map(BTreeMap::values_mut);
        let buckets = buckets.flat_map(|reads| {
            [
                &mut reads.partitions,
                &mut reads.rows,
                &mut reads.limit,
                &mut reads.elapsed_us,
            ]
        });
        let pairs = self.copies.values_mut();
        let pairs = pairs.flat_map(|writes| writes.pairs.values_mut().map(|pair| &mut pair.apart_us));
        let rewrites = self.rewrites.values_mut().flat_map(BTreeMap::values_mut);
        let rewrites = rewrites.map(|writes| &mut writes.elapsed_us);
        followed.chain(buckets).chain(pairs).chain(rewrites)
    }

    /// Adds what `other` has.
    pub(super) fn merge(&mut self, other: &Self) {
        self.add(other);
        self.keep_within_limits();
    }

    fn add(&mut self, other: &Self) {
        for (id, reads) in &other.followed {
            self.followed.entry(*id).or_default().merge(reads);
        }
        for (id, columns) in &other.buckets {
            let mine = self.buckets.entry(*id).or_default();
            for (column, reads) in columns {
                mine.entry(column.clone()).or_default().merge(reads);
            }
        }
        for (id, writes) in &other.copies {
            self.copies.entry(*id).or_default().merge(writes);
        }
        for (id, batches) in &other.batched {
            self.batched.entry(*id).or_default().merge(*batches);
        }
        for (id, reads) in &other.rewrites {
            let mine = self.rewrites.entry(*id).or_default();
            for (read, writes) in reads {
                mine.entry(*read).or_default().merge(writes);
            }
        }
        for (id, reads) in &other.repeats {
            self.repeats.entry(*id).or_default().merge(reads);
        }
        for (id, requests) in &other.requests {
            self.count_requests(*id, *requests);
        }
    }
}

impl FollowedReads {
    fn merge(&mut self, other: &Self) {
        raise(&mut self.reads, other.reads);
        raise(&mut self.rows, other.rows);
        raise(&mut self.passed_over, other.passed_over);
        raise(&mut self.controlled, other.controlled);
        self.operation_us.merge(&other.operation_us);
        for (id, link) in &other.links {
            self.links.entry(*id).or_default().merge(link);
        }
    }
}

impl Link {
    fn merge(&mut self, other: &Self) {
        self.keys.merge(&other.keys);
        raise(&mut self.rows, other.rows);
        raise(&mut self.requests, other.requests);
        raise(&mut self.lists, other.lists);
        raise(&mut self.listed, other.listed);
        raise(&mut self.listed_found, other.listed_found);
        raise(&mut self.late, other.late);
        raise(&mut self.by_control, other.by_control);
        raise(&mut self.overlapping, other.overlapping);
        self.elapsed_us.merge(&other.elapsed_us);
        raise(&mut self.by_chance, other.by_chance);
        raise(&mut self.compared, other.compared);
        raise(&mut self.in_order, other.in_order);
        self.values.merge(&other.values);
        for (from, keys) in &other.columns {
            let mine = self.columns.entry(from.clone()).or_default();
            for (to, count) in keys {
                raise(mine.entry(to.clone()).or_default(), *count);
            }
        }
    }
}

impl BatchedCopies {
    fn merge(&mut self, other: Self) {
        raise(&mut self.batches, other.batches);
        raise(&mut self.copies, other.copies);
        raise(&mut self.failed, other.failed);
    }
}

impl Rewrites {
    fn merge(&mut self, other: &Self) {
        raise(&mut self.writes, other.writes);
        raise(&mut self.late, other.late);
        self.elapsed_us.merge(&other.elapsed_us);
    }
}

impl CopiedWrites {
    fn merge(&mut self, other: &Self) {
        raise(&mut self.writes, other.writes);
        for (id, pairs) in &other.pairs {
            let mine = self.pairs.entry(*id).or_default();
            raise(&mut mine.pairs, pairs.pairs);
            raise(&mut mine.late, pairs.late);
            raise(&mut mine.one_failed, pairs.one_failed);
            raise(&mut mine.concurrent, pairs.concurrent);
            mine.apart_us.merge(&pairs.apart_us);
        }
    }
}

#[cfg(test)]
mod tests;
