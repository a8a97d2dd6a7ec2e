//! The verdicts of the scenarios (`verdict.toml`), and what speaks against them in a report (JSON,
//! `cqlens.report.v1`).
//!
//! ```toml
//! none-above = "info"          # no other finding in the scenario's keyspaces is more severe
//! keyspaces = ["a", "b"]       # that of the scenario's name if not said
//! refused = 10                 # requests that the server refuses; none if not said
//!
//! [[finding]]
//! rule = "in-partition-key"
//! table = "groups"
//! at-least = "low"
//! at-most = "low"              # may be left out
//! says = ["with 2 buckets"]    # each in title, advice, evidence or CQL; may be left out
//! figures = { buckets = 4 }    # of its evidence, give or take a tenth, or three times its error; may be left out
//!
//! [[absent]]                   # no finding at all, not even info
//! rule = "large-partition"
//! table = "orders_by_month"    # any table of the scenario if not said
//!
//! [[sequence]]                 # an operation of several statements
//! kind = "client-join"
//! tables = ["groups", "users"]
//! fan-out = 20.0               # the mean, give or take a twentieth
//! sent = "one-after-the-other"
//!
//! [[partitions]]
//! cql = "SELECT …"             # any spelling of the statement's template
//! each = 4                     # partitions of each execution
//! count = 200                  # executions
//! ```

#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test binary compiles the whole of this and uses a part of it"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use cqlens_cql::syntax::{self, Template};
use serde::Deserialize;
use serde_json::Value;

/// What the audit is to say of a scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Verdict {
    none_above: Severity,
    /// How many findings an expert would write down, at most.
    most_findings: Option<usize>,
    #[serde(default)]
    keyspaces: Vec<String>,
    /// Requests that the server refuses.
    #[serde(default)]
    pub refused: u64,
    #[serde(default, rename = "finding")]
    findings: Vec<Expected>,
    #[serde(default)]
    absent: Vec<Absent>,
    #[serde(default)]
    partitions: Vec<Partitions>,
    #[serde(default, rename = "sequence")]
    sequences: Vec<Operation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Info,
    Low,
    Medium,
    High,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Expected {
    rule: String,
    table: String,
    at_least: Severity,
    at_most: Option<Severity>,
    /// On the embedded node, whose latencies count for nothing, it is exactly this.
    demo: Option<Severity>,
    /// Words of its title, its advice, its evidence or the CQL that it suggests.
    #[serde(default)]
    says: Vec<String>,
    /// Numbers of its evidence, give or take a tenth: of a slow machine, some of what belongs together is too late.
    #[serde(default)]
    figures: BTreeMap<String, f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Absent {
    rule: String,
    table: Option<String>,
}

/// An operation of several statements.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Operation {
    kind: String,
    /// In the order in which they are come to.
    tables: Vec<String>,
    fan_out: f64,
    sent: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Partitions {
    cql: String,
    each: u64,
    count: u64,
}

/// The folders of all scenarios.
pub fn ids() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut ids: Vec<_> = folders
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    ids.sort();
    ids
}

/// The text of one of a scenario's files.
pub fn text(id: &str, file: &str) -> String {
    let path = folder().join(id).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The verdict of a scenario.
pub fn read(id: &str) -> Verdict {
    toml::from_str(&text(id, "verdict.toml")).unwrap_or_else(|error| panic!("{id}: {error}"))
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

impl Verdict {
    /// What in a report speaks against the verdict.
    pub fn complaints(&self, id: &str, report: &Value) -> Vec<String> {
        let own = [id.replace('-', "_")];
        let keyspaces = if self.keyspaces.is_empty() {
            &own[..]
        } else {
            &self.keyspaces
        };
        let all = report["findings"].as_array().unwrap().iter();
        let found: Vec<Found> = all
            .map(|finding| Found::of(finding, keyspaces, report))
            .filter(|finding| !finding.tables.is_empty())
            .collect();
        let is_demo = report["coverage"]["notices"].to_string().contains("stand-in");
        let mut complaints = Vec::new();
        for expected in &self.findings {
            complaints.extend(expected.complaint(&found, is_demo));
        }
        for finding in &found {
            let is_expected = self.findings.iter().any(|expected| expected.is_about(finding));
            if !is_expected && finding.severity > self.none_above {
                complaints.push(format!("unexpected: {finding:?}"));
            }
        }
        for Absent { rule, table } in &self.absent {
            let is_there = |finding: &&Found| match table {
                Some(table) => finding.tables.contains(table),
                None => true,
            };
            let is_about = |finding: &&Found| finding.rule == *rule && is_there(finding);
            complaints.extend(
                found
                    .iter()
                    .find(is_about)
                    .map(|finding| format!("unexpected: {finding:?}")),
            );
        }
        let own = operations(report, keyspaces);
        complaints.extend(
            self.sequences
                .iter()
                .filter_map(|operation| operation.complaint(&own)),
        );
        if self.most_findings.is_some_and(|most| found.len() > most) {
            complaints.push(format!("{} findings: {found:?}", found.len()));
        }
        complaints.extend(
            self.partitions
                .iter()
                .filter_map(|partitions| partitions.complaint(report)),
        );
        complaints
            .into_iter()
            .map(|complaint| format!("{id}: {complaint}"))
            .collect()
    }
}

#[derive(Debug)]
struct Found {
    rule: String,
    /// The scenario's tables that it is about; none of a finding on other keyspaces.
    tables: BTreeSet<String>,
    severity: Severity,
    /// All that it says.
    text: String,
    evidence: Value,
}

impl Found {
    fn of(finding: &Value, keyspaces: &[String], report: &Value) -> Found {
        let of_patterns = finding["patterns"].as_array().into_iter().flatten();
        let patterns = of_patterns.filter_map(|id| {
            let mut all = report["patterns"].as_array()?.iter();
            all.find(|pattern| pattern["id"] == *id)
        });
        // A finding on what an application does everywhere is on the tables of its patterns.
        let places: Vec<_> = match &finding["table"] {
            Value::Null => patterns.collect(),
            _ => vec![finding],
        };
        let is_own = |place: &&Value| keyspaces.iter().any(|own| place["keyspace"] == own.as_str());
        let tables = places
            .into_iter()
            .filter(is_own)
            .map(|place| place["table"].as_str().unwrap_or_default().to_owned());
        Found {
            rule: finding["rule"].as_str().unwrap().to_owned(),
            tables: tables.collect(),
            severity: Severity::deserialize(&finding["severity"]).unwrap(),
            text: format!(
                "{} {} {} {}",
                finding["title"], finding["advice"], finding["evidence"], finding["suggested_cql"]
            ),
            evidence: finding["evidence"].clone(),
        }
    }
}

impl Expected {
    fn is_about(&self, finding: &Found) -> bool {
        finding.rule == self.rule && finding.tables.contains(&self.table)
    }

    /// Whether a finding says all the words and figures.
    fn is_said_by(&self, finding: &Found) -> bool {
        let is_near = |(name, figure): (&String, &f64)| {
            let said = |name: &str| finding.evidence[name].as_f64();
            let error = said(&format!("{name}_error")).unwrap_or_default();
            let near = f64::max(figure / 10.0, 3.0 * error);
            said(name).is_some_and(|said| (said - figure).abs() <= near)
        };
        self.says.iter().all(|words| finding.text.contains(words)) && self.figures.iter().all(is_near)
    }

    fn complaint(&self, found: &[Found], is_demo: bool) -> Option<String> {
        let own = || found.iter().filter(|finding| self.is_about(finding));
        if own().next().is_some() && !own().any(|finding| self.is_said_by(finding)) {
            return Some(format!(
                "{} does not say {:?}, {:?}: {:?}",
                self.rule,
                self.says,
                self.figures,
                own().collect::<Vec<_>>()
            ));
        }
        let most = own().map(|finding| finding.severity).max();
        match most {
            None => Some(format!("no {} on {}", self.rule, self.table)),
            Some(most) if is_demo && self.demo.is_some_and(|exactly| most != exactly) => {
                Some(format!("{} is {most:?} in the demo", self.rule))
            }
            Some(most) if most < self.at_least => Some(format!("{} is only {most:?}", self.rule)),
            Some(most) if self.at_most.is_some_and(|limit| most > limit) => {
                Some(format!("{} is {most:?}", self.rule))
            }
            Some(_) => None,
        }
    }
}

/// The operations of a scenario, as the report has them.
fn operations<'r>(report: &'r Value, keyspaces: &[String]) -> Vec<&'r Value> {
    let all = report["sequences"].as_array().into_iter().flatten();
    let is_own = |operation: &&Value| {
        let first = operation["from"].as_str().unwrap_or_default();
        let keyspace = first.split('.').next().unwrap_or_default();
        keyspaces.iter().any(|own| own == keyspace)
    };
    all.filter(is_own).collect()
}

impl Operation {
    fn complaint(&self, all: &[&Value]) -> Option<String> {
        let tables = |operation: &Value| -> Vec<String> {
            let names = operation["tables"].as_array().into_iter().flatten();
            let names = names.filter_map(|name| name.as_str()?.split('.').nth(1));
            names.map(str::to_owned).collect()
        };
        let mean = |operation: &Value| operation["fan_out"]["mean"].as_f64().unwrap_or(0.0);
        let is_it = |operation: &&&Value| {
            operation["kind"] == self.kind.as_str()
                && operation["sent"] == self.sent.as_str()
                && tables(operation) == self.tables
                && (mean(operation) - self.fan_out).abs() <= self.fan_out / 20.0
        };
        let seen = || {
            all.iter()
                .map(|one| (&one["kind"], &one["path"], &one["sent"], mean(one)))
        };
        all.iter()
            .find(is_it)
            .is_none()
            .then(|| format!("no {self:?} among {:?}", seen().collect::<Vec<_>>()))
    }
}

impl Partitions {
    fn complaint(&self, report: &Value) -> Option<String> {
        let statement = syntax::parse(&self.cql).unwrap();
        let template = Template::of(&statement, None).text;
        let mut patterns = report["patterns"].as_array().unwrap().iter();
        let Some(pattern) = patterns.find(|pattern| pattern["cql"] == template) else {
            return Some(format!("no pattern {template}"));
        };
        let numbers = &pattern["partitions"];
        // A server that forgot the statement refuses an execution, and the client repeats it.
        let count = pattern["count"].as_u64().unwrap() - pattern["errors"].as_u64().unwrap();
        let seen = (&numbers["min"], &numbers["max"], count);
        let is_right = *seen.0 == self.each && *seen.1 == self.each && seen.2 == self.count;
        (!is_right).then(|| format!("{template}: min, max and executions are {seen:?}, not {self:?}"))
    }
}

#[test]
fn a_verdict_complains_about_what_is_missing_too_mild_too_severe_or_not_expected() {
    let verdict: Verdict = toml::from_str(
        "none-above = 'info'\n[[finding]]\nrule = 'a'\ntable = 't'\nat-least = 'medium'\nat-most = 'medium'\n",
    )
    .unwrap();
    let complaints = |findings: &[(&str, &str)]| {
        let findings = findings.iter().map(|(rule, severity)| {
            serde_json::json!({"rule": rule, "severity": severity, "keyspace": "k_s", "table": "t"})
        });
        let report = serde_json::json!({"findings": findings.collect::<Vec<_>>(), "patterns": []});
        verdict.complaints("k-s", &report).len()
    };
    assert_eq!(complaints(&[("a", "medium"), ("b", "info")]), 0);
    assert_eq!(complaints(&[]), 1);
    assert_eq!(complaints(&[("a", "low")]), 1);
    assert_eq!(complaints(&[("a", "high")]), 1);
    assert_eq!(complaints(&[("a", "medium"), ("b", "low")]), 1);
}

#[test]
fn a_verdict_complains_about_another_number_of_partitions() {
    let text = "none-above = 'info'\n[[partitions]]\ncql = 'SELECT * FROM k.t WHERE a IN (1, 2)'\neach = 2\ncount = 5\n";
    let verdict: Verdict = toml::from_str(text).unwrap();
    let complaints = |most: u64| {
        let pattern = serde_json::json!({
            "cql": "SELECT * FROM k.t WHERE a IN ?", "count": 5, "errors": 0, "partitions": {"min": 2, "max": most}
        });
        verdict
            .complaints("k", &serde_json::json!({"findings": [], "patterns": [pattern]}))
            .len()
    };
    assert_eq!((complaints(2), complaints(3)), (0, 1));
}

#[test]
fn a_verdict_complains_about_other_words_other_operations_and_what_should_be_absent() {
    let verdict: Verdict = toml::from_str(
        "none-above = 'info'\n[[finding]]\nrule = 'a'\ntable = 't'\nat-least = 'low'\nsays = ['two reads', 'CREATE']\nfigures = { reads = 20 }\n\
         [[absent]]\nrule = 'b'\n\
         [[sequence]]\nkind = 'client-join'\ntables = ['t', 'u']\nfan-out = 20\nsent = 'one-after-the-other'\n",
    )
    .unwrap();
    let complaints = |rule: &str, (advice, reads): (&str, u64), mean: f64| {
        let finding = |rule: &str| serde_json::json!({"rule": rule, "severity": "low", "keyspace": "k", "table": "t", "advice": advice, "suggested_cql": ["CREATE TABLE u"], "evidence": {"reads": reads}});
        let mut findings = vec![finding("a")];
        findings.extend((rule == "b").then(|| {
            serde_json::json!({
                "rule": "b", "severity": "info", "keyspace": "k", "table": "any"
            })
        }));
        let operation = serde_json::json!({
            "kind": "client-join", "from": "k.t", "tables": ["k.t", "k.u"], "fan_out": {"mean": mean},
            "sent": "one-after-the-other"
        });
        let report = serde_json::json!({"findings": findings, "patterns": [], "sequences": [operation]});
        verdict.complaints("k", &report).len()
    };
    assert_eq!(complaints("a", ("make two reads one", 18), 20.9), 0);
    assert_eq!(complaints("a", ("make three reads one", 20), 20.9), 1);
    assert_eq!(complaints("a", ("make two reads one", 17), 20.9), 1);
    assert_eq!(complaints("a", ("make two reads one", 20), 21.1), 1);
    assert_eq!(complaints("b", ("make two reads one", 20), 20.0), 1);
}
