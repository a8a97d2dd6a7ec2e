//! cqlens itself: the way of an EXECUTE to its footprint.

use cqlens_cql::footprint::{Count, Keys};
use cqlens_cql::plan::Plan;
use cqlens_cql::schema::Schema;
use cqlens_cql::syntax;
use cqlens_proto::envelope::Envelope;
use cqlens_proto::message::{Extensions, Request};

use crate::cqlens_does;
use crate::inputs::{Prepared, SCHEMA};

/// What the audit keeps of a prepared statement, and an EXECUTE of it.
pub struct Audit {
    plan: Plan,
    keys: Keys,
    execute: Envelope,
}

impl Audit {
    /// After the statement was prepared, and executed once: buffers have their size.
    pub fn of(prepared: &Prepared) -> Self {
        let schema = Schema::from_cql(SCHEMA).expect("the schema is CQL");
        let statement = syntax::parse(prepared.statement).expect("it is CQL");
        let mut audit = Self {
            plan: Plan::of(&statement, None, &schema),
            keys: Keys::new(),
            execute: cqlens_does::envelope(&prepared.execute).expect("it is an envelope"),
        };
        audit.footprint();
        audit
    }

    /// From the EXECUTE to its footprint: how many partitions, and their tokens.
    pub fn footprint(&mut self) -> Option<u64> {
        let execute = std::hint::black_box(&self.execute);
        let Request::Execute(execute) = Request::decode(execute, Extensions::NONE).ok()?.message else {
            return None;
        };
        self.keys.clear();
        match self
            .plan
            .footprint(&execute.parameters.values, &mut self.keys)
            .count
        {
            Count::Exact(count) => Some(count),
            _ => None,
        }
    }
}
