//! What was worked out for tables, found without comparing their names.

use std::sync::Arc;

use cqlens_cql::schema::TableName;

/// What was worked out for the tables that were asked for lately: each is known by where its name is.
///
/// An address gives a place; what is there goes when another table comes that has the same one. It is worked out again then, so this
/// is for what can be.
#[derive(Debug)]
pub(super) struct ByTable<T> {
    places: Box<[Option<Known<T>>; PLACES]>,
}

#[derive(Debug)]
struct Known<T> {
    /// Kept, so that nothing else is ever at its address.
    table: Arc<TableName>,
    worked_out: T,
}

/// A power of two.
const PLACES: usize = 64;

/// Names lie so far apart, as a power of two: their text, lengths and counters need that much.
const APART: u32 = size_of::<TableName>().ilog2() + 1;

impl<T> Default for ByTable<T> {
    fn default() -> Self {
        Self {
            places: Box::new([const { None }; PLACES]),
        }
    }
}

impl<T> ByTable<T> {
    /// What is known for `table`, worked out by `work_out` if nothing is.
    #[inline]
    pub(super) fn of(&mut self, table: &Arc<TableName>, work_out: impl FnOnce() -> T) -> &mut T {
        let address = Arc::as_ptr(table).addr();
        let place = &mut self.places[(address >> APART) % PLACES];
        let is_known = |known: &Known<T>| Arc::ptr_eq(&known.table, table);
        if !place.as_ref().is_some_and(is_known) {
            know(place, table, work_out);
        }
        let known = place.as_mut().expect("what was not known is by now");
        &mut known.worked_out
    }
}

/// Never a part of its caller: what is seldom done would have its values prepared each time.
#[cold]
#[inline(never)]
fn know<T>(place: &mut Option<Known<T>>, table: &Arc<TableName>, work_out: impl FnOnce() -> T) {
    *place = Some(Known {
        table: Arc::clone(table),
        worked_out: work_out(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_what_was_worked_out_until_another_one_needs_its_place() {
        let names: Vec<_> = (0..3 * PLACES)
            .map(|number| {
                Arc::new(TableName {
                    keyspace: "s".to_owned(),
                    table: format!("t{number}"),
                })
            })
            .collect();
        let mut by_table = ByTable::default();
        for _ in 0..2 {
            for name in &names {
                assert_eq!(by_table.of(name, || name.table.clone()), &name.table);
                assert_eq!(by_table.of(name, String::new), &name.table, "worked out once");
            }
        }
    }
}
