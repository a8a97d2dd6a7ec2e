//! Models beside each other: what the same operation touches in each of them.
//!
//! Only who sends the traffic knows which statements are one operation and how many there were: the demo, or the test of
//! an application. All figures are those of the report.

use cqlens_cql::{footprint::PartitionClass, plan::StatementKind};
use serde::Serialize;

use super::{PatternReport, ProblemReport, Report};
use cqlens_rules::StableId;
use cqlens_window::number;

/// Models for one purpose.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Chapter {
    /// A few words.
    pub title: String,
    /// What an operation is and what the models differ in, in a sentence or two.
    pub about: String,
    /// What costs most first.
    pub models: Vec<ModelReport>,
}

/// A model with the operations that were run on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ModelReport {
    /// A few words.
    pub name: String,
    /// Its keyspace.
    pub keyspace: String,
    /// How many operations were run; 0 where nothing is read.
    pub operations: u64,
    /// Partitions that an operation reads, on average; null where nothing is read, or where the partitions are not named
    /// (`reads_the_ring`).
    pub partitions_per_operation: Option<f64>,
    /// Whether reads have no partition key: they ask all nodes.
    pub reads_the_ring: bool,
    /// Rows that an operation returns, on average; null where nothing is read.
    pub rows_per_operation: Option<f64>,
    /// Tombstones that a read passed, the most that the server told; 0 proves nothing.
    pub tombstones_max: u64,
    /// The ids of the problems that were found in it.
    pub problems: Vec<StableId>,
}

impl ModelReport {
    /// Partitions and rows of an operation, and the tombstones of its worst read, for the columns of a table.
    pub(super) fn figures(&self) -> [String; 3] {
        let nothing = || "–".to_owned();
        let partitions = match self.partitions_per_operation {
            Some(partitions) => number::decimal(partitions),
            None if self.reads_the_ring => "the ring".to_owned(),
            None => nothing(),
        };
        let rows = self.rows_per_operation.map_or_else(nothing, number::decimal);
        let tombstones = match self.tombstones_max {
            0 => nothing(),
            most => number::count(most),
        };
        [partitions, rows, tombstones]
    }
}

/// Which statements are of a model.
#[derive(Debug, Clone, Copy)]
pub struct ChapterTables<'a> {
    /// Those on this keyspace.
    pub keyspace: &'a str,
    /// Those on these tables of it; on all if none is named.
    pub tables: &'a [&'a str],
}

impl ChapterTables<'_> {
    fn has(self, keyspace: Option<&str>, table: Option<&str>) -> bool {
        let is_named = table.is_some_and(|table| self.tables.contains(&table));
        keyspace == Some(self.keyspace) && (self.tables.is_empty() || is_named)
    }
}

impl Report {
    /// The model in `place` after so many operations.
    pub fn model(&self, name: &str, place: ChapterTables<'_>, operations: u64) -> ModelReport {
        let reads = self.patterns.iter().filter(|pattern| {
            pattern.kind == StatementKind::Select
                && place.has(pattern.keyspace.as_deref(), pattern.table.as_deref())
        });
        let reads: Vec<&PatternReport> = reads.collect();
        let reads_the_ring = reads.iter().any(|read| {
            matches!(
                read.partitions.class,
                PartitionClass::Scan | PartitionClass::Index | PartitionClass::TokenRange
            )
        });
        let each = |total: fn(&PatternReport) -> u64| {
            let total: u64 = reads.iter().map(|read| total(read)).sum();
            (operations > 0).then(|| total as f64 / operations as f64)
        };
        let is_here =
            |problem: &&ProblemReport| place.has(problem.keyspace.as_deref(), problem.table.as_deref());
        ModelReport {
            name: name.to_owned(),
            keyspace: place.keyspace.to_owned(),
            operations,
            partitions_per_operation: each(|read| read.partitions.numbers.total).filter(|_| !reads_the_ring),
            reads_the_ring,
            rows_per_operation: each(|read| read.rows.total),
            tombstones_max: reads.iter().map(|read| read.tombstones.max).max().unwrap_or(0),
            problems: self
                .problems
                .iter()
                .filter(is_here)
                .map(|problem| problem.id)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_cql::{plan::Flag, schema::Schema};
    use cqlens_rules::{Context, Settings, check, testing};
    use cqlens_window::Cluster;
    use jiff::Timestamp;

    fn report() -> Report {
        let single = PartitionClass::Single;
        let list = testing::read("SELECT id FROM shop.lists WHERE a = ?", &[], single, 10);
        let users = testing::read("SELECT name FROM shop.users WHERE id = ?", &[], single, 200);
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let cql = "SELECT a FROM other.items WHERE a = ? ALLOW FILTERING";
        let scan = testing::read(cql, &flags, PartitionClass::Scan, 10);
        let window = testing::window([list, users, scan]);
        let (cluster, schema) = (Cluster::default(), Schema::default());
        let judgement = check(&Context::new(&window, &schema, &cluster), &Settings::default());
        Report::new(&window, &cluster, &schema, judgement, Timestamp::UNIX_EPOCH)
    }

    fn place<'a>(keyspace: &'a str, tables: &'a [&'a str]) -> ChapterTables<'a> {
        ChapterTables { keyspace, tables }
    }

    #[test]
    fn an_operation_has_what_all_of_its_reads_touch() {
        let model = report().model("A list, then its users", place("shop", &[]), 10);
        assert_eq!(model.partitions_per_operation, Some(21.0));
        assert_eq!(model.rows_per_operation, Some(21.0));
        let list = report().model("The list", place("shop", &["lists"]), 10);
        assert_eq!(list.partitions_per_operation, Some(1.0));
        let unread = report().model("Writes", place("shop", &["none"]), 0);
        assert_eq!(
            (unread.partitions_per_operation, unread.rows_per_operation),
            (None, None)
        );
    }

    #[test]
    fn what_names_no_partition_reads_the_ring_and_has_its_problem() {
        let report = report();
        let scan = report.model("A filter", place("other", &[]), 10);
        assert!(scan.reads_the_ring);
        assert_eq!(scan.partitions_per_operation, None);
        assert_eq!(scan.problems, [report.problems[0].id]);
        assert_eq!(report.problems[0].rules[0], "allow-filtering");
    }
}
