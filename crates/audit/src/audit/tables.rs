//! What is done to tables, while a window is filled.
//!
//! A table is looked up by its name when it comes first; from then on it is known by where its name is.

use std::{collections::BTreeMap, sync::Arc};

use super::by_table::ByTable;
use crate::window::{MAX_TABLES, TableTraffic, Window};
use cqlens_cql::schema::TableName;

/// The traffic of the tables of a window.
#[derive(Debug, Default)]
pub struct Tables {
    /// In the order in which they came first.
    traffic: Vec<TableTraffic>,
    places: BTreeMap<Arc<TableName>, usize>,
    /// None for tables for which there is no room.
    known: ByTable<Option<usize>>,
    /// What was not counted for want of room.
    overflowed: u64,
}

impl Tables {
    /// Counts something in the traffic of a table.
    #[inline]
    pub(super) fn count(&mut self, name: &Arc<TableName>, count: impl FnOnce(&mut TableTraffic)) {
        let Self {
            traffic,
            places,
            known,
            overflowed,
        } = self;
        let place = known.of(name, || place_of(name, places, traffic));
        match place.and_then(|place| traffic.get_mut(place)) {
            Some(table) => count(table),
            None => *overflowed += 1,
        }
    }

    /// Whether there is no place for another table.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.traffic.len() >= MAX_TABLES
    }

    /// Adds everything to `window`, by name, and begins anew.
    pub(super) fn pour(&mut self, window: &mut Window) {
        let Self {
            mut traffic,
            places,
            overflowed,
            ..
        } = std::mem::take(self);
        for (name, place) in places {
            window.add_table(&name, std::mem::take(&mut traffic[place]));
        }
        window.coverage.tables_overflowed += overflowed;
    }
}

/// The place of a table in `traffic`, which it gets if it is new and there is room.
fn place_of(
    name: &Arc<TableName>,
    places: &mut BTreeMap<Arc<TableName>, usize>,
    traffic: &mut Vec<TableTraffic>,
) -> Option<usize> {
    if let Some(&place) = places.get(name) {
        return Some(place);
    }
    let next = traffic.len();
    if next >= MAX_TABLES {
        return None;
    }
    places.insert(Arc::clone(name), next);
    traffic.push(TableTraffic::default());
    Some(next)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_table_is_one_wherever_its_name_is_and_those_beyond_the_limit_are_not_told_apart() {
        let name = |number: usize| {
            Arc::new(TableName {
                keyspace: "s".to_owned(),
                table: format!("t{number}"),
            })
        };
        let mut tables = Tables::default();
        for _ in 0..2 {
            (0..MAX_TABLES + 3).for_each(|number| tables.count(&name(number), |table| table.reads += 1));
        }
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "test");
        tables.pour(&mut window);
        assert_eq!(
            (window.tables.len(), window.coverage.tables_overflowed),
            (MAX_TABLES, 6)
        );
        assert!(window.tables.values().all(|table| table.reads == 2));
        tables.count(&name(7), |table| table.writes += 1);
        let mut next = Window::new(Timestamp::UNIX_EPOCH, "test");
        tables.pour(&mut next);
        assert_eq!((next.tables.len(), next.tables[&*name(7)].writes), (1, 1));
    }
}
