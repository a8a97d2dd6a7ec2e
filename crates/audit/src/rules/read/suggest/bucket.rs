//! The bucket that a partition key needs.

use cqlens_cql::{
    plan::Flag,
    schema::{Column, ColumnName, DataType, Table, TableName, quote},
    syntax::ast::NativeType,
};

use super::wanted::Wanted;
use crate::{
    rules::{Context, definition::is_time},
    window::Pattern,
};

/// A column of the partition key that spreads the rows of one value over several partitions.
pub(super) struct Bucket {
    pub(super) name: String,
    pub(super) data_type: DataType,
    /// What it is computed from.
    of: String,
}

impl Bucket {
    /// Into how many partitions a value is spread where no time tells them apart.
    const COUNT: u32 = 16;

    fn is_day(&self) -> bool {
        self.data_type == DataType::Native(NativeType::Date)
    }

    pub(super) fn comment(&self) -> String {
        let Self { name, of, .. } = self;
        match self.is_day() {
            true => format!("-- {name}: the day of {of}\n"),
            false => format!("-- {name}: hash of {of} modulo {}\n", Self::COUNT),
        }
    }

    pub(super) fn reads(&self) -> String {
        match self.is_day() {
            true => ", day by day".to_owned(),
            false => format!(", all {} buckets at the same time", Self::COUNT),
        }
    }
}

impl Wanted<'_> {
    /// The bucket that the partition key needs: where its columns have few values, or a value has many rows.
    pub(super) fn bucket(&self, pattern: &Pattern, table: &Table, context: &Context<'_>) -> Option<Bucket> {
        // What names its partition is spread already.
        let names_partition = pattern.is(Flag::FullPartitionKey);
        let is_crowded = pattern.paging.rows.quantile(0.99) >= CROWDED_ROWS;
        let have_few = self
            .partition_key
            .iter()
            .all(|column| has_few_values(column, table, context));
        if !have_few && (names_partition || !is_crowded) {
            return None;
        }
        let free = ["bucket", "spread", "part"];
        let name = free.iter().find(|name| table.column(name).is_none())?;
        let time = self.clustering.first().map(|(column, _)| *column);
        let time = time.filter(|column| is_time(&column.data_type));
        let of = time.or_else(|| table.columns.first())?;
        let data_type = match time {
            Some(_) => NativeType::Date,
            None => NativeType::Int,
        };
        Some(Bucket {
            name: (*name).to_owned(),
            data_type: DataType::Native(data_type),
            of: quote(&of.name).into_owned(),
        })
    }
}

pub(super) fn is_boolean(column: &Column) -> bool {
    column.data_type == DataType::Native(NativeType::Boolean)
}

/// Whether a column is known to have so few values that each is on many rows.
fn has_few_values(column: &Column, table: &Table, context: &Context<'_>) -> bool {
    if is_boolean(column) {
        return true;
    }
    let name = ColumnName {
        table: TableName {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
        },
        column: column.name.clone(),
    };
    let written = context.window.indexed.get(&name);
    written.is_some_and(|written| {
        let values = written.values.estimate();
        (1..=FEW_VALUES).contains(&values) && written.rows.estimate() >= values * CROWDED_VALUE
    })
}

/// Values of a column that are few.
const FEW_VALUES: u64 = 20;

/// Rows of each that are many, in the time of one observation.
const CROWDED_VALUE: u64 = 100;

/// Rows of one read that are many for a partition.
const CROWDED_ROWS: u64 = 10_000;
