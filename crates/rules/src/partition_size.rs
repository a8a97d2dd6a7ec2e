//! How large partitions are, by the formula of Cassandra's documentation ("Evaluating and refining data models"): the
//! partition key and the static columns once, the clustering and regular columns of each row, and about 8 bytes for
//! each value beside the primary key.

use cqlens_cql::{
    schema::{Column, ColumnKind, DataType, Table},
    syntax::ast::NativeType,
};

use cqlens_window::{RowSample, WrittenRow};

/// What the partitions of a table take up, uncompressed, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PartitionSize {
    /// The partition key.
    key: f64,
    /// The static columns.
    statics: f64,
    static_values: f64,
    /// Clustering and regular columns of a row.
    row: f64,
    row_values: f64,
}

/// What Cassandra keeps beside each value: its timestamp, about.
const EACH_VALUE: f64 = 8.0;

/// What is taken for a value of a type that has no width of its own: a name, an e-mail address.
const SOME_TEXT: f64 = 16.0;

impl PartitionSize {
    /// By the types of the columns.
    pub(super) fn of(table: &Table) -> Self {
        let of_kind = |kind| {
            let columns = table.columns.iter().filter(|column| column.kind == kind);
            columns.collect::<Vec<&Column>>()
        };
        let (statics, regular) = (of_kind(ColumnKind::Static), of_kind(ColumnKind::Regular));
        Self {
            key: table.partition_key().iter().map(width).sum(),
            statics: statics.iter().copied().map(width).sum(),
            static_values: statics.len() as f64,
            row: table
                .clustering()
                .iter()
                .chain(regular.iter().copied())
                .map(width)
                .sum(),
            row_values: regular.len() as f64,
        }
    }

    /// The same with rows as large as these, which were written.
    pub(super) fn of_rows<'r>(table: &Table, rows: impl Iterator<Item = &'r WrittenRow>) -> Self {
        let (mut bytes, mut count) = (0_u64, 0_u64);
        for row in rows {
            bytes += u64::from(row.bytes);
            count += 1;
        }
        let by_types = Self::of(table);
        match count {
            0 => by_types,
            _ => Self {
                row: bytes as f64 / count as f64,
                ..by_types
            },
        }
    }

    /// The same with rows as large as those of a sample.
    pub(super) fn of_sample(table: &Table, sample: &RowSample) -> Self {
        Self::of_rows(table, sample.rows())
    }

    /// Values of so many rows that are not of the primary key.
    fn values(&self, rows: f64) -> f64 {
        rows * self.row_values + self.static_values
    }

    /// A partition of so many rows.
    pub(super) fn bytes(&self, rows: f64) -> f64 {
        self.key + self.statics + rows * self.row + self.values(rows) * EACH_VALUE
    }

    /// What each row adds.
    pub(super) fn row_bytes(&self) -> f64 {
        (self.bytes(1.0) - self.bytes(0.0)).max(1.0)
    }

    /// How many rows a partition of so many bytes has.
    pub(super) fn rows(&self, bytes: f64) -> f64 {
        ((bytes - self.bytes(0.0)) / self.row_bytes()).max(0.0)
    }
}

/// Bytes of a column's value.
fn width(column: &Column) -> f64 {
    of_type(&column.data_type)
}

fn of_type(data_type: &DataType) -> f64 {
    match data_type {
        DataType::Native(native) => of_native(*native),
        DataType::Vector(element, dimension) => of_type(element) * f64::from(*dimension),
        DataType::Tuple(components) => components.iter().map(of_type).sum(),
        DataType::Frozen(inner) => of_type(inner),
        DataType::List(_)
        | DataType::Set(_)
        | DataType::Map(..)
        | DataType::UserDefined(_)
        | DataType::Custom(_) => SOME_TEXT,
    }
}

fn of_native(native: NativeType) -> f64 {
    match native {
        NativeType::Boolean | NativeType::Tinyint => 1.0,
        NativeType::Smallint => 2.0,
        NativeType::Int | NativeType::Float | NativeType::Date | NativeType::Inet => 4.0,
        NativeType::Bigint
        | NativeType::Counter
        | NativeType::Double
        | NativeType::Timestamp
        | NativeType::Time => 8.0,
        NativeType::Uuid | NativeType::Timeuuid => 16.0,
        _ => SOME_TEXT,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_cql::schema::Schema;

    fn size(table: &str) -> PartitionSize {
        let schema = format!(
            "CREATE KEYSPACE hotel WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 3}};
             CREATE TABLE hotel.t ({table});"
        );
        let schema = Schema::from_cql(&schema).unwrap();
        PartitionSize::of(schema.table("hotel", "t").unwrap())
    }

    #[test]
    fn rooms_of_a_hotel_are_as_large_as_the_documentation_says() {
        let of_types = size(
            "hotel_id text, date date, room_number smallint, is_available boolean, \
             PRIMARY KEY (hotel_id, date, room_number)",
        );
        // The documentation takes ids of five letters.
        let rooms = PartitionSize { key: 5.0, ..of_types };
        // A hundred rooms for two years.
        assert_eq!(rooms.values(73_000.0), 73_000.0);
        assert_eq!(rooms.bytes(73_000.0), 5.0 + 73_000.0 * 7.0 + 73_000.0 * 8.0);
        assert_eq!(rooms.rows(rooms.bytes(73_000.0)), 73_000.0);
    }

    #[test]
    fn static_columns_are_there_once() {
        let orders = size(
            "customer uuid, at timestamp, name text static, total double, note text, PRIMARY KEY (customer, at)",
        );
        assert_eq!(orders.values(10.0), 21.0);
        assert_eq!(orders.bytes(0.0), 16.0 + 16.0 + 8.0);
        assert_eq!(orders.row_bytes(), 8.0 + 8.0 + 16.0 + 2.0 * 8.0);
        assert_eq!(orders.rows(0.0), 0.0);
    }

    #[test]
    fn rows_that_were_written_are_as_large_as_they_were() {
        let schema =
            "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
                      CREATE TABLE s.t (k int, c int, v text, w vector<float, 4>, PRIMARY KEY (k, c));";
        let schema = Schema::from_cql(schema).unwrap();
        let table = schema.table("s", "t").unwrap();
        let rows = [90, 110].map(|bytes| WrittenRow {
            partition: 1,
            bytes,
            at: 0,
        });
        assert_eq!(
            PartitionSize::of_rows(table, rows.iter()).row_bytes(),
            100.0 + 2.0 * 8.0
        );
        assert_eq!(
            PartitionSize::of_rows(table, [].iter()).row_bytes(),
            4.0 + 16.0 + 16.0 + 2.0 * 8.0
        );
    }
}
