//! Memory that sketches take as they grow, counted where it happens: so that nobody has to measure them again
//! and again.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    marker::PhantomData,
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

thread_local! {
    static GROWN: Cell<u64> = const { Cell::new(0) };
    static LIMIT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Counts `bytes` more. Callers are on cold paths: a sketch grows a few times in its life.
pub(crate) fn grow(bytes: usize) {
    GROWN.set(GROWN.get().saturating_add(bytes as u64));
}

/// Bytes by which this thread has made sketches grow since this was asked last. What they have given back is
/// still in it.
#[inline]
pub(crate) fn take() -> u64 {
    GROWN.replace(0)
}

/// Counts what a document makes of `bytes`.
///
/// # Errors
/// More than [`within`] allows.
pub(crate) fn charge<E: serde::de::Error>(bytes: usize) -> Result<(), E> {
    grow(bytes);
    if GROWN.get() > LIMIT.get() {
        return Err(E::custom("it unpacks to more memory than is allowed"));
    }
    Ok(())
}

/// Runs `read`, in which [`charge`] allows `bytes` altogether.
pub(crate) fn within<T>(bytes: u64, read: impl FnOnce() -> T) -> T {
    let (grown, limit) = (GROWN.replace(0), LIMIT.replace(bytes));
    let done = read();
    LIMIT.set(limit);
    GROWN.set(grown);
    done
}

/// Reads a map, each entry charged.
///
/// # Errors
/// Entries that are none, or too many of them.
pub(crate) fn map<'de, D, M, K, V>(deserializer: D) -> Result<M, D::Error>
where
    D: Deserializer<'de>,
    M: Default + IntoIterator<Item = (K, V)> + Extend<(K, V)>,
    K: Deserialize<'de>,
    V: Deserialize<'de>,
{
    struct Entries<M, K, V>(PhantomData<(M, K, V)>);

    impl<'de, M, K, V> Visitor<'de> for Entries<M, K, V>
    where
        M: Default + IntoIterator<Item = (K, V)> + Extend<(K, V)>,
        K: Deserialize<'de>,
        V: Deserialize<'de>,
    {
        type Value = M;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut stored: A) -> Result<M, A::Error> {
            let mut map = M::default();
            while let Some(entry) = stored.next_entry()? {
                charge(size_of::<(K, V)>() + PER_ENTRY)?;
                map.extend([entry]);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(Entries(PhantomData))
}

/// What an entry of a map takes beside itself, its name included.
pub(crate) const PER_ENTRY: usize = 48;

/// Reads a list, each item charged: with the room that it is given to grow.
///
/// # Errors
/// Items that are none, or too many of them.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(Items::new(2 * size_of::<T>()))
}

/// Reads a set, each item charged.
///
/// # Errors
/// As of [`list`].
pub(crate) fn set<'de, D, T>(deserializer: D) -> Result<BTreeSet<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Ord,
{
    deserializer.deserialize_seq(Items::new(size_of::<T>() + PER_ENTRY))
}

/// The items of a list or set, of which each is charged so many bytes.
struct Items<C, T> {
    each: usize,
    kind: PhantomData<(C, T)>,
}

impl<C, T> Items<C, T> {
    fn new(each: usize) -> Self {
        Self {
            each,
            kind: PhantomData,
        }
    }
}

impl<'de, C: Default + Extend<T>, T: Deserialize<'de>> Visitor<'de> for Items<C, T> {
    type Value = C;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut stored: A) -> Result<C, A::Error> {
        let mut items = C::default();
        while let Some(item) = stored.next_element()? {
            charge(self.each)?;
            items.extend([item]);
        }
        Ok(items)
    }
}

/// What an entry of a map holds, read with each of its items charged.
pub(crate) struct Charged<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Charged<Vec<T>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list(deserializer).map(Self)
    }
}

impl<'de, T: Deserialize<'de> + Ord> Deserialize<'de> for Charged<BTreeSet<T>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        set(deserializer).map(Self)
    }
}

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Deserialize<'de> for Charged<BTreeMap<K, V>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        map(deserializer).map(Self)
    }
}

impl<'de, T: Deserialize<'de> + Ord> Deserialize<'de> for Charged<Option<BTreeSet<T>>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let charged: Option<Charged<BTreeSet<T>>> = Option::deserialize(deserializer)?;
        Ok(Self(charged.map(|Charged(set)| set)))
    }
}

/// Reads a map of what is charged by itself.
///
/// # Errors
/// Entries that are none, or too many of them.
pub(crate) fn nested<'de, D, K, V>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord,
    Charged<V>: Deserialize<'de>,
{
    let entries: BTreeMap<K, Charged<V>> = map(deserializer)?;
    let entries = entries.into_iter();
    Ok(entries.map(|(key, Charged(value))| (key, value)).collect())
}
