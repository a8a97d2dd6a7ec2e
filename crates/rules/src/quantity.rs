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
    pub(crate) const LATENCY: Self = Self::new("latency", Unit::Micros, |pattern| &pattern.latency_us);
    pub(crate) const PARTITIONS_PER_BATCH: Self =
        Self::new("partitions per batch", Unit::Count, |pattern| &pattern.partitions);
    pub(crate) const PARTITIONS_PER_READ: Self =
        Self::new("partitions per read", Unit::Count, |pattern| &pattern.partitions);
    pub(crate) const ROWS_PER_RESPONSE: Self =
        Self::new("rows per response", Unit::Count, |pattern| &pattern.rows);
    pub(crate) const TOMBSTONES_PER_READ: Self = Self::new("tombstones per read", Unit::Count, |pattern| {
        &pattern.tombstones.scanned
    });

    /// A distribution of which no single number decides.
    pub(crate) const fn new(label: &'static str, unit: Unit, of: fn(&Pattern) -> &Distribution) -> Self {
        Self {
            label,
            unit,
            of,
            limits: &[],
        }
    }

    /// The same, where findings are as severe from these values on.
    pub(crate) const fn limited(self, limits: &'static [(Severity, Threshold)]) -> Self {
        Self { limits, ..self }
    }

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
