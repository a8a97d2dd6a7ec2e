//! Packet captures as a source of the audit, with nothing in the path of the traffic.
//!
//! ```text
//! source → file → merge → link → flows (flow: tcp, side: resync) → capture::Feed
//! bytes    packets  in time  segments  connections                 captures
//! ```
//! All of it waits for the audit instead of leaving anything out. What the capture itself lacks is counted.

mod file;
mod flow;
mod flows;
mod four_tuple;
mod link;
mod losses;
mod probe;
mod resync;
mod side;
mod slabs;
mod source;
mod tcp;
#[cfg(test)]
mod testing;

pub use file::{FileError, Packet, Records};
pub use flows::{Flows, MAX_CONNECTIONS};
pub use link::{Packets, Passed, Segment};
pub use losses::Losses;
pub use source::{Captures, Next, OpenError, Options, Progress};
