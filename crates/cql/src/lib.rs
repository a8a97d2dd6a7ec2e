//! CQL without a cluster: which partitions does this statement touch?
//!
//! [`syntax`] reads text into statements and templates, [`schema`] holds the tables that they are about, a [`plan`] decides as
//! Cassandra does what a statement reads or writes, and a [`footprint`] is what that comes to once values are bound.
//! No sockets, no files, no clock.

pub mod cells;
pub mod footprint;
pub mod murmur3;
pub mod plan;
pub mod schema;
pub mod syntax;
