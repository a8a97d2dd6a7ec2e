#![doc = include_str!("../README.md")]
//!
//! What the data-modelling literature warns of, one rule a file.
//!
//! A rule is a pure function of its [`Context`] (a window, the schema, facts of the cluster): it never sees
//! traffic, a clock or another rule. So
//! the findings of merged windows equal those of one long window. What a rule says about itself (`About`) is
//! the one source of `cqlens rules`, of the reports' advice and of the documentation.

mod acceptance;
mod application;
mod beside;
mod bookkeeping;
mod by_table;
mod cause;
mod client;
mod context;
mod cost;
mod definition;
mod error_code;
mod evidence;
mod example;
mod figures;
mod finding;
mod fold;
mod model;
mod partition_growth;
mod partition_size;
mod problem;
mod program;
mod quantity;
mod read;
mod sequence;
mod severity;
mod spread;
mod statement;
mod tombstone;
mod transaction;
mod watch;
mod wish;
#[doc(hidden)]
pub mod work;
mod write;

#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;

use std::collections::BTreeMap;

use cqlens_cql::schema::Schema;
use jiff::Timestamp;

use cqlens_window::{Cluster, Window};

pub use acceptance::{Acceptance, AcceptanceState, Applied, Comment, Judging, Sorted, day, set_apart};
pub use application::{Parts as ClientParts, name as application_name, parts as client_parts};
pub use cause::Cause;
pub use context::Context;
pub use cost::{Cost, share_step};
pub use error_code::name as error_name;
pub use evidence::{
    Client, ColumnLink, CopiedTables, EvidenceValue, KeyspaceReplicas, KnownFrom, TableIndex, TombstoneCause,
    TombstoneWriter, WarningClass,
};
pub use example::Example;
use example::Rewrite;
pub use finding::{BlindSpot, DefinitionPart, Evidence, Finding, Findings, Judgement};
pub use partition_growth::{GrowthPoint, PartitionGrowth};
pub use problem::{Problem, StableId, problems};
pub use quantity::{Quantity, Unit};
pub use read::suggest::SuggestedNames;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub use sequence::testing as operations;
pub use sequence::{Sent, Sequence, SequenceStep};
pub use severity::{Severity, THRESHOLDS as SEVERITY_THRESHOLDS};
pub use wish::Unwritten;
use wish::Wish;

/// One thing that can be wrong with a data model or its use.
pub trait Rule: Sync {
    /// What the rule is, in words and numbers.
    fn about(&self) -> &'static About;

    /// Adds a finding for everything in the window that the rule warns of, and says what it could not see.
    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>);
}

/// A rule's page: `cqlens rules ID` prints it.
#[derive(Debug)]
pub struct About {
    /// Completes "this table shows …"; never renamed.
    pub id: &'static str,
    /// The group that the rule belongs to: `read shape`, `tombstones`, …
    pub group: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// What coordinator and replicas do, and why that costs.
    pub why: &'static str,
    /// What to do instead.
    pub fix: &'static str,
    /// The fix in about three words, for lists.
    pub fix_in_short: &'static str,
    /// CQL that the rule warns of.
    pub before: &'static str,
    /// The same need, served well.
    pub after: &'static str,
    /// How the severity comes about.
    pub severity: &'static str,
    /// The severities that it gives, from the least. The load may raise or lower them.
    pub severities: &'static [Severity],
    /// The numbers that the severity depends on.
    pub thresholds: &'static [Threshold],
    /// What the rule must be able to see, and what it says when it cannot.
    pub needs: &'static str,
    /// The article, document or Cassandra class that the rule comes from.
    pub source: &'static str,
    /// What its findings come from as those of other rules do; none if it stands alone.
    pub cause: Option<Cause>,
    /// The distribution that it judges, if it judges one.
    pub quantity: Option<Quantity>,
    /// How a statement of a finding is written better, where no definition helps.
    pub(crate) rewrite: Option<Rewrite>,
}

/// A number that can be set.
#[derive(Debug)]
pub struct Threshold {
    /// The setting's name: `rules.<id>.<name>` in the configuration file.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: &'static str,
    /// The value without a setting.
    pub default: f64,
    /// Where the default comes from.
    pub origin: &'static str,
}

impl Threshold {
    /// Whether it is a part of a whole, 0 to 1.
    pub fn is_share(&self) -> bool {
        self.unit.starts_with("of the ")
    }
}

/// Every rule, in the order of the catalogue.
pub const RULES: &[&dyn Rule] = &[
    &read::AllowFiltering,
    &read::FullScan,
    &read::TokenRangeScan,
    &read::InPartitionKey,
    &read::InCartesianProduct,
    &read::InClustering,
    &read::SecondaryIndexRead,
    &read::IndexLowCardinality,
    &read::IndexHighCardinality,
    &read::IndexOnUpdatedColumn,
    &read::MaterializedViewRead,
    &read::ReversedRead,
    &read::UnboundedRead,
    &read::SelectStar,
    &read::LargeResult,
    &read::AggregateWithoutPartitionKey,
    &read::UnpagedRead,
    &read::LargePages,
    &read::SmallPages,
    &read::WritetimeRead,
    &read::EmptyRead,
    &sequence::ClientJoin,
    &sequence::IndexTableLookup,
    &sequence::BucketFanOut,
    &sequence::TimeBucketWalk,
    &sequence::DualWriteWithoutBatch,
    &sequence::ReadBeforeWrite,
    &sequence::RedundantReads,
    &spread::HotPartition,
    &spread::LargePartition,
    &spread::UnevenTokenLoad,
    &tombstone::TombstoneHeavyRead,
    &tombstone::QueuePattern,
    &tombstone::CollectionOverwrite,
    &tombstone::DeleteHeavy,
    &tombstone::NullInsert,
    &tombstone::TimeWindowMisuse,
    &write::LwtHeavy,
    &write::LoggedBatchMultiPartition,
    &write::UnloggedBatchMultiPartition,
    &write::BatchTooLarge,
    &write::CounterBatch,
    &write::CounterDelete,
    &write::ListModification,
    &write::GrowingCollection,
    &write::OverwritingInsert,
    &write::MixedConditionalWrites,
    &write::RetriedIncrement,
    &write::LargeMutation,
    &transaction::MultiPartitionTransaction,
    &transaction::SinglePartitionTransaction,
    &transaction::UnusedTransactionRead,
    &transaction::ContendedTransaction,
    &transaction::TransactionalMode,
    &client::UnpreparedStatement,
    &client::PrepareChurn,
    &client::NotTokenAware,
    &client::ConsistencyAll,
    &client::CrossDcConsistency,
    &client::WeakConsistency,
    &client::MixedSerialConsistency,
    &client::Retries,
    &client::Timeouts,
    &client::ServerWarning,
    &client::ServerError,
    &client::SchemaChange,
    &client::SchemaDisagreement,
    &client::FutureTimestamp,
    &client::PastTimestamp,
    &client::TracedRequests,
    &client::ConnectionChurn,
    &client::ManyConnections,
    &client::OldProtocol,
    &client::OldDriver,
    &client::NoCompression,
    &model::UnusedTable,
    &model::UnusedIndex,
    &model::QueryWithoutTable,
    &model::ReadUpdateRatio,
    &model::LargePartitionKey,
    &model::StaticColumn,
    &definition::FewPartitions,
    &definition::EndlessPartition,
    &definition::TtlWithoutWindows,
    &definition::TimeWindowSettings,
    &definition::MaterializedViewWrite,
    &definition::GcGraceZero,
    &definition::SasiIndex,
    &definition::ManyIndexes,
    &definition::CompactStorage,
    &definition::SimpleStrategy,
    &definition::ReplicationFactor,
    &definition::ManyTables,
];

/// What the operator sets otherwise than the rules.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Thresholds that differ from their defaults, by `(rule id, threshold name)`; those of all severities
    /// ([`SEVERITY_THRESHOLDS`]) below `severity`.
    pub thresholds: BTreeMap<(String, String), f64>,
    /// Rules that are switched off, or limited to a severity, by their id.
    pub severities: BTreeMap<String, RuleSeverity>,
}

/// How severe the findings of a rule may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleSeverity {
    /// The rule is not run.
    Off,
    /// Findings are at most this severe.
    AtMost(Severity),
}

impl std::fmt::Display for RuleSeverity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => formatter.write_str("off"),
            Self::AtMost(severity) => severity.fmt(formatter),
        }
    }
}

impl Settings {
    /// Severities that say how bad one execution is, however few there are: for the traffic of tests, which is no
    /// load. What takes a small share of the time, or of an idle cluster, is not called less severe for it.
    pub fn whatever_the_load() -> Self {
        let set = severity::WHATEVER_THE_LOAD
            .iter()
            .map(|(threshold, value)| ((severity::ID.to_owned(), threshold.name.to_owned()), *value));
        Self {
            thresholds: set.collect(),
            ..Self::default()
        }
    }

    /// The value of a threshold of the rule `id`, or of all severities (`severity`).
    pub fn threshold(&self, id: &str, threshold: &Threshold) -> f64 {
        let set = self.thresholds.get(&(id.to_owned(), threshold.name.to_owned()));
        set.copied().unwrap_or(threshold.default)
    }

    /// Whether the rule is run.
    pub fn runs(&self, id: &str) -> bool {
        self.severities.get(id) != Some(&RuleSeverity::Off)
    }
}

/// The rule called `id`.
pub fn find(id: &str) -> Option<&'static dyn Rule> {
    RULES.iter().copied().find(|rule| rule.about().id == id)
}

/// Runs every rule that is not switched off; the severest and costliest findings come first.
pub fn check(context: &Context<'_>, settings: &Settings) -> Judgement {
    let mut found = Findings::new(settings);
    let run = RULES.iter().filter(|rule| settings.runs(rule.about().id));
    run.clone().for_each(|rule| rule.check(context, &mut found));
    let sequences = sequence::all(context, &found);
    let mut judgement = found.unwritten(context);
    bookkeeping::leave_out(&mut judgement.findings, context);
    judgement.findings = fold::together(judgement.findings, context, settings);
    finding::rank(&mut judgement.findings, context);
    program::advise(&mut judgement.findings, context);
    judgement.unwritten = wish::fulfil(&mut judgement.findings, context);
    judgement.rules = run.map(|rule| rule.about().id).collect();
    judgement.off = switched_off(settings);
    judgement.sequences = sequences;
    judgement.thresholds.clone_from(&settings.thresholds);
    beside::put(&mut judgement.findings, context);
    example::put(&mut judgement.findings, context);
    judgement
}

/// Judges what statements have to do with each other that were read and never executed, such as those of one file: by the
/// rules that need nothing else.
pub fn check_together(context: &Context<'_>, settings: &Settings) -> Judgement {
    let mut found = Findings::new(settings);
    let run = TOGETHER.iter().filter(|rule| settings.runs(rule.about().id));
    run.for_each(|rule| rule.check(context, &mut found));
    let mut judgement = found.ranked(context);
    bookkeeping::leave_out(&mut judgement.findings, context);
    judgement
}

/// The rules on statements beside each other, of which no load needs to be known.
const TOGETHER: &[&dyn Rule] = &[&write::MixedConditionalWrites];

fn switched_off(settings: &Settings) -> Vec<&'static str> {
    let ids = RULES.iter().map(|rule| rule.about().id);
    ids.filter(|id| !settings.runs(id)).collect()
}

/// Judges definitions alone, those of all keyspaces: every rule is run on traffic of which there is none, so that
/// those speak which need a schema only.
pub fn lint(schema: &Schema, settings: &Settings) -> Judgement {
    lint_on(&Cluster::default(), schema, settings)
}

/// The same for a cluster of which something is known: its product and version.
pub fn lint_on(cluster: &Cluster, schema: &Schema, settings: &Settings) -> Judgement {
    let window = Window::new(Timestamp::UNIX_EPOCH, "");
    let context = Context::new(&window, schema, cluster).of_whole_schema();
    let mut found = Findings::new(settings);
    let run = RULES.iter().filter(|rule| settings.runs(rule.about().id));
    run.clone().for_each(|rule| rule.check(&context, &mut found));
    let mut judgement = found.ranked(&context);
    bookkeeping::leave_out(&mut judgement.findings, &context);
    program::leave_out(&mut judgement.findings, &context);
    example::put(&mut judgement.findings, &context);
    judgement.rules = run.map(|rule| rule.about().id).collect();
    judgement.off = switched_off(settings);
    judgement
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_kebab_case() {
        let ids: BTreeSet<_> = RULES.iter().map(|rule| rule.about().id).collect();
        assert_eq!(ids.len(), RULES.len());
        for id in ids {
            let words: Vec<_> = id.split('-').collect();
            let kebab = words
                .iter()
                .all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()));
            assert!(kebab, "{id}");
        }
    }

    #[test]
    fn every_rule_tells_all_of_its_page() {
        for rule in RULES {
            let about = rule.about();
            for (name, text) in [
                ("group", about.group),
                ("summary", about.summary),
                ("why", about.why),
                ("fix", about.fix),
                ("before", about.before),
                ("after", about.after),
                ("severity", about.severity),
                ("needs", about.needs),
                ("source", about.source),
            ] {
                assert!(!text.trim().is_empty(), "{}: {name} is empty", about.id);
                assert_eq!(text.trim(), text, "{}: {name} has blanks around it", about.id);
            }
            let words = about.fix_in_short;
            assert!(
                words.len() <= 24 && (1..=4).contains(&words.split(' ').count()),
                "{}: {words}",
                about.id
            );
            assert!(
                !about.severities.is_empty() && about.severities.is_sorted(),
                "{}",
                about.id
            );
            for sentence in [about.summary, about.why, about.fix, about.severity, about.needs] {
                assert!(sentence.ends_with('.'), "{}: {sentence}", about.id);
            }
            let verbs = ["SELECT", "INSERT", "UPDATE", "DELETE", "BATCH"];
            assert!(
                verbs.iter().any(|verb| about.before.contains(verb)),
                "{}: no statement that fires",
                about.id
            );
            assert_ne!(about.before, about.after, "{}", about.id);
        }
    }

    #[test]
    fn every_threshold_is_explained_by_the_severity() {
        for rule in RULES {
            let about = rule.about();
            for threshold in about.thresholds {
                let name = format!("`{}`", threshold.name);
                assert!(about.severity.contains(&name), "{}: {name}", about.id);
                assert!(threshold.default.is_finite() && threshold.default > 0.0, "{name}");
                assert!(!threshold.is_share() || threshold.default <= 1.0, "{name}");
                assert!(
                    !threshold.unit.is_empty() && !threshold.origin.is_empty(),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn a_file_is_judged_by_every_rule_that_needs_no_traffic() {
        let tables: String = (0..150)
            .map(|number| format!("CREATE TABLE shop.t{number} (k int PRIMARY KEY);"))
            .collect();
        let cql = format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': 1}};
             CREATE KEYSPACE old WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 3}};
             CREATE TABLE shop.users (id uuid PRIMARY KEY, active boolean, name text, city text);
             CREATE INDEX by_active ON shop.users (active);
             CREATE CUSTOM INDEX by_name ON shop.users (name) USING 'org.apache.cassandra.index.sasi.SASIIndex';
             CREATE MATERIALIZED VIEW shop.users_by_city AS SELECT * FROM shop.users
                 WHERE city IS NOT NULL AND id IS NOT NULL PRIMARY KEY (city, id);
             CREATE TABLE shop.flags (on_off boolean, id uuid, PRIMARY KEY (on_off, id));
             CREATE TABLE shop.events (sensor int, at timestamp, PRIMARY KEY (sensor, at)) WITH default_time_to_live = 60;
             CREATE TABLE shop.zero (k int PRIMARY KEY) WITH gc_grace_seconds = 0;
             CREATE TABLE shop.compact (k int PRIMARY KEY, v int) WITH COMPACT STORAGE;{tables}"
        );
        let schema = Schema::from_cql(&cql).expect("a schema");
        let judgement = lint(&schema, &Settings::default());
        let rules: BTreeSet<_> = judgement.findings.iter().map(|finding| finding.rule).collect();
        let expected = [
            "compact-storage",
            "few-partitions",
            "gc-grace-zero",
            "index-low-cardinality",
            "many-tables",
            "materialized-view-write",
            "replication-factor",
            "sasi-index",
            "simple-strategy",
            "ttl-without-windows",
        ];
        assert_eq!(rules, expected.into());
    }

    #[test]
    fn an_empty_window_has_no_findings() {
        assert_eq!(testing::judge(&testing::window([])).findings, []);
    }

    #[test]
    fn a_rule_is_found_by_its_id() {
        assert_eq!(find("full-scan").map(|rule| rule.about().id), Some("full-scan"));
        assert!(find("no-such-rule").is_none());
    }
}
