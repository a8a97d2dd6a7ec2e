//! A partition: its rows in clustering order, its static row, and the tombstones that lie on stretches of it.
//!
//! Nothing is ever compacted: a tombstone stays until the table is truncated, as it would on a real node
//! until `gc_grace_seconds` are over.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;

use bytes::Bytes;

use super::cell::{Seconds, Timestamp};
use super::row::Row;
use super::stretch::Stretch;

/// All rows of one partition key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Partition {
    /// The serialized values of the partition key's columns.
    pub(crate) key: Vec<Bytes>,
    /// The static columns.
    pub(crate) static_row: Row,
    rows: BTreeMap<Vec<u8>, Row>,
    deleted_at: Option<Timestamp>,
    range_tombstones: Vec<RangeTombstone>,
}

/// A tombstone on all rows of a stretch.
#[derive(Debug, Clone)]
struct RangeTombstone {
    stretch: Stretch,
    timestamp: Timestamp,
}

/// Where a row is: its place in the order, and the clustering values themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusteringKey {
    /// The clustering columns in their order-preserving form.
    pub(crate) position: Vec<u8>,
    /// The clustering columns as they are serialized.
    pub(crate) clustering: Vec<Bytes>,
}

/// What a read walks over, in its order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Passed<'a> {
    /// A row, live or not, and its position.
    Row(&'a [u8], &'a Row),
    /// Where a range tombstone opens or closes.
    Marker,
}

impl Partition {
    /// A partition with nothing in it.
    pub(crate) fn new(key: Vec<Bytes>) -> Partition {
        Partition {
            key,
            ..Partition::default()
        }
    }

    /// Changes the row at a place, which need not exist; what older tombstones cover stays hidden.
    pub(crate) fn change_row<T>(&mut self, place: &ClusteringKey, change: impl FnOnce(&mut Row) -> T) -> T {
        let hidden_until = self.hidden_until(&place.position);
        let row = self
            .rows
            .entry(place.position.clone())
            .or_insert_with(|| Row::at(place.clustering.clone()));
        let outcome = change(row);
        if let Some(timestamp) = hidden_until {
            row.shadow(timestamp);
        }
        if row.is_empty() {
            self.rows.remove(&place.position);
        }
        outcome
    }

    /// Changes the static row.
    pub(crate) fn change_static_row<T>(&mut self, change: impl FnOnce(&mut Row) -> T) -> T {
        let outcome = change(&mut self.static_row);
        if let Some(timestamp) = self.deleted_at {
            self.static_row.shadow(timestamp);
        }
        outcome
    }

    /// Deletes everything in the partition.
    pub(crate) fn delete(&mut self, timestamp: Timestamp) {
        self.deleted_at = self.deleted_at.max(Some(timestamp));
        self.static_row.shadow(timestamp);
        self.range_tombstones
            .retain(|tombstone| tombstone.timestamp > timestamp);
        self.shadow_rows(&Stretch::ALL, timestamp);
    }

    /// Deletes all rows of a stretch, with one tombstone.
    pub(crate) fn delete_stretch(&mut self, stretch: Stretch, timestamp: Timestamp) {
        if stretch.is_empty() || self.deleted_at.is_some_and(|deleted_at| deleted_at >= timestamp) {
            return;
        }
        self.shadow_rows(&stretch, timestamp);
        self.range_tombstones.retain(|older| {
            older.timestamp > timestamp || older.stretch.intersection(&stretch) != older.stretch
        });
        self.range_tombstones.push(RangeTombstone { stretch, timestamp });
    }

    /// The row at a position.
    pub(crate) fn row(&self, position: &[u8]) -> Option<&Row> {
        self.rows.get(position)
    }

    /// Walks over a stretch, from its end if `reversed`.
    pub(crate) fn scan(&self, stretch: &Stretch, reversed: bool) -> Scan<'_> {
        let mut markers = self.markers(stretch);
        let rows = self.rows.range::<[u8], _>(bounds(stretch));
        let rows: BoxedRows<'_> = if reversed {
            markers.reverse();
            Box::new(rows.rev())
        } else {
            Box::new(rows)
        };
        Scan {
            rows: rows.peekable(),
            markers: markers.into_iter().peekable(),
            reversed,
        }
    }

    /// Whether any row, or the static row, is live.
    pub(crate) fn is_live(&self, now: Seconds) -> bool {
        self.static_row.is_live(now) || self.rows.values().any(|row| row.is_live(now))
    }

    /// The ends of the range tombstones inside a stretch, sorted; `None` is the partition's end.
    fn markers(&self, stretch: &Stretch) -> Vec<Option<Vec<u8>>> {
        let inside = self
            .range_tombstones
            .iter()
            .map(|tombstone| tombstone.stretch.intersection(stretch));
        let mut markers: Vec<_> = inside
            .filter(|inside| !inside.is_empty())
            .flat_map(|inside| [Some(inside.from), inside.to])
            .collect();
        markers.sort_by(|left, right| (left.is_none(), left).cmp(&(right.is_none(), right)));
        markers
    }

    fn shadow_rows(&mut self, stretch: &Stretch, timestamp: Timestamp) {
        for (_, row) in self.rows.range_mut::<[u8], _>(bounds(stretch)) {
            row.shadow(timestamp);
        }
        self.rows.retain(|_, row| !row.is_empty());
    }

    /// The time up to which tombstones on the partition or a stretch hide what is at a position.
    fn hidden_until(&self, position: &[u8]) -> Option<Timestamp> {
        let covering = self
            .range_tombstones
            .iter()
            .filter(|tombstone| tombstone.stretch.contains(position))
            .map(|tombstone| tombstone.timestamp);
        covering.chain(self.deleted_at).max()
    }
}

/// Positions and rows, in either direction.
type BoxedRows<'a> = Box<dyn Iterator<Item = (&'a Vec<u8>, &'a Row)> + 'a>;

/// Walks over rows and the ends of range tombstones.
pub(crate) struct Scan<'a> {
    rows: Peekable<BoxedRows<'a>>,
    markers: Peekable<std::vec::IntoIter<Option<Vec<u8>>>>,
    reversed: bool,
}

impl<'a> Iterator for Scan<'a> {
    type Item = Passed<'a>;

    fn next(&mut self) -> Option<Passed<'a>> {
        let reversed = self.reversed;
        let is_marker_next = match (self.markers.peek(), self.rows.peek()) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(None), Some(_)) => reversed,
            (Some(Some(marker)), Some((position, _))) if reversed => marker > *position,
            (Some(Some(marker)), Some((position, _))) => marker <= *position,
        };
        if is_marker_next {
            return self.markers.next().map(|_| Passed::Marker);
        }
        self.rows.next().map(|(position, row)| Passed::Row(position, row))
    }
}

fn bounds(stretch: &Stretch) -> (Bound<&[u8]>, Bound<&[u8]>) {
    // An empty stretch may be upside down, which a map's range does not take.
    let to = stretch.to.as_deref().map(|to| to.max(&stretch.from));
    (
        Bound::Included(&stretch.from),
        to.map_or(Bound::Unbounded, Bound::Excluded),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::row::Liveness;

    fn place(position: u8) -> ClusteringKey {
        ClusteringKey {
            position: vec![position],
            clustering: vec![Bytes::copy_from_slice(&[position])],
        }
    }

    fn with_rows(positions: &[u8], timestamp: Timestamp) -> Partition {
        let mut partition = Partition::new(Vec::new());
        for position in positions {
            let liveness = Liveness {
                timestamp,
                expiry: None,
            };
            partition.change_row(&place(*position), |row| row.insert(liveness));
        }
        partition
    }

    fn shape(partition: &Partition, stretch: &Stretch, reversed: bool) -> String {
        let sign = |passed| match passed {
            Passed::Row(position, _) => position[0].to_string(),
            Passed::Marker => "|".to_owned(),
        };
        partition.scan(stretch, reversed).map(sign).collect()
    }

    fn between(from: u8, to: u8) -> Stretch {
        Stretch {
            from: vec![from],
            to: Some(vec![to]),
        }
    }

    #[test]
    fn a_range_tombstone_hides_its_rows_and_shows_its_two_ends() {
        let mut partition = with_rows(&[1, 2, 3, 4], 1);
        partition.delete_stretch(between(2, 4), 2);
        assert_eq!(shape(&partition, &Stretch::ALL, false), "1||4");
        assert_eq!(shape(&partition, &Stretch::ALL, true), "4||1");
    }

    #[test]
    fn a_row_written_after_a_range_tombstone_stands_between_its_ends() {
        let mut partition = with_rows(&[1, 2, 3], 1);
        partition.delete_stretch(between(2, 9), 2);
        let liveness = Liveness {
            timestamp: 3,
            expiry: None,
        };
        partition.change_row(&place(2), |row| row.insert(liveness));
        assert_eq!(shape(&partition, &Stretch::ALL, false), "1|2|");
        assert_eq!(shape(&partition, &Stretch::ALL, true), "|2|1");
    }

    #[test]
    fn a_read_beside_a_range_tombstone_does_not_pass_it() {
        let mut partition = with_rows(&[1, 2, 3], 1);
        partition.delete_stretch(between(2, 3), 2);
        assert_eq!(shape(&partition, &between(3, 9), false), "3");
        assert_eq!(shape(&partition, &between(1, 2), false), "1");
    }

    #[test]
    fn a_wider_range_tombstone_replaces_the_narrower_ones() {
        let mut partition = with_rows(&[1, 5], 1);
        partition.delete_stretch(between(2, 3), 2);
        partition.delete_stretch(between(3, 4), 3);
        partition.delete_stretch(between(2, 4), 4);
        assert_eq!(shape(&partition, &Stretch::ALL, false), "1||5");
    }

    #[test]
    fn a_deleted_partition_takes_only_later_writes() {
        let mut partition = with_rows(&[1, 2], 5);
        partition.delete(10);
        assert!(!partition.is_live(0));
        partition.change_row(&place(1), |row| {
            row.insert(Liveness {
                timestamp: 9,
                expiry: None,
            })
        });
        assert!(!partition.is_live(0));
        partition.change_row(&place(1), |row| {
            row.insert(Liveness {
                timestamp: 11,
                expiry: None,
            })
        });
        assert!(partition.is_live(0));
    }
}
