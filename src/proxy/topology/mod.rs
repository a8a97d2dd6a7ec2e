//! `--topology cluster`: clients learn the addresses of cqlens' listeners in place of the nodes' own.
//!
//! The only part of the data path that rewrites. [`Addresses`] says which listener stands for which node; whoever discovers the
//! cluster replaces it, the connections read it.

mod addresses;
mod answer;
mod cell;
mod counts;
mod json;
mod missing;
mod node;
mod prepared;
mod reading;
mod requests;
mod responses;
mod rows;
mod segments;
mod shared;
mod walk;

pub use addresses::{Addresses, Known, NodeAddress, PATIENCE, Pairing};
pub use counts::Counts;
pub(super) use requests::Requests;
pub(super) use responses::Responses;
pub(super) use shared::Shared;
pub(super) use walk::Unreadable;

#[cfg(test)]
mod tests;
