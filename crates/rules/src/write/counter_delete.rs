//! Deletes of counters.

use super::{About, Findings, Severity};
use crate::{
    Context, Finding, Rule,
    application::{impact, sum},
    figures::often,
    statement::patterns,
};

pub(crate) struct CounterDelete;

impl Rule for CounterDelete {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, writes) in context.writes() {
            let table = context.schema.table(&name.keyspace, &name.table);
            if !table.is_some_and(|table| table.is_counter()) {
                continue;
            }
            let deletes = patterns(writes.iter().filter(|write| write.is_delete()));
            let times = sum(&deletes, |pattern| pattern.count);
            if times == 0 {
                continue;
            }
            let severity =
                context.severity(found, &impact(Severity::Low, &deletes).at_most(Severity::Medium));
            let title = format!(
                "Counters of `{name}` are deleted, and must not be used again{}",
                often(times, context.watch_table(name))
            );
            let finding = Finding::on_all(&ABOUT, severity, deletes, context)
                .of_table(name)
                .title(title)
                .first("deletes", times);
            found.push(finding);
        }
    }
}

const ABOUT: About = About {
    id: "counter-delete",
    group: "writes",
    summary: "Counters are deleted.",
    why: "\
        A counter has no timestamp of its own by which a delete and a later increment could be ordered: an increment \
        that arrives after the delete may be lost, or bring back the old sum, and replicas may disagree. Cassandra \
        supports the delete of a counter only if the counter is never written again.",
    fix: "\
        Delete a counter only if it is never used again. To start again, count under another key, such as one with a day or a version in \
        it, and leave the old one; to set a counter back, subtract what it has.",
    fix_in_short: "A new key instead",
    before: "DELETE FROM shop.hits WHERE page = ?;\nUPDATE shop.hits SET n = n + 1 WHERE page = ?;",
    after: "UPDATE shop.hits_by_day SET n = n + 1 WHERE page = ? AND day = ?;",
    severity: "Low, medium at most.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "The schema and the statements' texts. Whether a counter is used again is not checked.",
    source: "Cassandra documentation, counters: a deleted counter cannot be used again; CASSANDRA-7346",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, run_with, write};
    use cqlens_cql::{plan::StatementKind, schema::Schema};

    fn titles(cql: &str, kind: StatementKind) -> Vec<String> {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.hits (page text PRIMARY KEY, n counter);
             CREATE TABLE shop.pages (page text PRIMARY KEY, n int);",
        );
        let judgement = run_with(
            &CounterDelete,
            &amid([write(cql, kind, &[], 100)]),
            &schema.unwrap(),
        );
        judgement
            .findings
            .into_iter()
            .map(|finding| finding.title)
            .collect()
    }

    #[test]
    fn deletes_of_counters_are_found_and_others_are_not() {
        let found = titles("DELETE FROM shop.hits WHERE page = ?", StatementKind::Delete);
        assert!(
            found[0].starts_with("Counters of `shop.hits` are deleted, and must not be used again"),
            "{found:?}"
        );
        assert_eq!(
            titles("DELETE FROM shop.pages WHERE page = ?", StatementKind::Delete),
            [""; 0]
        );
        let update = "UPDATE shop.hits SET n = n + 1 WHERE page = ?";
        assert_eq!(titles(update, StatementKind::Update), [""; 0]);
    }
}
