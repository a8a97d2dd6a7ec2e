//! What a rule judges, where that is a distribution.

use super::{Severity, Threshold};
use cqlens_window::{Distribution, Pattern};
use serde::Serialize;

/// The distribution that a rule judges: reports draw it beside its findings.
#[derive(Debug)]
pub struct Quantity {
    /// What each value is: `partitions per read`.
    pub label: &'static str,
    /// How its values are written.
    pub unit: Unit,
    /// Where a pattern has it.
    pub of: fn(&Pattern) -> &Distribution,
    /// The values from which findings are as severe; empty if no single number decides.
    pub limits: &'static [(Severity, Threshold)],
}

impl Quantity {
    /// The threshold above which a finding has this severity. The least severe ones share theirs.
    pub fn limit(&self, severity: Severity) -> Option<&Threshold> {
        let severity = severity.max(Severity::Low);
        let limit = self.limits.iter().find(|(from, _)| *from == severity);
        limit.map(|(_, threshold)| threshold)
    }
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// As a count.
    Count,
    /// As a duration in microseconds.
    Micros,
    /// As a size in bytes.
    Bytes,
}
