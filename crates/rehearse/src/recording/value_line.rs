//! Values and wide numbers as members of lines.

use std::{borrow::Cow, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
    ser::SerializeMap as _,
};

use crate::exchange::ValueContent;

/// A value: base64 of its bytes, `{"hash": …, "len": …}`, `null`, or `{"unset": true}`.
#[derive(Debug, PartialEq)]
pub(super) struct ValueLine(pub(super) ValueContent);

impl Serialize for ValueLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            ValueContent::Bytes(bytes) => serializer.serialize_str(&BASE64.encode(bytes)),
            ValueContent::Null => serializer.serialize_unit(),
            ValueContent::NotSet => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("unset", &true)?;
                map.end()
            }
            ValueContent::Hashed { hash, len } => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("hash", &Hex64(*hash))?;
                map.serialize_entry("len", len)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for ValueLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = ValueLine;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value: base64, a hash, null or unset")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ValueLine, E> {
        let bytes = BASE64.decode(text).map_err(E::custom)?;
        Ok(ValueLine(ValueContent::Bytes(bytes.into())))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<ValueLine, E> {
        Ok(ValueLine(ValueContent::Null))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ValueLine, A::Error> {
        let (mut hash, mut len) = (None, 0);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "hash" => hash = Some(map.next_value::<Hex64>()?.0),
                "len" => len = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(ValueLine(hash.map_or(ValueContent::NotSet, |hash| {
            ValueContent::Hashed { hash, len }
        })))
    }
}

/// A number as 16 hexadecimal digits: most readers of JSON know no integers of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hex64(pub u64);

/// The same of 32 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hex128(pub u128);

impl Serialize for Hex64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl Serialize for Hex128 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Hex64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Hex128 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16)
            .map(Self)
            .map_err(D::Error::custom)
    }
}
