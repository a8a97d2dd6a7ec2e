//! The picture of a finding: the distribution of what its rule looks at, with the threshold that decides.

use std::collections::BTreeMap;

use crate::Chart;
use cqlens_rules::{Finding, Quantity, find};
use cqlens_window::{Pattern, number::rounded};

/// Thresholds that are set otherwise than by default, by rule and name.
pub(super) type Thresholds = BTreeMap<(String, String), f64>;

/// What the rule of a finding looks at in its first pattern; none where that is no distribution, or has but one
/// value, which the facts say in a number.
pub(super) fn chart(finding: &Finding, pattern: &Pattern, thresholds: &Thresholds) -> Option<Chart> {
    let quantity = find(finding.rule)?.about().quantity.as_ref()?;
    let steps = (quantity.of)(pattern).steps();
    (steps.len() > 1).then(|| Chart {
        label: quantity.label,
        unit: quantity.unit,
        steps,
        threshold: threshold(finding, quantity, thresholds),
    })
}

/// The threshold above which a finding is as severe as this one.
fn threshold(finding: &Finding, quantity: &Quantity, thresholds: &Thresholds) -> Option<u64> {
    let limit = quantity.limit(finding.severity)?;
    let key = (finding.rule.to_owned(), limit.name.to_owned());
    let value = thresholds.get(&key).copied().unwrap_or(limit.default);
    Some(rounded(value))
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
