//! Prepared statements by their ids, from all clients.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use cqlens_cql::plan::Markers;
use cqlens_proto::types::CqlType;
use dashmap::DashMap;
use tokio::sync::Notify;

use super::wanted::{Id, WantedIds};
use cqlens_capture::memory::Part;

/// What is known of a prepared statement.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedStatement {
    /// Its text.
    pub cql: Arc<str>,
    /// The keyspace in which it was prepared: that of unqualified names.
    pub keyspace: Option<Arc<str>>,
    /// What PREPARED said of its markers; none for statements that were found in
    /// `system.prepared_statements`.
    pub markers: Option<Markers>,
}

impl PreparedStatement {
    /// A statement of which only the text is known.
    pub fn from_text(cql: String, keyspace: Option<String>) -> Self {
        Self {
            cql: cql.into(),
            keyspace: keyspace.map(Into::into),
            markers: None,
        }
    }
}

/// How many statements are kept. Cassandra's own cache holds a few tens of thousands.
pub const MAX_PREPARED: usize = 100_000;

/// All prepared statements of a cluster: written and read by every auditor, filled by the control connection.
#[derive(Debug)]
pub struct PreparedStatements {
    by_id: DashMap<Box<[u8]>, Arc<PreparedStatement>>,
    memory: Part,
    /// Statements that were kept, also those that were there already.
    learned: AtomicU64,
    wanted: Mutex<WantedIds>,
    wake: Notify,
}

impl PreparedStatements {
    /// No statements; they may take up as much as `memory` has.
    pub fn within(memory: Part) -> Self {
        Self {
            by_id: DashMap::new(),
            memory,
            learned: AtomicU64::new(0),
            wanted: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// The statement with the id.
    pub fn get(&self, id: &[u8]) -> Option<Arc<PreparedStatement>> {
        self.by_id.get(id).map(|entry| Arc::clone(&entry))
    }

    /// Keeps a statement, unless it is too large; what a PREPARED result said of its markers is not
    /// forgotten.
    pub fn insert(&self, id: &[u8], statement: PreparedStatement) {
        if statement.markers.is_none() && self.by_id.contains_key(id) {
            return;
        }
        let bytes = weight(id, &statement);
        if bytes > self.memory.limit() / LARGEST {
            self.memory.count_evicted(1);
            return;
        }
        while !self.by_id.is_empty() && !self.has_room_for(bytes) {
            self.make_room();
        }
        self.memory.take(bytes);
        if let Some(before) = self.by_id.insert(id.into(), Arc::new(statement)) {
            self.memory.give_back(weight(id, &before));
        }
        self.wanted().found(id);
        // After the statement is there: who sees the number finds it.
        self.learned.fetch_add(1, Ordering::Release);
    }

    /// How many statements were kept so far.
    pub(super) fn learned(&self) -> u64 {
        self.learned.load(Ordering::Acquire)
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.by_id.len() < MAX_PREPARED && self.memory.has_room_for(bytes)
    }

    /// Evicts a sixteenth of the statements, one at least, any of them: the control connection finds them
    /// again when they are used.
    fn make_room(&self) {
        let (mut count, mut bytes, mut evicted) = (0_usize, 0, 0);
        self.by_id.retain(|id, statement| {
            count += 1;
            let stays = count % 16 != 1;
            if !stays {
                bytes += weight(id, statement);
                evicted += 1;
            }
            stays
        });
        self.memory.give_back(bytes);
        self.memory.count_evicted(evicted);
    }

    /// Bytes that ids, texts and markers take up, about.
    pub fn bytes(&self) -> usize {
        self.memory.used()
    }

    /// Statements that were evicted, or too large to be kept.
    pub fn evicted(&self) -> u64 {
        self.memory.evicted()
    }

    /// Asks the control connection to look for an id that the server has executed and that is not known. Ids
    /// that are no digests are not looked for, nor are those that were not found a moment ago.
    pub fn want(&self, id: &[u8]) {
        let Ok(id) = Id::try_from(id) else { return };
        if !self.by_id.contains_key(id.as_slice()) && self.wanted().want(id) {
            self.wake.notify_one();
        }
    }

    /// Waits until an id is wanted that was not before.
    pub async fn wanted_changed(&self) {
        self.wake.notified().await;
    }

    /// To be called before the server's statements are read.
    pub fn begin_look(&self) {
        self.wanted().begin_look();
    }

    /// The server's statements were read: whether anything was wanted, and nothing of it found.
    pub fn end_look(&self) -> bool {
        self.wanted().end_look()
    }

    /// Lets ids be looked for again that were not found before the last call.
    pub fn forget_missed(&self) {
        self.wanted().forget_missed();
    }

    fn wanted(&self) -> std::sync::MutexGuard<'_, WantedIds> {
        // Nothing that holds the lock can panic.
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No statement takes up more than one part in so many of the memory.
const LARGEST: usize = 8;

/// About how many bytes a statement takes up.
fn weight(id: &[u8], statement: &PreparedStatement) -> usize {
    const EACH: usize = 320;
    let columns = statement.markers.iter().flat_map(|markers| &markers.columns);
    let columns = columns.map(|(name, of)| 64 + name.len() + type_weight(of));
    let markers = statement.markers.as_ref();
    let key = markers.map_or(0, |markers| 2 * markers.partition_key.len());
    EACH + id.len() + statement.cql.len() + key + columns.sum::<usize>()
}

fn type_weight(of: &CqlType) -> usize {
    const EACH: usize = 48;
    EACH + match of {
        CqlType::List(element) | CqlType::Set(element) | CqlType::Vector(element, _) => type_weight(element),
        CqlType::Map(both) => type_weight(&both.0) + type_weight(&both.1),
        CqlType::Tuple(components) => components.iter().map(type_weight).sum(),
        CqlType::Udt(udt) => {
            let fields = udt
                .fields
                .iter()
                .map(|(name, of)| 32 + name.len() + type_weight(of));
            64 + udt.keyspace.len() + udt.name.len() + fields.sum::<usize>()
        }
        CqlType::Custom(class) => class.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_statements_take_up_no_more_than_their_share() {
        let part = Part::new("test", 32 << 20);
        let statements = PreparedStatements::within(part.clone());
        let text = "x".repeat(1 << 20);
        for id in 0_u32..300 {
            statements.insert(
                &id.to_be_bytes(),
                PreparedStatement::from_text(text.clone(), None),
            );
            assert!(part.used() <= part.limit());
        }
        assert!(
            statements.get(&299_u32.to_be_bytes()).is_some(),
            "the newest is there"
        );
        assert_eq!(statements.by_id.len() as u64 + statements.evicted(), 300);
        // Said again it is not counted again.
        let before = statements.bytes();
        let again = PreparedStatement {
            markers: Some(Markers::default()),
            ..PreparedStatement::from_text(text, None)
        };
        statements.insert(&299_u32.to_be_bytes(), again);
        assert_eq!(statements.bytes(), before);
    }

    #[test]
    fn a_statement_that_would_evict_many_others_is_not_kept() {
        let part = Part::new("test", 1 << 20);
        let statements = PreparedStatements::within(part.clone());
        statements.insert(b"short", PreparedStatement::from_text("SELECT".to_owned(), None));
        statements.insert(b"long", PreparedStatement::from_text("x".repeat(1 << 19), None));
        assert!(statements.get(b"short").is_some() && statements.get(b"long").is_none());
        assert_eq!(part.evicted(), 1);
        // What a server says of markers counts as well.
        let wide = CqlType::Tuple(vec![CqlType::Int; 10_000]);
        let markers = Markers {
            columns: vec![("a".to_owned(), wide)],
            ..Markers::default()
        };
        let statement = PreparedStatement {
            markers: Some(markers),
            ..PreparedStatement::from_text("SELECT".to_owned(), None)
        };
        statements.insert(b"wide", statement);
        assert!(statements.get(b"wide").is_none());
    }
}
