//! Applications that change the schema, or empty tables, as they run.

use super::{About, Findings, Patterns, Severity, Threshold, application, by_application, user_patterns};
use crate::{
    Context, Finding, Rule,
    figures::{is_steady, often},
};
use cqlens_cql::plan::StatementKind;
use cqlens_window::{Pattern, number};

pub(crate) struct SchemaChange;

impl Rule for SchemaChange {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let times = found.threshold(&ABOUT, &TIMES);
        let repeated =
            |pattern: &Pattern| pattern.head.kind == StatementKind::Ddl && pattern.count as f64 >= times;
        let changes = user_patterns(context).filter(|(_, pattern)| repeated(pattern));
        for (application, patterns) in by_application(changes) {
            let times = application::sum(&patterns, |pattern| pattern.count);
            let severity = if is_steady(found, times, application::watch(&patterns, context)) {
                Severity::Medium
            } else {
                Severity::Low
            };
            found.push(finding(severity, times, (&application, patterns), context));
        }
    }
}

fn finding(
    severity: Severity,
    times: u64,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let most = patterns.iter().max_by_key(|(_, pattern)| pattern.count);
    let what: Vec<_> = most
        .map(|(_, pattern)| pattern.head.cql.split_whitespace().take(2).collect())
        .unwrap_or_default();
    let what = match what.as_slice() {
        ["TRUNCATE", ..] => "TRUNCATE".to_owned(),
        words => words.join(" "),
    };
    let others = match patterns.len() {
        0 | 1 => "",
        _ => " and other definitions",
    };
    let title = format!(
        "{} keeps sending `{what}`{others}: {}{}",
        application::subject(application, context),
        number::plural(times, "time", "times"),
        often(times, application::watch(&patterns, context))
    );
    application::finding(&ABOUT, severity, (application, patterns), context)
        .title(title)
        .first("changes", times)
}

const TIMES: Threshold = Threshold {
    name: "times",
    unit: "executions of one definition",
    default: 5.0,
    origin: "cqlens default: a release that is rolled out and back sends each definition once or twice",
};

const ABOUT: About = About {
    id: "schema-change",
    group: "client habits",
    summary: "An application changes the schema or truncates tables while it runs.",
    why: "Every node must apply a schema change before the next one; two at the same time can leave nodes in \
        disagreement, and `CREATE ... IF NOT EXISTS` from several processes is exactly such a race. Each \
        change makes the servers evict prepared statements of the table. TRUNCATE involves every node, fails \
        while one is down, and takes a snapshot that stays on disk.",
    fix: "Put definitions into migrations that one process runs at deployment. For data that is removed \
        regularly, use a TTL, or one partition per run that a single DELETE removes.",
    fix_in_short: "Deploy separately",
    before: "TRUNCATE shop.daily_totals;\nINSERT INTO shop.daily_totals (day, total) VALUES (?, ?);",
    after: "-- the day is the partition key, and rows expire\nINSERT INTO shop.daily_totals (day, total) VALUES (?, ?) USING TTL 604800;",
    severity: "Low if a definition comes `times` times or more, medium if definitions come steadily \
        (`steady_per_hour`).",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[TIMES],
    needs: "The statements' texts.",
    source: "Cassandra guardrail `drop_truncate_table_enabled` (4.1); Cassandra documentation, schema agreement",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pattern, run, window};

    fn found(cql: &str, times: u64) -> Vec<(Severity, String)> {
        let pattern = pattern(cql, StatementKind::Ddl, times);
        let findings = run(&SchemaChange, &window([pattern])).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn a_table_that_is_emptied_again_and_again_is_found() {
        assert_eq!(
            found("TRUNCATE shop.totals", 12),
            [(
                Severity::Low,
                "A client keeps sending `TRUNCATE`: 12 times, 12 an hour".to_owned()
            )]
        );
        let steady = found("CREATE TABLE IF NOT EXISTS shop.t (k int PRIMARY KEY)", 600);
        assert_eq!(steady[0].0, Severity::Medium);
        assert!(
            steady[0].1.starts_with("A client keeps sending `CREATE TABLE`"),
            "{}",
            steady[0].1
        );
    }

    #[test]
    fn a_migration_is_fine() {
        assert_eq!(found("CREATE TABLE shop.t (k int PRIMARY KEY)", 2), []);
    }
}
