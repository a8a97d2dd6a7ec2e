//! The rows of a read on their way into places.

use super::{Nanoseconds, ReadRows, controls::MOST_VALUES};
use crate::audit::{
    HashKey,
    sequence::{
        inside::{Inside, More},
        places::{Places, Put},
        recent_requests::{Asker, RecentRequests},
        result_columns::Columns,
        values,
    },
};

/// The rows of a read on their way into places.
pub(super) struct Putting<'r> {
    pub(super) places: &'r mut Places,
    pub(super) recent: &'r RecentRequests,
    pub(super) key: HashKey,
    pub(super) read: &'r ReadRows<'r>,
    /// The number of the read, and that of the oldest one.
    pub(super) place: (u32, u32),
    pub(super) answered_at: Nanoseconds,
    pub(super) position: &'r mut usize,
    /// Cells that may be put in.
    pub(super) room: usize,
    /// Requests for the same values before the read was answered.
    pub(super) before: &'r mut Vec<(Asker, Nanoseconds)>,
    /// The first values that are put in.
    pub(super) values: &'r mut Vec<u64>,
    /// How many different values are put in.
    pub(super) put: u64,
    pub(super) forgotten: u64,
}

impl Putting<'_> {
    /// Puts cells in, and what is inside them, as long as there is room.
    pub(super) fn put_rows(&mut self, columns: &Columns) {
        for row in self.read.rows.iter().map_while(Result::ok) {
            for (at, cell) in row.iter().enumerate().take(usize::from(u8::MAX)) {
                if self.room == 0 {
                    return;
                }
                self.room -= 1;
                let Some(cell) = cell else { continue };
                let column = u8::try_from(at).unwrap_or(u8::MAX);
                self.put(cell, column);
                if let Some(of) = columns.get(at).filter(|of| of.inside != Inside::Nothing) {
                    let _ = of
                        .inside
                        .visit(cell, &mut |element| self.put_element(element, column));
                }
            }
            *self.position += 1;
        }
    }

    fn put_element(&mut self, element: &[u8], column: u8) -> More {
        if self.room == 0 {
            return More::Break(());
        }
        self.room -= 1;
        *self.position += 1;
        self.put(element, column);
        More::Continue(())
    }

    fn put(&mut self, value: &[u8], column: u8) {
        let hash = values::hash(self.key, self.read.actor, value);
        let Some(hash) = hash.filter(|hash| !self.read.asked.contains(hash)) else {
            return;
        };
        let (number, oldest) = self.place;
        let position = u16::try_from(*self.position).unwrap_or(u16::MAX);
        let put = self.places.put(hash, number, (position, column), oldest);
        self.forgotten += u64::from(put == Put::InsteadOfAnother);
        if put != Put::Known {
            self.put += 1;
            if self.values.len() < MOST_VALUES {
                self.values.push(hash);
            }
            self.before.extend(self.recent.before(hash, self.answered_at));
        }
    }
}
