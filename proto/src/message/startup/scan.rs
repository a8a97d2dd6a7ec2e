//! Reads the compression out of a STARTUP whose body comes in parts, of any length, without keeping it.

use super::{COMPRESSION, is_key, overrule};
use crate::compress::Compression;
use crate::envelope::{Flags, Header};

/// A STARTUP as it passes.
#[derive(Debug)]
pub(crate) struct StartupScan {
    pub(crate) header: Header,
    /// Bytes of the body that have not passed.
    body_left: usize,
    field: Field,
    /// Bytes of the field that have not passed.
    field_left: usize,
    /// The field as far as it is kept: a number, or the beginning of a text.
    kept: Vec<u8>,
    /// Entries of the map that have not passed, the present one included.
    entries_left: usize,
    is_compression: bool,
    compression: Compression,
}

/// `[bytes map]` of the custom payload if the header announces one, then `[string map]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    PayloadCount,
    PayloadKeyLen,
    PayloadKey,
    PayloadValueLen,
    PayloadValue,
    Count,
    KeyLen,
    Key,
    ValueLen,
    Value,
    End,
}

/// More than any key or value that means something has, with the longest letters.
const MAX_KEPT: usize = 64;

impl StartupScan {
    pub(crate) fn new(header: Header) -> Self {
        let field = match header.flags.contains(Flags::CUSTOM_PAYLOAD) {
            true => Field::PayloadCount,
            false => Field::Count,
        };
        StartupScan {
            header,
            body_left: header.body_len as usize,
            field,
            field_left: 2,
            kept: Vec::new(),
            entries_left: 0,
            is_compression: false,
            compression: Compression::None,
        }
    }

    /// Takes the next bytes of the body.
    pub(crate) fn add(&mut self, mut part: &[u8]) {
        self.body_left = self.body_left.saturating_sub(part.len());
        while self.field != Field::End && !part.is_empty() {
            let (taken, rest) = part.split_at(self.field_left.min(part.len()));
            part = rest;
            self.field_left -= taken.len();
            let room = MAX_KEPT.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(taken.get(..room).unwrap_or(taken));
            // A field without bytes ends where it begins.
            while self.field_left == 0 && self.field != Field::End {
                self.end_field();
            }
        }
    }

    /// Whether the whole body has passed.
    pub(crate) fn is_done(&self) -> bool {
        self.body_left == 0
    }

    /// What it names, once the whole body has passed; `None` for a body that no server reads.
    pub(crate) fn compression(&self) -> Option<Compression> {
        (self.field == Field::End).then_some(self.compression)
    }

    fn end_field(&mut self) {
        let number = self
            .kept
            .iter()
            .fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
        let (field, length) = match self.field {
            Field::PayloadCount => self.first_of(number, Field::PayloadKeyLen, Field::Count),
            Field::PayloadKeyLen => (Field::PayloadKey, number),
            Field::PayloadKey => (Field::PayloadValueLen, 4),
            // A negative length is that of null.
            Field::PayloadValueLen => (
                Field::PayloadValue,
                if number > i32::MAX as usize { 0 } else { number },
            ),
            Field::PayloadValue => self.next_of(Field::PayloadKeyLen, Field::Count),
            Field::Count => self.first_of(number, Field::KeyLen, Field::End),
            Field::KeyLen => (Field::Key, number),
            Field::Key => {
                self.is_compression = is_key(&String::from_utf8_lossy(&self.kept), COMPRESSION);
                (Field::ValueLen, 2)
            }
            Field::ValueLen => (Field::Value, number),
            Field::Value => {
                self.take_value();
                self.next_of(Field::KeyLen, Field::End)
            }
            Field::End => (Field::End, 0),
        };
        (self.field, self.field_left) = (field, length);
        self.kept.clear();
    }

    /// The first field of a map with so many entries, or what comes behind the map, with its length.
    fn first_of(&mut self, entries: usize, first: Field, behind: Field) -> (Field, usize) {
        self.entries_left = entries;
        (if entries == 0 { behind } else { first }, 2)
    }

    fn next_of(&mut self, first: Field, behind: Field) -> (Field, usize) {
        self.first_of(self.entries_left - 1, first, behind)
    }

    fn take_value(&mut self) {
        if !self.is_compression {
            return;
        }
        let named = Compression::from_name(&String::from_utf8_lossy(&self.kept));
        self.compression = overrule(self.compression, named, self.header.version);
    }
}
