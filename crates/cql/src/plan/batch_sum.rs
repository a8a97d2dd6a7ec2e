//! What the statements of one batch touch together, and what Cassandra lets stand in one batch.

use std::sync::Arc;

use crate::syntax::ast::BatchKind;

use super::keys::Counted;
use super::refusal::Refusal;
use super::shape::{Plan, Shape};
use super::touched::Touched;
use crate::footprint::{Footprint, Keys};
use crate::{footprint::Reason, schema::TableName};

/// The sum of the statements of a batch: add each of them, then ask for the footprint.
///
/// All of them push their keys to one buffer, which is clear before the first.
#[derive(Debug)]
pub struct BatchSum {
    pub(super) rules: Rules,
    generated: u64,
    /// Whether one of them has a key, be it known or not.
    has_key: bool,
    incomplete: Option<Reason>,
    is_bound: bool,
    unknown: Option<Reason>,
}

impl BatchSum {
    /// No statement yet.
    pub fn new(kind: BatchKind) -> Self {
        Self {
            rules: Rules::new(kind),
            generated: 0,
            has_key: false,
            incomplete: None,
            is_bound: false,
            unknown: None,
        }
    }

    /// Adds a statement of which nothing is known.
    pub fn add_unknown(&mut self, reason: Reason) {
        self.unknown = self.unknown.or(Some(reason));
    }

    /// The distinct (table, key) pairs of the batch.
    ///
    /// # Errors
    ///
    /// The refusal of statements that must not stand in one batch.
    pub fn footprint(&self, keys: &Keys) -> Result<Footprint, Refusal> {
        self.rules.check()?;
        self.touched(keys).map(Touched::footprint)
    }

    /// Distinct keys, whatever their table: what Cassandra's own warning about batches counts.
    pub fn distinct_keys(&self, keys: &Keys) -> u64 {
        let mut bytes: Vec<&[u8]> = keys.iter().map(|key| key.bytes).collect();
        bytes.sort_unstable();
        bytes.dedup();
        bytes.len() as u64 + self.generated
    }

    pub(super) fn add_touched(&mut self, touched: Touched) {
        match touched {
            Touched::Counted(counted) => {
                self.generated += counted.generated;
                self.has_key |= counted.named > 0;
                // Keys that nobody listed may be among the listed ones, unless the server made them up just
                // now.
                let all_generated = counted.generated == counted.named;
                self.is_bound |= counted.is_bound || (counted.incomplete.is_some() && !all_generated);
                self.incomplete = self.incomplete.or(counted.incomplete);
            }
            Touched::Unknown(reason) => self.add_unknown(reason),
            // No modification reads a range.
            Touched::Scan | Touched::TokenRange(_) | Touched::Index => self.is_bound = true,
        }
    }

    pub(super) fn touched(&self, keys: &Keys) -> Result<Touched, Refusal> {
        let named = (keys.len() as u64 + self.generated).max(u64::from(self.has_key));
        if let (Some(reason), 0) = (self.unknown, named) {
            return Ok(Touched::Unknown(reason));
        }
        let is_bound = self.is_bound || self.unknown.is_some();
        if self.rules.conditional && named > 1 && !is_bound {
            let message = "Batch with conditions cannot span multiple partitions";
            return Err(Refusal::bind(Reason::InvalidStatement, message));
        }
        let incomplete = self.incomplete.or(self.unknown);
        Ok(Touched::Counted(Counted {
            named,
            generated: self.generated,
            incomplete,
            is_bound,
        }))
    }
}

/// What Cassandra asks of the statements of a batch: `BatchStatement.validate`.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    kind: BatchKind,
    /// `USING` of the batch as a whole.
    pub(super) timestamp: bool,
    pub(super) ttl: bool,
    statements: usize,
    counters: usize,
    pub(super) conditional: bool,
    timestamps: bool,
    table: Option<Arc<TableName>>,
    several_tables: bool,
}

impl Rules {
    pub(super) fn new(kind: BatchKind) -> Self {
        Self {
            kind,
            timestamp: false,
            ttl: false,
            statements: 0,
            counters: 0,
            conditional: false,
            timestamps: false,
            table: None,
            several_tables: false,
        }
    }

    pub(super) fn add(&mut self, plan: &Plan) -> Result<(), Refusal> {
        if matches!(
            plan.shape,
            Shape::Read(_)
                | Shape::Batch(_)
                | Shape::Transaction(_)
                | Shape::Unknown(Reason::NotApplicable, _)
        ) {
            let message =
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.";
            return Err(Refusal::new(message));
        }
        self.statements += 1;
        self.counters += usize::from(plan.facts.schema.as_ref().is_some_and(|schema| schema.counter));
        self.conditional |= plan.facts.lwt;
        self.timestamps |= plan.facts.timestamp_set;
        if let Some((table, _)) = plan.tables.first() {
            self.several_tables |= self.table.as_ref().is_some_and(|first| first != table);
            self.table.get_or_insert_with(|| Arc::clone(table));
        }
        Ok(())
    }

    pub(super) fn writes_counters(&self) -> bool {
        self.counters > 0
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        let is_counter = self.kind == BatchKind::Counter;
        let message = if self.ttl {
            "Global TTL on the BATCH statement is not supported."
        } else if self.timestamp && self.conditional {
            "Cannot provide custom timestamp for conditional BATCH"
        } else if self.timestamp && is_counter {
            "Cannot provide custom timestamp for counter BATCH"
        } else if self.timestamp && self.timestamps {
            "Timestamp must be set either on BATCH or individual statements"
        } else if self.timestamp && self.counters > 0 {
            "Cannot provide custom timestamp for a BATCH containing counters"
        } else if is_counter && self.counters < self.statements {
            "Cannot include non-counter statement in a counter batch"
        } else if self.counters > 0 && self.counters < self.statements {
            "Counter and non-counter mutations cannot exist in the same batch"
        } else if self.kind == BatchKind::Logged && self.counters > 0 {
            "Cannot include a counter statement in a logged batch"
        } else if self.conditional && self.several_tables {
            "Batch with conditions cannot span multiple tables"
        } else {
            return Ok(());
        };
        Err(Refusal::new(message))
    }
}
