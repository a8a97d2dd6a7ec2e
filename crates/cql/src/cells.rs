//! The cells of one execution that are counted by value: the rows that INSERTs write, and the values of
//! columns that have an index. Values become keyed hashes at once.
//!
//! Like [`Keys`](crate::footprint::Keys) this is a buffer that its owner reuses. Plans fill it, of those
//! statements only that can concern it: most executions leave it empty.

use std::{hash::Hasher, sync::Arc};

use siphasher::sip::SipHasher13;

use crate::schema::{ColumnName, TableName};

/// What an execution tells of rows and of columns that have an index.
#[derive(Debug)]
pub struct Cells {
    hasher: SipHasher13,
    rows: Vec<InsertedRow>,
    columns: Vec<SeenColumn>,
    sampled: Vec<SampledRow>,
}

/// A row that an INSERT writes into a partition of several rows, with its values: of one partition in
/// [`SAMPLED_PARTITIONS`], all rows.
#[derive(Debug)]
pub struct SampledRow {
    /// The table.
    pub table: Arc<TableName>,
    /// A hash of the table with the partition key.
    pub partition: u64,
    /// A hash of the primary key.
    pub row: u64,
    /// Hashes of the values of regular columns and of the first of several clustering columns, of those that are known, by the column.
    pub values: Vec<(Arc<str>, u64)>,
}

/// Of so many partitions the rows of one are sampled, always of the same ones.
pub const SAMPLED_PARTITIONS: u64 = 8;

/// A row that an INSERT writes.
#[derive(Debug)]
pub struct InsertedRow {
    /// The table.
    pub table: Arc<TableName>,
    /// A hash of its primary key.
    pub row: u64,
    /// A hash of the row with its values.
    pub contents: u64,
    /// Its partition, where that has several rows.
    pub partition: Option<RowOfPartition>,
}

/// A row of a partition that has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowOfPartition {
    /// The hash of keyspace, table and routing key.
    pub partition: u64,
    /// Bytes of the values of the statement, without the partition key.
    pub bytes: u32,
}

/// A column that has an index, in a read or a write.
#[derive(Debug)]
pub struct SeenColumn {
    /// The column.
    pub name: Arc<ColumnName>,
    /// What the statement does with it.
    pub used: IndexUse,
    /// A hash of the row's primary key, where that is known.
    pub row: Option<u64>,
    /// A hash of the value, where that is known.
    pub value: Option<u64>,
}

/// What a statement does with a column that has an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexUse {
    /// An INSERT gives it a value.
    Inserted,
    /// An UPDATE sets it, or a DELETE takes its value away.
    Updated,
    /// A read asks the index without the partition key.
    Read,
    /// A read asks it within a partition.
    ReadInPartition,
}

impl Cells {
    /// More are not kept: Cassandra's own limit on the values of a statement.
    const MOST: usize = 1 << 16;

    /// An empty buffer.
    pub fn new(hasher: SipHasher13) -> Self {
        Self {
            hasher,
            rows: Vec::new(),
            columns: Vec::new(),
            sampled: Vec::new(),
        }
    }

    /// Forgets everything and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        if !(self.rows.is_empty() && self.columns.is_empty()) {
            self.clear_some();
        }
    }

    fn clear_some(&mut self) {
        self.rows.clear();
        self.columns.clear();
        self.sampled.clear();
    }

    /// A hasher of values, keyed by the operator.
    pub(super) fn hasher(&self) -> SipHasher13 {
        self.hasher
    }

    /// Notes a row that an INSERT writes.
    pub(super) fn insert(&mut self, row: InsertedRow) {
        if self.rows.len() < Self::MOST {
            self.rows.push(row);
        }
    }

    /// Notes a column that has an index; row and value where they are known.
    pub(super) fn see(
        &mut self,
        name: &Arc<ColumnName>,
        used: IndexUse,
        row: Option<u64>,
        value: Option<u64>,
    ) {
        if self.columns.len() < Self::MOST {
            self.columns.push(SeenColumn {
                name: Arc::clone(name),
                used,
                row,
                value,
            });
        }
    }

    /// Notes a row that is sampled, which is one of those that an INSERT writes.
    pub(super) fn sample(&mut self, row: SampledRow) {
        if self.sampled.len() < Self::MOST {
            self.sampled.push(row);
        }
    }

    /// The rows that are sampled.
    pub fn sampled(&self) -> &[SampledRow] {
        &self.sampled
    }

    /// The rows that INSERTs write.
    pub fn inserted(&self) -> &[InsertedRow] {
        &self.rows
    }

    /// The columns that have an index, as often as they were used.
    pub fn indexed(&self) -> &[SeenColumn] {
        &self.columns
    }
}

/// Adds a value to a hash: with its length, so that values cannot run into each other.
pub(super) fn write_value(hasher: &mut SipHasher13, value: &[u8]) {
    hasher.write_usize(value.len());
    hasher.write(value);
}
