//! Indexes that no read asked, said after a long look only.

use std::collections::BTreeSet;

use super::{LONG_HOURS, SOME_HOURS, blind_on_short_observation, by_observation, to_drop, with_observation};
use crate::{
    About, Context, Finding, Findings, Rule, Severity,
    figures::user_patterns,
    statement::{restricted, selected, table_of},
};
use cqlens_cql::schema::{Index, TableName, quote};
use cqlens_window::number;

pub(crate) struct UnusedIndex;

impl Rule for UnusedIndex {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let restricted = restricted_columns(context);
        let is_asked = |name: &TableName, index: &Index| {
            let mut targets = index.targets.iter();
            targets.any(|target| restricted.contains(&(name.clone(), target.column.clone())))
        };
        let tables = context.tables();
        let indexes = tables.flat_map(|(name, table)| {
            let indexes = table.indexes.values();
            indexes.map(move |index| (name.clone(), index))
        });
        let unused: Vec<_> = indexes.filter(|(name, index)| !is_asked(name, index)).collect();
        if unused.is_empty() {
            return;
        }
        let Some(severity) = by_observation(found, &ABOUT, context) else {
            let what = format!(
                "{} not used",
                number::plural(unused.len() as u64, "index was", "indexes were")
            );
            return blind_on_short_observation(found, &ABOUT, context, &what);
        };
        for (name, index) in unused {
            found.push(finding(severity, &name, index, context));
        }
    }
}

/// Columns that any read restricts, also where another index or none was asked for them.
fn restricted_columns(context: &Context<'_>) -> BTreeSet<(TableName, String)> {
    let mut columns = BTreeSet::new();
    for (id, pattern) in user_patterns(context) {
        if let (Some(name), Some(select)) = (table_of(pattern), selected(id, context)) {
            columns.extend(
                restricted(&select)
                    .into_iter()
                    .map(|column| (name.clone(), column)),
            );
        }
    }
    columns
}

fn finding(severity: Severity, name: &TableName, index: &Index, context: &Context<'_>) -> Finding {
    let columns: Vec<_> = index
        .targets
        .iter()
        .map(|target| target.column.as_str())
        .collect();
    let title = format!(
        "The index `{}` on `{name}` ({}) was not used by any read in {}",
        index.name,
        columns.join(", "),
        number::seconds(context.window.seconds())
    );
    let writes = context
        .window
        .tables
        .get(name)
        .map_or(0, |traffic| traffic.writes);
    let what = format!("INDEX {}.{}", quote(&name.keyspace), quote(&index.name));
    let finding = Finding::on_all(&ABOUT, severity, Vec::new(), context)
        .of_table(name)
        .title(title)
        .first("writes_of_the_table", writes)
        .about(index.name.clone())
        .suggest(to_drop(&what, context));
    with_observation(finding, context)
}

const ABOUT: About = About {
    id: "unused-index",
    group: "model",
    summary: "No read used a secondary index during the whole observation.",
    why: "\
        Every write to an indexed column also writes the index, on each replica and under the same partition \
        lock; a legacy index is a table of its own, with files, compactions and tombstones. An unused index \
        costs all that for nothing.",
    fix: "Find out whether anything needs it: monthly jobs, administrators and other applications may be \
        missing from this report. Then drop it; it can be rebuilt from the table.",
    fix_in_short: "Drop the index",
    before: "-- in a week of traffic, no SELECT restricts city\nCREATE INDEX by_city ON shop.users (city);\n\
             UPDATE shop.users SET city = ? WHERE id = ?;",
    after: "DROP INDEX shop.by_city;\nUPDATE shop.users SET city = ? WHERE id = ?;",
    severity: "\
        Nothing before `some_hours` of observation; then info, and low from `long_hours` unless traffic may \
        have bypassed cqlens.",
    severities: &[Severity::Info, Severity::Low],
    thresholds: &[SOME_HOURS, LONG_HOURS],
    needs: "\
        The schema, and all reads; only keyspaces with observed traffic are judged. An index counts as used \
        if a read restricts its column, even if the server then chose another way; `expr()` on a custom \
        index is not seen.",
    source: "Cassandra guardrail `secondary_indexes_per_table` (4.1); Cassandra documentation, secondary indexes",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::{schema, window};
    use super::*;
    use crate::testing::{read, run_with};
    use cqlens_cql::{footprint::PartitionClass, plan::Flag};

    fn severity(hours: u32, cql: &str) -> Option<Severity> {
        let pattern = read(cql, &[Flag::Index], PartitionClass::Index, 1);
        let judgement = run_with(&UnusedIndex, &window(hours, (10, 10), [pattern]), &schema());
        judgement.findings.first().map(|finding| finding.severity)
    }

    const OTHER: &str = "SELECT * FROM shop.users WHERE id = ?";

    #[test]
    fn severity_follows_the_observation() {
        assert_eq!(severity(0, OTHER), None);
        assert_eq!(severity(23, OTHER), None);
        assert_eq!(severity(24, OTHER), Some(Severity::Info));
        assert_eq!(severity(168, OTHER), Some(Severity::Low));
    }

    #[test]
    fn an_index_that_was_asked_once_is_fine() {
        assert_eq!(severity(168, "SELECT * FROM shop.users WHERE email = ?"), None);
        assert_eq!(
            severity(168, "SELECT * FROM shop.users WHERE id = ? AND email = ?"),
            None
        );
    }

    #[test]
    fn a_short_look_says_why_it_says_nothing_and_a_long_one_what_to_drop() {
        let pattern = || read(OTHER, &[], PartitionClass::Single, 1);
        let judgement = run_with(&UnusedIndex, &window(1, (10, 10), [pattern()]), &schema());
        assert_eq!(
            judgement.blind_spots[0].text,
            "1 index was not used in 1 h; this is judged after 1 day"
        );
        let judgement = run_with(&UnusedIndex, &window(48, (10, 10), [pattern()]), &schema());
        let finding = &judgement.findings[0];
        assert_eq!(
            finding.title,
            "The index `by_email` on `shop.users` (email) was not used by any read in 2 days"
        );
        let comment = "-- once you have checked that no application uses it:\n-- DROP INDEX shop.by_email;";
        assert_eq!(finding.suggested_cql, [comment]);
        assert_eq!(finding.evidence[0], ("observed_hours", 48.0.into()));
    }

    #[test]
    fn where_traffic_may_have_gone_past_nothing_is_to_be_dropped() {
        let mut bypassed = window(240, (10, 10), [read(OTHER, &[], PartitionClass::Single, 1)]);
        bypassed.coverage.bypassed = true;
        let finding = &run_with(&UnusedIndex, &bypassed, &schema()).findings[0];
        assert_eq!(finding.severity, Severity::Info);
        assert_eq!(finding.suggested_cql, [] as [String; 0]);
    }
}
