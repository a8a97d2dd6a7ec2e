//! Names and types of columns in words: the same ones come with most responses to a statement.

use std::{collections::HashMap, sync::Arc};

use cqlens_proto::message::{ColumnSpec, ColumnSpecs};

/// Name and type of each column as CQL has them.
pub type ColumnTypes = Arc<[(String, String)]>;

/// What they take up, about.
pub(crate) fn weight(types: &[(String, String)]) -> usize {
    let of_column = |(name, column_type): &(String, String)| {
        name.len() + column_type.len() + size_of::<(String, String)>()
    };
    types.iter().map(of_column).sum()
}

/// Those that were made before, by how they stand in a response: looked up without a copy.
#[derive(Debug, Default)]
pub struct ColumnTypesCache {
    /// Without keyspace and table, and with them.
    known: [HashMap<Box<[u8]>, ColumnTypes>; 2],
    /// Of all keys together.
    bytes: usize,
}

impl ColumnTypesCache {
    /// Bytes of the keys, beyond which all are forgotten: about 2,000 statements. In words they take three times as much.
    const MOST_BYTES: usize = 256 << 10;
    /// Bytes of one key that is kept: tables with hundreds of columns have as many.
    const MOST_OF_ONE: usize = 16 << 10;

    /// The names and types of columns.
    pub fn of(&mut self, columns: ColumnSpecs<'_>) -> ColumnTypes {
        let place = usize::from(columns.global_table().is_none());
        let bytes = columns.as_bytes();
        if let Some(types) = self.known[place].get(bytes) {
            return Arc::clone(types);
        }
        let described = |column: ColumnSpec<'_>| (column.name.to_owned(), column.column_type.to_string());
        let types: ColumnTypes = columns.iter().map(described).collect();
        if bytes.len() <= Self::MOST_OF_ONE {
            self.keep(place, bytes, &types);
        }
        types
    }

    fn keep(&mut self, place: usize, bytes: &[u8], types: &ColumnTypes) {
        if self.bytes + bytes.len() > Self::MOST_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes.len();
        self.known[place].insert(bytes.into(), Arc::clone(types));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use cqlens_proto::{message::result::ColumnSpecsBuf, types::CqlType};

    use super::*;

    fn specs(tables: [&str; 2], name: &str, column_type: &CqlType) -> ColumnSpecsBuf {
        let columns = tables.map(|table| ColumnSpec {
            keyspace: "k",
            table,
            name,
            column_type: column_type.clone(),
        });
        ColumnSpecsBuf::new(&columns).unwrap()
    }

    #[test]
    fn the_same_columns_are_made_once() {
        let mut cache = ColumnTypesCache::default();
        let mut of = |tables, name, column_type| cache.of(specs(tables, name, &column_type).columns());
        let first = of(["t", "t"], "a", CqlType::Int);
        assert_eq!(
            &*first,
            [
                ("a".to_owned(), "int".to_owned()),
                ("a".to_owned(), "int".to_owned())
            ]
        );
        assert!(Arc::ptr_eq(&first, &of(["u", "u"], "a", CqlType::Int)));
        assert!(!Arc::ptr_eq(&first, &of(["t", "u"], "a", CqlType::Int)));
        assert_eq!(of(["t", "t"], "a", CqlType::Text)[0].1, "text");
        assert_eq!(of(["t", "t"], "b", CqlType::Int)[0].0, "b");
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let mut cache = ColumnTypesCache::default();
        let keys = |cache: &ColumnTypesCache| -> usize {
            let known = cache.known.iter().flat_map(HashMap::keys);
            known.map(|key| key.len()).sum()
        };
        let mut most = 0;
        for number in 0..3 * ColumnTypesCache::MOST_BYTES / 20 {
            cache.of(specs(["t", "t"], &format!("a{number}"), &CqlType::Int).columns());
            assert_eq!(keys(&cache), cache.bytes);
            most = most.max(cache.bytes);
            assert!(most <= ColumnTypesCache::MOST_BYTES);
        }
        assert!(most > ColumnTypesCache::MOST_BYTES / 2);
        let long = "a".repeat(ColumnTypesCache::MOST_OF_ONE);
        let before = cache.bytes;
        cache.of(specs(["t", "t"], &long, &CqlType::Int).columns());
        assert_eq!(cache.bytes, before);
    }
}
