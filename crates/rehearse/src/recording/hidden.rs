//! Exchanges without values: keyed hashes in their place.

use std::{hash::Hasher as _, sync::Arc};

use siphasher::sip::SipHasher13;

use super::bare::Bare;
use crate::exchange::{Effect, RecordedExchange, RecordedStatement, RecordedValue, ValueContent};

/// The key of hashes of values. It is nowhere but in memory, and gone with the process.
#[derive(Clone, Copy)]
pub(super) struct ValueKey(pub(super) [u8; 16]);

impl ValueKey {
    /// The exchange without its values, those in texts included.
    pub(super) fn hide(self, exchange: &RecordedExchange) -> RecordedExchange {
        let mut hidden = exchange.clone();
        let is_definition = exchange.request.effect == Effect::Definition;
        for statement in &mut hidden.request.statements {
            self.hide_bound(&mut statement.values);
            // Definitions stand in every snapshot, too.
            if !is_definition {
                self.hide_written(statement);
            }
        }
        hidden
    }

    fn hide_bound(self, values: &mut [RecordedValue]) {
        for value in values {
            if let ValueContent::Bytes(bytes) = &value.content {
                value.content = self.hashed(bytes);
            }
        }
    }

    /// What stands in the text becomes values of markers.
    fn hide_written(self, statement: &mut RecordedStatement) {
        let cql = Arc::clone(&statement.cql);
        let bare = Bare::of(&cql);
        if bare.cql == *cql {
            return;
        }
        let are_named = statement.values.iter().any(|value| value.name.is_some());
        let mut bound = std::mem::take(&mut statement.values).into_iter();
        for written in bare.markers {
            let value = match written {
                None => bound.next(),
                // A named value finds its marker by itself.
                Some(_) if are_named => None,
                Some(written) => Some(RecordedValue {
                    name: None,
                    content: self.hashed(written.as_bytes()),
                }),
            };
            statement.values.extend(value);
        }
        statement.values.extend(bound);
        statement.cql = bare.cql.into();
    }

    fn hashed(self, bytes: &[u8]) -> ValueContent {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(bytes);
        ValueContent::Hashed {
            hash: hasher.finish(),
            len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        }
    }
}
