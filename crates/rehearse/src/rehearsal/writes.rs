//! When tables were written: a read that differs after a write may differ because of it.

use std::collections::HashMap;

use tokio::time::Instant;

/// The last writes of tables, by `keyspace.table`.
#[derive(Debug, Default)]
pub(super) struct Writes {
    tables: HashMap<Box<str>, LastWrites>,
    /// When a write was last noted for which there was no room.
    others: LastWrites,
}

#[derive(Debug, Default, Clone, Copy)]
struct LastWrites {
    sent: Option<Instant>,
    unsent: Option<Instant>,
}

impl Writes {
    const MOST_TABLES: usize = 10_000;

    pub(super) fn note(&mut self, tables: Vec<Box<str>>, is_sent: bool, now: Instant) {
        for table in tables {
            let has_room = self.tables.len() < Self::MOST_TABLES || self.tables.contains_key(&table);
            let last = if has_room {
                self.tables.entry(table).or_default()
            } else {
                &mut self.others
            };
            *(if is_sent { &mut last.sent } else { &mut last.unsent }) = Some(now);
        }
    }

    /// Whether the table was written by what was not sent; `None` asks for all times.
    pub(super) fn unsent_since(&self, table: &str, since: Option<Instant>) -> bool {
        self.last(table)
            .any(|last| last.unsent.is_some() && last.unsent >= since)
    }

    /// Whether the table was written.
    pub(super) fn any_since(&self, table: &str, since: Option<Instant>) -> bool {
        self.last(table).any(|last| {
            let latest = last.sent.max(last.unsent);
            latest.is_some() && latest >= since
        })
    }

    fn last(&self, table: &str) -> impl Iterator<Item = &LastWrites> {
        self.tables.get(table).into_iter().chain([&self.others])
    }
}
