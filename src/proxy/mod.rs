//! The data path: accepts clients, pairs each with a connection to the upstream, and moves bytes.
//!
//! ```text
//! listener ──> accepted ──> session ──> duplex ──> pump ──> tap (capture)
//!    │            │            │
//!  accept      admission     drain, idle, login: what ends a connection from outside
//!  backlog     refusal       rewrite_mode: bytes as they came, or with other addresses (topology)
//!  workers     upstream_health, resolve, socket, transparent: the way to the node
//! ```
//!
//! What is absent on purpose: decoding, rewriting (except in [`topology`], where the operator asks for it),
//! and any wait for the audit.

mod accept;
mod accepted;
mod admission;
mod backlog;
mod backpressure;
mod chunks;
mod close;
mod context;
mod drain;
mod duplex;
mod idle;
mod keepalive;
mod listener;
mod login;
mod networks;
mod notices;
mod policy;
mod proxy_header;
mod pump;
mod rate;
mod refusal;
mod resolve;
mod rewrite_mode;
mod route;
mod session;
mod socket;
pub mod topology;
mod transparent;
mod upstream_health;
mod wake_flag;
mod workers;

pub use admission::AdmissionControl;
pub use context::Proxy;
pub use drain::{Drain, DrainSwitch, Drained};
pub use listener::Backlog;
pub use networks::ClientNetworks;
pub use policy::Policy;
pub use proxy_header::LOCAL as PROXY_PROTOCOL_LOCAL;
pub use refusal::ANSWERED_AT_A_TIME as REFUSALS_AT_A_TIME;
pub use route::Route;
pub use transparent::{Transparent, is_local};
pub use workers::Workers;
