//! The memory that cqlens may keep besides its connections: one budget, divided into parts by fixed shares.
//!
//! Whoever keeps bytes counts them in its [`Part`], and evicts or leaves out where the part is full. Parts
//! are read at any time, without a lock. A part counts what is kept between two requests or windows; what one
//! step of work needs for a moment is not in it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use serde::Serialize;

/// The budget of a process; its clones are the same one.
#[derive(Debug, Clone)]
pub struct Memory {
    budget: usize,
    parts: Arc<[Part; USES.len()]>,
}

/// What memory is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Captures that wait for the auditors.
    Queue,
    /// Requests in flight, and envelopes that are being joined.
    Connections,
    /// Exchanges that wait for the schema, or for a prepared statement to be found.
    Deferred,
    /// Statements that are kept with their plans.
    Statements,
    /// Prepared statements by id.
    Prepared,
    /// The schema, and what is kept to bring it up to date.
    Schema,
    /// What the control connection has read and is not done with.
    ControlConnection,
    /// The window that is being filled.
    Window,
    /// The window over everything since the start, which the report shows.
    Report,
    /// Windows that wait to be written.
    Writer,
    /// Requests on their way to a second cluster or into a recording, and what is known of both. Other uses leave it a
    /// quarter of the budget of a process that has it.
    Rehearsal,
}

/// Each use with its name in reports and in `/readyz`, and its share in 32nds of the budget, or of what is left of it.
const USES: [(Use, &str, usize); 11] = [
    (Use::Queue, "queue", 5),
    (Use::Connections, "connections", 5),
    (Use::Deferred, "deferred", 1),
    (Use::Statements, "statements", 4),
    (Use::Prepared, "prepared", 2),
    (Use::Schema, "schema", 3),
    (Use::ControlConnection, "control-connection", 2),
    (Use::Window, "window", 4),
    (Use::Report, "report", 4),
    (Use::Writer, "writer", 2),
    (Use::Rehearsal, "rehearsal", 0),
];

impl Default for Memory {
    fn default() -> Self {
        Self::of(Self::DEFAULT)
    }
}

impl Memory {
    /// Beside the 160 MiB of 16,384 idle connections it leaves a container of 512 MiB some room.
    pub const DEFAULT: usize = 256 << 20;

    /// Less holds neither the schema of a usual cluster nor a window.
    pub const LEAST: usize = 32 << 20;

    /// A budget of so many bytes.
    pub fn of(budget: usize) -> Self {
        Self::divided(budget, 0)
    }

    /// A budget of so many bytes, a quarter of it for a rehearsal.
    pub fn with_rehearsal(budget: usize) -> Self {
        Self::divided(budget, budget / 4)
    }

    fn divided(budget: usize, rehearsal: usize) -> Self {
        let parts = USES.map(|(of, name, share)| match of {
            Use::Rehearsal => Part::new(name, rehearsal),
            _ => Part::new(name, (budget - rehearsal) / 32 * share),
        });
        Self {
            budget,
            parts: Arc::new(parts),
        }
    }

    /// The part for one use.
    pub fn part(&self, of: Use) -> Part {
        self.parts[of as usize].clone()
    }

    /// The longest statement that is parsed, in bytes: while it is, it takes up to 170 times as many.
    pub fn longest_statement(&self) -> usize {
        self.budget / 512
    }

    /// What was evicted or left out since the last call, by the name of the part; parts without any are left
    /// out.
    pub fn take_evicted(&self) -> BTreeMap<String, u64> {
        let evicted = self
            .parts
            .iter()
            .map(|part| (part.0.name.to_owned(), part.take_evicted()));
        evicted.filter(|(_, count)| *count > 0).collect()
    }

    /// How much of the budget is in use, and by what.
    pub fn status(&self) -> MemoryStatus {
        let parts = self.parts.iter().filter(|part| part.limit() > 0);
        let parts: Vec<_> = parts.map(Part::status).collect();
        MemoryStatus {
            budget_bytes: self.budget,
            used_bytes: parts.iter().map(|part| part.used_bytes).sum(),
            parts,
        }
    }
}

/// One use's part of the budget; its clones are the same one.
#[derive(Debug, Clone)]
pub struct Part(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    name: &'static str,
    limit: usize,
    used: AtomicUsize,
    evicted: AtomicU64,
    /// Of `evicted`, what was taken with [`Memory::take_evicted`].
    taken: AtomicU64,
}

impl Part {
    /// A part that belongs to no budget.
    pub fn new(name: &'static str, limit: usize) -> Self {
        Self(Arc::new(Counters {
            name,
            limit,
            used: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }))
    }

    /// Bytes that may be used.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Whether so many bytes fit beside those in use.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) <= self.limit()
    }

    /// Counts so many bytes more.
    pub fn take(&self, bytes: usize) {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts so many bytes less.
    pub fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Says how many bytes are in use, where one thread alone knows.
    pub fn set(&self, bytes: usize) {
        self.0.used.store(bytes, Ordering::Relaxed);
    }

    /// Counts what had to go, or was not let in, because the part was full.
    pub fn count_evicted(&self, count: u64) {
        self.0.evicted.fetch_add(count, Ordering::Relaxed);
    }

    /// What had to go, or was not let in, since the start.
    pub fn evicted(&self) -> u64 {
        self.0.evicted.load(Ordering::Relaxed)
    }

    fn take_evicted(&self) -> u64 {
        let evicted = self.evicted();
        evicted - self.0.taken.swap(evicted, Ordering::Relaxed).min(evicted)
    }

    fn status(&self) -> PartStatus {
        PartStatus {
            name: self.0.name,
            used_bytes: self.used(),
            limit_bytes: self.limit(),
            evicted: self.evicted(),
        }
    }
}

/// How much of the budget is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryStatus {
    /// The budget.
    pub budget_bytes: usize,
    /// All parts together.
    pub used_bytes: usize,
    /// Each part.
    pub parts: Vec<PartStatus>,
}

/// How much of a part is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartStatus {
    /// What it is for.
    pub name: &'static str,
    /// Bytes in use.
    pub used_bytes: usize,
    /// Bytes that may be in use.
    pub limit_bytes: usize,
    /// What had to go, or was not let in, since the start.
    pub evicted: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_make_up_the_budget_and_each_use_has_its_own() {
        assert_eq!(USES.iter().map(|(_, _, share)| share).sum::<usize>(), 32);
        for (place, (of, _, _)) in USES.iter().enumerate() {
            assert_eq!(*of as usize, place);
        }
        for memory in [Memory::of(64 << 20), Memory::with_rehearsal(64 << 20)] {
            let status = memory.status();
            let limits: usize = status.parts.iter().map(|part| part.limit_bytes).sum();
            assert_eq!((status.budget_bytes, limits), (64 << 20, 64 << 20));
        }
    }

    #[test]
    fn a_rehearsal_has_a_quarter_if_there_is_one() {
        let limit = |memory: Memory| memory.part(Use::Rehearsal).limit();
        assert_eq!(limit(Memory::of(64 << 20)), 0);
        assert_eq!(limit(Memory::with_rehearsal(64 << 20)), 16 << 20);
        assert_eq!(Memory::of(64 << 20).status().parts.len(), USES.len() - 1);
    }

    #[test]
    fn what_was_evicted_is_taken_once_and_shown_for_ever() {
        let memory = Memory::default();
        let part = memory.part(Use::Prepared);
        part.take(100);
        part.count_evicted(3);
        assert_eq!(memory.take_evicted(), [("prepared".to_owned(), 3)].into());
        assert_eq!(memory.take_evicted(), BTreeMap::new());
        part.give_back(40);
        let status = memory.status();
        let shown = &status.parts[Use::Prepared as usize];
        assert_eq!((shown.used_bytes, shown.evicted, status.used_bytes), (60, 3, 60));
    }
}
