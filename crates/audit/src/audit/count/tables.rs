//! What is done to tables, while a window is filled.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

use crate::audit::statement::ids::{ByTable, TableId};
use cqlens_cql::schema::TableName;
use cqlens_window::{MAX_TABLES, TableTraffic, Window};

/// The traffic of the tables of a window.
#[derive(Debug, Default)]
pub struct Tables {
    /// In the order in which they came first.
    traffic: Vec<TableTraffic>,
    /// Places in `traffic`.
    places: HashMap<Arc<TableName>, usize, RandomState>,
    /// The same; none for tables for which there is no room.
    by_id: ByTable<Option<usize>>,
    /// What was not counted for want of room.
    overflowed: u64,
}

impl Tables {
    /// Counts something in the traffic of the table `name`, whose id is `id`.
    #[inline]
    pub(crate) fn count_in(
        &mut self,
        id: TableId,
        name: &Arc<TableName>,
        count: impl FnOnce(&mut TableTraffic),
    ) {
        let Self {
            traffic,
            places,
            by_id,
            overflowed,
        } = self;
        let place = by_id.of(id, || place_of(name, places, traffic));
        match place.and_then(|place| traffic.get_mut(place)) {
            Some(table) => count(table),
            None => *overflowed += 1,
        }
    }

    /// Counts something in the traffic of the table `name`.
    pub(crate) fn count(&mut self, name: &Arc<TableName>, count: impl FnOnce(&mut TableTraffic)) {
        match place_of(name, &mut self.places, &mut self.traffic) {
            Some(place) => count(&mut self.traffic[place]),
            None => self.overflowed += 1,
        }
    }

    /// Whether there is no place for another table.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.traffic.len() >= MAX_TABLES
    }

    /// Ids stand for other tables from now on.
    pub(crate) fn forget_ids(&mut self) {
        self.by_id.clear();
    }

    /// Adds everything to `window`, by name, and begins anew.
    pub(crate) fn flush_into(&mut self, window: &mut Window) {
        for (name, place) in self.places.drain() {
            window.add_table(&name, std::mem::take(&mut self.traffic[place]));
        }
        self.traffic.clear();
        self.by_id.clear();
        window.coverage.tables_overflowed += std::mem::take(&mut self.overflowed);
    }
}

/// The place of a table in `traffic`, which it gets if it is new and there is room.
fn place_of(
    name: &Arc<TableName>,
    places: &mut HashMap<Arc<TableName>, usize, RandomState>,
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
    use crate::audit::statement::ids::Ids;

    #[test]
    fn a_table_is_one_wherever_its_name_is_and_those_beyond_the_limit_are_not_told_apart() {
        let name = |number: usize| {
            Arc::new(TableName {
                keyspace: "s".to_owned(),
                table: format!("t{number}"),
            })
        };
        let (mut tables, mut ids) = (Tables::default(), Ids::default());
        (0..MAX_TABLES + 3).for_each(|number| tables.count(&name(number), |table| table.reads += 1));
        (0..MAX_TABLES + 3).for_each(|number| {
            let name = name(number);
            tables.count_in(ids.table(&name), &name, |table| table.reads += 1);
        });
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "test");
        tables.flush_into(&mut window);
        assert_eq!(
            (window.tables.len(), window.coverage.tables_overflowed),
            (MAX_TABLES, 6)
        );
        assert!(window.tables.values().all(|table| table.reads == 2));
        ids.clear();
        tables.count_in(ids.table(&name(9)), &name(9), |table| table.writes += 1);
        ids.clear();
        tables.forget_ids();
        tables.count_in(ids.table(&name(7)), &name(7), |table| table.writes += 1);
        let mut next = Window::new(Timestamp::UNIX_EPOCH, "test");
        tables.flush_into(&mut next);
        assert_eq!((next.tables.len(), next.tables[&*name(7)].writes), (2, 1));
    }
}
