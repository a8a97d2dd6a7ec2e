//! `--topology cluster`: clients learn the addresses of cqlens' listeners in place of the nodes' own.
//!
//! The only part of the data path that rewrites. [`Addresses`] says which listener stands for which node:
//! discovery replaces it, and connections read it.
//!
//! ```text
//! client ──> requests ─────────────────────────────────────────────> node   followed, never changed
//!               │ select_shape: does the text read system.local, peers, …?
//!               v
//!            shared, prepared: which answers name nodes
//!               │
//! client <── responses <── segments <── walk <────────────────────── node   held only where they may name nodes
//!               └── response_rewriter ── rows, cell: which node, and what replaces its address
//! ```
//!
//! A response that names no nodes passes as it comes. One that names nodes is rewritten, or becomes an error.
//! Where the request does not say which, the response itself is examined. Addresses in a form that is not
//! rewritten (`SELECT JSON`, `CAST`, functions) pass, are counted, and the log says so ([`Counts`]). Memory:
//! an envelope that is held has at most 16 MiB, on the wire and uncompressed, and an opened segment 128 KiB;
//! all envelopes that are held, on all connections, 256 MiB with their copies.

mod addresses;
mod cell;
mod counts;
mod hold_budget;
mod known_nodes;
mod missing;
mod node;
mod pending;
mod prepared;
mod requests;
mod response_rewriter;
mod responses;
mod rows;
mod segments;
mod select_shape;
mod shared;
mod walk;

pub use addresses::{Addresses, PATIENCE, Pairing};
pub use counts::Counts;
pub use known_nodes::{KnownNodes, NodeAddress};
pub(super) use requests::Requests;
pub(super) use responses::Responses;
pub(super) use shared::Shared;
pub(super) use walk::Unreadable;

#[cfg(test)]
mod tests;
