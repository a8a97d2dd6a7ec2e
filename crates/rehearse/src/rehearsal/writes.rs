//! When tables were written: a read that differs after a write may differ because of it.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::budget::Share;

/// The last writes of tables, by `keyspace.table`.
#[derive(Debug)]
pub(super) struct Writes {
    tables: HashMap<Box<str>, LastWrites>,
    /// Of tables for which there was no room.
    others: LastWrites,
    /// Of the names, which clients make up at any length.
    share: Share,
}

#[derive(Debug, Default, Clone, Copy)]
struct LastWrites {
    /// When one was last seen, sent or not.
    seen: Option<Instant>,
    /// When one was last sent.
    sent: Option<Instant>,
    /// When the first client sent one that was not sent on, and when the last, in microseconds since 1970.
    unsent: Option<(i64, i64)>,
}

impl Writes {
    const MOST_TABLES: usize = 10_000;
    /// Of a table beside its name.
    const EACH: usize = 128;

    /// None yet; of these bytes.
    pub(super) fn within(share: Share) -> Self {
        Self {
            tables: HashMap::new(),
            others: LastWrites::default(),
            share,
        }
    }

    /// A write of a client at `at_us`.
    pub(super) fn note(&mut self, tables: Vec<Box<str>>, at_us: i64, is_sent: bool, now: Instant) {
        for table in tables {
            let has_room = self.tables.contains_key(&table)
                || self.tables.len() < Self::MOST_TABLES && self.share.try_take(Self::EACH + table.len());
            let last = if has_room {
                self.tables.entry(table).or_default()
            } else {
                &mut self.others
            };
            last.seen = Some(now);
            if is_sent {
                last.sent = Some(now);
            } else {
                let (first, latest) = last.unsent.unwrap_or((at_us, at_us));
                last.unsent = Some((first.min(at_us), latest.max(at_us)));
            }
        }
    }

    /// A write of any table.
    pub(super) fn lost(&mut self, at_us: i64, now: Instant) {
        self.others.seen = Some(now);
        let (first, latest) = self.others.unsent.unwrap_or((at_us, at_us));
        self.others.unsent = Some((first.min(at_us), latest.max(at_us)));
    }

    /// Whether a write of the table that was not sent came before `at_us`.
    pub(super) fn unsent_before(&self, table: &str, at_us: i64) -> bool {
        self.last(table)
            .any(|last| last.unsent.is_some_and(|(first, _)| first <= at_us))
    }

    /// Whether one came after `at_us`.
    pub(super) fn unsent_after(&self, table: &str, at_us: i64) -> bool {
        self.last(table)
            .any(|last| last.unsent.is_some_and(|(_, latest)| latest >= at_us))
    }

    /// Whether any write of the table was seen since.
    pub(super) fn seen_since(&self, table: &str, since: Option<Instant>) -> bool {
        self.last(table)
            .any(|last| last.seen.is_some() && last.seen >= since)
    }

    /// Whether any write of the table was sent since.
    pub(super) fn sent_since(&self, table: &str, since: Option<Instant>) -> bool {
        self.last(table)
            .any(|last| last.sent.is_some() && last.sent >= since)
    }

    fn last(&self, table: &str) -> impl Iterator<Item = &LastWrites> {
        self.tables.get(table).into_iter().chain([&self.others])
    }
}

#[cfg(test)]
mod tests {
    use cqlens_capture::memory::Part;

    use super::*;

    #[test]
    fn names_of_tables_are_kept_up_to_a_number_of_bytes() {
        let part = Part::new("rehearsal", 64 << 20);
        let mut writes = Writes::within(Share::of(&part, 16));
        let table = |number: u32| format!("k.{number}{}", "t".repeat(60 << 10)).into_boxed_str();
        let now = Instant::now();
        for number in 0..200 {
            writes.note(vec![table(number)], 1, false, now);
        }
        let kept: usize = writes.tables.keys().map(|name| name.len()).sum();
        assert!((3 << 20..=4 << 20).contains(&kept), "{kept}");
        assert!(part.used() >= kept && part.evicted() > 0);
        // Of those that there was no room for it is known that there was one.
        assert!((0..200).all(|number| writes.unsent_before(&table(number), 2)));
        let evicted = part.evicted();
        writes.note(vec![table(0)], 3, false, now);
        assert_eq!(part.evicted(), evicted);
    }
}
