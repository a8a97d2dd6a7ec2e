//! Several findings with one cause are one problem: what a consultant would say in one breath.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::Hasher,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip::SipHasher13;

use super::{Context, Cost, Finding, Severity};
use crate::window::PatternId;

/// What a finding or a problem is called in every report that has it: 16 hex digits. It depends on the rule (or
/// the cause), the table and what else tells it from others of its rule, and on no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StableId(u64);

impl StableId {
    /// The id of what these names tell from everything else.
    fn of(names: [Option<&str>; 4]) -> Self {
        let mut hasher = SipHasher13::new();
        for name in names {
            let name = name.unwrap_or_default();
            hasher.write(name.as_bytes());
            hasher.write_u8(0);
        }
        Self(hasher.finish())
    }
}

impl fmt::Display for StableId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl Serialize for StableId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StableId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16)
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

impl Finding {
    /// What it is called in every report that has it.
    pub fn id(&self) -> StableId {
        StableId::of([
            Some(self.rule),
            self.keyspace.as_deref(),
            self.table.as_deref(),
            self.subject.as_deref(),
        ])
    }
}

/// Findings with one cause, on one table or of one application.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// What it is called in every report that has it.
    pub id: StableId,
    /// That of its severest finding.
    pub severity: Severity,
    /// Its findings, by their place among all: the one that says it best comes first.
    pub findings: Vec<usize>,
    /// What their patterns cost, each counted once.
    pub cost: Cost,
}

/// Puts findings together that have one cause on one table, or of one application where they are on none: in
/// the order of their severest findings, which is that of `findings`.
pub fn problems(findings: &[Finding], context: &Context<'_>) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut places: BTreeMap<Key<'_>, usize> = BTreeMap::new();
    for (at, finding) in findings.iter().enumerate() {
        let key = Key::of(finding);
        let place = *places.entry(key).or_insert(problems.len());
        match problems.get_mut(place) {
            Some(problem) => problem.findings.push(at),
            None => problems.push(Problem {
                id: key.id(),
                severity: finding.severity,
                findings: vec![at],
                cost: Cost::default(),
            }),
        }
    }
    let cost = |problem: &Problem| {
        let of_problem = problem.findings.iter().filter_map(|&at| findings.get(at));
        let ids: BTreeSet<PatternId> = of_problem
            .flat_map(|finding| finding.patterns.iter().copied())
            .collect();
        let patterns = ids.iter().filter_map(|id| context.window.patterns.get(id));
        patterns.map(Cost::of).sum()
    };
    for problem in &mut problems {
        problem.cost = cost(problem);
    }
    problems
}

/// What tells problems apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'f> {
    cause: &'static str,
    keyspace: Option<&'f str>,
    table: Option<&'f str>,
    subject: Option<&'f str>,
}

impl<'f> Key<'f> {
    fn of(finding: &'f Finding) -> Self {
        let cause = cause(finding.rule);
        let is_shared = cause != finding.rule;
        Self {
            cause,
            keyspace: finding.keyspace.as_deref(),
            table: finding.table.as_deref(),
            // Of several queries or columns with one cause on a table one problem is made; without a table it is
            // the application that has it.
            subject: finding
                .subject
                .as_deref()
                .filter(|_| !is_shared || finding.table.is_none()),
        }
    }

    fn id(self) -> StableId {
        StableId::of([Some(self.cause), self.keyspace, self.table, self.subject])
    }
}

/// What findings of a rule come from; the rule itself where it stands alone.
fn cause(rule: &'static str) -> &'static str {
    match rule {
        "allow-filtering"
        | "full-scan"
        | "secondary-index-read"
        | "index-low-cardinality"
        | "index-high-cardinality"
        | "index-on-updated-column"
        | "aggregate-without-partition-key"
        | "query-without-table" => "no table for the query",
        "in-partition-key" | "in-cartesian-product" | "in-clustering" | "bucket-fan-out" => {
            "several partitions a read"
        }
        "unbounded-read" | "unpaged-read" | "large-result" | "large-pages" => "large reads",
        "queue-pattern" | "delete-heavy" | "tombstone-heavy-read" => "deletes",
        "logged-batch-multi-partition" | "unlogged-batch-multi-partition" | "batch-too-large" => "batches",
        "consistency-all" | "cross-dc-consistency" | "weak-consistency" => "consistency levels",
        "timeouts" | "server-error" | "retries" => "failures",
        "hot-partition" | "large-partition" => "uneven partitions",
        alone => alone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rules::testing::{judge, read, window},
        window::{Cluster, Window},
    };
    use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};

    fn filtering(table: &str, column: &str, times: u64) -> crate::window::Pattern {
        let cql = format!("SELECT * FROM shop.{table} WHERE {column} = ? ALLOW FILTERING");
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        read(&cql, &flags, PartitionClass::Scan, times)
    }

    fn told(window: &Window) -> Vec<(Vec<&'static str>, StableId)> {
        let findings = judge(window).findings;
        let (schema, cluster) = (Schema::default(), Cluster::default());
        let problems = problems(&findings, &Context::new(window, &schema, &cluster));
        let rules = |problem: &Problem| problem.findings.iter().map(|&at| findings[at].rule).collect();
        problems
            .iter()
            .map(|problem| (rules(problem), problem.id))
            .collect()
    }

    #[test]
    fn findings_with_one_cause_on_a_table_are_one_problem() {
        let all = told(&window([
            filtering("orders", "status", 9_000),
            read("SELECT * FROM shop.orders", &[], PartitionClass::Scan, 900),
            filtering("items", "name", 900),
        ]));
        let filtering_and_scan =
            |(rules, _): &&(Vec<&str>, _)| rules.contains(&"allow-filtering") && rules.contains(&"full-scan");
        assert_eq!(all.iter().filter(filtering_and_scan).count(), 1, "{all:?}");
        let with_filtering = all.iter().filter(|(rules, _)| rules.contains(&"allow-filtering"));
        assert_eq!(with_filtering.count(), 2, "one for each table: {all:?}");
    }

    #[test]
    fn ids_depend_on_no_number_and_tell_findings_apart() {
        let ids = |times: u64| -> Vec<_> {
            let window = window([
                filtering("orders", "status", times),
                filtering("orders", "customer", times + 1),
            ]);
            let mut ids: Vec<_> = judge(&window).findings.iter().map(Finding::id).collect();
            ids.sort();
            ids
        };
        assert_eq!(ids(100), ids(70_000));
        let distinct: BTreeSet<_> = ids(100).into_iter().collect();
        assert_eq!(distinct.len(), ids(100).len());
    }
}
