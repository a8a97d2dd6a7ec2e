//! Cells: one value of one column, with what decides between two writes of it.

use bytes::Bytes;

/// When something is written, in microseconds since 1970; the larger one wins.
pub(crate) type Timestamp = i64;

/// The clock of expiry, in seconds since 1970.
pub(crate) type Seconds = i64;

/// A time to live, and when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// What the writer asked for, in seconds.
    pub(crate) ttl: i32,
    /// The first second at which the data is gone.
    pub(crate) at: Seconds,
}

/// One write of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    /// When it was written.
    pub(crate) timestamp: Timestamp,
    /// The serialized value; `None` for a cell tombstone.
    pub(crate) value: Option<Bytes>,
    /// When the value goes away by itself.
    pub(crate) expiry: Option<Expiry>,
}

impl Cell {
    /// Whether it holds a value now.
    pub(crate) fn is_live(&self, now: Seconds) -> bool {
        self.value.is_some() && !is_over(self.expiry, now)
    }

    /// The value, if it is live.
    pub(crate) fn live_value(&self, now: Seconds) -> Option<&Bytes> {
        self.value.as_ref().filter(|_| self.is_live(now))
    }

    /// Whether this write hides `other`: the later one does, at the same time a tombstone, else the larger
    /// value (Cassandra: `Cells.resolveRegular`).
    pub(crate) fn wins_over(&self, other: &Cell) -> bool {
        let rank = |cell: &Cell| (cell.timestamp, cell.value.is_none());
        (rank(self), &self.value) >= (rank(other), &other.value)
    }
}

/// Whether a time to live is over; data without one stays.
pub(crate) fn is_over(expiry: Option<Expiry>, now: Seconds) -> bool {
    expiry.is_some_and(|expiry| expiry.at <= now)
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
    fn the_later_write_wins_then_the_tombstone_then_the_larger_value() {
        assert!(cell(2, Some("a")).wins_over(&cell(1, Some("b"))));
        assert!(!cell(1, None).wins_over(&cell(2, Some("a"))));
        assert!(cell(1, None).wins_over(&cell(1, Some("z"))));
        assert!(cell(1, Some("b")).wins_over(&cell(1, Some("a"))));
    }

    #[test]
    fn an_expired_cell_is_dead() {
        let expiry = Some(Expiry { ttl: 10, at: 110 });
        let cell = Cell {
            expiry,
            ..cell(1, Some("a"))
        };
        assert!(cell.is_live(109));
        assert!(!cell.is_live(110));
    }
}
