//! What a server warns of.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::figures::bytes;
use cqlens_window::{Warned, number};

/// Warnings of one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct WarningClass {
    /// The class: `batch-size`, `unlogged-batch`, …; `guardrail` of all guardrails.
    pub class: String,
    /// The guardrail's name in `cassandra.yaml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guardrail: Option<String>,
    /// How many there were.
    pub warnings: u64,
    /// The largest figure that they name, where it is a size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_bytes: Option<u64>,
    /// The same, where it is a number: of partitions, of rows, of what the guardrail counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest: Option<u64>,
}

impl WarningClass {
    /// Of this class as the window names it.
    pub fn of(class: &str, warned: Warned) -> Self {
        let guardrail = class.strip_prefix("guardrail ");
        let class = match guardrail {
            Some(_) => "guardrail".to_owned(),
            None => token(class),
        };
        let is_size = ["batch-size", "local-read-size", "row-index-size", "read-size"].contains(&&*class);
        let largest = Some(warned.largest).filter(|largest| *largest > 0);
        Self {
            class,
            guardrail: guardrail.map(str::to_owned),
            warnings: warned.times,
            largest_bytes: largest.filter(|_| is_size),
            largest: largest.filter(|_| !is_size),
        }
    }

    /// What is warned of, with the largest figure.
    pub fn subject(&self) -> String {
        let size = bytes(self.largest_bytes.unwrap_or_default());
        let largest = self.largest.unwrap_or_default();
        if let Some(name) = &self.guardrail {
            return match self.largest {
                Some(largest) => format!("the guardrail `{name}` ({})", number::count(largest)),
                None => format!("the guardrail `{name}`"),
            };
        }
        match self.class.as_str() {
            "batch-size" => format!("batches of up to {size} (`batch_size_warn_threshold`)"),
            "unlogged-batch" => format!(
                "unlogged batches over up to {} (`unlogged_batch_across_partitions_warn_threshold`)",
                number::plural(largest, "partition", "partitions")
            ),
            "logged-batch-gc-grace-seconds-0" => {
                "logged batches on tables with `gc_grace_seconds` 0".to_owned()
            }
            "aggregate-without-partition-key" => "aggregates without a partition key".to_owned(),
            "aggregate-over-partitions" => "aggregates over several partition keys".to_owned(),
            "local-read-size" => {
                format!("reads of more than {size} on a replica (`local_read_size_warn_threshold`)")
            }
            "row-index-size" => {
                format!("row indexes of more than {size} (`row_index_read_size_warn_threshold`)")
            }
            "read-size" => format!("reads of more than {size} (`coordinator_read_size_warn_threshold`)"),
            "index-parts" => format!(
                "reads of up to {} of an index on one node (`sai_sstable_indexes_per_query_warn_threshold`)",
                number::plural(largest, "part", "parts")
            ),
            "replica-filtering-protection" => format!(
                "{} cached to filter rows of several replicas (`cached_replica_rows_warn_threshold`)",
                number::plural(largest, "row", "rows")
            ),
            "use-with-prepared-statements" => "`USE` together with prepared statements".to_owned(),
            "ttl-beyond-2038" => "TTLs that end after 2038".to_owned(),
            "top-k-consistency" => "nearest-neighbour searches downgraded to ONE".to_owned(),
            "literal-values" => "statements with values in their text".to_owned(),
            "filtering-without-allow-filtering" => {
                "filtering without ALLOW FILTERING, which later versions refuse".to_owned()
            }
            "consistency-level" => {
                "discouraged consistency levels (`write_consistency_levels_warned`)".to_owned()
            }
            "large-data" => "partitions, rows or cells above the soft limits".to_owned(),
            "other" => "something unknown to cqlens".to_owned(),
            other => other.to_owned(),
        }
    }
}

impl Display for WarningClass {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{} ({})", self.subject(), number::count(self.warnings))
    }
}

/// `logged batch, gc_grace_seconds 0` becomes `logged-batch-gc-grace-seconds-0`.
fn token(class: &str) -> String {
    let words = class.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_words_of_its_own() {
        let warned = Warned {
            times: 1,
            largest: 2_048,
        };
        let subject = |class| WarningClass::of(class, warned).subject();
        for class in [
            "batch size",
            "unlogged batch",
            "logged batch, gc_grace_seconds 0",
            "aggregate without partition key",
            "aggregate over partitions",
            "local read size",
            "row index size",
            "read size",
            "index parts",
            "replica filtering protection",
            "USE with prepared statements",
            "TTL beyond 2038",
            "top-k consistency",
            "literal values",
            "filtering without ALLOW FILTERING",
            "consistency level",
            "large data",
            "other",
        ] {
            assert_ne!(subject(class), token(class), "{class}");
        }
        assert_eq!(
            subject("read size"),
            "reads of more than 2 KiB (`coordinator_read_size_warn_threshold`)"
        );
        assert_eq!(
            subject("guardrail page_size"),
            "the guardrail `page_size` (2,048)"
        );
    }
}
