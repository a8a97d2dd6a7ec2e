//! How much memory a schema takes up, about, and how it is cut to what there is.

use std::collections::BTreeMap;

use super::data_type::DataType;
use super::model::{Column, Index, Keyspace, OptionValue, Schema, Table, UserType};

/// An entry of a map, or an element of a list, beside what it points to.
const EACH: usize = 64;

/// A table, in a map that is filled by halves.
const TABLE: usize = 640;

/// A map with anything in it.
const MAP: usize = 640;

impl Schema {
    /// Leaves out tables, types and keyspaces, the last ones by name, beyond so many bytes. What stays takes
    /// up how many bytes, and how much was left out.
    pub fn cut_to(&mut self, limit: usize) -> (usize, usize) {
        let (mut bytes, mut left_out) = (0, 0);
        let mut fits = |weight: usize| {
            let fits = bytes + weight <= limit;
            if fits {
                bytes += weight;
            } else {
                left_out += 1;
            }
            fits
        };
        self.keyspaces.retain(|_, keyspace| {
            let fits_itself = fits(keyspace.own_weight());
            if fits_itself {
                keyspace.types.retain(|_, of| fits(of.weight()));
                keyspace.tables.retain(|_, table| fits(table.weight()));
            }
            fits_itself
        });
        (bytes, left_out)
    }
}

impl Keyspace {
    /// Without tables and types.
    fn own_weight(&self) -> usize {
        let names = self.functions.iter().chain(&self.aggregates);
        let names: usize = names.map(|name| EACH + name.len()).sum();
        4 * EACH + 2 * self.name.len() + map_weight(&self.replication) + names
    }
}

impl Table {
    fn weight(&self) -> usize {
        let columns = self.columns.iter().chain(&self.dropped).map(Column::weight);
        let options = self.options.iter();
        let options = options.map(|(name, value)| EACH + name.len() + value.weight());
        let view = self.view.iter();
        let view = view.map(|view| EACH + view.base.len() + view.where_clause.len());
        TABLE
            + self.keyspace.len()
            + 2 * self.name.len()
            + columns.sum::<usize>()
            + at_least_a_map(self.indexes.values().map(Index::weight).sum())
            + at_least_a_map(options.sum())
            + view.sum::<usize>()
    }
}

impl Column {
    fn weight(&self) -> usize {
        let constraints = self.constraints.iter();
        let constraints = constraints.map(|constraint| EACH + constraint.weight());
        EACH + self.name.len() + self.data_type.weight() + constraints.sum::<usize>()
    }
}

impl Index {
    fn weight(&self) -> usize {
        let targets = self.targets.iter().map(|target| EACH + target.column.len());
        2 * EACH + 2 * self.name.len() + targets.sum::<usize>() + map_weight(&self.options)
    }
}

impl UserType {
    fn weight(&self) -> usize {
        let fields = self.fields.iter();
        let fields = fields.map(|(name, of)| EACH + name.len() + of.weight());
        EACH + 2 * self.name.len() + fields.sum::<usize>()
    }
}

impl OptionValue {
    fn weight(&self) -> usize {
        match self {
            Self::Text(text) | Self::Plain(text) => text.len(),
            Self::Map(map) => map_weight(map),
        }
    }
}

impl DataType {
    fn weight(&self) -> usize {
        const EACH: usize = 32;
        EACH + match self {
            Self::List(of) | Self::Set(of) | Self::Vector(of, _) | Self::Frozen(of) => of.weight(),
            Self::Map(key, value) => key.weight() + value.weight(),
            Self::Tuple(components) => components.iter().map(Self::weight).sum(),
            Self::UserDefined(name) | Self::Custom(name) => name.len(),
            Self::Native(_) => 0,
        }
    }
}

fn map_weight(map: &BTreeMap<String, String>) -> usize {
    let entries = map.iter().map(|(key, value)| EACH + key.len() + value.len());
    at_least_a_map(entries.sum())
}

/// The weight of a map's entries with that of the map, if there are any.
fn at_least_a_map(entries: usize) -> usize {
    match entries {
        0 => 0,
        entries => MAP + entries,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out_and_counted() {
        let mut cql = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'};".to_owned();
        for table in 0..100 {
            write!(
                cql,
                "CREATE TABLE k.t{table} (id int PRIMARY KEY, {} text);",
                "c".repeat(1_000)
            )
            .unwrap();
        }
        let whole = Schema::from_cql(&cql).unwrap();
        let (bytes, left_out) = whole.clone().cut_to(usize::MAX);
        assert_eq!(left_out, 0);
        assert!((100_000..300_000).contains(&bytes), "{bytes}");
        let mut cut = whole.clone();
        let (kept, left_out) = cut.cut_to(bytes / 2);
        assert!(
            kept <= bytes / 2 && (45..55).contains(&left_out),
            "{kept} {left_out}"
        );
        assert_eq!(cut.keyspaces["k"].tables.len() + left_out, 100);
    }

    #[test]
    fn a_schema_takes_up_no_more_than_it_weighs() {
        let mut cql = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'};".to_owned();
        for table in 0..300 {
            write!(
                cql,
                "CREATE TABLE k.table_{table} (a int, b frozen<map<text, frozen<list<int>>>>, c tuple<int, text>, PRIMARY KEY (a)) \
                 WITH comment = 'orders' AND gc_grace_seconds = 1;"
            )
            .unwrap();
        }
        let mut schema = None;
        let taken = allocation_counter::measure(|| schema = Some(Schema::from_cql(&cql).unwrap()));
        let (weight, _) = schema.unwrap().cut_to(usize::MAX);
        let taken = usize::try_from(taken.bytes_current).unwrap();
        assert!(
            taken < weight && weight < 4 * taken,
            "{taken} bytes, weighed {weight}"
        );
    }
}
