//! The figures of a finding, typed: numbers whose names end in their unit, names, words of a fixed list, and lists
//! of what has parts. They are put into words where readers see them, never before.

mod client;
mod warning;

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
};

use serde::Serialize;
use serde_json::Number;

pub use client::Client;
pub use warning::WarningClass;

use cqlens_window::{PatternId, number};

/// A figure of a finding; the ending of its name is its unit, and what ends in `_left_out` says how many more a list has than it
/// names.
///
/// Texts are names, times and words of a fixed list, no sentences. What others have named may hold blanks: applications with
/// their versions and drivers, and what the schema defines; so may `statement`, which is CQL.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum EvidenceValue {
    /// A count, a size in bytes (`_bytes`), a duration in microseconds (`_us`), a share of 1 (`_share`) or a rate
    /// (`_per_second`).
    Number(#[cfg_attr(feature = "json-schema", schemars(with = "f64"))] Number),
    /// Whether something is so.
    Fact(bool),
    /// A name or a time.
    Name(String),
    /// Names.
    Names(Vec<String>),
    /// How often each of these is meant.
    Counts(BTreeMap<String, u64>),
    /// How the finding is known.
    KnownFrom(Vec<KnownFrom>),
    /// Who sends the statements.
    Clients(Vec<Client>),
    /// Which statements leave tombstones.
    TombstoneWriters(Vec<TombstoneWriter>),
    /// What the server warns of.
    Warnings(Vec<WarningClass>),
    /// Indexes.
    Indexes(Vec<TableIndex>),
    /// Columns by which tables are joined.
    Links(Vec<ColumnLink>),
    /// Tables that get the same rows.
    Copies(Vec<CopiedTables>),
    /// How many replicas there are.
    Replicas(Vec<KeyspaceReplicas>),
}

/// So many counts are put into words.
const MOST_COUNTS: usize = 8;

impl EvidenceValue {
    /// The number, where it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// The number, where it is a whole one.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    /// All of it, for readers.
    pub fn words(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Fact(true) => "yes".to_owned(),
            Self::Fact(false) => "no".to_owned(),
            Self::Name(name) => name.clone(),
            Self::Names(names) => names.join(", "),
            Self::Counts(counts) => most_frequent(counts),
            Self::KnownFrom(ways) => joined(ways, ", "),
            Self::Clients(clients) => joined(clients, ", "),
            Self::TombstoneWriters(writers) if writers.is_empty() => "no statement of this window".to_owned(),
            Self::TombstoneWriters(writers) => joined(writers, "; "),
            Self::Warnings(warnings) => joined(warnings, "; "),
            Self::Indexes(indexes) => joined(indexes, ", "),
            Self::Links(links) => joined(links, ", "),
            Self::Copies(copies) => joined(copies, "; "),
            Self::Replicas(keyspaces) => joined(keyspaces, "; "),
        }
    }
}

fn joined(parts: &[impl Display], between: &str) -> String {
    let parts: Vec<_> = parts.iter().map(ToString::to_string).collect();
    parts.join(between)
}

/// `phone 60, email 3`.
fn most_frequent(counts: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|&(name, count)| (Reverse(count), name));
    let shown = counts.iter().take(MOST_COUNTS);
    let shown: Vec<_> = shown
        .map(|(name, count)| format!("{name} {}", number::count(**count)))
        .collect();
    match counts.len().saturating_sub(MOST_COUNTS) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

impl From<u64> for EvidenceValue {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl From<usize> for EvidenceValue {
    fn from(number: usize) -> Self {
        Self::Number(number.into())
    }
}

impl From<i64> for EvidenceValue {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
    }
}

impl From<i32> for EvidenceValue {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<f64> for EvidenceValue {
    /// A part of nothing, which is no number, is 0.
    fn from(number: f64) -> Self {
        Self::Number(Number::from_f64(number).unwrap_or_else(|| 0.into()))
    }
}

impl From<bool> for EvidenceValue {
    fn from(fact: bool) -> Self {
        Self::Fact(fact)
    }
}

impl From<&str> for EvidenceValue {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<String> for EvidenceValue {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

/// How a finding is known: from what the server reports on its own or when queried, else what it is inferred from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KnownFrom {
    /// Warnings in responses.
    ServerWarnings,
    /// Reads that the server aborted.
    AbortedReads,
    /// Traces of reads that cqlens sent again.
    TracedReads,
    /// What the nodes count by themselves.
    NodeCounters,
    /// The type of the column.
    ColumnType,
    /// Inferred: the statements that write.
    Writes,
    /// Inferred: values that were written.
    WrittenValues,
    /// Inferred: values that were queried, and the rows of the responses.
    QueriedValues,
    /// Inferred: pages that ended before they were full, with more to come.
    ShortPages,
}

impl Display for KnownFrom {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::ServerWarnings => "server warnings",
            Self::AbortedReads => "reads aborted by the server",
            Self::TracedReads => "traces of reads repeated by cqlens",
            Self::NodeCounters => "the nodes' own counters",
            Self::ColumnType => "column type",
            Self::Writes => "writes (inferred)",
            Self::WrittenValues => "written values (inferred)",
            Self::QueriedValues => "queried values and row counts of their results (inferred)",
            Self::ShortPages => "short pages followed by more rows (inferred)",
        })
    }
}

/// A statement that leaves tombstones behind, or will.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TombstoneWriter {
    /// Its template.
    pub statement: String,
    /// Its fingerprint.
    pub pattern: PatternId,
    /// How it leaves them behind.
    pub how: TombstoneCause,
    /// Executions that leave tombstones behind.
    pub executions: u64,
}

impl Display for TombstoneWriter {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let times = number::plural(self.executions, "time", "times");
        write!(to, "`{}` {} ({times})", self.statement, self.how)
    }
}

/// How a write becomes a tombstone, the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TombstoneCause {
    /// It deletes.
    Deletes,
    /// It writes nulls.
    BindsNulls,
    /// It sets collections as a whole.
    ReplacesCollections,
    /// What it writes has a TTL.
    Expires,
}

impl Display for TombstoneCause {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Deletes => "deletes",
            Self::BindsNulls => "binds nulls",
            Self::ReplacesCollections => "replaces collections",
            Self::Expires => "writes with a TTL",
        })
    }
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TableIndex {
    /// Its name.
    pub index: String,
    /// The columns that it is on.
    pub columns: Vec<String>,
    /// `legacy`, `storage-attached`, `SASI`, or the class of another one.
    pub kind: String,
}

impl Display for TableIndex {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "{} on {} ({})",
            self.index,
            self.columns.join(" and "),
            self.kind
        )
    }
}

/// A value of one table by which another one is queried.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ColumnLink {
    /// The table that is read first, as `keyspace.table`.
    pub from_table: String,
    /// Its column.
    pub from_column: String,
    /// The table that is queried by its values, as `keyspace.table`.
    pub to_table: String,
    /// The column that has them.
    pub to_column: String,
}

impl Display for ColumnLink {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let table = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
        let (from, to_table) = (table(&self.from_table), table(&self.to_table));
        write!(to, "{from}.{} = {to_table}.{}", self.from_column, self.to_column)
    }
}

/// Tables that get the same rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CopiedTables {
    /// The tables, as `keyspace.table`.
    pub tables: Vec<String>,
    /// How often they got the same rows.
    pub operations: u64,
}

impl Display for CopiedTables {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.tables.iter().map(|name| format!("`{name}`")).collect();
        let times = number::plural(self.operations, "time", "times");
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => {
                write!(to, "{} and {last} {times}", others.join(", "))
            }
            _ => write!(to, "{} {times}", names.concat()),
        }
    }
}

/// The replicas of a keyspace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct KeyspaceReplicas {
    /// Its name.
    pub keyspace: String,
    /// By datacenter.
    pub replicas: BTreeMap<String, u64>,
}

impl Display for KeyspaceReplicas {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let replicas: Vec<_> = self
            .replicas
            .iter()
            .map(|(data_center, count)| format!("{data_center}: {count}"))
            .collect();
        write!(to, "{} {}", self.keyspace, replicas.join(", "))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn programs_get_parts_and_readers_words() {
        let writer = TombstoneWriter {
            statement: "DELETE FROM s.t WHERE k = ?".to_owned(),
            pattern: PatternId(255),
            how: TombstoneCause::Deletes,
            executions: 1_200,
        };
        let value = EvidenceValue::TombstoneWriters(vec![writer]);
        assert_eq!(
            serde_json::to_value(&value).unwrap(),
            serde_json::json!([{
                "statement": "DELETE FROM s.t WHERE k = ?",
                "pattern": "00000000000000ff",
                "how": "deletes",
                "executions": 1200,
            }])
        );
        assert_eq!(
            value.words(),
            "`DELETE FROM s.t WHERE k = ?` deletes (1,200 times)"
        );
        let known = EvidenceValue::KnownFrom(vec![KnownFrom::ServerWarnings, KnownFrom::NodeCounters]);
        let tokens = serde_json::json!(["server-warnings", "node-counters"]);
        assert_eq!(serde_json::to_value(&known).unwrap(), tokens);
        assert_eq!(known.words(), "server warnings, the nodes' own counters");
    }

    #[test]
    fn of_many_counts_the_largest_are_shown() {
        let counts = (0..10).map(|number| (format!("column_{number}"), 100 - number));
        let words = EvidenceValue::Counts(counts.collect()).words();
        assert!(words.starts_with("column_0 100, column_1 99, "), "{words}");
        assert!(words.ends_with(", column_7 93 and 2 more"), "{words}");
    }
}
