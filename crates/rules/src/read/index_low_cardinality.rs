//! Indexes on columns with few different values: each value stands for a large part of all rows.

use std::collections::BTreeSet;

use super::{
    About, Findings, Severity, Threshold,
    index::{DROP_AFTER_HOURS, FEWEST_READS, Indexed, indexed, rows},
};
use crate::{Cause, Context, DefinitionPart, EvidenceValue, Finding, KnownFrom, Quantity, Rule};
use cqlens_cql::{
    schema::{DataType, Index, IndexClass, TableName},
    syntax::ast::NativeType,
};
use cqlens_window::number;

pub(crate) struct IndexLowCardinality;

impl Rule for IndexLowCardinality {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let schema = context.schema;
        let mut judged = BTreeSet::new();
        for indexed in indexed(context, schema) {
            if is_asked_in_partitions_only(&indexed) {
                continue;
            }
            if let Some(evidence) = RowsPerValue::of(found, &indexed, context) {
                found.push(evidence.finding(found, &indexed, context));
                judged.insert(indexed.index.name.as_str());
            }
        }
        for (name, index) in of_booleans(context).filter(|(_, index)| !judged.contains(index.name.as_str())) {
            found.push(by_type(&name, index, context));
        }
    }
}

/// Indexes that can hold two values, whatever is written. A storage-attached one may be asked within partitions.
fn of_booleans<'a>(context: &Context<'a>) -> impl Iterator<Item = (TableName, &'a Index)> {
    context.tables().flat_map(|(name, table)| {
        let is_boolean = |index: &&Index| match index.targets.as_slice() {
            [target] => table
                .column(&target.column)
                .is_some_and(|column| column.data_type == DataType::Native(NativeType::Boolean)),
            _ => false,
        };
        let indexes = table.indexes.values();
        let legacy = indexes.filter(|index| index.class == IndexClass::Legacy);
        legacy
            .filter(is_boolean)
            .map(move |index| (name.clone(), index))
            .collect::<Vec<_>>()
    })
}

fn by_type(name: &TableName, index: &Index, context: &Context<'_>) -> Finding {
    let column = index.targets.first().map(|target| target.column.clone());
    let column = column.unwrap_or_default();
    let title = format!("The index on `{name}.{column}`, a boolean, can cover only two values");
    let finding = Finding::on_definition(&ABOUT, Severity::Low, context);
    let finding = match context.is_scylladb() {
        true => finding.advice(GLOBAL),
        false => finding,
    };
    finding
        .of_table(name)
        .of_part(DefinitionPart::Index(index.name.clone()))
        .about(column)
        .title(title)
        .first(
            "known_from",
            EvidenceValue::KnownFrom(vec![KnownFrom::ColumnType]),
        )
        .first("index", index.name.clone())
}

/// Within a partition a storage-attached index narrows down what is read there: what it was made for.
fn is_asked_in_partitions_only(indexed: &Indexed<'_>) -> bool {
    let column = indexed.column;
    indexed.index.class == IndexClass::Sai && column.reads == 0 && column.reads_in_partition > 0
}

/// Where the number of values comes from.
struct RowsPerValue {
    values: u64,
    rows_per_value: f64,
    known_from: KnownFrom,
}

impl RowsPerValue {
    /// What is written says it best. Where little is written, reads that ask for few values and get many rows
    /// do.
    fn of(found: &Findings<'_>, indexed: &Indexed<'_>, context: &Context<'_>) -> Option<Self> {
        let [few, crowded, fewest] =
            [&FEW_VALUES, &ROWS_PER_VALUE, &FEWEST_READS].map(|threshold| found.threshold(&ABOUT, threshold));
        let column = indexed.column;
        let written = Self {
            values: column.values.estimate(),
            rows_per_value: column.rows.estimate() as f64 / column.values.estimate().max(1) as f64,
            known_from: KnownFrom::WrittenValues,
        };
        if written.is_low(few, crowded) {
            return Some(written);
        }
        let rows = rows(&indexed.reads(context));
        let read = Self {
            values: column.asked.estimate(),
            rows_per_value: rows.quantile(0.5) as f64,
            known_from: KnownFrom::QueriedValues,
        };
        // Other values that were written speak against it.
        let is_known = rows.count() as f64 >= fewest && column.values.estimate() as f64 <= few;
        (is_known && read.is_low(few, crowded)).then_some(read)
    }

    fn is_low(&self, few: f64, crowded: f64) -> bool {
        self.values > 0 && self.values as f64 <= few && self.rows_per_value >= crowded
    }

    fn finding(self, found: &Findings<'_>, indexed: &Indexed<'_>, context: &Context<'_>) -> Finding {
        let (column, reads) = (indexed.column, indexed.reads(context));
        let severity = indexed.severity(found, &reads, context);
        let title = format!(
            "The index on {} covers only {} (about {} each)",
            indexed.title(),
            number::plural(self.values, "distinct value", "distinct values"),
            rows_each(self.rows_per_value),
        );
        let migration = indexed.migration((found, &ABOUT), &reads, context);
        let finding = Finding::on_all(&ABOUT, severity, reads, context);
        let finding = if context.is_scylladb() {
            finding.advice(GLOBAL)
        } else if context.has_sai() == Some(false) {
            finding
        } else {
            finding.advice(format!("{} {WITH_SAI}", ABOUT.fix))
        };
        finding
            .of_table(&indexed.name.table)
            .about(indexed.name.column.clone())
            .title(title)
            .first("known_from", EvidenceValue::KnownFrom(vec![self.known_from]))
            .first("reads_within_a_partition", column.reads_in_partition)
            .first("reads_of_the_index", column.reads)
            .first("writes_of_the_column", column.inserts + column.updates)
            .first("rows_per_value", self.rows_per_value.round())
            .first("values", self.values)
            .first("index", indexed.index.name.clone())
            .wish(migration)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a ratio of counts"
)]
fn rows_each(rows: f64) -> String {
    number::plural(rows.round() as u64, "row", "rows")
}

const GLOBAL: &str = "\
    ScyllaDB stores the index as a table with the indexed column as its partition key: each value is one \
    partition, which grows with the table and is written and read on the same few nodes. Create a table for \
    the query with a bucket, such as the day, beside the column in its partition key; or a local index, \
    `((partition key), column)`, if queries name the partition.";

/// What servers that have such indexes can do besides.
const WITH_SAI: &str = "\
    If queries name the partition, a storage-attached index (Cassandra 5.0 and later) narrows the rows \
    within it.";

const FEW_VALUES: Threshold = Threshold {
    name: "few_values",
    unit: "distinct values",
    default: 20.0,
    origin: "cqlens default: states, kinds and titles have fewer; the documentation mentions booleans",
};

const ROWS_PER_VALUE: Threshold = Threshold {
    name: "rows_per_value",
    unit: "rows",
    default: 100.0,
    origin: "cqlens default: a page of results; an index is made for fewer rows per value",
};

const ABOUT: About = About {
    id: "index-low-cardinality",
    group: "read shape",
    summary: "\
        An indexed column has few distinct values, so that each of them covers a large part of all rows.",
    why: "A legacy index is a hidden table on each node with one partition per value. With few values, these \
        partitions grow with the table, nearly every write updates them, and every query reads them: a \
        result is a large part of the table, gathered row by row from all nodes. A storage-attached index \
        has no such partitions, but its results are as large.",
    fix: "\
        Put the column into the partition key of a table that serves the query, together with a bucket that \
        keeps partitions small, such as the day. Once no query needs the index, drop it.",
    fix_in_short: "Table by value, bucketed",
    before: "CREATE INDEX ON lab.orders (status);\nSELECT * FROM lab.orders WHERE status = 'open';",
    after: "CREATE TABLE lab.orders_by_status (status text, day date, id uuid,\n  PRIMARY KEY ((status, day), id));\n\
            SELECT * FROM lab.orders_by_status WHERE status = 'open' AND day = ?;",
    severity: "\
        Medium up to `few_values` distinct values with `rows_per_value` rows or more each, of at least \
        `fewest_reads` if reads show it; low for storage-attached indexes, and nothing if queries use them \
        only within partitions. Low for a legacy index on a boolean, even without traffic. `DROP INDEX` is \
        among the suggested steps once all traffic has been observed for `drop_after_hours`.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[FEW_VALUES, ROWS_PER_VALUE, FEWEST_READS, DROP_AFTER_HOURS],
    needs: "\
        The schema, and writes that set the column or reads that restrict it; values of collections cannot \
        be distinguished. Distinct values are counted exactly while they are few, else by a sketch with an \
        error of 2.3 %.",
    source: "Cassandra documentation, secondary indexes: when not to use an index (low-cardinality columns)",
    cause: Some(Cause::NO_TABLE_FOR_THE_QUERY),
    quantity: Some(Quantity::ROWS_PER_RESPONSE),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        read::index::testing::{schema, window},
        testing::{run_in, run_with},
    };
    use cqlens_window::Cluster;

    fn severity(window: &cqlens_window::Window) -> Option<Severity> {
        let judgement = run_with(&IndexLowCardinality, window, &schema());
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_class_and_what_the_reads_cost() {
        assert_eq!(severity(&window("status", 450, 4, 0)), Some(Severity::Info));
        assert_eq!(severity(&window("status", 450, 4, 450)), Some(Severity::Medium));
        assert_eq!(severity(&window("kind", 450, 4, 450)), Some(Severity::Low));
    }

    #[test]
    fn a_boolean_has_two_values_whatever_is_written() {
        let found = |column: &str, class: &str| {
            let cql = format!(
                "CREATE KEYSPACE lab WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
                 CREATE TABLE lab.users (id int PRIMARY KEY, active {column});
                 CREATE INDEX by_active ON lab.users (active) {class};"
            );
            let schema = cqlens_cql::schema::Schema::from_cql(&cql).unwrap();
            let (window, cluster) = (crate::testing::window([]), Cluster::default());
            let context = Context::new(&window, &schema, &cluster).of_whole_schema();
            let findings = run_in(&IndexLowCardinality, &context).findings.into_iter();
            findings
                .map(|finding| (finding.severity, finding.title))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found("boolean", ""),
            [(
                Severity::Low,
                "The index on `lab.users.active`, a boolean, can cover only two values".to_owned()
            )]
        );
        assert_eq!(found("boolean", "USING 'sai'"), []);
        assert_eq!(found("text", ""), []);
    }

    #[test]
    fn many_values_or_few_rows_each_are_fine() {
        assert_eq!(severity(&window("status", 380, 4, 60)), None);
        assert_eq!(severity(&window("status", 4_200, 21, 60)), None);
        assert_eq!(severity(&window("email", 1_000, 1_000, 60)), None);
    }

    #[test]
    fn a_storage_attached_index_within_partitions_is_fine() {
        let mut window = window("kind", 450, 4, 0);
        for column in window.indexed.values_mut() {
            column.reads_in_partition = 1_000;
        }
        assert_eq!(severity(&window), None);
    }

    #[test]
    fn reads_of_many_rows_say_it_too_where_nothing_is_written() {
        let mut window = window("status", 0, 0, 600);
        for column in window.indexed.values_mut() {
            (0..3).for_each(|value| column.asked.insert(value));
        }
        assert_eq!(severity(&window), None, "one row each");
        for pattern in window.patterns.values_mut() {
            pattern.rows = cqlens_window::Distribution::default();
            pattern.rows.record_n(500, pattern.count);
        }
        assert!(severity(&window).is_some());
    }

    /// What is suggested after so many seconds.
    fn suggested(seconds: f64, change: fn(&mut cqlens_window::Window)) -> String {
        let mut window = window("status", 450, 4, 60);
        window.observed_seconds = seconds;
        change(&mut window);
        let judgement = run_with(&IndexLowCardinality, &window, &schema());
        judgement.findings[0].suggested_cql.join("\n")
    }

    #[test]
    fn to_drop_the_index_is_the_last_step_where_all_traffic_was_seen_for_a_day() {
        const DAY: f64 = 86_400.0;
        let drop = "\n-- 5. once no query uses the index any more:\n-- DROP INDEX lab.by_status;";
        let whole = suggested(DAY, |_| {});
        assert!(
            whole.contains("-- 4. read the new table") && whole.ends_with(drop),
            "{whole}"
        );
        let soon = suggested(DAY - 1.0, |_| {});
        assert!(soon.contains("-- 4.") && !soon.contains("DROP"), "{soon}");
        let bypassed = suggested(DAY, |window| window.coverage.bypassed = true);
        assert!(
            bypassed.contains("-- 4.") && !bypassed.contains("DROP"),
            "{bypassed}"
        );
        let unread = suggested(DAY, |window| {
            window.patterns.retain(|_, pattern| !pattern.head.kind.is_read());
        });
        assert_eq!(unread, "", "nothing takes its place");
    }

    #[test]
    fn storage_attached_indexes_are_advised_where_servers_have_them() {
        let advises = |version: &str| {
            let (window, schema) = (window("status", 450, 4, 60), schema());
            let cluster = Cluster {
                release_version: Some(version.to_owned()),
                ..Cluster::default()
            };
            let judgement = run_in(&IndexLowCardinality, &Context::new(&window, &schema, &cluster));
            judgement.findings[0].advice.contains("storage-attached")
        };
        assert!(advises("5.0.6"));
        assert!(!advises("4.1.8"));
        assert!(!ABOUT.fix.contains("storage-attached"));
    }

    #[test]
    fn the_finding_names_the_index_and_its_numbers() {
        let judgement = run_with(&IndexLowCardinality, &window("status", 450, 4, 60), &schema());
        let finding = &judgement.findings[0];
        assert!(
            finding
                .title
                .starts_with("The index on `lab.orders.status` covers only 4 distinct values (about 11"),
            "{}",
            finding.title
        );
        assert_eq!(finding.evidence[0], ("index", "by_status".into()));
        assert!(
            finding.suggested_cql[0].contains("\nCREATE TABLE lab."),
            "{:?}",
            finding.suggested_cql
        );
        assert_eq!(finding.subject.as_deref(), Some("status"));
        assert_eq!(finding.table.as_deref(), Some("orders"));
    }
}
