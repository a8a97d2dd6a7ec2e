//! `SELECT *` that brings rows.

use std::collections::BTreeMap;

use super::{About, Findings, Severity, is_sweep, reads, table, user_reads};
use crate::{
    Context, EvidenceValue, Finding, Rule,
    application::{self, Patterns},
    figures::{bytes, definition, often},
};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::Flag,
    schema::quote,
    syntax::{
        self,
        ast::{Body, Selection},
    },
};
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct SelectStar;

impl Rule for SelectStar {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // A key and one value: whoever names them all writes the same.
        let leaves_out_nothing = |pattern: &Pattern| {
            definition(pattern, context.schema).is_some_and(|table| table.columns.len() <= FEW_COLUMNS)
        };
        let brings_rows = |pattern: &Pattern| pattern.rows.total() > 0 || context.is_text();
        let leaves_out_some = |pattern: &Pattern| {
            pattern.is(Flag::SelectStar) && !is_sweep(pattern) && !leaves_out_nothing(pattern)
        };
        let stars =
            user_reads(context).filter(|(_, pattern)| leaves_out_some(pattern) && brings_rows(pattern));
        if context.is_text() {
            // Of a whole table other rules say what matters.
            let scans = |pattern: &Pattern| {
                pattern.is(Flag::AllowFiltering) || pattern.class() == PartitionClass::Scan
            };
            stars
                .filter(|(_, pattern)| !scans(pattern))
                .for_each(|star| found.push(of_text(star, context)));
            return;
        }
        for (application, patterns) in application::by_application(stars) {
            found.push(finding(&application, patterns, context));
        }
    }
}

/// A finding on a statement that was read: no application has sent it.
fn of_text((id, pattern): (PatternId, &Pattern), context: &Context<'_>) -> Finding {
    let columns = definition(pattern, context.schema).map_or(String::new(), |table| {
        format!(", {} today", number::count(table.columns.len() as u64))
    });
    let title = format!("`SELECT *` reads all columns of {}{columns}", table(pattern));
    Finding::on(&ABOUT, Severity::Info, (id, pattern), context).title(title)
}

fn finding(application: &str, patterns: Patterns<'_>, context: &Context<'_>) -> Finding {
    let (mut times, mut rows, mut size) = (0, 0, 0);
    for (_, pattern) in &patterns {
        times += reads(pattern);
        rows += pattern.rows.total();
        size += pattern.response_bytes.total();
    }
    let per_row = size / rows.max(1);
    let weight = match per_row {
        0 => String::new(),
        size => format!(", about {} per row", bytes(size)),
    };
    let title = format!(
        "{} sends `SELECT *`: {}{}{weight}",
        application::subject(application, context),
        application::on_tables(&patterns),
        often(times, application::watch(&patterns, context))
    );
    let columns = columns(&patterns, context);
    let finding = application::finding(&ABOUT, Severity::Info, (application, patterns), context)
        .title(title)
        .first("response_bytes_per_row", per_row);
    if columns.is_empty() {
        return finding;
    }
    finding.first("columns_by_table", EvidenceValue::Counts(columns))
}

/// The tables with their numbers of columns.
fn columns(patterns: &Patterns<'_>, context: &Context<'_>) -> BTreeMap<String, u64> {
    let tables = patterns
        .iter()
        .filter_map(|(_, pattern)| definition(pattern, context.schema));
    tables
        .map(|table| {
            let name = format!("{}.{}", table.keyspace, table.name);
            (name, table.columns.len() as u64)
        })
        .collect()
}

/// Tables of so few columns have nothing to leave out.
const FEW_COLUMNS: usize = 2;

/// The same read with the names of all columns: those that the application does not use are left out by its authors.
fn with_columns(pattern: &Pattern, context: &Context<'_>) -> Option<String> {
    let statement = syntax::parse(&pattern.head.cql).ok()?;
    let table = definition(pattern, context.schema)?;
    let (from, rest) = pattern.head.cql.split_once('*')?;
    let is_whole =
        matches!(&statement.body, Body::Select(select) if matches!(select.selection, Selection::All));
    let columns: Vec<_> = table.columns.iter().map(|column| quote(&column.name)).collect();
    is_whole.then(|| {
        format!(
            "-- of these, the columns that are used\n{from}{}{rest};",
            columns.join(", ")
        )
    })
}

const ABOUT: About = About {
    id: "select-star",
    group: "read shape",
    summary: "A read selects all columns, including any that are added later.",
    why: "Every column is read, sent and decoded, needed or not, and a column that is added later is read by \
        every client at once. Prepared statements are worse: before protocol version 5, a driver keeps the \
        result columns that it received when it prepared the statement, so that after ALTER TABLE it decodes \
        rows wrongly or misses the new column until it prepares the statement again.",
    fix: "List the columns that the application uses.",
    fix_in_short: "List the columns",
    before: "SELECT * FROM shop.users WHERE id = ?;",
    after: "SELECT name, email FROM shop.users WHERE id = ?;",
    severity: "Always info: the cost is the size of unused columns, which is not visible on the wire.",
    severities: &[Severity::Info],
    thresholds: &[],
    needs: "\
        Responses with rows, or the text alone (`cqlens explain`); the table's schema, to leave out tables \
        with one or two columns.",
    source: "CASSANDRA-10786, result metadata ids (protocol version 5); native protocol v5 §4.2.5.4",
    cause: None,
    quantity: None,
    rewrite: Some(|patterns, context| {
        let pattern = patterns.first()?;
        let with_columns = with_columns(pattern, context)?;
        Some((format!("{};", pattern.head.cql), with_columns))
    }),
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{read, run, run_in, run_with, window};
    use cqlens_cql::schema::Schema;
    use cqlens_window::Cluster;

    fn star(cql: &str) -> Pattern {
        let mut pattern = read(cql, &[Flag::SelectStar], PartitionClass::Single, 60);
        pattern.response_bytes.record_n(300, 60);
        pattern
    }

    const BAD: &str = "SELECT * FROM shop.users WHERE id = ?";

    #[test]
    fn all_columns_are_worth_knowing_with_what_they_weigh() {
        let judgement = run(&SelectStar, &window([star(BAD)]));
        assert_eq!(judgement.findings[0].severity, Severity::Info);
        assert_eq!(
            judgement.findings[0].title,
            "A client sends `SELECT *`: 1 statement on `shop.users`, 1 a minute, about 300 bytes per row"
        );
    }

    #[test]
    fn all_statements_of_an_application_are_one_finding() {
        let by = |client: &str, table: &str| {
            let mut pattern = star(&format!("SELECT * FROM shop.{table} WHERE id = ?"));
            pattern.clients.insert(client.to_owned(), 60);
            pattern
        };
        let all = [
            by("orders-api (gocql) 10.0.0.1", "users"),
            by("orders-api (gocql) 10.0.0.2", "orders"),
            by("mailer (gocql) 10.0.0.3", "users"),
        ];
        let findings = run(&SelectStar, &window(all)).findings;
        let mut titles: Vec<_> = findings.iter().map(|finding| finding.title.as_str()).collect();
        titles.sort_unstable();
        assert_eq!(
            titles,
            [
                "`mailer` sends `SELECT *`: 1 statement on `shop.users`, 1 a minute, about 300 bytes per row",
                "`orders-api` sends `SELECT *`: 2 statements on 2 tables, 2 a minute, about 300 bytes per \
                    row",
            ]
        );
    }

    #[test]
    fn named_columns_and_answers_without_rows_are_fine() {
        let named = read(
            "SELECT name FROM shop.users WHERE id = ?",
            &[],
            PartitionClass::Single,
            60,
        );
        let mut empty = star(BAD);
        empty.rows = Default::default();
        assert_eq!(run(&SelectStar, &window([named, empty])).findings, []);
    }

    #[test]
    fn a_statement_that_was_only_read_is_judged_without_answers() {
        let mut unanswered = star(BAD);
        unanswered.rows = Default::default();
        let window = window([unanswered]);
        let cluster = Cluster::default();
        let titles = |definitions: &str| -> Vec<_> {
            let schema = Schema::from_cql(definitions).unwrap();
            let context = Context::new(&window, &schema, &cluster).of_text(None);
            let findings = run_in(&SelectStar, &context).findings;
            findings
                .into_iter()
                .map(|finding| (finding.severity, finding.title))
                .collect()
        };
        let finding = |title: &str| vec![(Severity::Info, title.to_owned())];
        assert_eq!(
            titles(""),
            finding("`SELECT *` reads all columns of `shop.users`")
        );
        let columns = |columns: &str| {
            titles(&format!(
                "CREATE KEYSPACE shop WITH replication = {{'class': 'SimpleStrategy'}};
                 CREATE TABLE shop.users (id int PRIMARY KEY, {columns});"
            ))
        };
        assert_eq!(columns("name text"), []);
        assert_eq!(
            columns("name text, email text"),
            finding("`SELECT *` reads all columns of `shop.users`, 3 today")
        );
    }

    #[test]
    fn a_table_of_two_columns_has_nothing_to_leave_out() {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.users (id uuid PRIMARY KEY, name text);
             CREATE TABLE shop.orders (id uuid PRIMARY KEY, name text, amount int);",
        )
        .unwrap();
        assert_eq!(run_with(&SelectStar, &window([star(BAD)]), &schema).findings, []);
        let orders = star("SELECT * FROM shop.orders WHERE id = ?");
        let judgement = run_with(&SelectStar, &window([orders]), &schema);
        let columns = EvidenceValue::Counts([("shop.orders".to_owned(), 3)].into());
        let columns = ("columns_by_table", columns);
        assert!(judgement.findings[0].evidence.contains(&columns), "{judgement:?}");
    }
}
