#![doc = include_str!("../README.md")]

mod direction;
mod files;
mod losses;
mod packets;
mod probe;
mod resync;
mod tcp;
#[cfg(test)]
mod testing;
mod tls;

#[cfg(target_os = "linux")]
pub use files::{ANY_INTERFACE, LiveInterface};
pub use files::{Captures, FileError, Next, OpenError, Options, Packet, Progress, Records};
pub use losses::{ClockDifferences, Losses, TlsServer};
pub use packets::{PacketReader, Segment, SkippedPackets, Unread, UnreadPackets};
pub use tcp::{MAX_CONNECTIONS, TcpConnections};
pub use tls::{KeyLog, TlsTrouble};
