//! Rows of system tables before they are serialized, and their values.

use std::collections::BTreeMap;

use cqlens_proto::types::{CqlValue, Uuid};

/// A row by column name; columns that it does not name are null.
pub(super) type SystemRow = BTreeMap<&'static str, CqlValue>;

/// A text.
pub(super) fn text(text: &str) -> CqlValue {
    CqlValue::Text(text.to_owned())
}

/// A map of texts.
pub(super) fn map(entries: &BTreeMap<String, String>) -> CqlValue {
    CqlValue::Map(
        entries
            .iter()
            .map(|(key, value)| (text(key), text(value)))
            .collect(),
    )
}

/// A UUID that is the same for the same name on every run.
pub(super) fn stable_uuid(name: &str) -> Uuid {
    use siphasher::sip128::{Hasher128, SipHasher13};
    use std::hash::Hasher;
    let mut hasher = SipHasher13::new();
    hasher.write(name.as_bytes());
    let mut uuid = hasher.finish128().as_bytes();
    uuid[6] = (uuid[6] & 0x0f) | 0x40;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    Uuid(uuid)
}
