//! What prepared statements read, as far as rewriting needs it. A statement may be prepared on one connection
//! and executed on another, so all connections of a cluster share this.
//!
//! Bounded: when [`MAX_IDS`] are known, those of statements that read no table of nodes are forgotten, and
//! when that is not enough, all. Responses to executions of a forgotten statement are examined until one of
//! them says what it reads.

use std::sync::Arc;

use dashmap::DashMap;

use super::select_shape::SelectShape;

/// Ids that are remembered; an entry is about 100 bytes.
const MAX_IDS: usize = 65_536;

/// Longer ids are not remembered. Cassandra's and ScyllaDB's have 16 bytes.
const MAX_ID_LEN: usize = 64;

/// What statements with an id read.
#[derive(Debug, Default)]
pub(super) struct PreparedStatements {
    /// None for statements that read no table of nodes.
    ids: DashMap<Box<[u8]>, Option<Arc<SelectShape>>>,
}

/// What is known of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remembered {
    /// It reads a table of nodes.
    Reads(Arc<SelectShape>),
    /// It reads none, or no addresses.
    NotAboutNodes,
    /// It was prepared elsewhere, or long ago.
    Unknown,
}

impl PreparedStatements {
    pub(super) fn remember(&self, id: &[u8], shape: Option<Arc<SelectShape>>) {
        if id.len() > MAX_ID_LEN {
            return;
        }
        if self.ids.len() >= MAX_IDS {
            self.ids.retain(|_, shape| shape.is_some());
            if self.ids.len() >= MAX_IDS {
                self.ids.clear();
            }
        }
        self.ids.insert(id.into(), shape);
    }

    pub(super) fn recall(&self, id: &[u8]) -> Remembered {
        match self.ids.get(id).as_deref() {
            Some(Some(shape)) => Remembered::Reads(Arc::clone(shape)),
            Some(None) => Remembered::NotAboutNodes,
            None => Remembered::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::select_shape::{Columns, Table};

    #[test]
    fn readers_of_nodes_outlive_other_statements() {
        let statements = PreparedStatements::default();
        let shape = Arc::new(SelectShape {
            table: Table::Peers,
            columns: Columns::All { known: None },
        });
        statements.remember(b"peers", Some(Arc::clone(&shape)));
        for number in 0..=MAX_IDS {
            statements.remember(&number.to_be_bytes(), None);
        }
        assert_eq!(statements.recall(b"peers"), Remembered::Reads(shape));
        assert_eq!(statements.recall(&0_usize.to_be_bytes()), Remembered::Unknown);
        assert_eq!(
            statements.recall(&MAX_IDS.to_be_bytes()),
            Remembered::NotAboutNodes
        );
        assert!(statements.ids.len() <= MAX_IDS);
    }

    #[test]
    fn an_id_as_long_as_an_answer_is_not_kept() {
        let statements = PreparedStatements::default();
        statements.remember(&[0; 1000], None);
        assert_eq!(statements.recall(&[0; 1000]), Remembered::Unknown);
    }
}
