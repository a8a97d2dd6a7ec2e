//! Tables and views that nobody uses, said after a long look only.

use super::{LONG_HOURS, SOME_HOURS, blind_on_short_observation, by_observation, to_drop, with_observation};
use crate::{About, Context, Finding, Findings, Rule, Severity};
use cqlens_cql::schema::{Table, TableName, quote};
use cqlens_window::{TableTraffic, number};

pub(crate) struct UnusedTable;

impl Rule for UnusedTable {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let unused: Vec<_> = context
            .tables()
            .filter_map(|(name, table)| Some((lack(&name, table, context)?, name, table)))
            .collect();
        if unused.is_empty() {
            return;
        }
        let Some(severity) = by_observation(found, &ABOUT, context) else {
            let what = format!(
                "{} not used",
                number::plural(unused.len() as u64, "table or view was", "tables and views were")
            );
            return blind_on_short_observation(found, &ABOUT, context, &what);
        };
        for (lack, name, table) in unused {
            found.push(finding(severity, lack, &name, table, context));
        }
    }
}

/// What nobody does with a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// Neither read nor written.
    Use,
    /// Written, never read.
    Reads,
    /// A view that each write of its base keeps up to date, and nobody reads.
    ReadsOfView,
}

fn lack(name: &TableName, table: &Table, context: &Context<'_>) -> Option<Lack> {
    let none = TableTraffic::default();
    let traffic = context.window.tables.get(name).unwrap_or(&none);
    let is_view = table.view.is_some();
    match (traffic.reads, traffic.writes) {
        (0, _) if is_view => Some(Lack::ReadsOfView),
        (0, 0) => Some(Lack::Use),
        (0, _) => Some(Lack::Reads),
        _ => None,
    }
}

fn finding(
    severity: Severity,
    lack: Lack,
    name: &TableName,
    table: &Table,
    context: &Context<'_>,
) -> Finding {
    let hours = number::seconds(context.window.seconds());
    let (title, severity) = match lack {
        Lack::Use => (
            format!("`{name}` was neither read nor written in {hours}"),
            severity,
        ),
        // Logs and archives are read by others, or seldom.
        Lack::Reads => (
            format!("`{name}` was written but never read in {hours}"),
            Severity::Info,
        ),
        Lack::ReadsOfView => (
            format!(
                "The view `{name}` was never read in {hours}, but every write to its base table maintains it"
            ),
            severity,
        ),
    };
    let written = |name: &TableName| {
        context
            .window
            .tables
            .get(name)
            .map_or(0, |traffic| traffic.writes)
    };
    let base = table.base().map(|base| TableName {
        keyspace: name.keyspace.clone(),
        table: base.to_owned(),
    });
    let drop = match lack {
        Lack::Use => Some("TABLE"),
        Lack::Reads => None,
        Lack::ReadsOfView => Some("MATERIALIZED VIEW"),
    };
    let drop = drop.map(|kind| format!("{kind} {}.{}", quote(&name.keyspace), quote(&name.table)));
    let drop = drop.and_then(|what| to_drop(&what, context));
    let finding = Finding::on_all(&ABOUT, severity, Vec::new(), context)
        .of_table(name)
        .title(title)
        .first("writes", written(base.as_ref().unwrap_or(name)))
        .suggest(drop);
    with_observation(finding, context)
}

const ABOUT: About = About {
    id: "unused-table",
    group: "model",
    summary: "A table or view was not used during the whole observation.",
    why: "\
        A table costs memory on every node (about a megabyte, and a memtable), files, repairs and attention. \
        A view costs more: every write to its base table reads the old row and writes the view, whether or \
        not the view is ever read. And unused tables mislead everyone who reads the schema.",
    fix: "Find out whether anything uses it: monthly or quarterly jobs, other applications and other routes \
        into the cluster may be missing from this report. Then drop it; `auto_snapshot` keeps its files for \
        a while.",
    fix_in_short: "Drop the table",
    before: "-- in a week of traffic, no statement names shop.carts_old\nCREATE TABLE shop.carts_old (id uuid PRIMARY KEY, items text);\n\
             SELECT items FROM shop.carts WHERE id = ?;",
    after: "DROP TABLE shop.carts_old;\nSELECT items FROM shop.carts WHERE id = ?;",
    severity: "\
        Nothing before `some_hours` of observation; then info, and low from `long_hours` unless traffic may \
        have bypassed cqlens. A table that is written but never read stays info, unless it is a view.",
    severities: &[Severity::Info, Severity::Low],
    thresholds: &[SOME_HOURS, LONG_HOURS],
    needs: "\
        The schema, and all traffic; only keyspaces with observed traffic are judged. Statements whose table \
        is not known may have used it; their number is in the evidence.",
    source: "Cassandra guardrail `tables` (4.1) and `materialized_views_per_table`; Cassandra documentation, data modeling",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::{name, schema, window};
    use super::*;
    use crate::{Judgement, testing::run_with};

    fn judged(hours: u32) -> Judgement {
        run_with(&UnusedTable, &window(hours, (10, 10), []), &schema())
    }

    fn titles(judgement: &Judgement) -> Vec<(&str, Severity)> {
        let findings = judgement.findings.iter();
        findings
            .map(|finding| (finding.title.as_str(), finding.severity))
            .collect()
    }

    #[test]
    fn a_short_look_says_nothing_and_why() {
        for hours in [0, 1, 23] {
            let judgement = judged(hours);
            assert_eq!(judgement.findings, []);
            assert_eq!(judgement.blind_spots.len(), 1);
        }
        assert_eq!(
            judged(1).blind_spots[0].text,
            "2 tables and views were not used in 1 h; this is judged after 1 day"
        );
    }

    #[test]
    fn a_day_is_worth_a_hint_and_a_week_more() {
        for (hours, severity, span) in [(24, Severity::Info, "1 day"), (168, Severity::Low, "7 days")] {
            let judgement = judged(hours);
            let mut titles = titles(&judgement);
            titles.sort();
            let view = format!(
                "The view `shop.by_city` was never read in {span}, but every write to its base table \
                    maintains it"
            );
            let table = format!("`shop.old` was neither read nor written in {span}");
            assert_eq!(titles, [(view.as_str(), severity), (table.as_str(), severity)]);
        }
    }

    #[test]
    fn what_is_used_is_fine_and_what_is_only_written_is_worth_knowing() {
        let mut window = window(200, (0, 10), []);
        window.count_table(&name("old"), |table| table.reads = 1);
        window.count_table(&name("by_city"), |table| table.reads = 1);
        let judgement = run_with(&UnusedTable, &window, &schema());
        let [(title, severity)] = titles(&judgement)[..] else {
            unreachable!("{judgement:?}");
        };
        assert!(
            title.starts_with("`shop.users` was written but never read"),
            "{title}"
        );
        assert_eq!(severity, Severity::Info);
        assert_eq!(judgement.findings[0].suggested_cql, [] as [String; 0]);
    }

    #[test]
    fn keyspaces_without_any_traffic_are_left_out() {
        let other = judged(200)
            .findings
            .into_iter()
            .any(|finding| finding.keyspace.as_deref() == Some("other"));
        assert!(!other);
    }
}
