//! Tables that are asked in several ways, of which their key serves none.

use std::collections::BTreeMap;

use crate::{
    About, Cause, Context, EvidenceValue, Finding, Findings, Rule, Severity, Threshold, Wish,
    figures::{often, share},
    read::user_reads,
    severity::Impact,
    statement::{restricted, selected, table_of},
};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::Flag,
    schema::{Schema, TableName},
};
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct QueryWithoutTable;

impl Rule for QueryWithoutTable {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let schema = context.schema;
        for (name, reads) in by_table(context) {
            if let Some(severity) = severity(found, &reads, context) {
                found.push(finding(severity, &name, reads, context, schema));
            }
        }
    }
}

/// The reads of one table.
#[derive(Default)]
struct TableReads<'a> {
    /// Those without the partition key, by the columns that they restrict.
    shapes: BTreeMap<Vec<String>, Vec<(PatternId, &'a Pattern)>>,
    /// Reads that name their partitions.
    served: u64,
    unserved: u64,
}

fn by_table<'a>(context: &Context<'a>) -> BTreeMap<TableName, TableReads<'a>> {
    let mut tables: BTreeMap<TableName, TableReads<'_>> = BTreeMap::new();
    for (id, pattern) in user_reads(context) {
        let (Some(name), Some(select)) = (table_of(pattern), selected(id, context)) else {
            continue;
        };
        let reads = tables.entry(name).or_default();
        match pattern.class() {
            PartitionClass::Scan | PartitionClass::Index if !pattern.is(Flag::OnToken) => {
                let columns = restricted(&select);
                // What restricts nothing wants everything: no key serves that.
                if !columns.is_empty() {
                    reads.unserved += pattern.count;
                    reads.shapes.entry(columns).or_default().push((id, pattern));
                }
            }
            PartitionClass::TokenRange | PartitionClass::Scan | PartitionClass::Index => {}
            PartitionClass::Single | PartitionClass::Multi | PartitionClass::Unknown => {
                reads.served += pattern.count;
            }
        }
    }
    tables
}

fn severity(found: &Findings<'_>, reads: &TableReads<'_>, context: &Context<'_>) -> Option<Severity> {
    let several = found.threshold(&ABOUT, &SHAPES);
    let unserved = share(reads.unserved, reads.unserved + reads.served);
    if unserved < found.threshold(&ABOUT, &MOST_SHARE) || (reads.shapes.len() as f64) < several {
        return None;
    }
    let patterns = reads.shapes.values().flatten();
    let impact = Impact::each(Severity::Medium).at_most(Severity::Medium);
    let impact = patterns.fold(impact, |impact, (_, pattern)| impact.of(pattern));
    Some(context.severity(found, &impact))
}

fn finding(
    severity: Severity,
    name: &TableName,
    reads: TableReads<'_>,
    context: &Context<'_>,
    schema: &Schema,
) -> Finding {
    let shapes = reads.shapes.keys().take(MOST_NAMED);
    let mut shapes: Vec<_> = shapes
        .map(|columns| format!("`{}`", columns.join(", ")))
        .collect();
    if let Some(more) = reads
        .shapes
        .len()
        .checked_sub(MOST_NAMED)
        .filter(|more| *more > 0)
    {
        shapes.push(number::plural(
            more as u64,
            "other set of columns",
            "other sets of columns",
        ));
    }
    let title = format!(
        "`{name}` is queried by {}, but its partition key supports {}{}",
        shapes.join(" and by "),
        if reads.shapes.len() == 2 {
            "neither"
        } else {
            "none of them"
        },
        often(reads.unserved, context.watch_table(name))
    );
    let key = schema.table(&name.keyspace, &name.table).map(|table| {
        let key = table.partition_key();
        key.iter().map(|column| column.name.clone()).collect()
    });
    // One table for each way of asking, and the query on it.
    let first = reads.shapes.values().filter_map(|patterns| patterns.first());
    let tables = Wish::Tables(first.map(|(id, _)| *id).collect());
    let shape_count = reads.shapes.len() as u64;
    let finding = Finding::on_all(
        &ABOUT,
        severity,
        reads.shapes.into_values().flatten().collect(),
        context,
    )
    .of_table(name)
    .title(title)
    .first("reads_by_the_partition_key", reads.served)
    .first("ways_of_asking", shape_count)
    .wish(tables);
    match key {
        Some(key) => finding
            .first("partition_key_columns", EvidenceValue::Names(key))
            .advice(format!(
                "{} Each of the {} needs a table of its own; no query uses the existing key.",
                ABOUT.fix,
                number::plural(shape_count, "query", "queries"),
            )),
        None => finding,
    }
}

/// A title names no more sets of columns.
const MOST_NAMED: usize = 20;

const MOST_SHARE: Threshold = Threshold {
    name: "most_share",
    unit: "of the table's reads",
    default: 0.9,
    origin: "cqlens default: an occasional read by the key does not make it the key of the queries",
};

const SHAPES: Threshold = Threshold {
    name: "shapes",
    unit: "sets of restricted columns",
    default: 2.0,
    origin: "cqlens default: `allow-filtering` and `secondary-index-read` cover a single one",
};

const ABOUT: About = About {
    id: "query-without-table",
    group: "model",
    summary: "A table is queried in several ways, and its partition key supports none of them.",
    why: "In Cassandra, a table is designed for a query: its partition key is what the query restricts. A \
        table that is queried by one column here and another there, and never by its key, is modelled after \
        entities, as in a relational database. Each of its queries then involves all nodes, with an index or \
        by filtering, and gets slower as the table and the cluster grow.",
    fix: "\
        List the queries first, then create one table for each, with the restricted columns as its partition \
        key, and write all of these tables in one logged batch.",
    fix_in_short: "Table for this query",
    before: "CREATE TABLE shop.users (id uuid PRIMARY KEY, email text, city text);\n\
             SELECT * FROM shop.users WHERE email = ? ALLOW FILTERING;\nSELECT * FROM shop.users WHERE city = ? ALLOW FILTERING;",
    after: "CREATE TABLE shop.users_by_email (email text PRIMARY KEY, id uuid, city text);\n\
            CREATE TABLE shop.users_by_city (city text, id uuid, email text, PRIMARY KEY ((city), id));\n\
            SELECT * FROM shop.users_by_email WHERE email = ?;\nSELECT * FROM shop.users_by_city WHERE city = ?;",
    severity: "Medium at most, from `shapes` distinct sets of restricted columns, none of which contains the \
        partition key, if these are `most_share` of the table's reads. Walks of token ranges and full scans \
        do not count.",
    severities: &[Severity::Medium],
    thresholds: &[SHAPES, MOST_SHARE],
    needs: "\
        The tables' schemas, to know whether a read names its partition. A read for which this is not known \
        counts as one that does.",
    source: "\
        Artem Chebotko et al., A Big Data Modeling Methodology for Apache Cassandra: query-driven modelling; \
        Cassandra documentation, data modeling",
    cause: Some(Cause::NO_TABLE_FOR_THE_QUERY),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::{schema, window};
    use super::*;
    use crate::testing::{read, run_with};

    fn by(column: &str, class: PartitionClass, times: u64) -> Pattern {
        let cql = format!("SELECT * FROM shop.users WHERE {column} = ?");
        read(&cql, &[Flag::AllowFiltering], class, times)
    }

    fn judged(patterns: impl IntoIterator<Item = Pattern>) -> Vec<Finding> {
        run_with(&QueryWithoutTable, &window(1, (10, 10), patterns), &schema()).findings
    }

    fn severity(patterns: impl IntoIterator<Item = Pattern>) -> Option<Severity> {
        judged(patterns).first().map(|finding| finding.severity)
    }

    #[test]
    fn several_ways_none_of_them_by_the_key() {
        let (scan, index) = (PartitionClass::Scan, PartitionClass::Index);
        assert_eq!(
            severity([by("city", scan, 30), by("email", index, 29)]),
            Some(Severity::Info)
        );
        assert_eq!(
            severity([by("city", scan, 30_000), by("email", index, 30_000)]),
            Some(Severity::Medium)
        );
    }

    #[test]
    fn one_way_is_what_other_rules_speak_of_and_a_read_by_the_key_is_what_the_table_is_for() {
        let scan = PartitionClass::Scan;
        assert_eq!(severity([by("city", scan, 600), by("city", scan, 600)]), None);
        let served = by("id", PartitionClass::Single, 1);
        assert!(
            severity([by("city", scan, 600), by("email", scan, 600), served]).is_some(),
            "once"
        );
        let served = by("id", PartitionClass::Single, 300);
        assert_eq!(
            severity([by("city", scan, 600), by("email", scan, 600), served]),
            None
        );
        let all = read("SELECT * FROM shop.users", &[], scan, 600);
        assert_eq!(severity([by("city", scan, 600), all]), None);
        let unknown = by("id", PartitionClass::Unknown, 300);
        assert_eq!(
            severity([by("city", scan, 600), by("email", scan, 600), unknown]),
            None
        );
    }

    #[test]
    fn it_writes_a_table_for_each_way() {
        let scan = PartitionClass::Scan;
        let findings = judged([by("age", scan, 60), by("email", scan, 60)]);
        let finding = &findings[0];
        assert_eq!(
            finding.title,
            "`shop.users` is queried by `age` and by `email`, but its partition key supports neither, 2 a minute"
        );
        let tables = finding
            .suggested_cql
            .iter()
            .filter(|cql| cql.contains("\nCREATE TABLE"));
        assert_eq!(tables.count(), 2, "{:?}", finding.suggested_cql);
    }
}
