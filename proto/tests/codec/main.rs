//! What holds for all messages, versions, types and bytes: they come back as they were, in any chunks, and nothing makes the
//! codec panic or allocate without need.
//!
//! One test binary: the generators of messages are most of what there is to build.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed"
)]

mod allocations;
mod never_panics;
mod round_trip;
mod split;
mod support;
