//! Tables with a bucket behind their partition key.

use super::{
    bucket::{BucketColumn, BucketNumber},
    definition::{free_name, kept, name},
    migration::Migration,
};
use crate::{Context, definition::is_time};
use cqlens_cql::{
    schema::{Column, ColumnKind, DataType, Table, quote},
    syntax::ast::NativeType,
};

/// A span of time whose rows a partition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BucketSpan {
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl BucketSpan {
    /// All, the longest first.
    pub(crate) const ALL: [Self; 5] = [Self::Year, Self::Month, Self::Week, Self::Day, Self::Hour];

    /// How long it is at most.
    pub(crate) fn seconds(self) -> f64 {
        const DAY: f64 = 86_400.0;
        match self {
            Self::Year => 366.0 * DAY,
            Self::Month => 31.0 * DAY,
            Self::Week => 7.0 * DAY,
            Self::Day => DAY,
            Self::Hour => 3_600.0,
        }
    }

    pub(super) fn column(self) -> &'static str {
        match self {
            Self::Year => "year",
            Self::Month => "month",
            Self::Week => "week",
            Self::Day => "day",
            Self::Hour => "hour",
        }
    }

    pub(super) fn data_type(self) -> NativeType {
        match self {
            Self::Hour => NativeType::Timestamp,
            _ => NativeType::Date,
        }
    }

    /// How a column of this name is computed from a time.
    pub(super) fn comment(self, column: &str, of: &str) -> String {
        match self {
            Self::Day => format!("{column}: the day of {of}"),
            Self::Hour => format!("{column}: {of}, cut to the hour"),
            _ => format!("{column}: the first day of the {} of {of}", self.column()),
        }
    }
}

/// How much of a key one partition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BucketWidth {
    /// Where rows are in the order of time.
    pub(crate) span: BucketSpan,
    /// Over how many partitions a key is spread where they are not; none where that is not known.
    pub(crate) buckets: Option<u64>,
}

/// A table like this one whose partitions end with a span of time, where the rows of a partition are in the order of
/// time; else with a hash that spreads them; and the way there. None where that needs a name that is taken.
pub(super) fn with_bucket(table: &Table, width: BucketWidth, context: &Context<'_>) -> Vec<String> {
    let Some(first) = table.clustering().first() else {
        return Vec::new();
    };
    let bucket = match is_time(&first.data_type) {
        true => BucketColumn::of_time(table, (first, first.is_descending()), width.span, None),
        false => {
            let number = width
                .buckets
                .map_or_else(BucketNumber::unknown, BucketNumber::exactly);
            BucketColumn::of_hash(table, &[first], &number)
        }
    };
    divided(table, bucket, context)
}

/// A table like this one whose partitions are divided by a hash, also where rows are in the order of time: what is
/// written now goes to all of them. None where that needs a name that is taken.
pub(super) fn with_hash(table: &Table, context: &Context<'_>) -> Vec<String> {
    let first = table.clustering().first();
    let bucket = first.and_then(|first| BucketColumn::of_hash(table, &[first], &BucketNumber::unknown()));
    divided(table, bucket, context)
}

fn divided(table: &Table, bucket: Option<BucketColumn>, context: &Context<'_>) -> Vec<String> {
    let Some(bucket) = bucket else {
        return Vec::new();
    };
    let Some(created) = with_key_column(table, bucket.column(), context) else {
        return Vec::new();
    };
    let query = format!("SELECT * FROM {} WHERE {};", name(&created), key(&created));
    let migration = Migration {
        from: table,
        to: &created,
        computed: bucket.comment(),
        replaces: true,
        reads: bucket.reads(),
    };
    migration.steps(vec![query], context)
}

/// A table like this one whose rows go hour by hour, as whole partitions; the way there, and how it is read and deleted
/// from.
pub(super) fn by_hour(table: &Table, context: &Context<'_>) -> Vec<String> {
    const HOUR: &str = "hour";
    let column = Column {
        name: HOUR.to_owned(),
        kind: ColumnKind::PartitionKey,
        data_type: DataType::Native(NativeType::Timestamp),
        constraints: Vec::new(),
    };
    let Some(created) = with_key_column(table, column, context) else {
        return Vec::new();
    };
    let (name, key) = (name(&created), key(&created));
    let queries = vec![
        format!("SELECT * FROM {name} WHERE {key} LIMIT ?;"),
        format!("-- an hour that is done goes as a whole: one tombstone\nDELETE FROM {name} WHERE {key};"),
    ];
    let migration = Migration {
        from: table,
        to: &created,
        computed: "-- hour: when the row was written, cut to the hour\n",
        replaces: true,
        reads: " hour by hour",
    };
    migration.drain(queries)
}

/// The table with one more column in its partition key, by another name; none where that is taken.
fn with_key_column(table: &Table, added: Column, context: &Context<'_>) -> Option<Table> {
    let fits = table.column(&added.name).is_none() && !table.clustering().is_empty() && !table.is_counter();
    let mut created = Table {
        name: free_name(table, &added.name, context.schema)?,
        indexes: Default::default(),
        view: None,
        compact_storage: false,
        options: kept(table, context.schema),
        ..table.clone()
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
    use crate::figures;

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
            "-- 1. create the table\n-- hour: when the row was written, cut to the hour\nCREATE TABLE shop.events_by_hour (\n  user text,\n  hour timestamp,\n  \
             at timeuuid,\n  kind text,\n  note text,\n  PRIMARY KEY ((user, hour), at)\n) WITH CLUSTERING ORDER BY (at DESC);"
        );
        assert!(
            cql[3].ends_with("DELETE FROM shop.events_by_hour WHERE user = ? AND hour = ?;"),
            "{cql:?}"
        );
        let whole = cql.join("\n");
        assert!(
            !whole.contains("BATCH") && !whole.contains("token("),
            "what is done would be done again: {whole}"
        );
        assert!(
            whole.ends_with("was moved:\n-- DROP TABLE shop.events;"),
            "{whole}"
        );
        assert_eq!(
            of_table("SELECT * FROM shop.orders WHERE id = ?"),
            Vec::<String>::new()
        );
    }
}
