//! What to write instead of a statement, where no definition would help.

pub(crate) mod batch;
pub(crate) mod level;
pub(crate) mod timeout;
pub(crate) mod write_time;

use serde::Serialize;

use super::{Context, Finding, Severity, find};
use cqlens_window::Pattern;

/// A way of doing it, and a better one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Example {
    /// CQL as it is, or like it.
    pub before: String,
    /// What to write instead.
    pub after: String,
    /// True: it is of the finding's own statement.
    pub own_statement: bool,
}

impl Example {
    /// The words before `before`, and those before `after`.
    pub fn words(&self) -> (&'static str, &'static str) {
        ("Instead of", "Write")
    }
}

/// Shows findings that matter, and have no CQL, how their own statement is written better. Invented tables are for the pages
/// of rules.
pub(super) fn put(findings: &mut [Finding], context: &Context<'_>) {
    let bare = |finding: &&mut Finding| {
        finding.suggested_cql.is_empty() && finding.program.is_none() && finding.severity >= Severity::Low
    };
    for finding in findings.iter_mut().filter(bare) {
        finding.example = of_statement(finding, context);
    }
}

/// Statements of a finding as they are, and what to write instead; the costliest is the first. None where that cannot be written.
pub(crate) type Rewrite = fn(&[&Pattern], &Context<'_>) -> Option<(String, String)>;

/// The costliest statement with a comment that says what its text does not show.
pub(crate) fn commented(patterns: &[&Pattern], before: &str, after: &str) -> Option<(String, String)> {
    let cql = &patterns.first()?.head.cql;
    Some((format!("-- {before}\n{cql};"), format!("-- {after}\n{cql};")))
}

/// The finding's own statements, as its rule writes them better.
fn of_statement(finding: &Finding, context: &Context<'_>) -> Option<Example> {
    let rewrite = find(finding.rule)?.about().rewrite?;
    let (before, after) = rewrite(&patterns(finding, context), context)?;
    Some(Example {
        before,
        after,
        own_statement: true,
    })
}

/// The statements of the finding, the costliest first.
fn patterns<'w>(finding: &Finding, context: &Context<'w>) -> Vec<&'w Pattern> {
    let ids = finding.patterns.iter();
    ids.filter_map(|id| context.window.patterns.get(id)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        Settings, check,
        testing::{amid, batch, read, window, write},
    };
    use cqlens_cql::{
        footprint::PartitionClass,
        plan::{Flag, StatementKind},
        schema::Schema,
    };
    use cqlens_window::{Cluster, Window};

    const SHOP: &str =
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};
        CREATE TABLE shop.orders (id int PRIMARY KEY, total int);";

    fn examples(window: &Window) -> Vec<(&'static str, bool, Option<Example>)> {
        let (schema, cluster) = (Schema::from_cql(SHOP).unwrap(), Cluster::default());
        let context = Context::new(window, &schema, &cluster);
        let findings = check(&context, &Settings::whatever_the_load()).findings;
        let of = |finding: Finding| (finding.rule, finding.suggested_cql.is_empty(), finding.example);
        findings.into_iter().map(of).collect()
    }

    fn of_rule(window: &Window, rule: &str) -> (bool, Option<Example>) {
        let mut all = examples(window).into_iter();
        let (_, is_bare, example) = all.find(|(of, ..)| *of == rule).unwrap();
        (is_bare, example)
    }

    #[test]
    fn a_habit_is_shown_with_the_finding_s_own_statement() {
        let mut at_all = read(
            "SELECT total FROM shop.orders WHERE id = ?",
            &[],
            PartitionClass::Single,
            90_000,
        );
        at_all.consistency = [("ALL".to_owned(), 90_000)].into();
        let (is_bare, example) = of_rule(&window([at_all]), "consistency-all");
        let example = example.unwrap();
        assert!(is_bare && example.own_statement);
        assert_eq!(
            example.after,
            "-- at consistency level LOCAL_QUORUM\nSELECT total FROM shop.orders WHERE id = ?;"
        );
    }

    #[test]
    fn failures_are_shown_with_the_finding_s_own_statement() {
        let read = |cql| read(cql, &[Flag::InPartitionKey], PartitionClass::Multi, 100);
        let write = |cql, kind| write(cql, kind, &[], 100);
        let mut at_all = read("SELECT total FROM shop.orders WHERE id = ?");
        at_all.consistency = [("ALL".to_owned(), 100)].into();
        (0..20).for_each(|_| at_all.count_error(0x1000));
        let mut claim = write(
            "INSERT INTO shop.orders (id) VALUES (?) IF NOT EXISTS",
            StatementKind::Insert,
        );
        for level in ["SERIAL", "LOCAL_SERIAL"] {
            claim.count_serial_consistency(level, 50);
        }
        for (rule, pattern, after) in [
            (
                "batch-too-large",
                batch(&[], 30, 100),
                "INSERT INTO shop.orders (id) VALUES (?);",
            ),
            (
                "future-timestamp",
                write(
                    "INSERT INTO shop.orders (id) VALUES (?) USING TIMESTAMP ?",
                    StatementKind::Insert,
                ),
                "INSERT INTO shop.orders (id) VALUES (?);",
            ),
            ("mixed-serial-consistency", claim, "in all requests"),
            (
                "retried-increment",
                write(
                    "UPDATE shop.hits SET n = n + ? WHERE id = ?",
                    StatementKind::Update,
                ),
                "leaves it alone\nUPDATE shop.hits SET n = n + ? WHERE id = ?;",
            ),
            ("server-error", at_all, "LOCAL_QUORUM"),
            (
                "timeouts",
                read("SELECT total FROM shop.orders WHERE id IN ?"),
                "SELECT total FROM shop.orders WHERE id = ?;",
            ),
        ] {
            let window = window([pattern]);
            let (schema, cluster) = (Schema::from_cql(SHOP).unwrap(), Cluster::default());
            let context = Context::new(&window, &schema, &cluster);
            let (&id, pattern) = window.patterns.first_key_value().unwrap();
            let about = find(rule).unwrap().about();
            let mut grave = [Finding::on(about, Severity::High, (id, pattern), &context)];
            put(&mut grave, &context);
            let example = grave[0].example.as_ref().unwrap();
            assert!(example.own_statement, "{rule}");
            assert!(example.before.contains(&pattern.head.cql), "{rule}: {example:?}");
            assert!(example.after.contains(after), "{rule}: {example:?}");
        }
    }

    #[test]
    fn an_unlogged_batch_becomes_its_statements() {
        let mut pattern = batch(&[Flag::UnloggedBatch], 30, 90_000);
        pattern.head.cql = "BEGIN UNLOGGED BATCH INSERT INTO shop.orders (id) VALUES (?); \
                            INSERT INTO shop.orders (id) VALUES (?); APPLY BATCH"
            .to_owned();
        let (_, example) = of_rule(&amid([pattern]), "unlogged-batch-multi-partition");
        let after = example.unwrap().after;
        assert!(
            after.ends_with("partition\nINSERT INTO shop.orders (id) VALUES (?);"),
            "{after}"
        );
    }

    #[test]
    fn invented_tables_are_left_to_the_pages_of_rules() {
        let cql = "SELECT total FROM shop.nowhere WHERE status = ? ALLOW FILTERING";
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let window = amid([read(cql, &flags, PartitionClass::Scan, 90_000)]);
        assert_eq!(of_rule(&window, "allow-filtering"), (true, None));
    }
}
