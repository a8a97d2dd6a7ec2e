//! Rules on how clients use the cluster: preparing, routing, consistency levels, and what the server answers
//! to it.

mod consistency_all;
mod cross_dc_consistency;
mod not_token_aware;
mod prepare_churn;
mod server_error;
mod server_warning;
mod timeouts;
mod unprepared_statement;

use super::{
    About, Finding, Findings, Severity, Threshold,
    figures::{share, user_patterns},
};
use crate::window::{Pattern, PatternId, Window};
use cqlens_cql::schema::{Keyspace, Schema};

pub(super) use consistency_all::ConsistencyAll;
pub(super) use cross_dc_consistency::CrossDcConsistency;
pub(super) use not_token_aware::NotTokenAware;
pub(super) use prepare_churn::PrepareChurn;
pub(super) use server_error::ServerError;
pub(super) use server_warning::ServerWarning;
pub(super) use timeouts::Timeouts;
pub(super) use unprepared_statement::UnpreparedStatement;

/// The application's own SELECTs, INSERTs, UPDATEs, DELETEs and batches, those that the server refused
/// included.
fn user_statements(window: &Window) -> impl Iterator<Item = (PatternId, &Pattern)> {
    user_patterns(window).filter(|(_, pattern)| {
        let kind = pattern.head.kind;
        (kind.is_read() || kind.is_write()) && pattern.count > 0
    })
}

/// How a title calls executions of the pattern.
fn executions(pattern: &Pattern) -> &'static str {
    if pattern.head.kind.is_read() {
        "Reads of"
    } else {
        "Writes to"
    }
}

/// The replicas of a keyspace by data centre (none where the strategy does not name any); nothing where they
/// are not known.
fn replicas<'a>(pattern: &Pattern, schema: &'a Schema) -> Option<Vec<(&'a str, u64)>> {
    let keyspace: &Keyspace = schema.keyspace(pattern.head.keyspace.as_deref()?)?;
    let counts = keyspace.replication.iter().filter(|(name, _)| *name != "class");
    // A transient replica (`3/1`) is one of the three.
    let count = |text: &str| text.split('/').next()?.trim().parse::<u64>().ok();
    let replicas: Option<Vec<_>> = counts
        .map(|(name, text)| Some((name.as_str(), count(text)?)))
        .collect();
    replicas.filter(|replicas| !replicas.is_empty())
}

/// Executions at a consistency level.
fn at_level(pattern: &Pattern, level: &str) -> u64 {
    pattern.consistency.get(level).copied().unwrap_or_default()
}

/// Executions that were answered with one of these errors.
fn with_errors(pattern: &Pattern, codes: &[u32]) -> u64 {
    codes
        .iter()
        .filter_map(|code| pattern.error_codes.get(code))
        .sum()
}

/// The severity of failures by their share of the executions; one step down where they are few. The rule's
/// thresholds must hold [`HIGH_SHARE`], [`MEDIUM_SHARE`] and [`FEW`].
fn by_share(found: &Findings<'_>, about: &About, failures: u64, executions: u64) -> Option<Severity> {
    if failures == 0 {
        return None;
    }
    let share = share(failures, executions);
    let severity = if share >= found.threshold(about, &HIGH_SHARE) {
        Severity::High
    } else if share >= found.threshold(about, &MEDIUM_SHARE) {
        Severity::Medium
    } else {
        Severity::Low
    };
    let few = (failures as f64) < found.threshold(about, &FEW);
    Some(if few { severity.lowered() } else { severity })
}

const MEDIUM_SHARE: Threshold = Threshold {
    name: "medium_share",
    unit: "of the executions",
    default: 0.001,
    origin: "own choice: one in a thousand, where users of a page with many requests begin to see it",
};

const HIGH_SHARE: Threshold = Threshold {
    name: "high_share",
    unit: "of the executions",
    default: 0.01,
    origin: "own choice: one in a hundred is the p99 that everything else is measured by",
};

const FEW: Threshold = Threshold {
    name: "few",
    unit: "failures",
    default: 10.0,
    origin: "own choice: fewer are an event, such as the restart of a node, rather than a state",
};
