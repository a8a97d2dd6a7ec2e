//! Statements that differ in what they select, or in their order, and not in what they ask by, are one finding of
//! a rule on a table.

use std::collections::BTreeMap;

use super::{Context, Cost, Finding, statement::restricted};
use crate::{number, window::PatternId};
use cqlens_cql::syntax::ast::Body;

/// What is said once.
type Key = (&'static str, Option<String>, Option<String>, Vec<String>);

/// Puts findings on single reads together that restrict the same columns: behind the first, which is the
/// severest and costliest.
pub(super) fn together(findings: Vec<Finding>, context: &Context<'_>) -> Vec<Finding> {
    let mut folded: Vec<Finding> = Vec::with_capacity(findings.len());
    let mut places: BTreeMap<Key, usize> = BTreeMap::new();
    let mut more: BTreeMap<usize, Vec<Finding>> = BTreeMap::new();
    for finding in findings {
        match key(&finding, context) {
            None => folded.push(finding),
            Some(key) => match places.get(&key) {
                Some(place) => more.entry(*place).or_default().push(finding),
                None => {
                    let columns = key.3.join(", ");
                    places.insert(key, folded.len());
                    folded.push(finding.about(columns));
                }
            },
        }
    }
    for (place, others) in more {
        if let Some(finding) = folded.get_mut(place) {
            add(finding, others, context);
        }
    }
    folded
}

/// Nothing for a finding that is not on one read, or on one that asks by nothing.
fn key(finding: &Finding, context: &Context<'_>) -> Option<Key> {
    let [id] = finding.patterns.as_slice() else {
        return None;
    };
    if finding.subject.as_deref() != Some(id.to_string().as_str()) {
        return None;
    }
    let statement = context.statement(*id)?;
    let Body::Select(select) = &statement.body else {
        return None;
    };
    let columns = restricted(select);
    let place = (finding.keyspace.clone(), finding.table.clone());
    (!columns.is_empty()).then_some((finding.rule, place.0, place.1, columns))
}

/// Adds what others say of statements like those of the finding.
fn add(finding: &mut Finding, others: Vec<Finding>, context: &Context<'_>) {
    let count = others.len() as u64;
    finding.title += &format!(
        "; and {} by the same columns",
        number::plural(count, "more statement", "more statements")
    );
    let mut patterns: Vec<PatternId> = Vec::new();
    for other in others {
        patterns.extend(other.patterns);
        for cql in other.suggested_cql {
            if !finding.suggested_cql.contains(&cql) {
                finding.suggested_cql.push(cql);
            }
        }
    }
    finding.patterns.extend(patterns);
    let all = finding
        .patterns
        .iter()
        .filter_map(|id| context.window.patterns.get(id));
    let (cost, executions) = all.fold((Cost::default(), 0), |(cost, executions), pattern| {
        (cost + Cost::of(pattern), executions + pattern.count)
    });
    finding.cost = cost;
    finding.time_share = cost.time_share(context);
    finding.work_share = cost.work_share(context);
    // The other numbers are those of the first.
    let first = std::mem::take(&mut finding.evidence);
    finding.evidence = vec![
        ("statements", (count + 1).into()),
        ("executions_of_all", executions.into()),
    ];
    finding.evidence.extend(first);
}

#[cfg(test)]
mod tests {
    use crate::rules::testing::{amid, judge, read};
    use cqlens_cql::{footprint::PartitionClass, plan::Flag};

    fn filtering(what: &str, by: &str) -> crate::window::Pattern {
        let cql = format!("SELECT {what} FROM shop.orders WHERE {by} = ? ALLOW FILTERING");
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        read(&cql, &flags, PartitionClass::Scan, 100)
    }

    #[test]
    fn statements_that_ask_by_the_same_columns_are_one_finding() {
        let window = amid([
            filtering("id", "status"),
            filtering("total", "status"),
            filtering("id, total", "status"),
            filtering("id", "customer"),
        ]);
        let findings = judge(&window).findings;
        let titles: Vec<_> = findings
            .iter()
            .filter(|finding| finding.rule == "allow-filtering")
            .map(|finding| {
                (
                    finding.title.as_str(),
                    finding.patterns.len(),
                    finding.subject.as_deref(),
                )
            })
            .collect();
        let title = "Reads of `shop.orders` filter the whole table row by row, 1.7 a second";
        let folded = format!("{title}; and 2 more statements by the same columns");
        assert!(
            titles.contains(&(folded.as_str(), 3, Some("status"))),
            "{titles:?}"
        );
        assert!(titles.contains(&(title, 1, Some("customer"))), "{titles:?}");
    }
}
