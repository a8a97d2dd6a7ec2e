//! Numbers of a document that no traffic has.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};

use crate::counts;

/// What all counts together are at most: whatever a report adds up of one snapshot fits, and of several.
const MOST_TOGETHER: u64 = 1 << 60;

/// The path of the first number in a value that is more than [`counts::MOST`] and may be added to another.
#[derive(Default)]
pub(super) struct Implausible(pub(super) Option<String>);

impl<'de> Deserialize<'de> for Implausible {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (found, total) = (RefCell::default(), Cell::default());
        let whole = Place {
            key: "window",
            within: None,
            found: &found,
            total: &total,
            is_counted: true,
            of_pattern: None,
        };
        whole.deserialize(deserializer)?;
        Ok(Self(found.into_inner()))
    }
}

/// A value of the document.
#[derive(Clone, Copy)]
struct Place<'p> {
    /// The key of a map that it is behind; the same for the items of a list.
    key: &'p str,
    within: Option<&'p Place<'p>>,
    found: &'p RefCell<Option<String>>,
    /// Of all counts so far.
    total: &'p Cell<u64>,
    /// Values may be anything: distributions look at their counts themselves.
    is_counted: bool,
    /// The values so far of the pattern that it is in.
    of_pattern: Option<&'p Cell<usize>>,
}

impl Place<'_> {
    /// Whether it is added to nothing. By the whole path, since names that others choose are keys, too.
    fn may_be_anything(&self) -> bool {
        let is_of = |path: &&[&str]| {
            let mut place = Some(self);
            let is_same = path.iter().rev().all(|key| {
                let here = place.filter(|place| *key == ANY || *key == place.key);
                place = here.and_then(|here| here.within);
                here.is_some()
            });
            is_same && place.is_none()
        };
        NO_COUNTS.iter().any(is_of)
    }

    /// Whether it is the list of a distribution.
    fn is_distribution(&self) -> bool {
        ["few", "hdr"].contains(&self.key)
    }

    /// Whether each entry is a pattern.
    fn are_patterns(&self) -> bool {
        self.key == "patterns" && self.within.is_some_and(|whole| whole.within.is_none())
    }

    /// Counts one more value of a pattern.
    fn count<E: Error>(&self) -> Result<(), E> {
        let Some(values) = self.of_pattern else {
            return Ok(());
        };
        values.set(values.get() + 1);
        match values.get() <= MOST_VALUES {
            true => Ok(()),
            false => Err(E::custom("a pattern with more values than any has")),
        }
    }

    fn path(&self) -> String {
        let key: String = self.key.chars().take(KEY_CHARACTERS).collect();
        let key = key.escape_debug();
        match self.within {
            Some(within) => format!("{}.{key}", within.path()),
            None => key.to_string(),
        }
    }
}

/// More values than a pattern has, all of its distributions, clients and stretches of the ring counted. What is behind unknown
/// keys of a pattern is kept until the pattern has been read, which takes dozens of bytes for each.
const MOST_VALUES: usize = 16_384;

/// Stands for any key in [`NO_COUNTS`].
const ANY: &str = "*";

/// Hashes, and what clients and nodes state: the most of it is kept, or all.
const NO_COUNTS: [&[&str]; 7] = [
    &["window", "tables", ANY, "inserted", "sample", ANY, ANY],
    &["window", "tables", ANY, "inserted", "sample_up_to"],
    &["window", "tables", ANY, "node_reads", ANY],
    &["window", "patterns", ANY, "write_times", "most_ahead_us"],
    &["window", "patterns", ANY, "write_times", "most_behind_us"],
    &["window", "patterns", ANY, "warned", ANY, "largest"],
    &["window", "sequences", "buckets", ANY, ANY, "values"],
];

/// What is said of a key: names may be long.
const KEY_CHARACTERS: usize = 60;

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        if !self.is_counted || self.may_be_anything() {
            return Ok(());
        }
        self.total.set(self.total.get().saturating_add(number));
        if number > counts::MOST || self.total.get() > MOST_TOGETHER {
            self.found.borrow_mut().get_or_insert_with(|| self.path());
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            let values = Cell::default();
            map.next_value_seed(Place {
                key: &key,
                within: Some(&self),
                of_pattern: if self.are_patterns() {
                    Some(&values)
                } else {
                    self.of_pattern
                },
                ..self
            })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let item = Place {
            is_counted: self.is_counted && !self.is_distribution(),
            ..self
        };
        while items.next_element_seed(item)?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    /// Counts are no such numbers: reading refuses them.
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A key of a map, not copied where the document has it as it is.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }

        deserializer.deserialize_str(Text)
    }
}
