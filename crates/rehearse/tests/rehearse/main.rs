//! From requests on the wire or in a log to recordings, from there to another cluster, and what the comparison says.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed"
)]

mod convert;
mod full_query_log;
mod recording;
mod rehearsal;
mod routing;
mod support;
mod target;
mod wire;
