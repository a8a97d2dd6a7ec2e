//! `ALLOW FILTERING` that is needed: replicas read rows and throw them away.

use super::{
    About, Findings, Impact, Severity, blind_on_unknown, filters, how_often, is_sweep, of_a_scan,
    of_an_index, table, user_reads,
};
use crate::{
    Cause, Context, Finding, Quantity, Rule, Wish,
    figures::definition,
    statement::{restricted, selected},
};
use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Column, syntax::ast::RelationOperator};
use cqlens_window::{Pattern, PatternId};

pub(crate) struct AllowFiltering;

impl Rule for AllowFiltering {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let allows = |pattern: &Pattern| pattern.is(Flag::AllowFiltering) && !is_sweep(pattern);
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| allows(pattern)) {
            let finding = if filters(pattern) {
                filtering(found, id, pattern, context).wish(Wish::Table(id))
            } else if pattern.class() == PartitionClass::Scan {
                // Nothing is filtered, but the whole ring is read: a finding of its own kind.
                continue;
            } else {
                not_needed(id, pattern, context)
            };
            found.push(finding);
        }
        blind_on_unknown(found, &ABOUT, context);
    }
}

fn filtering(found: &Findings<'_>, id: PatternId, pattern: &Pattern, context: &Context<'_>) -> Finding {
    let each = if pattern.is(Flag::FullPartitionKey) {
        Severity::Low
    } else if pattern.is(Flag::Index) {
        // Not less than the same read without anything to filter.
        of_a_scan(context).lowered().max(of_an_index(context))
    } else {
        of_a_scan(context)
    };
    let impact = Impact::each(each).of(pattern);
    let severity = context.severity(found, &impact);
    let often = how_often(pattern, context);
    let table = table(pattern);
    let title = if pattern.is(Flag::FullPartitionKey) {
        format!("Reads of {table} filter the rows of one partition{often}")
    } else if pattern.is(Flag::Index) && context.is_scylladb() {
        // An index is a table of its own: one of its partitions names the rows.
        format!("Reads of {table} filter the rows found by a global index{often}")
    } else if pattern.is(Flag::Index) {
        format!("Reads of {table} filter the rows found by an index on all nodes{often}")
    } else if pattern.class() == PartitionClass::Unknown {
        format!("Reads of {table} filter rows{often}; without the schema it is not known how many")
    } else {
        format!("Reads of {table} filter the whole table row by row{often}")
    };
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .weighing(impact);
    if pattern.is(Flag::FullPartitionKey) && skips_in_key((id, pattern), context) {
        finding.advice(
            "This is cheap while the partition stays small, but every read scans all of its rows: a clustering \
             column is restricted and the one before it is not. If partitions grow, restrict that one as well, or \
             create a table whose rows are in the order that this query needs.",
        )
    } else if pattern.is(Flag::FullPartitionKey) {
        finding.advice(
            "This is cheap while the partition stays small, but every read scans all of its rows. If \
             partitions grow, make the filtered column a clustering column.",
        )
    } else {
        let table = by_what(id, context).advice();
        match context.has_sai() {
            Some(false) => finding.advice(table),
            Some(true) | None => finding.advice(format!("{table} {WITH_SAI}")),
        }
    }
}

/// Whether all that the read restricts is in the key, so that only the order of its columns is in the way.
fn skips_in_key((id, pattern): (PatternId, &Pattern), context: &Context<'_>) -> bool {
    let table = definition(pattern, context.schema).zip(selected(id, context));
    table.is_some_and(|(table, select)| {
        let mut columns = restricted(&select).into_iter();
        columns.all(|name| table.column(&name).is_some_and(Column::is_primary_key))
    })
}

/// By what a read searches that filters all rows.
enum Searched {
    /// Some column has a value.
    Value,
    /// A column is in a range, and none has a value.
    Range,
    /// A collection contains something.
    Element,
}

fn by_what(id: PatternId, context: &Context<'_>) -> Searched {
    let Some(select) = selected(id, context) else {
        return Searched::Value;
    };
    let has = |operators: &[RelationOperator]| {
        let mut relations = select.where_clause.relations.iter();
        relations.any(|relation| operators.contains(&relation.operator))
    };
    if has(&[RelationOperator::Equal, RelationOperator::In]) {
        Searched::Value
    } else if has(&[RelationOperator::Contains, RelationOperator::ContainsKey]) {
        Searched::Element
    } else {
        Searched::Range
    }
}

impl Searched {
    fn advice(&self) -> &'static str {
        match self {
            Self::Value => ABOUT.fix,
            Self::Range => {
                "A partition key has no ranges: create a table whose partition key is a span of the restricted \
                 column, such as its day, and whose first clustering column it is. A query then reads the \
                 partitions of its range, one after the other."
            }
            Self::Element => {
                "Create a table with a row for each element of the collection: the element is its partition key, \
                 the key of the base table follows as clustering columns. Write both together."
            }
        }
    }
}

/// What servers that have such indexes can do besides.
const WITH_SAI: &str =
    "A storage-attached index (Cassandra 5.0 and later) helps if the partition key is given as well.";

fn not_needed(id: PatternId, pattern: &Pattern, context: &Context<'_>) -> Finding {
    let title = format!(
        "Reads of {} specify `ALLOW FILTERING` unnecessarily",
        table(pattern)
    );
    Finding::on(&ABOUT, Severity::Info, (id, pattern), context)
        .title(title)
        .advice(
            "Remove `ALLOW FILTERING`: it filters nothing today, and without it Cassandra refuses the \
             statement as soon as a schema change would turn it into a scan.",
        )
}

const ABOUT: About = About {
    id: "allow-filtering",
    group: "read shape",
    summary: "A read needs `ALLOW FILTERING`: Cassandra reads rows and discards most of them.",
    why: "Without the partition key, the coordinator cannot know where the rows are. It queries the replicas \
        of every token range, a few ranges at a time, until enough rows match; each replica reads whole \
        partitions from disk and discards the rows that do not match. The cost grows with the table, not \
        with the result.",
    fix: "Create a table whose partition key is the restricted column, and write it together with the base \
        table.",
    fix_in_short: "Table by these columns",
    before: "CREATE TABLE shop.orders (id uuid PRIMARY KEY, status text, amount decimal);\n\
             SELECT * FROM shop.orders WHERE status = ? ALLOW FILTERING;",
    after: "CREATE TABLE shop.orders_by_status (\n  status text, day date, id uuid, amount decimal,\n  PRIMARY KEY ((status, day), id));\n\
            SELECT * FROM shop.orders_by_status WHERE status = ? AND day = ?;",
    severity: "\
        High: the cost of each execution grows with the table. Medium if an index narrows the read, low if \
        the full partition key is given. Medium for a statement that was analysed but not executed, because \
        the table's size is unknown. Info if `ALLOW FILTERING` is unnecessary.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[],
    needs: "The statement's text, and the table's schema, to know whether the partition key is given.",
    source: "Cassandra guardrail `allow_filtering_enabled` (4.1); Cassandra documentation, SELECT: Allowing \
        filtering",
    cause: Some(Cause::NO_TABLE_FOR_THE_QUERY),
    quantity: Some(Quantity::ROWS_PER_RESPONSE),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run, run_in, run_with, window};
    use cqlens_cql::{Product, schema::Schema};
    use cqlens_window::Cluster;

    const BAD: &str = "SELECT * FROM shop.orders WHERE status = ? ALLOW FILTERING";

    fn bad(times: u64) -> Pattern {
        read(
            BAD,
            &[Flag::AllowFiltering, Flag::FilteringNeeded],
            PartitionClass::Scan,
            times,
        )
    }

    #[test]
    fn a_filtering_scan_that_takes_its_part_of_the_time_is_high() {
        let judgement = run(&AllowFiltering, &amid([bad(100)]));
        let finding = &judgement.findings[0];
        assert_eq!(finding.severity, Severity::High);
        let judgement = run(&AllowFiltering, &window([bad(60)]));
        assert_eq!(
            judgement.findings[0].title,
            "Reads of `shop.orders` filter the whole table row by row, 1 a minute"
        );
    }

    #[test]
    fn one_a_minute_over_a_few_rows_is_not_high() {
        let mut pattern = bad(60);
        pattern.rows = Default::default();
        pattern.rows.record_n(20, 60);
        assert_eq!(
            run(&AllowFiltering, &window([pattern])).findings[0].severity,
            Severity::Low
        );
    }

    #[test]
    fn a_statement_that_was_only_read_may_have_a_small_table() {
        let mut read_once = window([bad(1)]);
        read_once.observed_seconds = 0.0;
        assert_eq!(
            run(&AllowFiltering, &read_once).findings[0].severity,
            Severity::Medium
        );
    }

    #[test]
    fn with_the_full_partition_key_it_is_low_unless_it_is_slow_or_most_of_the_load() {
        let flags = [
            Flag::AllowFiltering,
            Flag::FilteringNeeded,
            Flag::FullPartitionKey,
        ];
        let cql = "SELECT * FROM shop.orders_by_user WHERE user = ? AND status = ? ALLOW FILTERING";
        let pattern = read(cql, &flags, PartitionClass::Single, 30_000);
        let severity = |window| run(&AllowFiltering, &window).findings[0].severity;
        assert_eq!(severity(amid([pattern.clone()])), Severity::Low);
        assert_eq!(
            severity(window([pattern.clone()])),
            Severity::Medium,
            "all of the load"
        );
        let mut slow = pattern;
        slow.latency_us = Default::default();
        slow.latency_us.record_n(900_000, 30_000);
        assert_eq!(severity(amid([slow])), Severity::Medium);
    }

    #[test]
    fn an_index_that_narrows_the_read_takes_one_step_off() {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded, Flag::Index];
        let judgement = run(
            &AllowFiltering,
            &amid([read(BAD, &flags, PartitionClass::Index, 100)]),
        );
        assert_eq!(judgement.findings[0].severity, Severity::Medium);
    }

    #[test]
    fn a_global_index_is_not_asked_on_all_nodes() {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded, Flag::Index];
        let title = |product| {
            let window = amid([read(BAD, &flags, PartitionClass::Index, 100)]);
            let (schema, cluster) = (Schema::default(), of(product));
            let judgement = run_in(&AllowFiltering, &Context::new(&window, &schema, &cluster));
            judgement.findings[0].title.clone()
        };
        assert_eq!(
            title(Product::ScyllaDb),
            "Reads of `shop.orders` filter the rows found by a global index, 1.7 a second"
        );
        assert_eq!(
            title(Product::Cassandra),
            "Reads of `shop.orders` filter the rows found by an index on all nodes, 1.7 a second"
        );
    }

    fn of(product: Product) -> Cluster {
        Cluster {
            product: Some(product),
            ..Cluster::default()
        }
    }

    #[test]
    fn storage_attached_indexes_are_advised_where_servers_have_them() {
        let advises = |version: &str| {
            let (window, schema) = (window([bad(60)]), Schema::default());
            let cluster = Cluster {
                release_version: Some(version.to_owned()),
                ..Cluster::default()
            };
            let judgement = run_in(&AllowFiltering, &Context::new(&window, &schema, &cluster));
            judgement.findings[0].advice.contains("storage-attached")
        };
        assert!(advises("5.0.6"));
        assert!(!advises("4.1.8"));
    }

    #[test]
    fn written_without_need_it_is_only_worth_knowing() {
        let flags = [Flag::AllowFiltering, Flag::FullPartitionKey];
        let judgement = run(
            &AllowFiltering,
            &window([read(BAD, &flags, PartitionClass::Single, 60)]),
        );
        assert_eq!(judgement.findings[0].severity, Severity::Info);
    }

    #[test]
    fn the_query_on_its_own_table_is_fine() {
        let repaired = read(
            "SELECT * FROM shop.orders_by_status WHERE status = ? AND day = ?",
            &[Flag::FullPartitionKey],
            PartitionClass::Single,
            1_000_000,
        );
        assert_eq!(run(&AllowFiltering, &window([repaired])).findings, []);
    }

    #[test]
    fn with_a_schema_it_writes_the_table_that_is_missing() {
        let shop =
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
                    CREATE TABLE shop.orders (id uuid PRIMARY KEY, status text);";
        let schema = Schema::from_cql(shop).unwrap();
        let judgement = run_with(&AllowFiltering, &window([bad(60)]), &schema);
        let cql = &judgement.findings[0].suggested_cql;
        assert!(
            cql[0].contains("\nCREATE TABLE shop.orders_by_status ("),
            "{cql:?}"
        );
        assert!(
            cql[3].ends_with("\nSELECT * FROM shop.orders_by_status WHERE status = ?;"),
            "{cql:?}"
        );
        assert!(judgement.findings[0].advice.contains("add a bucket"));
    }

    #[test]
    fn drivers_own_statements_are_not_judged() {
        let mut pattern = bad(60);
        pattern.head.system = true;
        assert_eq!(run(&AllowFiltering, &window([pattern])).findings, []);
    }

    #[test]
    fn what_the_server_always_refuses_is_not_judged() {
        let mut refused = bad(60);
        refused.errors = 60;
        refused.classes.clear();
        assert_eq!(run(&AllowFiltering, &window([refused])), Default::default());
    }

    #[test]
    fn without_a_schema_it_fires_and_says_what_is_not_known() {
        let pattern = read(BAD, &[Flag::AllowFiltering], PartitionClass::Unknown, 60);
        let judgement = run(&AllowFiltering, &window([pattern]));
        assert!(judgement.findings[0].title.ends_with("it is not known how many"));
        assert_eq!(
            judgement.blind_spots[0].text,
            "60 of 60 reads (1 pattern) touch partitions that are not known"
        );
    }
}
