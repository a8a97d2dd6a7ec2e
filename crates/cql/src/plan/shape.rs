//! What a plan consists of, and what it says before anything is bound.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ServerVersion;
use crate::footprint::Reason;
use crate::schema::TableName;
use crate::syntax::ast::BatchKind;

use super::cells::MaybeCells;
use super::checks::CheckedValue;
use super::clustering::RowCheck;
use super::facts::Facts;
use super::flag::Flag;
use super::json::JsonKey;
use super::keys::KeyPlan;
use super::refusal::Refusal;
use super::restriction::FilterValue;
use super::term::CompiledTerm;
use super::token::TokenRange;
use super::transaction::{MaybeSetCells, TransactionPlan};

/// What a statement does, compiled once for all its executions.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) facts: Facts,
    /// The tables that are read or written, in the order of the text, and by how many statements.
    pub(super) tables: Vec<(Arc<TableName>, u32)>,
    pub(super) shape: Shape,
}

/// How the partitions of an execution are found.
#[derive(Debug, Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "plans are kept behind pointers, one for each statement"
)]
pub(super) enum Shape {
    Read(ReadPlan),
    Write(WritePlan),
    Batch(BatchPlan),
    Transaction(TransactionPlan),
    /// Not to be found, and why; a refusal goes with it where Cassandra would refuse the statement.
    Unknown(Reason, Option<Refusal>),
}

/// A `SELECT`.
#[derive(Debug, Clone)]
pub(super) struct ReadPlan {
    pub(super) reads: Reads,
    pub(super) limit: Option<CompiledTerm>,
    pub(super) per_partition_limit: Option<CompiledTerm>,
    /// What is refused when executed, whatever is bound.
    pub(super) refusal: Option<Refusal>,
    /// Values that rows are filtered by and that must not be null.
    pub(super) filters: Vec<FilterValue>,
    pub(super) cells: MaybeCells,
}

/// What a `SELECT` reads.
#[derive(Debug, Clone)]
pub(super) enum Reads {
    /// Partitions that are named.
    Keys {
        keys: KeyPlan,
        row_check: Option<RowCheck>,
    },
    /// The ring, or a part of it.
    Range {
        token: Option<TokenRange>,
        by_index: bool,
        row_check: Option<RowCheck>,
    },
}

/// An `INSERT`, `UPDATE` or `DELETE`.
#[derive(Debug, Clone)]
pub(super) struct WritePlan {
    pub(super) writes: Writes,
    /// Which rows are named, where these can be none.
    pub(super) row_check: Option<RowCheck>,
    /// Values that the columns constrain; none of most tables.
    pub(super) checks: Vec<CheckedValue>,
    /// The refusal of several partitions where a condition allows only one.
    pub(super) conditional_in: Option<&'static str>,
    /// Deletes some columns of rows that are not named one by one: refused as soon as there is a partition.
    pub(super) deletes_columns_of_range: bool,
    /// What is refused when executed, whatever is bound.
    pub(super) refusal: Option<Refusal>,
    pub(super) cells: MaybeCells,
    /// What it sets within a transaction.
    pub(super) set_cells: MaybeSetCells,
}

#[derive(Debug, Clone)]
pub(super) enum Writes {
    Keys(KeyPlan),
    Json(JsonKey),
    /// One partition, by a statement on a table that no schema describes: which, only the server knows.
    Unnamed,
}

/// A batch in CQL text.
#[derive(Debug, Clone)]
pub(super) struct BatchPlan {
    pub(super) kind: BatchKind,
    pub(super) children: Vec<Plan>,
    pub(super) refusal: Option<Refusal>,
}

impl Plan {
    /// What the text and the schema say.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether the schema has the tables of the statement; see [`Plan::without_schema`] for those that it has
    /// not.
    pub fn is_known(&self) -> bool {
        !matches!(
            self.shape,
            Shape::Unknown(Reason::TableUnknown | Reason::KeyspaceUnknown, _)
        )
    }

    /// The properties that patterns carry.
    pub fn flags(&self) -> BTreeSet<Flag> {
        self.facts.flags().collect()
    }

    /// The tables and views that are read or written, each once, and how many statements (of a batch) do;
    /// empty where neither schema nor server names them.
    pub fn tables(&self) -> &[(Arc<TableName>, u32)] {
        &self.tables
    }

    /// Why Cassandra would refuse the statement whatever is bound to it, as far as that is foreseen.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.shape {
            Shape::Unknown(_, refusal) => refusal.as_ref(),
            Shape::Batch(batch) => batch.refusal.as_ref(),
            Shape::Transaction(transaction) => transaction.refusal.as_ref(),
            Shape::Write(write) => write.refusal.as_ref(),
            Shape::Read(read) => read.refusal.as_ref(),
        }
    }

    /// The plan as a version of Cassandra has it whose tables are defined as the schema says: it may refuse what newer
    /// versions do not, and transactions on tables without `transactional_mode`.
    #[must_use]
    pub fn on(self, server: ServerVersion) -> Self {
        let refused = match &self.shape {
            _ if server < ServerVersion::V6_0 => self.refused_before_6(),
            Shape::Transaction(transaction) if transaction.refusal.is_none() => transaction.disabled.as_ref(),
            _ => None,
        };
        match refused.cloned() {
            Some(refusal) => {
                let facts = Facts {
                    schema: None,
                    ..self.facts
                };
                Self::unknown(facts, self.tables, refusal.reason, Some(refusal))
            }
            None => self,
        }
    }

    fn refused_before_6(&self) -> Option<&Refusal> {
        match &self.shape {
            Shape::Batch(batch) => batch.children.iter().find_map(Self::refused_before_6),
            _ => self.facts.schema.as_ref()?.refused_before_6.as_ref(),
        }
    }

    pub(super) fn too_complex(facts: Facts, tables: Vec<(Arc<TableName>, u32)>) -> Self {
        Self::unknown(facts, tables, Reason::StatementTooComplex, None)
    }

    pub(super) fn unknown(
        facts: Facts,
        tables: Vec<(Arc<TableName>, u32)>,
        reason: Reason,
        refusal: Option<Refusal>,
    ) -> Self {
        Self {
            facts,
            tables,
            shape: Shape::Unknown(reason, refusal),
        }
    }
}
