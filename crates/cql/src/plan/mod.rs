//! Plans: what a statement does under a schema, compiled once, and which partitions an execution of it
//! touches.
//!
//! A [`Plan`] mirrors what Cassandra decides when it prepares a statement (`StatementRestrictions`,
//! `SelectStatement`, `ModificationStatement`, `BatchStatement`, `TransactionStatement`): 6.0, and through
//! [`Plan::on`] 5.0, which refuses some of it. [`Plan::footprint`] then does what
//! Cassandra does with the bound values. Plans hold no values and no text, and know neither connections nor
//! windows.
//!
//! ```text
//! ast::Statement ─┐
//! Schema ─────────┴─> Plan ── facts, flags, tables, refusal
//!                      │ + Values
//!                      └─────> Footprint, Keys
//! ```

mod batch;
mod batch_sum;
mod cells;
mod checks;
mod clustering;
mod compile;
mod conclusions;
mod constants;
mod execution;
mod facts;
mod flag;
mod foreseen;
mod hints;
mod index;
mod json;
mod keys;
mod kind;
mod limits;
mod markers;
mod modification;
mod planning;
mod prepared;
mod refusal;
mod restriction;
mod restrictions;
mod rows;
mod select;
mod selector;
mod shape;
mod target;
mod term;
#[cfg(test)]
mod tests;
mod text_facts;
mod token;
mod touched;
mod transaction;
mod translator;
mod value;
mod where_clause;

pub use batch::summed;
pub use batch_sum::BatchSum;
pub use constants::ConstantTypes;
pub use facts::{DeleteKind, Facts, SchemaFacts};
pub use flag::Flag;
pub use kind::StatementKind;
pub use limits::ReadLimits;
pub use markers::Markers;
pub use refusal::{Absent, Refusal, Stage};
pub use shape::Plan;
pub use transaction::{
    TransactionFacts, TransactionFootprint, TransactionReturns, TransactionTables, reads_itself,
};
