//! Writes: statements become mutations, conditions are checked, and the mutations are applied to the store.

mod assignment;
pub(super) mod batch;
pub(super) mod condition;
mod insert;
pub(super) mod modification;
pub(super) mod mutation;
mod targets;
mod times;
