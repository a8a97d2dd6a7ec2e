//! Tables with a bucket behind their partition key.

use super::definition::{LONGEST_NAME, create, kept, name, plain};
use crate::rules::{Context, definition::is_time};
use cqlens_cql::{
    schema::{Column, ColumnKind, DataType, Table, quote},
    syntax::ast::NativeType,
};

/// A span of time whose rows a partition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rules) enum BucketSpan {
    Year,
    Month,
    Week,
    Day,
    Hour,
}

impl BucketSpan {
    /// All, the longest first.
    pub(in crate::rules) const ALL: [Self; 5] = [Self::Year, Self::Month, Self::Week, Self::Day, Self::Hour];

    /// How long it is at most.
    pub(in crate::rules) fn seconds(self) -> f64 {
        const DAY: f64 = 86_400.0;
        match self {
            Self::Year => 366.0 * DAY,
            Self::Month => 31.0 * DAY,
            Self::Week => 7.0 * DAY,
            Self::Day => DAY,
            Self::Hour => 3_600.0,
        }
    }

    fn column(self) -> &'static str {
        match self {
            Self::Year => "year",
            Self::Month => "month",
            Self::Week => "week",
            Self::Day => "day",
            Self::Hour => "hour",
        }
    }

    fn data_type(self) -> NativeType {
        match self {
            Self::Hour => NativeType::Timestamp,
            _ => NativeType::Date,
        }
    }

    /// How a value is computed from a time.
    fn comment(self, of: &str) -> String {
        let column = self.column();
        match self {
            Self::Day => format!("-- {column}: the day of {of}"),
            Self::Hour => format!("-- {column}: {of}, cut to the hour"),
            _ => format!("-- {column}: the first day of the {column} of {of}"),
        }
    }
}

/// How much of a key one partition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rules) struct BucketWidth {
    /// Where rows are in the order of time.
    pub(in crate::rules) span: BucketSpan,
    /// Over how many partitions a key is spread where they are not; none where that is not known.
    pub(in crate::rules) buckets: Option<u64>,
}

/// A table like this one whose partitions end with a span of time, where the rows of a partition are in the order of
/// time; else with a hash that spreads them. None where that needs a name that is taken.
pub(in crate::rules) fn with_bucket(table: &Table, width: BucketWidth, context: &Context<'_>) -> Vec<String> {
    let BucketWidth { span, buckets } = width;
    let Some(first) = table.clustering().first() else {
        return Vec::new();
    };
    let of = quote(&first.name);
    let (suffix, column, data_type, comment, reads) = match is_time(&first.data_type) {
        true => (
            span.column(),
            span.column(),
            span.data_type(),
            span.comment(&of),
            format!(
                "-- one {} after the other, until there are rows enough",
                span.column()
            ),
        ),
        false => (
            "bucket",
            "bucket",
            NativeType::Int,
            match buckets {
                Some(buckets) => format!("-- bucket: hash of {of} modulo {buckets}"),
                None => {
                    format!(
                        "-- bucket: hash of {of} modulo the number of partitions that a key is spread over"
                    )
                }
            },
            "-- all buckets at the same time; the one of a row that is known".to_owned(),
        ),
    };
    let Some(created) = with_key_column(table, suffix, (column, data_type), context) else {
        return Vec::new();
    };
    let reads = format!(
        "{reads}\nSELECT * FROM {} WHERE {};",
        name(&created),
        key(&created)
    );
    vec![format!("{comment}\n{}", create(&created)), reads]
}

/// A table like this one whose rows go hour by hour, as whole partitions, and how it is read and deleted from.
pub(in crate::rules) fn by_hour(table: &Table, context: &Context<'_>) -> Vec<String> {
    const HOUR: &str = "hour";
    let Some(created) = with_key_column(table, HOUR, (HOUR, NativeType::Timestamp), context) else {
        return Vec::new();
    };
    let (name, key) = (name(&created), key(&created));
    vec![
        format!(
            "-- {HOUR}: when the row was written, cut to the hour\n{}",
            create(&created)
        ),
        format!(
            "-- read from the hour that is worked on; the next one once it is empty\nSELECT * FROM {name} WHERE {key} LIMIT ?;"
        ),
        format!("-- an hour that is done goes as a whole: one tombstone\nDELETE FROM {name} WHERE {key};"),
    ]
}

/// The table with one more column in its partition key, by another name; none where that is taken or too long.
fn with_key_column(
    table: &Table,
    suffix: &str,
    (column, data_type): (&str, NativeType),
    context: &Context<'_>,
) -> Option<Table> {
    let created_name = plain(&format!("{}_by_{suffix}", table.name));
    let fits = created_name.len() <= LONGEST_NAME
        && context.schema.table(&table.keyspace, &created_name).is_none()
        && table.column(column).is_none()
        && !table.clustering().is_empty()
        && !table.is_counter();
    let mut created = Table {
        name: created_name,
        indexes: Default::default(),
        view: None,
        compact_storage: false,
        options: kept(table),
        ..table.clone()
    };
    let added = Column {
        name: column.to_owned(),
        kind: ColumnKind::PartitionKey,
        data_type: DataType::Native(data_type),
    };
    created.columns.insert(table.partition_key().len(), added);
    fits.then_some(created)
}

/// The whole partition key, as a WHERE clause has it.
fn key(table: &Table) -> String {
    let key = table.partition_key().iter();
    let key: Vec<_> = key.map(|column| format!("{} = ?", quote(&column.name))).collect();
    key.join(" AND ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{super::testing::said, *};
    use crate::rules::figures;

    #[test]
    fn rows_that_go_get_a_partition_for_each_hour() {
        let of_table = |cql| {
            said(cql, |pattern, context| {
                by_hour(figures::definition(pattern, context.schema).unwrap(), context)
            })
        };
        let cql = of_table("SELECT * FROM shop.events WHERE user = ?");
        assert_eq!(
            cql[0],
            "-- hour: when the row was written, cut to the hour\nCREATE TABLE shop.events_by_hour (\n  user text,\n  hour timestamp,\n  \
             at timeuuid,\n  kind text,\n  note text,\n  PRIMARY KEY ((user, hour), at)\n) WITH CLUSTERING ORDER BY (at DESC);"
        );
        assert!(
            cql[2].ends_with("DELETE FROM shop.events_by_hour WHERE user = ? AND hour = ?;"),
            "{cql:?}"
        );
        assert_eq!(
            of_table("SELECT * FROM shop.orders WHERE id = ?"),
            Vec::<String>::new()
        );
    }
}
