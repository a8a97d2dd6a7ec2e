//! `--topology cluster`: clients learn the addresses of cqlens' listeners in place of the nodes' own.
//!
//! The only part of the data path that rewrites. [`Addresses`] says which listener stands for which node; whoever discovers the
//! cluster replaces it, the connections read it.
//!
//! ```text
//! client ──> requests ─────────────────────────────────────────────> node   followed, never changed
//!               │ reading: does the text read system.local, peers, …?
//!               v
//!            shared, prepared: which answers name nodes
//!               │
//! client <── responses <── segments <── walk <────────────────────── node   held only where they may name nodes
//!               └── answer ── rows, cell: whose address, and what stands in its place
//! ```
//!
//! Every answer falls on one side: it is known to name no nodes and passes as it comes; it names them and is rewritten, or becomes an
//! error; or nothing tells, and it is looked at. What can be told only in part passes, is counted, and the log says so ([`Counts`]).
//! Memory: an envelope that is held has at most 16 MiB, on the wire and uncompressed, and an opened segment 128 KiB; all envelopes that
//! are held, on all connections, 256 MiB with their copies.

mod addresses;
mod answer;
mod cell;
mod counts;
mod missing;
mod node;
mod prepared;
mod reading;
mod requests;
mod responses;
mod room;
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
