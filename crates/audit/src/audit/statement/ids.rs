//! Small numbers for statements, tables and clients: what is counted for each exchange is found by them, not
//! by names.
//!
//! A statement and its tables get their ids where the statement is analysed, a client when its connection's
//! first exchange is counted. Names stand in windows only once these are taken. Nodes have ids already: their
//! places in the catalog's cluster.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
use rustc_hash::FxHashMap;

use cqlens_cql::schema::TableName;
use cqlens_window::PatternId;

/// A statement, by its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StatementId(u32);

/// A table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableId(u32);

/// A client, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientId(u32);

impl StatementId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl TableId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl ClientId {
    /// The client and a statement, or none, in one number.
    pub(crate) fn with(self, statement: Option<StatementId>) -> u64 {
        let statement = statement.map_or(u32::MAX, |statement| statement.0);
        u64::from(statement) << 32 | u64::from(self.0)
    }
}

/// The ids of statements and tables.
///
/// They are valid until [`Ids::clear`]: the analyses that hold them go at the same time, and everything that
/// is counted by them gets its names.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    statements: FxHashMap<PatternId, StatementId>,
    /// Not a quick hash that a client can foresee: names come from its statements.
    tables: HashMap<Arc<TableName>, TableId, RandomState>,
}

impl Ids {
    /// More templates or tables than a window tells apart, several times over.
    const MOST: usize = 1 << 16;

    /// The id of the statement with the template of `pattern`.
    pub(crate) fn statement(&mut self, pattern: PatternId) -> StatementId {
        let next = StatementId(next(self.statements.len()));
        *self.statements.entry(pattern).or_insert(next)
    }

    /// The id of a table.
    pub(crate) fn table(&mut self, name: &Arc<TableName>) -> TableId {
        if let Some(&id) = self.tables.get(name) {
            return id;
        }
        let id = TableId(next(self.tables.len()));
        self.tables.insert(Arc::clone(name), id);
        id
    }

    /// Whether it is time for [`Ids::clear`].
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.statements.len() >= Self::MOST || self.tables.len() >= Self::MOST
    }

    /// Begins anew with the numbers.
    pub(crate) fn clear(&mut self) {
        self.statements.clear();
        self.tables.clear();
    }
}

fn next(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Something for each table.
#[derive(Debug)]
pub(crate) struct ByTable<T>(Vec<Option<T>>);

impl<T> Default for ByTable<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByTable<T> {
    /// What `table` has, made by `make` if it has nothing.
    #[inline]
    pub(crate) fn of(&mut self, table: TableId, make: impl FnOnce() -> T) -> &mut T {
        let index = table.index();
        if index >= self.0.len() {
            self.grow(index);
        }
        self.0[index].get_or_insert_with(make)
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.0.resize_with(index + 1, || None);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The ids of clients. None is given twice: connections keep theirs for as long as they live.
#[derive(Debug, Default)]
pub(crate) struct ClientIds {
    known: HashMap<Arc<str>, ClientId, RandomState>,
    given: u32,
    /// How many names there may be before those that no connection has go.
    most: usize,
}

impl ClientIds {
    /// Names that are kept, however few connections have them.
    const FEW: usize = 4_096;

    /// The id of the client called `name`. Sessions keep theirs.
    #[cold]
    pub(crate) fn of(&mut self, name: &Arc<str>) -> ClientId {
        if let Some(&id) = self.known.get(name) {
            return id;
        }
        if self.known.len() >= self.most.max(Self::FEW) {
            self.known.retain(|name, _| Arc::strong_count(name) > 1);
            self.most = 2 * self.known.len();
        }
        let id = ClientId(self.given);
        self.given = self.given.wrapping_add(1);
        self.known.insert(Arc::clone(name), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_id_wherever_it_stands() {
        let name = |number: usize| {
            Arc::new(TableName {
                keyspace: "s".to_owned(),
                table: format!("t{number}"),
            })
        };
        let mut ids = Ids::default();
        let given: Vec<_> = (0..100).map(|number| ids.table(&name(number))).collect();
        let again: Vec<_> = (0..100).map(|number| ids.table(&name(number))).collect();
        assert_eq!(given, again);
        let mut by_table = ByTable::default();
        for _ in 0..2 {
            for (number, id) in given.iter().enumerate().rev() {
                assert_eq!(by_table.of(*id, || number), &number);
            }
        }
        by_table.clear();
        assert_eq!(by_table.of(given[7], || 8), &8);
    }

    #[test]
    fn names_that_no_connection_has_go() {
        let mut ids = ClientIds::default();
        let kept: Arc<str> = "kept".into();
        let id = ids.of(&kept);
        for number in 0..3 * ClientIds::FEW {
            ids.of(&format!("client {number}").into());
        }
        assert!(ids.known.len() <= ClientIds::FEW);
        assert_eq!(ids.of(&kept), id);
    }
}
