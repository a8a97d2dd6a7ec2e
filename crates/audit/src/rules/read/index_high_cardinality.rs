//! Indexes on columns in which nearly every row has a value of its own: all nodes are asked for one row.

use super::{
    About, Findings, Severity, Threshold,
    index::{FEWEST_READS, INDEX_PER_HOUR, Indexed, indexed, rows},
    suggest,
};
use crate::{
    number,
    rules::{
        Finding, Rule,
        figures::{OFTEN_PER_SECOND, share},
    },
    window::Window,
};
use cqlens_cql::schema::{DataType, Schema};

pub(in crate::rules) struct IndexHighCardinality;

impl Rule for IndexHighCardinality {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, schema: &Schema, found: &mut Findings<'_>) {
        for indexed in indexed(window, schema).filter(|indexed| !is_vector(indexed, schema)) {
            let column = indexed.column;
            // Within a partition the index is asked where the row is.
            if column.reads == 0 && column.reads_in_partition > 0 {
                continue;
            }
            let many = found.threshold(&ABOUT, &MANY_VALUES);
            let nearly_all = found.threshold(&ABOUT, &DISTINCT_SHARE);
            if let Some(evidence) = Evidence::of(&indexed, window, many, nearly_all) {
                let severity = indexed.severity(found, &ABOUT, window);
                found.push(evidence.finding(severity, &indexed, window, schema));
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
struct Evidence {
    values: u64,
    rows: u64,
    level: &'static str,
}

impl Evidence {
    /// What is written says it best. Where little is written, reads that ask for many values and get a row at
    /// most do.
    fn of(indexed: &Indexed<'_>, window: &Window, many: f64, nearly_all: f64) -> Option<Self> {
        let column = indexed.column;
        let (values, rows_written) = (column.values.estimate(), column.rows.estimate());
        if values as f64 >= many && share(values, rows_written) >= nearly_all {
            return Some(Self {
                values,
                rows: rows_written,
                level: "inferred from values that were written",
            });
        }
        let (asked, rows) = (column.asked.estimate(), rows(&indexed.reads(window)));
        let finds_one = rows.count() >= FEWEST_READS && rows.quantile(0.99) == 1;
        let is_contradicted = values as f64 >= many;
        (finds_one && !is_contradicted && asked as f64 >= many).then_some(Self {
            values: asked,
            rows: asked,
            level: "inferred from values that were asked for, and the rows of the answers",
        })
    }

    fn finding(self, severity: Severity, indexed: &Indexed<'_>, window: &Window, schema: &Schema) -> Finding {
        let (column, reads) = (indexed.column, indexed.reads(window));
        let title = format!(
            "The index on {} has about {} for {}: all nodes are asked for one row",
            indexed.title(),
            number::plural(self.values, "value", "values"),
            number::plural(self.rows, "row", "rows"),
        );
        let suggestion = reads
            .iter()
            .find_map(|(_, pattern)| suggest::table_for(pattern, schema));
        Finding::on_all(&ABOUT, severity, reads, window)
            .of_table(&indexed.name.table)
            .title(title)
            .first("evidence_level", self.level)
            .first("reads_within_a_partition", column.reads_in_partition)
            .first("reads_of_the_index", column.reads)
            .first("writes_of_the_column", column.inserts + column.updates)
            .first("rows", self.rows)
            .first("values", self.values)
            .first("index", indexed.index.name.clone())
            .suggest(suggestion.into_iter().flat_map(|suggestion| suggestion.cql))
    }
}

const MANY_VALUES: Threshold = Threshold {
    name: "many_values",
    unit: "different values",
    default: 500.0,
    origin: "own choice: fewer may be unique by chance",
};

const DISTINCT_SHARE: Threshold = Threshold {
    name: "distinct_share",
    unit: "values for each row",
    default: 0.9,
    origin: "own choice: nearly unique, less the error of the sketch",
};

const ABOUT: About = About {
    id: "index-high-cardinality",
    group: "read shape",
    summary: "An indexed column has a value of its own in nearly every row: all nodes are asked to find one of them.",
    why: "\
        An index knows the rows of its own node only. A value that one row in the cluster has is looked for on \
        the replicas of every range; all but one of them find nothing. A table with that column as partition \
        key finds the row on its replicas at once, and costs as many writes as the index.",
    fix: "\
        Keep a table whose partition key is the column, and write both in one logged batch. Or give the \
        partition key as well. Then drop the index.",
    before: "CREATE INDEX ON lab.users (email);\nSELECT * FROM lab.users WHERE email = ?;",
    after: "CREATE TABLE lab.users_by_email (email text PRIMARY KEY, id uuid, name text);\n\
            SELECT * FROM lab.users_by_email WHERE email = ?;",
    severity: "\
        From `many_values` different values, as many as `distinct_share` of the rows: high from \
        `often_per_second` reads a second that ask all nodes, medium from `index_per_hour` reads an hour, low \
        below; one step down for storage-attached indexes. Nothing where the index is asked within partitions \
        only, and nothing for vectors.",
    thresholds: &[MANY_VALUES, DISTINCT_SHARE, INDEX_PER_HOUR, OFTEN_PER_SECOND],
    needs: "\
        The schema, and writes that give the column a value or reads that ask for one. Different values are \
        counted by a sketch with an error of 2.3 %; values of collections are not told apart.",
    source: "Cassandra documentation, secondary indexes: when not to use an index (high-cardinality columns)",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{
        read::index::testing::{schema, window},
        testing::run_with,
    };

    fn severity(window: &Window) -> Option<Severity> {
        let judgement = run_with(&IndexHighCardinality, window, &schema());
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_reads_that_ask_all_nodes() {
        assert_eq!(severity(&window("email", 600, 600, 0)), Some(Severity::Low));
        assert_eq!(severity(&window("email", 600, 600, 60)), Some(Severity::Medium));
        assert_eq!(
            severity(&window("email", 600, 600, 360_000)),
            Some(Severity::High)
        );
        assert_eq!(severity(&window("kind", 600, 600, 60)), Some(Severity::Low));
    }

    #[test]
    fn values_that_several_rows_share_are_fine_and_so_are_few_rows() {
        assert_eq!(severity(&window("email", 2_000, 1_000, 60)), None);
        assert_eq!(severity(&window("email", 400, 400, 60)), None);
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
        assert!(finding.suggested_cql[0].starts_with("CREATE TABLE lab.orders_by_email ("));
    }
}
