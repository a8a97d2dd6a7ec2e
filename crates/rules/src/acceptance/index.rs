//! Acceptances by what they speak of: each finding looks up its own, however many others there are.

use std::collections::{BTreeSet, HashMap};

use jiff::civil::Date;

use super::{Acceptance, AcceptanceState};
use crate::{Finding, Severity, work};
use cqlens_window::PatternId;

/// The first acceptances, in the order in which they are said, of all that speak of the same.
pub(super) struct Index<'a> {
    acceptances: &'a [Acceptance],
    said: HashMap<Scope<'a>, FirstSaid>,
}

/// What an acceptance speaks of; nothing is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Scope<'a> {
    rule: Option<&'a str>,
    table: Option<(&'a str, &'a str)>,
    pattern: Option<PatternId>,
}

/// The places of the first ones.
#[derive(Default)]
struct FirstSaid {
    any: Option<usize>,
    /// Those that are in force for a finding of each severity.
    in_force: HashMap<Severity, usize>,
}

const SEVERITIES: [Severity; 4] = [Severity::Info, Severity::Low, Severity::Medium, Severity::High];

impl<'a> Index<'a> {
    pub(super) fn of(acceptances: &'a [Acceptance], today: Date) -> Self {
        let mut said: HashMap<_, FirstSaid> = HashMap::new();
        for (at, acceptance) in acceptances.iter().enumerate() {
            work::look(1);
            let said = said.entry(Scope::of(acceptance)).or_default();
            said.any.get_or_insert(at);
            for severity in SEVERITIES {
                if acceptance.state(severity, today) == AcceptanceState::InForce {
                    said.in_force.entry(severity).or_insert(at);
                }
            }
        }
        Self { acceptances, said }
    }

    /// The acceptance of the whole finding, or, where those of single templates cover all of its templates
    /// together, the one of them that ends first.
    pub(super) fn covering(&self, finding: &Finding, in_force: bool) -> Option<&'a Acceptance> {
        let first = |pattern| {
            let said = Scope::about(finding, pattern).map(|scope| self.said.get(&scope));
            let places = said.into_iter().flatten().filter_map(|said| match in_force {
                true => said.in_force.get(&finding.severity).copied(),
                false => said.any,
            });
            places.min().and_then(|at| self.acceptances.get(at))
        };
        first(None).or_else(|| {
            let of_patterns = finding.patterns.iter().map(|id| first(Some(*id)));
            let each: Option<Vec<_>> = of_patterns.collect();
            each?.into_iter().min_by_key(|acceptance| acceptance.until)
        })
    }

    /// The acceptances that speak of none of the findings.
    pub(super) fn of_none<'f>(&self, findings: impl Iterator<Item = &'f Finding>) -> Vec<&'a Acceptance> {
        let mut of_some = BTreeSet::new();
        for finding in findings {
            let patterns = finding.patterns.iter().map(|id| Some(*id));
            for pattern in patterns.chain([None]) {
                let scopes = Scope::about(finding, pattern).into_iter();
                let scopes = scopes.filter_map(|scope| self.said.get_key_value(&scope));
                of_some.extend(scopes.map(|(scope, _)| *scope));
            }
        }
        let acceptances = self.acceptances.iter();
        acceptances
            .filter(|acceptance| !of_some.contains(&Scope::of(acceptance)))
            .collect()
    }
}

impl<'a> Scope<'a> {
    fn of(acceptance: &'a Acceptance) -> Self {
        let table = acceptance.table.as_ref();
        Self {
            rule: acceptance.rule,
            table: table.map(|table| (table.keyspace.as_str(), table.table.as_str())),
            pattern: acceptance.pattern,
        }
    }

    /// All that an acceptance of the finding may speak of, or one of a template of it.
    fn about(finding: &'a Finding, pattern: Option<PatternId>) -> [Self; 4] {
        work::look(1);
        let table = finding.keyspace.as_deref().zip(finding.table.as_deref());
        let rule = Some(finding.rule);
        [(rule, table), (rule, None), (None, table), (None, None)].map(|(rule, table)| Self {
            rule,
            table,
            pattern,
        })
    }
}
