//! What the data-modelling literature warns of, one rule a file.
//!
//! A rule is a pure function of a window and the schema: it never sees traffic, a clock or another rule. So
//! the findings of merged windows equal those of one long window. What a rule says about itself (`About`) is
//! the one source of `cqlens rules`, of the reports' advice and of the documentation.

mod acceptance;
mod beside;
mod client;
mod error_code;
mod figures;
mod finding;
mod model;
mod read;
mod statement;
mod tombstone;
mod write;

#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;

use std::collections::BTreeMap;

use crate::window::Window;
use cqlens_cql::schema::Schema;

pub use acceptance::{Acceptance, AcceptanceState, Applied, Comment, Judging, Sorted, day, set_apart};
pub use finding::{BlindSpot, Evidence, Finding, Findings, Judgement, Severity, cost};

/// One thing that can be wrong with a data model or its use.
pub trait Rule: Sync {
    /// What the rule is, in words and numbers.
    fn about(&self) -> &'static About;

    /// Adds a finding for everything in `window` that the rule warns of, and says what it could not see.
    fn check(&self, window: &Window, schema: &Schema, found: &mut Findings<'_>);
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
    /// CQL that the rule warns of.
    pub before: &'static str,
    /// The same need, served well.
    pub after: &'static str,
    /// How the severity comes about.
    pub severity: &'static str,
    /// The numbers that the severity depends on.
    pub thresholds: &'static [Threshold],
    /// What the rule must be able to see, and what it says when it cannot.
    pub needs: &'static str,
    /// The article, document or Cassandra class that the rule comes from.
    pub source: &'static str,
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
    &read::MultiPartitionRead,
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
    &tombstone::TombstoneHeavyRead,
    &tombstone::QueuePattern,
    &tombstone::CollectionOverwrite,
    &tombstone::DeleteHeavy,
    &tombstone::NullInsert,
    &write::LwtHeavy,
    &write::LoggedBatchMultiPartition,
    &write::UnloggedBatchMultiPartition,
    &write::BatchTooLarge,
    &write::CounterBatch,
    &write::ListModification,
    &write::OverwritingInsert,
    &client::UnpreparedStatement,
    &client::PrepareChurn,
    &client::NotTokenAware,
    &client::ConsistencyAll,
    &client::CrossDcConsistency,
    &client::Timeouts,
    &client::ServerWarning,
    &client::ServerError,
    &model::UnusedTable,
    &model::UnusedIndex,
    &model::QueryWithoutTable,
    &model::ReadUpdateRatio,
];

/// Thresholds that differ from their defaults, by `(rule id, threshold name)`.
pub type Settings = BTreeMap<(String, String), f64>;

/// The rule called `id`.
pub fn find(id: &str) -> Option<&'static dyn Rule> {
    RULES.iter().copied().find(|rule| rule.about().id == id)
}

/// Runs every rule; the severest and costliest findings come first.
pub fn check(window: &Window, schema: &Schema, settings: &Settings) -> Judgement {
    let mut found = Findings::new(settings);
    for rule in RULES {
        rule.check(window, schema, &mut found);
    }
    let mut judgement = found.ranked();
    beside::put(&mut judgement.findings, window);
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
    fn an_empty_window_has_no_findings() {
        let judgement = check(&testing::window([]), &Schema::default(), &Settings::new());
        assert_eq!(judgement.findings, []);
    }

    #[test]
    fn a_rule_is_found_by_its_id() {
        assert_eq!(find("full-scan").map(|rule| rule.about().id), Some("full-scan"));
        assert!(find("no-such-rule").is_none());
    }
}
