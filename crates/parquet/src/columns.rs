//! Columns of one table, made of what its rows have: types, names, what they say.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, MapArray, RecordBatch, StringArray,
    StructArray, TimestampMicrosecondArray,
    builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder},
};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use cqlens_window::Distribution;
use jiff::Timestamp;

/// Where a field says what it is.
const ABOUT: &str = "about";

/// A column, for its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, as SQL has it.
    pub kind: String,
    /// What it says.
    pub about: String,
}

/// The columns of some rows of one table.
#[derive(Default)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    pub(crate) fn whole(&mut self, name: &str, about: &str, values: impl Iterator<Item = u64>) {
        self.add(
            name,
            about,
            false,
            Int64Array::from_iter_values(values.map(signed)),
        );
    }

    pub(crate) fn boolean(&mut self, name: &str, about: &str, values: impl Iterator<Item = bool>) {
        let values: Vec<bool> = values.collect();
        self.add(name, about, false, BooleanArray::from(values));
    }

    pub(crate) fn number(&mut self, name: &str, about: &str, values: impl Iterator<Item = f64>) {
        self.add(name, about, false, Float64Array::from_iter_values(values));
    }

    pub(crate) fn text<T: AsRef<str>>(&mut self, name: &str, about: &str, values: impl Iterator<Item = T>) {
        self.add(name, about, false, StringArray::from_iter_values(values));
    }

    pub(crate) fn optional_text<T: AsRef<str>>(
        &mut self,
        name: &str,
        about: &str,
        values: impl Iterator<Item = Option<T>>,
    ) {
        self.add(name, about, true, StringArray::from_iter(values));
    }

    pub(crate) fn time(&mut self, name: &str, about: &str, values: impl Iterator<Item = Timestamp>) {
        let microseconds = values.map(|time| time.as_microsecond());
        let times = TimestampMicrosecondArray::from_iter_values(microseconds).with_timezone("UTC");
        self.add(name, about, false, times);
    }

    pub(crate) fn bytes(&mut self, name: &str, about: &str, values: impl Iterator<Item = Vec<u8>>) {
        self.add(name, about, false, BinaryArray::from_iter_values(values));
    }

    /// Several texts in a row.
    pub(crate) fn texts<T: AsRef<str>>(
        &mut self,
        name: &str,
        about: &str,
        values: impl Iterator<Item = impl Iterator<Item = T>>,
    ) {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for texts in values {
            texts.for_each(|text| lists.values().append_value(text));
            lists.append(true);
        }
        self.add(name, about, false, lists.finish());
    }

    /// Counts by name.
    pub(crate) fn counts<T: AsRef<str>>(
        &mut self,
        name: &str,
        about: &str,
        values: impl Iterator<Item = impl Iterator<Item = (T, u64)>>,
    ) {
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        for counts in values {
            for (name, count) in counts {
                maps.keys().append_value(name);
                maps.values().append_value(signed(count));
            }
            maps.append(true).expect(PAIRS);
        }
        self.add(name, about, false, maps.finish());
    }

    pub(crate) fn distribution<'d>(
        &mut self,
        name: &str,
        about: &str,
        values: impl Iterator<Item = &'d Distribution>,
    ) {
        let values: Vec<_> = values.collect();
        let whole = |figure: fn(&Distribution) -> u64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(
                values.iter().map(|value| signed(figure(value))),
            ))
        };
        let arrays = [
            whole(Distribution::count),
            whole(Distribution::total),
            whole(Distribution::min),
            whole(Distribution::max),
            Arc::new(bins(&values)),
        ];
        let names = ["count", "sum", "min", "max", "bins"];
        let fields = names.iter().zip(&arrays);
        let fields: Fields = fields
            .map(|(name, array)| Field::new(*name, array.data_type().clone(), false))
            .collect();
        self.add(
            name,
            about,
            false,
            StructArray::new(fields, arrays.to_vec(), None),
        );
    }

    fn add(&mut self, name: &str, about: &str, nullable: bool, array: impl arrow_array::Array + 'static) {
        let about = HashMap::from([(ABOUT.to_owned(), about.to_owned())]);
        let field = Field::new(name, array.data_type().clone(), nullable).with_metadata(about);
        self.fields.push(field);
        self.arrays.push(Arc::new(array));
    }

    /// The rows.
    ///
    /// # Errors
    /// Columns of different lengths.
    pub(crate) fn rows(self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)
    }

    /// What the columns are.
    pub(crate) fn describe(&self) -> Vec<Column> {
        let fields = self.fields.iter();
        let column = |field: &Field| Column {
            name: field.name().clone(),
            kind: kind(field.data_type()).to_owned(),
            about: field.metadata().get(ABOUT).cloned().unwrap_or_default(),
        };
        fields.map(column).collect()
    }
}

const PAIRS: &str = "each key has its value";

/// The highest value of each step, and how often.
fn bins(values: &[&Distribution]) -> MapArray {
    let mut maps = MapBuilder::new(None, Int64Builder::new(), Int64Builder::new());
    for value in values {
        for (highest, times) in value.steps() {
            maps.keys().append_value(signed(highest));
            maps.values().append_value(signed(times));
        }
        maps.append(true).expect(PAIRS);
    }
    maps.finish()
}

/// Engines have no unsigned numbers.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn kind(of: &DataType) -> &'static str {
    match of {
        DataType::Boolean => "boolean",
        DataType::Int64 => "bigint",
        DataType::Float64 => "double",
        DataType::Utf8 => "string",
        DataType::Binary => "binary",
        DataType::Timestamp(..) => "timestamp",
        DataType::List(_) => "array<string>",
        DataType::Map(..) => "map<string, bigint>",
        DataType::Struct(_) => "distribution",
        _ => "other",
    }
}
