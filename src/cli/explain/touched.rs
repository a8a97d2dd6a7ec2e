//! The partitions in an answer: how many, of which class, which ones, and why not where they are not known.

use serde::Serialize;

use cqlens_cql::footprint::{Count, Footprint, Keys};
use cqlens_cql::footprint::{PartitionClass, Reason};
use cqlens_cql::schema::is_virtual;

/// The partitions.
#[derive(Debug, Serialize)]
pub(super) struct PartitionsTouched {
    partitions: Partitions,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions_at_least: Option<u64>,
    partitions_class: PartitionClass,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ring_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_keys: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Vec<String>>,
}

/// A number of partitions, `"range"`, or null.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Partitions {
    Number(u64),
    Range(&'static str),
    Unknown,
}

/// At most so many keys are listed.
pub(super) const MAX_KEYS_SHOWN: usize = 32;

impl PartitionsTouched {
    /// What is known of every execution, where this one was not bound.
    pub(super) fn within(self, class: PartitionClass) -> Self {
        let partitions_class = if self.reason == Some(Reason::Unbound) {
            class
        } else {
            self.partitions_class
        };
        Self {
            partitions_class,
            ..self
        }
    }

    /// What an execution touches, with its keys where they are few and all known.
    pub(super) fn new(footprint: &Footprint, keys: &Keys) -> Self {
        let partitions = match footprint.count {
            Count::Exact(count) => Partitions::Number(count),
            Count::Scan | Count::TokenRange { .. } | Count::Index => Partitions::Range("range"),
            Count::AtLeast(..) | Count::Page { .. } | Count::Unknown(_) => Partitions::Unknown,
        };
        let all_known = matches!(footprint.count, Count::Exact(_)) && footprint.keys_missing.is_none();
        let listed = all_known && keys.len() <= MAX_KEYS_SHOWN;
        let hashed = listed && !keys.iter().any(|key| is_virtual(&key.table.keyspace));
        Self {
            partitions,
            partitions_at_least: match footprint.count {
                Count::AtLeast(count, _) => Some(count),
                _ => None,
            },
            partitions_class: footprint.class(),
            reason: footprint.reason(),
            ring_share: match footprint.count {
                Count::TokenRange { share } => Some(share),
                _ => None,
            },
            partition_keys: listed.then(|| keys.iter().map(|key| hex(key.bytes)).collect()),
            tokens: hashed.then(|| keys.iter().map(|key| key.token.to_string()).collect()),
        }
    }
}

/// As records have values.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}
