//! The keys of one execution, each once, in a buffer for reuse.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::murmur3;
use crate::schema::TableName;

/// The distinct (table, partition key) pairs of an execution, in a buffer for reuse.
///
/// Two keys are the same if their tables and bytes are; what `IN` lists fold by type is folded before it gets
/// here. At most [`Keys::MAX_KEYS`] keys and [`Keys::MAX_BYTES`] bytes are kept; [`Keys::overflowed`] counts
/// the others.
#[derive(Debug, Default)]
pub struct Keys {
    /// Of the keys, and of those before.
    tables: Vec<Arc<TableName>>,
    arena: Vec<u8>,
    entries: Vec<Entry>,
    /// Places in `entries` by a keyed hash of table and bytes; empty while a walk over all entries is as
    /// quick. Clients choose keys, and can choose thousands that share their tokens: what those hash to they
    /// do not know.
    places: HashTable<u32>,
    hashing: RandomState,
    overflowed: u64,
    /// What combinations of `IN` lists have cost: see [`Keys::MAX_COMBINED`].
    combined: usize,
    /// Keys that were compared with keys.
    #[cfg(test)]
    compared: std::cell::Cell<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    end: u32,
    table: u32,
    token: i64,
}

/// One key of a [`Keys`] buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'k> {
    /// The table it is a key of.
    pub table: &'k Arc<TableName>,
    /// The routing key: the serialized column, or the framed components of a composite key.
    pub bytes: &'k [u8],
    /// Its Murmur3 token.
    pub token: i64,
}

/// Whether a key was new to a [`Keys`] buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It was not there yet.
    New,
    /// It was.
    Known,
    /// The buffer is full: nobody knows.
    Overflow,
}

impl Keys {
    /// Most keys that are kept. Cassandra's own limit on a statement is 65,535 values; real batches are far
    /// below.
    pub const MAX_KEYS: usize = 1 << 16;
    /// Most bytes of keys that are kept.
    pub const MAX_BYTES: usize = 8 << 20;
    /// Most bytes of keys that are put together of the values of several columns, with [`Keys::EACH`] for
    /// each key: two short lists make very many keys, which are hashed one by one, known or not.
    pub(crate) const MAX_COMBINED: usize = 4 * Self::MAX_BYTES;
    /// What a key costs beside its bytes.
    pub const EACH: usize = 64;
    /// Up to here a walk over all keys beats a table.
    const FEW: usize = 16;
    /// Tables that are remembered from one execution to the next: their counters are shared with other
    /// threads, and touching those costs more than looking a table up.
    const FAMILIAR_TABLES: usize = 8;

    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all keys and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        if self.tables.len() > Self::FAMILIAR_TABLES {
            self.tables.clear();
        }
        self.arena.clear();
        self.entries.clear();
        self.places.clear();
        self.overflowed = 0;
        self.combined = 0;
    }

    /// Number of distinct keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Pushes that found no room.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Takes note of a key that was put together; false when there were too many.
    pub(crate) fn combine(&mut self, len: usize) -> bool {
        self.combined = self.combined.saturating_add(len + Self::EACH);
        self.combined <= Self::MAX_COMBINED
    }

    /// The distinct keys, in the order of their first appearance.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Key<'_>> + Clone {
        self.entries.iter().map(|entry| Key {
            table: &self.tables[entry.table as usize],
            bytes: &self.arena[entry.start as usize..entry.end as usize],
            token: entry.token,
        })
    }

    /// Adds the key that `write` appends to the buffer; whatever it appends is taken back if the key is
    /// known.
    ///
    /// # Errors
    ///
    /// Those of `write`; no key is added then.
    #[inline]
    pub(crate) fn try_push_with<E>(
        &mut self,
        table: &Arc<TableName>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Pushed, E> {
        let start = self.arena.len();
        if let Err(error) = write(&mut self.arena) {
            self.arena.truncate(start);
            return Err(error);
        }
        let token = murmur3::token(&self.arena[start..]);
        Ok(self.keep(table, start, token))
    }

    /// Adds a key.
    #[inline(always)]
    pub fn push(&mut self, table: &Arc<TableName>, key: &[u8]) -> Pushed {
        let start = self.arena.len();
        self.arena.extend_from_slice(key);
        self.keep(table, start, murmur3::token(key))
    }

    #[inline(always)]
    fn keep(&mut self, table: &Arc<TableName>, start: usize, token: i64) -> Pushed {
        let table = self.table_index(table);
        let key = &self.arena[start..];
        if self.find(table, token, key) {
            self.arena.truncate(start);
            return Pushed::Known;
        }
        let (Ok(start_32), Ok(end)) = (u32::try_from(start), u32::try_from(self.arena.len())) else {
            return self.refuse(start);
        };
        if self.entries.len() >= Self::MAX_KEYS || self.arena.len() > Self::MAX_BYTES {
            return self.refuse(start);
        }
        self.entries.push(Entry {
            start: start_32,
            end,
            table,
            token,
        });
        self.index_last();
        Pushed::New
    }

    #[cold]
    fn refuse(&mut self, start: usize) -> Pushed {
        self.arena.truncate(start);
        self.overflowed += 1;
        Pushed::Overflow
    }

    #[inline]
    fn table_index(&mut self, table: &Arc<TableName>) -> u32 {
        match self.tables.first() {
            Some(first) if Arc::ptr_eq(first, table) => 0,
            _ => self.other_table_index(table),
        }
    }

    fn other_table_index(&mut self, table: &Arc<TableName>) -> u32 {
        let tables = &self.tables;
        let known = (tables.iter().position(|other| Arc::ptr_eq(other, table)))
            .or_else(|| tables.iter().position(|other| other == table));
        let index = known.unwrap_or_else(|| {
            self.tables.push(Arc::clone(table));
            self.tables.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    fn is(&self, entry: &Entry, table: u32, token: i64, key: &[u8]) -> bool {
        #[cfg(test)]
        self.compared.set(self.compared.get() + 1);
        entry.token == token
            && entry.table == table
            && &self.arena[entry.start as usize..entry.end as usize] == key
    }

    #[inline]
    fn find(&self, table: u32, token: i64, key: &[u8]) -> bool {
        !self.entries.is_empty() && self.find_among(table, token, key)
    }

    fn find_among(&self, table: u32, token: i64, key: &[u8]) -> bool {
        if self.places.is_empty() {
            return self.entries.iter().any(|entry| self.is(entry, table, token, key));
        }
        let is_same = |place: &u32| {
            let entry = self.entries.get(*place as usize);
            entry.is_some_and(|entry| self.is(entry, table, token, key))
        };
        self.places
            .find(self.hashing.hash_one((table, key)), is_same)
            .is_some()
    }

    /// Puts the newest entry into the hash table, which is built once there are more than a few entries.
    #[inline]
    fn index_last(&mut self) {
        if self.entries.len() > Self::FEW {
            self.index_last_of_many();
        }
    }

    fn index_last_of_many(&mut self) {
        let first = if self.places.is_empty() {
            0
        } else {
            self.entries.len() - 1
        };
        let hash = |place: u32| {
            let entry = &self.entries[place as usize];
            let key = &self.arena[entry.start as usize..entry.end as usize];
            self.hashing.hash_one((entry.table, key))
        };
        for place in first..self.entries.len() {
            // Lossless: MAX_KEYS fits.
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            self.places
                .insert_unique(hash(place), place, |place| hash(*place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> Arc<TableName> {
        Arc::new(TableName {
            keyspace: "shop".into(),
            table: name.into(),
        })
    }

    #[test]
    fn equal_keys_of_one_table_are_one() {
        let (kv, other) = (table("kv"), table("other"));
        let mut keys = Keys::new();
        assert_eq!(keys.push(&kv, b"a"), Pushed::New);
        assert_eq!(keys.push(&table("kv"), b"a"), Pushed::Known);
        assert_eq!(keys.push(&other, b"a"), Pushed::New);
        assert_eq!(keys.len(), 2);
        assert_eq!(
            keys.iter().map(|key| key.bytes.to_vec()).collect::<Vec<_>>(),
            [b"a", b"a"]
        );
    }

    #[test]
    fn many_keys_are_still_found() {
        let kv = table("kv");
        let mut keys = Keys::new();
        for round in 0..3 {
            for key in 0..5_000_u32 {
                let expected = if round == 0 { Pushed::New } else { Pushed::Known };
                assert_eq!(keys.push(&kv, &key.to_be_bytes()), expected);
            }
        }
        assert_eq!(keys.len(), 5_000);
        keys.clear();
        assert_eq!(keys.push(&kv, &7_u32.to_be_bytes()), Pushed::New);
    }

    /// The only key of 16 bytes whose hash, as Murmur3 has it, is these two halves.
    fn key_of_hash(first: u64, second: u64) -> [u8; 16] {
        const C1: u64 = 0x87c3_7b91_1142_53d5;
        const C2: u64 = 0x4cf5_ad43_2745_937f;
        // Of an odd number, by Newton's method.
        let inverse = |odd: u64| {
            (0..6).fold(odd, |x, _| {
                x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)))
            })
        };
        let unmix = |mixed: u64| {
            let mut x = mixed ^ (mixed >> 33);
            x = x.wrapping_mul(inverse(0xc4ce_b9fe_1a85_ec53));
            x ^= x >> 33;
            x = x.wrapping_mul(inverse(0xff51_afd7_ed55_8ccd));
            x ^ (x >> 33)
        };
        let second = second.wrapping_sub(first);
        let (mut h1, mut h2) = (unmix(first.wrapping_sub(second)), unmix(second));
        h2 = h2.wrapping_sub(h1);
        h1 = h1.wrapping_sub(h2);
        (h1, h2) = (h1 ^ 16, h2 ^ 16);
        let five = inverse(5);
        let k2 = h2
            .wrapping_sub(0x3849_5ab5)
            .wrapping_mul(five)
            .wrapping_sub(h1)
            .rotate_right(31);
        let k1 = h1.wrapping_sub(0x52dc_e729).wrapping_mul(five).rotate_right(27);
        let k1 = k1
            .wrapping_mul(inverse(C2))
            .rotate_right(31)
            .wrapping_mul(inverse(C1));
        let k2 = k2
            .wrapping_mul(inverse(C1))
            .rotate_right(33)
            .wrapping_mul(inverse(C2));
        let mut key = [0; 16];
        key[..8].copy_from_slice(&k1.to_le_bytes());
        key[8..].copy_from_slice(&k2.to_le_bytes());
        key
    }

    #[test]
    fn keys_that_share_their_token_are_not_compared_with_each_other() {
        let kv = table("kv");
        let mut keys = Keys::new();
        let most = Keys::MAX_KEYS as u64;
        for second in 0..most {
            let key = key_of_hash(7, second << 40);
            assert_eq!(murmur3::token(&key), 7);
            assert_eq!(keys.push(&kv, &key), Pushed::New);
        }
        let compared = keys.compared.get();
        assert!(compared < 2 * most, "{compared} comparisons of {most} keys");
    }

    #[test]
    fn a_full_buffer_counts_what_it_refuses() {
        let kv = table("kv");
        let mut keys = Keys::new();
        for key in 0..Keys::MAX_KEYS + 3 {
            keys.push(&kv, &key.to_be_bytes());
        }
        assert_eq!((keys.len(), keys.overflowed()), (Keys::MAX_KEYS, 3));
        assert_eq!(keys.push(&kv, &vec![1; Keys::MAX_BYTES]), Pushed::Overflow);
    }
}
