//! Every rule from bytes: requests and responses pass as on a connection, and the rule speaks of them; of an
//! innocent twin, which does nearly the same, it does not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "../words/mod.rs"]
mod avoided;
mod cases;
mod evidence;
mod promises;
mod splits;
#[path = "../suggestion/mod.rs"]
mod suggestion;
mod weights;
mod wire;
mod words;

use std::{collections::BTreeSet, sync::LazyLock};

use cqlens_cql::Product;
use cqlens_proto::envelope::Version;
use cqlens_rules::{Finding, RULES, Settings, Severity};
use cqlens_window::Window;
use jiff::Timestamp;
use wire::{SCHEMA, Wire, judge};

/// What a client does that a rule warns of, and its innocent twin.
struct Case {
    rule: &'static str,
    /// How long it is observed.
    seconds: i64,
    guilty: Side,
    innocent: Side,
}

struct Side {
    /// What the schema has beside [`SCHEMA`], or instead of it where it defines `shop`.
    schema: String,
    version: Version,
    traffic: fn(&mut Wire),
}

/// What the rules find of the guilty side of each case, in the order of [`cases::all`].
static FOUND: LazyLock<Vec<Vec<Finding>>> = LazyLock::new(|| {
    let cases = cases::all();
    let guilty = cases.iter().map(|case| case.guilty.sent().findings(case.seconds));
    guilty.collect()
});

fn rules(findings: &[Finding]) -> BTreeSet<&'static str> {
    findings.iter().map(|finding| finding.rule).collect()
}

impl Side {
    fn schema(&self) -> String {
        match self.schema.contains("KEYSPACE shop") {
            true => self.schema.clone(),
            false => format!("{SCHEMA}{}", self.schema),
        }
    }

    fn sent(&self) -> Wire {
        let mut wire = Wire::new(&self.schema(), self.version);
        (self.traffic)(&mut wire);
        wire
    }
}

#[test]
fn every_rule_fires_and_leaves_an_innocent_twin_alone() {
    let mut complaints = Vec::new();
    for (case, found) in cases::all().iter().zip(&*FOUND) {
        let guilty = rules(found);
        if !guilty.contains(case.rule) {
            complaints.push(format!("{} does not fire: {guilty:?}", case.rule));
        }
        let innocent = rules(&case.innocent.sent().findings(case.seconds));
        if innocent.contains(case.rule) {
            complaints.push(format!("{} fires on its twin", case.rule));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// Rules of the whole cluster, or of what nobody was seen to use: what any source saw counts.
const OF_ALL_SOURCES: [&str; 4] = [
    "not-token-aware",
    "uneven-token-load",
    "unused-table",
    "unused-index",
];

#[test]
fn a_source_that_watches_another_application_changes_no_title() {
    let mut week = Window::new(Timestamp::UNIX_EPOCH, "stock");
    week.count_client("stock 1.0 (driver) 10.0.0.2", 100);
    week.close(Timestamp::from_second(7 * 24 * 3_600).unwrap());
    let mut complaints = Vec::new();
    for case in cases::all() {
        if OF_ALL_SOURCES.contains(&case.rule) {
            continue;
        }
        let (mut window, schema) = case.guilty.sent().whole(case.seconds);
        let titles = |window: &Window| -> BTreeSet<String> {
            let findings = judge(window, &schema, &Settings::whatever_the_load()).into_iter();
            let of_rule = findings.filter(|finding| finding.rule == case.rule);
            of_rule.map(|finding| finding.title).collect()
        };
        let alone = titles(&window);
        window.merge(&week);
        let beside = titles(&window);
        if alone != beside {
            complaints.push(format!("{}: {alone:?} becomes {beside:?}", case.rule));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn what_is_suggested_is_accepted_and_found_clean_by_every_server() {
    let servers = [
        (Product::Cassandra, "5.0.6"),
        (Product::Cassandra, "4.1.7"),
        (Product::ScyllaDb, "6.2.0"),
    ];
    let mut complaints = BTreeSet::new();
    let mut suggestions = 0;
    for case in cases::all() {
        let schema = case.guilty.schema();
        let judged = case.guilty.sent().findings_on(servers, case.seconds);
        for ((product, version), findings) in servers.iter().zip(&judged) {
            for finding in findings {
                suggestions += usize::from(!finding.suggested_cql.is_empty());
                let wrong = wrong_with(finding, findings, &schema, *version == "5.0.6");
                complaints.extend(wrong.err().map(|wrong| {
                    format!(
                        "{} in {}, {product:?} {version}: {wrong}",
                        finding.rule, case.rule
                    )
                }));
            }
        }
    }
    assert!(suggestions > 150, "{suggestions}");
    assert!(complaints.is_empty(), "{complaints:#?}");
}

fn wrong_with(finding: &Finding, beside: &[Finding], schema: &str, has_sai: bool) -> Result<(), String> {
    let texts = finding.suggested_cql.iter().chain([&finding.advice]);
    let names_sai = |text: &String| {
        ["storage-attached", "SAI", "'sai'"]
            .iter()
            .any(|name| text.contains(name))
    };
    if !has_sai && texts.clone().any(names_sai) {
        return Err("names indexes that the server does not have".to_owned());
    }
    // What fails may be as well written as it can be.
    let may_be_fine = ["server-error", "timeouts"].contains(&finding.rule);
    let is_bare = finding.suggested_cql.is_empty() && finding.example.is_none();
    if finding.severity == Severity::High && is_bare && !may_be_fine {
        return Err("says nothing in CQL".to_owned());
    }
    suggestion::wrong(finding, beside, schema, &|_, _| {})
}

#[test]
fn every_rule_has_a_case() {
    let cases: BTreeSet<_> = cases::all().iter().map(|case| case.rule).collect();
    let rules: BTreeSet<_> = RULES.iter().map(|rule| rule.about().id).collect();
    assert_eq!(cases, rules);
}
