//! What `cqlens sniff` promises: of a capture it says what the proxy says of the same traffic, and of an ugly
//! one nothing that was not there.
//!
//! The captures in `captures/` are those of real drivers; see its README. Others are made here, out of bytes
//! that passed a relay.

use cqlens_testing as support;

use crate::{proxy::certificates, verdict};

mod bad_input;
mod contact;
mod conversation;
mod deploy;
mod encrypted;
mod forms;
mod handed_on;
mod live;
mod lost;
mod metadata_ids;
mod mutated;
mod mutator;
mod oracle;
mod packets;
mod progress;
mod report;
mod rewrapped;
mod rewrapping;
mod rotated;
mod same_report;
mod sessions;
mod snap_length;
#[allow(clippy::module_inception, reason = "the command, among what is said of it")]
mod sniff;
mod tcp;
mod together;
mod tunnels;
mod twice;
