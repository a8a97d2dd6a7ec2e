//! How fast the partition grows that gets the most new rows, and whether anything ends that.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{GrowthPoint, partition_size::PartitionSize, statement::TableWrite};
use cqlens_cql::{
    schema::{Column, Table},
    syntax::ast::Modification,
};
use cqlens_window::{InsertedRows, WrittenRow, number};

/// The partition that gets the most new rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Growth {
    /// Its keyed hash.
    pub(super) partition: u64,
    /// Different rows that were written to it: a count, or an estimate from so many rows of a sample.
    pub(super) rows: f64,
    /// How far off that may be, at 95 %; 0 of a count.
    pub(super) error: f64,
    /// Of all new rows of the table.
    pub(super) share: f64,
    /// What partitions with rows like its take up.
    pub(super) size: PartitionSize,
    /// From its first new row to its last one.
    pub(super) seconds: f64,
    /// When its rows of the sample were written, in order, in milliseconds since 1970.
    times: Vec<i64>,
}

/// Rows of a partition in the sample, at least: fewer say nothing of how fast it grows.
const LEAST: usize = 16;

/// What a line is drawn from.
const MOST_POINTS: usize = 32;

/// A partition has ended if it gets no row while the table gets so many times as many as came from one of its rows to the
/// next before, and a twentieth of all. Counted in rows, not in time: whatever holds up writers holds up all of them.
const PAUSES: usize = 10;

/// A partition that ended with so large a part of another one's rows shows how large they get.
const AS_LARGE: f64 = 0.5;

impl Growth {
    /// The partition that grows fastest; none where too little was written, or partitions end by themselves.
    pub(super) fn of(inserted: &InsertedRows, table: &Table) -> Option<Self> {
        let mut partitions: BTreeMap<u64, Vec<&WrittenRow>> = BTreeMap::new();
        for row in inserted.sample.rows() {
            partitions.entry(row.partition).or_default().push(row);
        }
        let all_rows: Vec<&WrittenRow> = inserted.sample.rows().collect();
        let growing = |rows: &Vec<&WrittenRow>| is_growing(rows, &all_rows);
        let (&partition, rows) = partitions
            .iter()
            .filter(|(_, rows)| rows.len() >= LEAST && growing(rows))
            .max_by_key(|(partition, rows)| (rows.len(), *partition))?;
        let ended = partitions
            .values()
            .filter(|rows| !growing(rows))
            .map(Vec::len)
            .max();
        if ended.unwrap_or(0) as f64 >= AS_LARGE * rows.len() as f64 {
            return None;
        }
        let sampled = inserted.sample.len();
        let is_whole = inserted.is_sample_whole();
        let all = match is_whole {
            true => sampled as f64,
            false => inserted.rows.estimate() as f64,
        };
        let (count, share) = (rows.len() as f64, rows.len() as f64 / sampled as f64);
        let (first, last) = ends(rows);
        let mut times: Vec<_> = rows.iter().map(|row| row.at).collect();
        times.sort_unstable();
        Some(Self {
            partition,
            rows: share * all,
            error: match is_whole {
                true => 0.0,
                // Of a binomial distribution.
                false => 1.96 * (count * (1.0 - share)).sqrt() / count * share * all,
            },
            share,
            size: PartitionSize::of_rows(table, rows.iter().copied()),
            seconds: last.abs_diff(first) as f64 / 1e3,
            times,
        })
    }

    /// New rows of a second; none where it took no time that is worth to be counted.
    pub(super) fn rows_per_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.rows / self.seconds)
    }

    /// How many new rows it had when: the first and the last row of the sample, and some between them.
    pub(super) fn points(&self) -> Vec<GrowthPoint> {
        let (last, each) = (
            self.times.len().saturating_sub(1),
            self.rows / self.times.len().max(1) as f64,
        );
        let step = last.div_ceil(MOST_POINTS - 1).max(1);
        let places = (0..last).step_by(step).chain([last]);
        let points = places.filter_map(|place| {
            let at = Timestamp::from_millisecond(*self.times.get(place)?).ok()?;
            let rows = number::rounded((place + 1) as f64 * each);
            Some(GrowthPoint { at, rows })
        });
        points.collect()
    }

    /// `about 10,100`, with as many digits as the sample gives; the number itself where it was counted.
    pub(super) fn rows_in_words(&self) -> String {
        if self.error <= 0.0 {
            return number::count(number::rounded(self.rows));
        }
        let unit = 10_f64.powf(self.error.log10().floor());
        let rows = (self.rows / unit).round() * unit;
        format!("about {}", number::count(number::rounded(rows)))
    }
}

fn ends(rows: &[&WrittenRow]) -> (i64, i64) {
    let times = || rows.iter().map(|row| row.at);
    (times().min().unwrap_or(0), times().max().unwrap_or(0))
}

/// Whether rows still came when the last row of the table did.
fn is_growing(rows: &[&WrittenRow], of_table: &[&WrittenRow]) -> bool {
    let (first, last) = ends(rows);
    let later = of_table.iter().filter(|row| row.at > last).count();
    let meanwhile = of_table
        .iter()
        .filter(|row| (first..=last).contains(&row.at))
        .count();
    later * rows.len() <= PAUSES * meanwhile || later * 20 <= of_table.len()
}

/// For how long a partition collects rows, as far as the table says: in seconds, and why.
pub(super) fn collects_for(table: &Table) -> Option<(f64, String)> {
    let spans = table.partition_key().iter().filter_map(|column| {
        let (seconds, word) = span(column)?;
        Some((seconds, format!("the {word} of its key")))
    });
    let ttl = table.default_time_to_live();
    let expires = (ttl > 0).then(|| {
        (
            ttl as f64,
            format!("the {} of the rows' TTL", number::seconds(ttl as f64)),
        )
    });
    spans
        .chain(expires)
        .min_by(|(one, _), (other, _)| one.total_cmp(other))
}

/// The span of time that a column of a key stands for, by its name, or by its type: a date is a day.
fn span(column: &Column) -> Option<(f64, &'static str)> {
    const DAY: f64 = 86_400.0;
    const SPANS: [(&str, f64, &str); 8] = [
        ("hour", DAY / 24.0, "hour"),
        ("year", 366.0 * DAY, "year"),
        ("quarter", 92.0 * DAY, "quarter"),
        ("month", 31.0 * DAY, "month"),
        ("week", 7.0 * DAY, "week"),
        ("minute", 60.0, "minute"),
        ("day", DAY, "day"),
        ("date", DAY, "day"),
    ];
    let name = column.name.to_ascii_lowercase();
    let named = SPANS.iter().find(|(word, ..)| name.contains(word));
    let by_name = named.map(|&(_, seconds, word)| (seconds, word));
    by_name.or_else(|| (column.data_type.to_string() == "date").then_some((DAY, "day")))
}

/// Whether a key has a bucket of which its name does not say how long it lasts.
pub(super) fn has_bucket(table: &Table) -> bool {
    let mut key = table.partition_key().iter();
    key.any(|column| column.name.to_ascii_lowercase().contains("bucket") && span(column).is_none())
}

/// Whether rows go as well as they come: deleted by themselves, or with a TTL of their own.
pub(super) fn rows_go(writes: &[TableWrite<'_>]) -> bool {
    let count = |is: &dyn Fn(&TableWrite<'_>) -> bool| -> u64 {
        let counted = writes.iter().filter(|write| is(write));
        counted.map(|write| write.pattern.count).sum()
    };
    let inserts = count(&|write| matches!(write.modification, Modification::Insert(_)));
    let deletes = count(&|write| write.is_delete());
    let expire =
        count(&|write| write.ttl().is_some() && matches!(write.modification, Modification::Insert(_)));
    deletes * 10 > inserts || expire * 2 > inserts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_cql::schema::{Schema, TableName};
    use cqlens_window::{Detail, Window};

    /// As many rows of each of a thousand partitions as their rank gives them under Zipf's law, all of them growing
    /// until the end.
    fn zipf(exponent: f64) -> (InsertedRows, f64) {
        let weights: Vec<f64> = (1..=1_000).map(|rank| f64::from(rank).powf(-exponent)).collect();
        let all: f64 = weights.iter().sum();
        let mut inserted = InsertedRows::default();
        let mut largest = 0.0_f64;
        for (partition, weight) in (0..).zip(&weights) {
            let rows = number::rounded(weight / all * 100_000.0);
            largest = largest.max(rows as f64);
            for row in 0..rows {
                let hash = (partition * 1_000_000 + row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let hash = (hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                inserted.rows.insert(hash);
                let at = (row * 1_000_000 / rows).cast_signed();
                inserted.sample.insert(
                    hash,
                    WrittenRow {
                        partition,
                        bytes: 40,
                        at,
                    },
                );
            }
        }
        (inserted, largest)
    }

    /// Three partitions get as many rows each, a thousand an hour together.
    fn hour(number: u64) -> Window {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "test");
        let name = TableName {
            keyspace: "s".to_owned(),
            table: "t".to_owned(),
        };
        window.count_table(&name, |traffic| {
            for row in number * 1_000..(number + 1) * 1_000 {
                let hash = (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let hash = (hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                traffic.inserted.rows.insert(hash);
                let written = WrittenRow {
                    partition: row % 3,
                    bytes: 40,
                    at: row.cast_signed() * 3_600,
                };
                traffic.inserted.sample.insert(hash, written);
            }
        });
        window
    }

    fn merged(parts: impl IntoIterator<Item = Window>) -> Window {
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap();
        parts.for_each(|part| all.merge(&part));
        all
    }

    #[test]
    fn files_of_a_day_tell_how_a_partition_grows() {
        let schema =
            "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
                      CREATE TABLE s.t (k int, c int, v int, w int, PRIMARY KEY (k, c));";
        let schema = Schema::from_cql(schema).unwrap();
        let table = schema.table("s", "t").unwrap();
        let with = |detail| {
            move |mut window: Window| {
                window.condense(detail);
                window
            }
        };
        let observed = (0..48).map(hour).map(with(Detail::Observed));
        let hours: Vec<_> = observed.map(with(Detail::Hour)).collect();
        let days = hours.chunks(24).map(|day| merged(day.to_vec()));
        let files = merged(days.map(with(Detail::Day)));
        let growth = |window: &Window| Growth::of(&window.tables.values().next().unwrap().inserted, table);
        for window in [merged((0..48).map(hour)), files] {
            let growth = growth(&window).unwrap();
            let off = (growth.rows - 16_000.0).abs();
            assert!(off <= growth.error * 1.5 && growth.error < 10_000.0, "{growth:?}");
            let rate = growth.rows_per_second().unwrap();
            assert!((rate * 3_600.0 - 333.0).abs() < 200.0, "{rate}");
        }
    }

    /// Whether the first partition has ended; `rows` have a partition and a time each.
    fn first_has_ended(rows: impl Iterator<Item = (u64, u64)>) -> bool {
        let rows: Vec<_> = rows
            .map(|(partition, at)| WrittenRow {
                partition,
                bytes: 40,
                at: at.cast_signed(),
            })
            .collect();
        let (all, first): (Vec<_>, Vec<_>) = (
            rows.iter().collect(),
            rows.iter().filter(|row| row.partition == 0).collect(),
        );
        !is_growing(&first, &all)
    }

    #[test]
    fn a_partition_has_ended_however_long_writers_were_held_up() {
        // Two partitions take turns for 300 rows, then one of them and another do.
        let ended = |last_rows: u64, held_up: u64| {
            let at = |turn| turn + if turn >= 150 { held_up } else { 0 };
            let first = (0..300).map(|turn| (turn % 2, at(turn)));
            let then = (300..300 + last_rows).map(|turn| (1 + turn % 2, at(turn)));
            first_has_ended(first.chain(then))
        };
        for held_up in [0, 10_000, 10_000_000] {
            assert!(ended(60, held_up), "a sixth of all rows, and thirty of its turns");
            assert!(!ended(15, held_up), "less than a twentieth of all rows");
        }
    }

    #[test]
    fn one_of_a_hundred_partitions_ends_after_ten_turns_of_the_others() {
        let ended = |last_turn: u64| {
            let rows = (0..100).flat_map(|turn| (0..100).map(move |partition| (turn, partition)));
            let rows = rows.filter(|(turn, partition)| *partition > 0 || *turn <= last_turn);
            first_has_ended(rows.map(|(turn, partition)| (partition, turn * 100 + partition)))
        };
        assert!(ended(85));
        assert!(!ended(92));
    }

    #[test]
    fn the_largest_of_skewed_partitions_is_estimated_within_its_error() {
        let schema =
            "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
                      CREATE TABLE s.t (k int, c int, v int, w int, PRIMARY KEY (k, c));";
        let schema = Schema::from_cql(schema).unwrap();
        let table = schema.table("s", "t").unwrap();
        for exponent in [0.8, 1.0, 1.2, 1.5] {
            let (inserted, largest) = zipf(exponent);
            let growth = Growth::of(&inserted, table).unwrap();
            assert_eq!(growth.partition, 0, "{exponent}");
            // The bound holds for nineteen of twenty; the sketch of all rows has an error of its own.
            let off = (growth.rows - largest).abs();
            assert!(
                off <= growth.error * 1.5,
                "{exponent}: {growth:?}, and {largest} in truth"
            );
            assert_eq!(growth.size.row_bytes(), 40.0 + 2.0 * 8.0);
        }
    }
}
