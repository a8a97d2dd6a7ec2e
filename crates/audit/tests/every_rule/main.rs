//! Every rule from bytes: requests and responses pass as on a connection, and the rule speaks of them; of an
//! innocent twin, which does nearly the same, it does not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cases;
mod splits;
mod weights;
mod wire;

use std::collections::BTreeSet;

use cqlens_audit::rules::RULES;
use cqlens_proto::envelope::Version;
use wire::{SCHEMA, Wire};

/// What a client does that a rule warns of, and its innocent twin.
struct Case {
    rule: &'static str,
    /// How long it is observed.
    hours: i64,
    guilty: Side,
    innocent: Side,
}

struct Side {
    /// What the schema has beside [`SCHEMA`], or instead of it where it defines `shop`.
    schema: String,
    version: Version,
    traffic: fn(&mut Wire),
}

impl Side {
    fn rules(&self, hours: i64) -> BTreeSet<&'static str> {
        let schema = match self.schema.contains("KEYSPACE shop") {
            true => self.schema.clone(),
            false => format!("{SCHEMA}{}", self.schema),
        };
        let mut wire = Wire::new(&schema, self.version);
        (self.traffic)(&mut wire);
        let findings = wire.findings(hours);
        findings.iter().map(|finding| finding.rule).collect()
    }
}

#[test]
fn every_rule_fires_and_leaves_an_innocent_twin_alone() {
    let mut complaints = Vec::new();
    for case in cases::all() {
        let guilty = case.guilty.rules(case.hours);
        if !guilty.contains(case.rule) {
            complaints.push(format!("{} does not fire: {guilty:?}", case.rule));
        }
        let innocent = case.innocent.rules(case.hours);
        if innocent.contains(case.rule) {
            complaints.push(format!("{} fires on its twin", case.rule));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn every_rule_has_a_case() {
    let cases: BTreeSet<_> = cases::all().iter().map(|case| case.rule).collect();
    let rules: BTreeSet<_> = RULES.iter().map(|rule| rule.about().id).collect();
    assert_eq!(cases, rules);
}
