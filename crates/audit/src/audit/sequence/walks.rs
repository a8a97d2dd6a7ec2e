//! Reads of one key in several partitions: of all its buckets, or of one bucket after the other.
//!
//! Looks at reads whose partition keys differ in one column, which is a number, a time or a short text, and that one
//! actor sends without a break, or names in one request.

use std::sync::Arc;

use super::{
    NEXT_STEP, SOON,
    buckets::{self, BucketValue},
    follow_ups::KeyedRequest,
    values::{self, KeyColumn},
};
use crate::audit::{HashKey, count::bounded::BoundedMap, exchange::request_key::Mixer};
use cqlens_window::{BucketReads, BucketUnit, PatternId, Sequences, Window};

/// Finds reads of several buckets.
#[derive(Debug)]
pub(super) struct WalkFinder {
    open: BoundedMap<Walk>,
}

/// Reads of one key that go on.
#[derive(Debug)]
struct Walk {
    pattern: PatternId,
    columns: Arc<[KeyColumn]>,
    column: usize,
    key: u64,
    unit: BucketUnit,
    values: Vec<i64>,
    began_at: i64,
    answered_at: i64,
    overlaps: bool,
    is_list: bool,
    rows: u64,
    limit: Option<u64>,
}

/// A read of partitions of a table.
#[derive(Clone, Copy)]
pub(super) struct NewRead<'c> {
    pub(super) request: KeyedRequest,
    /// Of the table's partition key.
    pub(super) columns: &'c Arc<[KeyColumn]>,
    pub(super) rows: u64,
    /// Its LIMIT.
    pub(super) limit: &'c dyn Fn() -> Option<u64>,
    /// Whether it may be the first of an operation.
    pub(super) is_first: bool,
}

/// Partitions of one operation that are told apart.
const MOST_VALUES: usize = 256;

/// Columns of a partition key that are looked at.
const MOST_COLUMNS: usize = 4;

impl WalkFinder {
    /// Operations that go on at the same time.
    const OPEN: usize = 4_096;

    pub(super) fn new() -> Self {
        Self {
            open: BoundedMap::new(Self::OPEN),
        }
    }

    /// Takes a read of the partitions with these `keys` to those before it.
    pub(super) fn note<'k>(
        &mut self,
        who: (HashKey, u64),
        read: &NewRead<'_>,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        window: &mut Window,
    ) {
        let ((hash_key, actor), NewRead { request, columns, .. }) = (who, *read);
        self.end_of_old(request.at, window);
        for column in 0..columns.len().min(MOST_COLUMNS) {
            let Some(data_type) = columns.get(column).map(|column| &column.data_type) else {
                continue;
            };
            let bucket = |key: &[u8]| {
                let value = values::components(key, columns.len()).nth(column)?;
                buckets::bucket(data_type, value)
            };
            let mut buckets = keys.clone().map(bucket).take(MOST_VALUES);
            let Some(Some(first)) = buckets.next() else {
                continue;
            };
            // Of numbers that are the whole key nobody knows what they number.
            if columns.len() == 1 && !first.unit.is_time() {
                continue;
            }
            let mut rests = keys
                .clone()
                .map(|key| rest(hash_key, actor, request.pattern, column, columns.len(), key));
            let Some(key) = rests.next() else { continue };
            if rests.any(|other| other != key) {
                continue;
            }
            let Some(values) = [Some(first)]
                .into_iter()
                .chain(buckets)
                .collect::<Option<Vec<BucketValue>>>()
            else {
                continue;
            };
            let walk = Walk {
                pattern: request.pattern,
                columns: Arc::clone(columns),
                column,
                key,
                unit: first.unit,
                is_list: values.len() > 1,
                values: values.iter().map(|bucket| bucket.value).collect(),
                began_at: request.at,
                answered_at: request.answered_at,
                overlaps: false,
                rows: read.rows,
                limit: (read.limit)(),
            };
            self.go_on(request, walk, read.is_first, window);
        }
    }

    fn go_on(&mut self, request: KeyedRequest, read: Walk, is_first: bool, window: &mut Window) {
        if read.is_list {
            return read.count(&mut window.sequences);
        }
        let key = read.key;
        if let Some(walk) = self.open.get_mut(key) {
            if walk.takes(request, &read) {
                return;
            }
            if let Some(ended) = self.open.remove(key) {
                ended.count(&mut window.sequences);
            }
        }
        if is_first && let Some(evicted) = self.open.insert(key, read) {
            evicted.count(&mut window.sequences);
        }
    }

    /// Counts the operations that do not go on.
    fn end_of_old(&mut self, now: i64, window: &mut Window) {
        while let Some(walk) = self.open.pop_oldest_if(|walk| walk.is_idle(now, NEXT_STEP)) {
            walk.count(&mut window.sequences);
        }
        // A key that is asked for all the time does not hold up those behind it.
        let is_long = |walk: &Walk| now.saturating_sub(walk.began_at) > NEXT_STEP && !walk.is_idle(now, SOON);
        if let Some(walk) = self.open.pop_oldest_if(is_long) {
            self.open.insert(walk.key, walk);
        }
    }

    /// Nothing is seen after this time: what may go on is not counted.
    pub(super) fn end_at(&mut self, end: i64, window: &mut Window) {
        while let Some(walk) = self.open.pop_oldest_if(|_| true) {
            if walk.is_idle(end, SOON) {
                walk.count(&mut window.sequences);
            }
        }
    }

    /// Counts all operations, of which nothing more is seen.
    pub(super) fn end(&mut self, window: &mut Window) {
        while let Some(walk) = self.open.pop_oldest_if(|_| true) {
            walk.count(&mut window.sequences);
        }
    }
}

impl Walk {
    /// Adds another read of the same key, unless it begins another operation.
    fn takes(&mut self, request: KeyedRequest, read: &Self) -> bool {
        let overlaps = request.at < self.answered_at;
        let is_known = read.values.iter().any(|value| self.values.contains(value));
        // Another page, a retry, or another client that reads the same.
        if is_known && overlaps {
            self.answered_at = self.answered_at.max(read.answered_at);
            return true;
        }
        let wait = if self.goes_on_with(read) { NEXT_STEP } else { SOON };
        if is_known || self.is_idle(request.at, wait) || self.values.len() >= MOST_VALUES {
            return false;
        }
        self.values.extend(&read.values);
        self.answered_at = self.answered_at.max(read.answered_at);
        self.overlaps |= overlaps;
        self.rows += read.rows;
        self.began_at = self.began_at.min(read.began_at);
        self.unit = self.unit.min(read.unit);
        true
    }

    /// Whether it has not gone on for longer than `wait`.
    fn is_idle(&self, now: i64, wait: i64) -> bool {
        now.saturating_sub(self.answered_at) > wait
    }

    /// Whether a read goes one more of the same steps.
    fn goes_on_with(&self, read: &Self) -> bool {
        match (&self.values[..], &read.values[..]) {
            ([.., before, last], [next]) => last.checked_sub(*before) == next.checked_sub(*last),
            _ => false,
        }
    }

    /// The size of the steps from value to value, where all are the same; of those from month to month the mean.
    fn step(&self) -> Option<u64> {
        let steps = self.values.windows(2).map(|pair| match pair {
            [before, after] => after.checked_sub(*before),
            _ => None,
        });
        let steps: Vec<i64> = steps.collect::<Option<_>>()?;
        let first = steps.first().copied().filter(|step| *step != 0)?;
        if steps.iter().all(|step| *step == first) {
            return Some(first.unsigned_abs());
        }
        let (least, most, mean) = self.unit.month()?;
        let is_month =
            |step: &i64| (*step > 0) == (first > 0) && (least..=most).contains(&step.unsigned_abs());
        steps.iter().all(is_month).then_some(mean)
    }

    fn count(self, sequences: &mut Sequences) {
        let Some(column) = self.columns.get(self.column) else {
            return;
        };
        let buckets = &mut sequences.buckets;
        if buckets.len() >= Sequences::MOST_LINKS && !buckets.contains_key(&self.pattern) {
            return;
        }
        let columns = buckets.entry(self.pattern).or_default();
        if !columns.contains_key(&*column.name) {
            columns.insert(column.name.to_string(), BucketReads::default());
        }
        let Some(reads) = columns.get_mut(&*column.name) else {
            return;
        };
        reads.keys.insert(self.key);
        reads.unit = Some(self.unit.and(reads.unit));
        for value in &self.values {
            if reads.values.len() < BucketReads::MOST_VALUES {
                reads.values.insert(*value);
            }
        }
        if self.values.len() < 2 {
            reads.single += 1;
            return;
        }
        reads.partitions.record(self.values.len() as u64);
        reads.rows.record(self.rows);
        if let Some(limit) = self.limit {
            reads.limit.record(limit);
        }
        reads
            .elapsed_us
            .record(self.answered_at.abs_diff(self.began_at) / 1_000);
        if self.is_list {
            reads.lists += 1;
        } else if self.overlaps {
            reads.concurrent += 1;
        } else if let Some(step) = self.step() {
            reads.steps += 1;
            if reads.step_sizes.len() < BucketReads::MOST_STEPS || reads.step_sizes.contains_key(&step) {
                *reads.step_sizes.entry(step).or_default() += 1;
            }
        }
    }
}

/// The key without one of its columns, of one actor and one pattern.
fn rest(hash_key: HashKey, actor: u64, pattern: PatternId, column: usize, columns: usize, key: &[u8]) -> u64 {
    let mut mixer = Mixer::new(hash_key, actor ^ pattern.0.rotate_left(32) ^ column as u64);
    for (at, value) in values::components(key, columns).enumerate() {
        if at != column {
            mixer.write(value);
        }
    }
    mixer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqlens_cql::{schema::DataType, syntax::ast::NativeType};
    use jiff::Timestamp;

    const WALK: PatternId = PatternId(1);

    const MILLISECOND: i64 = 1_000_000;

    /// Reads of days, and what comes of them; times in milliseconds.
    struct Observed {
        walks: WalkFinder,
        key: HashKey,
        window: Window,
    }

    impl Observed {
        fn new() -> Self {
            Self {
                walks: WalkFinder::new(),
                key: HashKey::random(),
                window: Window::new(Timestamp::UNIX_EPOCH, "test"),
            }
        }

        /// A read of one actor, which takes so long.
        fn read(&mut self, actor: u64, (at, took): (i64, i64), day: u32) {
            let columns = Arc::from([KeyColumn {
                name: "day".into(),
                data_type: DataType::Native(NativeType::Date),
            }]);
            let read = NewRead {
                request: KeyedRequest {
                    pattern: WALK,
                    at: at * MILLISECOND,
                    answered_at: (at + took) * MILLISECOND,
                },
                columns: &columns,
                rows: 3,
                limit: &|| None,
                is_first: true,
            };
            let day = day.to_be_bytes();
            let keys = [&day[..]].into_iter();
            self.walks.note((self.key, actor), &read, keys, &mut self.window);
        }

        /// What is counted so far.
        fn counted(&self) -> BucketReads {
            let columns = self.window.sequences.buckets.get(&WALK);
            columns.map_or_else(BucketReads::default, |columns| columns["day"].clone())
        }
    }

    /// What comes of reads of one actor, each of which takes a millisecond.
    fn after(reads: &[(i64, u32)]) -> BucketReads {
        let mut observed = Observed::new();
        for &(at, day) in reads {
            observed.read(0, (at, 1), day);
        }
        observed.walks.end(&mut observed.window);
        observed.counted()
    }

    /// One who asks for the same day all the time, and ten who go back three days.
    fn beside_a_poll(took: i64) -> Observed {
        let mut observed = Observed::new();
        for at in 0..100 {
            observed.read(99, (at * 10, took), 20);
            let step = u32::try_from(at % 10).unwrap_or(0);
            if step < 3 {
                observed.read(at.unsigned_abs() / 10, (at * 10 + 2, 1), 20 - step);
            }
        }
        observed
    }

    #[test]
    fn a_key_that_is_asked_for_all_the_time_does_not_hold_up_the_others() {
        // One after the other, and the next before the answer.
        for took in [1, 15] {
            let mut observed = beside_a_poll(took);
            assert_eq!(observed.counted().partitions.count(), 8, "but for the last two");
            observed.walks.end_at(990 * MILLISECOND, &mut observed.window);
            assert_eq!(observed.counted().partitions.count(), 10);
        }
    }

    #[test]
    fn the_next_of_the_same_steps_may_come_later_than_another_one() {
        let reads = after(&[(0, 20), (10, 19), (261, 18), (512, 17)]);
        assert_eq!((reads.partitions.total(), reads.steps, reads.single), (4, 1, 0));
        let too_late = after(&[(0, 20), (10, 19), (262, 18)]);
        assert_eq!((too_late.partitions.total(), too_late.single), (2, 1));
        let another = after(&[(0, 20), (10, 19), (100, 16)]);
        assert_eq!((another.partitions.total(), another.single), (2, 1));
        let second = after(&[(0, 20), (52, 19)]);
        assert_eq!(second.single, 2, "there is no step yet");
    }

    fn step(unit: BucketUnit, values: &[i64]) -> Option<u64> {
        let walk = Walk {
            pattern: PatternId(1),
            columns: Arc::new([]),
            column: 0,
            key: 0,
            unit,
            values: values.to_vec(),
            began_at: 0,
            answered_at: 0,
            overlaps: false,
            is_list: false,
            rows: 0,
            limit: None,
        };
        walk.step()
    }

    #[test]
    fn equal_steps_and_months_are_steps() {
        assert_eq!(step(BucketUnit::Days, &[10, 9, 8]), Some(1));
        assert_eq!(step(BucketUnit::Numbers, &[10, 20, 30]), Some(10));
        assert_eq!(step(BucketUnit::Numbers, &[10, 20, 31]), None);
        assert_eq!(step(BucketUnit::Days, &[10, 10]), None);
        // First of May, April, March and February 2026.
        let firsts = [20_574, 20_544, 20_513, 20_485];
        assert_eq!(step(BucketUnit::Days, &firsts), Some(30));
        let midnights = firsts.map(|day| day * 86_400_000);
        assert_eq!(step(BucketUnit::Milliseconds, &midnights), Some(2_629_746_000));
        // Where clocks change between them.
        let mut local = midnights;
        local[2] += 3_600_000;
        assert_eq!(step(BucketUnit::Milliseconds, &local), Some(2_629_746_000));
        assert_eq!(step(BucketUnit::Numbers, &firsts), None);
        assert_eq!(step(BucketUnit::Days, &[20_574, 20_544, 20_574]), None);
    }
}
