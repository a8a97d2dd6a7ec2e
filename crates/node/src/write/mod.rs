//! Writes: statements become mutations, conditions are checked, and the mutations are applied to the store.

pub(crate) mod batch;
pub(crate) mod condition;
pub(crate) mod modification;
pub(crate) mod mutation;
