//! The schema changes that were seen last: a schema that was being read meanwhile is completed with them.

use std::collections::VecDeque;

use cqlens_cql::{schema::Schema, syntax};

use super::memory_share::MemoryShare;

/// The last definitions on the wire: a schema that is being read at the same time may lack them.
#[derive(Debug)]
pub(super) struct RecentDdl {
    seen: u64,
    last: VecDeque<Definition>,
    /// What they take up: an eighth of the part at most.
    bytes: MemoryShare,
}

#[derive(Debug)]
struct Definition {
    cql: String,
    /// Of its unqualified names.
    keyspace: Option<String>,
    /// Its place in the order of all that were seen.
    number: u64,
}

impl Definition {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.cql.len() + self.keyspace.as_ref().map_or(0, String::len)
    }
}

impl RecentDdl {
    /// A migration has fewer statements than this while a schema is read.
    pub(super) const MOST: usize = 1_024;

    /// None yet; they take up as much as `bytes` allows.
    pub(super) fn within(bytes: MemoryShare) -> Self {
        Self {
            seen: 0,
            last: VecDeque::new(),
            bytes,
        }
    }

    /// The moment at which a reading begins.
    pub(super) fn begin_reading(&self) -> Reading {
        Reading(self.seen)
    }

    /// Counts a definition for which there is no room.
    pub(super) fn count_left_out(&self) {
        self.bytes.count_evicted();
    }

    /// Keeps a definition; the oldest ones go where there is no room.
    pub(super) fn add(&mut self, cql: &str, keyspace: Option<&str>) {
        let definition = Definition {
            cql: cql.to_owned(),
            keyspace: keyspace.map(str::to_owned),
            number: self.seen,
        };
        self.seen += 1;
        let bytes = definition.bytes();
        while (self.last.len() >= Self::MOST || !self.bytes.has_room_for(bytes))
            && let Some(oldest) = self.last.pop_front()
        {
            self.bytes.give_back(oldest.bytes());
        }
        if self.bytes.has_room_for(bytes) {
            self.bytes.take(bytes);
            self.last.push_back(definition);
        } else {
            self.bytes.count_evicted();
        }
    }

    /// Applies what was defined since a reading began to the schema that was read.
    pub(super) fn apply_since(&self, reading: Reading, schema: &mut Schema) {
        for definition in self.since(reading) {
            // It fails where the reading has seen the change already.
            let _ = define(schema, &definition.cql, definition.keyspace.as_deref());
        }
    }

    fn since(&self, reading: Reading) -> impl Iterator<Item = &Definition> {
        let new = self
            .last
            .partition_point(|definition| definition.number < reading.0);
        self.last.range(new..)
    }
}

/// The moment at which a reading of the schema began: see
/// [`Live::begin_reading`](super::Live::begin_reading).
#[derive(Debug, Clone, Copy)]
pub struct Reading(u64);

/// Applies one definition, or says why it does not fit.
pub(super) fn define(schema: &mut Schema, cql: &str, keyspace: Option<&str>) -> Result<(), String> {
    let statement = syntax::parse(cql).map_err(|error| error.to_string())?;
    schema
        .apply(&statement, keyspace)
        .map_err(|error| error.to_string())
}
