//! What is the same for all executions of a statement: analysed once, found by text, by prepared id, or by
//! the statements of a batch.

pub(crate) mod analysis;
pub(crate) mod batch;
pub(crate) mod cache;
pub(crate) mod ids;
