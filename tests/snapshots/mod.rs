//! Snapshots that are kept for long: their format, what they take up, and what becomes of them as they age.

pub(crate) mod fleet;
mod golden;
mod rolled_up;
mod shop;
mod wire;
mod year;
