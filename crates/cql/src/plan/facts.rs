//! What is known of a statement without its values.

use crate::syntax::ast::{BatchKind, Kind};

use super::flag::Flag;
use super::kind::StatementKind;
use super::refusal::Refusal;
use super::transaction::TransactionFacts;

/// What the text of a statement says, and what the schema makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Which statement it is.
    pub kind: Kind,
    /// The keyspace: named, else the request's or connection's. None where neither says one, or there is
    /// none.
    pub keyspace: Option<String>,
    /// The table or view, unquoted; of a batch the one that all its statements write.
    pub table: Option<String>,
    /// Bind markers, each occurrence of a named one counted.
    pub bind_markers: usize,
    /// `ALLOW FILTERING` is written.
    pub allow_filtering: bool,
    /// `SELECT DISTINCT`.
    pub distinct: bool,
    /// `SELECT JSON` or `INSERT … JSON`.
    pub json: bool,
    /// `SELECT *`.
    pub select_star: bool,
    /// A `LIMIT` is written.
    pub has_limit: bool,
    /// `GROUP BY` is written.
    pub groups: bool,
    /// Conditional; of a batch, if one of its statements is.
    pub lwt: bool,
    /// `USING TIMESTAMP`.
    pub timestamp_set: bool,
    /// `USING TTL`.
    pub ttl_set: bool,
    /// For a transaction, its parts.
    pub transaction: Option<TransactionFacts>,
    /// For a batch, its kind and the number of its statements.
    pub batch: Option<(BatchKind, usize)>,
    /// What only a schema can tell; none without one, or where Cassandra would refuse the statement.
    pub schema: Option<SchemaFacts>,
}

/// What the schema makes of a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an independent fact with a name of its own in reports"
)]
pub struct SchemaFacts {
    /// Cassandra would refuse the statement without `ALLOW FILTERING`.
    pub filtering_needed: bool,
    /// Every partition key column is restricted by `=` or `IN`.
    pub full_partition_key: bool,
    /// Every primary key column is restricted by `=` or `IN`.
    pub names_rows: bool,
    /// `IN` on a partition key column; `IN` of one listed value is `=`.
    pub in_on_partition_key: bool,
    /// `IN` on several columns of the partition key.
    pub in_cartesian: bool,
    /// `IN` on a clustering column.
    pub in_on_clustering: bool,
    /// The token says which part of the ring is read.
    pub on_token: bool,
    /// A secondary index is asked.
    pub uses_index: bool,
    /// The secondary indexes that are asked, by name; empty where what is left to ask for is served by none.
    pub indexes: Vec<String>,
    /// Rows are read against the clustering order.
    pub reversed: bool,
    /// An aggregate function folds all rows into one, or those of each group. `GROUP BY` alone, which leaves
    /// the first row of each group, does not.
    pub aggregate: bool,
    /// The table has counters.
    pub counter: bool,
    /// A materialized view is read.
    pub view: bool,
    /// Only static columns are written.
    pub static_only: bool,
    /// What a `DELETE` deletes.
    pub delete_kind: Option<DeleteKind>,
    /// For each partition key column in order the marker that is its value; none if one has no such marker.
    pub partition_key_markers: Option<Vec<usize>>,
    /// Whether all markers are values of one table, so that PREPARED tells which are the key's.
    pub markers_of_one_table: bool,
    /// Why Cassandra refuses the statement up to 5.0, where 6.0 does not.
    pub refused_before_6: Option<Refusal>,
}

/// What a `DELETE` deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeleteKind {
    /// Whole partitions.
    Partition,
    /// Rows named by their whole primary key.
    Row,
    /// Rows between bounds, or below a clustering prefix.
    Range,
    /// Some columns of rows.
    Column,
}

impl DeleteKind {
    /// The kind in JSON: `partition`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Partition => "partition",
            Self::Row => "row",
            Self::Range => "range",
            Self::Column => "column",
        }
    }
}

impl Facts {
    /// `GROUP BY` with a `LIMIT`: partitions are read one after the other until there are groups enough.
    pub fn limits_groups(&self) -> bool {
        self.groups && self.has_limit
    }

    /// Whether a page of the answer ends before it has as many rows as were asked for only because of what
    /// the server passed on the way: the read is of whole partitions that are named, and leaves no live row
    /// out.
    pub fn fills_pages(&self) -> bool {
        let passes_none = |schema: &SchemaFacts| {
            schema.full_partition_key
                && !(schema.filtering_needed
                    || schema.uses_index
                    || schema.aggregate
                    || schema.in_on_partition_key)
        };
        !self.groups && !self.distinct && self.schema.as_ref().is_some_and(passes_none)
    }

    /// Facts of a statement of which nothing but the kind is known.
    pub(super) fn new(kind: Kind, bind_markers: usize) -> Self {
        Self {
            kind,
            keyspace: None,
            table: None,
            bind_markers,
            allow_filtering: false,
            distinct: false,
            json: false,
            select_star: false,
            has_limit: false,
            groups: false,
            lwt: false,
            timestamp_set: false,
            ttl_set: false,
            transaction: None,
            batch: None,
            schema: None,
        }
    }

    /// The kind as patterns have it.
    pub fn statement_kind(&self) -> StatementKind {
        match self.kind {
            Kind::Select => StatementKind::Select,
            Kind::Insert => StatementKind::Insert,
            Kind::Update => StatementKind::Update,
            Kind::Delete => StatementKind::Delete,
            Kind::Batch => StatementKind::Batch,
            Kind::Transaction => StatementKind::Transaction,
            Kind::Truncate
            | Kind::CreateKeyspace
            | Kind::AlterKeyspace
            | Kind::DropKeyspace
            | Kind::CreateTable
            | Kind::AlterTable
            | Kind::CopyTable
            | Kind::CommentOnKeyspace
            | Kind::CommentOnTable
            | Kind::CommentOnColumn
            | Kind::CommentOnUserType
            | Kind::CommentOnUserTypeField
            | Kind::SecurityLabelOnKeyspace
            | Kind::SecurityLabelOnTable
            | Kind::SecurityLabelOnColumn
            | Kind::SecurityLabelOnUserType
            | Kind::SecurityLabelOnUserTypeField
            | Kind::DropTable
            | Kind::CreateType
            | Kind::AlterType
            | Kind::DropType
            | Kind::CreateIndex
            | Kind::DropIndex
            | Kind::CreateView
            | Kind::AlterView
            | Kind::DropView
            | Kind::CreateFunction
            | Kind::DropFunction
            | Kind::CreateAggregate
            | Kind::DropAggregate
            | Kind::CreateTrigger
            | Kind::DropTrigger => StatementKind::Ddl,
            _ => StatementKind::Other,
        }
    }

    fn names_several_tables(&self) -> bool {
        let is_of_several =
            self.transaction.is_some() || self.batch.is_some_and(|(_, statements)| statements > 0);
        is_of_several && self.table.is_none()
    }

    /// The facts that patterns carry, in the order of [`Flag`].
    pub fn flags(&self) -> impl Iterator<Item = Flag> {
        let none = SchemaFacts::default();
        let schema = self.schema.as_ref().unwrap_or(&none);
        let batch_kind = self.batch.map(|(kind, _)| kind);
        let flags = [
            (self.allow_filtering, Flag::AllowFiltering),
            (schema.filtering_needed, Flag::FilteringNeeded),
            (schema.full_partition_key, Flag::FullPartitionKey),
            (schema.in_on_partition_key, Flag::InPartitionKey),
            (schema.in_cartesian, Flag::InCartesianProduct),
            (schema.in_on_clustering, Flag::InClustering),
            (schema.on_token, Flag::OnToken),
            (schema.uses_index, Flag::Index),
            (schema.reversed, Flag::Reversed),
            (schema.aggregate, Flag::Aggregate),
            (self.select_star, Flag::SelectStar),
            (self.distinct, Flag::Distinct),
            (self.has_limit, Flag::Limit),
            (self.lwt, Flag::Lwt),
            (
                schema.counter || batch_kind == Some(BatchKind::Counter),
                Flag::Counter,
            ),
            (schema.view, Flag::View),
            (batch_kind == Some(BatchKind::Logged), Flag::LoggedBatch),
            (batch_kind == Some(BatchKind::Unlogged), Flag::UnloggedBatch),
            (self.names_several_tables(), Flag::SeveralTables),
        ];
        flags
            .into_iter()
            .filter(|(holds, _)| *holds)
            .map(|(_, flag)| flag)
    }
}
