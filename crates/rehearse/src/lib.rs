#![doc = include_str!("../README.md")]

pub mod compare;
pub mod digest;
pub mod exchange;
pub mod gate;
pub mod rehearsal;
pub mod skipped;
pub mod statement;
pub mod target;
#[cfg(test)]
mod testing;
