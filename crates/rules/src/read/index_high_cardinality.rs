//! Indexes on columns in which nearly every row has a value of its own: all nodes are asked for one row.

use super::{
    About, Findings, Threshold,
    index::{DROP_AFTER_HOURS, FEWEST_READS, Indexed, indexed, rows},
};
use crate::{Cause, Context, EvidenceValue, Finding, KnownFrom, Rule, Severity, figures::share};
use cqlens_cql::schema::{DataType, Schema};
use cqlens_window::number;

pub(crate) struct IndexHighCardinality;

impl Rule for IndexHighCardinality {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let schema = context.schema;
        // ScyllaDB keeps an index as one table for the whole cluster: a lookup asks one of its partitions.
        if context.is_scylladb() {
            return;
        }
        for indexed in indexed(context, schema).filter(|indexed| !is_vector(indexed, schema)) {
            let column = indexed.column;
            // Within a partition the index is asked where the row is.
            if column.reads == 0 && column.reads_in_partition > 0 {
                continue;
            }
            // What looks for a range finds many rows.
            if !indexed.is_asked_for_values(context) {
                continue;
            }
            if let Some(evidence) = DistinctValues::of(found, &indexed, context) {
                found.push(evidence.finding(found, &indexed, context));
            }
        }
    }
}

/// Of vectors it is the neighbours that are looked for.
fn is_vector(indexed: &Indexed<'_>, schema: &Schema) -> bool {
    let name = &indexed.name.table;
    let table = schema.table(&name.keyspace, &name.table);
    let column = table.and_then(|table| table.column(&indexed.name.column));
    column.is_some_and(|column| matches!(column.data_type, DataType::Vector(..)))
}

/// Where the number of values comes from.
struct DistinctValues {
    values: u64,
    rows: u64,
    known_from: KnownFrom,
}

impl DistinctValues {
    /// What is written says it best. Where little is written, reads that ask for many values and get a row at
    /// most do.
    fn of(found: &Findings<'_>, indexed: &Indexed<'_>, context: &Context<'_>) -> Option<Self> {
        let [many, nearly_all, fewest] = [&MANY_VALUES, &DISTINCT_SHARE, &FEWEST_READS]
            .map(|threshold| found.threshold(&ABOUT, threshold));
        let column = indexed.column;
        let (values, rows_written) = (column.values.estimate(), column.rows.estimate());
        if values as f64 >= many && share(values, rows_written) >= nearly_all {
            return Some(Self {
                // Both are estimates, and a row has one value at a time.
                values: values.min(rows_written),
                rows: rows_written,
                known_from: KnownFrom::WrittenValues,
            });
        }
        let (asked, rows) = (column.asked.estimate(), rows(&indexed.reads(context)));
        let finds_one = rows.count() as f64 >= fewest && rows.quantile(0.99) == 1;
        let is_contradicted = values as f64 >= many;
        (finds_one && !is_contradicted && asked as f64 >= many).then_some(Self {
            values: asked,
            rows: asked,
            known_from: KnownFrom::QueriedValues,
        })
    }

    fn finding(self, found: &Findings<'_>, indexed: &Indexed<'_>, context: &Context<'_>) -> Finding {
        let (column, reads) = (indexed.column, indexed.reads(context));
        let severity = indexed.severity(found, &reads, context);
        let title = format!(
            "The index on {} has about {} in {}: each lookup queries all nodes for a few rows",
            indexed.title(),
            number::plural(self.values, "distinct value", "distinct values"),
            number::plural(self.rows, "row", "rows"),
        );
        let migration = indexed.migration((found, &ABOUT), &reads, context);
        Finding::on_all(&ABOUT, severity, reads, context)
            .of_table(&indexed.name.table)
            .about(indexed.name.column.clone())
            .title(title)
            .first("known_from", EvidenceValue::KnownFrom(vec![self.known_from]))
            .first("reads_within_a_partition", column.reads_in_partition)
            .first("reads_of_the_index", column.reads)
            .first("writes_of_the_column", column.inserts + column.updates)
            .first("rows", self.rows)
            .first("values", self.values)
            .first("index", indexed.index.name.clone())
            .wish(migration)
    }
}

const MANY_VALUES: Threshold = Threshold {
    name: "many_values",
    unit: "distinct values",
    default: 100.0,
    origin: "cqlens default: fewer may be unique by chance",
};

const DISTINCT_SHARE: Threshold = Threshold {
    name: "distinct_share",
    unit: "distinct values per row",
    default: 0.9,
    origin: "cqlens default: nearly unique, minus the error of the sketch",
};

const ABOUT: About = About {
    id: "index-high-cardinality",
    group: "read shape",
    summary: "\
        An indexed column has a unique value in nearly every row: each lookup queries all nodes to find one \
        row.",
    why: "\
        An index covers only the rows of its own node. To find a value that a single row in the cluster has, \
        the coordinator queries the replicas of every token range, and all but one find nothing. A table \
        with that column as its partition key finds the row on its replicas at once, and costs as many \
        writes as the index.",
    fix: "Create a table whose partition key is the column, and write both in one logged batch; or restrict \
        the partition key as well. Once no query needs the index, drop it.",
    fix_in_short: "Table by this column",
    before: "CREATE INDEX ON lab.users (email);\nSELECT * FROM lab.users WHERE email = ?;",
    after: "CREATE TABLE lab.users_by_email (email text PRIMARY KEY, id uuid, name text);\n\
            SELECT * FROM lab.users_by_email WHERE email = ?;",
    severity: "\
        Medium from `many_values` distinct values, if they are at least `distinct_share` of the rows, or of \
        `fewest_reads` or more if reads show it; low for storage-attached indexes. Nothing if queries use \
        the index only within partitions or for ranges of values, for vectors, and in ScyllaDB, whose \
        indexes are global: there a lookup reads one index partition. `DROP INDEX` is among the suggested \
        steps once all traffic has been observed for `drop_after_hours`.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[MANY_VALUES, DISTINCT_SHARE, FEWEST_READS, DROP_AFTER_HOURS],
    needs: "\
        The schema, and writes that set the column or reads that restrict it. Distinct values are counted by \
        a sketch with an error of 2.3 %; values of collections cannot be distinguished.",
    source: "Cassandra documentation, secondary indexes: when not to use an index (high-cardinality columns)",
    cause: Some(Cause::NO_TABLE_FOR_THE_QUERY),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;
    use crate::{
        read::index::testing::{schema, window},
        testing::{run_in, run_with},
    };
    use cqlens_cql::Product;
    use cqlens_window::Cluster;

    fn severity(window: &cqlens_window::Window) -> Option<Severity> {
        let judgement = run_with(&IndexHighCardinality, window, &schema());
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_class_and_what_the_reads_cost() {
        assert_eq!(severity(&window("email", 600, 600, 0)), Some(Severity::Info));
        assert_eq!(severity(&window("email", 600, 600, 600)), Some(Severity::Medium));
        assert_eq!(severity(&window("kind", 600, 600, 600)), Some(Severity::Low));
    }

    #[test]
    fn a_global_index_is_made_for_it() {
        let (window, schema) = (window("email", 600, 600, 600), schema());
        let cluster = Cluster {
            product: Some(Product::ScyllaDb),
            ..Cluster::default()
        };
        let judgement = run_in(&IndexHighCardinality, &Context::new(&window, &schema, &cluster));
        assert_eq!(judgement.findings, []);
    }

    #[test]
    fn values_that_several_rows_share_are_fine_and_so_are_few_rows() {
        assert_eq!(severity(&window("email", 2_000, 1_000, 60)), None);
        assert_eq!(severity(&window("email", 80, 80, 60)), None);
        assert!(severity(&window("email", 400, 400, 60)).is_some());
    }

    #[test]
    fn an_index_that_is_asked_within_partitions_is_fine() {
        let mut window = window("email", 600, 600, 0);
        for column in window.indexed.values_mut() {
            column.reads_in_partition = 1_000;
        }
        assert_eq!(severity(&window), None);
    }

    #[test]
    fn reads_of_one_row_say_it_too_where_nothing_is_written() {
        let mut window = window("email", 0, 0, 600);
        assert_eq!(severity(&window), None);
        for column in window.indexed.values_mut() {
            (0..600).for_each(|value| column.asked.insert(value));
        }
        assert_eq!(severity(&window), Some(Severity::Medium));
    }

    #[test]
    fn the_table_that_serves_the_query_is_written() {
        let judgement = run_with(&IndexHighCardinality, &window("email", 600, 600, 60), &schema());
        let finding = &judgement.findings[0];
        assert!(
            finding
                .title
                .starts_with("The index on `lab.orders.email` has about "),
            "{}",
            finding.title
        );
        assert!(finding.suggested_cql[0].contains("\nCREATE TABLE lab.orders_by_email ("));
    }
}
