//! How the process is at the moment of a scrape.

use cqlens_admin::Status;
use cqlens_capture::Forwarded;

/// What is read when Prometheus asks.
#[derive(Debug, Clone)]
pub struct Process {
    /// What `/readyz` shows to operators.
    pub status: Status,
    /// Connections of clients that may be open.
    pub max_connections: usize,
    /// Requests that were sent on to nodes.
    pub requests: Forwarded,
    /// Responses that were sent on to clients.
    pub responses: Forwarded,
    /// Requests that a recording lacks, by reason; none where nothing is recorded.
    pub recording_left_out: Option<Vec<(&'static str, u64)>>,
    /// Nodes that accept no connections.
    pub nodes_down: usize,
    /// Certificates in force.
    pub certificates: Vec<Certificate>,
    /// What the operating system says.
    pub usage: Usage,
    /// What became of exports to a collector of OpenTelemetry; none where there were none.
    pub exports: Option<Exports>,
}

/// Exports since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exports {
    /// The collector has taken everything.
    pub taken: u64,
    /// It has not.
    pub failed: u64,
}

/// A certificate that cqlens presents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// `clients`, `nodes` or `admin`: the side that it is presented to.
    pub presented_to: &'static str,
    /// The file.
    pub file: String,
    /// When it ends, in seconds since 1970.
    pub expires: i64,
}

/// What the operating system says of the process; none where it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// When it began, in seconds since 1970.
    pub began: f64,
    /// Processor time of all of its threads, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Memory that is in physical memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// File descriptors in use.
    pub open_descriptors: Option<u64>,
    /// File descriptors that it may have.
    pub max_descriptors: Option<u64>,
}
