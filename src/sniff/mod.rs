//! Packet captures as a source of the audit, with nothing in the path of the traffic.
//!
//! ```text
//! source → file → merge → link → flows (flow: tcp, side: resync) → capture::Feed
//! bytes    packets  in time  segments  connections                 captures
//! ```
//! All of it waits for the audit instead of leaving anything out. What the capture itself lacks is counted.

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
