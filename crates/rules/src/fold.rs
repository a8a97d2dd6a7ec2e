//! Statements that differ in what they select, or in their order, and not in what they ask by, are one finding of
//! a rule on a table; so are the single writes of an application to a table, whatever columns each of them names, and
//! its batches over several tables of which there is nothing to be done.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Context, Cost, Finding, Findings, RuleSeverity, Settings, Severity, application, severity::Impact,
    statement::restricted,
};
use cqlens_cql::{plan::Flag, syntax::ast::Body};
use cqlens_window::{Pattern, PatternId, number};

/// What is said once: a rule on a table, of statements that have this in common.
type FoldKey = (&'static str, Option<String>, Option<String>, Common);

/// What statements of one finding have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Common {
    /// Reads that restrict these columns.
    Columns(String),
    /// Writes of this application, or of these; nothing where nobody is known.
    Application(String),
}

impl Common {
    fn of_writes(pattern: &Pattern) -> Self {
        let names: Vec<_> = application::of(pattern).into_iter().collect();
        Self::Application(names.join(", "))
    }

    /// What tells the finding from others of its rule on its table.
    fn subject(&self) -> &str {
        match self {
            Self::Columns(columns) => columns,
            Self::Application(names) => names,
        }
    }

    /// How a title speaks of further statements.
    fn more(&self, statements: u64) -> String {
        let statements = number::plural(statements, "more statement", "more statements");
        match self {
            Self::Columns(_) => format!("; and {statements} by the same columns"),
            Self::Application(names) if names.is_empty() => format!("; and {statements}"),
            Self::Application(_) => format!("; and {statements} of the same application"),
        }
    }
}

/// Puts findings on single statements together that have something in common: behind the first, which is the
/// severest and costliest.
pub(super) fn together(findings: Vec<Finding>, context: &Context<'_>, settings: &Settings) -> Vec<Finding> {
    let mut folded: Vec<Finding> = Vec::with_capacity(findings.len());
    let mut places: BTreeMap<FoldKey, usize> = BTreeMap::new();
    let mut more: BTreeMap<usize, (FoldKey, Vec<Finding>)> = BTreeMap::new();
    for finding in findings {
        match key(&finding, context) {
            None => folded.push(finding),
            Some(key) => match places.get(&key) {
                Some(place) => more.entry(*place).or_insert((key, Vec::new())).1.push(finding),
                None => {
                    let (_, keyspace, table, common) = &key;
                    folded.push(Finding {
                        keyspace: keyspace.clone(),
                        table: table.clone(),
                        ..finding.about(common.subject())
                    });
                    places.insert(key, folded.len() - 1);
                }
            },
        }
    }
    for (place, ((.., common), others)) in more {
        if let Some(finding) = folded.get_mut(place) {
            let severity = severity_of_all(finding, &others, context, settings);
            add(finding, &common, others, context);
            finding.severity = severity;
        }
    }
    tell_apart(&mut folded, &places);
    folded
}

/// Names the columns in the titles of a rule that has several findings on reads of one table.
fn tell_apart(folded: &mut [Finding], places: &BTreeMap<FoldKey, usize>) {
    let reads: Vec<_> = places
        .iter()
        .filter_map(|(key, place)| {
            let (rule, Some(keyspace), Some(table), Common::Columns(columns)) = key else {
                return None;
            };
            Some(((rule, keyspace, table), columns, *place))
        })
        .collect();
    let of_table = reads.chunk_by(|(one, ..), (other, ..)| one == other);
    for ((_, keyspace, table), columns, place) in of_table.filter(|reads| reads.len() > 1).flatten() {
        let name = format!("`{keyspace}.{table}`");
        if let Some(finding) = folded.get_mut(*place) {
            let with_columns = format!("{name} by `{columns}`");
            finding.title = finding.title.replacen(&name, &with_columns, 1);
        }
    }
}

/// Nothing for a finding that is not on one statement, and for a read that asks by nothing. Of a batch over several
/// tables that is only worth knowing, no table is more worth knowing than the others.
fn key(finding: &Finding, context: &Context<'_>) -> Option<FoldKey> {
    let [id] = finding.patterns.as_slice() else {
        return None;
    };
    if finding.subject.as_deref() != Some(id.to_string().as_str()) {
        return None;
    }
    let statement = context.statement(*id)?;
    let pattern = context.window.patterns.get(id)?;
    let (keyspace, table) = (finding.keyspace.clone(), finding.table.clone());
    match &statement.body {
        Body::Select(select) => {
            let columns = restricted(select).join(", ");
            (!columns.is_empty()).then_some((finding.rule, keyspace, table, Common::Columns(columns)))
        }
        Body::Insert(_) | Body::Update(_) | Body::Delete(_) => {
            Some((finding.rule, keyspace, table, Common::of_writes(pattern)))
        }
        Body::Batch(_) if finding.severity == Severity::Info && pattern.is(Flag::SeveralTables) => {
            Some((finding.rule, None, None, Common::of_writes(pattern)))
        }
        _ => None,
    }
}

/// A hundredth of the load each is next to nothing, and two hundred of them are all of it.
fn severity_of_all(
    finding: &Finding,
    others: &[Finding],
    context: &Context<'_>,
    settings: &Settings,
) -> Severity {
    let all = || std::iter::once(finding).chain(others);
    let ids = all().flat_map(|finding| &finding.patterns);
    let patterns = ids.filter_map(|id| context.window.patterns.get(id));
    let kept = all().filter_map(|finding| finding.impact.as_ref());
    let together = Impact::together(kept, patterns.collect())
        .filter(|_| finding.impact.is_some())
        .map_or(finding.severity, |impact| {
            context.severity(&Findings::new(settings), &impact)
        });
    let most = match settings.severities.get(finding.rule) {
        Some(RuleSeverity::AtMost(most)) => *most,
        _ => Severity::High,
    };
    finding.severity.max(together.min(most))
}

/// Adds what others say of statements like those of the finding.
fn add(finding: &mut Finding, common: &Common, others: Vec<Finding>, context: &Context<'_>) {
    finding.title += &common.more(others.len() as u64);
    let mut patterns: Vec<PatternId> = Vec::new();
    let mut suggested: BTreeSet<_> = finding.suggested_cql.iter().cloned().collect();
    for other in others {
        patterns.extend(other.patterns);
        finding.wishes.extend(other.wishes);
        for cql in other.suggested_cql {
            if suggested.insert(cql.clone()) {
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
        ("statements", finding.patterns.len().into()),
        ("executions_of_all", executions.into()),
    ];
    finding.evidence.extend(first);
}

#[cfg(test)]
mod tests {
    use super::Severity;
    use crate::testing::{amid, batch, judge, read, write};
    use cqlens_cql::{
        footprint::PartitionClass,
        plan::{Flag, StatementKind},
    };

    fn filtering(what: &str, by: &str) -> cqlens_window::Pattern {
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
        let title = |column: &str| {
            format!("Reads of `shop.orders` by `{column}` filter the whole table row by row, 1.7 a second")
        };
        let folded = format!("{}; and 2 more statements by the same columns", title("status"));
        assert!(
            titles.contains(&(folded.as_str(), 3, Some("status"))),
            "{titles:?}"
        );
        let single = title("customer");
        assert!(
            titles.contains(&(single.as_str(), 1, Some("customer"))),
            "{titles:?}"
        );
    }

    #[test]
    fn the_writes_of_an_application_to_a_table_are_one_finding_whatever_they_name() {
        let inserts = (0..200).map(|at| {
            let client = if at < 150 {
                "orders 1.0 (driver) 10.0.0.1"
            } else {
                "stock (driver)"
            };
            let cql = format!("INSERT INTO shop.orders (id, c{at}) VALUES (?, ?)");
            let mut insert = write(&cql, StatementKind::Insert, &[], 100);
            insert.nulls.executions = 100;
            insert.nulls.count(Some("c"), 100);
            insert.count_client(client, 100);
            insert
        });
        let findings = judge(&amid(inserts)).findings;
        let of_nulls = findings.iter().filter(|finding| finding.rule == "null-insert");
        let said: Vec<_> = of_nulls
            .map(|finding| (finding.subject.as_deref(), finding.patterns.len()))
            .collect();
        assert_eq!(said, [(Some("orders"), 150), (Some("stock"), 50)]);
        let titles = findings.iter().map(|finding| &finding.title);
        let of_orders = "; and 149 more statements of the same application";
        assert_eq!(titles.filter(|title| title.ends_with(of_orders)).count(), 1);
    }

    #[test]
    fn many_statements_that_cost_little_each_are_as_bad_as_one_that_costs_as_much() {
        let severity = |statements: u64, times: u64| {
            let inserts = (0..statements).map(|at| {
                let cql = format!("INSERT INTO shop.orders (id, c{at}) VALUES (?, ?)");
                let mut insert = write(&cql, StatementKind::Insert, &[], times);
                insert.nulls.executions = times;
                insert.nulls.count(Some("c"), times);
                insert
            });
            let findings = judge(&amid(inserts)).findings;
            let of_nulls: Vec<_> = findings
                .iter()
                .filter(|finding| finding.rule == "null-insert")
                .map(|finding| finding.severity)
                .collect();
            of_nulls
        };
        assert_eq!(severity(1, 20_000), [Severity::Low]);
        assert_eq!(severity(200, 100), [Severity::Low], "each of them info");
    }

    #[test]
    fn reads_and_large_values_of_one_habit_are_weighed_together() {
        let severity = |rule: &str, patterns: Vec<cqlens_window::Pattern>| {
            let findings = judge(&amid(patterns)).findings.into_iter();
            let of_rule = findings.filter(|finding| finding.rule == rule);
            of_rule.map(|finding| finding.severity).collect::<Vec<_>>()
        };
        // Each of them idles.
        let filtering = |count: u64, times: u64| {
            let one = |at| {
                let cql = format!("SELECT c{at} FROM shop.orders WHERE status = ? ALLOW FILTERING");
                let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
                read(&cql, &flags, PartitionClass::Scan, times)
            };
            (0..count).map(one).collect::<Vec<_>>()
        };
        let one = severity("allow-filtering", filtering(1, 400));
        assert_eq!(severity("allow-filtering", filtering(1, 4)), [Severity::Low]);
        assert_eq!(severity("allow-filtering", filtering(100, 4)), one);
        let large = |count: u64, times: u64| {
            let one = |at| {
                let cql = format!("INSERT INTO shop.documents (id, c{at}) VALUES (?, ?)");
                let mut insert = write(&cql, StatementKind::Insert, &[], times);
                insert.request_bytes.record_n(12 << 20, times);
                insert
            };
            (0..count).map(one).collect::<Vec<_>>()
        };
        let one = severity("large-mutation", large(1, 400));
        assert_eq!(severity("large-mutation", large(1, 4)), [Severity::Info]);
        assert_eq!(severity("large-mutation", large(100, 4)), one);
    }

    #[test]
    fn batches_over_tables_that_are_only_worth_knowing_are_said_once() {
        let batch_of = |tables: [&str; 2], partitions| {
            let inserts = tables.map(|table| format!("INSERT INTO shop.{table} (id) VALUES (?);"));
            let mut batch = batch(&[Flag::LoggedBatch, Flag::SeveralTables], partitions, 100);
            batch.head.cql = format!("BEGIN BATCH {} APPLY BATCH", inserts.join(" "));
            batch.head.table = Some(tables[0].to_owned());
            batch
        };
        let few = [["users", "users_by_email"], ["orders", "orders_by_user"]];
        let findings = judge(&amid(few.map(|tables| batch_of(tables, 2)))).findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
        let finding = &findings[0];
        assert_eq!((finding.patterns.len(), &finding.table), (2, &None));
        assert!(
            finding.title.ends_with("; and 1 more statement"),
            "{}",
            finding.title
        );
        let many = judge(&amid(few.map(|tables| batch_of(tables, 20)))).findings;
        let of_tables = many.iter().filter(|finding| finding.table.is_some());
        assert_eq!(
            of_tables.count(),
            2,
            "what is to be done is said of each: {many:?}"
        );
    }
}
