//! CQL without a cluster: which partitions does a statement touch?
//!
#![doc = include_str!("../README.md")]

pub mod cells;
pub mod footprint;
pub mod murmur3;
pub mod plan;
mod product;
pub mod schema;
mod server_version;
pub mod syntax;

pub use product::Product;
pub use server_version::ServerVersion;
