//! Compares rows that INSERTs write with those before them, column by column.

use std::sync::Arc;

use cqlens_cql::cells::SampledRow;
use rustc_hash::FxHashMap;

use super::{bounded::BoundedMap, tables::Tables};
use cqlens_cql::schema::TableName;
use cqlens_window::RepeatedValue;

/// The last rows of partitions and of tables. Stays from window to window.
#[derive(Debug)]
pub struct RepeatedColumns {
    /// The last row of a partition, by its hash.
    of_partitions: BoundedMap<Row>,
    /// The last row of a table, with its partition.
    of_tables: FxHashMap<Arc<TableName>, (u64, Row)>,
}

/// The hash of the primary key, and those of the values.
#[derive(Debug, Clone)]
struct Row {
    key: u64,
    values: Vec<(Arc<str>, u64)>,
}

impl Row {
    fn value(&self, column: &str) -> Option<u64> {
        let mut values = self.values.iter();
        values
            .find(|(name, _)| **name == *column)
            .map(|(_, value)| *value)
    }
}

impl Default for RepeatedColumns {
    fn default() -> Self {
        Self {
            of_partitions: BoundedMap::new(Self::PARTITIONS),
            of_tables: FxHashMap::default(),
        }
    }
}

impl RepeatedColumns {
    const PARTITIONS: usize = 1_024;

    /// The last rows of more tables are not kept.
    const TABLES: usize = 256;

    /// Counts how a row compares with those before it.
    #[cold]
    pub(crate) fn count(&mut self, sampled: &SampledRow, tables: &mut Tables) {
        let row = Row {
            key: sampled.row,
            values: sampled.values.clone(),
        };
        let partition = sampled.partition;
        // The same row again says nothing of another one.
        let within = self
            .of_partitions
            .get(partition)
            .filter(|before| before.key != row.key);
        let across = self.of_tables.get(&sampled.table);
        let across = across
            .filter(|(other, _)| *other != partition)
            .map(|(_, row)| row);
        if within.is_some() || across.is_some() {
            tables.count(&sampled.table, |traffic| {
                for (column, value) in &row.values {
                    let [mine, others] = [within, across].map(|row| row.and_then(|row| row.value(column)));
                    traffic.repeated.count(
                        column,
                        RepeatedValue {
                            within: u64::from(mine.is_some()),
                            same_within: u64::from(mine == Some(*value)),
                            across: u64::from(others.is_some()),
                            same_across: u64::from(others == Some(*value)),
                        },
                    );
                }
            });
        }
        self.of_partitions.insert(partition, row.clone());
        if self.of_tables.len() < Self::TABLES || self.of_tables.contains_key(&sampled.table) {
            self.of_tables
                .insert(Arc::clone(&sampled.table), (partition, row));
        }
    }
}
