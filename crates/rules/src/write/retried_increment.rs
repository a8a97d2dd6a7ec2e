//! Increments and appends that were sent again although the first may have been applied.

use cqlens_cql::{
    plan::Flag,
    schema::DataType,
    syntax::ast::{AssignmentOperation, Modification},
};

use super::{About, Findings, Severity, table, user_writes};
use crate::{Cause, Context, Finding, Rule, example::commented, severity::Impact, statement::modifications};
use cqlens_window::{Pattern, PatternId, RetryCause, number};

pub(crate) struct RetriedIncrement;

impl Rule for RetriedIncrement {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (id, pattern) in user_writes(context) {
            let again = again(pattern);
            if again == 0 {
                continue;
            }
            let what = if pattern.is(Flag::Counter) {
                "increments"
            } else if appends(id, pattern, context) {
                "list appends"
            } else {
                continue;
            };
            let impact = Impact::each(Severity::Medium)
                .of(pattern)
                .failed(again, pattern.count);
            let severity = context.severity(found, &impact);
            found.push(finding(severity, (what, again), (id, pattern), context).weighing(impact));
        }
    }
}

/// Executions that came again where nobody knows whether the one before was applied.
fn again(pattern: &Pattern) -> u64 {
    [
        RetryCause::WriteTimeout,
        RetryCause::ServerError,
        RetryCause::ConnectionLost,
    ]
    .iter()
    .filter_map(|cause| pattern.repeats.retries.get(cause))
    .sum()
}

/// Whether it adds to a list, which keeps what is added twice.
fn appends(id: PatternId, pattern: &Pattern, context: &Context<'_>) -> bool {
    let statement = context.statement(id);
    let all = statement
        .map(|statement| modifications(&statement))
        .unwrap_or_default();
    all.iter().any(|modification| {
        let Modification::Update(update) = modification else {
            return false;
        };
        let keyspace = update.table.keyspace_or(pattern.head.keyspace.as_deref());
        let table = keyspace.and_then(|name| context.schema.table(name, update.table.name.as_str()));
        let is_list = |column: &str| {
            let column = table.and_then(|table| table.column(column));
            column.is_some_and(|column| matches!(column.data_type, DataType::List(_)))
        };
        update.assignments.iter().any(|assignment| {
            let adds = matches!(
                assignment.operation,
                AssignmentOperation::Add(_) | AssignmentOperation::Prepend(_)
            );
            adds && is_list(assignment.column.as_str())
        })
    })
}

fn finding(
    severity: Severity,
    (what, again): (&str, u64),
    (id, pattern): (PatternId, &Pattern),
    context: &Context<'_>,
) -> Finding {
    let title = format!(
        "{} of {} were sent again after a failure that leaves open whether they were applied: {} may \
            count twice",
        match what {
            "increments" => "Increments",
            _ => "List appends",
        },
        table(pattern),
        number::count(again)
    );
    Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .first("sent_again", again)
}

const ABOUT: About = About {
    id: "retried-increment",
    group: "writes",
    summary: "Counter increments or list appends were sent again although they may have been applied.",
    why: "\
        After a WRITE_TIMEOUT or a lost connection, the client does not know whether the write was applied. \
        Repeating a plain write makes no difference, but a repeated increment counts twice, and a repeated \
        append is in the list twice.",
    fix: "Mark these statements as not idempotent in the driver, so that its retry policy leaves them alone. \
        If the number must be exact, do not use a counter: write events by id and sum them; use a set, or a \
        map by id, instead of a list.",
    fix_in_short: "Do not retry",
    before: "\
        -- marked as idempotent, or with a policy that retries everything\nUPDATE shop.views SET n = n + 1 \
        WHERE page = ?;",
    after: "INSERT INTO shop.page_views (page, hour, view_id) VALUES (?, ?, ?);",
    severity: "By the share of repeated executions, medium if they are a part of the load.",
    severities: &[Severity::Medium],
    thresholds: &[],
    needs: "Requests and responses: the same statement and values from the same host within one second. The \
        schema, for lists.",
    source: "Cassandra documentation, counters; drivers' manuals, idempotence of statements",
    cause: Some(Cause::FAILURES),
    quantity: None,
    rewrite: Some(|patterns, _| {
        commented(
            patterns,
            "marked as idempotent, or retried whatever it is",
            "marked as not idempotent: after a timeout the driver leaves it alone",
        )
    }),
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, run_with, write};
    use cqlens_cql::{plan::StatementKind, schema::Schema};

    fn found(cql: &str, flags: &[Flag], cause: RetryCause) -> Vec<String> {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.views (page text PRIMARY KEY, n counter);
             CREATE TABLE shop.users (id int PRIMARY KEY, emails list<text>, tags set<text>);",
        )
        .unwrap();
        let mut pattern = write(cql, StatementKind::Update, flags, 600);
        pattern.repeats.retries.insert(cause, 12);
        let judgement = run_with(&RetriedIncrement, &amid([pattern]), &schema);
        judgement
            .findings
            .into_iter()
            .map(|finding| finding.title)
            .collect()
    }

    const INCREMENT: &str = "UPDATE shop.views SET n = n + ? WHERE page = ?";
    const APPEND: &str = "UPDATE shop.users SET emails = emails + ? WHERE id = ?";

    #[test]
    fn what_may_count_twice_is_found() {
        assert_eq!(
            found(INCREMENT, &[Flag::Counter], RetryCause::WriteTimeout),
            [
                "Increments of `shop.views` were sent again after a failure that leaves open whether they \
                    were applied: 12 may count twice"
            ]
        );
        assert_eq!(found(APPEND, &[], RetryCause::ConnectionLost).len(), 1);
    }

    #[test]
    fn what_was_not_executed_and_what_can_be_repeated_is_fine() {
        let none = Vec::<String>::new();
        assert_eq!(found(INCREMENT, &[Flag::Counter], RetryCause::Unavailable), none);
        let union = "UPDATE shop.users SET tags = tags + ? WHERE id = ?";
        assert_eq!(found(union, &[], RetryCause::WriteTimeout), none);
    }
}
