//! `--topology cluster`: clients learn the addresses of cqlens' listeners in place of the nodes' own.
//!
//! The only part of the data path that rewrites. [`Addresses`] says which listener stands for which node; whoever discovers the
//! cluster replaces it, the connections read it.

mod addresses;

pub use addresses::{Addresses, Known, NodeAddress, PATIENCE, Pairing};
