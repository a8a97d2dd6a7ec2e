//! Rows: cells by column, the row's own liveness, and the tombstone that may lie on all of it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::cell::{Cell, Expiry, Seconds, Timestamp, is_over};

/// That a row was inserted: it exists even when all its cells are null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Liveness {
    /// When it was inserted.
    pub(crate) timestamp: Timestamp,
    /// When it stops existing by itself.
    pub(crate) expiry: Option<Expiry>,
}

/// One row of a partition, or its static row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    /// The serialized values of the clustering columns; empty for the static row.
    pub(crate) clustering: Vec<Bytes>,
    /// Set by INSERT, not by UPDATE.
    pub(crate) liveness: Option<Liveness>,
    /// The row tombstone: everything written at or before it is gone.
    pub(crate) deleted_at: Option<Timestamp>,
    /// By column name.
    pub(crate) cells: BTreeMap<String, Cell>,
}

/// What a read sees of a row when it walks over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// Whether the row exists for the client.
    pub(crate) is_live: bool,
    /// Tombstones as Cassandra counts them.
    pub(crate) tombstones: u64,
}

impl Row {
    /// A row at a place, with nothing in it.
    pub(crate) fn at(clustering: Vec<Bytes>) -> Row {
        Row {
            clustering,
            ..Row::default()
        }
    }

    /// Writes a cell, unless a tombstone or a later write hides it.
    pub(crate) fn write(&mut self, column: &str, cell: Cell) {
        if self.hides(cell.timestamp) {
            return;
        }
        match self.cells.get(column) {
            Some(present) if !cell.wins_over(present) => {}
            _ => {
                self.cells.insert(column.to_owned(), cell);
            }
        }
    }

    /// Makes the row exist.
    pub(crate) fn insert(&mut self, liveness: Liveness) {
        let is_later = self
            .liveness
            .is_none_or(|present| present.timestamp <= liveness.timestamp);
        if is_later && !self.hides(liveness.timestamp) {
            self.liveness = Some(liveness);
        }
    }

    /// Lays a row tombstone on it.
    pub(crate) fn delete(&mut self, timestamp: Timestamp) {
        if self.deleted_at.is_none_or(|present| present < timestamp) {
            self.shadow(timestamp);
            self.deleted_at = Some(timestamp);
        }
    }

    /// Drops everything that a tombstone of that time covers, older tombstones included.
    pub(crate) fn shadow(&mut self, timestamp: Timestamp) {
        self.liveness = self.liveness.filter(|liveness| liveness.timestamp > timestamp);
        self.deleted_at = self.deleted_at.filter(|deleted_at| *deleted_at > timestamp);
        self.cells.retain(|_, cell| cell.timestamp > timestamp);
    }

    /// Whether nothing at all is stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.liveness.is_none() && self.deleted_at.is_none() && self.cells.is_empty()
    }

    /// Whether the row exists: it was inserted, or a cell of it has a value.
    pub(crate) fn is_live(&self, now: Seconds) -> bool {
        self.is_inserted(now) || self.cells.values().any(|cell| cell.is_live(now))
    }

    /// Counts as Cassandra's `ReadCommand` does: each dead cell is a tombstone, and a row without live data
    /// counts as one if it was deleted and had no dead cell.
    pub(crate) fn scan(&self, now: Seconds) -> Scanned {
        let is_live = self.is_live(now);
        let dead_cells = self.cells.values().filter(|cell| !cell.is_live(now)).count();
        let is_row_tombstone = !is_live && dead_cells == 0;
        // Lossless: usize is at most 64 bits wide everywhere that Rust runs.
        Scanned {
            is_live,
            tombstones: dead_cells as u64 + u64::from(is_row_tombstone && !self.is_empty()),
        }
    }

    /// The live value of a column.
    pub(crate) fn value(&self, column: &str, now: Seconds) -> Option<&Bytes> {
        self.cells.get(column)?.live_value(now)
    }

    fn is_inserted(&self, now: Seconds) -> bool {
        self.liveness
            .is_some_and(|liveness| !is_over(liveness.expiry, now))
    }

    fn hides(&self, timestamp: Timestamp) -> bool {
        self.deleted_at.is_some_and(|deleted_at| timestamp <= deleted_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(timestamp: Timestamp, value: Option<&'static str>) -> Cell {
        Cell {
            timestamp,
            value: value.map(Bytes::from),
            expiry: None,
        }
    }

    #[test]
    fn a_null_cell_is_a_tombstone_and_the_row_stays_if_it_was_inserted() {
        let mut row = Row::default();
        row.insert(Liveness {
            timestamp: 1,
            expiry: None,
        });
        row.write("a", cell(1, None));
        row.write("b", cell(1, None));
        assert_eq!(
            row.scan(0),
            Scanned {
                is_live: true,
                tombstones: 2
            }
        );
    }

    #[test]
    fn a_deleted_row_is_one_tombstone_however_many_cells_it_had() {
        let mut row = Row::default();
        row.insert(Liveness {
            timestamp: 1,
            expiry: None,
        });
        row.write("a", cell(1, Some("x")));
        row.write("b", cell(1, Some("y")));
        row.delete(2);
        assert_eq!(
            row.scan(0),
            Scanned {
                is_live: false,
                tombstones: 1
            }
        );
    }

    #[test]
    fn a_write_older_than_the_row_tombstone_stays_hidden() {
        let mut row = Row::default();
        row.delete(10);
        row.write("a", cell(9, Some("x")));
        row.insert(Liveness {
            timestamp: 10,
            expiry: None,
        });
        assert!(!row.is_live(0));
        row.write("a", cell(11, Some("x")));
        assert!(row.is_live(0));
    }

    #[test]
    fn a_row_that_lives_through_updates_alone_dies_with_its_last_cell() {
        let mut row = Row::default();
        row.write("a", cell(1, Some("x")));
        assert!(row.is_live(0));
        row.write("a", cell(2, None));
        assert_eq!(
            row.scan(0),
            Scanned {
                is_live: false,
                tombstones: 1
            }
        );
    }
}
