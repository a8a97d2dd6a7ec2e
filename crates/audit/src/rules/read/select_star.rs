//! `SELECT *` that brings rows.

use super::{About, Findings, Severity, how_often, table, user_reads};
use crate::{
    rules::{
        Finding, Rule,
        figures::{bytes, definition},
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::{plan::Flag, schema::Schema};

pub(in crate::rules) struct SelectStar;

impl Rule for SelectStar {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, schema: &Schema, found: &mut Findings<'_>) {
        let brings_rows = |pattern: &Pattern| pattern.is(Flag::SelectStar) && pattern.rows.total() > 0;
        for (id, pattern) in user_reads(window).filter(|(_, pattern)| brings_rows(pattern)) {
            let columns = definition(pattern, schema).map(|table| table.columns.len());
            // A key and one value: whoever names them all writes the same.
            if columns.is_none_or(|columns| columns > FEW_COLUMNS) {
                found.push(finding(id, pattern, columns, window));
            }
        }
    }
}

fn finding(id: PatternId, pattern: &Pattern, columns: Option<usize>, window: &Window) -> Finding {
    let per_row = pattern.response_bytes.total() / pattern.rows.total().max(1);
    let all = columns.map_or_else(
        || "all columns".to_owned(),
        |columns| format!("all {columns} columns"),
    );
    let size = match per_row {
        0 => String::new(),
        size => format!(", about {} a row", bytes(size)),
    };
    let title = format!(
        "Reads of {} ask for {all}{}{size}",
        table(pattern),
        how_often(pattern, window)
    );
    let mut finding = Finding::on(&ABOUT, Severity::Info, (id, pattern), window)
        .title(title)
        .first("response_bytes_per_row", per_row);
    if let Some(columns) = columns {
        finding = finding.first("columns", columns);
    }
    finding
}

/// Tables of so few columns have nothing to leave out.
const FEW_COLUMNS: usize = 2;

const ABOUT: About = About {
    id: "select-star",
    group: "read shape",
    summary: "A read asks for all columns, whatever they will be tomorrow.",
    why: "\
        Every column is read, sent and decoded, wanted or not, and a column that is added later is read by \
        everyone at once. Prepared, the statement is worse than that: before protocol version 5 a driver \
        keeps the result columns that it was told when it prepared, so that after ALTER TABLE answers are \
        decoded wrongly or the new column is not seen until the statement is prepared again.",
    fix: "Name the columns that the application uses.",
    before: "SELECT * FROM shop.users WHERE id = ?;",
    after: "SELECT name, email FROM shop.users WHERE id = ?;",
    severity: "Always info: what it costs is the size of columns that nobody uses, which the wire does not tell.",
    thresholds: &[],
    needs: "Answers with rows; the table's schema, to leave out tables of one or two columns.",
    source: "CASSANDRA-10786, result metadata ids (protocol version 5); native protocol v5 §4.2.5.4",
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rules::testing::{read, run, run_with, window};
    use cqlens_cql::footprint::PartitionClass;

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
            "Reads of `shop.users` ask for all columns, 1 a minute, about 300 bytes a row"
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
        assert_eq!(judgement.findings[0].evidence[0], ("columns", 3.into()));
    }
}
