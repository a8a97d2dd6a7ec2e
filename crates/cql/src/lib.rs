//! CQL without a cluster: which partitions does a statement touch?
//!
#![doc = include_str!("../README.md")]

pub mod cells;
pub mod footprint;
pub mod murmur3;
pub mod plan;
mod product;
pub mod schema;
pub mod syntax;

pub use product::Product;
