//! Values as sequences compare them: keyed hashes of the bytes on the wire, apart for each actor.

use std::sync::Arc;

use crate::{
    audit::{
        HashKey,
        exchange::request_key::Mixer,
        statement::ids::{ByTable, TableId},
    },
    catalog::Live,
};
use cqlens_cql::schema::{DataType, TableName};

/// Values longer than this are no keys that anybody reads by.
const LONGEST: usize = 256;

/// The hash of a value for `actor`; none where it could not tell anything from anything: empty, a single byte
/// (booleans and tinyints), or too long.
#[inline]
pub(super) fn hash(key: HashKey, actor: u64, value: &[u8]) -> Option<u64> {
    if !(2..=LONGEST).contains(&value.len()) {
        return None;
    }
    let mut mixer = Mixer::new(key, actor);
    mixer.write(value);
    Some(mixer.finish())
}

/// A value in a key: of which key of its request, in which column of its table's key.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyValue {
    pub(super) key: usize,
    pub(super) hash: u64,
    pub(super) column: usize,
}

/// Keys of one request that are looked at.
const MOST_KEYS: usize = 1_024;

/// Hashes the values in the `keys` of a request, which have so many `columns`, into `values`.
#[inline]
pub(super) fn hash_keys<'k>(
    values: &mut Vec<KeyValue>,
    (hash_key, actor): (HashKey, u64),
    keys: impl Iterator<Item = &'k [u8]>,
    columns: usize,
) {
    values.clear();
    for (key, bytes) in keys.take(MOST_KEYS).enumerate() {
        for (column, part) in components(bytes, columns).enumerate() {
            let hash = hash(hash_key, actor, part);
            values.extend(hash.map(|hash| KeyValue { key, hash, column }));
        }
    }
}

/// The hash of a partition of a table, for an actor.
#[inline]
pub(super) fn key_hash(key: HashKey, (actor, table): (u64, usize), routing_key: &[u8]) -> u64 {
    let mut mixer = Mixer::new(key, actor ^ (table as u64).rotate_left(32));
    mixer.write(routing_key);
    mixer.finish()
}

/// The hash of a page or pattern for one actor. Both are hashes already: one multiplication spreads them.
#[inline]
pub(super) fn of_actor(page: u64, actor: u64) -> u64 {
    (page ^ actor.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The values of the columns of a partition key, in their order.
#[inline]
pub(super) fn components(routing_key: &[u8], columns: usize) -> impl Iterator<Item = &[u8]> + Clone {
    let mut rest = Some(routing_key);
    std::iter::from_fn(move || {
        let bytes = rest.take()?;
        if columns <= 1 {
            return Some(bytes);
        }
        let (length, bytes) = bytes.split_first_chunk()?;
        let (component, after) = bytes.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        rest = after.split_first().map(|(_, after)| after);
        Some(component)
    })
}

/// The columns of partition keys, by table.
#[derive(Debug, Default)]
pub(super) struct KeyColumns(ByTable<Arc<[KeyColumn]>>);

/// A column of a partition key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeyColumn {
    pub(super) name: Box<str>,
    pub(super) data_type: DataType,
}

impl KeyColumns {
    /// Those of a table; none where it is not in the schema.
    #[inline]
    pub(super) fn of(&mut self, id: TableId, name: &TableName, live: &Live) -> &Arc<[KeyColumn]> {
        self.0.of(id, || columns(name, live))
    }

    /// Ids of tables mean others from now on.
    pub(super) fn forget_ids(&mut self) {
        self.0.clear();
    }
}

#[cold]
fn columns(name: &TableName, live: &Live) -> Arc<[KeyColumn]> {
    let schema = live.schema();
    let columns = schema
        .table(&name.keyspace, &name.table)
        .map_or(&[][..], |table| table.partition_key());
    let named = columns.iter().map(|column| KeyColumn {
        name: column.name.as_str().into(),
        data_type: column.data_type.clone(),
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_several_columns_has_their_values() {
        let key = b"\0\x02ab\0\0\x03cde\0";
        let parts: Vec<_> = components(key, 2).collect();
        assert_eq!(parts, [&b"ab"[..], b"cde"]);
        assert_eq!(components(key, 1).collect::<Vec<_>>(), [&key[..]]);
        assert_eq!(components(b"\0\x09ab\0", 2).count(), 0, "cut off");
        assert_eq!(components(b"", 2).count(), 0);
    }

    #[test]
    fn the_values_of_so_many_keys_are_hashed() {
        let who = (HashKey::random(), 7);
        let keys: Vec<[u8; 9]> = (0..1_100_u16)
            .map(|number| {
                let [high, low] = number.to_be_bytes();
                [0, 2, high, low, 0, 0, 1, b'b', 0]
            })
            .collect();
        let mut values = Vec::new();
        hash_keys(&mut values, who, keys.iter().map(|key| &key[..]), 2);
        assert_eq!(values.len(), 1_024, "single bytes are left out");
        let last = values[1_023];
        assert_eq!((last.key, last.column), (1_023, 0));
        assert_eq!(Some(last.hash), hash(who.0, who.1, &1_023_u16.to_be_bytes()));
        hash_keys(&mut values, who, [&b"anna"[..]].into_iter(), 1);
        assert_eq!(values.len(), 1);
    }

    #[test]
    fn a_value_is_the_same_for_one_actor_only() {
        let key = HashKey::random();
        assert_eq!(hash(key, 1, b"anna"), hash(key, 1, b"anna"));
        assert_ne!(hash(key, 1, b"anna"), hash(key, 2, b"anna"));
        assert_ne!(hash(key, 1, b"anna"), hash(key, 1, b"bert"));
        assert_eq!(hash(key, 1, &[1]), None);
        assert_eq!(hash(key, 1, &[1; 300]), None);
    }
}
