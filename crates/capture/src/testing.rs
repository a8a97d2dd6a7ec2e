//! Captures for tests.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use cqlens_proto::envelope::Direction;

use super::{Capture, Connection, ConnectionId, Moment};

/// A capture of `length` bytes, the `number`th.
pub(super) fn capture(number: u64, length: usize) -> Capture {
    let client = "10.0.0.1:40000".parse().unwrap();
    Capture {
        connection: Arc::new(Connection::recorded(ConnectionId(0), client)),
        direction: Direction::Request,
        at: Moment::from_unix_nanoseconds(0),
        gap: 0,
        bytes: vec![0; length].into(),
        boundary: None,
        begun: number,
        after_gap: None,
        request_gaps: 0,
    }
}
