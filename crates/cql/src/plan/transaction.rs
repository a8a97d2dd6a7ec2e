//! Plans of transactions (`TransactionStatement`, Cassandra 6.0): which partitions Accord is given to read and to write.

mod deferred;
mod planning;
mod row_scope;
mod set_cells;

use std::sync::Arc;

use crate::footprint::{Footprint, Keys, Reason};
use crate::schema::TableName;
use crate::syntax::ast::BatchKind;
use cqlens_proto::message::Values;

use super::batch::summed;
use super::batch_sum::BatchSum;
use super::keys::Counted;
use super::refusal::Refusal;
use super::shape::{Plan, Shape};
use super::touched::Touched;

pub use deferred::reads_itself;
pub(super) use planning::plan;
use set_cells::CellsSet;
pub(super) use set_cells::{MaybeSetCells, SetCells};

/// A transaction: all of it is given to Accord, whatever its conditions will say.
#[derive(Debug, Clone)]
pub(super) struct TransactionPlan {
    /// What `LET` reads, then the `SELECT`.
    reads: Vec<ReadOfTransaction>,
    writes: Vec<WriteOfTransaction>,
    /// Whether several writes set columns of one name: their keys decide whether it is one cell.
    sets_column_twice: bool,
    pub(super) refusal: Option<Refusal>,
    /// The refusal of a table whose definition says no `transactional_mode`. `system_schema` of 6.0-alpha2 says none of any
    /// table, so that it counts only where definitions are known: see [`Plan::on`].
    pub(super) disabled: Option<Refusal>,
}

#[derive(Debug, Clone)]
struct ReadOfTransaction {
    plan: Plan,
    /// One row of one partition, under a name.
    is_let: bool,
    /// Its limit decides whether it is one row.
    needs_limit: bool,
}

#[derive(Debug, Clone)]
struct WriteOfTransaction {
    plan: Plan,
    /// It changes what is stored, so that the server reads it too: `c += 1`.
    reads_itself: bool,
}

/// What a transaction does with the partitions that it names.
#[derive(Debug, Clone, Copy)]
pub struct TransactionFootprint {
    /// Those that are read: by `LET`, by `SELECT`, and by writes that change what is stored.
    pub read: Footprint,
    /// Those that are written.
    pub written: Footprint,
}

/// The tables of a transaction, each with the number of its statements that read or write it.
#[derive(Debug, Clone, Default)]
pub struct TransactionTables {
    /// Those that are read.
    pub read: Vec<(Arc<TableName>, u32)>,
    /// Those that are written.
    pub written: Vec<(Arc<TableName>, u32)>,
}

/// The parts of a transaction, as its text has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionFacts {
    /// `LET`s.
    pub lets: usize,
    /// What it responds with.
    pub returns: TransactionReturns,
    /// Conditions of `IF`.
    pub conditions: usize,
    /// Writes.
    pub updates: usize,
    /// `LET`s of which neither a condition nor a write nor the response uses anything.
    pub unused_lets: usize,
}

/// What a transaction responds with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionReturns {
    /// No rows.
    Nothing,
    /// The rows of a `SELECT`.
    Rows,
    /// Parts of rows that it has read.
    References,
}

impl Plan {
    /// What a transaction reads and writes; the keys that are known are pushed to `read` and `written`, which must be
    /// clear. None for other statements.
    ///
    /// # Errors
    ///
    /// The refusal of the statement, or of what is bound to it.
    pub fn transaction_footprint(
        &self,
        values: Option<&Values<'_>>,
        read: &mut Keys,
        written: &mut Keys,
    ) -> Result<Option<TransactionFootprint>, Refusal> {
        let Shape::Transaction(transaction) = &self.shape else {
            return Ok(None);
        };
        if values.is_none() && self.facts.bind_markers > 0 {
            let unknown = Footprint::unknown(Reason::Unbound);
            return Ok(Some(TransactionFootprint {
                read: unknown,
                written: unknown,
            }));
        }
        let of = |touched: Touched| touched.footprint();
        Ok(Some(TransactionFootprint {
            read: of(transaction.touch_read(values, read)?),
            written: of(transaction.touch_written(values, written)?),
        }))
    }

    /// The tables that a transaction reads, and those that it writes, by the number of its statements that do; none for
    /// other statements. What is changed by what is stored is both.
    pub fn transaction_tables(&self) -> Option<TransactionTables> {
        let Shape::Transaction(transaction) = &self.shape else {
            return None;
        };
        let reads = transaction.reads.iter().map(|read| &read.plan);
        let updated = transaction.writes.iter().filter(|write| write.reads_itself);
        let reads = reads.chain(updated.map(|write| &write.plan));
        let writes = transaction.writes.iter().map(|write| &write.plan);
        Some(TransactionTables {
            read: summed(reads.flat_map(Plan::tables)),
            written: summed(writes.flat_map(Plan::tables)),
        })
    }
}

impl TransactionPlan {
    /// All distinct partitions, read or written.
    pub(super) fn touch(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let mut sum = BatchSum::new(BatchKind::Logged);
        for read in &self.reads {
            sum.add_touched(read.touch(values, keys)?);
        }
        let mut cells = CellsSet::default();
        for write in &self.writes {
            sum.add_touched(write.plan.touch(values, keys)?);
            if self.sets_column_twice {
                cells.add(&write.plan, values)?;
            }
        }
        sum.touched(keys)
    }

    fn touch_read(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        let mut sum = BatchSum::new(BatchKind::Logged);
        for read in &self.reads {
            sum.add_touched(read.touch(values, keys)?);
        }
        for write in self.writes.iter().filter(|write| write.reads_itself) {
            sum.add_touched(write.plan.touch(values, keys)?);
        }
        sum.touched(keys)
    }

    fn touch_written(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        let mut sum = BatchSum::new(BatchKind::Logged);
        for write in &self.writes {
            sum.add_touched(write.plan.touch(values, keys)?);
        }
        sum.touched(keys)
    }

    /// How many partitions each execution names, where none of its statements may name one of another's.
    pub(super) fn children(&self) -> impl Iterator<Item = &Plan> {
        let reads = self.reads.iter().map(|read| &read.plan);
        reads.chain(self.writes.iter().map(|write| &write.plan))
    }
}

impl ReadOfTransaction {
    fn touch(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        let refuse = |message: &'static str| Err(Refusal::bind(Reason::InvalidStatement, message));
        let limit = self.plan.limits(values)?.limit;
        if self.needs_limit && limit != Some(1) {
            return refuse(ONE_ROW);
        }
        let has_list = self
            .plan
            .facts
            .schema
            .as_ref()
            .is_some_and(|schema| schema.in_on_partition_key);
        if has_list && limit.is_some() {
            return refuse(NO_LIMIT);
        }
        let touched = self.plan.touch(values, keys)?;
        match touched {
            Touched::Counted(Counted { named, .. }) if self.is_let && named > 1 => {
                refuse("Within a transaction, SELECT statements must select a single partition")
            }
            // Cassandra 6.0 cannot read what it knows to be empty.
            Touched::Counted(Counted {
                named: 0,
                is_bound: false,
                ..
            }) => refuse("a read of a transaction names no row"),
            Touched::Scan | Touched::TokenRange(_) | Touched::Index => {
                refuse("Range queries are not allowed for reads within a transaction")
            }
            touched => Ok(touched),
        }
    }
}

const ONE_ROW: &str = "SELECT must specify either all primary key elements or all partition key elements and LIMIT 1. \
    In both cases partition key elements must be always specified with equality operators";
const NO_LIMIT: &str =
    "Partition key is present in IN clause and there is a LIMIT... this is currently not supported";
