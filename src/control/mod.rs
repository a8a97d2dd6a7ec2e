//! The control connection: what cqlens asks nodes by itself, over connections of its own.
//!
//! [`follow`] keeps the catalog in step with the cluster; a [`SystemReader`] reads system tables, traces and
//! histograms. Nothing here sees the traffic that passes.

mod clients;
mod contacts;
mod follow;
mod histograms;
mod read;
mod reader;
mod trace;

pub use clients::{NodeClient, SeeClients};
pub use contacts::Contacts;
pub use follow::{follow, follow_any, reach};
pub use reader::SystemReader;
