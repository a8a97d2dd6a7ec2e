#![doc = include_str!("../README.md")]

pub mod budget;
pub mod column_types;
pub mod compare;
pub mod convert;
pub mod digest;
pub mod effect;
pub mod exchange;
pub mod full_query_log;
pub mod gate;
pub mod left_out;
pub mod observe;
mod pages;
pub mod recording;
pub mod rehearsal;
pub mod rename;
pub mod replay;
pub mod shadow;
pub mod skipped;
pub mod statement;
pub mod target;
#[cfg(test)]
mod testing;
mod text;
