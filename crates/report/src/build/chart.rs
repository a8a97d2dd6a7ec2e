//! The picture of a finding: the distribution of what its rule looks at, with the threshold that decides.

use std::collections::BTreeMap;

use crate::{Chart, Unit};
use cqlens_rules::{Finding, Severity};
use cqlens_window::{Distribution, Pattern};

/// Thresholds that are set otherwise than by default, by rule and name.
pub(super) type Thresholds = BTreeMap<(String, String), f64>;

/// What the rule of a finding looks at in its first pattern; none where that is no distribution, or has but one
/// value, which the facts say in a number.
pub(super) fn chart(finding: &Finding, pattern: &Pattern, thresholds: &Thresholds) -> Option<Chart> {
    let (label, unit, distribution) = quantity(finding.rule, pattern)?;
    let steps = distribution.steps();
    (steps.len() > 1).then(|| Chart {
        label,
        unit,
        steps,
        threshold: threshold(finding, thresholds),
    })
}

fn quantity<'p>(rule: &str, pattern: &'p Pattern) -> Option<(&'static str, Unit, &'p Distribution)> {
    Some(match rule {
        "tombstone-heavy-read" | "queue-pattern" | "delete-heavy" => {
            ("tombstones per read", Unit::Count, &pattern.tombstones.scanned)
        }
        "in-partition-key" | "in-cartesian-product" => {
            ("partitions per read", Unit::Count, &pattern.partitions)
        }
        "logged-batch-multi-partition" | "unlogged-batch-multi-partition" => {
            ("partitions per batch", Unit::Count, &pattern.partitions)
        }
        "in-clustering" => ("rows listed per read", Unit::Count, &pattern.listed_rows),
        "unpaged-read" => ("rows per response", Unit::Count, &pattern.unpaged_rows),
        "unbounded-read"
        | "full-scan"
        | "allow-filtering"
        | "secondary-index-read"
        | "large-pages"
        | "small-pages"
        | "index-low-cardinality" => ("rows per response", Unit::Count, &pattern.rows),
        "large-result" => ("size per response", Unit::Bytes, &pattern.response_bytes),
        "batch-too-large" => ("size per batch", Unit::Bytes, &pattern.request_bytes),
        "large-mutation" => ("size of the largest value", Unit::Bytes, &pattern.large_values),
        "growing-collection" => ("elements per collection", Unit::Count, &pattern.collection_items),
        "lwt-heavy" | "timeouts" | "retries" => ("latency", Unit::Micros, &pattern.latency_us),
        _ => return None,
    })
}

/// The threshold above which a finding is as severe as this one.
fn threshold(finding: &Finding, thresholds: &Thresholds) -> Option<u64> {
    let about = cqlens_rules::find(finding.rule)?.about();
    let prefix = match finding.severity {
        Severity::High => "high_",
        Severity::Medium => "medium_",
        Severity::Low | Severity::Info => "low_",
    };
    let of_quantity = ["partitions", "tombstones", "rows", "bytes"];
    let threshold = about.thresholds.iter().find(|threshold| {
        let quantity = threshold.name.strip_prefix(prefix);
        quantity.is_some_and(|quantity| of_quantity.contains(&quantity))
    })?;
    let key = (finding.rule.to_owned(), threshold.name.to_owned());
    let value = thresholds.get(&key).copied().unwrap_or(threshold.default);
    Some(cqlens_window::number::rounded(value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};
    use cqlens_rules::{
        Context, Judging, Settings,
        testing::{amid, read, with_partitions},
    };
    use cqlens_window::Cluster;

    fn finding(settings: Settings) -> (Finding, Pattern) {
        let flags = [Flag::InPartitionKey, Flag::FullPartitionKey];
        let pattern = read(
            "SELECT * FROM a.b WHERE c IN ?",
            &flags,
            PartitionClass::Multi,
            100,
        );
        let mut pattern = with_partitions(pattern, 60);
        pattern.partitions.record(3);
        let window = amid([pattern.clone()]);
        let (schema, cluster) = (Schema::default(), Cluster::default());
        let judging = Judging {
            settings,
            ..Judging::default()
        };
        let context = Context::new(&window, &schema, &cluster);
        let judgement = judging.judge(&context, jiff::civil::date(2026, 11, 22));
        let mut found = judgement.findings.into_iter();
        (
            found.find(|finding| finding.rule == "in-partition-key").unwrap(),
            pattern,
        )
    }

    #[test]
    fn it_shows_what_the_rule_looks_at_and_its_threshold() {
        let (finding, mut pattern) = finding(Settings::default());
        pattern.latency_us.record(9_000);
        let drawn = chart(&finding, &pattern, &Thresholds::new()).unwrap();
        assert_eq!((drawn.label, drawn.threshold), ("partitions per read", Some(20)));
        assert_eq!(drawn.steps, [(3, 1), (60, 100)]);
    }

    #[test]
    fn a_threshold_that_is_set_is_the_one_that_is_drawn() {
        let key = ("in-partition-key".to_owned(), "high_partitions".to_owned());
        let thresholds = Thresholds::from([(key, 40.0)]);
        let settings = Settings {
            thresholds: thresholds.clone(),
            ..Settings::default()
        };
        let (finding, pattern) = finding(settings);
        assert_eq!(
            chart(&finding, &pattern, &thresholds).unwrap().threshold,
            Some(40)
        );
    }

    #[test]
    fn one_value_is_no_picture_and_latency_does_not_stand_in_for_it() {
        let (finding, pattern) = finding(Settings::default());
        let always = with_partitions(
            read("SELECT * FROM a.b WHERE c IN ?", &[], PartitionClass::Multi, 100),
            60,
        );
        assert_eq!(chart(&finding, &always, &Thresholds::new()), None);
        let mut other = finding;
        other.rule = "select-star";
        assert_eq!(chart(&other, &pattern, &Thresholds::new()), None);
    }
}
