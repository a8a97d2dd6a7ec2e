//! Reads through a secondary index without the partition key: each node answers for its own rows only.
//!
//! With the partition key an index is asked on that partition's replicas alone, and nothing is said. What an
//! index finds and `ALLOW FILTERING` then sifts is judged there.

use super::{
    About, Findings, Impact, Severity, blind_on_unknown, filters, how_often, is_sweep, of_an_index, table,
    user_reads,
};
use crate::{Cause, Context, EvidenceValue, Finding, Quantity, Rule, TableIndex, Wish, figures::definition};
use cqlens_cql::syntax::ast::Body;
use cqlens_cql::{
    footprint::PartitionClass,
    plan::Flag,
    schema::{Index, IndexClass, Schema},
};
use cqlens_window::{Pattern, PatternId};

pub(crate) struct SecondaryIndexRead;

impl Rule for SecondaryIndexRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let schema = context.schema;
        let asks_all = |pattern: &Pattern| {
            pattern.class() == PartitionClass::Index && !filters(pattern) && !is_sweep(pattern)
        };
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| asks_all(pattern)) {
            // The neighbours of a vector can be anywhere: no key and no other table would find them.
            if asks_for_neighbours(id, context) {
                continue;
            }
            let impact = impact(pattern, context);
            let severity = context.severity(found, &impact);
            let finding = finding(severity, id, pattern, context).weighing(impact);
            found.push(with_indexes(finding.wish(Wish::Table(id)), pattern, schema));
        }
        blind_on_unknown(found, &ABOUT, context);
    }
}

fn impact<'p>(pattern: &'p Pattern, context: &Context<'_>) -> Impact<'p> {
    Impact::each(of_an_index(context)).of(pattern)
}

fn asks_for_neighbours(id: PatternId, context: &Context<'_>) -> bool {
    let statement = context.statement(id);
    match statement.as_deref().map(|statement| &statement.body) {
        Some(Body::Select(select)) => select.order_by.iter().any(|order| order.ann_of.is_some()),
        _ => false,
    }
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, context: &Context<'_>) -> Finding {
    let ordered = if context.is_scylladb() {
        "look up keys in a global index, then read a partition for each"
    } else if pattern.is(Flag::Limit) {
        "use a secondary index, one token range after the other,"
    } else {
        "use a secondary index on all nodes"
    };
    let title = format!(
        "Reads of {} {ordered} instead of reading one partition{}",
        table(pattern),
        how_often(pattern, context)
    );
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context).title(title);
    if context.is_scylladb() {
        finding.advice(GLOBAL)
    } else {
        finding
    }
}

const GLOBAL: &str = "\
    ScyllaDB stores the index as a table whose partition key is the indexed column: a read fetches the keys \
    from one index partition, and then one partition of the table for each key. That is fine for a few rows. \
    For many, maintain a table that stores the rows themselves under that key; if the partition key is \
    known, a local index (`CREATE INDEX ON t ((pk), c)`) stays on its replicas.";

/// The finding with the table's indexes and their kinds, where the schema is known.
fn with_indexes(finding: Finding, pattern: &Pattern, schema: &Schema) -> Finding {
    let Some(table) = definition(pattern, schema).filter(|table| !table.indexes.is_empty()) else {
        return finding;
    };
    let indexes = table.indexes.values().map(described).collect();
    finding.first("table_indexes", EvidenceValue::Indexes(indexes))
}

fn described(index: &Index) -> TableIndex {
    let kind = match &index.class {
        IndexClass::Legacy => "legacy",
        IndexClass::Sai => "storage-attached",
        IndexClass::Sasi => "SASI",
        IndexClass::Custom(name) => name,
    };
    let columns = index.targets.iter().map(|target| target.column.clone());
    TableIndex {
        index: index.name.clone(),
        columns: columns.collect(),
        kind: kind.to_owned(),
    }
}

const ABOUT: About = About {
    id: "secondary-index-read",
    group: "read shape",
    summary: "A read uses a secondary index without a partition key: every node has to search.",
    why: "A secondary index, including storage-attached ones, covers only the rows of its own node. Without \
        the partition key, the coordinator therefore queries the replicas of one token range after the \
        other, a few at first and then more at a time, until it has enough rows or has covered the ring. The \
        work of one read grows with the number of nodes, so adding nodes makes it more expensive, and one \
        slow node makes all of these reads slow. ScyllaDB's indexes are global: a read fetches one partition \
        of the index, then one partition of the table for each row.",
    fix: "\
        Restrict the partition key as well, so that only the replicas of that partition use the index. Or create \
        a table whose partition key is the indexed column.",
    fix_in_short: "Table by this column",
    before: "CREATE INDEX ON shop.users (email);\nSELECT * FROM shop.users WHERE email = ?;",
    after: "CREATE TABLE shop.users_by_email (email text PRIMARY KEY, id uuid, name text);\n\
            SELECT * FROM shop.users_by_email WHERE email = ?;",
    severity: "\
        Medium: the larger the cluster, the more nodes each read involves. Low in ScyllaDB, whose indexes \
        are global: a read fetches one partition of the index, and then one of the table for each row. \
        Nothing if the partition key is given, and nothing for vector search.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "The table's schema with its indexes.",
    source: "\
        Cassandra guardrail `non_partition_restricted_index_query_enabled` (5.0); Cassandra documentation, \
        secondary indexes: when not to use an index",
    cause: Some(Cause::NO_TABLE_FOR_THE_QUERY),
    quantity: Some(Quantity::ROWS_PER_RESPONSE),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run, run_in, run_with, window};
    use cqlens_cql::Product;
    use cqlens_window::Cluster;

    const BAD: &str = "SELECT * FROM shop.users WHERE email = ?";

    fn by_email(times: u64) -> Pattern {
        read(BAD, &[Flag::Index], PartitionClass::Index, times)
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&SecondaryIndexRead, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn it_is_medium_and_high_where_it_is_most_of_the_load() {
        assert_eq!(severity(by_email(100)), Some(Severity::Medium));
        let alone = |times| run(&SecondaryIndexRead, &window([by_email(times)])).findings[0].severity;
        assert_eq!(alone(60), Severity::Info);
        assert_eq!(alone(360_000), Severity::High);
    }

    #[test]
    fn a_vector_search_has_no_partition_to_name() {
        let cql = "SELECT id FROM shop.users ORDER BY embedding ANN OF ? LIMIT 10";
        let search = read(cql, &[Flag::Index, Flag::Limit], PartitionClass::Index, 100);
        assert_eq!(severity(search), None);
    }

    #[test]
    fn a_global_index_is_one_more_lookup() {
        let (window, schema) = (amid([by_email(100)]), Schema::default());
        let cluster = Cluster {
            product: Some(Product::ScyllaDb),
            ..Cluster::default()
        };
        let judgement = run_in(&SecondaryIndexRead, &Context::new(&window, &schema, &cluster));
        let finding = &judgement.findings[0];
        assert_eq!(finding.severity, Severity::Low);
        assert!(finding.title.contains("global index"), "{}", finding.title);
    }

    #[test]
    fn inside_one_partition_an_index_is_fine_and_so_is_a_table_for_the_query() {
        let inside = [Flag::Index, Flag::FullPartitionKey];
        let cql = "SELECT * FROM shop.users WHERE country = ? AND email = ?";
        assert_eq!(
            severity(read(cql, &inside, PartitionClass::Single, 1_000_000)),
            None
        );
        let cql = "SELECT * FROM shop.users_by_email WHERE email = ?";
        let repaired = read(cql, &[Flag::FullPartitionKey], PartitionClass::Single, 1_000_000);
        assert_eq!(severity(repaired), None);
    }

    #[test]
    fn what_filters_is_judged_elsewhere() {
        let mut filtered = by_email(60);
        filtered
            .flags
            .extend([Flag::AllowFiltering, Flag::FilteringNeeded]);
        assert_eq!(severity(filtered), None);
    }

    #[test]
    fn with_a_schema_it_names_the_indexes_and_writes_the_table_that_is_missing() {
        let shop =
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.users (id uuid PRIMARY KEY, email text, name text);
             CREATE INDEX by_email ON shop.users (email) USING 'sai';";
        let schema = Schema::from_cql(shop).unwrap();
        let judgement = run_with(&SecondaryIndexRead, &window([by_email(60)]), &schema);
        let finding = &judgement.findings[0];
        let (name, indexes) = &finding.evidence[0];
        assert_eq!(*name, "table_indexes");
        assert_eq!(indexes.words(), "by_email on email (storage-attached)");
        assert!(finding.suggested_cql[0].contains("\nCREATE TABLE shop.users_by_email ("));
    }

    #[test]
    fn drivers_own_statements_are_not_judged_and_unknown_ones_are_told() {
        let mut system = by_email(60);
        system.head.system = true;
        assert_eq!(severity(system), None);
        let mut unknown = by_email(60);
        unknown.classes = [(PartitionClass::Unknown, 60)].into();
        let judgement = run(&SecondaryIndexRead, &window([unknown]));
        assert_eq!((judgement.findings.len(), judgement.blind_spots.len()), (0, 1));
    }
}
