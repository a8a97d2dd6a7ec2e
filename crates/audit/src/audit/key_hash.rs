//! Partition keys as reports show them: keyed hashes, never the keys.

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    str::FromStr,
};

use siphasher::sip::SipHasher13;

use cqlens_cql::schema::TableName;

/// The operator's key for hashes of partition keys.
///
/// The same key gives the same hashes, so that the windows of a report series compare; without the key a
/// reader of a report can neither see which partition a hash stands for nor try keys one by one (partition
/// keys are personal data).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey(u64, u64);

impl HashKey {
    /// A key that is not known outside of this process.
    pub fn random() -> Self {
        // Each `RandomState` is seeded by the operating system.
        Self(
            RandomState::new().build_hasher().finish(),
            RandomState::new().build_hasher().finish(),
        )
    }

    /// The same for windows that were hashed with the same key; the key cannot be found from it.
    pub fn id(self) -> String {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        hasher.write(b"cqlens hash key id");
        format!("{:016x}", hasher.finish())
    }

    /// Seeds of hashes that stay in the process; never 0.
    pub(crate) fn seeds(self) -> (u64, u64) {
        (self.0 | 1, self.1 | 1)
    }

    /// A hasher of anything else.
    pub fn hasher(self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }

    /// The hash of a routing key of `table`.
    pub(crate) fn hash(self, table: &TableName, routing_key: &[u8]) -> u64 {
        self.of_table(table).of(routing_key)
    }

    /// What the hashes of all keys of `table` begin with.
    pub(crate) fn of_table(self, table: &TableName) -> TableHash {
        let mut hasher = self.hasher();
        hasher.write(table.keyspace.as_bytes());
        // 0xff is in no name: the three parts cannot run into each other.
        hasher.write(&[0xff]);
        hasher.write(table.table.as_bytes());
        hasher.write(&[0xff]);
        TableHash(hasher)
    }
}

/// The beginning of the hashes of a table's partition keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableHash(SipHasher13);

impl TableHash {
    /// The hash of a routing key.
    pub(crate) fn of(&self, routing_key: &[u8]) -> u64 {
        let Self(mut hasher) = *self;
        // The same as to write the bytes, and shorter: the library takes in a number without a loop.
        let (words, rest) = routing_key.as_chunks::<8>();
        words
            .iter()
            .for_each(|word| hasher.write_u64(u64::from_ne_bytes(*word)));
        let (halves, rest) = rest.as_chunks::<4>();
        halves
            .iter()
            .for_each(|half| hasher.write_u32(u32::from_ne_bytes(*half)));
        rest.iter().for_each(|byte| hasher.write_u8(*byte));
        hasher.finish()
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HashKey({})", self.id())
    }
}

/// The form in a key file: 32 hex digits.
impl fmt::Display for HashKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}{:016x}", self.0, self.1)
    }
}

/// The text is not 32 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash key is 32 hex digits")]
pub struct HashKeyError;

impl FromStr for HashKey {
    type Err = HashKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim();
        if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(HashKeyError);
        }
        let half = |digits| u64::from_str_radix(digits, 16).map_err(|_| HashKeyError);
        Ok(Self(half(&digits[..16])?, half(&digits[16..])?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> TableName {
        TableName {
            keyspace: "shop".to_owned(),
            table: name.to_owned(),
        }
    }

    #[test]
    fn a_hash_depends_on_key_table_and_partition() {
        let key = HashKey(1, 2);
        assert_eq!(
            key.hash(&table("users"), b"anna"),
            key.hash(&table("users"), b"anna")
        );
        assert_ne!(
            key.hash(&table("users"), b"anna"),
            key.hash(&table("users"), b"bert")
        );
        assert_ne!(
            key.hash(&table("users"), b"anna"),
            key.hash(&table("items"), b"anna")
        );
        assert_ne!(
            key.hash(&table("users"), b"anna"),
            HashKey(1, 3).hash(&table("users"), b"anna")
        );
    }

    #[test]
    fn a_hash_is_that_of_keyspace_table_and_key_one_after_the_other() {
        let key = HashKey(1, 2);
        for name in ["t", "user", "users_2"] {
            for length in 0..40 {
                let partition: Vec<_> = (0..length).collect();
                let mut hasher = key.hasher();
                hasher.write(&[b"shop\xff", name.as_bytes(), b"\xff", &partition].concat());
                assert_eq!(key.hash(&table(name), &partition), hasher.finish());
            }
        }
    }

    #[test]
    fn a_key_file_gives_the_same_key_and_debug_output_does_not_tell_it() {
        let key = HashKey::random();
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!(!format!("{key:?}").contains(&key.to_string()[..16]));
        assert_eq!("12".parse::<HashKey>(), Err(HashKeyError));
        assert_eq!("é".repeat(16).parse::<HashKey>(), Err(HashKeyError));
    }
}
