//! Packet captures as a source of the audit, with nothing in the path of the traffic.
//!
//! ```text
//! files → packets → tcp ────────────────────→ direction ──────────→ capture::ReplayTap
//! pcap,    link      connections, in order,    in sync, or resync
//! by time  layers    gaps
//! ```
//! Reading waits for the audit instead of dropping anything. What the capture itself lacks is counted in
//! [`Losses`].

mod direction;
mod files;
mod losses;
mod packets;
mod probe;
mod resync;
mod tcp;
#[cfg(test)]
mod testing;

pub use files::{Captures, FileError, Next, OpenError, Options, Packet, Progress, Records};
pub use losses::Losses;
pub use packets::{PacketReader, Segment, SkippedPackets};
pub use tcp::{MAX_CONNECTIONS, TcpConnections};
